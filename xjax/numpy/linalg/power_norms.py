"""Norms of a numeric order: roots of sums of powers, accurate over the whole range of a dtype.

    y:f32[1] = root_of_powers[axes=(0,) ord=3] x

As for `root_of_squares` (`xjax.numpy.lengths`), lowering chooses the form for the platform.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core.dtypes import finfo
from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value
from xjax.core.lowering import lower_function
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray, Zero, typeof
from xjax.lax.cond import cond
from xjax.numpy.lengths import all_near_one, all_ordinary, to_double
from xjax.numpy.reductions import max, min, sum
from xjax.numpy.selection import choose, clip
from xjax.ops.bitwise import bitwise_and
from xjax.ops.checks import NOT_LINEAR
from xjax.ops.convert import convert_element_type, reduce_precision
from xjax.ops.elementwise import div, integer_pow, mul
from xjax.ops.identity import computed_again
from xjax.ops.piecewise import abs
from xjax.ops.shape import after_batch, expand_dims, reduce_sum
from xjax.ops.transcendental import pow
from xjax.ops.zeros import full_of, zeros_of
from xjax.typing import Array, ArrayLike


def root_of_powers(ord: float, axes: tuple[int, ...], x: ArrayLike) -> Array:
    """``sum(abs(x) ** ord) ** (1 / ord)`` of real numbers over axes, which are kept.

    The derivative for an element x is ``sign(x) * (abs(x) / result) ** (ord - 1)``; it is 0 where x is 0, even if the
    formula is infinite.
    """
    return root_of_powers_p.bind(x, ord=int(ord) if ord == int(ord) else float(ord), axes=axes)


def _power(x: Array, exponent: float) -> Array:
    """``abs(x) ** exponent``; for integer exponents by multiplication, exact to a few ulp wherever it is in range."""
    if not isinstance(exponent, int):
        return pow(abs(x), full_of(typeof(x), exponent))
    # On CPUs, XLA fuses products into its library's sums, but not absolute values: so at most one is used.
    return integer_pow(x, exponent) if exponent % 2 == 0 else abs(integer_pow(x, exponent))


# -- the forms ----------------------------------------------------------------------------------------------------

def _root(ord: float, total: Array) -> Array:
    """``total ** (1 / ord)``. Far from 1 it loses digits; for an integer `ord`, a Newton step restores them."""
    if ord == -1:
        return 1 / total
    root = pow(total, full_of(typeof(total), 1 / ord))
    if not isinstance(ord, int):
        return root
    better = root - root * ((integer_pow(root, ord) - total) / total / full_of(typeof(total), ord))
    return choose(bitwise_and(total > 0, total < np.inf), better, root)


def _in_double(ord: float, axes: tuple[int, ...], x: Array) -> Array:
    """For few float32 numbers: double precision holds their powers."""
    total = expand_dims(reduce_sum(_power(to_double(x), ord), axes), axes)
    like = ShapedArray(typeof(total).shape, x.dtype)
    exponent = div(to_double(full_of(like, 1)), to_double(full_of(like, ord)))
    return convert_element_type(pow(total, exponent), x.dtype)


def _scaled(ord: float, axes: tuple[int, ...], x: Array) -> Array:
    """The elements are first divided by a power of two near the element that dominates the norm."""
    unit = _unit_near(ord, axes, x)
    return unit * _root(ord, sum(_power(x / unit, ord), axes, keepdims=True))


def _by_choice(ord: float, axes: tuple[int, ...], x: Array) -> Array:
    """The root of the plain sum if all sums are in range; otherwise `_scaled`, for all.

    If `ord` is not an integer, the sums must be near 1: far from it powers lose digits, some 8 ulp at 2 ** 100.
    """
    total = sum(_power(x, ord), axes, keepdims=True)
    count = math.prod(x.shape[axis] for axis in axes)
    ordinary = all_ordinary(total, count) if isinstance(ord, int) else all_near_one(total, 24)
    return cond(ordinary, lambda x, total: _root(ord, total),
                lambda x, total: _scaled(ord, axes, computed_again(x)), x, total)


def _unit_near(ord: float, axes: tuple[int, ...], x: Array) -> Array:
    """A power of two near the element that dominates a norm: elements divided by it have powers in range.

    Axes are kept. It is 1 where that element is 0 or infinite. Its reciprocal is not subnormal, since XLA's CPU backend
    treats subnormal numbers as 0.
    """
    info = finfo(x.dtype)
    size = abs(x)
    dominant = max(size, axes, keepdims=True, initial=0) if ord > 0 else min(size, axes, keepdims=True, initial=np.inf)
    near = clip(dominant, info.smallest_normal * 8, info.max / 8)
    near = choose(bitwise_and(dominant > 0, dominant < np.inf), near, x.dtype.type(1))
    return reduce_precision(near, info.nexp, 0)


# -- the operation ------------------------------------------------------------------------------------------------

def _type(x: ShapedArray, *, ord: float, axes: tuple[int, ...]) -> ShapedArray:
    return ShapedArray(tuple(1 if d in axes else n for d, n in enumerate(x.shape)), x.dtype)


def _lower(b: Builder, out: ShapedArray, x: Value, *, ord: float, axes: tuple[int, ...]) -> Value:
    return lower_function(b, lambda operand: [_scaled(ord, axes, operand)], [x])[0]


def _lower_on_cpu(b: Builder, out: ShapedArray, x: Value, *, ord: float, axes: tuple[int, ...]) -> Value | None:
    limit = limits("roots of sums of powers", "cpu")
    if limit is None:
        return None
    few = (x.aval.size < limit["elements"] and out.size <= limit["roots"] and x.aval.dtype == np.float32
           and isinstance(ord, int) and -7 <= ord <= 7)
    form = _in_double if few else _by_choice
    return lower_function(b, lambda operand: [form(ord, axes, operand)], [x])[0]


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, ord: float, axes: tuple[int, ...]) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    root = root_of_powers_p.bind(x, ord=ord, axes=axes)
    if type(dx) is Zero:
        return root, Zero(typeof(root).tangent())
    return root, sum(mul(_slope(ord, x, root), dx), axes, keepdims=True)


def _slope(ord: float, x: Array, root: Array) -> Array:
    length = choose(root == 0, full_of(typeof(root), 1), root)
    if isinstance(ord, int) and ord > 1:
        ratio = x / length
        return integer_pow(ratio, ord - 1) if ord % 2 == 0 else ratio * abs(integer_pow(ratio, ord - 2))
    zero = x == 0
    x = choose(zero, full_of(typeof(x), 1), x)
    # A negative power would be a reciprocal, with one more rounding.
    slope = _power(root / x, 1 - ord) if ord < 1 else _power(x / length, ord - 1)
    return choose(zero, zeros_of(typeof(slope)), choose(x < 0, -slope, slope))


def _batch(axis: Any, args: Sequence[Any], bdims: Sequence[int], *, ord: float, axes: tuple[int, ...]) -> tuple:
    return root_of_powers_p.bind(args[0], ord=ord, axes=after_batch(bdims[0], axes)), bdims[0]


root_of_powers_p = Primitive("root_of_powers", type_rule=_type, lower=_lower, lower_on={"cpu": _lower_on_cpu},
                             jvp=_jvp, transpose=NOT_LINEAR, batch=_batch)
