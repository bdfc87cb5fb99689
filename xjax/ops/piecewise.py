"""Element-wise operations whose derivative depends on a comparison: sign, abs, max, min, rem."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.primitive import ZERO
from xjax.core.types import ShapedArray, typeof
from xjax.ops.checks import ANY, NUMBER, REAL
from xjax.ops.compare import eq, ge, greater_complex, gt, select
from xjax.ops.complex_numbers import conj, part_dtype, real
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import div, mul, neg, round, sub
from xjax.ops.makers import binary_function, filled_like, nary, scalar_like, unary, unary_function

# -- sign and abs -------------------------------------------------------------------------------------------------

def _sign_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    if dtypes.is_unsigned(out.dtype):
        zero = b.constant(0, out.strong())
        return b.select(b.compare("EQ", x, zero), zero, b.constant(1, out.strong()))
    return b.unary("stablehlo.sign", x)


sign_p = unary("sign", NUMBER, _sign_lower, ZERO)
sign = unary_function(sign_p, "-1, 0 or 1 by the sign of x (nan stays nan); ``x / |x|`` for complex x.")


def _abs_dtype(dtype: np.dtype) -> np.dtype:
    if dtypes.is_unsigned(dtype):
        raise bad("lax.abs", f"does not accept dtype {dtype.name}",
                  fix="leave it out: unsigned numbers are their own absolute value.")
    return part_dtype(dtype) if dtypes.is_complex(dtype) else dtype


def _abs_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    size = b.op(f"stablehlo.abs {x} : ({x.type}) -> {tensor_type(out)}", out)
    if not dtypes.is_complex(x.aval.dtype):
        return size
    # Infinite if one part is infinite, also where XLA returns nan because the other part is nan.
    infinity = b.constant(np.inf, out.strong())
    parts = [b.op(f"stablehlo.{name} {x} : ({x.type}) -> {tensor_type(out)}", out) for name in ("real", "imag")]
    re_is, im_is = (b.compare("EQ", b.unary("stablehlo.abs", part), infinity) for part in parts)
    return b.select(b.binary("stablehlo.or", re_is, im_is), infinity, size)


def _abs_jvp(dx, y, x):
    """The derivative is 1 at a real 0, and 0 at a complex 0."""
    if not dtypes.is_complex(typeof(x).dtype):
        return select(ge(x, scalar_like(x, 0)), dx, neg(dx))
    direction = div(conj(x), nonzero(convert_element_type(y, typeof(x).dtype)))
    return real(mul(dx, direction))


def nonzero(x):
    """`x` with 1 in place of 0, for use as a divisor or as an argument of log."""
    return select(eq(x, scalar_like(x, 0)), filled_like(x, 1), x)


abs_p = unary("abs", NUMBER, _abs_lower, _abs_jvp, out_dtype=_abs_dtype)
abs = unary_function(abs_p, "Absolute value, element-wise, of signed integers, floats and complex numbers.")


# -- max and min --------------------------------------------------------------------------------------------------

def _extremum_lower(name: str, first_wins: Callable) -> Callable:
    def lower(b: Builder, out: ShapedArray, x: Value, y: Value) -> Value:
        if not dtypes.is_complex(out.dtype):
            return b.binary(f"stablehlo.{name}", x, y)
        # A comparison with nan is false and selects y, so only a nan in x has to be kept.
        keeps = b.binary("stablehlo.or", first_wins(b, x, y), b.compare("NE", x, x))
        return b.select(keeps, x, y)
    return lower


def _share(x, z, y, of_max: bool):
    """Share of x in the derivative of the extremum z of x and y: 1 if only x attains it, 1/2 if both do, else 0."""
    if dtypes.is_complex(typeof(z).dtype):
        is_mine = select(eq(x, z), filled_like(z, 1), filled_like(z, 0))
        return div(is_mine, select(eq(y, z), filled_like(z, 2), filled_like(z, 1)))
    larger, smaller = (x, y) if of_max else (y, x)
    wins, ties = gt(larger, smaller), eq(larger, smaller)
    one, zero, half = (filled_like(z, n) for n in (1, 0, 0.5))
    return select(wins, one, select(ties, half, zero))


def _extremum_jvps(of_max: bool) -> tuple[Callable, Callable]:
    return (lambda dx, z, x, y: mul(dx, _share(x, z, y, of_max)), lambda dy, z, x, y: mul(dy, _share(y, z, x, of_max)))


max_p = nary("max", ANY, _extremum_lower("maximum", greater_complex), _extremum_jvps(True))
max = binary_function(max_p, "The larger of x and y, element-wise; nan if either is. Complex numbers are ordered by "
                             "their real parts, then by the imaginary ones. Ties share the gradient equally.")
min_p = nary("min", ANY, _extremum_lower("minimum", lambda b, x, y: greater_complex(b, y, x)),
             _extremum_jvps(False))
min = binary_function(min_p, "The smaller of x and y, element-wise; nan if either is. Complex numbers are ordered by "
                             "their real parts, then by the imaginary ones. Ties share the gradient equally.")


# -- remainder ----------------------------------------------------------------------------------------------------

def _truncated_quotient(x, z, y):
    """The quotient of x by y for the remainder z; without z, rounding could make the quotient 1 too large."""
    return round(div(sub(x, z), y))


rem_p = nary("rem", REAL, "stablehlo.remainder",
             (lambda dx, z, x, y: dx, lambda dy, z, x, y: mul(neg(dy), _truncated_quotient(x, z, y))))
rem = binary_function(rem_p, "Remainder of the division of x by y that truncates toward zero: it has the sign of x.")
