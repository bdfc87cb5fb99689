"""Exponentials, logarithms, roots, powers, trigonometric and hyperbolic functions, element-wise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray, Zero, typeof
from xjax.ops.checks import FLOAT, INT, NOT_LINEAR, check_kinds, check_same_dtype
from xjax.ops.compare import clamp, eq, select
from xjax.ops.complex_numbers import complex, imag, real
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import INEXACT, add, div, mul, neg, one_minus_square, reciprocal, square, sub
from xjax.ops.halves import in_single
from xjax.ops.identity import stop_gradient_p
from xjax.ops.makers import (
    accumulate,
    binary_function,
    broadcast_shape,
    chlo,
    elementwise_batch,
    elementwise_lower,
    fill,
    filled_like,
    match_scalars,
    nary,
    scalar_like,
    strong_like,
    unary,
    unary_function,
    unbroadcast,
)
from xjax.ops.piecewise import abs, max, nonzero
from xjax.ops.shape import broadcast_in_dim
from xjax.typing import Array, ArrayLike


def _one(x: ArrayLike) -> Any:
    return scalar_like(x, 1)


def _is_complex(x: ArrayLike) -> bool:
    return dtypes.is_complex(typeof(x).dtype)


def _is_half(x: ArrayLike) -> bool:
    dtype = typeof(x).dtype
    return dtypes.accumulator_dtype(dtype) != dtype


def _widened(b: Builder, x: Value) -> Value:
    """`x` in at least single precision, in which half-precision types are computed."""
    return b.convert(x, dtypes.accumulator_dtype(x.aval.dtype))


# -- exponentials and logarithms ----------------------------------------------------------------------------------

exp_p = unary("exp", INEXACT, "stablehlo.exponential", lambda dx, y, x: mul(dx, y))
exp = unary_function(exp_p, "Exponential, element-wise.")


def _exp2_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    if dtypes.is_complex(out.dtype):
        return b.unary("stablehlo.exponential", b.mul(b.constant(np.log(2), out.strong()), x))
    if out.dtype.itemsize < 4:
        wide = b.convert(x, np.dtype(np.float32))
        return b.convert(_exp2_of_parts(b, wide.aval, wide), out.dtype)
    return _exp2_of_parts(b, out, x)


def _exp2_of_parts(b: Builder, out: ShapedArray, x: Value) -> Value:
    """``exp(f log 2)`` for the fractional part f of x; the integer part is added to the exponent. Computed directly,
    rounding x·log 2 costs 60 ulp at x = 100. The exponent is added in two steps, since results may be denormal."""
    digits, bias, ints = (52, 1023, np.int64) if out.dtype == np.float64 else (23, 127, np.int32)
    aval = out.strong()
    whole_aval = ShapedArray(out.shape, np.dtype(ints))
    low, high = (b.constant(sign * 1.5 * bias, aval) for sign in (-1, 1))          # the result is 0 below, inf above
    x = b.op(f"stablehlo.clamp {low}, {x}, {high} : {tensor_type(aval)}", aval)
    nearest = b.unary("stablehlo.round_nearest_even", x)
    value = b.unary("stablehlo.exponential", b.binary(
        "stablehlo.multiply", b.constant(np.log(2), aval), b.sub(x, nearest)))
    whole = b.convert(nearest, whole_aval.dtype)
    half = b.binary("stablehlo.shift_right_arithmetic", whole, b.constant(1, whole_aval))
    for exponent in (half, b.sub(whole, half)):
        bits = b.binary("stablehlo.shift_left", b.add(exponent, b.constant(bias, whole_aval)),
                        b.constant(digits, whole_aval))
        power = b.op(f"stablehlo.bitcast_convert {bits} : ({bits.type}) -> {tensor_type(aval)}", aval)
        value = b.mul(value, power)
    return value


exp2_p = unary("exp2", INEXACT, _exp2_lower, lambda dx, y, x: mul(log(scalar_like(x, 2)), mul(dx, y)))
exp2 = unary_function(exp2_p, "``2 ** x``, element-wise.")

log_p = unary("log", INEXACT, "stablehlo.log", lambda dx, y, x: div(dx, x))
log = unary_function(log_p, "Natural logarithm, element-wise: -inf at 0, nan below.")


def _log2_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    """log x times 1 / log 2, by parts for complex x, since a complex factor would turn an infinite part into nan."""
    logs = b.unary("stablehlo.log", x)
    if not dtypes.is_complex(out.dtype):
        return b.mul(logs, b.constant(1 / np.log(2), out.strong()))
    part = ShapedArray(out.shape, dtypes.finfo(out.dtype).dtype)
    factor = b.constant(1 / np.log(2), part)
    re, im = (b.mul(factor, b.op(
        f"stablehlo.{name} {logs} : ({logs.type}) -> {tensor_type(part)}", part)) for name in ("real", "imag"))
    return _complex(b, out, re, im)


# Not 1 / (x log 2): the product may be denormal.
log2_p = unary("log2", INEXACT, _log2_lower, lambda dx, y, x: mul(dx, div(scalar_like(x, 1 / math.log(2)), x)))
log2 = unary_function(log2_p, "Logarithm to base 2, element-wise: -inf at 0, nan below.")

expm1_p = unary("expm1", INEXACT, "stablehlo.exponential_minus_one", lambda dx, y, x: mul(dx, exp(x)))
expm1 = unary_function(expm1_p, "``exp(x) - 1``, element-wise, accurate for small x.")


def _log1p_on_cpu(b: Builder, out: ShapedArray, x: Value) -> Value | None:
    """The logarithm of 1 + x, corrected for the rounding of that sum; XLA's log1p loses 7 bits of doubles near -0.4."""
    if out.dtype != np.float64 or limits("log1p of doubles", "cpu") is None:
        return None
    one = b.constant(1, out.strong())
    # The bound holds for all numbers; it keeps XLA from simplifying total - 1 to x.
    total = b.binary("stablehlo.maximum", b.add(x, one), b.constant(-1, out.strong()))
    logarithm, rest = b.unary("stablehlo.log", total), b.div(b.sub(x, b.sub(total, one)), total)
    # An infinite logarithm has no correction. Where 1 + x rounds to 1 the result is x, which keeps the sign of zero.
    ends = b.compare("EQ", b.unary("stablehlo.abs", logarithm), b.constant(np.inf, out.strong()))
    y = b.select(ends, logarithm, b.add(logarithm, rest))
    return b.select(b.compare("EQ", total, one), x, y)


