"""The Cauchy distribution wrapped around the circle: density ``(1 - c**2) / (2 pi (1 + c**2 - 2 c cos(x)))``.

>>> round(float(pdf(0.0, 0.5)), 4), float(pdf(-1.0, 0.5))
(0.4775, 0.0)
"""

from __future__ import annotations

import math

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.stats.distribution import INNER_FRACTION, Distribution
from xjax.typing import Array, ArrayLike

__all__ = ["logpdf", "pdf"]

_wrapcauchy = Distribution("wrapcauchy", c=INNER_FRACTION)


@_wrapcauchy
def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """Logarithm of the density at x; -inf outside of [0, 2 pi]; nan unless 0 < c < 1."""
    distance = lax.square(1 - c) + 4 * c * lax.square(lax.sin(0.5 * x))     # 1 + c**2 - 2 c cos(x)
    density = lax.log1p(-c) + lax.log1p(c) - lax.log(distance) - math.log(2 * math.pi)
    return jnp.where((x < 0) | (x > 2 * math.pi), -np.inf, density)


pdf = _wrapcauchy.exp("pdf", logpdf)


__getattr__ = attributes_of(__name__)
