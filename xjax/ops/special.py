"""Special functions of real floats, element-wise: error functions and the gamma family."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.types import ShapedArray, number_of, typeof
from xjax.ops.checks import FLOAT
from xjax.ops.elementwise import add, mul, neg, square
from xjax.ops.halves import in_single
from xjax.ops.makers import binary_function, chlo, nary, scalar_like, unary, unary_function
from xjax.ops.text import reduce_text
from xjax.ops.transcendental import exp
from xjax.typing import Array, ArrayLike

# -- error function -----------------------------------------------------------------------------------------------

_ERF_SLOPE = 2 / math.sqrt(math.pi)         # derivative of erf at 0


@in_single
def _gaussian(x: ArrayLike) -> Array:
    return exp(neg(square(x)))


erf_p = unary("erf", FLOAT, chlo("erf"),
              lambda dx, y, x: mul(number_of(typeof(x).dtype, _ERF_SLOPE), mul(dx, _gaussian(x))))
erf = unary_function(erf_p, "Error function, element-wise.")
erfc_p = unary("erfc", FLOAT, chlo("erfc"),
               lambda dx, y, x: mul(scalar_like(x, -_ERF_SLOPE), mul(dx, _gaussian(x))))
erfc = unary_function(erfc_p, "``1 - erf(x)``, element-wise, accurate for large x.")
erf_inv_p = unary("erf_inv", FLOAT, chlo("erf_inv"),
                  lambda dx, y, x: mul(scalar_like(x, 1 / _ERF_SLOPE), mul(dx, exp(square(y)))))
erf_inv = unary_function(erf_inv_p, "Inverse of erf, element-wise: infinite at -1 and 1, nan outside [-1, 1].")


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
# The same for double precision, with 28, 22 and 26 terms, and Stirling's series up to power 19.
_LGAMMA_OF_DOUBLES = (
  (
    -0.5772156649015329, 0.8224670334241132, -0.4006856343865406, 0.2705808084277935, -0.2073855510262953,
    0.16955717699509998, -0.14404989701106719, 0.1255096697597847, -0.1113342530365414, 0.10009944506030896,
    -0.09095442301348973, 0.08335423437020126, -0.07692423568567124, 0.07142491150665906, -0.06678275881746833,
    0.0626116167474043, -0.057737256640806416, 0.054501409023364235, -0.059850048562680856, 0.057003000096539545,
    -0.014509338086091672, 0.01333577663873192, -0.14497971020532596, 0.14011729595820724, 0.1528715168258553,
    -0.14857260899606312, -0.22471180158915516, 0.21762817640022097),
  (
    0.42278433509846713, 0.3224670334241132, -0.06735230105319796, 0.020580808427787502, -0.007385551028687111,
    0.0028905103306125996, -0.0011927539111748094, 0.0005096695270786523, -0.00022315476914202685,
    9.945749459386184e-05, -4.4926118904862264e-05, 2.050723289467849e-05, -9.440199753274835e-06,
    4.375472004777847e-06, -2.0371195482358996e-06, 9.511969731319312e-07, -4.5041997201473635e-07,
    2.2102374422908605e-07, -1.0784595012220329e-07, 4.4561979632842775e-08, -1.2394516911278076e-08,
    1.6305432352127331e-09),
  (
    1.1308039907482046, 0.3430636841668189, -0.06706121459270223, 0.01842992447000924, -0.005867639188130438,
    0.0020300366314321603, -0.0007409545245089384, 0.0002807177987071434, -0.00010930288241496527,
    4.345595764876531e-05, -1.7561642940304268e-05, 7.1907571884533625e-06, -2.9763378756563875e-06,
    1.2427627755940555e-06, -5.217283701416235e-07, 2.208419305334594e-07, -9.609788492352055e-08,
    4.111520619687998e-08, -1.476369535630533e-08, 6.338318140381804e-09, -5.414910006817192e-09,
    2.361075317403474e-09, 5.721655837867926e-10, -2.542219041991882e-10, -4.4484675889204886e-10,
    1.9525665620713214e-10))
_STIRLING = (           # coefficients of powers 1, 3, 5 ... of 1 / x
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400, 43867 / 244188,
    -174611 / 125400)


def _lgamma_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    x = b.convert(x, dtypes.accumulator_dtype(out.dtype))        # half-precision types in single precision
    size = b.unary("stablehlo.abs", x)
    log_size = b.unary("stablehlo.log", size)
    at_size = _lgamma_from_half(b, size, log_size)
    reflected = _lgamma_of_minus(b, size, log_size, at_size)
    near_0 = b.sub(b.mul(x, _horner(b, x, _lgamma_terms(x)[0])), log_size)      # lgamma(1 + x) - log|x|
    y = b.select(b.compare("LT", x, b.constant(0, x.aval)), reflected, at_size)
    return b.convert(b.select(b.compare("LT", size, b.constant(0.5, x.aval)), near_0, y), out.dtype)


def _lgamma_terms(x: Value) -> tuple[Sequence[float], ...]:
    if x.aval.dtype.itemsize > 4:
        return *_LGAMMA_OF_DOUBLES, _STIRLING
    return _LGAMMA_AT_1, _LGAMMA_AT_2, _LGAMMA_3_TO_8, _STIRLING[:3]


def _lgamma_from_half(b: Builder, x: Value, log_x: Value) -> Value:
    """lgamma(x) for x >= 1/2."""
    at_1, at_2, from_3, stirling = _lgamma_terms(x)
    from_1, from_2 = b.sub(x, 1), b.sub(x, 2)
    near_1 = b.mul(from_1, _horner(b, from_1, at_1))
    near_2 = b.mul(from_2, _horner(b, from_2, at_2))
    to_8 = b.mul(from_2, _horner(b, b.mul(b.sub(x, 5.5), 1 / 2.5), from_3))
    # Stirling's formula, in a form in which no large terms cancel.
    inverse = b.div(b.constant(1, x.aval), x)
    rest = b.mul(inverse, _horner(b, b.mul(inverse, inverse), stirling))
    far = b.add(b.mul(b.sub(x, 0.5), b.sub(log_x, 1)), b.add(rest, 0.5 * math.log(2 * math.pi) - 0.5))
    y = far
    for bound, part in ((8, to_8), (3, near_2), (1.5, near_1)):
        y = b.select(b.compare("LT", x, b.constant(bound, x.aval)), part, y)
    return y


def _lgamma_of_minus(b: Builder, x: Value, log_x: Value, lgamma_x: Value) -> Value:
    """``lgamma(-x) = log(pi / (x abs(sin(pi x)))) - lgamma(x)`` for x > 0; infinite for integers."""
    below = b.unary("stablehlo.floor", x)
    fraction = b.sub(x, below)
    distance = b.binary("stablehlo.minimum", fraction, b.sub(b.constant(1, x.aval), fraction))
    log_sine = b.unary("stablehlo.log", b.unary("stablehlo.sine", b.mul(distance, math.pi)))
    y = b.sub(b.sub(b.sub(b.constant(math.log(math.pi), x.aval), log_sine), log_x), lgamma_x)
    # Large numbers are integers; the fractional part of infinity is NaN.
    return b.select(b.compare("EQ", x, below), b.constant(math.inf, x.aval), y)


def _horner(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    """The polynomial with these coefficients, the constant term first."""
    y = b.constant(coefficients[-1], x.aval)
    for c in reversed(coefficients[:-1]):
        y = b.add(b.mul(y, x), c)
    return y


lgamma_p = unary("lgamma", FLOAT, _lgamma_lower, lambda dx, y, x: mul(dx, digamma(x)))
lgamma = unary_function(lgamma_p, "Logarithm of the absolute value of the gamma function, element-wise.")


@in_single
def _trigamma(x: ArrayLike) -> Array:
    return polygamma(scalar_like(x, 1), x)


# 1 to 2: digamma(1.5 + z) / (1.5 + z - root) for z in [-1/2, 1/2]. From 2: x**2 (log(x) - 1 / (2 x) - digamma(x)) as a
# polynomial in 1 / x**2, for x >= 2. Both are interpolated at Chebyshev points; the relative errors of digamma are at
# most 2**-25 and 2**-54.
_DIGAMMA_ROOT = (1.4616321449683622, 9.549995429965697e-17)
_DIGAMMA_1_TO_2 = (
    0.9510558962329134, -0.42362743473901193, 0.24053845299247192, -0.14840223752060958, 0.09511622179338902,
    -0.062007068861342586, 0.03936941933941425, -0.02604888222714401, 0.023909071438577043, -0.01590631756163065)
_DIGAMMA_FROM_2 = (
    0.08333332453745723, -0.00833155071868131, 0.003907189544334103, -0.003369202911177285, 0.0024051080762988396)
_DIGAMMA_OF_DOUBLES = (
  (
    0.951055876031833, -0.4236274212814605, 0.2405424842407742, -0.14840492305390884, 0.09498872445494122,
    -0.061922133273064534, 0.04076083381242074, -0.02697579675613825, 0.0179072524394512, -0.011908218001568644,
    0.007926944646403797, -0.005279964873257405, 0.003519006401502276, -0.002345267632540769, 0.0015566317474486838,
    -0.0010376374098418604, 0.0007233266279287554, -0.0004821990530566789, 0.0002272331660987376,
    -0.00015148586836773365, 0.00025968482126430747, -0.00017312261802727394),
  (
    0.08333333333333331, -0.008333333333282403, 0.003968253945839088, -0.004166662685238446, 0.0075753767455309946,
    -0.021070054649552764, 0.08240354891856491, -0.41543190760742665, 2.4086326657401416, -14.175672334916992,
    76.38818202819134, -350.6596772999366, 1303.3202157768428, -3758.4014455627503, 8025.2668059909365,
    -11879.665696300202, 10847.141982752735, -4591.938846782404))


def _digamma_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    """By ``digamma(x) = digamma(x + 1) - 1 / x`` for 0 < x < 1, and by reflection for x < 0."""
    x = b.convert(x, dtypes.accumulator_dtype(out.dtype))           # half-precision types in single precision
    single = x.aval.dtype.itemsize == 4
    from_1, from_2 = (_DIGAMMA_1_TO_2, _DIGAMMA_FROM_2) if single else _DIGAMMA_OF_DOUBLES
    zero, one, size = b.constant(0, x.aval), b.constant(1, x.aval), b.unary("stablehlo.abs", x)
    small, inverse = b.compare("LT", size, one), b.div(one, x)
    # `near` is digamma of 1 + abs(x) if abs(x) < 1, and of abs(x) if 1 <= abs(x) < 2. The rounding error of the root is
    # subtracted separately, because XLA would merge the constants of x - root - lost.
    root, lost = _DIGAMMA_ROOT
    roots = [float(x.aval.dtype.type(c)) for c in (root, root - 1)]
    losses = [root - roots[0] + lost, root - 1 - roots[1] + lost]

    def of_two(large: float, below_1: float) -> Value:
        return b.select(small, b.constant(below_1, x.aval), b.constant(large, x.aval))

    factor = _horner(b, b.sub(size, of_two(1.5, 0.5)), from_1)
    near = b.sub(b.mul(b.sub(size, of_two(*roots)), factor), b.mul(of_two(*losses), factor))
    square = b.mul(inverse, inverse)
    bends = b.add(b.mul(square, _horner(b, square, from_2)), b.mul(b.unary("stablehlo.abs", inverse), 0.5))
    to_2 = b.compare("LT", size, b.constant(2, x.aval))
    main, minor = b.select(to_2, near, b.unary("stablehlo.log", size)), b.select(to_2, zero, bends)
    # digamma(x) = digamma(1 + abs(x)) - pi cot(pi x) for x < 0. The large terms, which may cancel, are added first.
    angle = b.mul(b.sub(x, b.unary("stablehlo.round_nearest_even", x)), math.pi)
    cotangent = b.div(b.unary("stablehlo.cosine", angle), b.unary("stablehlo.sine", angle))
    step = b.add(minor, b.select(small, zero, inverse))
    reflected = b.sub(b.sub(main, b.mul(cotangent, math.pi)), step)
    whole = b.compare("EQ", x, b.unary("stablehlo.floor", x))
    reflected = b.select(whole, b.constant(math.nan, x.aval), reflected)
    positive = b.sub(main, b.select(small, inverse, minor))
    return b.convert(b.select(b.compare("LT", x, zero), reflected, positive), out.dtype)


digamma_p = unary("digamma", FLOAT, _digamma_lower, lambda dx, y, x: mul(dx, _trigamma(x)))
digamma = unary_function(
    digamma_p, "Derivative of lgamma, element-wise: nan at -1, -2 ..., infinite at 0 with the zero's opposite sign.")


def no_derivative(function: str, argument: str, exc: type[Exception] = NotImplementedError) -> Callable:
    """Derivative rule for an argument with respect to which a function has no derivative."""
    def rule(*_: object) -> NoReturn:
        raise bad(f"lax.{function}", f"there is no derivative with respect to `{argument}`",
                  fix=f"pass `{argument}` as a constant, or through lax.stop_gradient.", exc=exc)
    return rule


def _factorial(b: Builder, out: ShapedArray, m: Value) -> Value:
    """The factorial of integers m >= 1: a product while that is exact, since XLA's exp(lgamma(m + 1)) is off by several
    ulp."""
    m = b.convert(m, dtypes.accumulator_dtype(out.dtype))           # half-precision types in single precision
    last = 22 if m.aval.dtype.itemsize > 4 else 13
    product = one = b.constant(1, m.aval)
    for k in range(2, last + 1):
        factor = b.constant(k, m.aval)
        product = b.mul(product, b.select(b.compare("LT", m, factor), one, factor))
    large = b.unary("stablehlo.exponential", _lgamma_lower(b, m.aval, b.add(m, 1)))
    return b.convert(b.select(b.compare("GT", m, b.constant(last, m.aval)), large, product), out.dtype)


def _polygamma_lower(b: Builder, out: ShapedArray, m: Value, x: Value) -> Value:
    """XLA's polygamma, except where it is nan or has no correct digit: for large x, at 0, and between the poles.

    There, orders 1, 2 ... are ``(-1)**(m + 1) m! zeta(m + 1, x)``, whose sign at 0 is that of the first term.
    """
    zero, even = b.constant(0.0, out), b.compare("EQ", m, _twice_half(b, m))
    positive = b.compare("GE", m, b.constant(1, out))
    far = b.binary("stablehlo.and", positive, b.compare("GT", b.mul(x, _eps(out)), m))
    below = b.binary("stablehlo.and", positive, _between_poles(b, x))
    at_zero = b.binary("stablehlo.and", b.compare("EQ", x, zero), even)

    order, factor = b.add(m, 1), _factorial(b, out, m)
    factor = b.select(even, b.unary("stablehlo.negate", factor), factor)
    whole = b.binary("stablehlo.and", positive, b.compare("EQ", m, b.unary("stablehlo.floor", m)))
    other = b.select(b.compare("EQ", m, zero), _digamma_lower(b, out, x), b.constant(math.nan, out))

    def f(b: Builder, x: Value) -> Value:
        return b.select(whole, b.mul(factor, chlo("zeta")(b, out, order, x)), other)

    def at_ends(b: Builder, y: Value) -> Value:
        power, log_factor = b.binary("stablehlo.power", x, b.unary("stablehlo.negate", m)), chlo("lgamma")(b, out, m)
        far_y = b.mul(b.unary("stablehlo.exponential", log_factor), power)
        vanished = b.compare("EQ", power, zero)                             # else 0 times an infinite factorial: nan
        far_y = b.select(vanished, power, far_y)
        y = b.select(far, b.select(even, b.unary("stablehlo.negate", far_y), far_y), y)
        y = b.select(at_zero, b.div(b.constant(-1.0, out), x), y)
        return b.select(below, _by_reflection(b, x, below, even, f), y)

    return _if_any(b, f(b, x), [far, at_zero, below], at_ends)


ZETA_ONE_TERM = 2000    # for larger x and q > 0 the sum equals its first term, or both round to 0


def _zeta_lower(b: Builder, out: ShapedArray, x: Value, q: Value) -> Value:
    """XLA's zeta, except where it is nan or has no correct digit: for large q, at q = 0, for q < 0, and for x <= 1."""
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
    """``at_ends(b, y)`` if any mask has an element, else y; `at_ends` is only computed if it is needed."""
    some, axes = _or(b, *masks), range(len(y.aval.shape))
    some = reduce_text(b, some, "stablehlo.or", 0, axes) if axes else some
    return b.case(b.convert(some, np.dtype(np.int32)), [lambda inner: [y], lambda inner: [at_ends(inner, y)]],
                  [y.aval])[0]


