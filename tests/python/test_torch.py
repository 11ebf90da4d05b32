"""Calls with torch's tensors on the CPU, and the custom ops."""

import contextlib
import copy
import gc
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import cases
import fla_cpp
import numpy as np
import pytest
import reference

torch = pytest.importorskip("torch", reason="torch is not installed")

FUNCTIONS = [fla_cpp.kda, fla_cpp.chunk_kda, fla_cpp.fused_recurrent_kda]
by_name = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)


def random_call(**options):
    return [torch.from_numpy(x) for x in cases.random_call(**options)]


def golden_call(case, device="cpu"):
    tensors = {}
    for name, array in case.tensors.items():
        tensor = torch.from_numpy(array.view(np.int16) if name in case.bf16 else array).to(device)
        tensors[name] = tensor.view(torch.bfloat16) if name in case.bf16 else tensor
    return tensors


def assert_agrees(results, expected, tolerance=2e-5):
    for result, wanted in zip(results, expected):
        assert tuple(result.shape) == wanted.shape
        assert reference.error(result.double().cpu().numpy(), wanted) < tolerance


def same(results, others):
    return all(torch.equal(a, b) for a, b in zip(results, others))


@by_name
@pytest.mark.parametrize("path", cases.GOLDEN, ids=lambda path: path.stem)
def test_golden_cases_agree(function, path):
    case = cases.Case(path)
    tensors = golden_call(case)
    o, state = function(**tensors, **case.options, output_final_state=True)
    assert type(o) is torch.Tensor and o.dtype == tensors["v"].dtype and state.dtype == torch.float32
    assert_agrees((o, state), (case.expected["o"], case.expected["final_state"]), case.tolerance)


@by_name
def test_random_calls_agree_with_the_recurrence(function):
    call = cases.random_call(B=2, T=70, H=2, HV=4, K=32, V=48)
    results = function(*map(torch.from_numpy, call), output_final_state=True)
    assert_agrees(results, reference.kda(*call))


def test_the_state_is_none_unless_it_was_asked_for():
    o, state = fla_cpp.kda(*random_call())
    assert state is None and not o.requires_grad and o.is_contiguous()


def test_results_outlive_the_call_and_its_inputs():
    call = random_call()
    o, _ = fla_cpp.kda(*call)
    before = o.clone()
    del call
    gc.collect()
    for seed in range(20):
        fla_cpp.kda(*random_call(seed=seed))
    assert torch.equal(o, before)


def test_transposed_and_sliced_tensors_are_legal():
    q, k, v, g, beta = random_call()
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v, g, beta)]
    fused = torch.cat([q, k, v], -1)
    expected = fla_cpp.kda(q, k, v, g, beta, output_final_state=True)
    assert same(fla_cpp.kda(*turned, output_final_state=True), expected)
    assert same(fla_cpp.kda(*fused.split(16, -1), g, beta, output_final_state=True), expected)


def test_results_go_into_the_callers_tensors():
    call = random_call()
    out, state = torch.full((1, 20, 2, 16), torch.nan), torch.full((1, 2, 16, 16), torch.nan)
    o, final_state = fla_cpp.chunk_kda(*call, out=out, final_state=state)
    assert o is out and final_state is state
    assert same((out, state), fla_cpp.chunk_kda(*call, output_final_state=True))


@pytest.mark.parametrize("v_first", (False, True))
def test_states_before_every_64_tokens_are_a_third_result(v_first):
    q, k, v, g, beta = (x.to(torch.bfloat16) for x in random_call(B=2, T=130, V=8))
    first = torch.randn(2, 2, *((8, 16) if v_first else (16, 8)))
    options = dict(output_final_state=True, state_v_first=v_first)
    expected = fla_cpp.chunk_kda(q, k, v, g, beta, initial_state=first, **options)
    for function in (fla_cpp.chunk_kda, fla_cpp.kda):
        *results, states = function(q, k, v, g, beta, initial_state=first, return_intermediate_states=True, **options)
        for result, wanted in zip(results, expected, strict=True):
            assert torch.allclose(result.float(), wanted.float(), rtol=1e-2, atol=1e-2)
        assert states.shape == (2, 3, *first.shape[1:]) and states.dtype == torch.bfloat16
        assert torch.equal(states[:, 0], first.bfloat16())
        for i in (1, 2):
            part = [x[:, : 64 * i] for x in (q, k, v, g, beta)]
            _, state = fla_cpp.chunk_kda(*part, initial_state=first, **options)
            assert torch.allclose(states[:, i].float(), state, rtol=1e-2, atol=1e-2)


