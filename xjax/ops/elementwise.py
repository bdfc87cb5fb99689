"""Arithmetic, element-wise: sums, products, quotients, integer powers, rounding.

Operations with comparisons (`max`, `abs`, `rem` ...) are in `piecewise`, roots and exponentials in `transcendental`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.primitive import LINEAR, ZERO, Missing, Primitive
from xjax.core.types import ShapedArray, Zero, is_linear, typeof
from xjax.ops.checks import COMPLEX, FLOAT, NUMBER, static_int
from xjax.ops.makers import (
    SCALARS,
    accumulate_p,
    add_transpose,
    binary_function,
    chlo,
    fill,
    match_scalars,
    nary,
    scalar_like,
    to_bool,
    unary,
    unary_function,
    unbroadcast,
)
from xjax.typing import Array, ArrayLike, DTypeLike

INEXACT = FLOAT + COMPLEX


# -- sums and differences -----------------------------------------------------------------------------------------

def _neg_transpose(ct, x):
    return [neg(ct)]


neg_p = unary("neg", NUMBER, "stablehlo.negate", LINEAR, transpose=_neg_transpose)
neg = unary_function(neg_p, "Negative, element-wise: ``-x``.")


def _additive_jvp(p: Callable[[], Primitive], of_second: Callable) -> Callable:
    """Derivative of a sum or difference: the same operation on the tangents, or the only nonzero tangent."""
    def rule(primals, tangents):
        z = p().bind(*primals)
        dx, dy = tangents
        if type(dx) is not Zero and type(dy) is not Zero:
            return z, p().bind(dx, dy)
        if type(dx) is Zero and type(dy) is Zero:
            return z, Zero(z.aval.tangent())
        return z, fill(of_second(dy) if type(dx) is Zero else dx, z.aval)
    return rule


add_p = nary("add", NUMBER, "stablehlo.add", _additive_jvp(lambda: add_p, lambda dy: dy), transpose=add_transpose)
add = binary_function(add_p, "Sum, element-wise: ``x + y``.")


def _sub_transpose(ct, x, y):
    return [unbroadcast(ct, x.aval) if is_linear(x) else None,
            unbroadcast(neg(ct), y.aval) if is_linear(y) else None]


sub_p = nary("sub", NUMBER, "stablehlo.subtract", _additive_jvp(lambda: sub_p, neg), transpose=_sub_transpose)
sub = binary_function(sub_p, "Difference, element-wise: ``x - y``.")


# -- products and quotients ---------------------------------------------------------------------------------------

def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    """Product, element-wise: ``x * y``.

    Args: out_dtype: dtype of the result; both operands, which may then differ in dtype, are first converted to it.
    """
    if out_dtype is not None:
        return mul_p.bind(x, y, out_dtype=dtypes.user_dtype(out_dtype, "lax.mul"))
    if type(x) in SCALARS or type(y) in SCALARS:
        x, y = match_scalars(x, y)
    return mul_p.bind(x, y)


def _mul_dtype(dtype: np.dtype, out_dtype: np.dtype | None = None) -> np.dtype:
    return dtype if out_dtype is None else out_dtype


def _mul_lower(b: Builder, out: ShapedArray, x: Value, y: Value, *, out_dtype: np.dtype | None = None) -> Value:
    return b.mul(x, y) if out_dtype is None else b.mul(b.convert(x, out_dtype), b.convert(y, out_dtype))


def _mul_jvp(primals, tangents, **to):
    (x, y), (dx, dy) = primals, tangents
    z = mul_p.bind(x, y, **to)
    if (type(dx) is Zero and type(dy) is Zero) or (to and not dtypes.is_inexact(z.dtype)):
        return z, Zero(z.aval.tangent())
    if type(dx) is Zero:
        return z, mul(x, dy, **to)
    share = mul(dx, y, **to)
    return z, share if type(dy) is Zero else accumulate_p.bind(share, mul(x, dy, **to))


def _mul_transpose(ct, x, y, *, out_dtype=None):
    if is_linear(x):
        return [unbroadcast(mul(ct, y, out_dtype=out_dtype and x.aval.dtype), x.aval), None]
    return [None, unbroadcast(mul(x, ct, out_dtype=out_dtype and y.aval.dtype), y.aval)]


mul_p = nary("mul", NUMBER, _mul_lower, _mul_jvp, out_dtype=_mul_dtype, transpose=_mul_transpose)


def _div_transpose(ct, x, y):
    return [unbroadcast(div(ct, y), x.aval), None]


# The derivative in y is -z / y; with y ** 2 instead, float16 would overflow from y = 256.
div_p = nary("div", NUMBER, "stablehlo.divide",
             (lambda dx, z, x, y: div(dx, y), lambda dy, z, x, y: mul(neg(dy), div(z, y))),
             transpose=_div_transpose)
div = binary_function(div_p, "Quotient, element-wise: ``x / y``; integers are truncated toward zero.")


# -- integer powers -----------------------------------------------------------------------------------------------

def integer_pow(x: ArrayLike, y: int) -> Array:
    """``x ** y`` for a static integer `y`, by repeated multiplication.

    Args: x: number[...]; for an integer array `y` must not be negative. The power 0 is 1 everywhere, with derivative 0.
    """
    return integer_pow_p.bind(x, y=static_int(y, "y", "lax.integer_pow"))


def _integer_pow_dtype(dtype: np.dtype, y: int) -> np.dtype:
    if y < 0 and dtypes.is_int(dtype):
        raise bad("lax.integer_pow", "integers cannot be raised to a negative power",
                  given={"x": dtype.name, "y": str(y)}, fix="convert x to a float dtype first.")
    return dtype


def _integer_pow_lower(b: Builder, out: ShapedArray, x: Value, *, y: int) -> Value:
    result, square_, n = None, x, abs(y)
    while n:
        if n & 1:
            result = square_ if result is None else b.mul(result, square_)
        n >>= 1
        if n:
            square_ = b.mul(square_, square_)
    one = b.constant(1, out)
    if result is None:
        return one
    return b.div(one, result) if y < 0 else result


def _integer_pow_jvp(dx, z, x, *, y):
    if y == 0:
        return Zero(typeof(x).tangent())
    if y == 1:
        return dx
    return mul(dx, mul(scalar_like(x, y), x if y == 2 else integer_pow(x, y - 1)))


integer_pow_p = unary("integer_pow", NUMBER, _integer_pow_lower, _integer_pow_jvp, out_dtype=_integer_pow_dtype)

def _square_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    return b.mul(x, x) if dtypes.is_int(out.dtype) else chlo("square")(b, out, x)


square_p = unary("square", NUMBER, _square_lower, lambda dx, y, x: mul(dx, mul(scalar_like(x, 2), x)))
square = unary_function(square_p, "Square, element-wise: ``x * x``.")


def _one_minus_square_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    one = b.constant(1, out.strong())
    return b.mul(b.add(one, x), b.sub(one, x))


one_minus_square_p = unary("one_minus_square", NUMBER, _one_minus_square_lower,
                           lambda dx, y, x: mul(dx, mul(scalar_like(x, -2), x)))
one_minus_square = unary_function(
    one_minus_square_p,
    "``1 - x ** 2``, element-wise, computed as ``(1 + x) (1 - x)``: exact where x is close to 1 or -1. Its derivative "
    "is ``-2 x``, exact for small x.")


def reciprocal(x: ArrayLike) -> Array:
    """``1 / x``, element-wise, for floats and complex numbers."""
    return integer_pow(x, -1)


# -- rounding and neighbours --------------------------------------------------------------------------------------

floor_p = unary("floor", FLOAT, "stablehlo.floor", ZERO)
floor = unary_function(floor_p, "Largest integer not above x, as a float. The derivative is zero.")
ceil_p = unary("ceil", FLOAT, "stablehlo.ceil", ZERO)
ceil = unary_function(ceil_p, "Smallest integer not below x, as a float. The derivative is zero.")


class RoundingMethod(enum.IntEnum):
    """The rule by which `round` rounds numbers halfway between two integers."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Nearest integer, as a float. The derivative is zero.

    Args: rounding_method: for 0.5, 1.5, ...: `AWAY_FROM_ZERO` gives 1, 2; `TO_NEAREST_EVEN` (as in NumPy) gives 0, 2.
    """
    return round_p.bind(x, rounding_method=RoundingMethod(rounding_method))


def _round_lower(b: Builder, out: ShapedArray, x: Value, *, rounding_method: RoundingMethod) -> Value:
    name = "afz" if rounding_method is RoundingMethod.AWAY_FROM_ZERO else "even"
    return b.unary(f"stablehlo.round_nearest_{name}", x)


round_p = unary("round", FLOAT, _round_lower, ZERO)


def _is_finite_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    return b.op(f"stablehlo.is_finite {x} : ({x.type}) -> {tensor_type(out)}", out)


is_finite_p = unary("is_finite", FLOAT, _is_finite_lower, ZERO, out_dtype=to_bool)
is_finite = unary_function(is_finite_p, "True where x is neither infinite nor nan.")

nextafter_p = nary("nextafter", FLOAT, chlo("next_after"),
                   Missing("the neighbour of a float in the direction of another has no useful derivative",
                           fix="wrap it in lax.stop_gradient, or differentiate the function before rounding."))
nextafter = binary_function(nextafter_p, "The float next to x1 in the direction of x2, element-wise.")
