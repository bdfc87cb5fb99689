"""The uniform distribution: density ``1 / scale`` in [loc, loc + scale].

>>> float(pdf(0.5)), float(cdf(3.0, 2.0, 4.0)), float(ppf(0.25, 2.0, 4.0))
(1.0, 0.25, 3.0)
"""

from __future__ import annotations

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.stats.distribution import FRACTION, NONNEGATIVE, Distribution, standard
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "logpdf", "pdf", "ppf"]

_uniform = Distribution("uniform", scale=NONNEGATIVE, q=FRACTION)


@_uniform
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x; -inf outside of [loc, loc + scale]."""
    wrong = (x != x) | (loc != loc)
    return jnp.where((x < loc) | (x > loc + scale), -np.inf, jnp.where(wrong, np.nan, -lax.log(scale)))


@_uniform
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values <= x."""
    return jnp.where(x < loc, 0, jnp.where(x > loc + scale, 1, standard(x, loc, scale)))


pdf = _uniform.exp("pdf", logpdf)


@_uniform
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> ArrayLike:
    """The x at which `cdf` is q; nan unless 0 <= q <= 1."""
    return loc + scale * q


__getattr__ = attributes_of(__name__)