def test_states_before_every_64_tokens_of_packed_sequences():
    call = random_call(T=200)
    lengths = torch.tensor([0, 0, 65, 70, 200])
    _, state, states = fla_cpp.chunk_kda(*call, cu_seqlens=lengths, return_intermediate_states=True)
    assert state is None and states.shape == (1, 2 + 1 + 3, 2, 16, 16)
    for place, begin, end in ((0, 0, 0), (1, 0, 64), (2, 65, 65), (3, 70, 70), (4, 70, 134), (5, 70, 198)):
        _, state = fla_cpp.chunk_kda(*(x[:, begin:end] for x in call), output_final_state=True)
        assert torch.allclose(states[0, place], state[0], atol=1e-5)
    sentence = "state_indices: expected None with return_intermediate_states, got 'Tensor': fla_cpp does not have it"
    with pytest.raises(fla_cpp.InvalidArgument, match=sentence):
        fla_cpp.chunk_kda(*call, state_indices=torch.zeros(1, dtype=torch.int32), return_intermediate_states=True)


def test_checkpoints_go_into_slots_of_the_callers_pool():
    call, pool = random_call(), torch.zeros(4, 2, 16, 16)
    version = pool._version
    slots = dict(state_indices=torch.tensor([3]), checkpoint_every=8, checkpoint_indices=torch.tensor([[2, 1]]))
    fla_cpp.chunk_kda(*call, initial_state=pool, final_state=pool, **slots)
    assert pool._version > version and (pool[0] == 0).all()
    for slot, end in ((2, 8), (1, 16), (3, 20)):
        _, state = fla_cpp.chunk_kda(*(x[:, :end] for x in call), output_final_state=True)
        assert torch.allclose(pool[slot], state[0], atol=1e-5)


def test_checkpoints_go_into_the_callers_tensor():
    call = random_call()
    checkpoints = torch.full((1, 2, 2, 16, 16), torch.nan)
    version = checkpoints._version
    options = dict(output_final_state=True, checkpoint_every=8, checkpoints=checkpoints)
    expected = fla_cpp.chunk_kda(*call, **options)
    assert len(expected) == 2 and checkpoints._version > version
    for i in range(2):
        _, state = fla_cpp.chunk_kda(*(x[:, : 8 * (i + 1)] for x in call), output_final_state=True)
        assert torch.allclose(checkpoints[:, i], state, atol=1e-5)
    kept = checkpoints.clone()
    checkpoints.fill_(torch.nan)
    o, state = torch.ops.fla_cpp.chunk_kda_out(*call, **options)
    assert same((o, state, checkpoints), (*expected, kept))
    call[0].requires_grad_()
    with pytest.raises(RuntimeError, match="expected no outputs of the caller's"):
        fla_cpp.chunk_kda(*call, **options)


def test_bf16_states_stay_bf16():
    call = [x.bfloat16() for x in random_call(T=1)]
    state = torch.zeros(1, 2, 16, 16, dtype=torch.bfloat16)
    o, final_state = fla_cpp.fused_recurrent_kda(*call, initial_state=state, output_final_state=True)
    assert o.dtype == final_state.dtype == torch.bfloat16


def test_kinds_may_be_mixed_and_the_first_decides():
    call = random_call(T=40)
    cu_seqlens = np.array([0, 10, 40])
    o, _ = fla_cpp.kda(*call, cu_seqlens=cu_seqlens)
    assert torch.equal(o, fla_cpp.kda(*call, cu_seqlens=torch.from_numpy(cu_seqlens))[0])
    assert type(fla_cpp.kda(call[0].numpy(), *call[1:])[0]) is np.ndarray


def test_dtypes_that_fla_does_not_have_are_named():
    q, *rest = random_call()
    with pytest.raises(ValueError, match="q: expected dtype bf16 or f16 or f32, got float64"):
        fla_cpp.kda(q.double(), *rest)
    with pytest.raises(ValueError, match="q: expected dtype bf16 or f16 or f32, got bool"):
        fla_cpp.kda(q > 0, *rest)


