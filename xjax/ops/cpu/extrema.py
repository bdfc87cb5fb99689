"""Maximum and minimum of large float arrays on a CPU, with NaN kept.

XLA's CPU library for large reductions drops NaN. So the extremum of 16 slices is first computed element by element,
which keeps NaN and is limited by memory bandwidth. The result is small, and the library's sum of it shows whether there
is a NaN. Along rows, a reduction of two operands is faster, for which XLA does not use the library. Measured on 1e7
float32, relative to the library's time: 1.0 to 1.2 over all elements, columns and middle axes; 1.4 over rows; up to 3
over short columns.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value, i64_array
from xjax.core.types import ShapedArray
from xjax.ops.text import reduce_text, reduced_slices, reshape_text
from xjax.typing import ArrayLike

_SLICES = 16
_BOOL, _I32 = np.dtype(bool), np.dtype(np.int32)


def drops_nan(x: ShapedArray) -> bool:
    """Whether XLA's own reduction of an array of this type would drop NaN."""
    bounds = limits("extrema by slices", "cpu")
    return bounds is not None and dtypes.is_float(x.dtype) and x.size >= bounds["elements"]


def extremum_by_slices(operation: str, init: Callable[[np.dtype], Any]) -> Callable:
    """The rule of a reduction by "stablehlo.maximum" or "stablehlo.minimum"; `init` is the extremum of no elements."""
    def rule(b: Builder, out: ShapedArray, x: Value, *, axes) -> Value | None:
        return _extremum(b, out, x, operation, init(x.aval.dtype), axes) if drops_nan(x.aval) else None
    return rule


def _extremum(b: Builder, out: ShapedArray, x: Value, operation: str, init: ArrayLike, axes: Sequence[int]) -> Value:
    lengths, reduced = _runs(x.aval.shape, axes)
    x, last = reshape_text(b, x, lengths), len(lengths) - 1
    for axis in range(last):
        if reduced[axis]:
            x = _of_columns(b, x, axis, operation, init)
    if reduced[last]:
        if x.aval.size == x.aval.shape[last]:
            x = reduced_slices(b, x, last, _SLICES, operation)
        x = _of_rows(b, x, operation, init, last)
    return reshape_text(b, x, out.shape)


def _runs(shape: Sequence[int], axes: Sequence[int]) -> tuple[list[int], list[bool]]:
    """Merge neighbouring axes that are all reduced or all kept: (lengths, whether each is reduced)."""
    kinds = [(n, i in axes) for i, n in enumerate(shape) if n != 1]
    runs = [(math.prod(n for n, _ in run), kind) for kind, run in itertools.groupby(kinds, key=lambda pair: pair[1])]
    return [n for n, _ in runs], [kind for _, kind in runs]


def _of_columns(b: Builder, x: Value, axis: int, operation: str, init: ArrayLike) -> Value:
    """The extremum along an axis that is not the last; the axis is kept, with size 1."""
    x = reduced_slices(b, x, axis, _SLICES, operation)
    shape = [1 if i == axis else n for i, n in enumerate(x.aval.shape)]
    if x.aval.shape[axis] == 1:
        return x
    best = reduce_text(b, x, operation, init, [axis])
    if not drops_nan(x.aval):
        return reshape_text(b, best, shape)
    total = reduce_text(b, x, "stablehlo.add", 0, [axis])
    unclear = b.compare("NE", total, total)                     # a NaN, or inf - inf
    index = b.convert(reduce_text(b, unclear, "stablehlo.or", False, range(unclear.aval.ndim)), _I32)
    result = b.case(index, [lambda inner: [best], lambda inner: [_of_rows(inner, x, operation, init, axis)]],
                    [best.aval])[0]
    return reshape_text(b, result, shape)


def _of_rows(b: Builder, x: Value, operation: str, init: ArrayLike, axis: int) -> Value:
    """The extremum along an axis, with NaN kept, in one pass over two operands: the elements, and their NaN flags."""
    shape = x.aval.shape[:axis] + x.aval.shape[axis + 1:]
    out, flags = ShapedArray(shape, x.aval.dtype), ShapedArray(shape, _BOOL)
    start = b.constant(init, ShapedArray((), x.aval.dtype))
    false = b.constant(False, ShapedArray((), _BOOL))

    def combine(inner: Builder, best: Value, seen: Value, element: Value, nan: Value) -> list[Value]:
        return [inner.binary(operation, best, element), inner.binary("stablehlo.or", seen, nan)]

    scalars = [start.aval, false.aval]
    best, seen = b.generic("stablehlo.reduce", [x, b.compare("NE", x, x), start, false], [out, flags],
                           f"dimensions = {i64_array([axis])}", [b.region([*scalars, *scalars], combine)])
    return b.select(seen, b.constant(math.nan, out), best)
