"""Gradients through torch: the family's ops against a plain recurrence that torch differentiates in float64."""

import fla_cpp
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from torch.utils.checkpoint import checkpoint

B, T, H, HV, K, V = 2, 37, 1, 2, 8, 12

# What an op's tensors are, and its rule.
OPS = {
    "kda": ("g beta", "delta"),
    "gated_delta_rule": ("g beta", "delta"),
    "delta_rule": ("beta", "delta"),
    "gla": ("g", "additive"),
    "simple_gla": ("g", "additive"),
    "retention": ("", "additive"),
    "lightning_attn": ("", "additive"),
    "linear_attn": ("", "additive"),
    "dplr_delta_rule": ("g a b", "low rank"),
    "iplr_delta_rule": ("a b", "low rank"),
}
by_op = pytest.mark.parametrize("op", OPS)
OPTIONS = {"lightning_attn": dict(layer_idx=1, num_layers=4), "linear_attn": dict(normalize=False)}


def inputs_of(op, dtype=torch.float32):
    made = torch.Generator().manual_seed(0)

    def rand(*shape):
        return torch.rand(*shape, generator=made)

    channels = op in ("kda", "gla", "dplr_delta_rule")
    given = dict(q=rand(B, T, H, K) - 0.5, k=rand(B, T, H, K) - 0.5, v=rand(B, T, HV, V) - 0.5)
    given["g"] = -rand(B, T, HV, K) if channels else -rand(B, T, HV)
    given |= dict(beta=rand(B, T, HV), a=0.4 * (rand(B, T, H, K) - 0.5), b=0.4 * (rand(B, T, H, K) - 0.5))
    given["initial_state"] = rand(B, HV, K, V) - 0.5
    names = ["q", "k", "v", *OPS[op][0].split(), "initial_state"]
    return {name: given[name].to(torch.float32 if name == "initial_state" else dtype) for name in names}


