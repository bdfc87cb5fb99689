"""Bitwise operations on integers (and bool): not, and, or, xor, shifts, counts.

The primitives have JAX's names (`and`, `or` ...); the public functions are `bitwise_and` and so on.
"""

from __future__ import annotations

import numpy as np

from xjax.core import dtypes
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import ZERO
from xjax.core.types import ShapedArray
from xjax.ops.checks import BITS, INT
from xjax.ops.makers import binary_function, nary, unary, unary_function

not_p = unary("not", BITS, "stablehlo.not", ZERO)
bitwise_not = unary_function(not_p, "Complement, bit by bit: ``~x``; of bool: logical not.", "bitwise_not")
and_p = nary("and", BITS, "stablehlo.and", ZERO)
bitwise_and = binary_function(and_p, "And, bit by bit: ``x & y``.", "bitwise_and")
or_p = nary("or", BITS, "stablehlo.or", ZERO)
bitwise_or = binary_function(or_p, "Or, bit by bit: ``x | y``.", "bitwise_or")
xor_p = nary("xor", BITS, "stablehlo.xor", ZERO)
bitwise_xor = binary_function(xor_p, "Exclusive or, bit by bit: ``x ^ y``.", "bitwise_xor")

# A shift by the width or more moves every bit out. Shifts of a Python int by a negative number raise; these return 0.
shift_left_p = nary("shift_left", INT, "stablehlo.shift_left", ZERO)
shift_left = binary_function(shift_left_p, "Shift the bits of x up by y places, with zeros from below: ``x << y``.")
shift_right_arithmetic_p = nary("shift_right_arithmetic", INT, "stablehlo.shift_right_arithmetic", ZERO)
shift_right_arithmetic = binary_function(
    shift_right_arithmetic_p, "Shift the bits of x down by y places, with copies of the sign bit from above.")
shift_right_logical_p = nary("shift_right_logical", INT, "stablehlo.shift_right_logical", ZERO)
shift_right_logical = binary_function(
    shift_right_logical_p, "Shift the bits of x down by y places, with zeros from above.")

population_count_p = unary("population_count", INT, "stablehlo.popcnt", ZERO)
population_count = unary_function(population_count_p, "Number of bits that are set, element-wise, in the dtype of x.")
clz_p = unary("clz", INT, "stablehlo.count_leading_zeros", ZERO)
clz = unary_function(clz_p, "Number of leading zero bits, element-wise, in the dtype of x.")


def _mulhi_lower(b: Builder, out: ShapedArray, x: Value, y: Value) -> Value:
    width, unsigned = dtypes.itemsize_bits(out.dtype), dtypes.is_unsigned(out.dtype)
    wide = ShapedArray(out.shape, np.uint64 if unsigned else np.int64)
    down = f"stablehlo.shift_right_{'logical' if unsigned else 'arithmetic'}"
    if width <= 32:
        product = b.mul(b.convert(x, wide.dtype), b.convert(y, wide.dtype))
        return b.convert(b.binary(down, product, b.constant(width, wide)), out.dtype)

    # Products of 32-bit halves; only the upper ones carry the sign (Warren, Hacker's Delight, 8-2).
    half, mask = b.constant(32, wide), b.constant(2**32 - 1, wide)
    x_low, y_low = (b.binary("stablehlo.and", v, mask) for v in (x, y))
    x_high, y_high = (b.binary(down, v, half) for v in (x, y))
    carry = b.binary("stablehlo.shift_right_logical", b.mul(x_low, y_low), half)
    cross = b.add(b.mul(x_high, y_low), carry)
    other = b.add(b.mul(x_low, y_high),
                     b.binary("stablehlo.and", cross, mask))
    high = b.add(b.mul(x_high, y_high), b.binary(down, cross, half))
    return b.add(high, b.binary(down, other, half))


mulhi_p = nary("mulhi", INT, _mulhi_lower, ZERO)
mulhi = binary_function(mulhi_p, "Upper half of the product of two integers: ``(x * y) >> width``, computed exactly.")
