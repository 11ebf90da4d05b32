"""Calls with NumPy's arrays."""

import cases
import fla_cpp
import numpy as np
import pytest
import reference

FUNCTIONS = [fla_cpp.kda, fla_cpp.chunk_kda, fla_cpp.fused_recurrent_kda]
by_name = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)


def assert_agrees(results, expected, tolerance=2e-5):
    for result, wanted in zip(results, expected):
        assert result.shape == wanted.shape
        assert reference.error(result, wanted) < tolerance


@by_name
@pytest.mark.parametrize("path", cases.GOLDEN, ids=lambda path: path.stem)
def test_golden_cases_agree(function, path):
    case = cases.Case(path)
    tensors = dict(case.tensors)
    if case.bf16:
        ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: NumPy has no bf16 of its own")
        tensors |= {name: tensors[name].view(ml_dtypes.bfloat16) for name in case.bf16}
    o, state = function(**tensors, **case.options, output_final_state=True)
    assert o.dtype == tensors["v"].dtype and state.dtype == np.float32
    assert reference.error(o.astype(np.float64), case.expected["o"]) < case.tolerance
    assert reference.error(state, case.expected["final_state"]) < case.tolerance


@by_name
def test_random_calls_agree_with_the_recurrence(function):
    call = cases.random_call(B=2, T=70, H=2, HV=4, K=32, V=48)
    state = np.random.default_rng(1).standard_normal((2, 4, 32, 48)).astype(np.float32)
    options = dict(initial_state=state, scale=0.5, use_qk_l2norm_in_kernel=True)
    assert_agrees(function(*call, **options, output_final_state=True), reference.kda(*call, **options))


@by_name
def test_the_state_is_none_unless_it_was_asked_for(function):
    o, state = function(*cases.random_call())
    assert state is None and isinstance(o, np.ndarray)


def test_results_can_be_written_to_and_outlive_the_call():
    o, state = fla_cpp.kda(*cases.random_call(), output_final_state=True)
    assert o.flags.writeable and o.flags.c_contiguous
    before = o.copy()
    for seed in range(20):
        fla_cpp.kda(*cases.random_call(seed=seed + 1), output_final_state=True)
    np.testing.assert_array_equal(o, before)
    o[:] = 0


@by_name
def test_checkpoints_are_the_states_on_the_way(function):
    call = cases.random_call()
    checkpoints = np.full((1, 3, 2, 16, 16), 0.125, np.float32)
    results = function(*call, output_final_state=True, checkpoint_every=8, checkpoints=checkpoints)
    assert len(results) == 2
    for i in range(2):
        _, state = reference.kda(*(x[:, : 8 * (i + 1)] for x in call))
        assert reference.error(checkpoints[:, i], state) < 2e-5
    assert (checkpoints[:, 2] == 0.125).all()  # 20 tokens do not reach it


def test_a_step_goes_on_from_the_drafts_that_were_accepted():
    call, pool = cases.random_call(T=8), np.zeros((5, 2, 16, 16), np.float32)
    step = dict(initial_state=pool, final_state=pool, state_indices=np.array([0]), checkpoint_every=1)
    step["checkpoint_indices"] = np.array([[1, 2, 3, 4]])
    for accepted, begin in ((0, 0), (3, 3)):  # the last of the first four is wrong
        drafts = [x[:, begin : begin + 4] for x in call]
        o, _ = fla_cpp.fused_recurrent_kda(*drafts, num_accepted_tokens=np.array([accepted]), **step)
        expected, state = reference.kda(*(x[:, : begin + 4] for x in call))
        assert reference.error(o, expected[:, begin:]) < 2e-5
        assert reference.error(pool[4:], state) < 2e-5
    assert (pool[0] == 0).all()
    with pytest.raises(ValueError, match=r"^kda: num_accepted_tokens: expected entries from 0 to C=4, got num_accepted_tokens\[0\]=5$"):
        fla_cpp.fused_recurrent_kda(*drafts, num_accepted_tokens=np.array([5]), **step)


def test_checkpoints_are_refused_by_name():
    call, checkpoints = cases.random_call(), np.zeros((1, 2, 2, 16, 16), np.float32)
    with pytest.raises(ValueError, match="^kda: checkpoint_every: expected at least 1, got 0$"):
        fla_cpp.kda(*call, checkpoint_every=0, checkpoints=checkpoints)
    with pytest.raises(TypeError, match="^kda: checkpoint_every: expected a whole number, got float$"):
        fla_cpp.kda(*call, checkpoint_every=2.5, checkpoints=checkpoints)
    with pytest.raises(ValueError, match="^kda: checkpoints: expected a tensor, or checkpoint_indices in its place, with checkpoint_every, got neither$"):
        fla_cpp.kda(*call, checkpoint_every=2)
    with pytest.raises(ValueError, match="^kda: checkpoint_every: expected a whole number with checkpoints, got none$"):
        fla_cpp.kda(*call, checkpoints=checkpoints)


