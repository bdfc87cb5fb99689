"""Reductions over axes: extrema, products, logical operations, argmax and argmin. See also `xjax.lax.reductions`.

`reduce_sum` is in `xjax.ops.shape`. NaN is kept: a float extremum of an array with a NaN is NaN at every size.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import constrained, name_function
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, i64_array, tensor_type
from xjax.core.primitive import ZERO, Primitive
from xjax.core.types import ShapedArray, Zero, number_of, typeof
from xjax.ops.checks import ANY, BITS, NOT_LINEAR, NUMBER, canonical_axes, canonical_axis, check_kinds
from xjax.ops.compare import eq
from xjax.ops.convert import convert_element_type
from xjax.ops.cpu.argmax import search_by_pairs
from xjax.ops.cpu.extrema import extremum_by_slices
from xjax.ops.elementwise import div, mul
from xjax.ops.identity import computed_once
from xjax.ops.makers import accumulate
from xjax.ops.shape import after_batch, reduce_sum, reshape, squeeze, transpose
from xjax.ops.slice import pad, slice_in_dim
from xjax.ops.text import reduce_text
from xjax.ops.zeros import full_of
from xjax.typing import Array, ArrayLike, DTypeLike

_BOOL = np.dtype(bool)


# -- common parts -------------------------------------------------------------------------------------------------

def reduction(p: Primitive, doc: str) -> Callable[..., Array]:
    """The public function of a reduction."""
    def apply(operand: ArrayLike, axes: Sequence[int], *, out_sharding: object = None) -> Array:
        if out_sharding is not None:
            return constrained(f"lax.{p.name}", apply(operand, axes), out_sharding)
        axes = canonical_axes(axes, typeof(operand).ndim, f"lax.{p.name}", "axes")
        return operand if not axes and isinstance(operand, Array) else p.bind(operand, axes=axes)

    name_function(apply, p.name, "xjax.lax")
    apply.__doc__ = doc + " over `axes`, which are removed; the dtype is kept."
    return apply


def _reduced(shape: tuple[int, ...], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def _type_rule(name: str, kinds: str) -> Callable:
    def rule(x, *, axes):
        check_kinds(name, kinds, x)
        return x.update(shape=_reduced(x.shape, axes))
    return rule


def _lower_by(operation: str, init: Callable[[np.dtype], Any]) -> Callable:
    def lower(b: Builder, out: ShapedArray, x: Value, *, axes) -> Value:
        return reduce_text(b, x, operation, init(x.aval.dtype), axes)
    return lower


def _batch_rule(p: Callable[[], Primitive]) -> Callable:
    def rule(axis, args, bdims, **params):
        (x,), (bdim,) = args, bdims
        inner = after_batch(bdim, params.pop("axes"))
        return p().bind(x, axes=inner, **params), bdim - sum(a < bdim for a in inner)
    return rule


# -- extrema ------------------------------------------------------------------------------------------------------

def extreme_value(dtype: np.dtype, sign: int) -> Any:
    """The smallest (sign -1) or largest value of a dtype: the extremum of no elements."""
    if dtypes.is_complex(dtype):
        return complex(sign * math.inf, sign * math.inf)
    if dtypes.is_float(dtype):
        info = dtypes.finfo(dtype)
        infinite = np.isinf(np.asarray(sign * math.inf, dtype).astype(np.float32))
        return sign * math.inf if infinite else (info.max if sign > 0 else info.min)
    if dtypes.is_bool(dtype):
        return sign > 0
    info = dtypes.iinfo(dtype)
    return int(info.max if sign > 0 else info.min)


def _extremum_lower(operation: str, sign: int) -> Callable:
    """Lowering of a maximum (sign 1) or minimum (sign -1)."""
    def lower(b: Builder, out: ShapedArray, x: Value, *, axes) -> Value:
        dtype = x.aval.dtype
        if dtypes.is_complex(dtype):
            return _complex_extremum(b, out, x, axes, sign)
        return reduce_text(b, x, operation, extreme_value(dtype, -sign), axes)
    return lower


def _complex_extremum(b: Builder, out: ShapedArray, x: Value, axes: Sequence[int], sign: int) -> Value:
    """Extremum in lexicographic order (real part, then imaginary); a NaN in either part precedes all numbers."""
    dtype = np.dtype(np.float32 if x.aval.dtype == np.complex64 else np.float64)
    part = ShapedArray(x.aval.shape, dtype)
    parts = [b.op(f"stablehlo.{name} {x} : ({x.type}) -> {tensor_type(part)}", part) for name in ("real", "imag")]
    start = b.constant(-sign * math.inf, ShapedArray((), dtype))
    ahead = "GT" if sign > 0 else "LT"

    def combine(inner: Builder, re: Value, im: Value, re2: Value, im2: Value) -> list[Value]:
        nan = inner.binary("stablehlo.or", inner.compare("NE", re, re), inner.compare("NE", im, im))
        nan2 = inner.binary("stablehlo.or", inner.compare("NE", re2, re2), inner.compare("NE", im2, im2))
        tie = inner.binary("stablehlo.and", inner.compare("EQ", re, re2), inner.compare(ahead, im, im2))
        first = inner.binary("stablehlo.or", inner.compare(ahead, re, re2), tie)
        keep = inner.binary("stablehlo.or", nan, inner.select(nan2, nan, first))
        return [inner.select(keep, re, re2), inner.select(keep, im, im2)]

    result = ShapedArray(out.shape, dtype)
    re, im = b.generic("stablehlo.reduce", [*parts, start, start], [result, result],
                       f"dimensions = {i64_array(axes)}", [b.region([start.aval] * 4, combine)])
    return b.op(f"stablehlo.complex {re}, {im} : {tensor_type(out)}", out)


def _extremum_jvp(p: Callable[[], Primitive]) -> Callable:
    """The tangent is the mean of the tangents of all elements that are equal to the extremum."""
    def rule(primals, tangents, *, axes):
        (x,), (dx,) = primals, tangents
        if type(dx) is Zero:
            out = p().bind(x, axes=axes)
            return out, Zero(out.aval.tangent())
        x = computed_once(x)
        out = p().bind(x, axes=axes)
        kept = tuple(1 if i in axes else n for i, n in enumerate(typeof(x).shape))
        attained = convert_element_type(eq(x, reshape(out, kept)), out.aval.dtype, out.aval.weak_type)
        counts = reduce_sum(attained, axes)
        return out, div(reduce_sum(mul(dx, attained), axes), counts)
    return rule


def _extremum(name: str, operation: str, sign: int) -> Primitive:
    p = Primitive(name, type_rule=_type_rule(name, ANY), lower=_extremum_lower(operation, sign),
                  lower_on={"cpu": extremum_by_slices(operation, lambda dtype: extreme_value(dtype, -sign))},
                  jvp=_extremum_jvp(lambda: p), transpose=NOT_LINEAR, batch=_batch_rule(lambda: p))
    return p


reduce_max_p = _extremum("reduce_max", "stablehlo.maximum", 1)
reduce_max = reduction(reduce_max_p, "Maximum (NaN if there is one; the smallest value for no elements)")
reduce_min_p = _extremum("reduce_min", "stablehlo.minimum", -1)
reduce_min = reduction(reduce_min_p, "Minimum (NaN if there is one; the largest value for no elements)")


# -- product ------------------------------------------------------------------------------------------------------

def _prod_jvp(primals, tangents, *, axes):
    """By a tree of products of two: exact where elements are zero, unlike product / element."""
    (x,), (dx,) = primals, tangents
    if type(dx) is Zero:
        out = reduce_prod_p.bind(x, axes=axes)
        return out, Zero(out.aval.tangent())
    aval = typeof(x)
    rest = [a for a in range(aval.ndim) if a not in axes]
    n, shape = math.prod(aval.shape[a] for a in axes), [aval.shape[a] for a in rest]
    x, dx = (reshape(transpose(v, [*axes, *rest]), (n, *shape)) for v in (x, dx))
    if n == 0:
        result = ShapedArray(tuple(shape), aval.dtype)
        return full_of(result, 1), Zero(result.tangent())
    while n > 1:
        half = (n + 1) // 2
        fill = [(0, 2 * half - n, 0), *[(0, 0, 0)] * len(rest)]
        left, right, d_left, d_right = (slice_in_dim(v, *ends) for v in (x, dx) for ends in ((0, half), (half, n)))
        if n % 2:
            right, d_right = pad(right, number_of(aval.dtype, 1), fill), pad(d_right, number_of(aval.dtype, 0), fill)
        x, dx = mul(left, right), accumulate(mul(d_left, right), mul(left, d_right))
        n = half
    return squeeze(x, (0,)), squeeze(dx, (0,))


reduce_prod_p = Primitive(
    "reduce_prod", type_rule=_type_rule("reduce_prod", NUMBER), lower=_lower_by("stablehlo.multiply", lambda _: 1),
    jvp=_prod_jvp, transpose=NOT_LINEAR, batch=_batch_rule(lambda: reduce_prod_p))
reduce_prod = reduction(reduce_prod_p, "Product (1 for no elements)")


# -- logical reductions -------------------------------------------------------------------------------------------

def _all_ones(dtype: np.dtype) -> Any:
    """The value with every bit set."""
    if dtypes.is_bool(dtype):
        return True
    return int(dtypes.iinfo(dtype).max) if dtypes.is_unsigned(dtype) else -1


def _logical(name: str, operation: str, init: Callable[[np.dtype], Any]) -> Primitive:
    p = Primitive(name, type_rule=_type_rule(name, BITS), lower=_lower_by(operation, init), jvp=ZERO,
                  transpose=NOT_LINEAR, batch=_batch_rule(lambda: p))
    return p


reduce_and_p = _logical("reduce_and", "stablehlo.and", _all_ones)
reduce_and = reduction(reduce_and_p, "Logical (for integers: bitwise) and")
reduce_or_p = _logical("reduce_or", "stablehlo.or", lambda _: 0)
reduce_or = reduction(reduce_or_p, "Logical (for integers: bitwise) or")
reduce_xor_p = _logical("reduce_xor", "stablehlo.xor", lambda _: 0)
reduce_xor = reduction(reduce_xor_p, "Logical (for integers: bitwise) exclusive or")


# -- argmax and argmin --------------------------------------------------------------------------------------------

def _arg_type(name: str) -> Callable:
    def rule(x, *, axes, index_dtype):
        check_kinds(name, "bif", x)
        if not dtypes.is_int(index_dtype):
            raise bad(f"lax.{name}", "`index_dtype` must be an integer type", given={"index_dtype": index_dtype.name},
                      fix="pass numpy.int32.")
        (axis,) = axes
        if x.shape[axis] == 0:
            raise bad(f"lax.{name}", f"axis {axis} is empty, so there is no extremum",
                      given={"operand": x.str_short()}, fix="check the size before.", exc=ValueError)
        return ShapedArray(_reduced(x.shape, axes), index_dtype)
    return rule


def _search(b: Builder, out: ShapedArray, x: Value, *, sign: int, axes, index_dtype) -> Value:
    """The best element and its index in one reduction, independent of the order in which elements are combined: NaN
    precedes all numbers, then the extremum counts, then the smaller index."""
    (axis,), dtype = axes, x.aval.dtype
    ahead = "GT" if sign > 0 else "LT"
    positions = ShapedArray(x.aval.shape, index_dtype)
    index = b.op(f"stablehlo.iota dim = {axis} : {tensor_type(positions)}", positions)
    start = b.constant(extreme_value(dtype, -sign), ShapedArray((), dtype))
    zero = b.constant(0, ShapedArray((), index_dtype))

    def combine(inner: Builder, v: Value, i: Value, w: Value, j: Value) -> list[Value]:
        better, same = inner.compare(ahead, v, w), inner.compare("EQ", v, w)
        if dtypes.is_float(dtype):
            v_nan, w_nan = inner.compare("NE", v, v), inner.compare("NE", w, w)
            better = inner.binary("stablehlo.or", better, v_nan)
            better = inner.select(w_nan, inner.constant(False, better.aval), better)
            same = inner.binary("stablehlo.or", same, inner.binary("stablehlo.and", v_nan, w_nan))
        tie = inner.binary("stablehlo.and", same, inner.compare("LT", i, j))
        keep = inner.binary("stablehlo.or", better, tie)
        return [inner.select(keep, v, w), inner.select(keep, i, j)]

    _, best_index = b.generic("stablehlo.reduce", [x, index, start, zero], [ShapedArray(out.shape, dtype), out],
                              f"dimensions = {i64_array([axis])}", [b.region([start.aval, zero.aval] * 2, combine)])
    return best_index


def _arg_extremum(name: str, sign: int) -> Primitive:
    p = Primitive(name, type_rule=_arg_type(name), lower=functools.partial(_search, sign=sign),
                  lower_on={"cpu": search_by_pairs(sign > 0)}, jvp=ZERO, transpose=NOT_LINEAR,
                  batch=_batch_rule(lambda: p))
    return p


argmax_p, argmin_p = _arg_extremum("argmax", 1), _arg_extremum("argmin", -1)


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """Index of the maximum along an axis, which is removed: the first of equal elements; a NaN is the maximum.

    Args: operand: bool, integer or float[...]; index_dtype: integer type of the result.
    """
    return _arg(argmax_p, operand, axis, index_dtype)


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """Index of the minimum along an axis, which is removed: the first of equal elements; a NaN is the minimum."""
    return _arg(argmin_p, operand, axis, index_dtype)


def _arg(p: Primitive, operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    axis = canonical_axis(axis, typeof(operand).ndim, f"lax.{p.name}")
    return p.bind(operand, axes=(axis,), index_dtype=dtypes.explicit_dtype(np.dtype(index_dtype)))
