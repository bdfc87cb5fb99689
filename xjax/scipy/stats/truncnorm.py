"""The normal distribution truncated to ``a <= z <= b`` where ``z = (x - loc) / scale``.

All results are nan unless a < b. Floats of 16 bits raise a TypeError, as in `norm.cdf`. The probability of an interval
much shorter than 1 loses the digits that its ends have in common.

>>> round(float(pdf(0.0, -1.0, 1.0)), 4), float(cdf(0.0, -1.0, 1.0)), round(float(logsf(41.0, 40.0, 50.0)), 1)
(0.5844, 0.5, -40.5)
"""

from __future__ import annotations

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.nn.activations import log1mexp
from xjax.scipy.normal_distribution import log_ndtr
from xjax.scipy.stats import norm
from xjax.scipy.stats.distribution import NONNEGATIVE, Distribution, standard
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]

_truncnorm = Distribution("truncnorm", scale=NONNEGATIVE)


def _log_tail(p: Array) -> Array:
    """Logarithm of the standard normal probability of values beyond `p`, on the side away from 0."""
    finite = abs(p) != np.inf                                           # log_ndtr has no derivative at -inf
    return jnp.where(finite, log_ndtr(jnp.where(finite, jnp.where(p <= 0, p, -p), -1)), -np.inf)


def _log_mass(a: Array, b: Array, tail_a: Array, tail_b: Array) -> Array:
    """Logarithm of the probability of [a, b], where a < b, from the tails beyond a and b."""
    right = a > 0
    one_side = right | (b <= 0)
    near, far = jnp.where(right, tail_a, tail_b), jnp.where(right, tail_b, tail_a)
    # If [a, b] is on one side of 0, the difference of the two tails, by their ratio; else 1 minus both tails.
    difference = near + log1mexp(jnp.where(one_side & (far > -np.inf), near - far, np.inf))
    left_out = jnp.where(one_side, 0, lax.exp(tail_a) + lax.exp(tail_b))
    return jnp.where(one_side, difference, lax.log1p(-left_out))


def _within(z: Array, a: Array, b: Array) -> Array:
    """z where a < z < b, elsewhere a number between a and b, so that no derivative is nan."""
    low, high = jnp.maximum(a, jnp.minimum(b, 0) - 1), jnp.minimum(b, jnp.maximum(a, 0) + 1)
    return jnp.where((z <= a) | (z >= b), lax.stop_gradient(0.5 * (low + high)), z)


@_truncnorm
def logpdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x; -inf outside of the interval."""
    z = standard(x, loc, scale)
    ends = jnp.stack(jnp.broadcast_arrays(a, b))
    log_density = norm.logpdf(x, loc, scale) - _log_mass(*ends, *_log_tail(ends))
    return jnp.where(a < b, jnp.where((z < a) | (z > b), -np.inf, log_density), np.nan)


@_truncnorm
def logcdf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of values <= x, also where that is too small for a float."""
    z = standard(x, loc, scale)
    z, a, b = jnp.broadcast_arrays(z, a, b)
    within = _within(z, a, b)
    tail_a, tail_z, tail_b = _log_tail(jnp.stack([a, within, b]))
    mass = _log_mass(a, b, tail_a, tail_b)
    below = _log_mass(a, within, tail_a, tail_z) - mass
    above = _log_mass(within, b, tail_z, tail_b) - mass
    near_one = below > -0.1
    below = jnp.where(near_one, lax.log1p(-lax.exp(jnp.where(near_one, above, -1))), below)
    return jnp.where(a < b, jnp.where(z <= a, -np.inf, jnp.where(z >= b, 0, below)), np.nan)


@_truncnorm
def logsf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of values > x, also where that is too small for a float."""
    return logcdf(-x, -b, -a, -loc, scale)


pdf, cdf, sf = _truncnorm.exp("pdf", logpdf), _truncnorm.exp("cdf", logcdf), _truncnorm.exp("sf", logsf)


__getattr__ = attributes_of(__name__)
