"""Applications of the Schur form: its complex variant, functions of matrices, Sylvester's equation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.lax.linalg.matrices import adjoint, product
from xjax.numpy.linalg.arguments import inexact, matrices
from xjax.numpy.promote import library_rules
from xjax.runtime.jit import library_jit
from xjax.scipy.linalg.decompositions import schur
from xjax.transforms.linear_transpose import linear_transpose
from xjax.typing import Array, ArrayLike

# -- the complex Schur form -----------------------------------------------------------------------------------------


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Any, Any]:
    """The complex Schur form from the real one: T becomes triangular, ``Z @ T @ Z^H`` does not change.

    Args: T, Z: [..., n, n], the results of `schur`.
    Returns: (T, Z), complex.
    Raises: ValueError if the shapes do not fit.
    """
    caller = "scipy.linalg.rsf2csf"
    T, Z = (matrices(caller, x, square=True) for x in inexact(caller, T, Z))
    if T.shape[-1] != Z.shape[-1]:
        raise bad(caller, "`T` and `Z` differ in size", given={"T": T.aval, "Z": Z.aval},
                  fix="pass both results of schur.", exc=ValueError)
    return _to_complex(T, Z)


@library_jit
def _to_complex(t: Array, z: Array) -> tuple[Any, Any]:
    return jnp.vectorize(_rotate_blocks, signature="(n,n),(n,n)->(n,n),(n,n)")(t, z)


def _rotate_blocks(t: Array, z: Array) -> tuple[Any, Any]:
    """Make t triangular: each 2 x 2 block on the diagonal, from the last one, is rotated so that its first element is
    one of its eigenvalues (Golub and Van Loan 2013, section 7.6.4)."""
    n, dtype = t.shape[0], dtypes.to_complex_dtype(t.dtype)
    eps = float(np.finfo(dtype).eps)

    @library_rules
    def rotate(i: Array, state: tuple) -> tuple:
        t, z = state
        k = n - 2 - i
        (a, b), (c, d) = lax.dynamic_slice(t, (k, k), (2, 2))
        half = (a - d) / 2
        root = jnp.sqrt(half * half + b * c)
        vector = jnp.stack([half + jnp.where(half.real < 0, -root, root), c])      # eigenvector of the block
        block = jnp.abs(c) > eps * (jnp.abs(a) + jnp.abs(d))
        x, y = jnp.where(block, vector / jnp.linalg.norm(jnp.where(block, vector, 1)), jnp.array([1, 0], dtype))
        rotation = jnp.array([[x.conj(), y.conj()], [-y, x]])

        def on_columns(matrix: Array) -> Array:
            pair = product(lax.dynamic_slice_in_dim(matrix, k, 2, 1), adjoint(rotation))
            return lax.dynamic_update_slice_in_dim(matrix, pair, k, 1)

        rows = product(rotation, lax.dynamic_slice_in_dim(t, k, 2, 0))
        t = on_columns(lax.dynamic_update_slice_in_dim(t, rows, k, 0))
        return t.at[k + 1, k].set(0), on_columns(z)

    return lax.fori_loop(0, n - 1, rotate, (t.astype(dtype), z.astype(dtype)))


# -- functions of matrices --------------------------------------------------------------------------------------------

@overload
def funm(A: ArrayLike, func: Callable[[Array], Array], disp: Literal[True] = True) -> Array: ...
@overload
def funm(A: ArrayLike, func: Callable[[Array], Array], disp: Literal[False]) -> tuple[Array, Array]: ...


def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Array | tuple[Array, Array]:
    """A function of a matrix, by Parlett's recurrence on its Schur form. It runs on the CPU only and has no derivative.

    Args:
      A: [n, n], with distinct eigenvalues. func: maps the eigenvalues, complex[n], to their n values.
      disp: False: return an estimate of the relative error as well.
    Returns: f = complex[n, n], or (f, float[]).
    Raises: ValueError unless `A` is one square matrix.

    >>> funm(np.array([[4.0, 0.0], [0.0, 9.0]]), jnp.sqrt).real.tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    caller = "scipy.linalg.funm"
    A = matrices(caller, A, square=True)
    if A.ndim != 2:
        raise bad(caller, "takes one matrix", given={"A": A.aval}, fix="use vmap for batches.", exc=ValueError)
    t, z = schur(A, "complex")
    values = func(jnp.diagonal(t))
    f, smallest = _parlett(t, jnp.diag(values).astype(t.dtype))
    result = product(product(z, f), adjoint(z))
    if disp:
        return result
    eps = float(np.finfo(t.dtype).eps)
    spread = jnp.max(jnp.sum(jnp.abs(jnp.triu(t, 1)), 0), initial=0)
    error = jnp.clip(eps / jnp.where(smallest == 0, eps, smallest) * spread, eps, 1)
    return result, jnp.where(jnp.any(jnp.isinf(result)), np.inf, error)


