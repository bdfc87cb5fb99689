"""The Laplace distribution: density ``exp(-abs(z)) / (2 scale)`` with ``z = (x - loc) / scale``.

>>> float(pdf(0.0)), float(cdf(0.0)), round(float(logpdf(3.0)), 4)
(0.5, 0.5, -3.6931)
"""

from __future__ import annotations

import math

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.stats.distribution import NONNEGATIVE, Distribution, standard
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "logpdf", "pdf"]

_laplace = Distribution("laplace", scale=NONNEGATIVE)


@_laplace
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    return -lax.abs(standard(x, loc, scale)) - lax.log(scale) - math.log(2)


@_laplace
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values <= x."""
    z = standard(x, loc, scale)
    below = z <= 0
    tail = 0.5 * lax.exp(jnp.where(below, z, -z))
    return jnp.where(below, tail, 1 - tail)


pdf = _laplace.exp("pdf", logpdf)


__getattr__ = attributes_of(__name__)
