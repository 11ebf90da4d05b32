"""Calls with the arrays of CuPy and JAX on a GPU."""

import os

import cases
import fla_cpp
import numpy as np
import pytest
import reference

if fla_cpp.why_no_cuda_device():
    pytest.skip(f"there is no GPU: {fla_cpp.why_no_cuda_device()}", allow_module_level=True)

CALL = dict(B=1, T=70, H=2, K=64, V=64)
TOLERANCE = 2e-5  # of f32, as the C++ tests have it


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy", reason="CuPy is not installed")


@pytest.fixture(scope="module")
def jax():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # leaves memory for the others
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX sees no GPU")
    return jax


def assert_agrees(results, call, **options):
    for result, expected in zip(results, reference.kda(*call, **options)):
        assert reference.error(result, expected) < TOLERANCE


def test_cupys_arrays_give_cupys_arrays(cupy):
    call = cases.random_call(**CALL)
    results = fla_cpp.kda(*map(cupy.asarray, call), output_final_state=True)
    assert all(type(result) is cupy.ndarray for result in results)
    assert_agrees(map(cupy.asnumpy, results), call)


def test_a_call_is_on_cupys_current_stream(cupy):
    call = cases.random_call(**CALL)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        arrays = [cupy.asarray(x) for x in call]
        busy = cupy.ones((8192, 8192), np.float32)
        for _ in range(50):
            busy = cupy.sin(busy)
        late = [array + 0 * busy[0, 0] for array in arrays]  # there only after all that
        results = fla_cpp.kda(*late, output_final_state=True)
        kept = [result.copy() for result in results]
    stream.synchronize()
    assert_agrees(map(cupy.asnumpy, kept), call)
    del results, kept, late, stream  # the memory does not need the stream


def test_cupys_arrays_are_written_in_place(cupy):
    call = cases.random_call(**CALL | {"T": 1})
    state = cupy.zeros((1, 2, 64, 64), np.float32)
    o, final = fla_cpp.fused_recurrent_kda(*map(cupy.asarray, call), initial_state=state, final_state=state)
    assert final is state
    assert_agrees([cupy.asnumpy(o), cupy.asnumpy(state)], call)


def test_jaxs_arrays_give_jaxs_arrays(jax):
    call = cases.random_call(**CALL)
    results = fla_cpp.kda(*map(jax.numpy.asarray, call), output_final_state=True)
    assert all(isinstance(result, jax.Array) for result in results)
    assert {device.platform for result in results for device in result.devices()} == {"gpu"}
    assert_agrees(map(np.asarray, results), call)


def test_jaxs_bf16_stays_bf16(jax):
    call = [jax.numpy.asarray(x, jax.numpy.bfloat16) for x in cases.random_call(**CALL)]
    o, state = fla_cpp.chunk_kda(*call, output_final_state=True)
    assert (o.dtype, state.dtype) == (jax.numpy.bfloat16, np.float32)
    for result, expected in zip((o, state), reference.kda(*(np.asarray(x, np.float64) for x in call))):
        assert reference.error(np.asarray(result, np.float64), expected) < 8e-3


def test_jaxs_arrays_may_go_while_the_call_runs(jax):
    call = cases.random_call(**CALL)
    expected = None
    for _ in range(20):
        arrays = [jax.numpy.asarray(x) + 0 for x in call]
        o, _ = fla_cpp.kda(*arrays)
        del arrays
        junk = [jax.numpy.full((70, 64), n, np.float32) for n in range(8)]
        result = np.asarray(o)
        expected = result if expected is None else expected
        np.testing.assert_array_equal(result, expected)
        del junk
