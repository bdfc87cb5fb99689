"""The normal distribution of vectors: density ``exp(-|z|**2 / 2) / sqrt((2 pi)**n det(cov))``.

Here z is the solution of ``L z = x - mean``, where L is the Cholesky factor of cov.

>>> round(float(pdf(np.zeros(2), np.zeros(2), np.eye(2))), 4)
0.1592
"""

from __future__ import annotations

import math

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.types import typeof
from xjax.numpy.promote import library_rules, promote_inexact
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike

__all__ = ["logpdf", "pdf"]


def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """Logarithm of the density at x; nan if `cov` is not positive definite.

    Args:
      x: [..., n]; mean: [..., n] or a number; cov: [..., n, n], or a number times the identity. All are floats.
      allow_singular: must be None.
    Raises: ValueError if `cov` has another shape; NotImplementedError for another allow_singular.
    """
    if allow_singular is not None:
        raise bad("scipy.stats.multivariate_normal.logpdf", "singular covariances are not supported",
                  given={"allow_singular": repr(allow_singular)}, exc=NotImplementedError,
                  fix="leave it out, and add a small multiple of the identity to `cov`.")
    return _logpdf(x, mean, cov)


def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """Density at x; arguments and errors are those of `logpdf`."""
    return _pdf(x, mean, cov)


@one_launch(arrays=3)
def _logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    caller = "scipy.stats.multivariate_normal.logpdf"
    x, mean, cov = (jnp.asarray(a) for a in promote_inexact(caller, x, mean, cov))
    if cov.ndim and mean.ndim and cov.shape[-2:] != mean.shape[-1:] * 2:
        raise bad(caller, "`cov` must have a row and a column for each element of `mean`", exc=ValueError,
                  given={"mean": typeof(mean), "cov": typeof(cov)},
                  fix=f"pass a cov of shape [..., {mean.shape[-1]}, {mean.shape[-1]}].")
    return _log_density(x, mean, cov)


@library_rules
def _log_density(x: Array, mean: Array, cov: Array) -> Array:
    y = x - mean
    if not mean.ndim or not cov.ndim:                       # independent numbers of variance cov
        n = mean.shape[-1] if mean.ndim else 1
        squares = jnp.sum(jnp.square(y), -1) if mean.ndim else jnp.square(y)
        return -0.5 * (squares / cov + n * (jnp.log(cov) + math.log(2 * math.pi)))
    factor = lax.linalg.cholesky(cov)
    return log_peak(factor) - 0.5 * jnp.sum(jnp.square(whitened(factor, y)), -1)


@one_launch(arrays=3)
def _pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    return lax.exp(_logpdf(x, mean, cov))


def log_peak(factor: Array) -> Array:
    """Logarithm of the density at the mean, for a Cholesky factor [..., n, n] of the covariance."""
    log_det = jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
    return -log_det - 0.5 * factor.shape[-1] * math.log(2 * math.pi)


def whitened(factor: Array, y: Array) -> Array:
    """z[..., n] with ``factor z = y`` for y[..., n]. For a single factor it is one solve for all y."""
    if factor.ndim == 2:
        rows = jnp.reshape(y, (-1, y.shape[-1]))
        z = lax.linalg.triangular_solve(factor, rows, left_side=False, lower=True, transpose_a=True)
        return jnp.reshape(z, y.shape)
    batch = np.broadcast_shapes(factor.shape[:-2], y.shape[:-1])
    factor = jnp.broadcast_to(factor, (*batch, *factor.shape[-2:]))
    column = jnp.broadcast_to(y, (*batch, y.shape[-1]))[..., None]
    return lax.linalg.triangular_solve(factor, column, left_side=True, lower=True)[..., 0]


__getattr__ = attributes_of(__name__)
