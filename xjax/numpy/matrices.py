"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.numpy.composed import power
from xjax.numpy.creation import asarray, below_diagonal, tri
from xjax.numpy.manipulate import moveaxis, ravel
from xjax.numpy.promote import default_int, library_rules
from xjax.numpy.selection import choose
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.arrange import broadcasted_iota
from xjax.ops.checks import canonical_axis, static_int
from xjax.ops.compare import eq, select
from xjax.ops.elementwise import add
from xjax.ops.makers import filled_like, scalar_like
from xjax.ops.shape import broadcast_in_dim, expand_dims, reshape
from xjax.ops.slice import pad as lax_pad
from xjax.ops.slice import slice_in_dim
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike


@one_launch
def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or the matrix with a vector on its k-th diagonal.

    Raises: ValueError for other ranks.
    """
    caller = "numpy.diag"
    v, k = to_array_like(caller, v), static_int(k, "k", caller)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise bad(caller, "takes a vector or a matrix", given={"v": v.aval}, fix="use diagonal for more axes.",
                  exc=ValueError)
    n = v.shape[0] + abs(k)
    zero = scalar_like(v, 0)
    column = lax_pad(v, zero, [(max(0, k), max(0, -k), 0)]) if k else v
    rows, columns = broadcasted_iota(np.int32, (n, n), 0), broadcasted_iota(np.int32, (n, n), 1)
    # Column j of a matrix with the vector above the diagonal holds v[j - k].
    on_diagonal = eq(add(rows, np.int32(k)), columns)
    return choose(on_diagonal, expand_dims(column, (0,)), zero)


@one_launch
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix with all elements of `v` on its k-th diagonal."""
    return diag(ravel(v), k)


@one_launch
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """A diagonal of two axes, as a new last axis.

    >>> diagonal(np.arange(6).reshape(2, 3), 1)
    Array([1, 5], dtype=int32)
    """
    caller = "numpy.diagonal"
    a, offset = to_array_like(caller, a), static_int(offset, "offset", caller)
    i, j = canonical_axis(axis1, a.ndim, caller, "axis1"), canonical_axis(axis2, a.ndim, caller, "axis2")
    if i == j:
        raise bad(caller, "`axis1` and `axis2` are the same axis", given={"a": a.aval}, fix="pass two axes.",
                  exc=ValueError)
    a = moveaxis(a, (i, j), (-2, -1))
    *outer, n, m = a.shape
    size = max(0, min(n + min(offset, 0), m - max(offset, 0)))
    first, step = max(offset, 0) - min(offset, 0) * m, m + 1
    start, stop = (first, first + (size - 1) * step + 1) if size else (0, 0)
    return slice_in_dim(reshape(a, (*outer, n * m)), start, stop, step, -1)


def _triangle(caller: str, m: ArrayLike, k: int, below: bool) -> Array:
    m = to_array_like(caller, m)
    if m.ndim < 2:
        raise bad(caller, "needs at least 2 axes", given={"m": m.aval}, fix="use diag for vectors.", exc=ValueError)
    lower = below_diagonal(m.shape[-2:], static_int(k, "k", caller) - (not below))
    lower = broadcast_in_dim(lower, m.shape, (m.ndim - 2, m.ndim - 1)) if m.ndim > 2 else lower
    zeros = filled_like(m, 0)
    return select(lower, m, zeros) if below else select(lower, zeros, m)


@one_launch
def tril(m: ArrayLike, k: int = 0) -> Array:
    """`m` with zeros above the k-th diagonal of the last two axes."""
    return _triangle("numpy.tril", m, k, True)


@one_launch
def triu(m: ArrayLike, k: int = 0) -> Array:
    """`m` with zeros below the k-th diagonal of the last two axes."""
    return _triangle("numpy.triu", m, k, False)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """Indices of the diagonal of an array with `ndim` axes of size n."""
    return (asarray(np.arange(static_int(n, "n", "numpy.diag_indices"), dtype=default_int())),) * ndim


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Indices of the elements on and below the k-th diagonal of a matrix [n, m]."""
    rows, columns = (asarray(i.astype(default_int())) for i in np.tril_indices(n, k, m))
    return rows, columns


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Indices of the elements on and above the k-th diagonal of a matrix [n, m]."""
    rows, columns = (asarray(i.astype(default_int())) for i in np.triu_indices(n, k, m))
    return rows, columns


@one_launch
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Matrix whose columns are the powers of a vector, the highest first unless `increasing`."""
    caller = "numpy.vander"
    x = to_array_like(caller, x)
    if x.ndim != 1:
        raise bad(caller, "takes a vector", given={"x": x.aval}, fix="use x.ravel().", exc=ValueError)
    n = x.shape[0] if N is None else static_int(N, "N", caller)
    exponents = np.arange(n, dtype=np.int32) if increasing else np.arange(n, dtype=np.int32)[::-1]
    return library_rules(power)(expand_dims(x, (1,)), exponents[None, :].copy())


__all__ = ["diag", "diag_indices", "diagflat", "diagonal", "tri", "tril", "tril_indices", "triu", "triu_indices",
           "vander"]
