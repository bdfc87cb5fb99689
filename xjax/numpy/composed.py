"""Arithmetic made of several operations: division with remainder, powers, logarithms, geometry, complex parts.

Division follows NumPy: quotients are rounded down, and a remainder has the sign of the divisor.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.aliases import alias
from xjax.core.errors import bad
from xjax.core.trace import Tracer
from xjax.core.types import typeof
from xjax.numpy.promote import (
    array_likes,
    aval_of,
    check_mixed,
    default_float,
    expand_to,
    promote,
    promote_shapes,
    to_inexact,
    to_numeric,
)
from xjax.numpy.rounding import copysign, filled_bool, trunc
from xjax.numpy.selection import choose, operand, operands, refuse_complex
from xjax.numpy.ufuncs import to_array_like
from xjax.ops import bitwise as bits
from xjax.ops import complex_numbers, transcendental
from xjax.ops.compare import eq, ge, gt, lt, ne
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, ceil, div, floor, integer_pow, mul, neg, sub
from xjax.ops.elementwise import round as lax_round
from xjax.ops.elementwise import square as lax_square
from xjax.ops.halves import in_single
from xjax.ops.makers import filled_like, scalar_like
from xjax.ops.piecewise import abs as lax_abs
from xjax.ops.piecewise import max as lax_max
from xjax.ops.piecewise import min as lax_min
from xjax.ops.piecewise import rem
from xjax.ops.piecewise import sign as lax_sign
from xjax.ops.transcendental import atan2, exp, log, log1p, rsqrt, sin, sqrt
from xjax.ops.transcendental import pow as lax_pow
from xjax.runtime.arrays.array import Array
from xjax.runtime.one_launch import one_launch
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array as AnyArray
from xjax.typing import ArrayLike

# -- division with remainder --------------------------------------------------------------------------------------

@one_launch(arrays=2)
def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    """``floor(x1 / x2)``, element-wise, in the common dtype of x1 and x2.

    Args: x1, x2: real arrays; bool counts as integer. Integers divided by 0 give 0, as in NumPy.
    Raises: TypeError for complex numbers.
    """
    caller = "numpy.floor_divide"
    may_be_zero = not isinstance(x2, (int, np.integer)) or x2 == 0
    x1, x2 = operands(caller, x1, x2, to=to_numeric)
    refuse_complex(caller, x1)
    if not dtypes.is_int(x1.dtype):
        return _float_divmod(x1, x2)[0]
    quotient = div(x1, x2)
    if not dtypes.is_unsigned(x1.dtype):
        crosses = bits.bitwise_and(ne(lax_sign(x1), lax_sign(x2)), ne(rem(x1, x2), 0))
        quotient = choose(crosses, sub(quotient, 1), quotient)
    return choose(eq(x2, 0), scalar_like(quotient, 0), quotient) if may_be_zero else quotient


def _float_divmod(x1: ArrayLike, x2: ArrayLike) -> tuple[AnyArray, AnyArray]:
    """Quotient rounded down, and remainder, of floats; exact even where ``x1 / x2`` is rounded.

    Zeros have NumPy's signs: a zero remainder has the sign of x2, a zero quotient that of ``x1 / x2``.
    """
    r = rem(x1, x2)
    quotient = div(choose(eq(x2, 0), x1, sub(x1, r)), x2)
    crosses = bits.bitwise_and(ne(r, 0), ne(lax_sign(x2), lax_sign(r)))
    r = choose(crosses, add(r, x2), _with_sign_if_zero(r, x2))
    quotient = lax_round(choose(crosses, sub(quotient, 1), quotient))
    return choose(eq(quotient, 0), copysign(filled_like(quotient, 0), div(x1, x2)), quotient), r


@custom_jvp
def _with_sign_if_zero(r: AnyArray, other: ArrayLike) -> AnyArray:
    """`r`, but with the sign of `other` where it is 0; its derivative is that of `r` there too."""
    return choose(eq(r, 0), copysign(filled_like(r, 0), other), r)


_with_sign_if_zero.defjvp(lambda primals, tangents: (_with_sign_if_zero(*primals), tangents[0]))


@one_launch(arrays=2)
def remainder(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    """``x1 - x2 * floor(x1 / x2)``, element-wise: it has the sign of x2. Integers modulo 0 give 0.

    Args: x1, x2: real arrays; bool counts as integer.
    """
    caller = "numpy.remainder"
    x1, x2 = operands(caller, x1, x2, to=to_numeric)
    refuse_complex(caller, x1)
    if dtypes.is_int(x1.dtype):
        x2 = _nonzero(x2)
    r = rem(x1, x2)
    if dtypes.is_unsigned(x1.dtype):
        return r
    crosses = bits.bitwise_and(ne(lt(r, 0), lt(x2, 0)), ne(r, 0))
    return choose(crosses, add(r, x2), _with_sign_if_zero(r, x2) if dtypes.is_float(r.dtype) else r)


mod = alias(remainder, "mod")


def _nonzero(x: ArrayLike) -> AnyArray:
    return choose(eq(x, 0), scalar_like(x, 1), x)


@one_launch(arrays=2)
def fmod(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    """Remainder of the division truncated toward zero, element-wise: it has the sign of x1."""
    caller = "numpy.fmod"
    x1, x2 = operands(caller, x1, x2, to=to_numeric)
    return rem(x1, _nonzero(x2) if dtypes.is_int(x1.dtype) else x2)


@one_launch(arrays=2)
def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[AnyArray, AnyArray]:
    """``(floor_divide(x1, x2), remainder(x1, x2))``."""
    x1, x2 = operands("numpy.divmod", x1, x2, to=to_numeric)
    if dtypes.is_float(x1.dtype):
        return _float_divmod(x1, x2)
    return floor_divide(x1, x2), remainder(x1, x2)


@one_launch
def modf(x: ArrayLike, /) -> tuple[AnyArray, AnyArray]:
    """Fractional and integral part of x, element-wise; both have the sign of x."""
    x, = operands("numpy.modf", x, to=to_inexact)
    whole = trunc(x)
    return choose(eq(lax_abs(x), math.inf), filled_like(x, 0), sub(x, whole)), whole


# -- powers -------------------------------------------------------------------------------------------------------

def power(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    """``x1 ** x2``, element-wise.

    Args: x1, x2: number[...]. A Python integer x2 is a static exponent: repeated multiplication, differentiable at 0.
    Integers to negative powers have no integer value. A compiled function truncates it: to 0, or to 1 or -1 for the
    bases 1 and -1; the base 0 gives 0.
    Raises: TypeError for integers to a power that is known and negative.
    """
    caller = "numpy.power"
    if isinstance(x2, (int, np.integer)):
        x1, = promote(caller, x1, to=to_numeric)
        return integer_pow(x1, operator.index(x2))
    if type(x2) is Array and not x2.shape and dtypes.is_int(x2.dtype):
        return _known_exponent(operand(caller, promote(caller, x1, to=to_numeric)[0]), x2)
    x1, x2 = promote_shapes(caller, *array_likes(caller, (x1, x2)))
    inexact = [dtypes.is_inexact(aval_of(caller, x).dtype) for x in (x1, x2)]
    if inexact == [True, False] and dtypes.is_int(aval_of(caller, x2).dtype):
        check_mixed(caller, x1, x2)
        return lax_pow(operand(caller, x1), x2)          # an integer exponent keeps the derivative at 0 exact
    if inexact == [False, False]:
        _refuse_negative(caller, x2)
        return _integer_power(*operands(caller, x1, x2, to=to_numeric))
    return transcendental.pow_p.bind(*promote(caller, x1, x2))


pow = alias(power, "pow")


def _known_exponent(x: AnyArray, n: AnyArray) -> AnyArray:
    """Power with an integer whose value is known: as in JAX, the type of the result is that of `x`."""
    aval = typeof(x)
    x = convert_element_type(x, aval.dtype)                 # strongly typed; its gradient becomes weak again
    inexact = dtypes.is_inexact(aval.dtype)
    if not inexact:
        _refuse_negative("numpy.power", n)
    result = lax_pow(x, n) if inexact else _integer_power(x, convert_element_type(n, aval.dtype))
    return convert_element_type(result, aval.dtype, aval.weak_type)


def _refuse_negative(caller: str, n: ArrayLike) -> None:
    if isinstance(n, Tracer):
        return
    known = np.asarray(n)
    if dtypes.is_int(known.dtype) and np.any(known < 0):
        raise bad(caller, "integers to negative powers have no integer value", given={"x2": str(known)[:80]},
                  fix="make x1 a float array, or use numpy.float_power.", exc=TypeError)


# Powers of a base above 1 fit in 64 bits only for exponents below 64, which have 6 bits.
_EXPONENT_BITS = 6


@one_launch(arrays=2)
def _integer_power(x: ArrayLike, n: ArrayLike) -> AnyArray:
    """Power of integers by squaring, one step for each bit of the exponent; negative powers are truncated."""
    shape = np.broadcast_shapes(x.shape, n.shape)
    x, n = expand_to("numpy.power", x, shape), expand_to("numpy.power", n, shape)
    if not (dtypes.is_unsigned(n.dtype) or dtypes.is_bool(n.dtype)):
        # 1 and -1 are their own reciprocals; the reciprocals of all other integers truncate to 0.
        larger = bits.bitwise_and(ne(x, 1), ne(x, -1))
        x = choose(bits.bitwise_and(lt(n, 0), larger), scalar_like(x, 0), x)
    result = choose(bits.bitwise_and(eq(x, 0), ne(n, 0)), scalar_like(x, 0), scalar_like(x, 1))
    for _ in range(_EXPONENT_BITS):
        result = choose(ne(bits.bitwise_and(n, scalar_like(n, 1)), 0), mul(result, x), result)
        x, n = mul(x, x), bits.shift_right_logical(n, scalar_like(n, 1))
    return result


@one_launch(arrays=2)
def float_power(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    """``x1 ** x2``, element-wise, as a float or complex number."""
    caller = "numpy.float_power"
    return transcendental.pow_p.bind(*promote_shapes(caller, *promote(caller, x1, x2, to=to_inexact)))


@one_launch
def reciprocal(x: ArrayLike, /) -> AnyArray:
    """``1 / x``, element-wise; integers become floats."""
    x, = promote("numpy.reciprocal", x, to=to_inexact)
    return integer_pow(x, -1)


def positive(x: ArrayLike, /) -> AnyArray:
    """``+x``: the array itself."""
    return to_array_like("numpy.positive", x)


# -- exponentials and logarithms ----------------------------------------------------------------------------------

@one_launch
def log10(x: ArrayLike, /) -> AnyArray:
    """Logarithm to base 10, element-wise."""
    x, = operands("numpy.log10", x, to=to_inexact, strong=True)
    return _of_parts(lambda part: mul(part, scalar_like(part, 1 / math.log(10))), log(x))


def _of_parts(function: Callable[[AnyArray], AnyArray], x: AnyArray) -> AnyArray:
    """`function` of the real and of the imaginary part: a complex factor would turn an infinite part into nan."""
    return complex_numbers.complex(function(real(x)), function(imag(x))) if dtypes.is_complex(x.dtype) else function(x)


@one_launch(arrays=2)
def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    """``log(exp(x1) + exp(x2))``, element-wise, without overflow; imaginary parts are in (-pi, pi]."""
    return _logaddexp(*_pair("numpy.logaddexp", x1, x2))


@one_launch(arrays=2)
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    """``log2(2**x1 + 2**x2)``, element-wise, without overflow; complex results are on the branch of `log2`."""
    return _logaddexp2(*_pair("numpy.logaddexp2", x1, x2))


def _pair(caller: str, x1: ArrayLike, x2: ArrayLike) -> tuple[AnyArray, AnyArray]:
    """Two floats or complex numbers of one shape."""
    x1, x2 = operands(caller, x1, x2, to=to_inexact)
    shape = np.broadcast_shapes(x1.shape, x2.shape)
    return expand_to(caller, x1, shape), expand_to(caller, x2, shape)


@custom_jvp
def _logaddexp(x1: ArrayLike, x2: ArrayLike) -> AnyArray:
    return _log_of_sum(x1, x2, 1.0)


@custom_jvp
def _logaddexp2(x1: ArrayLike, x2: ArrayLike) -> AnyArray:
    return _log_of_sum(x1, x2, math.log(2))


def _log_of_sum(x1: ArrayLike, x2: ArrayLike, unit: float) -> AnyArray:
    """The logarithm of the sum of powers of a base whose natural logarithm is `unit`."""
    if dtypes.is_complex(typeof(x1).dtype):
        return _complex_log_of_sum(x1, x2, unit)
    delta = sub(x1, x2)
    larger = add(lax_max(x1, x2), _log1p(_power(neg(lax_abs(delta)), unit), unit))
    # The difference of equal infinities is nan; their sum is the right result.
    return choose(ne(delta, delta), add(x1, x2), larger)


def _complex_log_of_sum(x1: AnyArray, x2: AnyArray, unit: float) -> AnyArray:
    """The term with the larger real part is factored out."""
    first = ge(real(x1), real(x2))
    large, small = choose(first, x1, x2), choose(first, x2, x1)
    total = add(large, _log1p(_power(sub(small, large), unit), unit))
    angle, turn = imag(total), 2 * math.pi / unit               # moved into (-turn / 2, turn / 2]
    turns = ceil(sub(div(angle, scalar_like(angle, turn)), scalar_like(angle, 0.5)))
    return complex_numbers.complex(real(total), sub(angle, mul(turns, scalar_like(angle, turn))))


def _power(x: AnyArray, unit: float) -> AnyArray:
    return exp(x) if unit == 1 else transcendental.exp2(x)


def _log1p(x: AnyArray, unit: float) -> AnyArray:
    return log1p(x) if unit == 1 else mul(log1p(x), scalar_like(x, 1 / unit))


def _log_of_sum_jvp(function: Callable, unit: float) -> Callable:
    """The tangents are weighted by the arguments' shares of the sum.

    This is right also for equal arguments, where the maximum and the absolute value in the formula have kinks.
    """
    def rule(primals: tuple[AnyArray, AnyArray], tangents: tuple[AnyArray, AnyArray]) -> tuple[AnyArray, AnyArray]:
        y = function(*primals)
        if dtypes.is_complex(typeof(y).dtype):
            shares = [_power(sub(_without_inf(x), _without_inf(y)), unit) for x in primals]
        else:
            shares = in_single(_shares_of_sum)(*primals, unit=unit)
        return y, add(*[mul(dx, share) for dx, share in zip(tangents, shares, strict=True)])

    return rule


def _shares_of_sum(x1: ArrayLike, x2: ArrayLike, unit: float) -> tuple[AnyArray, AnyArray]:
    """From the difference, since the sum of large arguments has lost digits; equal infinities have equal shares."""
    delta = choose(bits.bitwise_and(eq(x1, x2), eq(lax_abs(x1), math.inf)), filled_like(x1, 0), sub(x1, x2))
    return _share(delta, unit), _share(neg(delta), unit)


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def _share(delta: AnyArray, unit: float) -> AnyArray:
    """The share of a term in the sum if its logarithm exceeds that of the other term by `delta`."""
    ratio = _power(neg(lax_abs(delta)), unit)
    return div(choose(ge(delta, 0), filled_like(ratio, 1), ratio), add(ratio, scalar_like(ratio, 1)))


def _share_jvp(unit: float, primals: tuple[AnyArray], tangents: tuple[AnyArray]) -> tuple[AnyArray, AnyArray]:
    (delta,), (d_delta,) = primals, tangents
    mine, others = _share(delta, unit), _share(neg(delta), unit)
    return mine, mul(d_delta, mul(mul(mine, others), scalar_like(delta, unit)))


_share.defjvp(_share_jvp)


def _without_inf(x: AnyArray) -> AnyArray:
    """`x` with inf replaced by 0, so that the share of inf in an infinite sum is 1."""
    return choose(eq(real(x), float("inf")), filled_like(x, 0), x)


_logaddexp.defjvp(_log_of_sum_jvp(_logaddexp, 1.0))
_logaddexp2.defjvp(_log_of_sum_jvp(_logaddexp2, math.log(2)))


# -- geometry -----------------------------------------------------------------------------------------------------

@one_launch
def deg2rad(x: ArrayLike, /) -> AnyArray:
    """Degrees as radians, element-wise."""
    x, = operands("numpy.deg2rad", x, to=to_inexact)
    return mul(x, scalar_like(x, math.pi / 180))


@one_launch
def rad2deg(x: ArrayLike, /) -> AnyArray:
    """Radians as degrees, element-wise."""
    x, = operands("numpy.rad2deg", x, to=to_inexact)
    return mul(x, scalar_like(x, 180 / math.pi))


radians, degrees = alias(deg2rad, "radians"), alias(rad2deg, "degrees")


@one_launch(arrays=2)
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    """``sqrt(x1**2 + x2**2)``, element-wise, without overflow. The gradient at the origin is 0."""
    caller = "numpy.hypot"
    x1, x2 = operands(caller, x1, x2, to=to_inexact)
    refuse_complex(caller, x1, exc=ValueError)
    shape = np.broadcast_shapes(x1.shape, x2.shape)
    return _hypot(expand_to(caller, x1, shape), expand_to(caller, x2, shape))


@custom_jvp
def _hypot(x1: ArrayLike, x2: ArrayLike) -> AnyArray:
    x1, x2 = lax_abs(x1), lax_abs(x2)
    infinite = bits.bitwise_or(eq(x1, math.inf), eq(x2, math.inf))
    large, small = lax_max(x1, x2), lax_min(x1, x2)
    is_zero = eq(large, 0)
    ratio = div(small, choose(is_zero, scalar_like(large, 1), large))
    length = choose(is_zero, large, mul(large, sqrt(add(scalar_like(ratio, 1), lax_square(ratio)))))
    return choose(infinite, scalar_like(length, math.inf), length)


def _hypot_jvp(primals: tuple[AnyArray, AnyArray], tangents: tuple[AnyArray, AnyArray]) -> tuple[AnyArray, AnyArray]:
    return _hypot(*primals), add(*map(mul, in_single(_direction)(*primals), tangents))


def _direction(x1: ArrayLike, x2: ArrayLike) -> tuple[AnyArray, AnyArray]:
    """The point divided by its distance from the origin, without overflow: 0 at the origin and at infinity."""
    is_first = ge(lax_abs(x1), lax_abs(x2))
    large, small = choose(is_first, x1, x2), choose(is_first, x2, x1)
    size = lax_abs(large)
    regular = bits.bitwise_and(gt(size, 0), lt(size, math.inf))
    ratio = div(choose(regular, small, filled_like(small, 0)), choose(regular, large, filled_like(large, 1)))
    of_large = choose(regular, mul(lax_sign(large), rsqrt(add(lax_square(ratio), scalar_like(ratio, 1)))),
                      filled_like(large, 0))
    of_small = mul(ratio, of_large)
    return choose(is_first, of_large, of_small), choose(is_first, of_small, of_large)


_hypot.defjvp(_hypot_jvp)


@one_launch
def sinc(x: ArrayLike, /) -> AnyArray:
    """``sin(pi x) / (pi x)``, element-wise, 1 at 0.

    Derivatives are right at 0 too: those of all orders for real x, up to order 4 for complex x.
    """
    x, = operands("numpy.sinc", x, to=to_inexact)
    if not dtypes.is_complex(x.dtype):
        return in_single(_sinc)(x, order=0)
    x = mul(scalar_like(x, math.pi), x)
    small = lt(lax_abs(x), 1e-2 if dtypes.itemsize_bits(x.dtype) >= 32 else 1e-1)
    safe = choose(small, scalar_like(x, 1), x)
    squared = lax_square(choose(small, x, scalar_like(x, 0)))
    tail = add(scalar_like(x, -1 / 6), mul(squared, scalar_like(x, 1 / 120)))
    series = add(scalar_like(x, 1), mul(squared, tail))
    return choose(small, series, div(sin(safe), safe))


@functools.partial(custom_jvp, nondiff_argnames=("order",))
def _sinc(x: ArrayLike, order: int) -> AnyArray:
    """The derivative of order n of ``sin(z) / z`` at ``z = pi x``: the integral of ``t^n cos(z t + n pi / 2)`` over t
    from 0 to 1. Near 0 it is computed by its series, elsewhere by integration by parts; it is 0 at infinity."""
    infinite = eq(lax_abs(x), math.inf)
    at_zero = eq(x, scalar_like(x, 0))
    at_end = bits.bitwise_or(infinite, at_zero)
    safe = choose(at_end, filled_like(x, 1), x)
    sine, cosine = _sine_and_cosine_of_turns(safe)
    by_parts = filled_like(x, 0)
    for n in range(order + 1):
        edge = (sine, cosine, neg(sine), neg(cosine))[n % 4]
        # Two steps instead of a division by pi x, which may overflow.
        by_parts = div(mul(sub(edge, mul(by_parts, scalar_like(x, n))), scalar_like(x, 1 / math.pi)), safe)
    by_parts = choose(infinite, filled_like(x, 0), by_parts)
    if order == 0:
        return choose(at_zero, filled_like(x, 1), by_parts)
    bound = (1 + order) / 4
    near = lt(lax_abs(x), bound)
    z = mul(choose(near, x, filled_like(x, 0)), scalar_like(x, math.pi))
    return choose(near, _sinc_series(z, order, bound * math.pi), by_parts)


def _sine_and_cosine_of_turns(x: AnyArray) -> tuple[AnyArray, AnyArray]:
    """``sin(pi x)`` and ``cos(pi x)``: x is reduced to a quarter turn, without error, before it is multiplied by pi."""
    turn = sub(x, mul(lax_round(mul(x, scalar_like(x, 0.5))), scalar_like(x, 2)))
    size = lax_abs(turn)
    folded = lax_min(size, sub(scalar_like(x, 1), size))
    sine, cosine = (sin(mul(part, scalar_like(x, math.pi))) for part in (folded, sub(scalar_like(x, 0.5), size)))
    return mul(lax_sign(turn), sine), cosine


def _sinc_series(z: AnyArray, order: int, bound: float) -> AnyArray:
    """The sum of ``z^k cos((k + n) pi / 2) / (k! (k + n + 1))`` for the order n and z up to the bound."""
    terms = [(0, (-1) ** ((k + order) // 2) / (math.factorial(k) * (k + order + 1)))[(k + order) % 2 == 0]
             for k in range(40)]
    smallest = float(dtypes.finfo(z.dtype).eps) / 64
    kept = [k for k, c in enumerate(terms) if abs(c) * bound**k > smallest]
    squared = lax_square(z)
    total: Any = scalar_like(z, 0)
    for k in reversed(kept):
        total = add(mul(total, squared), scalar_like(z, terms[k]))
    return mul(total, z) if order % 2 else total


def _sinc_jvp(order: int, primals: tuple[AnyArray], tangents: tuple[AnyArray]) -> tuple[AnyArray, AnyArray]:
    (x,), (dx,) = primals, tangents
    return _sinc(x, order=order), mul(dx, mul(_sinc(x, order=order + 1), scalar_like(x, math.pi)))


_sinc.defjvp(_sinc_jvp)


@one_launch(arrays=2)
def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    """Step function: 0 where x1 < 0, x2 where x1 is 0, 1 where x1 > 0, nan where x1 is nan.

    Args: x1, x2: real arrays that broadcast together; integers become floats.
    """
    caller = "numpy.heaviside"
    x1, x2 = operands(caller, x1, x2, to=to_inexact)
    refuse_complex(caller, x1)
    at_zero = choose(ne(x1, x1), x1, x2)
    return choose(lt(x1, 0), scalar_like(x1, 0), choose(gt(x1, 0), scalar_like(x1, 1), at_zero))


# -- complex numbers ----------------------------------------------------------------------------------------------

def real(x: ArrayLike, /) -> AnyArray:
    """Real part, element-wise; a real array is returned as it is."""
    x = to_array_like("numpy.real", x)
    return complex_numbers.real(x) if dtypes.is_complex(x.dtype) else x


def imag(x: ArrayLike, /) -> AnyArray:
    """Imaginary part, element-wise; zeros for a real array."""
    x = to_array_like("numpy.imag", x)
    if dtypes.is_complex(x.dtype):
        return complex_numbers.imag(x)
    return expand_to("numpy.imag", scalar_like(x, 0), x.shape)


def conjugate(x: ArrayLike, /) -> AnyArray:
    """Complex conjugate, element-wise; a real array is returned as it is."""
    x = to_array_like("numpy.conjugate", x)
    return complex_numbers.conj(x) if dtypes.is_complex(x.dtype) else x


conj = alias(conjugate, "conj")


def _to_default_inexact(dtype: np.dtype) -> np.dtype:
    """Integers of any width become the default float."""
    return dtype if dtypes.is_inexact(dtype) else default_float()


@one_launch
def angle(z: ArrayLike, deg: bool = False) -> AnyArray:
    """Angle of complex numbers, element-wise, in (-pi, pi] (or degrees); 0 or pi for real ones."""
    z, = operands("numpy.angle", z, to=_to_default_inexact, strong=True)
    result = atan2(imag(z), real(z))
    return rad2deg(result) if deg else result


@one_launch
def iscomplex(x: ArrayLike, /) -> AnyArray:
    """Whether the imaginary part is not 0, element-wise."""
    x = operand("numpy.iscomplex", x)
    return ne(imag(x), 0) if dtypes.is_complex(x.dtype) else filled_bool(x, False)


@one_launch
def isreal(x: ArrayLike, /) -> AnyArray:
    """Whether the imaginary part is 0, element-wise."""
    x = operand("numpy.isreal", x)
    return eq(imag(x), 0) if dtypes.is_complex(x.dtype) else filled_bool(x, True)


# -- bits and powers of two --------------------------------------------------------------------------------------------

@one_launch(arrays=2)
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> AnyArray:
    """``x1 * 2**x2``, element-wise.

    Args: x1: real[...]; x2: int[...].
    """
    caller = "numpy.ldexp"
    if not dtypes.is_int(aval_of(caller, x2).dtype):
        raise bad(caller, "the exponent must be an integer", given={"x2": aval_of(caller, x2)}, fix="use x1 * 2.0**x2.",
                  exc=ValueError)
    x1, = operands(caller, x1, to=to_inexact)
    x1, x2 = promote_shapes(caller, x1, convert_element_type(operand(caller, x2), x1.dtype))
    # Two factors, since the power of two may overflow although the product does not.
    half = floor(mul(x2, 0.5))
    return mul(mul(x1, transcendental.exp2(half)), transcendental.exp2(sub(x2, half)))


@one_launch
def bitwise_count(x: ArrayLike, /) -> AnyArray:
    """Number of bits set in the absolute value of x, element-wise, as uint8.

    Args: x: int or bool[...].
    """
    x, = operands("numpy.bitwise_count", x, to=to_numeric)
    x = x if dtypes.is_unsigned(x.dtype) else lax_abs(x)
    return convert_element_type(bits.population_count(x), np.uint8)
