"""Random vectors and matrices that need linear algebra: multivariate_normal, orthogonal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import xjax.numpy as jnp
from xjax.core.calls import constrained
from xjax.core.errors import bad, check_choice
from xjax.core.types import typeof
from xjax.lax.shapes import broadcast_shapes
from xjax.numpy import linalg
from xjax.numpy.promote import promote_inexact
from xjax.ops.checks import static_int
from xjax.random.arguments import check_dtype, check_key, check_shape, common_shape, compiled
from xjax.random.continuous import normal, normal_floats
from xjax.typing import Array, ArrayLike, DTypeLike, PRNGKey

_METHODS = ("cholesky", "eigh", "svd")


def multivariate_normal(key: PRNGKey, mean: ArrayLike, cov: ArrayLike, shape: Sequence[int] | None = None,
                        dtype: DTypeLike | None = None, method: str = "cholesky", *,
                        out_sharding: object = None) -> Array:
    """Vectors of the normal distribution with a mean and a covariance matrix.

    Args:
      mean: float[..., n]; cov: float[..., n, n], positive definite (semidefinite suffices for "svd" and "eigh").
      shape: that of the batch, to which the leading axes of mean and cov broadcast (None: their common shape).
      method: "cholesky", "svd" or "eigh": the decomposition of cov that gives the factor of standard normal vectors.
    Returns: float[*shape, n].
    Raises: ValueError for shapes that do not fit, a dtype that is not a float, or another method.

    >>> multivariate_normal(random.PRNGKey(0), np.zeros(2), np.eye(2), (3,)).shape
    (3, 2)
    """
    if out_sharding is not None:
        y = multivariate_normal(key, mean, cov, shape, dtype, method)
        return constrained("random.multivariate_normal", y, out_sharding)
    caller = "random.multivariate_normal"
    key = check_key("multivariate_normal", key)
    mean, cov = promote_inexact(caller, mean, cov)
    check_choice(caller, "method", method, _METHODS)
    mean_aval, cov_aval = typeof(mean), typeof(cov)
    dtype = check_dtype("multivariate_normal", mean_aval.dtype if dtype is None else dtype, "f")
    if not mean_aval.ndim or cov_aval.ndim < 2 or cov_aval.shape[-2:] != mean_aval.shape[-1:] * 2:
        raise bad(caller, "`mean` and `cov` do not fit", given={"mean": mean_aval, "cov": cov_aval},
                  fix="pass a mean of shape (..., n) and a cov of shape (..., n, n).", exc=ValueError)
    n = mean_aval.shape[-1]
    batch = broadcast_shapes(mean_aval.shape[:-1], cov_aval.shape[:-2]) if shape is None else shape
    whole = (*check_shape("multivariate_normal", batch), n)
    common_shape("multivariate_normal", (*whole, n), cov)
    common_shape("multivariate_normal", whole, mean)
    return compiled(_multivariate_normal, whole, dtype, method)(key, mean, cov)


def _multivariate_normal(shape: tuple[int, ...], dtype: np.dtype, method: str, key: PRNGKey, mean: Array,
                         cov: Array) -> Array:
    if method == "svd":
        u, s, _ = linalg.svd(cov)
        factor = u * jnp.sqrt(s[..., None, :])
    elif method == "eigh":
        w, v = linalg.eigh(cov)
        factor = v * jnp.sqrt(w[..., None, :])
    else:
        factor = linalg.cholesky(cov)
    return mean + jnp.einsum("...ij,...j->...i", factor, normal_floats(shape, dtype, key))


def orthogonal(key: PRNGKey, n: int, shape: Sequence[int] = (), dtype: DTypeLike | None = None,
               m: int | None = None, *, out_sharding: object = None) -> Array:
    """Matrices with orthonormal rows or columns, uniformly distributed (Haar measure).

    Args: n, m: static ints, rows and columns (None: n); dtype: float or complex.
    Returns: [*shape, n, m]; the rows are orthonormal if n <= m, the columns if n >= m.
    """
    if out_sharding is not None:
        return constrained("random.orthogonal", orthogonal(key, n, shape, dtype, m), out_sharding)
    key = check_key("orthogonal", key)
    dtype = check_dtype("orthogonal", dtype, "fc")
    n = static_int(n, "n", "random.orthogonal")
    m = n if m is None else static_int(m, "m", "random.orthogonal")
    return compiled(_orthogonal, check_shape("orthogonal", shape), dtype, n, m)(key)


def _orthogonal(shape: tuple[int, ...], dtype: np.dtype, n: int, m: int, key: PRNGKey) -> Array:
    q, r = linalg.qr(normal(key, (*shape, max(n, m), min(n, m)), dtype))
    # The decomposition is unique, and the distribution uniform, only if the diagonal of R is positive.
    x = q * jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    return jnp.swapaxes(x, -1, -2) if n < m else x
