"""Symmetric products, and updates of Cholesky factors: symmetric_product, cholesky_update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.types import ShapedArray, Zero, number_of, typeof
from xjax.lax.linalg import cusolver
from xjax.lax.linalg.matrices import (
    as_column,
    as_row,
    check_matrix,
    identity_like,
    lower_by,
    lower_triangle,
    matrix_primitive,
    product,
    swapped,
    upper_triangle,
)
from xjax.lax.linalg.triangular import triangular_solve
from xjax.lax.scan import scan
from xjax.ops.compare import eq, select
from xjax.ops.elementwise import add, div, mul, sub
from xjax.ops.makers import filled_like
from xjax.ops.piecewise import abs as absolute
from xjax.ops.piecewise import max as larger
from xjax.ops.shape import broadcast_in_dim, move_axis
from xjax.ops.slice import dynamic_slice_in_dim
from xjax.ops.transcendental import sqrt
from xjax.ops.zeros import instantiate
from xjax.typing import Array, ArrayLike

# -- symmetric_product ----------------------------------------------------------------------------------------------


def symmetric_product(a_matrix: ArrayLike, c_matrix: ArrayLike, *, alpha: float = 1.0, beta: float = 0.0,
                      symmetrize_output: bool = False) -> Array:
    """``alpha * a @ a^T + beta * c``.

    Args:
      a_matrix: float[..., n, m]; c_matrix: float[..., n, n], symmetric.
      symmetrize_output: copy the lower triangle of the result to the upper triangle.
    """
    result = symmetric_product_p.bind(a_matrix, c_matrix, alpha=alpha, beta=beta)
    return add(lower_triangle(result), swapped(lower_triangle(result, -1))) if symmetrize_output else result


def _product_type(a, c, **_):
    for aval in (a, c):
        check_matrix("symmetric_product", aval)
    if a.dtype != c.dtype or (*a.shape[:-1], a.shape[-2]) != c.shape or dtypes.is_complex(a.dtype):
        raise bad("lax.linalg.symmetric_product", "takes real matrices [..., n, m] and [..., n, n]",
                  given={"a_matrix": a, "c_matrix": c}, fix="make dtypes and sizes agree.", exc=ValueError)
    return c.strong()


def _sum(a: Array, b: Array, c: Array, alpha: float, beta: float) -> Array:
    """``alpha * a @ b^T + beta * c``."""
    number = typeof(a).dtype.type
    return add(mul(product(a, swapped(b)), number(alpha)), mul(c, number(beta)))


def _product_lower(b: Builder, out: ShapedArray, a: Value, c: Value, *, alpha, beta) -> Value:
    return lower_by(lambda a, c: [_sum(a, a, c, alpha, beta)])(b, None, a, c)[0]


def _product_jvp(primals, tangents, *, alpha, beta):
    (a, c), (da, dc) = primals, tangents
    result = symmetric_product_p.bind(a, c, alpha=alpha, beta=beta)
    if type(da) is Zero:
        return result, dc if type(dc) is Zero else mul(dc, number_of(typeof(dc).dtype, beta))
    half = _sum(da, a, mul(instantiate(dc), number_of(typeof(a).dtype, 0.5)), alpha, beta)
    return result, add(half, _sum(a, da, mul(instantiate(dc), number_of(typeof(a).dtype, 0.5)), alpha, beta))


symmetric_product_p = matrix_primitive("symmetric_product", type_rule=_product_type, lower=_product_lower,
                                       jvp=_product_jvp, multiple_results=False)


# -- cholesky_update ------------------------------------------------------------------------------------------------

def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper triangular R' with ``R'^T @ R' = R^T @ R + w @ w^T``, in n^2 operations.

    Args: r_matrix: float[..., n, n], R, upper triangular; w_vector: the same dtype [..., n].
    Returns: array like `r_matrix`.
    """
    return cholesky_update_p.bind(r_matrix, w_vector)


def _update_type(r, w):
    check_matrix("cholesky_update", r, square=True)
    if w.dtype != r.dtype or w.shape != r.shape[:-1] or dtypes.is_complex(r.dtype):
        raise bad("lax.linalg.cholesky_update", "takes a real matrix [..., n, n] and a vector [..., n]",
                  given={"r_matrix": r, "w_vector": w}, fix="make dtypes and sizes agree.", exc=ValueError)
    return r.strong()


def _rotate(r: Array, w: Array) -> Sequence[Any]:
    """Rotate each row of R with w, one after the other, so that the row's element of w becomes 0."""
    shape, axis = typeof(w).shape, typeof(w).ndim - 1

    def element(x: Array, k: Array) -> Array:
        return broadcast_in_dim(dynamic_slice_in_dim(x, k, 1, axis), shape, tuple(range(axis + 1)))

    def step(carry: tuple, row: Array) -> tuple[tuple, Any]:
        k, w = carry
        x, y = element(row, k), element(w, k)
        nothing = eq(y, filled_like(y, 0))
        size = select(nothing, filled_like(x, 1), larger(absolute(x), absolute(y)))
        x, y = div(x, size), div(y, size)
        radius = sqrt(add(mul(x, x), mul(y, y)))
        cosine, sine = (select(nothing, filled_like(x, number), div(part, radius)) for number, part in ((1, x), (0, y)))
        turned = add(mul(cosine, row), mul(sine, w))
        return (add(k, np.int32(1)), sub(mul(cosine, w), mul(sine, row))), turned

    rows = scan(step, (np.int32(0), w), move_axis(r, axis, 0))[1]
    return [move_axis(rows, 0, axis)]


def _update_lower(b: Builder, out: ShapedArray, r: Value, w: Value) -> Value:
    return lower_by(_rotate)(b, None, r, w)[0]


def _update_jvp(primals: Sequence[Any], tangents: Sequence[Any]):
    """As for the Cholesky factor: dR = phi(R^-T dA R^-1) R, where phi keeps half the diagonal and
    the upper triangle."""
    (r, w), (dr, dw) = primals, map(instantiate, tangents)
    updated = cholesky_update_p.bind(r, w)
    half = add(product(swapped(r), dr), product(as_column(w), as_row(dw)))
    inner = triangular_solve(updated, add(half, swapped(half)), left_side=True, transpose_a=True)
    inner = triangular_solve(updated, inner)
    upper = div(upper_triangle(inner), add(identity_like(inner), number_of(typeof(inner).dtype, 1)))
    return updated, product(upper, updated)


cholesky_update_p = matrix_primitive("cholesky_update", type_rule=_update_type, lower=_update_lower,
                                     lower_on={"gpu": cusolver.cholesky_update}, jvp=_update_jvp,
                                     multiple_results=False)
