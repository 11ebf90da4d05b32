"""What is wrong with a call is said in a sentence, as Python's own kinds of errors."""

import cases
import fla_cpp
import numpy as np
import pytest


@pytest.fixture
def call():
    return dict(zip(["q", "k", "v", "g", "beta"], cases.random_call()))


def assert_raises(kind, sentence, function, *args, **kwargs):
    with pytest.raises(kind) as raised:
        function(*args, **kwargs)
    assert str(raised.value) == sentence
    if kind is ValueError:
        assert raised.value.op == "kda"
    return raised.value


def test_the_errors_are_pythons():
    assert issubclass(fla_cpp.InvalidArgument, ValueError)
    assert issubclass(fla_cpp.ConfigError, ValueError)
    assert issubclass(fla_cpp.BackendError, RuntimeError)
    assert issubclass(fla_cpp.DeviceLost, fla_cpp.BackendError)
    for kind in (fla_cpp.InvalidArgument, fla_cpp.ConfigError, fla_cpp.BackendError):
        assert issubclass(kind, fla_cpp.Error)


def test_a_wrong_shape_is_the_librarys_sentence(call):
    call["beta"] = call["beta"][:, :5]
    error = assert_raises(
        ValueError, "kda: beta: expected shape [B=1, T=20, HV=2], got [1, 5, 2]", fla_cpp.chunk_kda, **call
    )
    assert isinstance(error, fla_cpp.InvalidArgument) and error.argument == "beta"


def test_a_wrong_dtype_names_numpys(call):
    call["q"] = call["q"].astype(np.float64)
    assert_raises(ValueError, "kda: q: expected dtype bf16 or f16 or f32, got float64", fla_cpp.kda, **call)


def test_a_dtype_that_the_argument_does_not_take_is_the_librarys_sentence(call):
    call["v"] = np.zeros_like(call["v"], np.int32)
    assert_raises(ValueError, "kda: v: expected dtype bf16 or f16 or f32, got i32", fla_cpp.kda, **call)


def test_types_that_buffers_do_not_know_are_refused(call):
    call["q"] = np.zeros(call["q"].shape, "datetime64[s]")
    assert_raises(ValueError, "kda: q: expected dtype bf16 or f16 or f32, got datetime64[s]", fla_cpp.kda, **call)


def test_the_other_byte_order_is_refused(call):
    call["q"] = call["q"].astype(">f4")
    assert_raises(ValueError, "kda: q: expected dtype bf16 or f16 or f32, got >f4", fla_cpp.kda, **call)


def test_what_is_no_array_is_a_type_error(call):
    call["g"] = [1.0]
    sentence = "kda: g: expected an array that speaks DLPack (torch, NumPy, CuPy, JAX, …), got list"
    assert_raises(TypeError, sentence, fla_cpp.kda, **call)


def test_none_for_a_required_array_is_refused(call):
    call["k"] = None
    assert_raises(ValueError, "kda: k: expected a tensor of shape [B=1, T=20, H=2, K=16], got none", fla_cpp.kda, **call)


def test_too_many_dimensions_are_refused(call):
    call["q"] = call["q"].reshape(1, 20, 2, 2, 2, 4)
    assert_raises(ValueError, "kda: q: expected at most 5 dimensions, got 6", fla_cpp.kda, **call)


def test_elements_between_addresses_are_refused(call):
    raw = np.zeros(call["q"].nbytes + 1, np.uint8)
    call["q"] = raw[1:].view(np.float32).reshape(call["q"].shape)
    sentence = "kda: q: expected elements at addresses that are multiples of their size"
    assert_raises(ValueError, sentence, fla_cpp.kda, **call)


def test_strides_between_elements_are_refused(call):
    record = np.zeros(call["q"].shape, np.dtype([("x", np.float32), ("pad", np.int16)]))
    call["q"] = record["x"]
    sentence = "kda: q: expected strides of whole elements, got one of 6 bytes"
    assert_raises(ValueError, sentence, fla_cpp.kda, **call)


def test_a_read_only_output_is_refused(call):
    out = np.zeros((1, 20, 2, 16), np.float32)
    out.flags.writeable = False
    sentence = "kda: out: expected memory that may be written to, got a read-only array"
    assert_raises(ValueError, sentence, fla_cpp.kda, **call, out=out)


def test_an_output_over_an_input_is_refused(call):
    sentence = "kda: out: expected memory of its own, got some that overlaps v"
    assert_raises(ValueError, sentence, fla_cpp.kda, **call, out=call["v"])


def test_numbers_and_flags_are_checked(call):
    assert_raises(TypeError, "kda: scale: expected a number, got str", fla_cpp.kda, **call, scale="one")
    assert_raises(ValueError, "kda: scale: expected a finite number, got inf", fla_cpp.kda, **call, scale=float("inf"))
    sentence = "kda: output_final_state: expected True or False, got str"
    assert_raises(TypeError, sentence, fla_cpp.kda, **call, output_final_state="yes")