def recurrence(op, q, k, v, g=None, beta=None, a=None, b=None, initial_state=None):
    """The formula of the op's header, token by token."""
    rule = OPS[op][1]
    q, k = (x.repeat_interleave(HV // H, 2) for x in (q, k))
    heads = torch.arange(HV, dtype=q.dtype)
    if op == "retention":
        g = torch.log(1 - 2 ** (-5 - heads)).expand(B, T, HV)
    elif op == "lightning_attn":
        g = (-(8 / HV) * (1 - 1 / 4) * heads).expand(B, T, HV)
    elif g is None:
        g = torch.zeros(B, T, HV, dtype=q.dtype)
    if g.dim() == 3:
        g = g.unsqueeze(-1)
    S, outputs = initial_state, []
    for t in range(T):
        decayed = S * g[:, t].exp().unsqueeze(-1)
        key = k[:, t].unsqueeze(-1)
        if rule == "low rank":
            read = torch.einsum("bhk,bhkv->bhv", a[:, t].repeat_interleave(HV // H, 1), S)
            write = b[:, t].repeat_interleave(HV // H, 1).unsqueeze(-1)
            S = decayed + write * read.unsqueeze(-2) + key * v[:, t].unsqueeze(-2)
        else:
            u = v[:, t]
            if rule == "delta":
                u = beta[:, t].unsqueeze(-1) * (u - torch.einsum("bhk,bhkv->bhv", k[:, t], decayed))
            S = decayed + key * u.unsqueeze(-2)
        outputs.append(torch.einsum("bhk,bhkv->bhv", q[:, t], S) * K**-0.5)
    return torch.stack(outputs, 1), S


def weighed(o, state):
    """A number that depends on every element, each in its own way."""
    weights = (torch.linspace(-1, 1, x.numel(), dtype=x.dtype, device=x.device).view(x.shape) for x in (o, state))
    return sum((x * weight).sum() for x, weight in zip((o, state), weights))


def gradients_of(function, given, **options):
    leaves = {name: x.detach().clone().requires_grad_() for name, x in given.items()}
    weighed(*function(**leaves, **options)).backward()
    return {name: x.grad for name, x in leaves.items()}


def expect_close(found, wanted, tolerance):
    for name, expected in wanted.items():
        error = (found[name].double() - expected).norm() / expected.norm()
        assert error <= tolerance, f"{name}: {error}"
        assert found[name].shape == expected.shape


@by_op
@pytest.mark.parametrize("form", ["", "chunk_", "fused_recurrent_"])
def test_they_are_those_of_the_recurrence(op, form):
    given = inputs_of(op)
    found = gradients_of(getattr(fla_cpp, form + op), given, output_final_state=True, **OPTIONS.get(op, {}))
    wanted = gradients_of(lambda **x: recurrence(op, **x), {name: x.double() for name, x in given.items()})
    expect_close(found, wanted, 1e-5)


@by_op
def test_they_have_the_inputs_dtypes(op):
    given = inputs_of(op, torch.bfloat16)
    found = gradients_of(getattr(fla_cpp, op), given, output_final_state=True, **OPTIONS.get(op, {}))
    wanted = gradients_of(lambda **x: recurrence(op, **x), {name: x.double() for name, x in given.items()})
    expect_close(found, wanted, 1.5e-2)
    assert all(found[name].dtype == x.dtype for name, x in given.items())


@by_op
def test_torch_compiles_them(op):
    torch._dynamo.reset()
    given = inputs_of(op)
    options = dict(output_final_state=True, **OPTIONS.get(op, {}))
    function = getattr(fla_cpp, "chunk_" + op)
    compiled = torch.compile(lambda **x: function(**x, **options), fullgraph=True, backend="aot_eager")
    found = gradients_of(compiled, given)
    for name, expected in gradients_of(function, given, **options).items():
        assert torch.equal(found[name], expected), name


def test_activation_checkpointing_keeps_them():
    given = inputs_of("kda")
    plain = gradients_of(fla_cpp.kda, given, output_final_state=True)
    found = gradients_of(
        lambda **x: checkpoint(lambda **y: fla_cpp.kda(**y, output_final_state=True), use_reentrant=False, **x), given
    )
    assert all(torch.equal(found[name], expected) for name, expected in plain.items())


@pytest.mark.filterwarnings("ignore:Input .* is not a double precision")
def test_gradcheck_agrees():
    given = inputs_of("kda")
    names = list(given)
    short = [given[name][:1, :5] if name != "initial_state" else given[name][:1] for name in names]
    leaves = [x.clone().requires_grad_() for x in short]

    def run(*values):
        return fla_cpp.chunk_kda(**dict(zip(names, values)), output_final_state=True)

    assert torch.autograd.gradcheck(run, leaves, eps=1e-2, atol=2e-3, rtol=2e-2, nondet_tol=0)


def test_only_those_that_are_wanted_are_computed():
    given = inputs_of("kda")
    whole = gradients_of(fla_cpp.kda, given, output_final_state=True)
    given["v"].requires_grad_()
    o, state = fla_cpp.kda(**given, output_final_state=True)
    weighed(o, state).backward()
    assert torch.equal(given["v"].grad, whole["v"])
    assert all(x.grad is None for name, x in given.items() if name != "v")
    of_v = torch.empty(given["v"].shape)
    results = fla_cpp.chunk_kda_backward(**{n: x.detach() for n, x in given.items()}, do=o.detach(), dv=of_v)
    assert sum(result is not None for result in results) == 1 and any(result is of_v for result in results)


def test_a_gradient_of_one_result_alone_is_enough():
    given = inputs_of("kda")
    for n in range(2):
        leaves = {name: x.clone().requires_grad_() for name, x in given.items()}
        fla_cpp.kda(**leaves, output_final_state=True)[n].sum().backward()
        wanted = {name: x.double().requires_grad_() for name, x in given.items()}
        recurrence("kda", **wanted)[n].sum().backward()
        for name, x in leaves.items():
            expected = torch.zeros_like(wanted[name]) if wanted[name].grad is None else wanted[name].grad
            assert (x.grad - expected).norm() <= 1e-5 * max(1, expected.norm()), name


def test_parameters_of_any_shape_have_theirs_in_it():
    given = inputs_of("kda")
    given["A_log"] = torch.zeros(1, 1, HV, 1)
    given["dt_bias"] = torch.zeros(HV * K)
    found = gradients_of(
        fla_cpp.kda, given, output_final_state=True, use_gate_in_kernel=True, use_qk_l2norm_in_kernel=True
    )

    def plain(A_log, dt_bias, g, q, k, **rest):
        gate = -A_log.exp() * torch.nn.functional.softplus(g + dt_bias.view(HV, K))
        q, k = (x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6) for x in (q, k))
        return recurrence("kda", q=q, k=k, g=gate, **rest)

    wanted = gradients_of(plain, {name: x.double() for name, x in given.items()})
    expect_close(found, wanted, 1e-5)


def test_second_derivatives_are_refused_in_one_sentence():
    given = {name: x.requires_grad_() for name, x in inputs_of("kda").items()}
    o, _ = fla_cpp.kda(**given)
    (dq,) = torch.autograd.grad(o.sum(), given["q"], create_graph=True)
    with pytest.raises(NotImplementedError, match="^fla_cpp: chunk_kda has no second derivatives$"):
        dq.sum().backward()


def test_a_pool_of_states_has_none():
    given = inputs_of("kda")
    pool = given.pop("initial_state")
    o, _ = fla_cpp.kda(
        **{name: x.requires_grad_() for name, x in given.items()}, initial_state=pool, state_indices=torch.tensor([1, 0])
    )
    with pytest.raises(NotImplementedError, match="^fla_cpp: kda has no backward with a pool of states; call it under"):
        o.sum().backward()


@pytest.mark.parametrize("with_gradients", [False, True])
def test_autocast_makes_queries_keys_and_values_its_own_dtype(with_gradients):
    given = inputs_of("kda")
    half = {name: x.bfloat16() if name in "qkv" else x for name, x in given.items()}
    wanted = gradients_of(fla_cpp.kda, half, output_final_state=True)
    if with_gradients:
        with torch.autocast("cpu", torch.bfloat16):
            found = gradients_of(fla_cpp.kda, given, output_final_state=True)
        assert all(found[name].dtype == torch.float32 for name in given)
        assert all(torch.equal(found[name], wanted[name].float()) for name in given)
        return
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        o, state = fla_cpp.kda(**given, output_final_state=True)
    assert o.dtype == torch.bfloat16 and state.dtype == torch.float32
    assert torch.equal(o, fla_cpp.kda(**half)[0])