@library_jit
def _parlett(t: Array, f: Array) -> tuple[Any, Any]:
    """f(t) from its diagonal, one diagonal after the other, by ``t f = f t``; and the smallest divisor."""
    n = t.shape[0]
    above = jnp.arange(n)[None, :] - jnp.arange(n)[:, None]
    gaps = jnp.diagonal(t)[None, :] - jnp.diagonal(t)[:, None]
    safe = jnp.where(gaps == 0, 1, gaps)

    def fill(k: Array, f: Array) -> Array:
        return jnp.where(above == k, (product(t, f) - product(f, t)) / safe, f)      # elements not computed yet are 0

    divisors = jnp.where(above > 0, jnp.abs(gaps), np.inf)
    return lax.fori_loop(1, n, fill, f), jnp.min(divisors, initial=jnp.abs(t[0, 0]))


# -- Sylvester's equation ---------------------------------------------------------------------------------------------

def solve_sylvester(A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8) -> Array:
    """The X with ``A @ X + X @ B = C``.

    Args:
      A: [..., m, m]; B: [..., n, n]; C: [..., m, n].
      method: "schur" (Bartels and Stewart), or "eigen": faster, less exact if eigenvectors are nearly dependent.
      tol: the result is NaN if the sum of an eigenvalue of A and one of B is less than this in absolute value.
    Returns: [..., m, n].
    Raises: ValueError for another method, or if the shapes do not fit.

    >>> solve_sylvester(np.array([[1.0]]), np.array([[3.0]]), np.array([[8.0]])).tolist()
    [[2.0]]
    """
    caller = "scipy.linalg.solve_sylvester"
    if method not in _FACTORS:
        raise bad(caller, f"unknown method {method!r}", fix="pass 'schur' or 'eigen'.", exc=ValueError)
    A, B, C = (matrices(caller, x) for x in inexact(caller, A, B, C))
    m, n = C.shape[-2:]
    if A.shape[-2:] != (m, m) or B.shape[-2:] != (n, n):
        raise bad(caller, "the shapes do not fit", given={"A": A.aval, "B": B.aval, "C": C.aval},
                  fix="pass a C with as many rows as A, and as many columns as B.", exc=ValueError)
    return _sylvester(A, B, C, method, tol)


def _schur_factors(a: Array, b: Array) -> tuple[Any, ...]:
    """(R, U, U^-1, S, V, V^-1) with ``a = U R U^-1`` and ``b = V S V^-1``, R and S upper triangular."""
    (r, u), (s, v) = schur(a, "complex"), schur(b, "complex")
    return r, u, adjoint(u), s, v, adjoint(v)


def _eigen_factors(a: Array, b: Array) -> tuple[Any, ...]:
    (r, u), (s, v) = jnp.linalg.eig(a), jnp.linalg.eig(b)
    return jnp.diag(r), u, jnp.linalg.inv(u), jnp.diag(s), v, jnp.linalg.inv(v)


_FACTORS = {"schur": _schur_factors, "eigen": _eigen_factors}


def _solve_factored(factors: Sequence[Any], c: Array, tol: float) -> Array:
    """X from the solution Y of ``R Y + Y S = U^-1 C V``, in which each column is a triangular system."""
    r, u, u_inverse, s, v, v_inverse = factors
    right = product(product(u_inverse, c.astype(r.dtype)), v)
    eye = jnp.eye(r.shape[0], dtype=r.dtype)

    def column(j: Array, y: Array) -> Array:
        known = right[:, j] - product(y, s[:, j][:, None])[:, 0]             # columns of y not computed yet are 0
        return y.at[:, j].set(lax.linalg.triangular_solve(r + s[j, j] * eye, known, left_side=True))

    y = lax.fori_loop(0, s.shape[0], column, jnp.zeros_like(right))
    x = product(product(u, y), v_inverse)
    nearest = jnp.min(jnp.abs(jnp.diagonal(r)[:, None] + jnp.diagonal(s)[None, :]), initial=np.inf)
    x = x if dtypes.is_complex(c.dtype) else x.real
    return jnp.where(nearest < tol, jnp.asarray(np.nan, x.dtype), x)


@functools.partial(library_jit, static_argnums=(3, 4))
def _sylvester(a: Array, b: Array, c: Array, method: str, tol: float) -> Array:
    def one(a: Array, b: Array, c: Array) -> Array:
        factors = _FACTORS[method](*lax.stop_gradient((a, b)))

        def solve(_: Callable[..., Any] | None, c: Array) -> Array:
            return _solve_factored(factors, c, tol)

        def solve_transposed(_: Callable[..., Any], ct: Array) -> Array:
            return linear_transpose(lambda c: solve(None, c), c)(ct)[0]

        # Derivatives of any order solve the same equation, whose left side is linear in x.
        return lax.custom_linear_solve(lambda x: product(a, x) + product(x, b), c, solve, solve_transposed)

    return jnp.vectorize(one, signature="(m,m),(n,n),(m,n)->(m,n)")(a, b, c)
