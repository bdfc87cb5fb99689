"""Special functions, element-wise, of real floats: erf and its relatives, the gamma family, Bessel functions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.types import ShapedArray, number_of, typeof
from xjax.ops.checks import FLOAT
from xjax.ops.compare import gt, select
from xjax.ops.elementwise import add, mul, neg, reciprocal, square, sub
from xjax.ops.halves import in_single
from xjax.ops.makers import binary_function, chlo, filled_like, nary, scalar_like, unary, unary_function
from xjax.ops.piecewise import abs as absolute
from xjax.ops.piecewise import sign
from xjax.ops.text import reduce_text
from xjax.ops.transcendental import exp

# -- error function -----------------------------------------------------------------------------------------------

_ERF_SLOPE = 2 / math.sqrt(math.pi)         # derivative of erf at 0


@in_single
def _gaussian(x: Any) -> Any:
    return exp(neg(square(x)))


erf_p = unary("erf", FLOAT, chlo("erf"),
              lambda dx, y, x: mul(number_of(typeof(x).dtype, _ERF_SLOPE), mul(dx, _gaussian(x))))
erf = unary_function(erf_p, "Error function, element-wise.")
erfc_p = unary("erfc", FLOAT, chlo("erfc"),
               lambda dx, y, x: mul(scalar_like(x, -_ERF_SLOPE), mul(dx, _gaussian(x))))
erfc = unary_function(erfc_p, "``1 - erf(x)``, element-wise, exact for large x.")
erf_inv_p = unary("erf_inv", FLOAT, chlo("erf_inv"),
                  lambda dx, y, x: mul(scalar_like(x, 1 / _ERF_SLOPE), mul(dx, exp(square(y)))))
erf_inv = unary_function(erf_inv_p, "Inverse of erf, element-wise: infinite at -1 and 1, nan beyond.")


# -- gamma family -------------------------------------------------------------------------------------------------

# XLA's lgamma loses all digits of single precision near its zeros 1 and 2, and 4 bits elsewhere. These polynomials are
# interpolated at Chebyshev points; their errors are 2**-26 of the value, a quarter of a unit in the last place.
_LGAMMA_AT_1 = (        # lgamma(1 + z) / z, for z in [-1/2, 1/2]
    -0.577215665, 0.822466912, -0.40068552, 0.270594282, -0.207398208, 0.16913452, -0.143652916, 0.13109551,
    -0.11657937, 0.0653093054, -0.0583021337, 0.179739271, -0.167297331)
_LGAMMA_AT_2 = (        # lgamma(2 + z) / z, for z in [-1/2, 1]
    0.422784337, 0.32246704, -0.067352514, 0.0205807552, -0.00738207512, 0.0028878799, -0.00121009585,
    0.000535863159, -0.000207585256, 4.35766242e-05)
_LGAMMA_3_TO_8 = (      # lgamma(x) / (x - 2), for x = 5.5 + 2.5 t, t in [-1, 1]
    1.13080399, 0.343063683, -0.0670613993, 0.0184300022, -0.00586551127, 0.00202914138, -0.000749795042,
    0.000284435968, -9.30961653e-05, 3.66438818e-05, -3.04846591e-05, 1.26152957e-05)
_STIRLING = (1 / 12, -1 / 360, 1 / 1260)        # of powers 1, 3, 5 of 1 / x


def _lgamma_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    if out.dtype.itemsize > 4:
        at_two = b.compare("EQ", x, b.constant(2, out))                         # XLA's is 9e-16 there
        return b.select(at_two, b.constant(0, out), chlo("lgamma")(b, out, x))
    x = b.convert(x, np.dtype(np.float32))                       # halves are computed in single precision
    size = b.unary("stablehlo.abs", x)
    log_size = b.unary("stablehlo.log", size)
    at_size = _lgamma_from_half(b, size, log_size)
    reflected = _lgamma_of_minus(b, size, log_size, at_size)
    near_0 = b.sub(b.mul(x, _horner(b, x, _LGAMMA_AT_1)), log_size)             # lgamma(1 + x) - log|x|
    y = b.select(b.compare("LT", x, b.constant(0, x.aval)), reflected, at_size)
    return b.convert(b.select(b.compare("LT", size, b.constant(0.5, x.aval)), near_0, y), out.dtype)


def _lgamma_from_half(b: Builder, x: Value, log_x: Value) -> Value:
    """Of x >= 1/2."""
    from_1, from_2 = b.sub(x, 1), b.sub(x, 2)
    near_1 = b.mul(from_1, _horner(b, from_1, _LGAMMA_AT_1))
    near_2 = b.mul(from_2, _horner(b, from_2, _LGAMMA_AT_2))
    to_8 = b.mul(from_2, _horner(b, b.mul(b.sub(x, 5.5), 1 / 2.5), _LGAMMA_3_TO_8))
    # Stirling's formula, written so that no large terms cancel.
    inverse = b.div(b.constant(1, x.aval), x)
    rest = b.mul(inverse, _horner(b, b.mul(inverse, inverse), _STIRLING))
    far = b.add(b.mul(b.sub(x, 0.5), b.sub(log_x, 1)), b.add(rest, 0.5 * math.log(2 * math.pi) - 0.5))
    y = far
    for bound, part in ((8, to_8), (3, near_2), (1.5, near_1)):
        y = b.select(b.compare("LT", x, b.constant(bound, x.aval)), part, y)
    return y


def _lgamma_of_minus(b: Builder, x: Value, log_x: Value, lgamma_x: Value) -> Value:
    """``lgamma(-x) = log(pi / (x abs(sin(pi x)))) - lgamma(x)`` of x > 0: infinite for whole numbers."""
    below = b.unary("stablehlo.floor", x)
    fraction = b.sub(x, below)
    turn = b.binary("stablehlo.minimum", fraction, b.sub(b.constant(1, x.aval), fraction))
    log_sine = b.unary("stablehlo.log", b.unary("stablehlo.sine", b.mul(turn, math.pi)))
    y = b.sub(b.sub(b.sub(b.constant(math.log(math.pi), x.aval), log_sine), log_x), lgamma_x)
    # All numbers from 2**23 on are whole; the fraction of an infinite one is NaN.
    return b.select(b.compare("EQ", x, below), b.constant(math.inf, x.aval), y)


def _horner(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial with these coefficients, the constant one first."""
    y = b.constant(coefficients[-1], x.aval)
    for c in reversed(coefficients[:-1]):
        y = b.add(b.mul(y, x), c)
    return y


