"""Selection by the extremum of windows: `select_and_gather_add` and `select_and_scatter_add`, adjoint to each other.

The gather reads from each window the element of one array at the position where another array has its extremum. The
scatter adds a value for each window at the position of the extremum. Of equal elements the first is selected, and a NaN
precedes all numbers, so the derivative of a maximum that is NaN belongs to the NaN.
"""

from __future__ import annotations

import numpy as np

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, i64_array, tensor_type
from xjax.core.lowering import lower_apart
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.symbolic.dims import is_empty
from xjax.core.types import ShapedArray, number_of, typeof
from xjax.ops.checks import FLOAT, check_kinds, check_same_dtype
from xjax.ops.compare import comes_before, ge_p
from xjax.ops.cpu.windows import gather_by_reduction
from xjax.ops.reduce import extreme_value
from xjax.ops.slice import pad, slice
from xjax.ops.text import reshape_text, slice_text
from xjax.ops.window import Window, check_window, emit_elements, emit_pad, start_of, window_batch, window_of

# -- selection ----------------------------------------------------------------------------------------------------

def _chosen(b: Builder, select_prim: Primitive, operand: Value, start: Value, window: Window) -> Value:
    """The number of the selected element of the window at each position; computed once for all elements."""
    def number(b: Builder, operand: Value, start: Value) -> Value:
        best, *others = emit_elements(b, operand, start, window)
        index = ShapedArray(best.aval.shape, np.dtype(np.uint8 if len(others) < 256 else np.uint32))
        chosen = b.constant(0, index)
        for k, element in enumerate(others, 1):
            better = comes_before(b, element, best, select_prim is ge_p)
            best, chosen = b.select(better, element, best), b.select(better, b.constant(k, index), chosen)
        return chosen
    return lower_apart(b, number, [operand, start])


# -- select_and_gather_add ----------------------------------------------------------------------------------------

def _gather_type(tangents, operand, *, select_prim, **params):
    window = window_of(params)
    check_kinds("select_and_gather_add", FLOAT, tangents, operand)
    check_same_dtype("select_and_gather_add", tangents, operand)
    if tangents.shape != operand.shape:
        raise bad("lax.select_and_gather_add", "the two arrays differ in shape",
                  given={"tangents": tangents.str_short(), "operand": operand.str_short()},
                  fix="make the shapes equal.")
    check_window("lax.select_and_gather_add", operand.shape, window)
    return operand.update(shape=window.out_shape(operand.shape))


def _gather_lower(b: Builder, out: ShapedArray, tangents: Value, operand: Value, *, select_prim, **params) -> Value:
    window = window_of(params)
    if is_empty(out.shape):
        return b.constant(0, out.strong())
    start, zero = start_of(b, select_prim, out.dtype), b.constant(0, ShapedArray((), out.dtype))
    best, *elements = emit_elements(b, operand, start, window)
    picked, *others = emit_elements(b, tangents, zero, window)
    for element, other in zip(elements, others, strict=True):
        better = comes_before(b, element, best, select_prim is ge_p)
        best, picked = b.select(better, element, best), b.select(better, other, picked)
    return picked


def _gather_transpose(ct, tangents, operand, *, select_prim, window_dimensions, window_strides, padding, base_dilation,
                      window_dilation):
    """If the operand is dilated, the holes are filled with the extremum of no elements, and removed at the end."""
    shape, dilation = tangents.aval.shape, {}
    if any(d != 1 for d in window_dilation):        # JAX's programs do not have it: only if needed
        dilation = {"window_dilation": window_dilation}
    if any(d != 1 for d in base_dilation):
        fill = number_of(typeof(operand).dtype, extreme_value(typeof(operand).dtype, -1 if select_prim is ge_p else 1))
        operand = pad(operand, fill, [(0, 0, d - 1) for d in base_dilation])
    result = select_and_scatter_add_p.bind(ct, operand, select_prim=select_prim, window_dimensions=window_dimensions,
                                           window_strides=window_strides, padding=padding, **dilation)
    if result.aval.shape != shape:
        result = slice(result, (0,) * len(shape), result.aval.shape, base_dilation)
    return [result, None]


select_and_gather_add_p = Primitive(
    "select_and_gather_add", type_rule=_gather_type, lower=_gather_lower,
    lower_on={"cpu": gather_by_reduction}, jvp=LINEAR, transpose=_gather_transpose,
    batch=window_batch(lambda: select_and_gather_add_p))


# -- select_and_scatter_add ---------------------------------------------------------------------------------------

def _scatter_type(source, operand, *, select_prim, **params):
    window = window_of(params)
    check_kinds("select_and_scatter_add", FLOAT, source, operand)
    check_same_dtype("select_and_scatter_add", source, operand)
    check_window("lax.select_and_scatter_add", operand.shape, window)
    if source.shape != window.out_shape(operand.shape):
        raise bad("lax.select_and_scatter_add", "`source` must have one element for each position of the window",
                  given={"source": source.str_short(), "operand": operand.str_short(),
                         "positions": str(window.out_shape(operand.shape))},
                  fix="pass an array of the shape that lax.reduce_window returns.")
    return operand.strong()


