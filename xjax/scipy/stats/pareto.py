"""The Pareto distribution: density ``b / (scale z**(b + 1))`` for ``z = (x - loc) / scale >= 1``.

>>> float(pdf(1.0, 2.0)), float(cdf(2.0, 2.0)), round(float(ppf(0.75, 2.0)), 4)
(2.0, 0.75, 2.0)
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.nn.activations import log1mexp
from xjax.scipy.stats.distribution import FRACTION, NONNEGATIVE, POSITIVE, Distribution, standard
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]

_pareto = Distribution("pareto", b=POSITIVE, scale=NONNEGATIVE, q=FRACTION)


def _log_z(x: ArrayLike, loc: ArrayLike, scale: ArrayLike) -> tuple[Any, Any]:
    """Whether x is below the support; log(z), or 1 where x is below."""
    outside = x < loc + scale
    return outside, jnp.where(outside, 1, lax.log(jnp.where(outside, 1, standard(x, loc, scale))))


@_pareto
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x; -inf below loc + scale."""
    outside, log_z = _log_z(x, loc, scale)
    return jnp.where(outside, -np.inf, lax.log(b) - lax.log(scale) - (b + 1) * log_z)


@_pareto
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of values > x."""
    outside, log_z = _log_z(x, loc, scale)
    return jnp.where(outside, 0, -b * log_z)


@_pareto
def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of values <= x."""
    outside, log_z = _log_z(x, loc, scale)
    return jnp.where(outside, -np.inf, log1mexp(b * log_z))


@_pareto
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of values <= x."""
    return -lax.expm1(logsf(x, b, loc, scale))


pdf, sf = _pareto.exp("pdf", logpdf), _pareto.exp("sf", logsf)


@_pareto
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x at which `cdf` is q; nan unless 0 <= q <= 1."""
    return jnp.add(loc, scale * lax.exp(lax.div(-lax.log1p(-q), b)))


__getattr__ = attributes_of(__name__)