log1p_p = unary("log1p", INEXACT, "stablehlo.log_plus_one", lambda dx, y, x: div(dx, add(x, _one(x))),
                lower_on={"cpu": _log1p_on_cpu})
log1p = unary_function(log1p_p, "``log(1 + x)``, element-wise, accurate for small x.")


def _logistic_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    one = b.constant(1, out.strong())
    growth = b.unary("stablehlo.exponential", b.unary("stablehlo.negate", x))
    return b.div(one, b.add(one, growth))


def _logistic_jvp(dx, y, x):
    """Computed from y, without a second exponential, which would take half as much time again. 1 - y has no correct
    digits where y is close to 1, so half-precision types use single precision."""
    return mul(dx, logistic_slope(x) if _is_half(x) else mul(y, sub(_one(y), y)))


logistic_p = unary("logistic", INEXACT, _logistic_lower, _logistic_jvp)
logistic = unary_function(logistic_p, "Sigmoid, element-wise: ``1 / (1 + exp(-x))``.")


def _logistic_slope_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    """y (1 - y) for y = logistic(x), to full precision: where y is close to 1, 1 - y is the product of y and exp(-x).

    For float16, 1 - y in single precision is accurate enough: its last bit, 2**-24, is the smallest float16.
    """
    x = _widened(b, x)
    one = b.constant(1, x.aval.strong())
    growth = b.unary("stablehlo.exponential", b.unary("stablehlo.negate", x))
    y = b.div(one, b.add(one, growth))
    rest = b.sub(one, y)
    if out.dtype != np.float16:
        rest = b.select(b.compare("LT", x, b.constant(0, x.aval.strong())), rest, b.mul(growth, y))
    return b.convert(b.mul(y, rest), out.dtype)