def _scatter_lower(b: Builder, out: ShapedArray, source: Value, operand: Value, *, select_prim, **params) -> Value:
    window = window_of(params)
    if is_empty(source.aval.shape):
        return b.constant(0, out)
    start, zero = start_of(b, select_prim, out.dtype), b.constant(0, ShapedArray((), out.dtype))
    dilated = any(d != 1 for d in window.window_dilation)       # XLA's own operation has no dilation
    if not window.has_at_most("elements", b.module.platform) and not dilated:
        emit = _scatter_by_windows
    elif window.window_strides == window.window_dimensions and not dilated and not any(map(any, window.padding)):
        emit = _scatter_into_tiles
    else:
        emit = _scatter_by_elements
    return emit(b, out, source, operand, start, zero, select_prim, window)


def _scatter_into_tiles(b: Builder, out: ShapedArray, source: Value, operand: Value, start: Value, zero: Value,
                        select_prim: Primitive, window: Window) -> Value:
    """For windows that do not overlap: each element is compared with the element that its window selected."""
    size, counts = window.window_dimensions, source.aval.shape
    chosen = _chosen(b, select_prim, operand, start, window)
    tiled = tuple(n for pair in zip(counts, size, strict=True) for n in pair)       # position, element, position, ...
    position, element = range(0, len(tiled), 2), range(1, len(tiled), 2)
    wide = chosen.aval.update(shape=tiled)
    own, step = b.constant(0, wide), 1              # computed, since a constant would be slower to read
    for axis in reversed(element):
        along = b.op(f"stablehlo.iota dim = {axis} : {tensor_type(wide)}", wide)
        own = b.add(own, b.mul(along, step))
        step *= tiled[axis]
    won = b.compare("EQ", b.broadcast(chosen, wide, position), own)
    values = b.broadcast(source, source.aval.strong().update(shape=tiled), position)
    tiles = b.select(won, values, b.constant(0, values.aval))
    tiles = reshape_text(b, tiles, tuple(n * k for n, k in zip(counts, size, strict=True)))
    rest = [n - m for n, m in zip(out.shape, tiles.aval.shape, strict=True)]         # after the last whole window
    return emit_pad(b, tiles, zero, [0] * out.ndim, rest, [0] * out.ndim)


def _scatter_by_elements(b: Builder, out: ShapedArray, source: Value, operand: Value, start: Value, zero: Value,
                         select_prim: Primitive, window: Window) -> Value:
    """The sum over the window's elements: the values of windows that selected the element, at its position."""
    chosen = _chosen(b, select_prim, operand, start, window)
    none, total = b.constant(0, source.aval.strong()), None
    for k, at in enumerate(window.offsets()):
        won = b.compare("EQ", chosen, b.constant(k, chosen.aval))
        low = [a - lo for a, (lo, _) in zip(at, window.padding, strict=True)]
        high = [n - a - (m - 1) * s - 1
                for n, a, m, s in zip(out.shape, low, source.aval.shape, window.window_strides, strict=True)]
        share = emit_pad(b, b.select(won, source, none), zero, low, high, [s - 1 for s in window.window_strides])
        total = share if total is None else b.add(total, share)
    assert total is not None            # a window has at least one element
    return total


def _scatter_by_windows(b: Builder, out: ShapedArray, source: Value, operand: Value, start: Value, zero: Value,
                        select_prim: Primitive, window: Window) -> Value:
    """XLA's `select_and_scatter`. On CPU it crashes for padding, so the operand is padded first."""
    low, high = ([pair[i] for pair in window.padding] for i in range(2))
    none = [0] * out.ndim
    padded = emit_pad(b, operand, start, low, high, none)

    def keep(inner: Builder, best: Value, element: Value) -> list[Value]:
        return [inner.unary("stablehlo.not", comes_before(inner, element, best, select_prim is ge_p))]

    def combine(inner: Builder, total: Value, element: Value) -> list[Value]:
        return [inner.add(total, element)]

    text = (f"window_dimensions = {i64_array(window.window_dimensions)}, "
            f"window_strides = {i64_array(window.window_strides)}")
    regions = [b.region([zero.aval] * 2, keep), b.region([zero.aval] * 2, combine)]
    scattered = b.generic("stablehlo.select_and_scatter", [padded, source, zero],
                          [ShapedArray(padded.aval.shape, out.dtype)], text, regions)[0]
    return slice_text(b, scattered, low, [lo + n for lo, n in zip(low, out.shape, strict=True)])


def _scatter_transpose(ct, source, operand, *, select_prim, **params):
    return [select_and_gather_add_p.bind(ct, operand, select_prim=select_prim, **window_of(params)._asdict()), None]


select_and_scatter_add_p = Primitive(
    "select_and_scatter_add", type_rule=_scatter_type, lower=_scatter_lower, jvp=LINEAR, transpose=_scatter_transpose,
    batch=window_batch(lambda: select_and_scatter_add_p))
