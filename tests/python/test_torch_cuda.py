"""Calls with torch's tensors on a GPU: on torch's stream, with torch's memory, in graphs."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import cases
import fla_cpp
import pytest
import reference

torch = pytest.importorskip("torch", reason="torch is not installed")
import test_gradients
from test_torch import assert_agrees, golden_call, same

if fla_cpp.why_no_cuda_device():
    pytest.skip(f"there is no GPU: {fla_cpp.why_no_cuda_device()}", allow_module_level=True)
if not torch.cuda.is_available():
    pytest.skip("this torch sees no GPU", allow_module_level=True)

FUNCTIONS = [fla_cpp.kda, fla_cpp.chunk_kda, fla_cpp.fused_recurrent_kda]
by_name = pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
# Of calls with bf16 inputs, as the C++ tests have it.
TOLERANCE = 8e-3


def random_call(dtype=torch.bfloat16, **options):
    options = dict(B=1, T=64, H=4, K=128, V=128) | options
    return [torch.from_numpy(x).cuda().to(dtype) for x in cases.random_call(**options)]


@by_name
@pytest.mark.parametrize("path", cases.GOLDEN, ids=lambda path: path.stem)
def test_golden_cases_agree(function, path):
    case = cases.Case(path)
    o, state = function(**golden_call(case, "cuda"), **case.options, output_final_state=True)
    assert o.is_cuda and state.is_cuda
    assert_agrees((o, state), (case.expected["o"], case.expected["final_state"]), case.tolerance)


def test_a_call_is_on_torchs_current_stream():
    call = random_call()
    expected = fla_cpp.kda(*call, output_final_state=True)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        late = [torch.zeros_like(x) for x in call]
        torch.cuda._sleep(50_000_000)  # the inputs are there only after this
        for target, source in zip(late, call):
            target.copy_(source)
        results = fla_cpp.kda(*late, output_final_state=True)
        kept = [result.clone() for result in results]
    stream.synchronize()
    assert same(kept, expected)


def test_a_stream_may_be_named():
    call = random_call()
    expected = fla_cpp.kda(*call)[0]
    torch.cuda.synchronize()
    for stream in (torch.cuda.Stream(), torch.cuda.Stream().cuda_stream):
        o, _ = fla_cpp.kda(*call, stream=stream)
        torch.cuda.synchronize()
        assert torch.equal(o, expected)
    with pytest.raises(TypeError, match="stream: expected a CUDA stream or its handle, got str"):
        fla_cpp.kda(*call, stream="default")


def test_memory_is_torchs_and_is_given_back():
    call = random_call()
    fla_cpp.kda(*call, output_final_state=True)
    before = torch.cuda.memory_allocated()
    o, state = fla_cpp.kda(*call, output_final_state=True)
    assert torch.cuda.memory_allocated() >= before + o.nbytes + state.nbytes
    del o, state
    for _ in range(200):
        fla_cpp.kda(*call, output_final_state=True)
    gc.collect()
    assert torch.cuda.memory_allocated() == before


def test_states_of_a_pool_are_updated_in_place():
    call = random_call(B=8, T=1)
    pool = torch.randn(16, 4, 128, 128, device="cuda")
    slots = torch.tensor([3, 1, -1, 0, 15, 7, 8, 2], dtype=torch.int32, device="cuda")
    before = pool.clone()
    used = slots.clamp(min=0).long()
    doubles = [x.double().cpu().numpy() for x in call]
    expected = reference.kda(*doubles, initial_state=before[used].double().cpu().numpy())
    o, final = fla_cpp.fused_recurrent_kda(*call, initial_state=pool, final_state=pool, state_indices=slots)
    assert final is pool
    live = (slots >= 0).cpu().numpy()
    assert reference.error(o.double().cpu().numpy()[live], expected[0][live]) < TOLERANCE
    assert reference.error(pool[used].double().cpu().numpy()[live], expected[1][live]) < TOLERANCE
    untouched = [4, 5, 6, 9, 10, 11, 12, 13, 14]
    assert torch.equal(pool[untouched], before[untouched])


def test_packed_sequences_with_lengths_on_the_device_agree():
    call = random_call(T=200)
    cu_seqlens = torch.tensor([0, 70, 70, 129, 200], device="cuda")
    expected = reference.kda(*(x.double().cpu().numpy() for x in call), cu_seqlens=[0, 70, 70, 129, 200])
    results = fla_cpp.chunk_kda(*call, cu_seqlens=cu_seqlens, output_final_state=True)
    assert_agrees(results, expected, TOLERANCE)


def test_devices_that_do_not_agree_are_an_error():
    call = random_call()
    with pytest.raises(ValueError, match="k: expected device cuda:0, got cpu"):
        fla_cpp.kda(call[0], call[1].cpu(), *call[2:])


# ---- graphs


@by_name
def test_a_captured_call_can_be_replayed_with_other_contents(function):
    call = random_call()
    state = torch.zeros(1, 4, 128, 128, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        function(*call, initial_state=state, output_final_state=True)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = function(*call, initial_state=state, output_final_state=True)
    for seed in (1, 2):
        for target, source in zip(call, random_call(seed=seed)):
            target.copy_(source)
        state.normal_()
        graph.replay()
        torch.cuda.synchronize()
        assert same(results, function(*call, initial_state=state, output_final_state=True))


def test_a_decoding_loop_can_be_captured():
    call = random_call(B=4, T=1)
    pool, expected = torch.zeros(4, 4, 128, 128, device="cuda"), torch.zeros(4, 4, 128, 128, device="cuda")

    def step(pool):
        return fla_cpp.kda(*call, initial_state=pool, final_state=pool)[0]

    step(pool)
    pool.zero_()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o = step(pool)
    pool.zero_()
    for _ in range(5):
        graph.replay()
        wanted = step(expected)
    torch.cuda.synchronize()
    assert torch.equal(o, wanted) and torch.equal(pool, expected)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_a_compiled_call_agrees(mode):
    def step(q, k, v, g, beta, state):
        o, state = fla_cpp.chunk_kda(q * 2, k, v, g, beta, initial_state=state, output_final_state=True)
        return o.float() + 1, state * 2

    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, mode=mode)
    state = torch.randn(1, 4, 128, 128, device="cuda")
    for seed in range(4):
        call = random_call(seed=seed)
        torch.compiler.cudagraph_mark_step_begin()
        results = [result.clone() for result in compiled(*call, state)]
        assert_agrees(results, [x.double().cpu().numpy() for x in step(*call, state)], 1e-6)


def test_a_compiled_step_updates_its_state_in_place():
    call = random_call(T=1)
    state, expected = (torch.zeros(1, 4, 128, 128, device="cuda") for _ in range(2))

    def step(q, k, v, g, beta, state):
        return fla_cpp.fused_recurrent_kda(q, k, v, g, beta, initial_state=state, final_state=state)[0] * 2

    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(*call, state), step(*call, expected))
        assert torch.equal(state, expected)


def test_threads_on_streams_of_their_own_get_their_own_answers():
    calls = [random_call(T=40 + seed, seed=seed) for seed in range(4)]
    expected = [fla_cpp.kda(*call)[0] for call in calls]
    torch.cuda.synchronize()
    start = threading.Barrier(4)

    def work(n):
        start.wait()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(20):
                o, _ = fla_cpp.kda(*calls[n])
                stream.synchronize()
                assert torch.equal(o, expected[n])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


@pytest.mark.parametrize("op", test_gradients.OPS)
def test_gradients_are_those_on_the_cpu(op):
    given, options = test_gradients.inputs_of(op), test_gradients.OPTIONS.get(op, {})
    function = getattr(fla_cpp, op)
    wanted = test_gradients.gradients_of(function, given, output_final_state=True, **options)
    there = {name: x.cuda() for name, x in given.items()}
    found = test_gradients.gradients_of(function, there, output_final_state=True, **options)
    assert all(x.is_cuda for x in found.values())
    test_gradients.expect_close({name: x.cpu() for name, x in found.items()}, wanted, 1e-5)