lgamma_p = unary("lgamma", FLOAT, _lgamma_lower, lambda dx, y, x: mul(dx, digamma(x)))
lgamma = unary_function(lgamma_p, "Logarithm of the absolute value of the gamma function, element-wise.")


@in_single
def _trigamma(x: Any) -> Any:
    return polygamma(scalar_like(x, 1), x)


def _digamma_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    """XLA's is nan at 0, where the limit has the sign opposite to that of the zero."""
    at_zero = b.compare("EQ", x, b.constant(0.0, out))
    return b.select(at_zero, b.div(b.constant(-1.0, out), x), chlo("digamma")(b, out, x))


digamma_p = unary("digamma", FLOAT, _digamma_lower, lambda dx, y, x: mul(dx, _trigamma(x)))
digamma = unary_function(
    digamma_p, "Derivative of lgamma, element-wise: nan at -1, -2 ..., infinite at 0 with the zero's opposite sign.")


def no_derivative(function: str, argument: str, exc: type[Exception] = NotImplementedError) -> Callable:
    """Derivative rule of an argument in which a function cannot be differentiated."""
    def rule(*_: Any) -> Any:
        raise bad(f"lax.{function}", f"there is no derivative with respect to `{argument}`",
                  fix=f"pass `{argument}` as a constant, or through lax.stop_gradient.", exc=exc)
    return rule


