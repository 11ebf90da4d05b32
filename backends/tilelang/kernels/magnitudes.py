"""Magnitudes as powers of two, and what is not finite. The functions are those of backends/tilelang/magnitudes.cuh."""

import tilelang.language as T

ZERO = -100000  # in the place of an exponent
LARGEST = 3.0e38
NOTES = 8  # in shared memory, of what threads tell each other; all are -1 at first


def bits(x):
    return T.reinterpret(x, "int32")


def finite(x):
    return T.bitwise_and(bits(x), 0x7FFFFFFF) < 0x7F800000


def power_of_two(exponent):
    """For exponents from -126 to 127."""
    return T.reinterpret(T.shift_left(exponent + 127, 23), "float32")


def not_a_number():
    return T.reinterpret(T.int32(0x7FC00000), "float32")


def larger_of(x, y):
    """NaN where one of them is NaN."""
    return T.call_extern("float32", "fla::tilelang::larger_of", x, y)


def bits_of(halves, count):
    """Those of a thread's part of a fragment of f16, `count` numbers, put together by or."""
    return T.call_extern("int32", f"fla::tilelang::bits_of<{count}>", halves.data)


def largest_of_row(values, row):
    """The largest magnitude of 16 numbers: one of the two rows that a thread has of a fragment [64, 64] of 16-bit
    numbers, laid out as sums of wgmma are. NaN where one of them is NaN."""
    return T.call_extern("float32", f"fla::tilelang::largest_of_row<{row}>", values.data)


def note(notes, chunk, bits, value, low, high):
    """Before a barrier: what a thread knows of its numbers, bits of f16 in units and a magnitude. See is_rare()."""
    return T.call_extern("handle", "fla::tilelang::note", notes.data, chunk, bits, value, low, high)


def is_rare(notes, chunk):
    """After a barrier: whether some thread noted bits of 2 or more or a value of `high` or more, or none noted bits of 2^-7
    or more or a value of `low` or more."""
    return T.call_extern("int32", "fla::tilelang::is_rare", notes.data, chunk)


def largest_exponent(notes, state, value, exponent):
    """Of the largest magnitude, over all threads, of `state` times 2^exponent and of `value`: a barrier."""
    return T.call_extern("int32", "fla::tilelang::largest_exponent", notes.data, state, value, exponent)
