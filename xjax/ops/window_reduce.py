"""Sum, maximum and minimum over a moving window. Other functions are reduced by `xjax.lax.reductions`.

NaN is kept: a float extremum of a window with a NaN is NaN at every size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.hlo import Builder, Value
from xjax.core.lowering import lower_apart
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.symbolic.dims import is_empty, is_static
from xjax.core.types import ShapedArray, Zero, number_of, typeof
from xjax.ops.checks import BOOL, NOT_LINEAR, NUMBER, REAL, check_kinds
from xjax.ops.compare import ge_p, le_p
from xjax.ops.conv_numbers import adjoint_pads
from xjax.ops.cpu.windows import extrema_on_cpu, sums_on_cpu
from xjax.ops.reduce import extreme_value
from xjax.ops.slice import pad
from xjax.ops.window import Window, check_window, emit_elements, reduced_windows, window_batch
from xjax.ops.window_select import select_and_gather_add_p


def _type_rule(name: str, kinds: str) -> Callable:
    def rule(x, **params):
        window = Window(**params)
        check_kinds(name, kinds, x)
        check_window(f"lax.{name}", x.shape, window)
        return x.update(shape=window.out_shape(x.shape))
    return rule


def _lower_by(operation: str, init: Callable[[np.dtype], Any], of_many: Callable = reduced_windows) -> Callable:
    """Windows with few elements are lowered element by element, others by `of_many`."""
    def lower(b: Builder, out: ShapedArray, x: Value, **params: Any) -> Value:
        window, start = Window(**params), b.constant(init(out.dtype), ShapedArray((), out.dtype))
        if is_empty(out.shape):
            return b.constant(0, out.strong())
        if window.has_at_most("elements", b.module.platform):
            def by_elements(b: Builder, x: Value, start: Value) -> Value:
                total, *elements = emit_elements(b, x, start, window)
                for element in elements:
                    total = b.binary(operation, total, element)
                return total
            few = window.has_at_most("read_again", b.module.platform)
            return by_elements(b, x, start) if few else lower_apart(b, by_elements, [x, start])
        return of_many(b, out, x, operation, start, window)
    return lower


# -- sum ----------------------------------------------------------------------------------------------------------

def _sum_transpose(ct, x, **params):
    """Each element gets the sum of the cotangents of the windows that contained it."""
    w = Window(**params)
    pads = adjoint_pads(x.aval.shape, w.window_dimensions, w.window_strides, typeof(ct).shape, w.padding,
                        w.base_dilation, w.window_dilation)
    spread = pad(ct, number_of(typeof(ct).dtype, 0),
                 [(lo, hi, s - 1) for (lo, hi), s in zip(pads, w.window_strides, strict=True)])
    back = Window(w.window_dimensions, w.base_dilation, ((0, 0),) * len(pads), (1,) * len(pads), w.window_dilation)
    return [reduce_window_sum_p.bind(spread, **back._asdict())]


reduce_window_sum_p = Primitive(
    "reduce_window_sum", type_rule=_type_rule("reduce_window_sum", NUMBER),
    lower=_lower_by("stablehlo.add", lambda _: 0),
    lower_on={"cpu": _lower_by("stablehlo.add", lambda _: 0, sums_on_cpu)}, jvp=LINEAR, transpose=_sum_transpose,
    batch=window_batch(lambda: reduce_window_sum_p))


# -- maximum and minimum ------------------------------------------------------------------------------------------

def _keeping_nan(lower: Callable) -> Callable:
    """Lowering of an extremum for symbolic shapes too: XLA's `reduce_window` for CPUs loses NaN.

    For static shapes, the rule for CPUs keeps it.
    """
    def rule(b: Builder, out: ShapedArray, x: Value, **params: Any) -> Value:
        best = lower(b, out, x, **params)
        if is_static(x.aval.shape) or not dtypes.is_float(x.aval.dtype):
            return best
        flags, start = b.compare("NE", x, x), b.constant(False, ShapedArray((), np.dtype(np.bool_)))
        has_nan = reduced_windows(b, out.update(dtype=start.aval.dtype), flags, "stablehlo.or", start, Window(**params))
        return b.select(has_nan, b.constant(math.nan, out), best)
    return rule


def _extremum(name: str, operation: str, sign: int, select_prim: Primitive) -> Primitive:
    """Maximum (sign 1) or minimum (-1). Unlike in `reduce_max`, the first of equal elements gets the derivative."""
    def jvp(primals, tangents, **params):
        (x,), (dx,) = primals, tangents
        out = p.bind(x, **params)
        if type(dx) is Zero:
            return out, Zero(out.aval.tangent())
        return out, select_and_gather_add_p.bind(dx, x, select_prim=select_prim, **params)

    def init(dtype: np.dtype) -> Any:
        return extreme_value(dtype, -sign)

    p = Primitive(name, type_rule=_type_rule(name, BOOL + REAL), lower=_keeping_nan(_lower_by(operation, init)),
                  lower_on={"cpu": _lower_by(operation, init, extrema_on_cpu)}, jvp=jvp, transpose=NOT_LINEAR,
                  batch=window_batch(lambda: p))
    return p


reduce_window_max_p = _extremum("reduce_window_max", "stablehlo.maximum", 1, ge_p)
reduce_window_min_p = _extremum("reduce_window_min", "stablehlo.minimum", -1, le_p)
