"""Reductions over large windows on a CPU, where XLA's lose NaN, or lose the holes of a dilated array."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xjax.core import dtypes
from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value
from xjax.core.lowering import lower_barrier
from xjax.core.types import ShapedArray
from xjax.ops.compare import comes_before, ge_p
from xjax.ops.window import Window, emit_pad, emit_window, reduced_windows, start_of, window_of

_BOOL = np.dtype(bool)


def window_on_cpu(b: Builder, outs: Sequence[ShapedArray], xs: Sequence[Value], starts: Sequence[Value],
                  window: Window, combine: Callable[..., Sequence[Value]]) -> list[Value]:
    """Like `emit_window`, but holes are inserted first, since XLA loses them (runtime/xla/compiler_faults.py).

    A barrier keeps XLA from merging them into a dilation again.
    """
    if any(d > 1 for d in window.base_dilation) and limits("windows over padded holes", "cpu") is not None:
        none, holes = (0,) * len(window.base_dilation), [d - 1 for d in window.base_dilation]
        xs = lower_barrier(b, [emit_pad(b, x, start, none, none, holes) for x, start in zip(xs, starts, strict=True)])
        window = window._replace(base_dilation=(1,) * len(holes))
    return emit_window(b, outs, xs, starts, window, combine)


def sums_on_cpu(b: Builder, out: ShapedArray, x: Value, operation: str, start: Value, window: Window) -> Value:
    """The sums over windows."""
    return reduced_windows(b, out, x, operation, start, window, window_on_cpu)


def extrema_on_cpu(b: Builder, out: ShapedArray, x: Value, operation: str, start: Value, window: Window) -> Value:
    """Extrema of windows; for floats together with NaN flags in one pass, as in `xjax.ops.cpu.extrema`."""
    if not dtypes.is_float(out.dtype) or limits("windows that keep NaN", "cpu") is None:
        return reduced_windows(b, out, x, operation, start, window, window_on_cpu)
    false = b.constant(False, ShapedArray((), _BOOL))

    def combine(inner: Builder, best: Value, seen: Value, element: Value, nan: Value) -> list[Value]:
        return [inner.binary(operation, best, element), inner.binary("stablehlo.or", seen, nan)]

    best, seen = window_on_cpu(b, [out, out.update(dtype=_BOOL)], [x, b.compare("NE", x, x)], [start, false], window,
                               combine)
    return b.select(seen, b.constant(math.nan, out.strong()), best)


def gather_by_reduction(b: Builder, out: ShapedArray, tangents: Value, operand: Value, *, select_prim,
                        **params) -> Value | None:
    """Lowering rule of select_and_gather_add, for larger windows: one reduction.

    It reduces (operand, tangent, whether it is an element), so that neither padding nor the start value is selected.
    """
    window = window_of(params)
    if not out.size or window.has_at_most("elements", "cpu") or limits("windows of pairs by reduction", "cpu") is None:
        return None
    start, zero = start_of(b, select_prim, out.dtype), b.constant(0, ShapedArray((), out.dtype))
    flags = ShapedArray(operand.aval.shape, _BOOL)
    true, false = b.constant(True, flags), b.constant(False, ShapedArray((), _BOOL))

    def combine(inner: Builder, best: Value, picked: Value, real: Value, element: Value, other: Value,
                is_real: Value) -> list[Value]:
        first = inner.binary("stablehlo.and", is_real, inner.unary("stablehlo.not", real))
        better = inner.binary("stablehlo.and", is_real, comes_before(inner, element, best, select_prim is ge_p))
        better = inner.binary("stablehlo.or", first, better)
        return [inner.select(better, element, best), inner.select(better, other, picked),
                inner.binary("stablehlo.or", real, is_real)]

    outs = [out.strong(), out.strong(), out.strong().update(dtype=_BOOL)]
    return window_on_cpu(b, outs, [operand, tangents, true], [start, zero, false], window, combine)[1]
