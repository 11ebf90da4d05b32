"""fla_cpp as a backend in the registry of flash-linear-attention itself: that library's functions and layers run on it."""

import inspect
import os
import subprocess
import sys
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import fla_cpp
import fla_cpp.flash_linear_attention
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
REASON = "flash-linear-attention 0.6.0 is not installed"
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that there is no GPU
    backends = pytest.importorskip("fla.backends", reason=REASON, exc_type=ImportError)
from fla_cpp import _compatibility
from test_flash_linear_attention import additive_call, call_of

register, unregister = fla_cpp.flash_linear_attention.register, fla_cpp.flash_linear_attention.unregister
LAYER_OPS = ("common", "gated_rms_norm", "merge", "short_conv", "kda_step", "gated_delta_rule_step")
OPS = [op.name for op in fla_cpp.ops() if op.name not in LAYER_OPS]
FUNCTIONS = [f"{prefix}_{op}" for op in OPS for prefix in ("chunk", "fused_recurrent")]
FUSED = [f"fused_chunk_{op}" for op in ("simple_gla", "retention", "linear_attn")]


@pytest.fixture(autouse=True)
def registered():
    yield register()
    unregister()


def op_of(name):
    return name.removeprefix("fused_").removeprefix("chunk_").removeprefix("recurrent_")


def theirs(name):
    """As a user imports it."""
    return getattr(import_module(f"fla.ops.{_compatibility.paths_of(name.replace('fused_chunk_', 'chunk_'))[-1]}"), name)


def given(name):
    call = call_of(op_of(name))
    if name == "fused_recurrent_gla":
        call["gk"] = call.pop("g")
    return call


def taken():
    counts = {}
    for row in fla_cpp.counters():
        counts[row.function] = counts.get(row.function, 0) + row.taken
    return counts


def test_every_function_is_served(registered):
    assert sorted(name.rpartition(".")[2] for name in registered) == sorted(FUNCTIONS + FUSED)
    assert "fla.ops.kda.chunk.chunk_kda" in registered


@pytest.mark.parametrize("name", FUNCTIONS + FUSED)
def test_a_call_runs_on_fla_cpp_forward_and_backward(name):
    ours = name.replace("fused_chunk_", "chunk_")
    call = {argument: x.requires_grad_() if isinstance(x, torch.Tensor) else x for argument, x in given(name).items()}
    leaves = [x for x in call.values() if isinstance(x, torch.Tensor)]
    leaves = [x for x in leaves if x.is_leaf]
    expected = getattr(fla_cpp, ours)(**call, output_final_state=True)
    gradients = torch.autograd.grad(expected[0].sum(), leaves, allow_unused=True)

    before = taken()
    o, state = theirs(name)(**call, output_final_state=True)
    found = torch.autograd.grad(o.sum(), leaves, allow_unused=True)
    after = taken()
    assert after[ours] == before[ours] + 1
    assert after[f"chunk_{op_of(name)}_backward"] == before[f"chunk_{op_of(name)}_backward"] + 1
    assert torch.equal(o, expected[0])
    assert all(torch.equal(a, b) for a, b in zip(found, gradients) if b is not None)
    states = zip(state, expected[1]) if isinstance(state, tuple) else [(state, expected[1])]
    assert all(torch.equal(a, b) for a, b in states)


def test_results_are_those_of_that_librarys_naive_functions():
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule, naive_recurrent_gated_delta_rule
    from fla.ops.kda import chunk_kda
    from fla.ops.kda.naive import naive_recurrent_kda

    for chunk, naive, op in (
        (chunk_kda, naive_recurrent_kda, "kda"),
        (chunk_gated_delta_rule, naive_recurrent_gated_delta_rule, "gated_delta_rule"),
    ):
        call = call_of(op)
        found, expected = chunk(**call, output_final_state=True), naive(**call, output_final_state=True)
        assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(found, expected))


def test_arguments_by_position_are_those_of_that_library():
    for name in FUNCTIONS + FUSED:
        function, call = theirs(name), given(name)
        parameters = list(inspect.signature(function).parameters)
        arguments = [call.get(parameter) for parameter in parameters[: parameters.index("initial_state")]]
        assert torch.equal(function(*arguments, None, True)[0], function(**call, output_final_state=True)[0])


