"""Calls that flash-linear-attention's functions take and that are several calls here, with tensors of torch. `given` are a
call's arguments by their names, `op` is its op."""

import torch

from fla_cpp import _compatibility, _signatures


def _expect_none(op, given, when, names):
    for name in names:
        if given.get(name) is not None:
            _signatures.refuse(op, name, f"None {when}", type(given[name]).__name__)


def _state_shape(given):
    keys, values = given["q"].shape[3:], given["v"].shape[3:]
    return given["v"].shape[2:3] + (values + keys if given["state_v_first"] else keys + values)


def _with_checkpoints(op, given, later):
    """The call that leaves the states after every 64 tokens in `later`."""
    _expect_none(op, given, "with return_intermediate_states", ("state_indices", "checkpoints"))
    given = given | {"return_intermediate_states": False}
    return given | {"checkpoint_every": 64, "checkpoints": later} if later.shape[1] > 0 else given


def with_intermediate_states(op, function, given):
    """What a call returns, and the states before every 64 tokens of a sequence: [B NT HV K V], or [1 NT HV K V] of all
    sequences of a pack."""
    q, first = given["q"], given["initial_state"]
    lengths = given["cu_seqlens"] if given["cu_seqlens"] is not None else given["cu_seqlens_cpu"]
    counts = [q.shape[1]] * q.shape[0] if lengths is None else torch.as_tensor(lengths).diff().tolist()
    chunks = [-(-count // 64) for count in counts]
    if first is None:
        first = torch.zeros((len(counts), *_state_shape(given)), device=q.device)
    later = torch.empty((len(counts), max(chunks, default=0), *_state_shape(given)), device=q.device)
    results = function(**_with_checkpoints(op, given, later))
    states = [torch.cat((first[n : n + 1], later[n, : chunks[n] - 1])) for n in range(len(counts)) if chunks[n] > 0]
    if lengths is None:
        together = torch.stack(states) if states else later
    else:
        together = torch.cat(states or [later.flatten(0, 1)])[None]
    return *results, together.to(q.dtype)


def _first_with_intermediate_states(op, given):
    lengths = given["cu_seqlens"] if given["cu_seqlens"] is not None else given["cu_seqlens_cpu"]
    sequences = given["q"].shape[0] if lengths is None else len(lengths) - 1
    return _with_checkpoints(op, given, torch.empty((sequences, 1, *_state_shape(given)), device=given["q"].device))


def _scale(given):
    return given["q"].shape[-1] ** -0.5 if given["scale"] is None else given["scale"]


def _not_normalized(op, given):
    _expect_none(op, given, "with normalize and a state", ("state_indices", "out", "final_state"))
    first = given["initial_state"]
    first = first[0] if isinstance(first, tuple) else first
    return given | {"normalize": False, "initial_state": first, "scale": _scale(given)}


def with_sums_of_keys(op, function, given):
    """linear_attn with `normalize`. A state is a pair: the state, and the sum of the keys so far, [N 1 H K]."""
    q, k, lengths = given["q"], given["k"], given["cu_seqlens"]
    call = _not_normalized(op, given)
    o, state = function(**call)
    scale, before = call["scale"], given["initial_state"][1] if isinstance(given["initial_state"], tuple) else None
    counts = [q.shape[1]] if lengths is None else torch.as_tensor(lengths).diff().tolist()
    rest = q.shape[1] - sum(counts)  # behind the last sequence
    *keys, _ = k.float().split([*counts, rest], 1)
    if before is None:
        before = q.new_zeros((q.shape[0] if lengths is None else len(keys), 1, *q.shape[2:]), dtype=torch.float32)
    firsts = [before] if lengths is None else before.split(1)
    sums = [each.cumsum(1) + z for each, z in zip(keys, firsts)]
    last = torch.cat([each.sum(1, keepdim=True) + z for each, z in zip(keys, firsts)])
    seen = torch.nn.functional.pad(torch.cat(sums, 1), (0, 0, 0, 0, 0, rest))
    divisors = scale * (q.float() * seen).sum(-1, keepdim=True) + 1e-10
    divided = o.float() / divisors.repeat_interleave(o.shape[2] // q.shape[2], 2)
    return divided.to(o.dtype), (state, last) if given["output_final_state"] else None


def _parts(size):
    count = -(-size // _compatibility.MOST_CHANNELS)
    return [slice(size * n // count, size * (n + 1) // count) for n in range(count)]


def _part(op, given, keys, values):
    """The call with these of the keys and values."""
    _expect_none(op, given, "with more than 256 keys or values", ("state_indices", "out", "final_state", "checkpoints"))
    first, g = given["initial_state"], given.get("g")
    part = given | {"scale": _scale(given), "v": given["v"][..., values]}
    part |= {name: given[name][..., keys] for name in ("q", "k")}
    if first is not None:
        part["initial_state"] = first[..., values, keys] if given["state_v_first"] else first[..., keys, values]
    if g is not None and g.dim() == 4:
        part["g"] = g[..., keys]
    return part


def in_parts(op, function, given):
    """More keys or values than a call takes, of an op with the additive rule: each value is independent of the others, and
    outputs are sums over keys."""
    v_first = given["state_v_first"]
    outputs, states = [], []
    for values in _parts(given["v"].shape[-1]):
        found = [function(**_part(op, given, keys, values)) for keys in _parts(given["q"].shape[-1])]
        outputs.append(sum(o.float() for o, _ in found).to(found[0][0].dtype))
        if given["output_final_state"]:
            states.append(torch.cat([state for _, state in found], -1 if v_first else -2))
    state = torch.cat(states, -2 if v_first else -1) if states else None
    return torch.cat(outputs, -1), state


def over_ranks(op, function, given):
    from fla_cpp.ops import cp

    return cp.over_ranks(given["cp_context"], op, given)


def _first_over_ranks(op, given):
    return given | {"cp_context": None, "cu_seqlens": given["cp_context"].cu_seqlens}


# The first call of each, which stands for all of them where a call is explained.
FIRST = {
    "over_ranks": _first_over_ranks,
    "with_intermediate_states": _first_with_intermediate_states,
    "with_sums_of_keys": _not_normalized,
    "in_parts": lambda op, given: _part(op, given, _parts(given["q"].shape[-1])[0], _parts(given["v"].shape[-1])[0]),
}