def _or(b: Builder, *masks: Value) -> Value:
    return functools.reduce(lambda x, y: b.binary("stablehlo.or", x, y), masks)


def _eps(aval: ShapedArray) -> float:
    return float(dtypes.finfo(aval.dtype).eps)


def _twice_half(b: Builder, x: Value) -> Value:
    """``2 floor(x / 2)``: equal to x if x is even."""
    return b.mul(b.unary("stablehlo.floor", b.mul(x, 0.5)), 2)


def _between_poles(b: Builder, x: Value) -> Value:
    """Whether x < 0 and not an integer."""
    is_fraction = b.compare("NE", x, b.unary("stablehlo.floor", x))
    return b.binary("stablehlo.and", b.compare("LT", x, b.constant(0.0, x.aval)), is_fraction)


def _by_reflection(b: Builder, q: Value, mask: Value, odd: Value, f: Callable[[Builder, Value], Value]) -> Value:
    """f(q), the sum of ``1 / (k + q) ** s`` over k >= 0 up to a factor; XLA's f uses only about ten terms for q < 0.

    It is the sum over all integers k, which only depends on the distance r of q to the nearest integer, minus the sum
    over k < 0.  Args: mask: the elements to compute; odd: where s is odd; f: computes f.
    """
    def signed(y: Value) -> Value:
        return b.select(odd, b.unary("stablehlo.negate", y), y)
    one = b.constant(1, q.aval)
    q = b.select(mask, q, b.constant(-0.5, q.aval))
    r = b.sub(q, b.unary("stablehlo.round_nearest_even", q))
    size = b.unary("stablehlo.abs", r)
    everywhere = b.add(f(b, size), signed(f(b, b.sub(one, size))))
    everywhere = b.select(b.compare("LT", r, b.constant(0.0, q.aval)), signed(everywhere), everywhere)
    return b.sub(everywhere, signed(f(b, b.sub(one, q))))


polygamma_p = nary("polygamma", FLOAT, _polygamma_lower,
                   (no_derivative("polygamma", "m"),
                    lambda dx, y, m, x: mul(dx, polygamma(add(m, scalar_like(m, 1)), x))))
polygamma = binary_function(polygamma_p, "Derivative of order m of digamma at x, element-wise; m: integers >= 0.")
zeta_p = nary("zeta", FLOAT, _zeta_lower,
              (no_derivative("zeta", "x"),
               lambda dq, y, x, q: mul(dq, mul(neg(x), zeta(add(x, scalar_like(x, 1)), q)))))
zeta = binary_function(zeta_p, "Hurwitz zeta function: the sum of ``1 / (k + q) ** x`` over k = 0, 1, 2 ...; x > 1.")
