"""The normal distribution function, its logarithm and inverse."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.lax.double_word import log_2, split
from xjax.ops.checks import static_int
from xjax.runtime.jit import library_jit
from xjax.runtime.one_launch import one_launch
from xjax.scipy.arguments import chebyshev_series, horner, of_reals, rational, single_or_double
from xjax.scipy.error_functions import decay_variable, exact_decay, scaled_erfc
from xjax.transforms.autodiff import jvp
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike


@library_jit
def ndtr(x: ArrayLike) -> Array:
    """Distribution function of the standard normal distribution, element-wise, exact where the result is small.

    Raises: TypeError unless x is (or, as an integer, becomes) a float of 32 or 64 bits.
    """
    x, = single_or_double("ndtr", x)
    return _ndtr(x)


@custom_jvp
def _ndtr(x: Array) -> Array:
    tail = tail_of(x)
    return jnp.where(x > 0, 1 - tail, tail)


def tail_of(x: Array) -> Array:
    """``ndtr(-abs(x))``. Computed as ``erfc(abs(x) / sqrt(2)) / 2``, rounding the quotient costs about x**2 ulp."""
    size = jnp.minimum(jnp.abs(x), 40.0)                    # the result is 0 beyond 40
    return 0.5 * scaled_erfc(size * math.sqrt(0.5), 0) * bell(size)


_LOG_2_HALF = 0.35      # the remainder of a logarithm after a multiple of log(2) is at most this


@functools.cache
def _exp_terms(size: int) -> list[float]:
    """``(exp(r) - 1 - r) / r**2`` as a polynomial in r, for abs(r) up to `_LOG_2_HALF`. size: bytes of the dtype."""
    power_series = 1 / np.cumprod(np.arange(2, 32, dtype=np.longdouble))
    series = chebyshev_series(lambda t: np.polynomial.polynomial.polyval(_LOG_2_HALF * t, power_series),
                              5 if size == 4 else 10)
    terms = np.polynomial.chebyshev.cheb2poly(series)
    return (terms / np.longdouble(_LOG_2_HALF) ** np.arange(len(terms))).astype(float).tolist()


def bell(x: Array) -> Array:
    """``exp(-x**2 / 2)``, 0 where it would be subnormal.

    The exponential is computed here, since its argument has more digits than a float: ``2**n exp(r)``, where r is the
    sum of exact products and a correction. This takes as long as the exponential of a rounded square.
    """
    info, (log_2_high, log_2_low) = dtypes.finfo(x.dtype), log_2(x.dtype)
    bias = info.maxexp - 1
    size = jnp.minimum(jnp.abs(x), math.sqrt(2 * math.log(2) * bias))       # there n is -bias, and 2**n becomes 0
    high, low = split(size)
    n = jnp.floor(size * size * (-0.5 / math.log(2)) + 0.5)
    half = -0.5 * high
    r = (half * high - n * log_2_high) + (low * (half - 0.5 * size) - n * log_2_low)
    integers = np.int64 if x.dtype == np.float64 else np.int32
    power = lax.shift_left(n.astype(integers) + integers(bias), integers(info.nmant))
    growth = 1 + (r + r * r * horner(r, _exp_terms(x.dtype.itemsize)))
    return growth * lax.bitcast_convert_type(power, x.dtype)


@custom_jvp
def density(x: Array) -> Array:
    """``exp(-x**2 / 2) / sqrt(2 pi)``."""
    return bell(x) * math.sqrt(0.5 / math.pi)


density.defjvps(lambda dx, y, x: dx * -(x * y))
_ndtr.defjvps(lambda dx, y, x: dx * density(x))


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """Logarithm of `ndtr`, element-wise, exact also where `ndtr` rounds to 0 or 1.

    Args: series_order: from 0 to 30, as in JAX. It has no effect, since no series is used.
    Raises: TypeError or ValueError for another series_order; TypeError unless x is a float of 32 or 64 bits.
    """
    order = static_int(series_order, "series_order", "scipy.special.log_ndtr")
    if not 0 <= order <= 30:
        raise bad("scipy.special.log_ndtr", "`series_order` is out of range", given={"series_order": str(order)},
                  fix="use a value from 0 to 30.", exc=ValueError)
    return _log_ndtr(x)


@library_jit
def _log_ndtr(x: Array) -> Array:
    """For x > 0 ``log(1 - tail)``, corrected for the rounding error of 1 - tail. Both signs share one logarithm."""
    x, = single_or_double("log_ndtr", x)
    above, tail, decay = x > 0, tail_of(x), scaled_erfc(lax.abs(x) * math.sqrt(0.5), 0)
    rest = 1 - tail
    lost = ((1 - rest) - tail) * (2 - rest)
    return lax.log(jnp.where(above, rest, 0.5 * decay)) + jnp.where(above, lost, -0.5 * x * x)


@log_ndtr.defjvp
def _log_ndtr_jvp(series_order: int, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    return log_ndtr(x, series_order), dx * _hazard(x)


@custom_jvp
def _hazard(x: Array) -> Array:
    """``exp(-x**2 / 2) / sqrt(2 pi) / ndtr(x)``. For x <= 0 the exponential, which may underflow, is cancelled."""
    above, size = x > 0, jnp.abs(x)
    decay, shrink = scaled_erfc(size * math.sqrt(0.5), 0), bell(size)
    return (jnp.where(above, math.sqrt(0.5 / math.pi) * shrink, math.sqrt(2 / math.pi))
            / jnp.where(above, 1 - 0.5 * decay * shrink, decay))


@functools.cache
def _hazard_terms(dtype: np.dtype) -> list[float]:
    """The slope of the hazard for x <= 0, from -2 / pi at 0 to -1, as a polynomial in the variable of `exact_decay`."""
    def slope(u: np.ndarray) -> np.ndarray:
        (x, decay), (_, fall) = exact_decay(0, u), exact_decay(1, u)
        return fall / (decay * decay) * (1 + 2 * x) / (1 + x) / np.sqrt(np.arccos(np.longdouble(-1)))

    series = chebyshev_series(slope, 40).astype(float)
    count = np.flatnonzero(np.abs(series) > float(np.finfo(dtype).eps) / 16)[-1] + 1
    return np.polynomial.chebyshev.cheb2poly(series[:count]).tolist()


@custom_jvp
def _hazard_slope(x: Array) -> Array:
    """``-h (x + h)``, where h is the hazard; for x <= 0, where x and h cancel, a polynomial."""
    hazard, above = _hazard(x), x > 0
    below = horner(decay_variable(jnp.where(above, 0, -x) * math.sqrt(0.5)), _hazard_terms(x.dtype))
    return jnp.where(above, -hazard * (x + hazard), below)


@_hazard_slope.defjvp
def _hazard_slope_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """For x <= 0 the slope is ``erfcx'(z) / (sqrt(pi) erfcx(z)**2)`` at z = -x / sqrt(2), which is differentiated."""
    (x,), (dx,) = primals, tangents
    y, hazard, above = _hazard_slope(x), _hazard(x), x > 0

    def below(x: Array) -> Array:
        z = -x * math.sqrt(0.5)
        return scaled_erfc(z, 1) / jnp.square(scaled_erfc(z, 0)) * math.sqrt(1 / math.pi)

    beyond = jvp(below, (jnp.where(above, 0, x),), (lax.full_like(x, 1),))[1]
    return y, dx * jnp.where(above, -(y * (x + hazard) + hazard * (1 + y)), beyond)


