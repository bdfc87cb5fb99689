"""Functions of matrices: exponential, square root, polar decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax import lax
from xjax.core.errors import bad
from xjax.core.types import number_of
from xjax.lax.linalg.matrices import adjoint, identity_like, product, symmetrized
from xjax.lax.linalg.solve import solve
from xjax.numpy import abs, any, ceil, diag, diagonal, expand_dims, floor, log2, max, sqrt, sum, where
from xjax.numpy.linalg.arguments import inexact, matrices
from xjax.runtime.one_launch import one_launch
from xjax.scipy.linalg.decompositions import schur
from xjax.scipy.linalg.schur_forms import solve_sylvester
from xjax.transforms.autodiff import jvp
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike

# Coefficients of the diagonal Pade approximants of exp, and the norm up to which their error is below rounding
# (Higham 2005, table 2.3), by bytes of the dtype: of degree 7 for single precision, 13 for double.
_PADE = {
    4: ((17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0), 3.925724783138660),
    8: ((64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
         10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0),
        5.371920351148152),
}


@one_launch
def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponential of square matrices, by scaling, a Pade approximant, and squaring.

    Args:
      A: [..., n, n]. upper_triangular: whether the matrices are upper triangular, which is faster.
      max_squarings: the result is NaN for a matrix so large that it needs more squarings.

    >>> expm(np.array([[0.0, 1.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    A = matrices("scipy.linalg.expm", A, square=True)
    real = A.real.dtype
    coefficients, limit = _PADE[real.itemsize]
    size = lax.stop_gradient(max(sum(abs(A), -2), -1, initial=0))          # the 1-norm
    scale = log2(where(size > limit, size / real.type(limit), real.type(1)))
    squarings = ceil(scale)
    odd, even = _pade(A / expand_dims(2 ** squarings, (-2, -1)).astype(A.dtype), coefficients)
    if upper_triangular:
        result = lax.linalg.triangular_solve(even - odd, even + odd, left_side=True)
    else:
        result = solve(even - odd, even + odd)
    result = _squared(result, squarings, max_squarings + 1)
    return where(expand_dims(floor(scale) > max_squarings, (-2, -1)), number_of(A.dtype, np.nan), result)


def _pade(x: Array, coefficients: tuple[float, ...]) -> tuple[Any, Any]:
    """Odd and even part of the numerator, each by a polynomial in x^2."""
    squared, one = product(x, x), identity_like(x)
    odd, even = coefficients[-1] * one, coefficients[-2] * one
    for k in range(len(coefficients) - 3, 0, -2):       # Horner
        odd = product(squared, odd) + coefficients[k] * one
        even = product(squared, even) + coefficients[k - 1] * one
    return product(x, odd), even


def _squared(x: Array, times: Array, limit: int) -> Array:
    """Matrices [..., n, n], each squared as many times as its element of times[...]."""
    def step(x: Array, i: Array) -> tuple[Any, None]:
        more = expand_dims(i < times, (-2, -1))
        kept = where(more, x, number_of(x.dtype, 0))          # others might overflow, and inf * 0 is a NaN gradient
        return lax.cond(any(more), lambda: where(more, product(kept, kept), x), lambda: x), None
    return lax.scan(step, x, np.arange(limit, dtype=times.dtype))[0]


def expm_frechet(A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """The exponential of A and its derivative in the direction E, both [..., n, n]; one result if not `compute_expm`.

    Raises: ValueError if the shapes differ.
    """
    A, E = inexact("scipy.linalg.expm_frechet", A, E)
    if A.shape != E.shape:
        raise bad("scipy.linalg.expm_frechet", "`A` and `E` differ in shape", given={"A": A.aval, "E": E.aval},
                  fix="make them equal.", exc=ValueError)
    result = jvp(expm, (A,), (E,))
    return result if compute_expm else result[1]


@one_launch
def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of a matrix [n, n], complex.

    Its derivative solves a Sylvester equation, so eigenvalues may be equal; it is NaN at a singular matrix.

    >>> sqrtm(np.array([[4.0, 0.0], [0.0, 9.0]])).real.tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    name = "scipy.linalg.sqrtm"
    if blocksize != 1:
        raise bad(name, "blocks are not supported", given={"blocksize": blocksize}, fix="leave it out.",
                  exc=NotImplementedError)
    A = matrices(name, A, square=True)
    if A.ndim != 2:
        raise bad(name, "takes one matrix", given={"A": A.aval}, fix="use vmap for batches.", exc=ValueError)
    return _sqrtm(A)


@custom_jvp
def _sqrtm(a: Array) -> Array:
    triangular, basis = schur(a, "complex")
    return product(product(basis, _root_of_triangle(triangular)), adjoint(basis))


@_sqrtm.defjvp
def _sqrtm_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """``x dx + dx x = da``, from the derivative of ``x x = a``."""
    x = _sqrtm(*primals)
    return x, solve_sylvester(x, x, tangents[0].astype(x.dtype), tol=0)


def _root_of_triangle(t: Array) -> Array:
    """U with U @ U = t, column by column, each upward from the diagonal (Bjorck and Hammarling 1983)."""
    on_diagonal = sqrt(diagonal(t))

    def column(j: Array, u: Array) -> Array:
        def element(k: Array, u: Array) -> Array:
            i = j - 1 - k
            rest = t[i, j] - sum(u[i] * u[:, j])        # elements that are not computed yet are 0
            return u.at[i, j].set(where(rest == 0, rest, rest / (on_diagonal[i] + on_diagonal[j])))
        return lax.fori_loop(0, j, element, u)
    return lax.fori_loop(0, t.shape[0], column, diag(on_diagonal))


@one_launch
def polar(a: ArrayLike, side: str = "right", *, method: str = "svd", eps: float | None = None,
          max_iterations: int | None = None) -> tuple[Any, Any]:
    """Decompose ``a = u @ p`` or ``a = p @ u``, where u has orthonormal columns or rows and p is positive semidefinite.

    Args:
      a: [..., m, n]. side: "right": ``a = u @ p``, p is [..., n, n]; "left": ``a = p @ u``, p is [..., m, m].
      method, eps, max_iterations: accepted, and do nothing: the decomposition is computed by `svd`.
    Returns: (u [..., m, n], p).
    """
    name = "scipy.linalg.polar"
    if side not in ("right", "left"):
        raise bad(name, f"`side` is {side!r}", fix="pass 'right' or 'left'.", exc=ValueError)
    if method not in ("qdwh", "svd"):
        raise bad(name, f"unknown method {method!r}", fix="pass 'svd', or leave it out.", exc=ValueError)
    a = matrices(name, a)
    left, _, right = lax.linalg.svd(a, full_matrices=False)
    u = product(left, right)
    # Computed from u and a, p has a derivative at equal singular values too, where that of a vector is undefined.
    return u, symmetrized(product(adjoint(u), a) if side == "right" else product(a, adjoint(u)))