def test_rwkv7_runs_on_dplr_delta_rule():
    from fla.ops.rwkv7 import chunk_rwkv7, fused_recurrent_rwkv7

    call = call_of("dplr_delta_rule")
    call = {"r": call.pop("q"), "w": call.pop("gk"), **call}
    for function in (chunk_rwkv7, fused_recurrent_rwkv7):
        before = taken()
        o, _ = function(**call, scale=1.0)
        name = function.__name__.replace("rwkv7", "dplr_delta_rule")
        assert taken()[name] == before[name] + 1
        assert torch.equal(o, getattr(fla_cpp, function.__name__)(**call, scale=1.0)[0])


def test_what_the_how_to_shows_runs_here(capsys):
    page = Path(os.environ["FLA_SOURCE_DIR"]) / "tools/docs/pages/how-to/flash-linear-attention.md"
    before, names = taken(), {}
    exec(page.read_text().split("```python\n")[1].split("```")[0], names)
    assert taken()["chunk_gla"] == before["chunk_gla"] + 1
    assert taken()["chunk_gla_backward"] == before["chunk_gla_backward"] + 1
    assert "fla.ops.kda.chunk.chunk_kda" in names["served"]
    assert "chunk_gla_backward" in capsys.readouterr().out


def registry_of(name):
    return fla_cpp.flash_linear_attention._registry_of(theirs(name), backends.BackendRegistry)


def backend_of(name):
    return registry_of(name)._backends["fla_cpp"]


def test_there_is_one_class_per_op():
    classes = {name: type(backend_of(name)) for name in FUNCTIONS}
    assert len({kind.__qualname__ for kind in classes.values()}) == len(OPS)
    kda = backend_of("chunk_kda")
    assert (type(kda).__name__, kda.backend_type, kda.env_var, kda.priority) == ("FlaCppKda", "fla_cpp", "FLA_CPP_KDA", 1)
    assert kda.is_available() and kda.is_enabled()
    assert registry_of("chunk_kda").get_active() is kda


def test_verifiers_answer_with_our_reasons_and_run_nothing():
    before = fla_cpp.counters_json()
    kda, call = backend_of("chunk_kda"), call_of("kda")
    assert kda.verify("chunk_kda", **call) == (True, None)
    assert kda.verify("chunk_kda", *call.values()) == (True, None)
    assert kda.verify("chunk_kda", **call | {"beta": call["beta"][:, :5]}) == (
        False,
        "kda: beta: expected shape [B=1, T=40, HV=2], got [1, 5, 2]",
    )
    ok, reason = kda.verify("chunk_kda", **call, cp_context=object())
    assert not ok and reason.startswith("kda: cp_context: expected None or what fla_cpp.ops.cp.build_cp_context returns, got <object object")
    ok, reason = kda.verify("chunk_kda", **call, no_such_argument=1)
    assert not ok and "no_such_argument" in reason
    gla, call = backend_of("fused_recurrent_gla"), given("fused_recurrent_gla")
    assert gla.verify("fused_recurrent_gla", **call, reverse=True) == (
        False,
        "gla: reverse: expected False, got True: fla_cpp does not have it",
    )
    with fla_cpp.policy(require={"gla": "cpu_simd"}):
        ok, reason = gla.verify("fused_recurrent_gla", **call | {"initial_state": torch.zeros(1, 2, 16, 16).bfloat16()})
        assert not ok and "requires an f32 initial_state, got bf16" in reason
    assert fla_cpp.counters_json() == before


def test_verifiers_know_the_calls_that_are_several_here():
    before = fla_cpp.counters_json()
    q, k, v = additive_call(320, 270, T=9)
    assert backend_of("chunk_linear_attn").verify("chunk_linear_attn", q, k, v, output_final_state=True) == (True, None)
    ok, reason = backend_of("chunk_linear_attn").verify("chunk_linear_attn", q, k[:, :5], v)
    assert not ok and reason.startswith("linear_attn: k: expected shape")
    lengths = torch.tensor([0, 10, 40])
    kda, call = backend_of("chunk_kda"), call_of("kda") | {"cu_seqlens": lengths, "return_intermediate_states": True}
    assert kda.verify("chunk_kda", **call) == (True, None)
    assert fla_cpp.counters_json() == before
    assert theirs("chunk_kda")(**call)[2].shape == (1, 2, 2, 16, 16)


