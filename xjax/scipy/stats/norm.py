"""The normal distribution: density ``exp(-z**2 / 2) / (sqrt(2 pi) scale)`` with ``z = (x - loc) / scale``.

Where the scale is negative, the density is that for ``abs(scale)``, as in JAX, and the other functions are nan.

>>> round(float(pdf(0.0)), 4), float(cdf(0.0)), round(float(ppf(0.975)), 2)
(0.3989, 0.5, 1.96)
>>> float(logsf(40.0)), float(isf(1e-30))
(-804.608..., 11.464...)
"""

from __future__ import annotations

import math

from xjax import lax
from xjax.core.public import attributes_of
from xjax.numpy.promote import default_float
from xjax.scipy.normal_distribution import log_ndtr, ndtr, ndtri
from xjax.scipy.stats.distribution import NONNEGATIVE, Distribution, standard
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_density = Distribution("norm")
_norm = Distribution("norm", scale=NONNEGATIVE)


@_density
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    return -0.5 * lax.square(standard(x, loc, scale)) - lax.log(lax.abs(scale)) - 0.5 * math.log(2 * math.pi)


pdf = _density.exp("pdf", logpdf)


@_norm
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values <= x. Raises: TypeError for floats of 16 bits, like all functions except pdf and logpdf."""
    return ndtr(standard(x, loc, scale))


@_norm
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of values <= x, also where that is too small for a float."""
    return log_ndtr(standard(x, loc, scale))


@_norm
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values > x."""
    return ndtr(-standard(x, loc, scale))


@_norm
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of values > x, also where that is too small for a float."""
    return log_ndtr(-standard(x, loc, scale))


@_norm
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x at which `cdf` is q, in the default float dtype, as in JAX; nan unless 0 <= q <= 1."""
    return _default(ndtri(q) * scale + loc)


@_norm
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x at which `sf` is q, in the default float dtype, as in JAX; exact for small q."""
    return _default(loc - ndtri(q) * scale)


def _default(x: Array) -> Array:
    return lax.convert_element_type(x, default_float())


__getattr__ = attributes_of(__name__)
