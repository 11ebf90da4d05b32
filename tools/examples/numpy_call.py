#!/usr/bin/env python3
"""The first call, from Python with NumPy: no torch, no copy.

    PYTHONPATH=build/python tools/examples/numpy_call.py
"""

import numpy as np

import fla_cpp


def waves(*shape, scale=1.0, offset=0.0):
    return (offset + scale * np.sin(np.arange(np.prod(shape), dtype=np.float32))).astype(np.float32).reshape(shape)


def by_recurrence(q, k, v, g, beta):
    """The same in NumPy, token by token."""
    state, outputs = np.zeros((q.shape[2], q.shape[3], v.shape[3])), []
    for t in range(q.shape[1]):
        state = np.exp(g[0, t])[:, :, None] * state
        change = beta[0, t][:, None] * (v[0, t] - np.einsum("hk,hkv->hv", k[0, t], state))
        state = state + np.einsum("hk,hv->hkv", k[0, t], change)
        outputs.append(np.einsum("hk,hkv->hv", q[0, t], state) / np.sqrt(q.shape[3]))
    return np.stack(outputs)[None], state[None]


def main():
    T, H, D = 100, 4, 64
    q, k, v = waves(1, T, H, D, scale=0.1), waves(1, T, H, D, scale=0.1, offset=0.01), waves(1, T, H, D)
    g, beta = waves(1, T, H, D, scale=0.1, offset=-0.2), waves(1, T, H, scale=0.3, offset=0.5)

    o, state = fla_cpp.chunk_kda(q, k, v, g, beta, output_final_state=True)
    print(f"o {o.dtype} {o.shape}, state {state.dtype} {state.shape}")

    expected = by_recurrence(q, k, v, g, beta)
    for name, array, right in ("o", o, expected[0]), ("state", state, expected[1]):
        print(f"{name} is off by {np.abs(array - right).max() / np.abs(right).max():.1e}")

    out = np.empty_like(v)
    with fla_cpp.policy(disable_dispatch=True):  # the original kernel
        same, _ = fla_cpp.chunk_kda(q, k, v, g, beta, out=out)
    print(f"into memory of the caller: {same is out}")
    print(fla_cpp.explain(fla_cpp.chunk_kda, q, k, v, g, beta))


if __name__ == "__main__":
    main()
