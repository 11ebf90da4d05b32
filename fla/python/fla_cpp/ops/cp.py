"""Sequences over the ranks of torch.distributed, as flash-linear-attention has them:

    context = build_cp_context(cu_seqlens, group=dist.group.WORLD)
    o, _ = fla_cpp.chunk_kda(q, k, v, g, beta, cp_context=context)

cu_seqlens are those of the whole batch, and the same on every rank; tensors are a rank's tokens, those of `context.pieces`.
Ranks exchange a summary of each piece of a sequence that goes on elsewhere (kda_summary), and apply those of the pieces
before their own (merge); the rest is an ordinary call. Calls are collective, and so are their gradients."""

import typing

import torch
import torch.distributed as dist

import fla_cpp
from fla_cpp import _fla_cpp

__all__ = ["Context", "Piece", "build_cp_context"]


class Piece(typing.NamedTuple):
    """The tokens that a rank has of one sequence of the batch, and where they are on the rank."""

    sequence: int
    rank: int
    begin: int
    end: int
    first: int
    begins: bool
    ends: bool

    @property
    def tokens(self):
        return slice(self.first, self.first + self.end - self.begin)


class Context:
    """A batch of packed sequences whose tokens are on several ranks, as one of them sees it."""

    def __init__(self, cu_seqlens, group=None, layout="contiguous"):
        self.group = dist.group.WORLD if group is None else group
        self.rank, self.ranks = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.all_pieces = [Piece(*piece) for piece in _fla_cpp.pieces(cu_seqlens.tolist(), self.ranks, layout)]
        self.pieces = [piece for piece in self.all_pieces if piece.rank == self.rank]
        starts = [piece.first for piece in self.pieces] or [0]  # a rank without tokens has one empty sequence
        self.tokens = sum(piece.end - piece.begin for piece in self.pieces)
        self.cu_seqlens = torch.tensor([*starts, self.tokens])
        self.bytes_sent = 0  # given away in all exchanges so far

    def exchange(self, gives, blocks, like, size):
        """The blocks of all ranks, one for each of all_pieces that `gives` says so of, None for the others; `blocks` are
        this rank's, of `size` numbers each."""
        counts = [sum(gives(piece) for piece in self.all_pieces if piece.rank == rank) for rank in range(self.ranks)]
        found = [None] * len(self.all_pieces)
        if not any(counts):
            return found
        device = torch.device("cpu") if dist.get_backend(self.group) == "gloo" else like.device
        mine = torch.zeros(max(counts), size, device=device)  # all give as much as the one that has most
        for place, block in zip(mine, blocks):
            place.copy_(block)
        gathered = [torch.empty_like(mine) for _ in range(self.ranks)]
        dist.all_gather(gathered, mine, group=self.group)
        self.bytes_sent += mine.numel() * mine.element_size()
        left = [iter(blocks.to(like.device)) for blocks in gathered]
        for n, piece in enumerate(self.all_pieces):
            if gives(piece):
                found[n] = next(left[piece.rank])
        return found

    def neighbours(self, piece):
        """Where in all_pieces those of a piece's sequence are: before it, and behind it, the last one first."""
        own = self.all_pieces.index(piece)
        first = last = own
        while not self.all_pieces[first].begins:
            first -= 1
        while not self.all_pieces[last].ends:
            last += 1
        return range(first, own), range(last, own, -1)


def build_cp_context(cu_seqlens, group=None, conv1d_kernel_size=None, cu_seqlens_cpu=None, layout="contiguous"):
    """The context of this rank. `cu_seqlens` are those of the whole batch; `layout` is contiguous, one run of tokens a rank, or
    zigzag, the r-th of 2 ranks runs from the front and from the end. `conv1d_kernel_size` changes nothing: causal_conv1d
    knows its own."""
    given = cu_seqlens if cu_seqlens_cpu is None else cu_seqlens_cpu
    return Context(torch.as_tensor(given).cpu(), group, layout)


def _goes_out(piece):
    return not piece.ends


def _comes_in(piece):
    return not piece.begins


class _Blocks:
    """Summaries of an op as rows of numbers: R, then P."""

    def __init__(self, op, given):
        self.merge = fla_cpp.merge
        self.summary = getattr(fla_cpp, f"{op}_summary")
        self.v_first = given.get("state_v_first", False)
        HV, K, V = given["v"].shape[2], given["q"].shape[3], given["v"].shape[3]
        self.R = (HV, V, K) if self.v_first else (HV, K, V)
        diagonal = fla_cpp._functions[f"{op}_summary"]["table"][-1]["shape"] == "N HV K"
        self.P = (HV, K) if diagonal else (HV, K, K)
        self.size = HV * K * V + torch.Size(self.P).numel()

    def of(self, piece, given, with_P, **more):
        """That of a piece of this rank, of a call's arguments."""
        own = {
            name: value[:, piece.tokens] if name in _TOKENS and value is not None else value
            for name, value in given.items()
            if name not in ("initial_state", "dht", "cu_seqlens")
        }
        R, P = self.summary(**own, **more, output_P=with_P)
        P = R.new_zeros(self.P) if P is None else P  # it meets zeros alone
        return torch.cat((R.flatten(), P.flatten()))

    def apply(self, block, state):
        """state = P state + R, states of one piece."""
        R, P = block[: torch.Size(self.R).numel()], block[torch.Size(self.R).numel() :]
        self.merge(
            R.view(1, 1, *self.R), P.view(1, 1, *self.P), state, state_v_first=self.v_first, final_state=state
        )


_TOKENS = {"q", "k", "v", "g", "beta", "a", "b", "do"}


