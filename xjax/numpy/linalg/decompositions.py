"""Decompositions under NumPy's names: cholesky, qr, svd, eigenvalues."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from xjax.core.errors import bad, check_choice
from xjax.lax import linalg as lax_linalg
from xjax.lax.linalg.matrices import adjoint
from xjax.lax.linalg.qr import geqrf
from xjax.numpy.linalg.arguments import matrices
from xjax.numpy.manipulate import matrix_transpose
from xjax.numpy.take import take_along_axis
from xjax.ops.arrange import broadcasted_iota, rev
from xjax.ops.piecewise import abs, sign
from xjax.ops.shape import expand_dims
from xjax.ops.sort import sort
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike


class EigResult(NamedTuple):
    """eigenvalues: complex[..., n]; eigenvectors: complex[..., n, n], one in each column."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """eigenvalues: real[..., n], ascending; eigenvectors: [..., n, n], one in each column."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """Q: orthonormal columns; R: upper triangular."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """U: orthonormal columns; S: real, descending; Vh: orthonormal rows."""

    U: Any
    S: Any
    Vh: Any


@one_launch
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with ``L @ L^H = a``, or its adjoint with `upper`.

    Args:
      a: [..., n, n], Hermitian and positive definite. symmetrize_input: use half the sum of `a` and its adjoint.
    Returns: array like `a`; NaN where a matrix is not positive definite.

    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    a = matrices("numpy.linalg.cholesky", a, square=True)
    result = lax_linalg.cholesky(a, symmetrize_input=symmetrize_input)
    return adjoint(result) if upper else result


@one_launch
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """Decompose ``a = Q @ R``.

    Args:
      a: [..., m, n].
      mode: "reduced": Q is [..., m, k] with k = min(m, n); "complete": [..., m, m]; "r": R alone; "raw": the packed
        result of LAPACK, transposed, and the factors of its reflections.
    Returns: `QRResult`, or R.

    >>> q, r = qr(np.array([[3.0], [4.0]]))
    >>> round(float(r[0, 0]) ** 2, 3)
    25.0
    """
    caller = "numpy.linalg.qr"
    a = matrices(caller, a)
    if mode == "raw":
        packed, taus = geqrf(a)
        return QRResult(matrix_transpose(packed), taus)
    check_choice(caller, "mode", mode, ("reduced", "complete", "r", "raw", "full"))
    q, r = lax_linalg.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


@one_launch
def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
        subset_by_index: tuple[int, int] | None = None) -> Any:
    """Decompose ``a = U @ diag(S) @ Vh``.

    Args:
      a: [..., m, n]. full_matrices: whether U and Vh are square. compute_uv: whether to return U and Vh too.
      hermitian: whether `a` is Hermitian, which is faster. subset_by_index: None, or the range of all singular values.
    Returns: `SVDResult`, or S real[..., min(m, n)]. The derivative of U and Vh needs full_matrices=False; for equal
      singular values see `lax.linalg.svd`.

    >>> svd(np.diag(np.array([1.0, 3.0])), compute_uv=False).tolist()
    [3.0, 1.0]
    """
    caller = "numpy.linalg.svd"
    a = matrices(caller, a, square=hermitian)
    if hermitian:
        return _hermitian_svd(a, compute_uv, subset_by_index)
    result = lax_linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
    return SVDResult(*result) if compute_uv else result


def _hermitian_svd(a: Array, compute_uv: bool, subset: tuple[int, int] | None) -> Any:
    """The singular values are the absolute values of the eigenvalues, whose signs are applied to V."""
    v, w = lax_linalg.eigh(a, subset_by_index=subset)
    last = w.ndim - 1
    if not compute_uv:
        return rev(sort(abs(w)), (last,))
    columns = broadcasted_iota(np.int32, w.shape, last)
    s, order, signs = (rev(x, (last,)) for x in sort((abs(w), columns, sign(w)), num_keys=1))
    u = take_along_axis(v, expand_dims(order, (last,)), -1)
    return SVDResult(u, s, adjoint(u * expand_dims(signs, (last,)).astype(u.dtype)))


@one_launch
def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of [..., m, n], descending: real[..., min(m, n)]."""
    return lax_linalg.svd(matrices("numpy.linalg.svdvals", x), compute_uv=False)


@one_launch
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices [..., n, n].

    Args:
      symmetrize_input: use half the sum of `a` and its adjoint; otherwise the triangle `UPLO` ("L" or "U") of `a`.
    For derivatives at equal eigenvalues see `lax.linalg.eigh`.
    """
    caller = "numpy.linalg.eigh"
    if UPLO not in (None, "L", "U"):
        raise bad(caller, f"`UPLO` is {UPLO!r}", fix="pass 'L' or 'U'.", exc=ValueError)
    v, w = lax_linalg.eigh(matrices(caller, a, square=True), lower=UPLO != "U", symmetrize_input=symmetrize_input)
    return EighResult(w, v)


@one_launch
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """Eigenvalues of Hermitian matrices, ascending: see `eigh`.

    >>> eigvalsh(np.array([[0.0, 1.0], [1.0, 0.0]])).round(3).tolist()
    [-1.0, 1.0]
    """
    return eigh(a, UPLO, symmetrize_input).eigenvalues


@one_launch
def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices [..., n, n], complex, in no order: see `lax.linalg.eig`."""
    w, v = lax_linalg.eig(matrices("numpy.linalg.eig", a, square=True), compute_left_eigenvectors=False)
    return EigResult(w, v)


@one_launch
def eigvals(a: ArrayLike) -> Array:
    """Eigenvalues of square matrices [..., n, n]: complex[..., n], in no order."""
    return lax_linalg.eig(matrices("numpy.linalg.eigvals", a, square=True), compute_left_eigenvectors=False,
                          compute_right_eigenvectors=False)[0]
