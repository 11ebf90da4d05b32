"""torch.compile and torch.export see the calls and pass them through whole."""

import subprocess
import sys

import cases
import fla_cpp
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")


def random_call(**options):
    return [torch.from_numpy(x) for x in cases.random_call(**options)]


def compiled(function, **options):
    """Traced, functionalised, with fake kernels; what is left out is the generation of code around the call."""
    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager", **options)


def step(q, k, v, g, beta, state):
    o, state = fla_cpp.chunk_kda(q * 2, k, v=v, g=g, beta=beta, initial_state=state, output_final_state=True)
    return o + 1, state * 2


def test_a_call_is_compiled_whole():
    call = [*random_call(), torch.zeros(1, 2, 16, 16)]
    for result, expected in zip(compiled(step)(*call), step(*call)):
        assert torch.equal(result, expected)


@pytest.mark.parametrize("name", ["kda", "chunk_kda", "fused_recurrent_kda"])
def test_a_state_that_was_not_asked_for_is_none(name):
    call = random_call()
    o, state = compiled(lambda *call: getattr(fla_cpp, name)(*call))(*call)
    assert state is None and torch.equal(o, getattr(fla_cpp, name)(*call)[0])


def test_shapes_may_change():
    function = compiled(lambda *call: fla_cpp.chunk_kda(*call, output_final_state=True), dynamic=True)
    for tokens in (20, 33, 70):
        call = random_call(T=tokens)
        for result, expected in zip(function(*call), fla_cpp.chunk_kda(*call, output_final_state=True)):
            assert torch.equal(result, expected)


def test_options_of_flash_linear_attention_are_compiled_too():
    call = random_call()
    options = dict(use_graph=True, chunk_size=32, disable_recompute=True)
    function = compiled(lambda *call: fla_cpp.chunk_kda(*call, **options)[0])
    assert torch.equal(function(*call), fla_cpp.chunk_kda(*call)[0])


def test_packed_sequences_are_compiled_whole():
    call = random_call(T=40)
    cu_seqlens = torch.tensor([0, 7, 40])
    function = compiled(lambda *call: fla_cpp.kda(*call, cu_seqlens=cu_seqlens, output_final_state=True))
    for result, expected in zip(function(*call), fla_cpp.kda(*call, cu_seqlens=cu_seqlens, output_final_state=True)):
        assert torch.equal(result, expected)


def test_a_state_is_updated_in_place():
    call = random_call(T=1)
    state, expected = torch.zeros(1, 2, 16, 16), torch.zeros(1, 2, 16, 16)

    def decode(q, k, v, g, beta, state):
        return fla_cpp.fused_recurrent_kda(q, k, v, g, beta, initial_state=state, final_state=state)[0]

    function = compiled(decode)
    for _ in range(3):
        assert torch.equal(function(*call, state), decode(*call, expected))
        assert torch.equal(state, expected)


def test_outputs_may_be_given():
    call = random_call()
    out = torch.zeros(1, 20, 2, 16)
    o, _ = compiled(lambda *call: fla_cpp.kda(*call, out=out))(*call)
    assert torch.equal(out, fla_cpp.kda(*call)[0]) and torch.equal(o, out)


def test_a_module_can_be_exported():
    class Layer(torch.nn.Module):
        def forward(self, q, k, v, g, beta):
            return fla_cpp.chunk_kda(q, k, v, g, beta)[0] * 3

    call = tuple(random_call())
    exported = torch.export.export(Layer(), call)
    assert "fla_cpp.chunk_kda.default" in str(exported.graph)
    assert torch.equal(exported.module()(*call), fla_cpp.chunk_kda(*call)[0] * 3)


def test_the_first_call_may_be_a_compiled_one_with_torch_imported_last():
    code = """
import fla_cpp
import torch
x = torch.ones(1, 4, 1, 16)
f = torch.compile(lambda x: fla_cpp.kda(x, x, x, x, x[..., 0])[0] * 2, fullgraph=True, backend="aot_eager")
print(torch.equal(f(x), fla_cpp.kda(x, x, x, x, x[..., 0])[0] * 2))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr


def test_errors_of_the_call_come_through():
    q, k, v, g, beta = random_call()
    function = compiled(lambda *call: fla_cpp.kda(*call)[0])
    with pytest.raises(Exception, match=r"beta: expected shape \[B=1, T=20, HV=2\], got \[1, 5, 2\]"):
        function(q, k, v, g, beta[:, :5])