logistic_slope_p = unary("logistic_slope", FLOAT, _logistic_slope_lower,
                         lambda dx, y, x: mul(neg(dx), mul(y, tanh(mul(x, scalar_like(x, 0.5))))))
logistic_slope = unary_function(logistic_slope_p, "The derivative of logistic, element-wise.")


# -- roots --------------------------------------------------------------------------------------------------------

sqrt_p = unary("sqrt", INEXACT, "stablehlo.sqrt", lambda dx, y, x: mul(dx, div(scalar_like(x, 0.5), y)))
sqrt = unary_function(sqrt_p, "Square root, element-wise: nan below 0; the derivative at 0 is inf.")

rsqrt_p = unary("rsqrt", INEXACT, "stablehlo.rsqrt",
                lambda dx, y, x: mul(dx, div(mul(scalar_like(x, -0.5), y), x)))
rsqrt = unary_function(rsqrt_p, "``1 / sqrt(x)``, element-wise.")

@in_single
def _cbrt_slope(x, y):
    """``y / (3 x)``, which has the relative error of y; ``1 / (3 y ** 2)`` would have twice that. Infinite at 0."""
    at_zero = eq(x, scalar_like(x, 0))
    return select(at_zero, filled_like(x, np.inf), div(mul(y, scalar_like(x, 1 / 3)), nonzero(x)))


def _cbrt_on_cpu(b: Builder, out: ShapedArray, x: Value) -> Value | None:
    """XLA's cbrt is wrong for subnormal numbers, of either sign; these are treated as zeros."""
    # float16 is computed in single precision, where its numbers are normal.
    if out.dtype == np.float16 or limits("cube roots of normal numbers", "cpu") is None:
        return None
    smallest = b.constant(float(dtypes.finfo(out.dtype).smallest_normal), out.strong())
    is_zero = b.compare("LT", b.unary("stablehlo.abs", x), smallest)
    return b.select(is_zero, b.mul(x, 0), b.unary("stablehlo.cbrt", x))


cbrt_p = unary("cbrt", FLOAT, "stablehlo.cbrt", lambda dx, y, x: mul(dx, _cbrt_slope(x, y)),
               lower_on={"cpu": _cbrt_on_cpu})
cbrt = unary_function(cbrt_p, "Real cube root, element-wise.")


# -- powers -------------------------------------------------------------------------------------------------------

def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """``x ** y``, element-wise.

    Args: x: float or complex[...];  y: of the same dtype, or integer, 0-d or of a shape that broadcasts with x.
    An integer y makes the derivative at x = 0 exact. With respect to y the derivative at x = 0 is 0.
    """
    if type(y) is int:
        return pow_p.bind(*match_scalars(x), y)
    return pow_p.bind(*match_scalars(x, y))


def _pow_type(x, y):
    check_kinds("pow", INEXACT, x)
    check_kinds("pow", INEXACT + INT, y)
    if not dtypes.is_int(y.dtype):
        check_same_dtype("pow", x, y)
    return ShapedArray(broadcast_shape("pow", x.shape, y.shape), x.dtype, x.weak_type and y.weak_type)


def _pow_lower(b: Builder, out: ShapedArray, x: Value, y: Value) -> Value:
    return b.binary("stablehlo.power", x, b.convert(y, x.aval.dtype))


