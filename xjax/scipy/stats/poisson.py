"""The Poisson distribution: the number of events when mu are expected.

>>> round(float(pmf(2, 3.0)), 4), round(float(cdf(2, 3.0)), 4), round(float(entropy(3.0)), 4)
(0.224, 0.4232, 1.9315)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.special import digamma, entr, gammaincc, gammaln, xlogy
from xjax.scipy.stats.distribution import NONNEGATIVE, Distribution, of_powers
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike

__all__ = ["cdf", "entropy", "logpmf", "pmf"]

_poisson = Distribution("poisson", mu=NONNEGATIVE)
# For mu < _MANY the entropy is a sum over k < _TERMS, up to 15 standard deviations; else it is its asymptotic series.
_MANY, _TERMS = 100, 250
# Coefficients of powers of 1 / mu, the highest first.
_SERIES = (1375 / 1008, 863 / 2520, 9 / 80, 19 / 360, 1 / 24, 1 / 12, 0)


@_poisson
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k; -inf unless k - loc is an integer >= 0."""
    x, outside = _inside(k - loc)
    return jnp.where(outside, -np.inf, _log_mass(x, mu))


def _log_mass(k: ArrayLike, mu: ArrayLike) -> Array:
    return xlogy(k, mu) - gammaln(k + 1) - mu


def _inside(x: ArrayLike) -> tuple[Any, Any]:
    """x, 0 where it is outside of the support; whether it is outside."""
    outside = (x < 0) | (lax.floor(x) < x) | (x == np.inf)
    return jnp.where(outside, 0, x), outside


@_poisson
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k; 0 unless k - loc is an integer >= 0."""
    x, outside = _inside(k - loc)
    return jnp.where(outside, 0, _mass(x, mu))


@custom_jvp
def _mass(k: Any, mu: Any) -> Any:
    return of_powers(-gammaln(k + 1) - mu, mu, k)


def _mass_by_mean(k: Any, mu: Any) -> Any:
    """The slope of the mass in mu, ``(k / mu - 1) mass``, from the power of mu that is lower by 1, for mu may be 0."""
    none = k == 0
    lower = of_powers(-gammaln(k + 1) - mu, mu, jnp.where(none, 0, k - 1))
    return jnp.where(none, -1, k - mu) * lower


_mass.defjvps(lambda dk, y, k, mu: dk * (y * (lax.log(jnp.where(mu > 0, mu, 1)) - digamma(k + 1))),
              lambda dmu, y, k, mu: dmu * _mass_by_mean(k, mu))


@_poisson
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of values <= k."""
    x = k - loc
    outside = (x < 0) | (x == np.inf)
    return jnp.where(outside, x > 0, gammaincc(lax.floor(jnp.where(outside, 0, x)) + 1, mu))


@_poisson
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """The entropy in nats. `loc` only changes the shape of the result, which is that of mu and loc broadcast."""
    shape = jnp.broadcast_shapes(jnp.shape(mu), jnp.shape(loc))
    few = (mu > 0) & (mu < _MANY)
    x = jnp.where(few, mu, 1)[..., None]
    log_mass = _log_mass(np.arange(_TERMS).astype(x.dtype).reshape((1,) * (x.ndim - 1) + (_TERMS,)), x)
    by_sum = -jnp.sum(lax.exp(log_mass) * log_mass, -1)
    y = jnp.where(mu < _MANY, _MANY, mu)
    series = 0.5 * lax.log(2 * math.pi * math.e * y) - jnp.polyval(np.array(_SERIES, y.dtype), 1 / y)
    nearly_0 = entr(jnp.where(mu == 0, mu, 1))                          # the slope at 0 is infinite, that of entr
    return jnp.broadcast_to(jnp.where(mu == 0, nearly_0, jnp.where(few, by_sum, series)), shape)


__getattr__ = attributes_of(__name__)