def _polygamma_lower(b: Builder, out: ShapedArray, m: Value, x: Value) -> Value:
    """XLA's, but where it is nan or has no right digit: far out, at 0, and below 0 except at the poles.

    Orders 1, 2 ... are there ``(-1)**(m + 1) m! zeta(m + 1, x)``, whose sign at 0 is that of the first term.
    """
    zero, even = b.constant(0.0, out), b.compare("EQ", m, _twice_half(b, m))
    positive = b.compare("GE", m, b.constant(1, out))
    far = b.binary("stablehlo.and", positive, b.compare("GT", b.mul(x, _eps(out)), m))
    below = b.binary("stablehlo.and", positive, _between_poles(b, x))
    at_zero = b.binary("stablehlo.and", b.compare("EQ", x, zero), even)

    def f(b: Builder, x: Value) -> Value:
        return chlo("polygamma")(b, out, m, x)

    def at_ends(b: Builder, y: Value) -> Value:
        power, log_factor = b.binary("stablehlo.power", x, b.unary("stablehlo.negate", m)), chlo("lgamma")(b, out, m)
        far_y = b.mul(b.unary("stablehlo.exponential", log_factor), power)
        vanished = b.compare("EQ", power, zero)                             # beside it the factorial may overflow
        far_y = b.select(vanished, power, far_y)
        y = b.select(far, b.select(even, b.unary("stablehlo.negate", far_y), far_y), y)
        y = b.select(at_zero, b.div(b.constant(-1.0, out), x), y)
        return b.select(below, _by_reflection(b, x, below, even, f), y)

    return _if_any(b, f(b, x), [far, at_zero, below], at_ends)


ZETA_ONE_TERM = 2000    # For larger x and q > 0 the first term of zeta is the sum, or both round to 0.


def _zeta_lower(b: Builder, out: ShapedArray, x: Value, q: Value) -> Value:
    """XLA's, but where it is nan or has no right digit: far out, at q = 0, below q = 0, and up to x = 1."""
    zero, one = b.constant(0.0, out), b.constant(1.0, out)
    odd = b.compare("NE", x, _twice_half(b, x))
    above, whole = b.compare("GT", x, one), b.compare("EQ", x, b.unary("stablehlo.floor", x))
    one_term = b.binary("stablehlo.and", b.compare("GT", x, b.constant(ZETA_ONE_TERM, out)), b.compare("GT", q, zero))
    one_term = _or(b, one_term, b.binary("stablehlo.and", above, b.compare("EQ", q, zero)))
    far = b.binary("stablehlo.and", above, b.compare("GT", b.mul(q, _eps(out)), x))
    below = b.binary("stablehlo.and", b.binary("stablehlo.and", above, whole), _between_poles(b, q))
    outside, at_one = b.compare("LT", x, one), b.compare("EQ", x, one)

    def f(b: Builder, q: Value) -> Value:
        return chlo("zeta")(b, out, x, q)

    def at_ends(b: Builder, y: Value) -> Value:
        rest = b.sub(x, 1)
        integral = b.div(b.binary("stablehlo.power", q, b.unary("stablehlo.negate", rest)), rest)
        first = b.binary("stablehlo.power", q, b.unary("stablehlo.negate", x))
        y = b.select(below, _by_reflection(b, q, below, odd, f), b.select(far, integral, y))
        y = b.select(outside, b.constant(math.nan, out), b.select(one_term, first, y))
        at_one_y = b.select(b.compare("EQ", q, q), b.constant(math.inf, out), q)
        return b.select(at_one, at_one_y, y)

    return _if_any(b, f(b, q), [one_term, far, below, outside, at_one], at_ends)