_hazard.defjvps(lambda dx, y, x: dx * _hazard_slope(x))


# Coefficients, low powers first, for abs(p - 1/2) up to 0.425, for r = sqrt(-log(tail)) up to 5, and beyond.
_MIDDLE = ((3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
            4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
           (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4,
            3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3))
_NEAR = ((1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
          1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
         (1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
          1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9))
_FAR = ((6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1,
         2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
        (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
         7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15))


@custom_jvp
@library_jit
def ndtri(p: ArrayLike) -> Array:
    """Inverse of `ndtr`, element-wise: -inf at 0, inf at 1, nan outside of [0, 1].

    Source: Wichura, Algorithm AS 241: the percentage points of the normal distribution (1988), PPND16.
    Raises: TypeError unless p is (or, as an integer, becomes) a float of 32 or 64 bits.
    """
    p, = single_or_double("ndtri", p)
    tail = jnp.minimum(p, 1 - p)
    end = jnp.where(p == 0, -np.inf, jnp.where(p == 1, np.inf, np.nan))
    return jnp.where(tail > 0, _quantile(p - 0.5, -lax.log(jnp.where(tail > 0, tail, 0.5))), end)


def _quantile(q: Array, log_of_tail: Array) -> Array:
    """`ndtri` of ``p = q + 1/2``, from q and ``-log(min(p, 1 - p))``."""
    middle = q * rational(0.180625 - q * q, *_MIDDLE)
    r = jnp.sqrt(log_of_tail)
    beyond = jnp.where(r > 5, rational(r - 5, *_FAR), rational(r - 1.6, *_NEAR))
    return jnp.where(lax.abs(q) <= 0.425, middle, jnp.where(q < 0, -beyond, beyond))


@custom_jvp
def _ndtri_slope(p: ArrayLike) -> Array:
    """``1 / density(x)`` at x = ndtri(p), by the tail: exp(x**2 / 2) would multiply the relative error of x by x**2."""
    x, tail = ndtri(p), lax.min(p, 1 - p)
    inside = tail > 0
    slope = math.sqrt(math.pi / 2) * scaled_erfc(jnp.where(inside, lax.abs(x), 0) * math.sqrt(0.5), 0)
    return jnp.where(inside, slope / jnp.where(inside, tail, 1), jnp.where(tail == 0, np.inf, np.nan))


_ndtri_slope.defjvps(lambda dp, y, p: dp * (ndtri(p) * y * y))
ndtri.defjvps(lambda dp, x, p: dp * _ndtri_slope(p))


@one_launch
def erfcinv(y: ArrayLike) -> Array:
    """Inverse of the complementary error function, element-wise: inf at 0, -inf at 2, nan outside of [0, 2].

    It is exact also for small y, where ``erfinv(1 - y)`` is not. Raises: ValueError for complex numbers.

    >>> float(erfcinv(1.0))
    0.0
    """
    return of_reals("erfcinv", _erfcinv, y)


@custom_jvp
def _erfcinv(y: Array) -> Array:
    """``-ndtri(y / 2) / sqrt(2)``, also where y / 2 is subnormal."""
    tail = lax.min(y, 2 - y)
    inside = _quantile(0.5 * (1 - y), math.log(2) - lax.log(jnp.where(tail > 0, tail, 1.0))) * math.sqrt(0.5)
    end = jnp.where(y == 0, np.inf, jnp.where(y == 2, -np.inf, np.nan))
    return jnp.where(tail > 0, inside, end)


@custom_jvp
def _erfcinv_slope(y: Array) -> Array:
    """``-sqrt(pi) / 2 exp(z**2)`` at z = erfcinv(y), by the tail as in `_ndtri_slope`."""
    z, tail = _erfcinv(y), lax.min(y, 2 - y)
    inside = tail > 0
    slope = -0.5 * math.sqrt(math.pi) * scaled_erfc(jnp.where(inside, lax.abs(z), 0), 0)
    return jnp.where(inside, slope / jnp.where(inside, tail, 1), jnp.where(tail == 0, -np.inf, np.nan))


_erfcinv_slope.defjvps(lambda dy, slope, y: dy * (2 * _erfcinv(y) * slope * slope))
_erfcinv.defjvps(lambda dy, z, y: dy * _erfcinv_slope(y))