def _pow_jvp(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    z = pow_p.bind(x, y)
    total = Zero(z.aval.tangent())
    if type(dx) is not Zero:
        exact = dtypes.is_int(typeof(y).dtype)
        slope = _slope_at_integers(x, y, z) if exact else _slope_of_base(x, y, z)
        total = fill(mul(dx, slope), z.aval)
    if type(dy) is not Zero:
        total = accumulate(total, fill(mul(dy, _slope_of_exponent(x, y, z)), z.aval))
    return z, total


def _slope_of_base(x, y, z):
    """y x ** (y - 1), where z = x ** y."""
    if _is_complex(x):
        return mul(y, pow(x, sub(y, strong_like(y, 1))))
    y = convert_element_type(y, typeof(y).dtype)                # strongly typed, as in JAX
    if z.dtype.itemsize < 4:
        return in_single(lambda x, y: mul(y, pow_less_one(x, y, pow(x, y))))(x, y)
    return mul(y, pow_less_one(x, y, z))


def pow_less_one(x, y, z):
    """``x ** (y - 1)``, where z = ``x ** y``, for real floats."""
    return pow_less_one_p.bind(x, y, z)


def _pow_less_one_lower(b: Builder, out: ShapedArray, x: Value, y: Value, z: Value) -> Value:
    """z / x where z is a normal number; else the power, whose error is log x times as large, as y - 1 is rounded."""
    aval, info = out.strong(), dtypes.finfo(out.dtype)
    size = b.unary("stablehlo.abs", z)
    is_normal = b.binary("stablehlo.and", b.compare("GE", size, b.constant(float(info.smallest_normal), aval)),
                         b.compare("LE", size, b.constant(float(info.max), aval)))
    return b.select(is_normal, b.div(z, x), b.binary("stablehlo.power", x, b.sub(y, 1)))


def _pow_less_one_by_base(dx, w, x, y, z):
    less = sub(y, strong_like(y, 1))
    return mul(dx, mul(less, pow_less_one(x, less, w)))


pow_less_one_p = nary("pow_less_one", FLOAT, _pow_less_one_lower,
                      # z has no share of its own, because it is a function of x and y.
                      (_pow_less_one_by_base, lambda dy, w, x, y, z: mul(dy, mul(log(nonzero(x)), w)), None))


def _slope_of_exponent(x, y, z):
    """log x times z = x ** y, and 0 where x is 0."""
    if z.dtype.itemsize < 4:                                    # z may be subnormal, with fewer digits
        return in_single(lambda x, y: mul(log(nonzero(x)), pow(x, y)))(x, y)
    return mul(log(nonzero(x)), z)


def _slope_at_integers(x, y, z):
    """d(x ** y)/dx = y x ** (y - 1), and 0 for y = 0, even where x is 0; z = x ** y."""
    y, shape = convert_element_type(y, typeof(x).dtype), typeof(z).shape
    if not typeof(y).shape and shape:
        y = broadcast_in_dim(y, shape, ())
    constant = fill(eq(y, scalar_like(y, 0)), typeof(z))
    zero = filled_like(z, 0)
    return select(constant, zero, mul(nonzero(y), pow(x, sub(y, filled_like(y, 1)))))


pow_p = Primitive("pow", type_rule=_pow_type, lower=elementwise_lower(_pow_lower), jvp=_pow_jvp, transpose=NOT_LINEAR,
                  batch=elementwise_batch(lambda: pow_p))


# -- trigonometric ------------------------------------------------------------------------------------------------

def _sine_lower(b: Builder, out: ShapedArray, z: Value) -> Value:
    """sin(x + iy) = sin x cosh y + i cos x sinh y; XLA's complex sine loses small imaginary parts."""
    if not dtypes.is_complex(out.dtype):
        return b.unary("stablehlo.sine", z)
    x, sinh_y, cosh_y = _sinh_and_cosh(b, z)
    re = b.mul(b.unary("stablehlo.sine", x), cosh_y)
    im = b.mul(b.unary("stablehlo.cosine", x), sinh_y)
    return _complex(b, out, _zero_if_zero(b, x, re), im)


def _cosine_lower(b: Builder, out: ShapedArray, z: Value) -> Value:
    """cos(x + iy) = cos x cosh y - i sin x sinh y."""
    if not dtypes.is_complex(out.dtype):
        return b.unary("stablehlo.cosine", z)
    x, sinh_y, cosh_y = _sinh_and_cosh(b, z)
    re = b.mul(b.unary("stablehlo.cosine", x), cosh_y)
    minus_sin = b.unary("stablehlo.negate", b.unary("stablehlo.sine", x))
    im = b.mul(minus_sin, sinh_y)
    return _complex(b, out, re, _zero_if_zero(b, x, im))


def _sinh_and_cosh(b: Builder, z: Value) -> tuple[Value, Value, Value]:
    """x, sinh y and cosh y of z = x + iy; sinh is computed by expm1, which is accurate for small y."""
    part = ShapedArray(z.aval.shape, dtypes.finfo(z.aval.dtype).dtype)
    x, y = (b.op(f"stablehlo.{name} {z} : ({z.type}) -> {tensor_type(part)}", part) for name in ("real", "imag"))
    up = b.unary("stablehlo.exponential_minus_one", y)
    down = b.unary("stablehlo.exponential_minus_one", b.unary("stablehlo.negate", y))
    two = b.constant(2, part)
    sinh_y = b.div(b.sub(up, down), two)
    cosh_y = b.div(b.add(b.add(up, down), two), two)
    return x, sinh_y, cosh_y


def _zero_if_zero(b: Builder, x: Value, product: Value) -> Value:
    """`product`, and 0 where x is 0: here 0 times an infinite cosh or sinh is 0, not nan."""
    zero = b.constant(0, x.aval)
    return b.select(b.compare("EQ", x, zero), zero, product)


def _complex(b: Builder, out: ShapedArray, re: Value, im: Value) -> Value:
    return b.op(f"stablehlo.complex {re}, {im} : {tensor_type(out)}", out)


sin_p = unary("sin", INEXACT, _sine_lower, lambda dx, y, x: mul(dx, cos(x)))
sin = unary_function(sin_p, "Sine, element-wise.")
cos_p = unary("cos", INEXACT, _cosine_lower, lambda dx, y, x: neg(mul(dx, sin(x))))
cos = unary_function(cos_p, "Cosine, element-wise.")
tan_p = unary("tan", INEXACT, "stablehlo.tan", lambda dx, y, x: mul(dx, add(_one(y), square(y))))
tan = unary_function(tan_p, "Tangent, element-wise.")

def _asin_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    """CHLO halves x, so the smallest normal numbers become denormal; for small x, asin(x) = x is used."""
    y = chlo("asin")(b, out, x)
    if dtypes.is_complex(out.dtype):
        return y
    bound = b.constant(float(dtypes.finfo(out.dtype).eps) ** 0.5, out.strong())
    return b.select(b.compare("LT", b.unary("stablehlo.abs", x), bound), x, y)


asin_p = unary("asin", INEXACT, _asin_lower, lambda dx, y, x: mul(dx, rsqrt(one_minus_square(x))))
asin = unary_function(asin_p, "Inverse sine, element-wise.")
acos_p = unary("acos", INEXACT, chlo("acos"), lambda dx, y, x: mul(dx, neg(rsqrt(one_minus_square(x)))))
acos = unary_function(acos_p, "Inverse cosine, element-wise.")
atan_p = unary("atan", INEXACT, chlo("atan"), lambda dx, y, x: div(dx, add(_one(x), square(x))))
atan = unary_function(atan_p, "Inverse tangent, element-wise.")


def _radius2(x, y):
    return add(square(x), square(y))


def _atan2_slope(x, y):
    """The derivative in x: ``y / (x ** 2 + y ** 2)``."""
    return div(y, _radius2(x, y)) if _is_complex(x) else over_radius2(y, x)


def _atan2_slope_by_y(x, y):
    return div(neg(x), _radius2(x, y)) if _is_complex(x) else neg(over_radius2(x, y))


def _atan2_on_cpu(b: Builder, out: ShapedArray, x: Value, y: Value) -> Value | None:
    """XLA's atan2 of doubles loses the sign of a subnormal ordinate, which is treated as zero."""
    if out.dtype != np.float64 or limits("atan2 of doubles", "cpu") is None:
        return None
    smallest = b.constant(float(dtypes.finfo(out.dtype).smallest_normal), out.strong())
    x = b.select(b.compare("LT", b.unary("stablehlo.abs", x), smallest), b.mul(x, 0), x)
    return b.op(f"stablehlo.atan2 {x}, {y} : {tensor_type(out)}", out)


atan2_p = nary("atan2", INEXACT, "stablehlo.atan2",
               (lambda dx, z, x, y: mul(dx, _atan2_slope(x, y)),
                lambda dy, z, x, y: mul(dy, _atan2_slope_by_y(x, y))),
               lower_on={"cpu": _atan2_on_cpu})
atan2 = binary_function(atan2_p, "Angle of the point with ordinate x and abscissa y: ``atan(x / y)`` in its quadrant.")


def _over_radius2_lower(b: Builder, out: ShapedArray, x: Value, y: Value) -> Value:
    """x and y are first multiplied by a power of 2 where their squares would overflow or underflow."""
    x, y = _widened(b, x), _widened(b, y)
    aval, exponent = x.aval.strong(), dtypes.finfo(x.aval.dtype).maxexp // 2
    size = b.binary("stablehlo.maximum", b.unary("stablehlo.abs", x), b.unary("stablehlo.abs", y))
    factor = b.constant(1, aval)
    for direction, sign in (("GT", 1), ("LT", -1)):
        far = b.compare(direction, size, b.constant(2.0 ** (sign * (exponent - 4)), aval))
        factor = b.select(far, b.constant(2.0 ** (-sign * (exponent + 6)), aval), factor)
    x, y = b.mul(x, factor), b.mul(y, factor)
    return b.convert(b.mul(b.div(x, b.add(b.mul(x, x), b.mul(y, y))), factor), out.dtype)


def _over_radius2_by_x(dx, z, x, y):
    """``(y ** 2 - x ** 2) / (x ** 2 + y ** 2) ** 2``, in a form that is accurate near its zeros."""
    of_y = over_radius2(y, x)
    return mul(dx, mul(sub(of_y, z), add(of_y, z)))


over_radius2_p = nary("over_radius2", FLOAT, _over_radius2_lower,
                      (_over_radius2_by_x,
                       lambda dy, z, x, y: mul(dy, mul(scalar_like(x, -2), mul(z, over_radius2(y, x))))))
over_radius2 = binary_function(over_radius2_p, "``x / (x ** 2 + y ** 2)``, element-wise, for all sizes of x and y.")


# -- hyperbolic ---------------------------------------------------------------------------------------------------

def _half_exponential(b: Builder, size: Value) -> Value:
    """``exp(size) / 2``, which is still finite for some sizes at which `exp` overflows."""
    root = b.unary("stablehlo.exponential", b.mul(size, 0.5))
    return b.mul(b.mul(root, 0.5), root)


def _sinh_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    """By exponentials, or by the Taylor series for small x. CHLO adds log(1/2) to x, and that sum is rounded."""
    if dtypes.is_complex(out.dtype):
        return chlo("sinh")(b, out, x)
    x = _widened(b, x)
    one = b.constant(1, x.aval.strong())
    size = b.unary("stablehlo.abs", x)
    half = _half_exponential(b, size)
    large = b.sub(half, b.div(b.constant(0.25, x.aval.strong()), half))
    large = b.select(b.compare("LT", x, b.constant(0, x.aval.strong())), b.unary("stablehlo.negate", large), large)
    squared, small = b.mul(x, x), b.constant(0, x.aval.strong())
    for n in reversed(range(3, 20 if out.dtype.itemsize == 8 else 12, 2)):
        small = b.mul(b.add(small, 1 / math.factorial(n)), squared)
    small = b.add(x, b.mul(x, small))
    return b.convert(b.select(b.compare("LT", size, one), small, large), out.dtype)


def _cosh_lower(b: Builder, out: ShapedArray, x: Value) -> Value:
    if dtypes.is_complex(out.dtype):
        return chlo("cosh")(b, out, x)
    x = _widened(b, x)
    half = _half_exponential(b, b.unary("stablehlo.abs", x))
    return b.convert(b.add(half, b.div(b.constant(0.25, x.aval.strong()), half)), out.dtype)


sinh_p = unary("sinh", INEXACT, _sinh_lower, lambda dx, y, x: mul(dx, cosh(x)))
sinh = unary_function(sinh_p, "Hyperbolic sine, element-wise.")
cosh_p = unary("cosh", INEXACT, _cosh_lower, lambda dx, y, x: mul(dx, sinh(x)))
cosh = unary_function(cosh_p, "Hyperbolic cosine, element-wise.")


def _tanh_jvp(dx, y, x):
    """Computed from y, as in `_logistic_jvp`."""
    return times_tanh_slope_p.bind(dx, x) if _is_half(x) else mul(dx, one_minus_square(y))


def _times_tanh_slope_lower(b: Builder, out: ShapedArray, dx: Value, x: Value) -> Value:
    y = b.unary("stablehlo.tanh", _widened(b, x))
    one = b.constant(1, y.aval.strong())
    return b.convert(b.mul(_widened(b, dx), b.mul(b.add(one, y), b.sub(one, y))), out.dtype)


# dx (1 - tanh(x) ** 2) for half-precision types, in single precision. One operation, so eager gradients need no
# further launch.
times_tanh_slope_p = nary(
    "times_tanh_slope", FLOAT, _times_tanh_slope_lower,
    (lambda d, y, dx, x: times_tanh_slope_p.bind(d, x),
     lambda d, y, dx, x: mul(mul(d, scalar_like(x, -2)), mul(tanh(x), y))),
    transpose=lambda ct, dx, x: [unbroadcast(times_tanh_slope_p.bind(ct, x), dx.aval), None])

tanh_p = unary("tanh", INEXACT, "stablehlo.tanh", _tanh_jvp)
tanh = unary_function(tanh_p, "Hyperbolic tangent, element-wise.")


def _asinh_slope(x: ArrayLike) -> Array:
    """``rsqrt(x ** 2 + 1)`` without overflow: x is divided by a power of 2, which is 1 unless x is large."""
    if dtypes.is_complex(typeof(x).dtype):
        return _asinh_slope_of_complex(x)
    inverse = _inverse_scale(abs(x))
    scaled = mul(x, inverse)
    return mul(inverse, rsqrt(add(square(scaled), square(inverse))))


def _inverse_scale(size: Array) -> Array:
    """1 / s, a constant for derivatives: s >= 1 is finite, and so is ``(size / s) ** 2`` for every finite size."""
    exponent = dtypes.finfo(typeof(size).dtype).maxexp // 2
    scale = clamp(_one(size), mul(size, scalar_like(size, 2.0 ** (2 - exponent))),
                  scalar_like(size, 2.0 ** (exponent + 2)))
    return reciprocal(stop_gradient_p.bind(scale))


def _asinh_slope_of_complex(z: ArrayLike) -> Array:
    """``rsqrt(z ** 2 + 1)``, by parts: keeps signs of zeros at discontinuities, and does not cancel near i and -i."""
    x, y = real(z), imag(z)
    size = max(abs(x), abs(y))
    inverse = _inverse_scale(size)
    x, y = mul(x, inverse), mul(y, inverse)
    root = rsqrt(complex(add(square(x), one_minus_square(y)), mul(scalar_like(x, 2), mul(x, y))))
    infinite = eq(size, scalar_like(size, np.inf))
    return select(infinite, filled_like(z, 0), complex(mul(real(root), inverse), mul(imag(root), inverse)))


asinh_p = unary("asinh", INEXACT, chlo("asinh"), lambda dx, y, x: mul(dx, _asinh_slope(x)))
asinh = unary_function(asinh_p, "Inverse hyperbolic sine, element-wise.")
acosh_p = unary("acosh", INEXACT, chlo("acosh"),
                lambda dx, y, x: mul(dx, mul(rsqrt(sub(x, _one(x))), rsqrt(add(x, _one(x))))))
acosh = unary_function(acosh_p, "Inverse hyperbolic cosine, element-wise.")
atanh_p = unary("atanh", INEXACT, chlo("atanh"), lambda dx, y, x: div(dx, one_minus_square(x)))
atanh = unary_function(atanh_p, "Inverse hyperbolic tangent, element-wise.")