def test_f16_agrees():
    call = cases.random_call(dtype=np.float16)
    o, state = fla_cpp.chunk_kda(*call, output_final_state=True)
    assert o.dtype == np.float16 and state.dtype == np.float32
    assert_agrees((o, state), reference.kda(*call), 2e-3)


def test_slices_of_a_fused_projection_are_legal():
    q, k, v, g, beta = cases.random_call(T=9, H=3, K=16, V=16)
    fused = np.concatenate([q, k, v], axis=-1)
    parts = fused[..., :16], fused[..., 16:32], fused[..., 32:]
    assert not any(part.flags.c_contiguous for part in parts)
    assert_agrees(fla_cpp.kda(*parts, g, beta, output_final_state=True), reference.kda(q, k, v, g, beta))


def test_negative_strides_are_honoured():
    q, k, v, g, beta = cases.random_call()
    backwards = np.ascontiguousarray(q[:, ::-1])[:, ::-1]
    assert backwards.strides[1] < 0
    np.testing.assert_array_equal(fla_cpp.kda(backwards, k, v, g, beta)[0], fla_cpp.kda(q, k, v, g, beta)[0])


def test_read_only_inputs_are_legal():
    call = cases.random_call()
    for array in call:
        array.flags.writeable = False
    assert_agrees(fla_cpp.kda(*call, output_final_state=True), reference.kda(*call))


def test_results_go_into_the_callers_arrays():
    call = cases.random_call()
    out, state = np.full((1, 20, 2, 16), np.nan, np.float32), np.full((1, 2, 16, 16), np.nan, np.float32)
    o, final_state = fla_cpp.chunk_kda(*call, out=out, final_state=state)
    assert o is out and final_state is state
    assert_agrees((out, state), reference.kda(*call))


def test_a_state_is_updated_in_place():
    call = cases.random_call(T=1)
    state = np.random.default_rng(5).standard_normal((1, 2, 16, 16)).astype(np.float32)
    expected = reference.kda(*call, initial_state=state)
    o, final_state = fla_cpp.fused_recurrent_kda(*call, initial_state=state, final_state=state)
    assert final_state is state
    assert_agrees((o, state), expected)


def test_slots_of_a_pool_are_updated_in_place():
    call = cases.random_call(B=3, T=1)
    pool = np.random.default_rng(5).standard_normal((6, 2, 16, 16)).astype(np.float32)
    slots = np.array([4, -1, 0], np.int32)
    before = pool.copy()
    expected_o, expected = reference.kda(*call, initial_state=before[[4, 5, 0]])
    o, _ = fla_cpp.kda(*call, initial_state=pool, final_state=pool, state_indices=slots)
    assert reference.error(o[[0, 2]], expected_o[[0, 2]]) < 2e-5 and not o[1].any()
    assert reference.error(pool[[4, 0]], expected[[0, 2]]) < 2e-5
    np.testing.assert_array_equal(pool[[1, 2, 3, 5]], before[[1, 2, 3, 5]])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@by_name
def test_packed_sequences_agree(function, dtype):
    call = cases.random_call(T=40)
    cu_seqlens = np.array([0, 7, 7, 32, 40], dtype)
    expected = reference.kda(*call, cu_seqlens=cu_seqlens)
    assert_agrees(function(*call, cu_seqlens=cu_seqlens, output_final_state=True), expected)
    if function is not fla_cpp.fused_recurrent_kda:
        assert_agrees(function(*call, cu_seqlens_cpu=cu_seqlens, output_final_state=True), expected)


def test_bf16_of_ml_dtypes_stays_what_it_is():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed: NumPy has no bf16 of its own")
    call = [x.astype(ml_dtypes.bfloat16) for x in cases.random_call()]
    o, state = fla_cpp.kda(*call, initial_state=np.zeros((1, 2, 16, 16), ml_dtypes.bfloat16), output_final_state=True)
    assert o.dtype == state.dtype == ml_dtypes.bfloat16 and o.flags.writeable
    expected = reference.kda(*call)
    assert_agrees((o.astype(float), state.astype(float)), expected, 8e-3)


def test_an_empty_call_is_a_call():
    call = cases.random_call(T=0)
    o, state = fla_cpp.kda(*call, output_final_state=True)
    assert o.shape == (1, 0, 2, 16) and not state.any()


def test_a_subclass_gives_plain_arrays():
    class Mine(np.ndarray):
        pass

    call = [x.view(Mine) for x in cases.random_call()]
    assert type(fla_cpp.kda(*call)[0]) is np.ndarray


@by_name
@pytest.mark.parametrize("sizes", [{"T": 0}, {"B": 0}, {"B": 0, "T": 0}], ids=str)
def test_empty_outputs_may_have_any_strides(function, sizes):
    call = cases.random_call(**({"B": 2, "T": 3} | sizes))
    out = np.empty(call[2].shape, np.float32)
    assert function(*call, out=out)[0] is out
    assert function(*call, out=np.broadcast_to(np.float32(0), out.shape).copy())[0].shape == out.shape
    zero = np.lib.stride_tricks.as_strided(np.empty(1, np.float32), out.shape, (0, 0, 0, 0))
    assert function(*call, out=zero)[0] is zero