def test_what_fla_cpp_refuses_goes_on_to_that_librarys_own_kernels():
    before = taken()
    with pytest.raises(Exception):  # Triton's, which need a GPU
        theirs("fused_recurrent_gla")(**given("fused_recurrent_gla"), reverse=True)
    assert taken() == before


def test_the_toggle_switches_an_op_off(monkeypatch):
    monkeypatch.setenv("FLA_CPP_KDA", "0")
    before = taken()
    assert not backend_of("chunk_kda").is_enabled() and backend_of("chunk_gla").is_enabled()
    with pytest.raises(Exception):
        theirs("chunk_kda")(**call_of("kda"))
    assert taken() == before
    monkeypatch.setenv("FLA_FLA_CPP", "1")
    assert backend_of("chunk_kda").is_enabled()
    fla_cpp.reload_environment()


def test_unregister_leaves_nothing():
    unregister()
    names = FUNCTIONS + FUSED
    before = {name: theirs(name) for name in names}
    functions = dict(backends._function_registries)
    register()
    from fla.layers import gla

    assert theirs("chunk_gla") is not before["chunk_gla"] and gla.chunk_gla is theirs("chunk_gla")
    assert register() and theirs("chunk_gla") is gla.chunk_gla  # a second time changes nothing
    unregister()
    assert all(theirs(name) is before[name] for name in names) and gla.chunk_gla is before["chunk_gla"]
    assert all("fla_cpp" not in registry._backends for registry in backends._operation_registries.values())
    assert backends._function_registries == functions


class NormGated(torch.nn.Module):
    """FusedRMSNormGated without Triton."""

    def __init__(self, size):
        super().__init__()
        self.norm = torch.nn.RMSNorm(size)

    def forward(self, x, gate):
        return self.norm(x) * gate.sigmoid()


@pytest.mark.parametrize("packed", (False, True))
def test_a_layer_runs_on_fla_cpp(packed):
    from fla.layers import KimiDeltaAttention

    torch.manual_seed(0)
    layer = KimiDeltaAttention(hidden_size=32, head_dim=16, num_heads=2, use_short_conv=False)
    layer.o_norm = NormGated(16)
    options = {"cu_seqlens": torch.tensor([0, 30, 70])} if packed else {}
    x = torch.randn(1, 70, 32, requires_grad=True)
    before = taken()
    layer(x, **options)[0].square().sum().backward()
    assert taken()["chunk_kda"] == before["chunk_kda"] + 1
    assert taken()["chunk_kda_backward"] == before["chunk_kda_backward"] + 1
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
    assert x.grad.abs().max() > 0
    with torch.no_grad():
        layer.eval()(x[:, :10])
    assert taken()["fused_recurrent_kda"] == before["fused_recurrent_kda"] + 1


def test_a_compiled_function_runs_on_fla_cpp():
    call = call_of("gla")
    torch._dynamo.reset()
    compiled = torch.compile(lambda q, k, v, g: theirs("chunk_gla")(q, k, v, g)[0] * 2, backend="eager")
    before = taken()
    o = compiled(**call)
    assert taken()["chunk_gla"] == before["chunk_gla"] + 1
    assert torch.equal(o, 2 * fla_cpp.chunk_gla(**call)[0])


def test_that_librarys_dispatch_may_be_bypassed():
    code = "import warnings; warnings.simplefilter('ignore')\nimport fla_cpp.flash_linear_attention as f; print(f.register())"
    environment = os.environ | {"FLA_DISABLE_BACKEND_DISPATCH": "1"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_an_absent_library_is_named(monkeypatch):
    unregister()
    monkeypatch.setitem(sys.modules, "fla.backends", None)
    with pytest.raises(ImportError, match="expected flash-linear-attention 0.6.0 or newer, .*, got 0.6.0"):
        register()
    monkeypatch.setattr(fla_cpp.flash_linear_attention, "version", lambda name: version("no-such-package"))
    with pytest.raises(ImportError, match="expected flash-linear-attention 0.6.0 or newer, .*, got none"):
        register()
