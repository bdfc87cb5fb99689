"""Systems of equations with a kernel matrix: by Cholesky's decomposition, or by preconditioned conjugate gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax
from xjax.errors import bad, check_choice
from xjax.scipy import linalg
from xjax.scipy.sparse.linalg import cg
from xjax.typing import Array

Solver: TypeAlias = Literal["cholesky", "cg"]
SOLVERS = ("cholesky", "cg")


class IllConditioned(UserWarning):
    """A kernel matrix is so close to a singular one that solutions with it are mostly rounding."""


def regularized(caller: str, kernel: Array, diag_reg: float, absolute: bool) -> Array:
    """The kernel with ``diag_reg`` times the mean of its diagonal, or times 1 if `absolute`, added to its diagonal."""
    if kernel.ndim != 2 or kernel.shape[0] != kernel.shape[1]:
        raise bad(caller, "the kernel of the training inputs must be a square matrix", {"kernel": str(kernel.shape)},
                  "pass model.kernel(x_train, get=...), without x2.", ValueError)
    scale = 1.0 if absolute else jnp.mean(jnp.diagonal(kernel))
    return kernel + jnp.eye(kernel.shape[0], dtype=kernel.dtype) * (diag_reg * scale)


def solver_of(caller: str, kernel: Array, solver: Solver = "cholesky", rank: int | None = None,
              tolerance: float | None = None) -> Callable[[Array], Array]:
    """``b -> x`` with ``kernel @ x = b``, for columns b [n, k].

    Args:
      kernel: symmetric and positive definite.
      solver: "cholesky", or "cg" for more than some 10,000 inputs, preconditioned by a Nystrom approximation: the
        kernel restricted to `rank` of the inputs (Rudi et al., 2017).
      rank: default: a tenth of the inputs, at most 1,000.
      tolerance: of "cg": relative residual; default: 100 roundings of the dtype.
    Raises: ValueError if the decomposition fails; the error names the condition.
    Warns: `IllConditioned` if the condition is above a tenth of the inverse of the rounding.
    """
    check_choice(caller, "solver", solver, SOLVERS)
    return _by_cholesky(caller, kernel) if solver == "cholesky" else _by_cg(kernel, rank, tolerance)


def _by_cholesky(caller: str, kernel: Array) -> Callable[[Array], Array]:
    factor = linalg.cho_factor(kernel, lower=True)
    _check_condition(caller, kernel, factor[0])
    return lambda b: linalg.cho_solve(factor, b)


def _check_condition(caller: str, kernel: Array, factor: Array) -> None:
    if isinstance(factor, xjax.core.Tracer) or not kernel.size:
        return
    pivots = np.asarray(jnp.diagonal(factor))
    rounding = float(np.finfo(pivots.dtype).eps)
    if not np.all(np.isfinite(pivots)):
        low, high = np.linalg.eigvalsh(np.asarray(kernel, np.float64))[[0, -1]]
        raise bad(caller, "the kernel matrix is not positive definite, so the equations cannot be solved",
                  {"eigenvalues": f"{low:.3g} to {high:.3g}", "dtype": kernel.dtype},
                  f"pass a larger diag_reg, such as {max(1e-6, 10 * rounding):.0e}, remove inputs that are equal, or "
                  "compute in float64.", ValueError)
    condition = float((pivots.max() / pivots.min()) ** 2)              # a lower bound
    if condition > 0.1 / rounding:
        warnings.warn(f"{caller}: the condition of the kernel matrix is at least {condition:.1e} in {kernel.dtype}, so "
                      "that the solution is mostly rounding.\n  fix: pass a larger diag_reg, or compute in float64.",
                      IllConditioned, stacklevel=4)


def _by_cg(kernel: Array, rank: int | None, tolerance: float | None) -> Callable[[Array], Array]:
    n = kernel.shape[0]
    rank = min(n, rank or max(1, min(n // 10, 1000)))
    tolerance = tolerance or 100 * float(jnp.finfo(kernel.dtype).eps)
    # A Nystrom approximation B B^T, and the rest of the diagonal as a multiple of the identity. By Woodbury's formula
    # (s I + B B^T)^-1 = (I - B (s I + B^T B)^-1 B^T) / s.
    chosen = np.sort(np.random.default_rng(0).choice(n, rank, replace=False))
    columns = kernel[:, chosen]
    inner = columns[chosen]
    jitter = jnp.trace(inner) * (10 * jnp.finfo(kernel.dtype).eps)
    lower = jnp.linalg.cholesky(inner + jnp.eye(rank, dtype=kernel.dtype) * jitter)
    b = linalg.solve_triangular(lower, columns.T, lower=True).T
    rest = jnp.maximum(jnp.mean(jnp.diagonal(kernel) - jnp.sum(b * b, 1)), jitter)
    small = linalg.cho_factor(b.T @ b + jnp.eye(rank, dtype=kernel.dtype) * rest, lower=True)

    def precondition(r: Array) -> Array:
        return (r - b @ linalg.cho_solve(small, b.T @ r)) / rest

    def solve(right: Array) -> Array:
        columns = jnp.reshape(right, (n, -1)).T
        def solve_one(column: Array) -> Array:
            return cg(lambda v: kernel @ v, column, tol=tolerance, maxiter=10 * n, M=precondition)[0]

        return jnp.reshape(lax.map(solve_one, columns).T, right.shape)

    return solve
