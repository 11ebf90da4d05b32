"""flash-linear-attention's short convolution. Its states are the last W inputs, [N D W], of which short_conv reads the last
W - 1; the oldest is kept for those who look at it."""

import torch

import fla_cpp
from fla_cpp._signatures import refuse

__all__ = ["causal_conv1d", "causal_conv1d_update"]


def _use_silu(op, activation):
    if activation not in (None, "silu", "swish"):
        refuse(op, "activation", "None, 'silu' or 'swish'", activation)
    return activation is not None


def _expect_none(op, **given):
    for name, value in given.items():
        if value is not None:
            refuse(op, name, "None", type(value).__name__)


def _oldest(x, first, starts, W):
    """The W-th last input of each sequence: one of its own, of the state before it, or zero."""
    N, D = (x.shape[0] if starts is None else len(starts) - 1), x.shape[2]
    if starts is None:
        ends = torch.full((N,), x.shape[1], device=x.device)
        counts, batches = ends, torch.arange(N, device=x.device)
    else:
        starts = starts.to(x.device)
        ends, counts, batches = starts[1:], starts.diff(), torch.zeros(N, dtype=torch.long, device=x.device)
    own = x[batches, (ends - W).clamp(0, x.shape[1] - 1)] if x.shape[1] > 0 else x.new_zeros(N, D)
    if first is None:
        before = torch.zeros_like(own)
    else:
        at = counts.clamp(0, W - 1)[:, None, None].expand(N, D, 1)
        before = first.gather(2, at.long()).squeeze(2).to(own.dtype)
    return torch.where((counts >= W)[:, None], own, before)


def causal_conv1d(
    x,
    weight=None,
    bias=None,
    residual=None,
    initial_state=None,
    output_final_state=False,
    activation=None,
    backend="triton",
    cu_seqlens=None,
    cu_seqlens_cpu=None,
    chunk_indices=None,
    cp_context=None,
    **kwargs,
):
    """o and the final state, [N D W], or None where it is not asked for. x is [B T D], or [B T …] with D numbers a token;
    weight [D W], initial_state [N D W]. `backend`, `chunk_indices` and what else there is change nothing."""
    use_silu = _use_silu("causal_conv1d", activation)
    _expect_none("causal_conv1d", residual=residual)
    if weight is None:
        refuse("causal_conv1d", "weight", "a tensor of shape [D, W]", None)
    starts = cu_seqlens_cpu if cu_seqlens is None else cu_seqlens
    flat, W = x.flatten(2), weight.shape[-1]
    if cp_context is not None:  # of fla_cpp.ops.cp.build_cp_context: the call is one over ranks
        _expect_none("causal_conv1d", initial_state=initial_state, cu_seqlens=starts, output_final_state=output_final_state or None)
        from fla_cpp.ops.cp import conv_states

        states, starts = conv_states(cp_context, flat, W), cp_context.cu_seqlens
        initial_state = torch.nn.functional.pad(states, (1, 0))
    final = None
    if output_final_state:
        sequences = x.shape[0] if starts is None else len(starts) - 1
        final = x.new_empty(sequences, flat.shape[2], W)
    o, _ = fla_cpp.short_conv(
        flat,
        weight,
        bias,
        initial_state=None if initial_state is None else initial_state[..., 1:],
        final_state=None if final is None else final[..., 1:],
        use_silu=use_silu,
        cu_seqlens=starts,
    )
    if final is not None:
        final[..., 0] = _oldest(flat, initial_state, starts, W)
    return o.view(x.shape), final


def causal_conv1d_update(x, cache, residual=None, weight=None, bias=None, activation=None):
    """One token a sequence: o, and `cache`, [N D W], which is updated in its place. x is [N D], [N 1 D] or [1 N D]."""
    use_silu = _use_silu("causal_conv1d_update", activation)
    _expect_none("causal_conv1d_update", residual=residual)
    tokens = x.reshape(cache.shape[0], 1, cache.shape[1])
    oldest, last = cache[..., 1].clone(), cache[..., 1:]
    o, _ = fla_cpp.short_conv(tokens, weight, bias, initial_state=last, final_state=last, use_silu=use_silu)
    cache[..., 0] = oldest  # behind the step: one that fails leaves the cache as it was
    return o.view(x.shape), cache