def test_layouts_that_dlpack_cannot_show_are_refused():
    q, *rest = random_call()
    with pytest.raises(ValueError, match="q: expected an array that DLPack can show, got torch.Tensor: "):
        fla_cpp.kda(q.to_sparse(), *rest)


# ---- gradients; test_gradients.py has their values


def test_outputs_and_gradients_do_not_go_together():
    q, *rest = random_call()
    with pytest.raises(RuntimeError, match="kda with gradients: expected no outputs of the caller's"):
        fla_cpp.kda(q.requires_grad_(), *rest, out=torch.zeros(1, 20, 2, 16))


def test_without_gradients_the_result_has_none():
    call = [x.requires_grad_() for x in random_call()]
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            assert not fla_cpp.kda(*call)[0].requires_grad


# ---- custom ops


@by_name
def test_the_ops_are_registered(function):
    name = function.__name__
    call = random_call()
    o, state = getattr(torch.ops.fla_cpp, name)(*call, output_final_state=True)
    assert same((o, state), function(*call, output_final_state=True))
    o, state = getattr(torch.ops.fla_cpp, name)(*call)
    assert state.numel() == 0


CALLS = {
    "plain": {},
    "state": dict(output_final_state=True),
    "given state": dict(initial_state=torch.zeros(1, 2, 16, 8, dtype=torch.bfloat16), output_final_state=True),
    "v first": dict(initial_state=torch.zeros(1, 2, 8, 16), state_v_first=True, output_final_state=True),
    "packed": dict(cu_seqlens=torch.tensor([0, 3, 20]), output_final_state=True),
    "gates": dict(A_log=torch.zeros(2), dt_bias=torch.zeros(2, 16), use_gate_in_kernel=True),
}


@by_name
@pytest.mark.parametrize("options", CALLS.values(), ids=CALLS.keys())
def test_fake_kernels_agree_with_real_ones(function, options):
    call = random_call(V=8)
    op = getattr(torch.ops.fla_cpp, function.__name__)
    torch.library.opcheck(op, tuple(call), options, test_utils=("test_schema", "test_faketensor"))
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        inputs = [mode.from_tensor(x) for x in call]
        given = {k: mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for k, x in options.items()}
        fakes = function(*inputs, **given)
    for fake, real in zip(fakes, function(*call, **options)):
        assert (fake is None) == (real is None)
        if real is not None:
            assert (fake.shape, fake.dtype, fake.device) == (real.shape, real.dtype, real.device)


def test_the_out_ops_write_and_return_what_was_not_given():
    call = random_call()
    expected = fla_cpp.kda(*call, output_final_state=True)
    out = torch.full((1, 20, 2, 16), torch.nan)
    o, state = torch.ops.fla_cpp.kda_out(*call, output_final_state=True, out=out)
    assert o.numel() == 0 and same((out, state), expected)
    torch.library.opcheck(
        torch.ops.fla_cpp.kda_out, tuple(call), dict(out=out), test_utils=("test_schema", "test_faketensor")
    )