def _if_any(b: Builder, y: Value, masks: Sequence[Value], at_ends: Callable[[Builder, Value], Value]) -> Value:
    """``at_ends(b, y)``, which is only computed if there are elements that need it: those of the masks."""
    some, axes = _or(b, *masks), range(len(y.aval.shape))
    some = reduce_text(b, some, "stablehlo.or", 0, axes) if axes else some
    return b.case(b.convert(some, np.dtype(np.int32)), [lambda inner: [y], lambda inner: [at_ends(inner, y)]],
                  [y.aval])[0]


def _or(b: Builder, *masks: Value) -> Value:
    return functools.reduce(lambda x, y: b.binary("stablehlo.or", x, y), masks)


def _eps(aval: ShapedArray) -> float:
    return float(dtypes.finfo(aval.dtype).eps)


def _twice_half(b: Builder, x: Value) -> Value:
    """``2 floor(x / 2)``: x itself if that is even."""
    return b.mul(b.unary("stablehlo.floor", b.mul(x, 0.5)), 2)


def _between_poles(b: Builder, x: Value) -> Value:
    """Whether x < 0 and not a whole number."""
    is_fraction = b.compare("NE", x, b.unary("stablehlo.floor", x))
    return b.binary("stablehlo.and", b.compare("LT", x, b.constant(0.0, x.aval)), is_fraction)


def _by_reflection(b: Builder, q: Value, which: Value, odd: Value, f: Callable[[Builder, Value], Value]) -> Value:
    """f(q), the sum of ``1 / (k + q) ** s`` over k >= 0 up to a factor; XLA's takes some ten terms below 0.

    It is the sum over all whole k, which only depends on the distance r of q to the next whole number, less that over
    k < 0.  Args: which: the elements to compute; odd: where s is odd; f: computes f.
    """
    def signed(y: Value) -> Value:
        return b.select(odd, b.unary("stablehlo.negate", y), y)
    one = b.constant(1, q.aval)
    q = b.select(which, q, b.constant(-0.5, q.aval))
    r = b.sub(q, b.unary("stablehlo.round_nearest_even", q))
    size = b.unary("stablehlo.abs", r)
    everywhere = b.add(f(b, size), signed(f(b, b.sub(one, size))))
    everywhere = b.select(b.compare("LT", r, b.constant(0.0, q.aval)), signed(everywhere), everywhere)
    return b.sub(everywhere, signed(f(b, b.sub(one, q))))


polygamma_p = nary("polygamma", FLOAT, _polygamma_lower,
                   (no_derivative("polygamma", "m"),
                    lambda dx, y, m, x: mul(dx, polygamma(add(m, scalar_like(m, 1)), x))))
polygamma = binary_function(polygamma_p, "Derivative of order m of digamma at x, element-wise; m: whole numbers >= 0.")
zeta_p = nary("zeta", FLOAT, _zeta_lower,
              (no_derivative("zeta", "x"),
               lambda dq, y, x, q: mul(dq, mul(neg(x), zeta(add(x, scalar_like(x, 1)), q)))))
zeta = binary_function(zeta_p, "Hurwitz zeta function: the sum of ``1 / (k + q) ** x`` over k = 0, 1, 2 ...; x > 1.")


# -- modified Bessel functions --------------------------------------------------------------------------------------

# Chebyshev coefficients of ``exp(-x) i0(x)`` in t = x / 4 - 1, and of that times ``sqrt(x)`` in t = 16 / x - 1, from
# its integral ``mean of exp(x (cos(u) - 1))`` over a period in extended precision.
_I0E_TO_8 = (
    0.67679527440947607, -0.3046826723431984, 0.17162090152220877, -0.094901097048047639, 0.049305284239670712,
    -0.023737414805899467, 0.010546460394594998, -0.0043243099950505759, 0.0016394756169413357,
    -0.00057637557453858236, 0.00018850288509584159, -5.7541950100821013e-05, 1.644844807072894e-05,
    -4.4167383584587852e-06, 1.1173875391200876e-06, -2.6707938539421636e-07, 6.04699502254998e-08,
    -1.3000250099936736e-08, 2.6598237248302782e-09, -5.1897956020023096e-10, 9.6758090299323531e-11,
    -1.7268262859270129e-11, 2.9550525133153257e-12, -4.8564472416938974e-13, 7.67618882005364e-14,
    -1.1685437841424569e-14, 1.7153738553297299e-15, -2.431984057497602e-16, 3.3229102520786202e-17,
    -4.4384526436125338e-18)
