"""Sum, maximum and minimum over a moving window. By any other function: `xjax.lax.reductions`.

NaN is never lost: a float extremum of a window with a NaN is NaN at every size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value
from xjax.core.lowering import lower_apart
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.types import ShapedArray, Zero, number_of, typeof
from xjax.ops.checks import BOOL, NOT_LINEAR, NUMBER, REAL, check_kinds
from xjax.ops.compare import ge_p, le_p
from xjax.ops.conv_numbers import adjoint_pads
from xjax.ops.reduce import extreme_value
from xjax.ops.slice import pad
from xjax.ops.window import Window, check_window, emit_elements, emit_window, window_batch
from xjax.ops.window_select import select_and_gather_add_p

_BOOL = np.dtype(bool)


def _type_rule(name: str, kinds: str) -> Callable:
    def rule(x, **params):
        window = Window(**params)
        check_kinds(name, kinds, x)
        check_window(f"lax.{name}", x.shape, window)
        return x.update(shape=window.out_shape(x.shape))
    return rule


def _lower_by(operation: str, init: Callable[[np.dtype], Any], keep_nan: bool) -> Callable:
    def lower(b: Builder, out: ShapedArray, x: Value, **params: Any) -> Value:
        window, start = Window(**params), b.constant(init(out.dtype), ShapedArray((), out.dtype))
        if not out.size:
            return b.constant(0, out.strong())
        if window.has_at_most("elements", b.module.platform):
            def by_elements(b: Builder, x: Value, start: Value) -> Value:
                total, *elements = emit_elements(b, x, start, window)
                for element in elements:
                    total = b.binary(operation, total, element)
                return total
            few = window.has_at_most("read_again", b.module.platform)
            return by_elements(b, x, start) if few else lower_apart(b, by_elements, [x, start])
        if keep_nan and dtypes.is_float(out.dtype) and limits("windows that keep NaN", b.module.platform) is not None:
            return _nan_keeping(b, out, x, operation, start, window)
        return emit_window(b, [out], [x], [start], window,
                           lambda inner, total, element: [inner.binary(operation, total, element)])[0]
    return lower


def _nan_keeping(b: Builder, out: ShapedArray, x: Value, operation: str, start: Value, window: Window) -> Value:
    """Extremum and "is there a NaN" in one pass, as in `extrema_on_cpu`. GPUs keep NaN, and have no such operation."""
    false = b.constant(False, ShapedArray((), _BOOL))

    def combine(inner: Builder, best: Value, seen: Value, element: Value, nan: Value) -> list[Value]:
        return [inner.binary(operation, best, element), inner.binary("stablehlo.or", seen, nan)]

    best, seen = emit_window(b, [out, out.update(dtype=_BOOL)], [x, b.compare("NE", x, x)], [start, false], window,
                             combine)
    return b.select(seen, b.constant(math.nan, out.strong()), best)


# -- sum ----------------------------------------------------------------------------------------------------------

def _sum_transpose(ct, x, **params):
    """Each element gets the sum of the cotangents of the windows that it was in."""
    w = Window(**params)
    pads = adjoint_pads(x.aval.shape, w.window_dimensions, w.window_strides, typeof(ct).shape, w.padding,
                        w.base_dilation, w.window_dilation)
    spread = pad(ct, number_of(typeof(ct).dtype, 0),
                 [(lo, hi, s - 1) for (lo, hi), s in zip(pads, w.window_strides, strict=True)])
    back = Window(w.window_dimensions, w.base_dilation, ((0, 0),) * len(pads), (1,) * len(pads), w.window_dilation)
    return [reduce_window_sum_p.bind(spread, **back._asdict())]


reduce_window_sum_p = Primitive(
    "reduce_window_sum", type_rule=_type_rule("reduce_window_sum", NUMBER),
    lower=_lower_by("stablehlo.add", lambda _: 0, keep_nan=False), jvp=LINEAR, transpose=_sum_transpose,
    batch=window_batch(lambda: reduce_window_sum_p))


# -- maximum and minimum ------------------------------------------------------------------------------------------

def _extremum(name: str, operation: str, sign: int, select_prim: Primitive) -> Primitive:
    """Maximum (sign 1) or minimum (-1). Unlike that of `reduce_max`, the derivative belongs to the first of equals."""
    def jvp(primals, tangents, **params):
        (x,), (dx,) = primals, tangents
        out = p.bind(x, **params)
        if type(dx) is Zero:
            return out, Zero(out.aval.tangent())
        return out, select_and_gather_add_p.bind(dx, x, select_prim=select_prim, **params)

    p = Primitive(name, type_rule=_type_rule(name, BOOL + REAL),
                  lower=_lower_by(operation, lambda dtype: extreme_value(dtype, -sign), keep_nan=True), jvp=jvp,
                  transpose=NOT_LINEAR, batch=window_batch(lambda: p))
    return p


reduce_window_max_p = _extremum("reduce_window_max", "stablehlo.maximum", 1, ge_p)
reduce_window_min_p = _extremum("reduce_window_min", "stablehlo.minimum", -1, le_p)
