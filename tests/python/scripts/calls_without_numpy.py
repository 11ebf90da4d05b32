"""Calls of fla_cpp with the standard library alone, held against the recurrence. Prints, as JSON, who took them, the
plugins, and the shared libraries that the module brought along."""

import ctypes
import json
import math


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),  # from here on DLManagedTensor
        ("deleter", ctypes.c_void_p),
    ]


class Array:
    """f32 on the CPU, for DLPack."""

    CPU, FLOAT = 1, 2

    def __init__(self, shape, value):
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.values = (ctypes.c_float * math.prod(shape))(*map(value, range(math.prod(shape))))
        data = ctypes.cast(self.values, ctypes.c_void_p)
        self.tensor = DLTensor(data, (self.CPU, 0), len(shape), self.FLOAT, 32, 1, self.shape, None, 0, None, None)

    def __dlpack_device__(self):
        return self.CPU, 0

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)

    def at(self, t, h, width):
        """The numbers of a token and a head, of shape [1, T, H, width]."""
        begin = (t * self.shape[2] + h) * width
        return self.values[begin : begin + width]


def recurrence(q, k, v, g, beta):
    """o [T, H, D] and the states [H, D, D] of kda."""
    _, T, H, D = q.shape
    states = [[[0.0] * D for _ in range(D)] for _ in range(H)]
    o = []
    for t in range(T):
        o.append([])
        for h, state in enumerate(states):
            key, query = k.at(t, h, D), q.at(t, h, D)
            for row, gate in zip(state, g.at(t, h, D)):
                row[:] = [math.exp(gate) * x for x in row]
            held = [sum(key[i] * state[i][j] for i in range(D)) for j in range(D)]
            (rate,) = beta.at(t, h, 1)
            change = [rate * (wanted - x) for wanted, x in zip(v.at(t, h, D), held)]
            for row, x in zip(state, key):
                row[:] = [a + x * b for a, b in zip(row, change)]
            o[t].append([D**-0.5 * sum(query[i] * state[i][j] for i in range(D)) for j in range(D)])
    return o, states


def largest_difference(result, expected):
    if isinstance(expected, list):
        assert len(result) == len(expected), (len(result), len(expected))
        return max(map(largest_difference, result, expected))
    return abs(result - expected)


def loaded():
    """Shared libraries of this process."""
    with open("/proc/self/maps") as lines:
        return {line.split()[-1] for line in lines if ".so" in line}


before = loaded()
import fla_cpp  # noqa: E402

T, H, D = 70, 2, 16
shape = [1, T, H, D]
q, k, v = (Array(shape, lambda i, n=n: math.sin(0.7 * i + n) / 3) for n in range(3))
g = Array(shape, lambda i: -0.05 * (1 + math.cos(i)))
beta = Array([1, T, H], lambda i: 0.5 + 0.4 * math.sin(i))
call = (q, k, v, g, beta)
o, states = recurrence(*call)

taken = {}
for name in ("kda", "chunk_kda", "fused_recurrent_kda"):
    function = getattr(fla_cpp, name)
    results = function(*call, output_final_state=True)
    for result, expected in zip(results, (o, states)):
        difference = largest_difference(memoryview(result).tolist()[0], expected)
        assert difference < 1e-5, f"{name}: {difference}"
    taken[name] = fla_cpp.explain(function, *call).selected
fla_cpp.ops()  # loads all plugins
plugins = {plugin.path: f"{plugin.state} {plugin.reason}".strip() for plugin in fla_cpp.plugins()}
print(json.dumps({"taken": taken, "plugins": plugins, "libraries": sorted(loaded() - before), "package": fla_cpp.__file__}))
