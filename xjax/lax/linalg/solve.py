"""Systems of linear equations, by LU; the solution and all its derivatives use one decomposition."""

from __future__ import annotations

import numpy as np

from xjax.core.types import typeof
from xjax.lax.linalg.lu import lu
from xjax.lax.linalg.matrices import conjugate, product, take_rows
from xjax.lax.linalg.triangular import triangular_solve
from xjax.lax.linear_solve import custom_linear_solve
from xjax.ops.arrange import broadcasted_iota
from xjax.ops.identity import stop_gradient
from xjax.ops.sort import sort_key_val
from xjax.typing import Array, ArrayLike


def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The x with ``a @ x = b``.

    Args: a: float or complex[..., n, n]; b: the same dtype [..., n, k], with the same batch axes.
    Returns: array like `b`; inf or NaN where a matrix is singular.
    """
    factors, _, order = lu(stop_gradient(a))
    return custom_linear_solve(lambda x: product(a, x), b, solve=lambda _, y: solve_factored(factors, order, y),
                               transpose_solve=lambda _, y: solve_factored(factors, order, y, trans=1))


def solve_factored(factors: ArrayLike, order: ArrayLike, b: ArrayLike, trans: int = 0) -> Array:
    """The x with ``a @ x = b`` (`trans` 1: a^T, 2: a^H) from `lu`'s first result and permutation."""
    if trans == 0:
        x = triangular_solve(factors, take_rows(b, order), left_side=True, lower=True, unit_diagonal=True)
        return triangular_solve(factors, x, left_side=True)
    if trans == 2:
        return conjugate(solve_factored(factors, order, conjugate(b), trans=1))
    x = triangular_solve(factors, b, left_side=True, transpose_a=True)
    x = triangular_solve(factors, x, left_side=True, lower=True, transpose_a=True, unit_diagonal=True)
    return take_rows(x, inverse_order(order))


def inverse_order(order: ArrayLike) -> Array:
    """The permutation that undoes a permutation: int32[..., n]."""
    shape = typeof(order).shape
    return sort_key_val(order, broadcasted_iota(np.int32, shape, len(shape) - 1))[1]
