"""Kimi Delta Attention as a plain recurrence in float64, token by token: what every result is held against."""

import numpy as np


def _sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def kda(
    q,
    k,
    v,
    g,
    beta,
    scale=None,
    initial_state=None,
    use_qk_l2norm_in_kernel=False,
    use_gate_in_kernel=False,
    use_beta_sigmoid_in_kernel=False,
    allow_neg_eigval=False,
    safe_gate=False,
    lower_bound=None,
    state_v_first=False,
    cu_seqlens=None,
    A_log=None,
    dt_bias=None,
):
    """Returns o [B, T, HV, V] and the final states [N, HV, K, V], or [N, HV, V, K] with state_v_first."""
    q, k, v, g, beta = (np.asarray(x, np.float64) for x in (q, k, v, g, beta))
    (batches, tokens, heads, channels), (value_heads, values) = q.shape, v.shape[2:]
    scale = channels**-0.5 if scale is None else scale
    if use_qk_l2norm_in_kernel:
        q, k = (x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6) for x in (q, k))
    if use_gate_in_kernel:
        if dt_bias is not None:
            g = g + np.asarray(dt_bias, np.float64).reshape(value_heads, channels)
        rate = 1.0 if A_log is None else np.exp(np.asarray(A_log, np.float64))[:, None]
        g = -rate * np.logaddexp(0, g) if lower_bound is None else lower_bound * _sigmoid(rate * g)
    if use_beta_sigmoid_in_kernel:
        beta = _sigmoid(beta) * (2 if allow_neg_eigval else 1)
    q, k = (np.repeat(x, value_heads // heads, axis=2) for x in (q, k))

    if cu_seqlens is None:
        ranges = [(batch, 0, tokens) for batch in range(batches)]
    else:
        ranges = [(0, int(begin), int(end)) for begin, end in zip(cu_seqlens[:-1], cu_seqlens[1:])]
    o = np.zeros(v.shape)
    states = np.zeros((len(ranges), value_heads, channels, values))
    if initial_state is not None:
        states += np.swapaxes(initial_state, 2, 3) if state_v_first else initial_state
    for state, (batch, begin, end) in zip(states, ranges):
        for t in range(begin, end):
            state *= np.exp(g[batch, t])[:, :, None]
            seen = np.einsum("hk,hkv->hv", k[batch, t], state)
            update = beta[batch, t][:, None] * (v[batch, t] - seen)
            state += k[batch, t][:, :, None] * update[:, None, :]
            o[batch, t] = scale * np.einsum("hk,hkv->hv", q[batch, t], state)
    return o, np.swapaxes(states, 2, 3) if state_v_first else states


def error(result, expected):
    """Of the whole array, relative to its size."""
    expected = np.asarray(expected, np.float64)
    return np.linalg.norm(np.asarray(result, np.float64) - expected) / max(np.linalg.norm(expected), 1e-30)
