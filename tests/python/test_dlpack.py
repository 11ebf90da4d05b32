"""Calls with arrays that speak DLPack and are nobody's that the module knows."""

import ctypes

import cases
import fla_cpp
import numpy as np
import pytest

CPU, CUDA, METAL = 1, 2, 8


class Array:
    """An array with nothing but the protocol; `asked` is what __dlpack__ was given."""

    def __init__(self, values, device=(CPU, 0), old=False):
        self.values, self.device, self.old, self.asked = values, device, old, []

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        self.asked.append(options)
        if self.old and "max_version" in options:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self.values.__dlpack__()


class Namespaced(Array):
    """One whose library says how arrays are made."""

    def __array_namespace__(self):
        class Namespace:
            @staticmethod
            def from_dlpack(source):
                made = Namespaced(np.from_dlpack(source))
                made.source = source
                return made

        return Namespace


def address(capsule_or_array):
    return capsule_or_array.__array_interface__["data"][0]


def test_an_array_with_nothing_but_the_protocol_is_taken():
    call = cases.random_call()
    o, state = fla_cpp.kda(*map(Array, call), output_final_state=True)
    expected = fla_cpp.kda(*call, output_final_state=True)
    np.testing.assert_array_equal(np.asarray(o), expected[0])
    np.testing.assert_array_equal(np.from_dlpack(state), expected[1])


def test_its_result_is_a_tensor_that_speaks_the_protocol():
    o, _ = fla_cpp.kda(*map(Array, cases.random_call()))
    assert type(o) is fla_cpp.Tensor
    assert (o.shape, o.dtype, o.device) == ((1, 20, 2, 16), "f32", "cpu")
    assert repr(o) == "<fla_cpp.Tensor f32[1, 20, 2, 16] on cpu>"
    assert o.__dlpack_device__() == (CPU, 0)
    assert o.__dlpack__(max_version=(1, 0), dl_device=(CPU, 0), copy=False)
    with pytest.raises(BufferError, match=r"dl_device: expected the tensor's own, cpu, got \(2, 0\)"):
        o.__dlpack__(dl_device=(CUDA, 0))
    with pytest.raises(BufferError, match="copy: expected False or None, got True"):
        o.__dlpack__(copy=True)


def test_a_result_is_shared_not_copied():
    o, _ = fla_cpp.kda(*map(Array, cases.random_call()))
    first, second = np.asarray(o), np.from_dlpack(o)
    assert address(first) == address(second)
    del o
    assert np.isfinite(second).all()


def test_the_arrays_own_namespace_makes_the_result():
    call = cases.random_call()
    o, state = fla_cpp.kda(*map(Namespaced, call), output_final_state=True)
    assert type(o) is type(state) is Namespaced
    assert address(o.values) == address(np.asarray(o.source))
    np.testing.assert_array_equal(o.values, fla_cpp.kda(*call)[0])


def test_a_tensor_is_an_input_too():
    call = cases.random_call()
    o, _ = fla_cpp.kda(*map(Array, call))
    again, _ = fla_cpp.kda(call[0], call[1], o, *call[3:])
    np.testing.assert_array_equal(again, fla_cpp.kda(call[0], call[1], np.asarray(o), *call[3:])[0])


def test_an_array_older_than_versions_is_asked_without():
    call = [Array(x, old=True) for x in cases.random_call()]
    fla_cpp.kda(*call)
    assert call[0].asked == [{"max_version": (1, 0)}, {}]


def test_kinds_may_be_mixed_and_the_first_decides():
    call = cases.random_call()
    mixed = [call[0], *map(Array, call[1:])]
    assert type(fla_cpp.kda(*mixed)[0]) is np.ndarray


def test_a_device_that_fla_does_not_have_is_refused():
    class Elsewhere(Array):
        def __dlpack__(self, **options):
            return on_device(self.values, METAL)

    call = cases.random_call()
    with pytest.raises(ValueError, match="q: expected a tensor on the CPU or a CUDA device, got DLPack's type 8"):
        fla_cpp.kda(Elsewhere(call[0], (METAL, 0)), *call[1:])