def test_a_subclass_goes_through_torchs_dispatcher():
    seen = []

    class Watched(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return super().__torch_function__(function, types, args, kwargs or {})

    call = random_call()
    o, _ = fla_cpp.chunk_kda(call[0].as_subclass(Watched), *call[1:])
    assert type(o) is Watched and any("chunk_kda" in name for name in seen)
    assert torch.equal(o.as_subclass(torch.Tensor), fla_cpp.chunk_kda(*call)[0])


def test_torch_may_be_imported_after_the_module():
    code = """
import fla_cpp, sys
assert "torch" not in sys.modules
import torch
x = torch.ones(1, 1, 1, 16)
print(tuple(fla_cpp.kda(x, x, x, x, x[..., 0])[0].shape), hasattr(torch.ops.fla_cpp, "kda"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "(1, 1, 1, 16) True\n", done.stderr


# ---- threads and memory


def test_threads_that_call_at_once_get_their_own_answers():
    calls = [random_call(T=30 + seed, seed=seed) for seed in range(8)]
    expected = [fla_cpp.kda(*call, output_final_state=True) for call in calls]
    start = threading.Barrier(8)

    def work(n):
        start.wait()
        for _ in range(50):
            assert same(fla_cpp.kda(*calls[n], output_final_state=True), expected[n])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_a_forked_worker_works():
    call = random_call(T=64)
    expected = fla_cpp.chunk_kda(*call)[0]
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if torch.equal(fla_cpp.chunk_kda(*call)[0], expected) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_calls_leak_nothing():
    from test_processes import leaked_kib

    call = random_call(T=1, H=1)
    states = {"initial_state": torch.zeros(1, 1, 16, 16), "output_final_state": True}
    assert leaked_kib(lambda: fla_cpp.fused_recurrent_kda(*call, **states), 20_000) < 512


def test_a_model_with_the_call_in_it_can_be_copied():
    class Layer(torch.nn.Module):
        def forward(self, *call):
            return fla_cpp.kda(*call)[0]

    call = random_call()
    assert torch.equal(copy.deepcopy(Layer())(*call), fla_cpp.kda(*call)[0])


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_tensors_without_memory_have_results_without_memory(device):
    from torch._subclasses.fake_tensor import FakeTensorMode

    names = ("chunk_kda", "fused_recurrent_kda", "kda")
    with FakeTensorMode() if device == "cpu" else contextlib.nullcontext():
        q, k, v, g, beta = (x.to(device) if device == "meta" else torch.empty(x.shape) for x in random_call(T=9, HV=4, V=8))
        for name in names:
            o, state = getattr(fla_cpp, name)(q, k, v, g, beta, output_final_state=True)
            assert (o.shape, o.dtype, o.device.type) == ((1, 9, 4, 8), torch.float32, device)
            assert (state.shape, state.device.type) == ((1, 4, 16, 8), device)
        q.requires_grad_()
        fla_cpp.chunk_kda(q, k, v, g, beta)[0].sum().backward()
        assert (q.grad.shape, q.grad.device.type) == (q.shape, device)


def test_packed_sequences_may_end_before_the_tokens_do():
    call = random_call(T=50)
    lengths = torch.tensor([0, 20, 20, 33])
    leaves = [x.clone().requires_grad_() for x in call]
    for x in leaves:
        x.data[:, 33:] = float("nan")
    short = [x[:, :33].clone().requires_grad_() for x in call]
    for name in ("chunk_kda", "fused_recurrent_kda"):
        results = getattr(fla_cpp, name)(*leaves, output_final_state=True, cu_seqlens=lengths)
        expected = getattr(fla_cpp, name)(*short, output_final_state=True, cu_seqlens=lengths)
        assert torch.equal(results[0][:, :33], expected[0]) and torch.equal(results[1], expected[1])
        assert torch.equal(results[0][:, 33:], torch.zeros(1, 17, 2, 16))
        gradients = torch.autograd.grad(results[0].sum() + results[1].sum(), leaves)
        wanted = torch.autograd.grad(expected[0].sum() + expected[1].sum(), short)
        for gradient, part in zip(gradients, wanted):
            assert torch.equal(gradient[:, :33], part) and not gradient[:, 33:].any()
    out = torch.full_like(call[2], 7)
    fla_cpp.chunk_kda(*call, out=out, cu_seqlens=lengths)
    assert not out[:, 33:].any() and out[:, :33].any()
    with pytest.raises(ValueError, match=r"^kda: cu_seqlens: expected a last entry of at most T=50, got cu_seqlens\[1\]=51"):
        fla_cpp.chunk_kda(*call, cu_seqlens=torch.tensor([0, 51]))


def test_normalized_linear_attention_may_be_padded_too():
    q, k, v = (x.abs() for x in random_call(T=50)[:3])
    lengths = torch.tensor([0, 20, 33])
    o, (state, keys) = fla_cpp.chunk_linear_attn(q, k, v, output_final_state=True, cu_seqlens=lengths)
    part, (part_state, part_keys) = fla_cpp.chunk_linear_attn(
        *(x[:, :33] for x in (q, k, v)), output_final_state=True, cu_seqlens=lengths
    )
    assert torch.equal(o[:, :33], part) and not o[:, 33:].any()
    assert torch.equal(state, part_state) and torch.equal(keys, part_keys)
