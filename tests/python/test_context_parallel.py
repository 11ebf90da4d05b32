"""Sequences over the ranks of torch.distributed, on gloo: every rank knows the whole batch, and its part of a call over ranks
is held to a call that is not cut."""

import inspect

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as processes  # noqa: E402

import fla_cpp  # noqa: E402
from fla_cpp.modules.convolution import causal_conv1d  # noqa: E402

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("torch was built without gloo", allow_module_level=True)

from fla_cpp.ops.cp import build_cp_context  # noqa: E402

OPS = ["kda", "gated_delta_rule", "delta_rule", "gla", "simple_gla", "retention", "lightning_attn", "linear_attn"]
OPS += ["dplr_delta_rule", "iplr_delta_rule"]
STARTS = [0, 40, 40, 190, 193, 230]
HV, K, V = 2, 16, 12


def inputs(op, starts, seed=1):
    """Of the whole batch, by name: leaves."""
    torch.manual_seed(seed)
    T, N = starts[-1], len(starts) - 1
    names = inspect.signature(getattr(fla_cpp, f"chunk_{op}")).parameters
    keys = {name: torch.nn.functional.normalize(torch.randn(1, T, HV, K), dim=-1) for name in "qkab"}
    call = {name: value for name, value in keys.items() if name in names}
    call["v"] = torch.randn(1, T, HV, V)
    if "g" in names or "gk" in names:
        by_token = op in ("gated_delta_rule", "simple_gla")
        call["g"] = -0.05 * torch.rand(1, T, HV, *(() if by_token else (K,)))
    if "beta" in names:
        call["beta"] = torch.rand(1, T, HV)
    call["initial_state"] = torch.randn(N, HV, K, V)
    return {name: value.requires_grad_() for name, value in call.items()}


def options(op):
    return {
        "lightning_attn": {"layer_idx": 1, "num_layers": 4},
        "linear_attn": {"normalize": False},
    }.get(op, {})


def close(found, expected):
    """Of what all ranks have together."""
    sums = torch.stack([(found - expected).double().square().sum(), expected.double().square().sum()])
    dist.all_reduce(sums)
    return sums[0].sqrt() <= 2e-6 * sums[1].sqrt()


def check_op(op, layout, starts):
    whole, upstream = inputs(op, starts), torch.randn(1, starts[-1], HV, V)
    index = torch.tensor(starts)
    function = getattr(fla_cpp, f"chunk_{op}")
    of_state = torch.randn(len(starts) - 1, HV, K, V)
    o, final = function(**whole, **options(op), output_final_state=True, cu_seqlens=index)
    ((o * upstream).sum() + (final * of_state).sum()).backward()

    context = build_cp_context(index, layout=layout)
    tokens = torch.tensor([t for piece in context.pieces for t in range(piece.begin, piece.end)], dtype=torch.long)
    sequences = torch.tensor([piece.sequence for piece in context.pieces] or [0])
    ends = torch.tensor([piece.ends for piece in context.pieces] or [False])
    begins = torch.tensor([piece.begins for piece in context.pieces] or [False])

    def mine(name, x):
        return x.detach()[sequences] if name == "initial_state" else x.detach()[:, tokens]

    local = {name: mine(name, x).requires_grad_() for name, x in whole.items()}
    found, last = function(**local, **options(op), output_final_state=True, cp_context=context)
    assert close(found, o.detach()[:, tokens]), "o"
    assert close(last[ends], final.detach()[sequences][ends]), "final_state"
    ((found * upstream[:, tokens]).sum() + (last * of_state[sequences] * ends[:, None, None, None]).sum()).backward()
    for name, x in whole.items():
        gradient, expected = local[name].grad, mine(name, x.grad)
        if name == "initial_state":
            gradient, expected = gradient[begins], expected[begins]
        assert close(gradient, expected), f"gradient of {name}"


def check_bytes():
    for tokens in (60, 300):
        call = {name: x.detach() for name, x in inputs("kda", [0, tokens]).items()}
        context = build_cp_context(torch.tensor([0, tokens]))
        rank = context.pieces[0]
        local = {name: x[:, rank.begin : rank.end] for name, x in call.items() if name != "initial_state"}
        fla_cpp.chunk_kda(**local, cp_context=context)
        assert context.bytes_sent == (HV * K * (V + K) * 4 if context.ranks > 1 else 0)


def check_convolution(layout):
    for starts in (STARTS, [0, 3, 5]):
        torch.manual_seed(1)
        x, weight = torch.randn(1, starts[-1], 6), torch.randn(6, 4)
        whole, _ = causal_conv1d(x, weight, activation="silu", cu_seqlens=torch.tensor(starts))
        context = build_cp_context(torch.tensor(starts), layout=layout)
        tokens = [t for piece in context.pieces for t in range(piece.begin, piece.end)]
        found, _ = causal_conv1d(x[:, tokens], weight, activation="silu", cp_context=context)
        assert torch.equal(found, whole[:, tokens])


def check_refusals():
    context = build_cp_context(torch.tensor(STARTS))
    call = {name: x.detach()[:, : context.tokens] for name, x in inputs("kda", STARTS).items() if name != "initial_state"}
    with pytest.raises(fla_cpp.InvalidArgument, match="^kda: cu_seqlens: expected None with cp_context, got Tensor$"):
        fla_cpp.chunk_kda(**call, cp_context=context, cu_seqlens=torch.tensor(STARTS))
    with pytest.raises(fla_cpp.InvalidArgument, match="^kda: q: expected B=1 and T="):
        fla_cpp.chunk_kda(**{name: torch.cat((x, x), 1) for name, x in call.items()}, cp_context=context)
    with pytest.raises(fla_cpp.InvalidArgument, match="^kda: cp_context: expected None or what fla_cpp.ops.cp.build_cp_con"):
        fla_cpp.chunk_kda(**call, cp_context="ring")
    linear = {name: call[name] for name in ("q", "k", "v")}
    with pytest.raises(fla_cpp.InvalidArgument, match="^linear_attn: normalize: expected False with cp_context"):
        fla_cpp.chunk_linear_attn(**linear, normalize=True, cp_context=context)
    with pytest.raises(fla_cpp.InvalidArgument, match="layout: expected contiguous or zigzag, got 'ring'"):
        build_cp_context(torch.tensor(STARTS), layout="ring")
    assert fla_cpp.explain("chunk_kda", **call, cp_context=context).function == "chunk_kda"


def on_a_rank(rank, ranks, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    try:
        for op in OPS:
            for layout in ("contiguous", "zigzag"):
                check_op(op, layout, STARTS)
        check_op("kda", "contiguous", [0, 2])  # ranks without tokens
        check_bytes()
        for layout in ("contiguous", "zigzag"):
            check_convolution(layout)
        check_refusals()
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_agree_with_one(ranks, tmp_path):
    processes.spawn(on_a_rank, (ranks, tmp_path / "store"), nprocs=ranks)
