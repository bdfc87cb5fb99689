"""Student's t distribution with df degrees of freedom: density proportional to ``(1 + z**2 / df)**(-(df + 1) / 2)``.

Here ``z = (x - loc) / scale``. Where the scale is negative, the density is that for ``abs(scale)``, as in JAX.

>>> round(float(pdf(0.0, 1.0)), 4), round(float(logpdf(1.0, 30.0)), 4)
(0.3183, -1.4355)
"""

from __future__ import annotations

import functools
import math

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.public import attributes_of
from xjax.scipy.arguments import horner
from xjax.scipy.gamma_functions import bernoulli_numbers
from xjax.scipy.stats.distribution import POSITIVE, Distribution, log1p_square, standard
from xjax.typing import Array, ArrayLike

__all__ = ["logpdf", "pdf"]

_t = Distribution("t", df=POSITIVE)


@_t
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    z = standard(x, loc, scale)
    constant = _log_gamma_ratio(0.5 * df) - 0.5 * math.log(2 * math.pi) - lax.log(lax.abs(scale))
    return constant - 0.5 * (df + 1) * log1p_square(lax.div(z, lax.sqrt(df)))


def _log_gamma_ratio(a: ArrayLike) -> Array:
    """``log(gamma(a + 1/2) / (gamma(a) sqrt(a)))``.

    For a >= 10 it is the difference of both asymptotic series, which has no large terms.
    """
    large = a >= 10
    few, inverse = jnp.where(large, 1, a), 1 / jnp.where(large, a, 10)
    plain = lax.lgamma(few + 0.5) - lax.lgamma(few) - 0.5 * lax.log(few)
    return jnp.where(large, -inverse * horner(inverse * inverse, _ratio_terms()), plain)


@functools.cache
def _ratio_terms() -> np.ndarray:
    """Coefficients ``2 (1 - 4**-k) B(2 k) / (2 k (2 k - 1))``, k = 1, 2 ... (from DLMF 5.11.8 at h = 1/2 and 0)."""
    k = np.arange(1, 11)
    return 2 * (1 - 4.0 ** -k) * bernoulli_numbers(20)[2::2] / (2 * k * (2 * k - 1))


pdf = _t.exp("pdf", logpdf)


__getattr__ = attributes_of(__name__)
