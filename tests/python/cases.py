"""Calls to try: the golden cases of tests/golden, and random ones."""

import json
import struct
from pathlib import Path

import numpy as np

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("kda*.safetensors"))
# How far from the float64 recurrence a result may be, by the dtype of the inputs, as the C++ tests have it.
TOLERANCE = {"BF16": 8e-3, "F16": 2e-3, "F32": 2e-5}
_TYPES = {"F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "BF16": np.uint16}

# Options that are no flags.
_OPTIONS = {"scale": float, "lower_bound": float, "layer_idx": int, "num_layers": int}


class Case:
    """A call: `tensors` by their arguments' names (bf16 as bits in uint16), `options`, what is expected."""

    def __init__(self, path):
        raw = path.read_bytes()
        (size,) = struct.unpack_from("<Q", raw)
        header = json.loads(raw[8 : 8 + size])
        options = header.pop("__metadata__")
        self.dtype = header["q"]["dtype"]
        self.tolerance = TOLERANCE[self.dtype]
        self.options = {
            name: _OPTIONS.get(name, lambda text: text == "1")(value)
            for name, value in options.items()
            if name != "op"
        }
        tensors = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            data = np.frombuffer(raw[8 + size + begin : 8 + size + end], _TYPES[entry["dtype"]])
            tensors[name] = data.reshape(entry["shape"]).copy()
        self.expected = {name[7:]: tensors.pop(name) for name in list(tensors) if name.startswith("expect.")}
        self.tensors = {name: tensor for name, tensor in tensors.items() if name not in ("do", "dht")}
        self.bf16 = {name for name in self.tensors if header[name]["dtype"] == "BF16"}


def numbers(bits):
    """bf16, given as bits, as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def random_call(B=1, T=20, H=2, HV=None, K=16, V=16, dtype=np.float32, seed=0):
    """The five required arguments, with gates and keys such that nothing explodes."""
    random = np.random.default_rng(seed)
    HV = HV or H
    q, k = (random.standard_normal((B, T, H, K)) for _ in range(2))
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    v = random.standard_normal((B, T, HV, V))
    g = -0.3 * random.random((B, T, HV, K))
    beta = random.random((B, T, HV))
    return [x.astype(dtype) for x in (q, k, v, g, beta)]