def _forward(context, op, given):
    """What chunk_<op> returns, and the states that the pieces start from, None where all of them start from zeros."""
    blocks, first = _Blocks(op, given), given["initial_state"]
    options = {name: value for name, value in given.items() if name != "output_final_state"}
    own = [
        blocks.of(piece, options, not piece.begins,
                  initial_state=None if first is None or not piece.begins else first[n : n + 1])
        for n, piece in enumerate(context.pieces) if not piece.ends
    ]  # fmt: skip
    summaries = context.exchange(_goes_out, own, given["q"], blocks.size)
    states = None
    if first is not None or any(map(_comes_in, context.pieces)):
        states = given["q"].new_zeros(len(context.cu_seqlens) - 1, *blocks.R, dtype=torch.float32)
        for n, piece in enumerate(context.pieces):
            if not piece.begins:
                for before in context.neighbours(piece)[0]:
                    blocks.apply(summaries[before], states[n : n + 1])
            elif first is not None:
                states[n] = first[n]
    call = given | {"initial_state": states, "cu_seqlens": context.cu_seqlens}
    return getattr(fla_cpp, f"chunk_{op}")(**call), states


def _backward(context, op, given, do, dht):
    """What chunk_<op>_backward returns, by the names of the inputs."""
    blocks = _Blocks(op, given)
    own = [
        blocks.of(piece, given | {"do": do}, not piece.ends,
                  dht=None if dht is None or not piece.ends else dht[n : n + 1])
        for n, piece in enumerate(context.pieces) if not piece.begins
    ]  # fmt: skip
    summaries = context.exchange(_comes_in, own, do, blocks.size)
    upstream = None
    if dht is not None or any(map(_goes_out, context.pieces)):
        upstream = do.new_zeros(len(context.cu_seqlens) - 1, *blocks.R, dtype=torch.float32)
        for n, piece in enumerate(context.pieces):
            if not piece.ends:
                for behind in context.neighbours(piece)[1]:
                    blocks.apply(summaries[behind], upstream[n : n + 1])
            elif dht is not None:
                upstream[n] = dht[n]
    call = given | {"do": do, "dht": upstream, "cu_seqlens": context.cu_seqlens}
    name = f"chunk_{op}_backward"
    found = getattr(fla_cpp, name)(**call)
    table = fla_cpp._functions[name]["table"]
    names = [table[output]["name"][1:] for output, *_ in fla_cpp._functions[name]["results"]]
    return dict(zip(names, found))


class _OverRanks(torch.autograd.Function):
    """A call over ranks. Its tensors stand for themselves, whatever else it has in `options`."""

    @staticmethod
    def forward(ctx, context, op, names, options, *tensors):
        given = options | dict(zip(names, tensors))
        (o, final), states = _forward(context, op, given)
        ctx.of, ctx.starts = (context, op, names, options), given["initial_state"] is not None
        ctx.save_for_backward(states, *tensors)
        ctx.set_materialize_grads(False)
        return o, final

    @staticmethod
    def backward(ctx, do, dht):
        context, op, names, options = ctx.of
        states, *tensors = ctx.saved_tensors
        given = options | dict(zip(names, tensors)) | {"initial_state": states}
        given.pop("output_final_state")
        do = given["v"].new_zeros(given["v"].shape) if do is None else do
        found = _backward(context, op, given, do.contiguous(), dht)
        if not ctx.starts:
            found["initial_state"] = None
        wanted = ctx.needs_input_grad[4:]
        return None, None, None, None, *(found.get(name) if want else None for name, want in zip(names, wanted))


def over_ranks(context, op, given):
    """chunk_<op> over the ranks of a context, of arguments by their names: o and the states after the pieces."""
    for name in ("cu_seqlens", "state_indices", "out", "final_state", "checkpoint_every"):
        if given.get(name) is not None:
            raise _invalid(op, name, f"expected None with cp_context, got {type(given[name]).__name__}")
    if given.get("normalize"):
        raise _invalid(op, "normalize", "expected False with cp_context: its sums go beyond the state, got True")
    tokens = tuple(given["q"].shape[:2])
    if tokens != (1, context.tokens):
        raise _invalid(op, "q", f"expected B=1 and T={context.tokens} with cp_context, got shape {list(given['q'].shape)}")
    known = {row["name"] for row in fla_cpp._functions[f"{op}_summary"]["table"]} | {"output_final_state"}
    given = {name: value for name, value in given.items() if value is not None and name in known}
    given.setdefault("initial_state", None)
    tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
    options = {name: value for name, value in given.items() if name not in tensors}
    return _OverRanks.apply(context, op, tuple(tensors), options, *tensors.values())


def conv_states(context, x, W):
    """The last W - 1 inputs before each piece of this rank, [N, D, W - 1], the newest last, zeros before a sequence."""
    D, kept = x.shape[2], W - 1
    own = []
    for piece in context.pieces:
        if not piece.ends:
            last = x[0, piece.tokens][-kept:].float().T
            own.append(torch.nn.functional.pad(last, (kept - last.shape[1], 0)).flatten())
    inputs = context.exchange(_goes_out, own, x, D * kept)
    states = x.new_zeros(len(context.cu_seqlens) - 1, D, kept)
    for state, piece in zip(states, context.pieces):
        left = kept  # from the newest input to the oldest: a piece may be shorter than what is wanted
        for before in reversed(context.neighbours(piece)[0]):
            taken = min(left, context.all_pieces[before].end - context.all_pieces[before].begin)
            state[:, left - taken : left] = inputs[before].view(D, kept)[:, kept - taken :]
            left -= taken
    return states


def _invalid(op, argument, problem):
    error = fla_cpp.InvalidArgument(f"{op}: {argument}: {problem}")
    error.argument, error.op = argument, op
    return error
