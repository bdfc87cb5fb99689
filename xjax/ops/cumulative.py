"""Running reductions along an axis: cumsum, cumprod, cummax, cummin, cumlogsumexp."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core.calls import name_function
from xjax.core.hlo import Builder, Value, i64_array, i64_matrix
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.symbolic.dims import is_symbolic_dim
from xjax.core.types import ShapedArray, Zero, number_of, typeof
from xjax.ops.arrange import concatenate, rev
from xjax.ops.checks import FLOAT, NOT_LINEAR, NUMBER, REAL, canonical_axis, check_kinds
from xjax.ops.compare import eq, ge, select_n
from xjax.ops.cpu.cumsum import running_sum
from xjax.ops.elementwise import add, mul, mul_p, sub
from xjax.ops.makers import accumulate
from xjax.ops.piecewise import max_p, min_p
from xjax.ops.reduce import extreme_value
from xjax.ops.shape import after_batch
from xjax.ops.slice import pad, slice_in_dim
from xjax.ops.text import dynamic_slice_text, dynamic_update_slice_text
from xjax.ops.transcendental import exp, log1p
from xjax.ops.zeros import zeros_of
from xjax.typing import Array, ArrayLike

# Arrays that are combined together; for derivatives, (value, tangent) of one array.
Pair = tuple[Any, ...]


# -- common parts -------------------------------------------------------------------------------------------------

def _function(p: Primitive, doc: str) -> Callable[..., Array]:
    def apply(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        axis = canonical_axis(axis, typeof(operand).ndim, f"lax.{p.name}")
        return p.bind(operand, axis=axis, reverse=bool(reverse))

    name_function(apply, p.name, "xjax.lax")
    apply.__doc__ = doc + """

    Args: operand: [..., n, ...]; axis: the axis to run along; reverse: run from its end.
    Returns: an array of the operand's shape and dtype.
    """
    return apply


def _type_rule(name: str, kinds: str) -> Callable:
    def rule(x, *, axis, reverse):
        check_kinds(name, kinds, x)
        return x
    return rule


def _window_lower(emit: str | Callable, init: Callable[[np.dtype], Any]) -> Callable:
    """Lowering by a window as long as the axis, which XLA turns into a scan (at most n log n additions)."""
    def lower(b: Builder, out: ShapedArray, x: Value, *, axis, reverse) -> Value:
        n, ndim = out.shape[axis], out.ndim
        if is_symbolic_dim(n):
            return _by_rows(b, x, axis, reverse, emit, init(out.dtype))
        if n < 2 or not out.size:
            return x
        start = b.constant(init(out.dtype), ShapedArray((), out.dtype))
        window, padding = [1] * ndim, [[0, 0] for _ in range(ndim)]
        window[axis] = n
        padding[axis] = [0, n - 1] if reverse else [n - 1, 0]

        def combine(inner: Builder, total: Value, element: Value) -> list[Value]:
            return [inner.binary(emit, total, element) if isinstance(emit, str) else emit(inner, total, element)]

        text = f"window_dimensions = {i64_array(window)}, padding = {i64_matrix(padding)}"
        return b.generic("stablehlo.reduce_window", [x, start], [out], text,
                         [b.region([start.aval] * 2, combine)])[0]
    return lower


def _by_rows(b: Builder, x: Value, axis: int, reverse: bool, emit: str | Callable, start: Any) -> Value:
    """Lowering by a loop over the axis, whose size is symbolic."""
    n, index = x.aval.shape[axis], ShapedArray((), np.int32)
    row = x.aval.update(shape=(*x.aval.shape[:axis], 1, *x.aval.shape[axis + 1:]))

    def body(inner: Builder, i: Value, x: Value, total: Value, y: Value) -> list[Value]:
        at = inner.sub(inner.size(n - 1), i) if reverse else i
        starts = [at if d == axis else inner.constant(0, index) for d in range(row.ndim)]
        item = dynamic_slice_text(inner, x, starts, row.shape)
        total = inner.binary(emit, total, item) if isinstance(emit, str) else emit(inner, total, item)[0]
        return [inner.add(i, 1), x, total, dynamic_update_slice_text(inner, y, total, starts)]

    start = [b.constant(0, index), x, b.constant(start, row), x]
    return b.while_loop(start, lambda inner, i, *_: [inner.compare("LT", i, inner.size(n))], body)[3]


def _batch_rule(p: Callable[[], Primitive]) -> Callable:
    def rule(batch_axis, args, bdims, *, axis, reverse):
        (x,), (bdim,) = args, bdims
        (inner,) = after_batch(bdim, (axis,))
        return p().bind(x, axis=inner, reverse=reverse), bdim
    return rule


# -- derivatives by a tree of pairs -------------------------------------------------------------------------------

def combine_along(combine: Callable[[Pair, Pair], Pair], pair: Pair, axis: int) -> Pair:
    """Running combination of tuples of arrays along an axis, by a tree of depth 2 log n.

    Neighbours are combined, and the running combination of these pairs gives the odd results. Each even result is one
    more combination, with the element in between.
    """
    n = typeof(pair[0]).shape[axis]
    if n < 2:
        return pair
    even, odd = _part(pair, axis, 0, n - 1, 2), _part(pair, axis, 1, n, 2)
    odd = combine_along(combine, combine(even, odd), axis)
    before = odd if n % 2 else _part(odd, axis, 0, n // 2 - 1, 1)
    even = combine(before, _part(pair, axis, 2, n, 2))
    first = _part(pair, axis, 0, 1, 1)
    even = tuple(concatenate([x, y], axis) for x, y in zip(first, even, strict=True))
    return tuple(_interleave(x, y, axis, n) for x, y in zip(even, odd, strict=True))


def _part(pair: Pair, axis: int, start: int, stop: int, step: int) -> Pair:
    return tuple(slice_in_dim(x, start, stop, step, axis) for x in pair)


def _interleave(even: Array, odd: Array, axis: int, n: int) -> Array:
    """The array of size n with the given elements at even and odd positions."""
    aval, zero = typeof(even), number_of(typeof(even).dtype, 0)

    def spread(x: Array, low: int, high: int) -> Array:
        config = [(0, 0, 0)] * aval.ndim
        config[axis] = (low, high, 1)
        return pad(x, zero, config)
    return add(spread(even, 0, 1 - n % 2), spread(odd, 1, n % 2))


def _pair_jvp(p: Callable[[], Primitive], combine: Callable[[Pair, Pair], Pair]) -> Callable:
    """jvp rule of a running reduction, from the rule of its operation on two (value, tangent) pairs."""
    def rule(primals, tangents, *, axis, reverse):
        (x,), (dx,) = primals, tangents
        if type(dx) is Zero:
            out = p().bind(x, axis=axis, reverse=reverse)
            return out, Zero(out.aval.tangent())
        pair = (rev(x, (axis,)), rev(dx, (axis,))) if reverse else (x, dx)
        y, dy = combine_along(combine, pair, axis)
        return (rev(y, (axis,)), rev(dy, (axis,))) if reverse else (y, dy)
    return rule


def _by_rule_of(p: Primitive) -> Callable[[Pair, Pair], Pair]:
    """Combination of pairs by the jvp rule of an element-wise primitive of two operands."""
    def combine(a: Pair, b: Pair) -> Pair:
        return p.jvp((a[0], b[0]), (a[1], b[1]))
    return combine


# -- cumsum -------------------------------------------------------------------------------------------------------

def _cumsum_transpose(ct, x, *, axis, reverse):
    return [cumsum_p.bind(ct, axis=axis, reverse=not reverse)]


cumsum_p = Primitive("cumsum", type_rule=_type_rule("cumsum", NUMBER),
                     lower=_window_lower("stablehlo.add", lambda _: 0), lower_on={"cpu": running_sum}, jvp=LINEAR,
                     transpose=_cumsum_transpose, batch=_batch_rule(lambda: cumsum_p))
cumsum = _function(cumsum_p, "Running sum along an axis: ``y[i] = x[0] + ... + x[i]``.")


# -- cumprod, cummax, cummin --------------------------------------------------------------------------------------

def _running(name: str, kinds: str, operation: str, init: Callable[[np.dtype], Any], by: Primitive) -> Primitive:
    p = Primitive(name, type_rule=_type_rule(name, kinds), lower=_window_lower(operation, init),
                  jvp=_pair_jvp(lambda: p, _by_rule_of(by)), transpose=NOT_LINEAR, batch=_batch_rule(lambda: p))
    return p


cumprod_p = _running("cumprod", NUMBER, "stablehlo.multiply", lambda _: 1, mul_p)
cumprod = _function(cumprod_p, "Running product along an axis: ``y[i] = x[0] * ... * x[i]``.")
cummax_p = _running("cummax", REAL, "stablehlo.maximum", lambda dtype: extreme_value(dtype, -1), max_p)
cummax = _function(cummax_p, "Running maximum along an axis; NaN from the first NaN on.")
cummin_p = _running("cummin", REAL, "stablehlo.minimum", lambda dtype: extreme_value(dtype, 1), min_p)
cummin = _function(cummin_p, "Running minimum along an axis; NaN from the first NaN on.")


# -- cumlogsumexp -------------------------------------------------------------------------------------------------

def _logaddexp_lower(b: Builder, x: Value, y: Value) -> Value:
    """log(exp(x) + exp(y)) of two scalars. Equal infinities have no difference; their sum is the correct result."""
    top, gap = b.binary("stablehlo.maximum", x, y), b.sub(x, y)
    rest = b.unary("stablehlo.negate", b.unary("stablehlo.abs", gap))
    small = b.unary("stablehlo.log_plus_one", b.unary("stablehlo.exponential", rest))
    return b.select(b.compare("NE", gap, gap), b.add(x, y), b.add(top, small))


def _logaddexp_pairs(a: Pair, b: Pair) -> Pair:
    """The value is computed by selections, not by max and abs, because their derivatives at ties would make the second
    derivative wrong."""
    (x, dx), (y, dy) = a, b
    first = ge(x, y)
    high, low = select_n(first, y, x), select_n(first, x, y)
    gap = sub(low, high)
    finite = eq(gap, gap)
    z = select_n(finite, add(x, y), add(high, log1p(exp(select_n(finite, zeros_of(typeof(gap)), gap)))))

    def weight(v: Array) -> Array:
        return exp(select_n(eq(v, z), sub(v, z), zeros_of(typeof(z))))      # 1 for the infinity that equals z
    return z, accumulate(mul(dx, weight(x)), mul(dy, weight(y)))


cumlogsumexp_p = Primitive(
    "cumlogsumexp", type_rule=_type_rule("cumlogsumexp", FLOAT),
    lower=_window_lower(_logaddexp_lower, lambda _: -math.inf), jvp=_pair_jvp(lambda: cumlogsumexp_p, _logaddexp_pairs),
    transpose=NOT_LINEAR, batch=_batch_rule(lambda: cumlogsumexp_p))
cumlogsumexp = _function(cumlogsumexp_p, "Running ``log(sum(exp(x)))`` along an axis, without overflow.")
