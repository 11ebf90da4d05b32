"""A script that was written for flash-linear-attention runs with only its import changed, and what that library refuses
is refused."""

import warnings
from pathlib import Path
from types import SimpleNamespace

import cases
import fla_cpp
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from test_torch import assert_agrees, golden_call, random_call

SCRIPT = Path(__file__).parent / "scripts/kda_for_flash_linear_attention.py"
THEIRS, OURS = "from fla.ops.kda import chunk_kda", "from fla_cpp import chunk_kda"


@pytest.fixture(scope="module")
def script():
    text = SCRIPT.read_text()
    assert text.count(THEIRS) == 1
    namespace = {}
    exec(compile(text.replace(THEIRS, OURS), SCRIPT, "exec"), namespace)
    return SimpleNamespace(**namespace)


by_case = pytest.mark.parametrize("path", cases.GOLDEN, ids=lambda path: path.stem)


def read(path):
    case = cases.Case(path)
    return case, golden_call(case) | case.options, (case.expected["o"], case.expected["final_state"])


@by_case
def test_prefill_agrees(script, path):
    case, call, expected = read(path)
    assert_agrees(script.prefill(call), expected, case.tolerance)


@by_case
def test_prefill_by_position_is_the_same(script, path):
    _, call, _ = read(path)
    for result, other in zip(script.prefill_by_position(call), script.prefill(call)):
        assert torch.equal(result, other)


