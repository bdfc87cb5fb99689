"""Iterative solvers for ``A x = b``, where A is a function of vectors: the public namespace `xjax.scipy.sparse.linalg`.

A vector may be any tree of arrays, which the solvers flatten to one array. Derivatives of any order are computed by
further solves (`lax.custom_linear_solve`), so they are as exact as the solves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xjax import lax
from xjax.core.dtypes import is_complex, is_inexact
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.tree import leaf_paths, tree_leaves, tree_map, tree_mismatch, tree_structure
from xjax.core.types import number_of, typeof
from xjax.numpy import asarray, dot, isnan, maximum, real, sqrt, square, vdot, where, zeros_like
from xjax.numpy.ravel_pytree import ravel_pytree
from xjax.ops.dot import Precision
from xjax.scipy.sparse.krylov import batched, incremental, must_continue, repeat
from xjax.typing import Array, PyTree

__all__ = ["bicgstab", "cg", "gmres"]

Operator = Any          # a function of trees, a square matrix, or anything with `@`
Vector = Any
_INT = np.int32


def cg(A: Operator, b: PyTree, x0: PyTree = None, *, tol: float = 1e-5, atol: float = 0.0,
       maxiter: int | None = None, M: Operator = None) -> tuple[Any, None]:
    """Solve ``A x = b`` by conjugate gradients; A must be Hermitian and positive definite (not checked).

    Args:
      A: function of trees like `b`, or an array [n, n], or anything else with `@`.
      b: tree of float or complex arrays. x0: initial x; None: zeros.
      tol, atol: the solver ends when ``|A x - b| <= max(tol * |b|, atol)``, or after `maxiter` steps (None: 10 n).
      M: approximation of the inverse of A, in any of the forms of A.
    Returns: (x, None); SciPy returns the number of steps in place of None.
    Raises: TypeError, ValueError unless A is an operator, and x0 and A(x0) have the structure and shapes of b.

    >>> x, _ = cg(lambda x: {"a": 2.0 * x["a"], "b": 4.0 * x["b"]}, {"a": jnp.ones(2), "b": 2.0})
    >>> x["a"].tolist(), float(x["b"])
    ([0.5, 0.5], 0.5)
    """
    symmetric = not any(is_complex(typeof(x).dtype) for x in tree_leaves(b))
    return _solve("scipy.sparse.linalg.cg", _conjugate_gradients, A, b, x0, (tol, atol), maxiter, M, symmetric), None


def bicgstab(A: Operator, b: PyTree, x0: PyTree = None, *, tol: float = 1e-5, atol: float = 0.0,
             maxiter: int | None = None, M: Operator = None) -> tuple[Any, None]:
    """Solve ``A x = b`` by stabilized biconjugate gradients, for any square A; see `cg` for arguments and result."""
    return _solve("scipy.sparse.linalg.bicgstab", _stabilized_gradients, A, b, x0, (tol, atol), maxiter, M), None


def gmres(A: Operator, b: PyTree, x0: PyTree = None, *, tol: float = 1e-5, atol: float = 0.0, restart: int = 20,
          maxiter: int | None = None, M: Operator = None, solve_method: str = "batched") -> tuple[Any, Any]:
    """Solve ``A x = b`` by generalized minimal residuals, for any square A.

    Args: those of `cg`, and
      restart: dimension of the Krylov space that a step searches for the best x.
      maxiter: maximum number of these steps (None: 10 n).
      solve_method: "batched" builds the whole subspace before it solves for x; "incremental" updates a QR
        decomposition with each vector, and ends as soon as the residual is small enough.
    Returns: (x, info), where info is 0, or -1 if x is NaN.
    """
    name = "scipy.sparse.linalg.gmres"
    methods = {"batched": batched, "incremental": incremental}
    if solve_method not in methods:
        raise bad(name, f"unknown `solve_method` {solve_method!r}", fix="pass 'batched' or 'incremental'.",
                  exc=ValueError)
    size = sum(typeof(x).size for x in tree_leaves(b))

    def method(problem: _Problem) -> Vector:
        step = methods[solve_method](problem.A, problem.M, min(restart, size))
        return repeat(step, problem.A, problem.M, problem.b, problem.x0, sqrt(problem.enough), problem.maxiter)

    x = _solve(name, method, A, b, x0, (tol, atol), maxiter, M)
    failed = isnan(sum(_inner(v, v) for v in tree_leaves(x)))
    return x, where(failed, -1, 0)


# -- the problem in vectors ---------------------------------------------------------------------------------------

class _Problem(NamedTuple):
    """``A x = b`` where x and b are one array each; M approximates the inverse of A."""

    A: Callable[[Vector], Vector]
    M: Callable[[Vector], Vector]
    b: Vector
    x0: Vector
    enough: Any                         # square of the norm of the residual that ends the search
    maxiter: int


def _solve(name: str, method: Callable[[_Problem], Vector], A: Operator, b: PyTree, x0: PyTree, tolerance: tuple,
           maxiter: int | None, M: Operator, symmetric: bool = False) -> PyTree:
    b = tree_map(asarray, b)
    x0 = tree_map(zeros_like if x0 is None else asarray, b if x0 is None else x0)
    _check_like(name, b, x0)
    A, M = _as_function(name, "A", A), _as_function(name, "M", M)
    if maxiter is None:
        maxiter = 10 * sum(x.size for x in tree_leaves(b))

    def solve(matvec: Callable, rhs: PyTree) -> PyTree:
        flat, unravel = ravel_pytree(rhs)

        def of_vectors(f: Callable) -> Callable[[Vector], Vector]:
            return lambda v: ravel_pytree(f(unravel(v)))[0].astype(flat.dtype)

        tol, atol = tolerance
        enough = maximum(square(tol) * _inner(flat, flat), square(atol))
        return unravel(method(_Problem(of_vectors(matvec), of_vectors(M), flat, ravel_pytree(x0)[0].astype(flat.dtype),
                                       enough, maxiter)))

    return lax.custom_linear_solve(A, b, solve=solve, transpose_solve=solve, symmetric=symmetric)


def _as_function(name: str, which: str, A: Operator) -> Callable:
    if A is None:
        return lambda x: x
    if callable(A):
        return A
    shape = np.shape(A)
    if not hasattr(A, "__matmul__"):
        raise bad(name, f"`{which}` is not a linear operator", given={which: type(A).__name__},
                  fix="pass a function of x, a square matrix, or an object that has A @ x.")
    if len(shape) != 2 or shape[0] != shape[1]:
        raise bad(name, f"`{which}` must be a square matrix", given={which: f"shape {shape}"},
                  fix="pass a matrix [n, n], or a function.", exc=ValueError)
    if hasattr(A, "dtype") and hasattr(A, "__array__"):
        return lambda x: dot(A, x, precision=Precision.HIGHEST)
    return lambda x: A @ x


def _check_like(name: str, b: PyTree, x0: PyTree) -> None:
    tree = tree_structure(b)
    if tree_structure(x0) != tree:
        raise bad(name, "`x0` and `b` differ in structure", given=tree_mismatch("x0", tree, tree_structure(x0)),
                  fix="start from a tree like b.", exc=ValueError)
    for path, x, y in zip(leaf_paths("", tree), tree_leaves(b), tree_leaves(x0), strict=True):
        if x.shape != y.shape:
            raise bad(name, "`x0` and `b` differ in shape", given={f"b{path}": typeof(x), f"x0{path}": typeof(y)},
                      fix="start from a tree like b.", exc=ValueError)
        if not is_inexact(x.dtype):
            raise bad(name, "`b` must be of floating-point or complex numbers", given={f"b{path}": typeof(x)},
                      fix="convert it with astype(float).")


def _inner(x: Vector, y: Vector) -> Array:
    """Real part of the inner product; for x = y it is the whole product."""
    return real(vdot(x, y, precision=Precision.HIGHEST))


# -- methods ------------------------------------------------------------------------------------------------------

class _Descent(NamedTuple):
    x: Vector
    residual: Vector
    direction: Vector
    gamma: Any                          # residual . M residual
    left: Any                           # square of the norm of the residual
    steps: Any


def _conjugate_gradients(problem: _Problem) -> Vector:
    A, M = problem.A, problem.M

    def begin() -> _Descent:
        residual = problem.b - A(problem.x0)
        z = M(residual)
        return _Descent(problem.x0, residual, z, _inner(residual, z), _inner(residual, residual), _INT(0))

    def step(s: _Descent) -> _Descent:
        Ap = A(s.direction)
        alpha = s.gamma / _inner(s.direction, Ap)
        residual = s.residual - alpha * Ap
        z = M(residual)
        gamma = _inner(residual, z)
        return _Descent(s.x + alpha * s.direction, residual, z + gamma / s.gamma * s.direction, gamma,
                        _inner(residual, residual), s.steps + 1)

    return lax.while_loop(lambda s: must_continue(s.left, problem.enough, s.steps, problem.maxiter), step, begin()).x


class _Stabilized(NamedTuple):
    x: Vector
    residual: Vector
    direction: Vector                   # p, and A M p, in the notation of van der Vorst (1992)
    image: Vector
    rho: Any
    alpha: Any
    omega: Any
    left: Any
    steps: Any
    broken: Any                         # the next step would divide by zero


def _stabilized_gradients(problem: _Problem) -> Vector:
    A, M, b = problem.A, problem.M, problem.b
    start = b - A(problem.x0)           # also the shadow residual, which is constant

    def step(s: _Stabilized) -> _Stabilized:
        rho = _product(start, s.residual)
        p = s.residual + rho / s.rho * s.alpha / s.omega * (s.direction - s.omega * s.image)
        p_hat = M(p)
        image = A(p_hat)
        alpha = rho / _product(start, image)
        half = s.residual - alpha * image
        half_hat = M(half)
        t = A(half_hat)
        omega = _product(t, half) / _product(t, t)
        done = _inner(half, half) < problem.enough
        x = s.x + alpha * p_hat + where(done, 0, omega * half_hat)
        residual = half - where(done, 0, omega * t)
        return _Stabilized(x, residual, p, image, rho, alpha, omega, _inner(residual, residual), s.steps + 1,
                           (rho == 0) | (alpha == 0) | (omega == 0))

    one = number_of(b.dtype, 1)
    return lax.while_loop(
        lambda s: must_continue(s.left, problem.enough, s.steps, problem.maxiter) & ~s.broken, step,
        _Stabilized(problem.x0, start, start, start, one, one, one, _inner(start, start), _INT(0), np.bool_(False))).x


def _product(x: Vector, y: Vector) -> Array:
    return vdot(x, y, precision=Precision.HIGHEST)


__getattr__ = attributes_of(__name__)