class Tensor(ctypes.Structure):
    """DLPack's."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("device_index", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


def inside(capsule):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return Tensor.from_address(get(capsule, b"dltensor"))


def on_device(values, device):
    """A capsule whose tensor says that it lies on that device; leaves it to the capsule to free it."""
    capsule = values.__dlpack__()
    inside(capsule).device = device
    return capsule


def no_dimensions(tensor):
    tensor.ndim = -1


def too_many_dimensions(tensor):
    tensor.ndim = 2**30


def no_shape(tensor):
    tensor.shape = None


def a_negative_size(tensor):
    tensor.shape[1] = -3


def sizes_beyond_memory(tensor):
    tensor.shape[0] = tensor.shape[1] = 2**40


def strides_beyond_memory(tensor):
    tensor.strides = ctypes.cast((ctypes.c_int64 * 4)(2**62, 2**62, 2**62, 2**62), ctypes.POINTER(ctypes.c_int64))


def no_memory(tensor):
    tensor.data, tensor.byte_offset = None, 64


@pytest.mark.parametrize(
    "damage, sentence",
    [
        (no_dimensions, "q: expected 0 to 5 dimensions, got -1"),
        (too_many_dimensions, "q: expected 0 to 5 dimensions, got 1073741824"),
        (no_shape, "q: expected a shape of 4 dimensions, got a null pointer"),
        (a_negative_size, "q: shape: expected sizes of 0 and above, got [1, -3, 2, 16]"),
        (sizes_beyond_memory, "q: shape: [1099511627776, 1099511627776, 2, 16] has more bytes than memory can have"),
        (strides_beyond_memory, "q: strides: [4611686018427387904, 4611686018427387904, 4611686018427387904, "
                                "4611686018427387904] of sizes [1, 20, 2, 16] reach further than memory does"),
        (no_memory, "q: expected f32[1, 20, 2, 16] on cpu, got a null pointer"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_tensor_that_cannot_be_is_refused(damage, sentence):
    class Damaged(Array):
        def __dlpack__(self, **options):
            capsule = self.values.__dlpack__()
            damage(inside(capsule))
            return capsule

    call = cases.random_call()
    with pytest.raises(fla_cpp.InvalidArgument) as raised:
        fla_cpp.kda(Damaged(call[0]), *call[1:])
    assert str(raised.value) == f"kda: {sentence}" and raised.value.argument == "q"


def test_what_an_array_says_about_itself_is_in_the_error():
    class Sparse(Array):
        def __dlpack__(self, **options):
            raise BufferError("sparse arrays have no strides")

    call = cases.random_call()
    with pytest.raises(ValueError) as raised:
        fla_cpp.kda(Sparse(call[0]), *call[1:])
    assert str(raised.value).startswith("kda: q: expected an array that DLPack can show, got ")
    assert str(raised.value).endswith("Sparse: sparse arrays have no strides")


def test_what_is_no_capsule_is_refused():
    class Wrong(Array):
        def __dlpack__(self, **options):
            return 1

    call = cases.random_call()
    with pytest.raises(ValueError, match="q: expected a capsule of DLPack, got int"):
        fla_cpp.kda(Wrong(call[0]), *call[1:])


def test_a_type_that_fla_does_not_have_is_named():
    call = cases.random_call()
    for dtype in ("float64", "uint8", "complex64"):
        with pytest.raises(ValueError, match=f"q: expected dtype bf16 or f16 or f32, got {dtype}"):
            fla_cpp.kda(Array(call[0].astype(dtype)), *call[1:])


def test_read_only_is_honoured_in_tensors_of_version_1():
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        pytest.skip("NumPy before 2.1 exports no versioned tensors")

    class Versioned(Array):
        def __dlpack__(self, **options):
            return self.values.__dlpack__(**options)

    call = cases.random_call()
    for array in call:
        array.flags.writeable = False
    fla_cpp.kda(*map(Versioned, call))
    out = np.zeros((1, 20, 2, 16), np.float32)
    fla_cpp.kda(*map(Versioned, call), out=Versioned(out))
    assert out.any()
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out: expected memory that may be written to, got a read-only array"):
        fla_cpp.kda(*map(Versioned, call), out=Versioned(out))