@pytest.mark.parametrize("path", [p for p in cases.GOLDEN if "varlen" not in p.stem], ids=lambda path: path.stem)
def test_generating_token_by_token_agrees(script, path):
    case, call, expected = read(path)
    assert_agrees(script.generate(call, call["q"].shape[1] // 2), expected, case.tolerance)


by_function = pytest.mark.parametrize(
    "function", [fla_cpp.kda, fla_cpp.chunk_kda, fla_cpp.fused_recurrent_kda], ids=lambda f: f.__name__
)


@by_function
def test_the_old_name_of_state_v_first_works_and_warns_where_it_is_used(function):
    call = random_call(V=8)
    with pytest.warns(DeprecationWarning, match="transpose_state_layout is the old name of state_v_first") as caught:
        state = function(*call, output_final_state=True, transpose_state_layout=True)[1]
    assert [warning.filename for warning in caught] == [__file__]
    assert torch.equal(state, function(*call, output_final_state=True, state_v_first=True)[1])
    with pytest.warns(DeprecationWarning):
        state = function(*call, output_final_state=True, transpose_state_layout=False)[1]
    assert torch.equal(state, function(*call, output_final_state=True)[1])


@by_function
def test_the_old_and_the_new_name_together_are_refused(function):
    with pytest.raises(ValueError, match="transpose_state_layout: expected state_v_first alone, got both") as raised:
        function(*random_call(), state_v_first=True, transpose_state_layout=True)
    assert raised.value.argument == "transpose_state_layout"


def test_the_new_name_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fla_cpp.chunk_kda(*random_call(), state_v_first=True, output_final_state=True)


def test_the_old_name_is_compiled_too():
    call = random_call(V=8)

    def old(*call):
        return fla_cpp.chunk_kda(*call, output_final_state=True, transpose_state_layout=True)

    torch._dynamo.reset()
    state = torch.compile(old, fullgraph=True, backend="aot_eager")(*call)[1]
    assert torch.equal(state, fla_cpp.chunk_kda(*call, output_final_state=True, state_v_first=True)[1])


@pytest.mark.parametrize("function", [fla_cpp.kda, fla_cpp.chunk_kda], ids=lambda f: f.__name__)
def test_chunks_have_32_or_64_tokens(function):
    call = random_call()
    assert torch.equal(function(*call, chunk_size=32)[0], function(*call, chunk_size=64)[0])
    for size in (16, 0, 128, None):
        with pytest.raises(ValueError, match=f"`chunk_size` must be either 32 or 64, got {size}") as raised:
            function(*call, chunk_size=size)
        assert raised.value.argument == "chunk_size"


@by_function
@pytest.mark.parametrize("shape", [(4,), (1, 1, 4, 1), (4, 1), (2, 2), (1, 1, 1, 1, 4)], ids=str)
def test_A_log_may_have_any_shape(function, shape):
    call, A_log = random_call(H=2, HV=4), torch.randn(4)
    expected = function(*call, A_log=A_log, use_gate_in_kernel=True)[0]
    assert torch.equal(function(*call, A_log=A_log.reshape(shape), use_gate_in_kernel=True)[0], expected)
    spread = torch.zeros(*shape, 2)
    spread[..., 0] = A_log.reshape(shape)
    assert torch.equal(function(*call, A_log=spread[..., 0], use_gate_in_kernel=True)[0], expected)


def test_A_log_may_be_a_number_where_there_is_one_head():
    call, A_log = random_call(H=1), torch.randn(1)
    expected = fla_cpp.kda(*call, A_log=A_log, use_gate_in_kernel=True)[0]
    assert torch.equal(fla_cpp.kda(*call, A_log=A_log.squeeze(), use_gate_in_kernel=True)[0], expected)


def test_A_log_with_another_count_of_numbers_is_refused():
    with pytest.raises(ValueError, match=r"A_log: expected shape \[HV=2\], got \[3\]"):
        fla_cpp.kda(*random_call(), A_log=torch.zeros(1, 1, 3, 1), use_gate_in_kernel=True)
    with pytest.raises(ValueError, match=r"A_log: expected shape \[HV=4\], got \[2, 2\]"):
        fla_cpp.kda(*random_call(HV=4), A_log=torch.zeros(2, 3)[:, :2], use_gate_in_kernel=True)


def test_A_log_of_any_shape_is_compiled_too():
    call, A_log = random_call(), torch.randn(2)
    torch._dynamo.reset()
    function = torch.compile(
        lambda A_log: fla_cpp.chunk_kda(*call, A_log=A_log, use_gate_in_kernel=True)[0],
        fullgraph=True,
        backend="aot_eager",
    )
    expected = fla_cpp.chunk_kda(*call, A_log=A_log, use_gate_in_kernel=True)[0]
    assert torch.equal(function(A_log.reshape(1, 1, 2, 1)), expected)


def call_of(op):
    q, k, v = (torch.randn(1, 40, 2, 16) for _ in range(3))
    call = {"q": q, "k": torch.nn.functional.normalize(k, dim=-1), "v": v}
    if op in ("gated_delta_rule", "simple_gla"):
        call["g"] = -torch.rand(1, 40, 2)
    if op in ("gla", "kda"):
        call["g"] = -torch.rand(1, 40, 2, 16)
    if op == "dplr_delta_rule":
        call["gk"] = -torch.rand(1, 40, 2, 16)
    if op in ("gated_delta_rule", "delta_rule", "kda"):
        call["beta"] = torch.rand(1, 40, 2)
    if op in ("iplr_delta_rule", "dplr_delta_rule"):
        call |= {"a": -call["k"], "b": call["k"] * 0.5}
    if op == "lightning_attn":
        call |= {"layer_idx": 1, "num_layers": 4}
    return call


@pytest.mark.parametrize(
    "op", ["gated_delta_rule", "delta_rule", "simple_gla", "retention", "lightning_attn", "iplr_delta_rule"]
)
def test_sizes_of_chunks_change_nothing(op):
    function, call = getattr(fla_cpp, f"chunk_{op}"), call_of(op)
    assert torch.equal(function(**call, chunk_size=16)[0], function(**call)[0])
    if op.endswith("delta_rule") and op != "iplr_delta_rule":
        with pytest.raises(ValueError, match="`chunk_size` must be 16, 32, or 64, got 48") as raised:
            function(**call, chunk_size=48)
        assert raised.value.argument == "chunk_size"


@pytest.mark.parametrize("name", ["chunk_gated_delta_rule"] + [
    f"fused_recurrent_{op}" for op in ("gated_delta_rule", "gla", "simple_gla", "retention")
])
def test_other_ops_know_the_old_name_of_the_layout(name):
    function, call = getattr(fla_cpp, name), call_of(name.removeprefix("chunk_").removeprefix("fused_recurrent_"))
    with pytest.warns(DeprecationWarning, match="transpose_state_layout is the old name of state_v_first"):
        state = function(**call, output_final_state=True, transpose_state_layout=True)[1]
    assert torch.equal(state, function(**call, output_final_state=True, state_v_first=True)[1])


@pytest.mark.parametrize("op", ["retention", "gated_delta_rule"])
def test_first_states_of_f16_are_taken_as_f32(op):
    call, state = call_of(op), torch.randn(1, 2, 16, 16).half().requires_grad_()
    for function in (getattr(fla_cpp, f"chunk_{op}"), getattr(fla_cpp, f"fused_recurrent_{op}")):
        expected = function(**call, initial_state=state.detach().float(), output_final_state=True)
        results = function(**call, initial_state=state, output_final_state=True)
        assert all(torch.equal(ours, theirs) for ours, theirs in zip(results, expected))
    getattr(fla_cpp, f"chunk_{op}")(**call, initial_state=state)[0].sum().backward()
    assert state.grad.dtype == torch.float16 and state.grad.abs().max() > 0
    with pytest.raises(ValueError, match="initial_state: expected dtype bf16 or f32, got f16"):
        function(**call, initial_state=state.detach(), final_state=torch.empty(1, 2, 16, 16))


def additive_call(K, V, H=2, HV=2, T=70, seed=5):
    random = torch.Generator().manual_seed(seed)
    q, k = (torch.rand(1, T, H, K, generator=random) + 0.01 for _ in range(2))
    return q, k, torch.randn(1, T, HV, V, generator=random)


@pytest.mark.parametrize("function", [fla_cpp.chunk_linear_attn, fla_cpp.fused_recurrent_linear_attn, fla_cpp.linear_attn])
def test_normalized_linear_attention_goes_on_from_a_pair_of_states(function):
    call = additive_call(16, 8, HV=4)
    whole, nothing = function(*call, normalize=True)
    assert nothing is None
    first, state = function(*(x[:, :30] for x in call), normalize=True, output_final_state=True)
    assert state[0].shape == (1, 4, 16, 8) and state[1].shape == (1, 1, 2, 16)
    second, (_, keys) = function(
        *(x[:, 30:] for x in call), normalize=True, initial_state=state, output_final_state=True
    )
    assert torch.allclose(torch.cat((first, second), 1), whole, rtol=1e-4, atol=1e-5)
    assert torch.allclose(keys, call[1].sum(1, keepdim=True))
    lengths = torch.tensor([0, 30, 30, 70])
    together, (_, keys) = function(*call, normalize=True, output_final_state=True, cu_seqlens=lengths)
    assert torch.allclose(together[:, :30], first, rtol=1e-4, atol=1e-5) and keys.shape == (3, 1, 2, 16)
    assert torch.equal(keys[1], torch.zeros(1, 2, 16))
    sentence = "out: expected None with normalize and a state, got 'Tensor': fla_cpp does not have it"
    with pytest.raises(fla_cpp.InvalidArgument, match=sentence):
        function(*call, normalize=True, output_final_state=True, out=torch.empty_like(whole))


def test_gradients_go_through_the_pair_of_states():
    call = [x.requires_grad_() for x in additive_call(16, 8)]
    weights = torch.randn(1, 70, 2, 8, generator=torch.Generator().manual_seed(1))
    function = fla_cpp.chunk_linear_attn
    expected = torch.autograd.grad((function(*call)[0] * weights).sum(), call)
    first, state = function(*(x[:, :30] for x in call), output_final_state=True)
    second, _ = function(*(x[:, 30:] for x in call), initial_state=state)
    for gradient, wanted in zip(torch.autograd.grad((torch.cat((first, second), 1) * weights).sum(), call), expected):
        assert torch.allclose(gradient, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("v_first", (False, True))
def test_heads_of_additive_ops_may_have_more_than_256_keys_or_values(v_first):
    q, k, v = additive_call(320, 270, T=9)
    g = -torch.rand(1, 9, 2, 320, generator=torch.Generator().manual_seed(2))
    first = torch.randn(1, 2, 320, 270, generator=torch.Generator().manual_seed(3))
    state, outputs = first.clone(), []
    for t in range(9):
        state = state * g[:, t].exp()[..., None] + k[:, t, :, :, None] * v[:, t, :, None]
        outputs.append(320**-0.5 * torch.einsum("bhk,bhkv->bhv", q[:, t], state))
    options = dict(output_final_state=True, state_v_first=v_first)
    given = first.mT if v_first else first
    for function in (fla_cpp.gla, fla_cpp.chunk_gla, fla_cpp.fused_recurrent_gla):
        o, final_state = function(q, k, v, g, initial_state=given, **options)
        assert torch.allclose(o, torch.stack(outputs, 1), rtol=1e-3, atol=1e-3)
        assert torch.allclose(final_state.mT if v_first else final_state, state, rtol=1e-3, atol=1e-3)
    o, nothing = fla_cpp.chunk_linear_attn(q, k, v, normalize=True)
    assert o.shape == v.shape and nothing is None
    with pytest.raises(fla_cpp.InvalidArgument, match="v: expected V from 1 to 256, got 270"):
        fla_cpp.chunk_delta_rule(q[..., :64], k[..., :64], v, torch.rand(1, 9, 2))
    with pytest.raises(fla_cpp.InvalidArgument, match="out: expected None with more than 256 keys or values, got 'Tensor'"):
        fla_cpp.chunk_gla(q, k, v, g, out=torch.empty_like(v))
