"""Magnitudes as powers of two, and what is not finite. The functions are those of backends/tilelang/magnitudes.cuh."""

import tilelang.language as T

ZERO, NOT_FINITE = -100000, 100000  # in the place of exponents


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


def larger(largest, x):
    """The larger one of `largest` and |x|, NaN where x is NaN."""
    return T.call_extern("float32", "fla::tilelang::larger", largest, x)


def largest_exponent(state, value, exponent):
    """Of the largest magnitude, over all threads, of `state` times 2^exponent and of `value`: a barrier."""
    return T.call_extern("int32", "fla::tilelang::largest_exponent", state, value, exponent)
