"""Convolutions on a GPU. Its library (cuDNN) has none for integers, so exact convolutions of doubles are used.

A double represents all integers up to 2**53. Operands are split into pieces of so few bits that sums of products stay
below. The convolution of pieces i and j is multiplied by 2**(bits (i + j)), modulo 2**64; so overflow wraps as in
integers.
"""

from __future__ import annotations

import math

import numpy as np

from xjax.core import dtypes
from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value
from xjax.core.types import ShapedArray
from xjax.ops.conv_text import Convolution, convolution_text

_EXACT = 53                             # bits of an integer that a double represents exactly
_WIDE = np.dtype(np.int64)


def convolution_on_gpu(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value:
    """XLA's own convolution for floats; integers are converted to them."""
    if not dtypes.is_int(out.dtype) or limits("convolutions of integers by floats", "gpu") is None:
        return convolution_text(b, out, lhs, rhs, p)
    return _of_integers(b, out, lhs, rhs, p)


def _of_integers(b: Builder, out: ShapedArray, lhs: Value, rhs: Value, p: Convolution) -> Value:
    # Maximum number of products that are added for an element of the result.
    taps = math.prod(rhs.aval.shape) // rhs.aval.shape[p.dimension_numbers.rhs_spec[0]]
    bits = (_EXACT - max(taps - 1, 1).bit_length()) // 2
    doubles, wide = ShapedArray(out.shape, np.dtype(np.float64)), ShapedArray(out.shape, _WIDE)
    total = None
    for i, x in enumerate(_pieces(b, lhs, bits, out.dtype)):
        for j, y in enumerate(_pieces(b, rhs, bits, out.dtype)):
            shift = bits * (i + j)
            if shift >= dtypes.itemsize_bits(out.dtype):
                continue
            term = b.convert(convolution_text(b, doubles, x, y, p), _WIDE)
            if shift:
                term = b.binary("stablehlo.shift_left", term, b.constant(shift, wide))
            total = term if total is None else b.add(total, term)
    assert total is not None
    return b.convert(total, out.dtype)


def _pieces(b: Builder, x: Value, bits: int, dtype: np.dtype) -> list[Value]:
    """Doubles p with x = sum of p[k] 2**(bits k), modulo the range of `dtype`; x itself if it has no more bits."""
    double, width = np.dtype(np.float64), dtypes.itemsize_bits(dtype)
    if dtypes.itemsize_bits(x.aval.dtype) <= bits:
        return [b.convert(x, double)]
    x = b.convert(b.convert(x, dtype), np.dtype(f"uint{width}"))
    mask = b.constant((1 << bits) - 1, x.aval)
    return [b.convert(b.binary("stablehlo.and", b.binary("stablehlo.shift_right_logical", x,
                                                         b.constant(bits * k, x.aval)), mask), double)
            for k in range(-(-width // bits))]
