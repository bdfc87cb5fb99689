"""argmax and argmin on a CPU, as the maximum of integers that hold an element and its position.

XLA's reduction of (value, index) pairs is not vectorised. Here 16 slices are first compared element by element, which
is vectorised. Then a 64-bit integer is formed: its high half is a number in the order of the elements, its low half the
complement of the position. The maximum belongs to the first extremum. Measured on 1e7 float32: 13 times as fast as
XLA's form, close to the speed of a sum.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xjax.core import dtypes
from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.types import ShapedArray
from xjax.ops.compare import comes_before
from xjax.ops.text import equal_slices, reduce_text, reduced_slices

_SLICES = 16
_F32, _I32, _U32, _I64 = (np.dtype(t) for t in (np.float32, np.int32, np.uint32, np.int64))


def has_pairs(x: ShapedArray, axis: int, out: ShapedArray) -> bool:
    """Whether an array of this type is searched by integers, with positions of type `out`."""
    bounds = limits("argmax by integers", "cpu")
    return (bounds is not None and bounds["row"] <= x.shape[axis] < 2**31 and x.size > 0 and out.dtype.itemsize >= 4
            and x.dtype.itemsize <= 4)


def search_by_pairs(maximum: bool) -> Callable:
    """The rule of argmax, or of argmin."""
    def rule(b: Builder, out: ShapedArray, x: Value, *, axes, index_dtype) -> Value | None:
        (axis,) = axes
        return _search(b, out, x, axis, maximum) if has_pairs(x.aval, axis, out) else None
    return rule


def _search(b: Builder, out: ShapedArray, x: Value, axis: int, maximum: bool) -> Value:
    """Positions of the first extrema along an axis; NaN precedes all numbers."""
    (start, best), *others = equal_slices(b, _comparable(b, x), axis, _SLICES)
    first = b.constant(start, best.aval.update(dtype=_U32))             # start of the slice that `best` is from
    for start, piece in others:
        better = comes_before(b, piece, best, maximum)
        best, first = b.select(better, piece, best), b.select(better, b.constant(start, first.aval), first)
    position = b.op(f"stablehlo.iota dim = {axis} : {first.type}", first.aval)
    pairs = _pairs(b, best, b.add(position, first), maximum)
    pairs = reduced_slices(b, pairs, axis, _SLICES, "stablehlo.maximum")
    complement = b.convert(reduce_text(b, pairs, "stablehlo.maximum", np.iinfo(_I64).min, [axis]), _U32)
    return b.convert(b.unary("stablehlo.not", complement), out.dtype)


def _comparable(b: Builder, x: Value) -> Value:
    """Floats as float32, since processors do not compare shorter floats."""
    return b.convert(x, _F32) if dtypes.is_float(x.aval.dtype) else x


def _pairs(b: Builder, x: Value, position: Value, maximum: bool) -> Value:
    """int64, larger for an element nearer to the extremum; for equal elements, larger for a smaller position."""
    if x.aval.dtype == _F32:
        order = b.convert(_order_of_floats(b, x, maximum), _I64)
    else:
        order = b.convert(x, _I64)
        if x.aval.dtype == _U32:                                # to the range of an int32
            order = b.sub(order, 2**31)
        order = order if maximum else b.unary("stablehlo.not", order)
    return b.binary("stablehlo.or", b.binary("stablehlo.shift_left", order, b.constant(32, order.aval)),
                    b.convert(b.unary("stablehlo.not", position), _I64))


def _order_of_floats(b: Builder, x: Value, maximum: bool) -> Value:
    """int32 in the order of the floats (for a minimum, of their negatives): 0 and -0 are equal, NaN is the largest."""
    x = x if maximum else b.unary("stablehlo.negate", x)
    aval = x.aval.update(dtype=_I32)
    bits = b.op(f"stablehlo.bitcast_convert {x} : ({x.type}) -> {tensor_type(aval)}", aval)
    largest = b.constant(np.iinfo(_I32).max, aval)
    sign = b.binary("stablehlo.shift_right_arithmetic", bits, b.constant(31, aval))
    order = b.binary("stablehlo.xor", bits, b.binary("stablehlo.and", sign, largest))
    order = b.select(b.compare("EQ", x, b.constant(0, x.aval)), b.constant(0, aval), order)
    return b.select(b.compare("NE", x, x), largest, order)
