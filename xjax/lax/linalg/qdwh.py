"""Polar decomposition by an iteration of QR and Cholesky decompositions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import number_of, typeof
from xjax.lax.linalg.matrices import (
    adjoint,
    check_matrix,
    identity_like,
    product,
    real_dtype,
    symmetrized,
)
from xjax.lax.linalg.qr import qr
from xjax.lax.linalg.triangular import cholesky, triangular_solve
from xjax.lax.reductions import reduce_max
from xjax.lax.while_loop import while_loop
from xjax.ops.arrange import broadcasted_iota, concatenate
from xjax.ops.bitwise import bitwise_and, bitwise_not
from xjax.ops.checks import static_int
from xjax.ops.compare import eq, gt, lt, select
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, div, mul, sub
from xjax.ops.makers import filled_like
from xjax.ops.piecewise import abs as absolute
from xjax.ops.shape import reduce_sum
from xjax.ops.slice import slice_in_dim
from xjax.ops.transcendental import sqrt
from xjax.typing import Array, ArrayLike

_HALLEY = 3.0, 1.0, 3.0                 # the limit of the weights
_ILL_CONDITIONED = 100.0                # up to this weight c the Cholesky factor of 1 + c u^H u is accurate enough


def qdwh(x: ArrayLike, *, is_hermitian: bool = False, max_iterations: int | None = None, eps: float | None = None,
         dynamic_shape: tuple[Any, Any] | None = None) -> tuple[Any, Any, Any, Any]:
    """Polar decomposition ``x = u @ h`` by Halley's iteration with dynamic weights (Nakatsukasa, Bai and Gygi 2010).

    Args:
      x: float or complex[m, n], m >= n, of full rank.
      is_hermitian: accepted; has no effect.
      max_iterations: static int, 10 if None.
      eps: the precision, and a lower bound for the smallest singular value relative to the largest; None: the dtype's.
      dynamic_shape: number of rows and columns to use, possibly traced; the others are replaced by zeros.
    Returns:
      (u [m, n] with orthonormal columns, h [n, n], Hermitian and positive semidefinite, the number of iterations
      int32[], whether it has converged bool[]).
    Raises: ValueError unless x is one matrix with m >= n.
    """
    where, aval = "lax.linalg.qdwh", typeof(x)
    check_matrix("qdwh", aval)
    if aval.ndim != 2 or aval.shape[0] < aval.shape[1]:
        raise bad(where, "takes one matrix with at least as many rows as columns", given={"x": aval},
                  fix="decompose the transposed matrix, and use vmap for batches.", exc=ValueError)
    limit = 10 if max_iterations is None else static_int(max_iterations, "max_iterations", where)
    if dynamic_shape is not None:
        x = _masked(x, dynamic_shape)
    eps = float(dtypes.finfo(aval.dtype).eps) if eps is None else eps
    u, count, converged = _iterate(_scaled(x), limit, eps)
    # A Newton-Schulz step removes the remaining rounding errors.
    u = sub(_times(u, 1.5), _times(product(u, product(adjoint(u), u)), 0.5))
    return u, symmetrized(product(adjoint(u), x)), count, converged


def _times(x: Array, number: float) -> Array:
    return mul(x, number_of(typeof(x).dtype, number))


def _masked(x: Array, counts: tuple[Any, Any]) -> Array:
    """The matrix with zeros outside the first rows and columns."""
    shape = typeof(x).shape
    rows, columns = (lt(broadcasted_iota(np.int32, shape, axis), convert_element_type(count, np.int32))
                     for axis, count in enumerate(counts))
    return select(bitwise_and(rows, columns), x, filled_like(x, 0))


def _scaled(x: Array) -> Array:
    """The matrix divided by a bound of its largest singular value: the geometric mean of its 1- and infinity-norm."""
    if not typeof(x).size:
        return x
    sizes = absolute(x)
    by_columns, by_rows = (sqrt(reduce_max(reduce_sum(sizes, (axis,)), (0,))) for axis in (0, 1))
    bound = mul(by_columns, by_rows)
    bound = select(eq(bound, filled_like(bound, 0)), filled_like(bound, 1), bound)
    return div(x, convert_element_type(bound, typeof(x).dtype))


def _weights(limit: int, eps: float) -> list[tuple[float, float, float]]:
    """The weights (a, b, c) of each step, from a lower bound of the singular values; each step raises it towards 1."""
    weights, low = [], eps
    while low + 5 * eps < 1 and len(weights) < limit:
        square = low * low
        d = (4 * (1 / square - 1) / square) ** (1 / 3)
        root = math.sqrt(1 + d)
        a = root + math.sqrt(2 - d + 2 * (2 - square) / (square * root))
        b = (a - 1) ** 2 / 4
        c = a + b - 1
        low = low * (a + b * square) / (1 + c * square)
        weights.append((a, b, c))
    return weights


def _step(u: Array, a: float, b: float, c: float) -> Array:
    """``u (a + b u^H u) (1 + c u^H u)^-1``, as ``b/c u + (a - b/c) u (1 + c u^H u)^-1``."""
    gram = product(adjoint(u), u)
    eye = identity_like(gram)
    if c > _ILL_CONDITIONED:
        rows = typeof(u).shape[0]
        q, _ = qr(concatenate([_times(u, math.sqrt(c)), eye], 0), full_matrices=False)
        inner = product(slice_in_dim(q, 0, rows), adjoint(slice_in_dim(q, rows, None)))
        inner = _times(inner, (a - b / c) / math.sqrt(c))
    else:
        factor = cholesky(add(_times(gram, c), eye), symmetrize_input=False)
        inner = triangular_solve(factor, u, lower=True, transpose_a=True, conjugate_a=True)
        inner = _times(triangular_solve(factor, inner, lower=True), a - b / c)
    return add(_times(u, b / c), inner)


def _iterate(u: Array, limit: int, eps: float) -> tuple[Any, Any, Any]:
    """(u, number of steps, whether the last step changed little): planned steps, then Halley's until convergence."""
    tolerance = real_dtype(typeof(u).dtype).type((5 * eps) ** (1 / 3))
    weights, changing = _weights(limit, eps), np.bool_(True)

    def moved(new: Array, old: Array) -> Array:
        change = absolute(sub(new, old))
        return gt(sqrt(reduce_sum(mul(change, change), (0, 1))), tolerance)

    for a, b, c in weights:
        old, u = u, _step(u, a, b, c)
        # A step with large weights raises small singular values only, so little may change long before convergence.
        changing = np.bool_(True) if c > _ILL_CONDITIONED else moved(u, old)

    def cond(state: tuple) -> Array:
        k, changing, _ = state
        return bitwise_and(changing, lt(k, np.int32(limit)))

    def body(state: tuple) -> tuple:
        k, _, u = state
        new = _step(u, *_HALLEY)
        return add(k, np.int32(1)), moved(new, u), new

    count, changing, u = while_loop(cond, body, (np.int32(len(weights)), changing, u))
    return u, count, bitwise_not(changing)
