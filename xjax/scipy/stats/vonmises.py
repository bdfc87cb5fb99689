"""The von Mises distribution on the circle: density ``exp(kappa cos(x)) / (2 pi i0(kappa))``.

>>> round(float(pdf(0.0, 1.0)), 4), round(float(pdf(0.0, 1e8)), 0)
(0.3417, 3989.0)
"""

from __future__ import annotations

import math

from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.special import i0e
from xjax.scipy.stats.distribution import NONNEGATIVE, Distribution
from xjax.typing import Array, ArrayLike

__all__ = ["logpdf", "pdf"]

_vonmises = Distribution("vonmises", kappa=NONNEGATIVE)


@_vonmises
def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """Logarithm of the density at the angle x; kappa = 0 is the uniform distribution."""
    return lax.square(lax.sin(0.5 * x)) * (-2 * kappa) - lax.log(i0e(kappa)) - math.log(2 * math.pi)  # 1 - cos(x)


pdf = _vonmises.exp("pdf", logpdf)


__getattr__ = attributes_of(__name__)
