"""Which tokens, which state and which place among the packets a sequence has.

Whatever the indices hold, what comes out lies inside the tensors.
"""

import tilelang.language as T

CHUNK = 64


def index_at(indices, i, stride, wide):
    """Entry i of an array of int32, or of int64 as pairs of int32: its low word, -1 or the largest int32 where that is
    not all of it."""
    low = indices[2 * i * stride]
    high = indices[2 * i * stride + 1]
    whole = T.And(high == 0, low >= 0)
    beyond = T.if_then_else(high < 0, T.int32(-1), T.int32(2147483647))
    return T.if_then_else(wide != 0, T.if_then_else(whole, low, beyond), indices[i * stride])


def bound(cu_seqlens, i, stride, wide, tokens):
    """Where packed sequence i begins."""
    return T.max(T.min(index_at(cu_seqlens, i, stride, wide), tokens), 0)


def first_place(begin, n):
    """The place of a packed sequence's first chunk; those of its others follow. No table is needed: from one sequence
    to the next it grows by more than the whole chunks between them, so no two chunks share a place."""
    return begin // CHUNK + n