_I0E_FROM_8 = (
    0.80449041101410879, 0.003369116478255693, 6.8897583469169248e-05, 2.8913705208337694e-06,
    2.0489185894782433e-07, 2.2666689904127892e-08, 3.3962320265903389e-09, 4.9406023800639513e-10,
    1.1889147945844241e-11, -3.1499166077486478e-11, -1.3215811038891524e-11, -1.7941793161122914e-12,
    7.1801315074405036e-13, 3.8527715089456405e-13, 1.5401474154360117e-14, -4.1506281376300913e-14,
    -9.5542152076366289e-15, 3.8111264903488429e-15, 1.7730666810887991e-15, -3.4300881543378642e-16,
    -2.8227951773096848e-16, 3.4154627187819399e-17, 4.4973002576230263e-17, -5.0686451563697332e-18,
    -7.1647693565083746e-18)


def _chebyshev(b: Builder, t: Value, coefficients: Sequence[float]) -> Value:
    """The series at t, by Clenshaw's recurrence; terms below the precision of t are left out."""
    smallest = float(dtypes.finfo(t.aval.dtype).eps) / 16
    double = b.add(t, t)
    last = before = b.constant(0, t.aval)
    kept = [c for c in coefficients if abs(c) > smallest]
    for c in reversed(kept[1:]):
        product = b.sub(b.mul(double, last), before)
        last, before = b.add(product, b.constant(c, t.aval)), last
    product = b.sub(b.mul(t, last), before)
    return b.add(product, b.constant(kept[0] / 2, t.aval))


def _i0e_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    # Halves are computed in single precision.
    size = b.unary("stablehlo.abs", b.convert(x, dtypes.accumulator_dtype(out.dtype)))

    def line(scaled: Value) -> Value:
        return b.sub(scaled, 1)

    near = _chebyshev(b, line(b.mul(size, 1 / 4)), _I0E_TO_8)
    far = _chebyshev(b, line(b.div(b.constant(16, size.aval), size)), _I0E_FROM_8)
    far = b.mul(far, b.unary("stablehlo.rsqrt", size))
    return b.convert(b.select(b.compare("LE", size, b.constant(8, size.aval)), near, far), out.dtype)


def _i1e_jvp(dx: Any, y: Any, x: Any) -> Any:
    """``i0e(x) - y (sign(x) + 1 / x)``, whose limit at 0 is 1/2."""
    eps = scalar_like(x, float(dtypes.finfo(typeof(x).dtype).eps))
    away = gt(absolute(x), eps)
    x = select(away, x, filled_like(x, eps))
    slope = sub(bessel_i0e(x), mul(y, add(sign(x), reciprocal(x))))
    return mul(dx, select(away, slope, filled_like(x, 0.5)))


bessel_i0e_p = unary("bessel_i0e", FLOAT, _i0e_lower, lambda dx, y, x: mul(dx, sub(bessel_i1e(x), mul(sign(x), y))))
bessel_i0e = unary_function(bessel_i0e_p, "Modified Bessel function of order 0 times ``exp(-abs(x))``, element-wise.")
bessel_i1e_p = unary("bessel_i1e", FLOAT, chlo("bessel_i1e"), _i1e_jvp)
bessel_i1e = unary_function(bessel_i1e_p, "Modified Bessel function of order 1 times ``exp(-abs(x))``, element-wise.")