def test_none_and_numbers_are_flags(call):
    for no in (None, 0, False, np.False_):
        assert fla_cpp.kda(**call, output_final_state=no)[1] is None
    for yes in (1, True, np.True_):
        assert fla_cpp.kda(**call, output_final_state=yes)[1] is not None


def test_names_and_counts_are_pythons_business(call):
    assert_raises(TypeError, "kda() got an unexpected keyword argument 'gate'", fla_cpp.kda, **call, gate=1)
    del call["beta"]
    assert_raises(TypeError, "kda() missing 1 required positional argument: 'beta'", fla_cpp.kda, **call)


def test_an_option_without_the_one_that_it_needs_is_refused(call):
    sentence = "kda: use_beta_sigmoid_in_kernel: expected true with allow_neg_eigval, got false"
    for function in (fla_cpp.kda, fla_cpp.chunk_kda, fla_cpp.fused_recurrent_kda):
        assert_raises(ValueError, sentence, function, **call, allow_neg_eigval=True)
    assert fla_cpp.kda(**call, allow_neg_eigval=True, use_beta_sigmoid_in_kernel=True)[0].any()


def test_what_only_training_needs_is_refused(call):
    sentence = "kda: q: expected a tensor of torch with return_intermediate_states, got ndarray"
    assert_raises(ValueError, sentence, fla_cpp.chunk_kda, **call, return_intermediate_states=True)
    sentence = "kda: cp_context: expected None or what fla_cpp.ops.cp.build_cp_context returns, got 'ring': fla_cpp does not have it"
    assert_raises(ValueError, sentence, fla_cpp.chunk_kda, **call, cp_context="ring")


def test_a_required_backend_that_refuses_is_a_runtime_error(call):
    states = {"initial_state": np.zeros((1, 2, 16, 16), np.float32)}
    with fla_cpp.policy(require={"kda": "cpu_simd"}):
        fla_cpp.kda(**call, **states)
        with fla_cpp.policy(enable={"cpu_simd": False}):
            with pytest.raises(RuntimeError, match="cpu_simd") as raised:
                fla_cpp.kda(**call, **states)
    assert isinstance(raised.value, fla_cpp.BackendError)


@pytest.fixture
def rwkv7_call():
    random = np.random.default_rng(0)
    return {name: 0.3 * random.standard_normal((1, 5, 2, 8)).astype(np.float32) for name in ("r", "w", "k", "v", "a", "b")}


@pytest.mark.parametrize("name", ("rwkv7", "chunk_rwkv7", "fused_recurrent_rwkv7"))
def test_an_alias_says_its_own_names(rwkv7_call, name):
    function = getattr(fla_cpp, name)

    def assert_error(kind, sentence, **changed):
        for called in (function, lambda **given: fla_cpp.explain(name, **given)):
            with pytest.raises(kind) as raised:
                called(**rwkv7_call | changed)
            assert str(raised.value) == sentence
            assert raised.value.__context__ is None
        return raised.value

    shape = "expected shape [B=1, T=5, HV=2, K=8], got [1, 5, 2, 4]"
    error = assert_error(fla_cpp.InvalidArgument, f"rwkv7: w: {shape}", w=rwkv7_call["w"][..., :4])
    assert (error.op, error.argument) == ("rwkv7", "w")
    assert_error(ValueError, "rwkv7: r: expected dtype bf16 or f16 or f32, got float64", r=rwkv7_call["r"].astype(np.float64))
    sentence = "rwkv7: out: expected memory of its own, got some that overlaps r"
    assert_error(ValueError, sentence, out=rwkv7_call["r"])
    assert_error(TypeError, "rwkv7: scale: expected a number, got str", scale="one")
    array = "expected an array that speaks DLPack (torch, NumPy, CuPy, JAX, …), got list"
    assert_error(TypeError, f"rwkv7: r: {array}", r=[1.0])


def test_an_alias_refuses_what_it_does_not_have_under_its_name(rwkv7_call):
    sentence = "rwkv7: cp_context: expected None, got 'ring': fla_cpp does not have it"
    with pytest.raises(fla_cpp.InvalidArgument) as raised:
        fla_cpp.chunk_rwkv7(**rwkv7_call, cp_context="ring")
    assert (str(raised.value), raised.value.op) == (sentence, "rwkv7")


def test_an_alias_that_torch_differentiates_says_its_own_names(rwkv7_call):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    call = {name: torch.from_numpy(x).requires_grad_() for name, x in rwkv7_call.items()}
    with pytest.raises(fla_cpp.InvalidArgument, match="^rwkv7: w: expected shape") as raised:
        fla_cpp.chunk_rwkv7(**call | {"w": call["w"][..., :3]})
    assert raised.value.op == "rwkv7"
