"""The Cauchy distribution: density ``1 / (pi scale (1 + z**2))`` with ``z = (x - loc) / scale``.

>>> round(float(pdf(0.0)), 4), float(cdf(0.0)), float(ppf(0.75)), float(sf(1e30))
(0.3183, 0.5, 1.0..., 3.18...e-31)
"""

from __future__ import annotations

import math

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.public import attributes_of
from xjax.scipy.stats.distribution import FRACTION, NONNEGATIVE, Distribution, log1p_square, mirrored, standard
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_cauchy = Distribution("cauchy", scale=NONNEGATIVE, q=FRACTION)


@_cauchy
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    return -(math.log(math.pi) + lax.log(scale) + log1p_square(standard(x, loc, scale)))


@_cauchy
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values <= x."""
    return _below(standard(x, loc, scale))


@_cauchy
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of values <= x."""
    z = standard(x, loc, scale)
    far = lax.abs(z) > 1 / float(dtypes.finfo(z.dtype).eps)             # there the tail is 1 / (pi abs(z))
    size, tail = jnp.where(far, lax.abs(z), 1), _below(-lax.abs(jnp.where(far, 1, z)))
    low = jnp.where(far, -math.log(math.pi) - lax.log(size), lax.log(tail))
    return jnp.where(z < 0, low, jnp.where(far, -1 / math.pi / size, lax.log1p(-tail)))


def _below(z: Array) -> Array:
    """``1 / 2 + atan(z) / pi``, exact where it is small, by ``atan(z) + atan(1 / z) = sign(z) pi / 2``."""
    near = lax.abs(z) < 1
    angle = lax.atan(jnp.where(near, z, -1 / jnp.where(near, 1, z)))
    return jnp.where(near, 0.5, jnp.where(z < 0, 0, 1)) + angle / math.pi


pdf = _cauchy.exp("pdf", logpdf)
sf = mirrored(_cauchy, "sf", cdf, "Probability of values > x.")
logsf = mirrored(_cauchy, "logsf", logcdf, "Logarithm of the probability of values > x.")


@_cauchy
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x at which `cdf` is q; nan unless 0 <= q <= 1."""
    return jnp.subtract(loc, jnp.multiply(scale, _cotangent(q)))


@_cauchy
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x at which `sf` is q; nan unless 0 <= q <= 1."""
    return jnp.add(loc, jnp.multiply(scale, _cotangent(q)))


def _cotangent(q: ArrayLike) -> Array:
    """``cot(pi q)``, exact near 0, 1/2 and 1: +inf at 0, -inf at 1."""
    side = jnp.where(q < 0.5, 1, -1)
    tail = jnp.where(q < 0.5, q, 1 - q)                             # exact, by Sterbenz' lemma
    steep, end = tail < 0.25, tail == 0
    tangent = lax.tan(math.pi * jnp.where(steep, tail, 0.5 - tail))
    inverse = jnp.where(end, np.inf, 1 / jnp.where(steep & ~end, tangent, 1))
    return side * jnp.where(steep, inverse, tangent)


__getattr__ = attributes_of(__name__)
