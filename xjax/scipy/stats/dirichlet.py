"""The Dirichlet distribution of shares of a whole: density proportional to the product of ``x[i]**(alpha[i] - 1)``.

>>> round(float(pdf(np.array([0.2, 0.3, 0.5]), np.array([1.0, 1.0, 1.0]))), 4)
2.0
"""

from __future__ import annotations

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.types import typeof
from xjax.numpy.promote import promote_inexact
from xjax.runtime.one_launch import one_launch
from xjax.scipy.special import gammaln, xlogy
from xjax.typing import Array, ArrayLike

__all__ = ["logpdf", "pdf"]


@one_launch(arrays=2)
def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Logarithm of the density at x; -inf unless no share is negative and their sum is 1, to 1e-6.

    Where a share is 0 the result is the limit from inside: finite if its alpha is 1, inf if alpha < 1. It is nan unless
    all alpha are > 0.

    Args: x: [n, ...], or [n - 1, ...] without the last share; alpha: [n].
    Raises: ValueError for other shapes.
    """
    caller = "scipy.stats.dirichlet.logpdf"
    x, alpha = (jnp.asarray(a) for a in promote_inexact(caller, x, alpha))
    given = {"x": typeof(x), "alpha": typeof(alpha)}
    if alpha.ndim != 1:
        raise bad(caller, "`alpha` must have one axis", given, "pass alpha of shape [n].", exc=ValueError)
    n = alpha.shape[0]
    if not x.ndim or x.shape[0] not in (n, n - 1):
        raise bad(caller, "the first axis of `x` must have an element for each of `alpha`, or one fewer", given,
                  f"pass x of shape [{n}, ...] or [{n - 1}, ...].", exc=ValueError)
    if x.shape[0] == n - 1:
        x = jnp.concatenate([x, 1 - jnp.sum(x, 0, keepdims=True)])
    tolerance = max(1e-6, 4 * float(dtypes.finfo(x.dtype).eps))     # floats of 16 bits have rounding errors above 1e-6
    inside = jnp.all(x >= 0, 0) & (jnp.abs(jnp.sum(x, 0) - 1) < tolerance)
    exponents = jnp.reshape(alpha - 1, (n,) + (1,) * (x.ndim - 1))
    powers = jnp.sum(xlogy(exponents, jnp.where(inside, x, 1)), 0)
    density = jnp.where(inside, powers + gammaln(jnp.sum(alpha)) - jnp.sum(gammaln(alpha)), -np.inf)
    return jnp.where(jnp.all(alpha > 0) & ~jnp.any(x != x, 0), density, np.nan)


@one_launch(arrays=2)
def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Density at x: ``exp(logpdf(x, alpha))``."""
    return lax.exp(logpdf(x, alpha))


__getattr__ = attributes_of(__name__)
