"""Calls that flash-linear-attention's functions take and that are several calls here, with tensors of torch. `given` are a
call's arguments by their names."""

import torch

from fla_cpp import _compatibility, _signatures


def _expect_none(given, when, names):
    for name in names:
        if given.get(name) is not None:
            _signatures.refuse(name, f"None {when}", type(given[name]).__name__)


def with_intermediate_states(function, given):
    """What a call returns, and the states before every 64 tokens of a sequence: [B NT HV K V], or [1 NT HV K V] of all
    sequences of a pack."""
    q, v, first = given["q"], given["v"], given["initial_state"]
    lengths = given["cu_seqlens"] if given["cu_seqlens"] is not None else given["cu_seqlens_cpu"]
    _expect_none(given, "with return_intermediate_states", ("state_indices", "checkpoints"))
    counts = [q.shape[1]] * q.shape[0] if lengths is None else torch.as_tensor(lengths).diff().tolist()
    chunks = [-(-count // 64) for count in counts]
    shape = v.shape[2:3] + (v.shape[3:] + q.shape[3:] if given["state_v_first"] else q.shape[3:] + v.shape[3:])
    if first is None:
        first = torch.zeros((len(counts), *shape), device=q.device)
    later = torch.empty((len(counts), max(chunks, default=0), *shape), device=q.device)
    given = given | {"return_intermediate_states": False}
    if later.shape[1] > 0:
        given |= {"checkpoint_every": 64, "checkpoints": later}
    results = function(**given)
    states = [torch.cat((first[n : n + 1], later[n, : chunks[n] - 1])) for n in range(len(counts)) if chunks[n] > 0]
    if lengths is None:
        together = torch.stack(states) if states else later
    else:
        together = torch.cat(states or [later.flatten(0, 1)])[None]
    return *results, together.to(q.dtype)


def with_sums_of_keys(function, given):
    """linear_attn with `normalize`. A state is a pair: the state, and the sum of the keys so far, [N 1 H K]."""
    q, k, first, lengths = given["q"], given["k"], given["initial_state"], given["cu_seqlens"]
    _expect_none(given, "with normalize and a state", ("state_indices", "out", "final_state"))
    first, before = first if isinstance(first, tuple) else (first, None)
    scale = q.shape[-1] ** -0.5 if given["scale"] is None else given["scale"]
    o, state = function(**given | {"normalize": False, "initial_state": first, "scale": scale})
    keys = [k.float()] if lengths is None else list(k.float().split(torch.as_tensor(lengths).diff().tolist(), 1))
    if before is None:
        before = q.new_zeros((q.shape[0] if lengths is None else len(keys), 1, *q.shape[2:]), dtype=torch.float32)
    firsts = [before] if lengths is None else before.split(1)
    sums = [each.cumsum(1) + z for each, z in zip(keys, firsts)]
    last = torch.cat([each.sum(1, keepdim=True) + z for each, z in zip(keys, firsts)])
    divisors = scale * (q.float() * torch.cat(sums, 1)).sum(-1, keepdim=True) + 1e-10
    divided = o.float() / divisors.repeat_interleave(o.shape[2] // q.shape[2], 2)
    return divided.to(o.dtype), (state, last) if given["output_final_state"] else None


def _parts(size):
    count = -(-size // _compatibility.MOST_CHANNELS)
    return [slice(size * n // count, size * (n + 1) // count) for n in range(count)]


def in_parts(function, given):
    """More keys or values than a call takes, of an op with the additive rule: each value is independent of the others, and
    outputs are sums over keys."""
    q, k, v, first = given["q"], given["k"], given["v"], given["initial_state"]
    _expect_none(given, "with more than 256 keys or values", ("state_indices", "out", "final_state", "checkpoints"))
    v_first = given["state_v_first"]
    given = given | {"scale": q.shape[-1] ** -0.5 if given["scale"] is None else given["scale"]}
    g = given.get("g")
    outputs, states = [], []
    for values in _parts(v.shape[-1]):
        found = []
        for keys in _parts(q.shape[-1]):
            part = given | {"q": q[..., keys], "k": k[..., keys], "v": v[..., values]}
            if first is not None:
                part["initial_state"] = first[..., values, keys] if v_first else first[..., keys, values]
            if g is not None and g.dim() == 4:
                part["g"] = g[..., keys]
            found.append(function(**part))
        outputs.append(sum(o.float() for o, _ in found).to(found[0][0].dtype))
        if given["output_final_state"]:
            states.append(torch.cat([state for _, state in found], -1 if v_first else -2))
    state = torch.cat(states, -2 if v_first else -1) if states else None
    return torch.cat(outputs, -1), state
