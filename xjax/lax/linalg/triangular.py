"""Triangular systems of equations and the Cholesky factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.types import ShapedArray, Zero, is_linear, number_of, typeof
from xjax.lax.linalg import native
from xjax.lax.linalg.libraries import Library, by_library
from xjax.lax.linalg.matrices import (
    adjoint,
    as_column,
    as_row,
    check_matrix,
    conjugate,
    identity_like,
    lower_by,
    lower_triangle,
    matrix_primitive,
    product,
    swapped,
    symmetrized,
    upper_triangle,
)
from xjax.ops.arrange import batched_in_front
from xjax.ops.elementwise import add, div, neg
from xjax.ops.makers import accumulate
from xjax.ops.shape import move_axis, reshape, squeeze
from xjax.typing import Array, ArrayLike

# -- triangular_solve -----------------------------------------------------------------------------------------------


def triangular_solve(a: ArrayLike, b: ArrayLike, *, left_side: bool = False, lower: bool = False,
                     transpose_a: bool = False, conjugate_a: bool = False, unit_diagonal: bool = False) -> Array:
    """The x with ``x @ op(a) = b``, or ``op(a) @ x = b`` with `left_side`, for a triangular matrix.

    Args:
      a: float or complex[..., n, n]; only the triangle selected by `lower` is read.
      b: the same dtype [..., m, n], with `left_side` [..., n, m], or one axis less for a single vector.
      transpose_a, conjugate_a: the operation op. unit_diagonal: the diagonal of `a` is assumed to be ones.
    Returns: array of the shape of `b`; inf or NaN where the diagonal has zeros.
    """
    vector = typeof(b).ndim == typeof(a).ndim - 1
    if vector:
        b = as_column(b) if left_side else as_row(b)
    conjugate_a = bool(conjugate_a) and dtypes.is_complex(typeof(a).dtype)
    x = triangular_solve_p.bind(a, b, left_side=bool(left_side), lower=bool(lower), transpose_a=bool(transpose_a),
                                conjugate_a=conjugate_a, unit_diagonal=bool(unit_diagonal))
    return squeeze(x, (-1 if left_side else -2,)) if vector else x


def _solve_type(a, b, *, left_side, **_):
    check_matrix("triangular_solve", a, square=True)
    axis = -2 if left_side else -1
    if a.dtype != b.dtype or a.shape[:-2] != b.shape[:-2] or b.ndim != a.ndim or a.shape[-1] != b.shape[axis]:
        raise bad("lax.linalg.triangular_solve", "`a` and `b` do not match",
                  given={"a": a.str_short(), "b": b.str_short(), "left_side": left_side},
                  fix=f"dtypes and batch axes must be equal, and axis {axis} of b must have the size of the axes of a.",
                  exc=ValueError)
    return b.strong()


def _solve_lower(library: Library, b: Builder, out: ShapedArray, a: Value, rhs: Value, *, left_side, lower, transpose_a,
                 conjugate_a, unit_diagonal) -> Value:
    if not out.size:
        return b.constant(0, out)
    if conjugate_a and not transpose_a:                 # no library has this operation
        a, = lower_by(lambda x: [conjugate(x)])(b, None, a)
    op = ("C" if conjugate_a else "T") if transpose_a else "N"
    return library.trsm(b, a, rhs, left_side=left_side, lower=lower, transpose=op, unit_diagonal=unit_diagonal)


def _solve_jvp(primals, tangents, **params):
    """op(a) x = b implies op(a) dx = db - op(da) x."""
    (a, b), (da, db) = primals, tangents
    x = triangular_solve_p.bind(a, b, **params)
    dx: Any = Zero(typeof(x).tangent())
    if type(db) is not Zero:
        dx = triangular_solve_p.bind(a, db, **params)
    if type(da) is not Zero:
        k = 1 if params["unit_diagonal"] else 0
        da = lower_triangle(da, -k) if params["lower"] else upper_triangle(da, k)
        da = swapped(da) if params["transpose_a"] else da
        da = conjugate(da) if params["conjugate_a"] else da
        change = product(da, x) if params["left_side"] else product(x, da)
        dx = accumulate(dx, triangular_solve_p.bind(a, neg(change), **params))
    return x, dx


def _solve_transpose(ct, a, b, *, transpose_a, **params):
    assert is_linear(b) and not is_linear(a)
    return [None, triangular_solve_p.bind(a, ct, transpose_a=not transpose_a, **params)]


def _solve_batch(axis, args, bdims, **params):
    (a, b), (a_bdim, b_bdim) = args, bdims
    if a_bdim is not None or typeof(b).ndim < 3:
        return triangular_solve_p.bind(*batched_in_front(axis, args, bdims), **params), 0
    # One matrix for all right-hand sides: the mapped axis becomes further columns (or rows) of one system.
    last = typeof(b).ndim - 1
    if params["left_side"]:
        b = move_axis(b, b_bdim, last)
        shape = typeof(b).shape
        flat = reshape(b, (*shape[:-2], shape[-2] * shape[-1]))
        return reshape(triangular_solve_p.bind(a, flat, **params), shape), last
    b = move_axis(b, b_bdim, last - 2)
    shape = typeof(b).shape
    flat = reshape(b, (*shape[:-3], shape[-3] * shape[-2], shape[-1]))
    return reshape(triangular_solve_p.bind(a, flat, **params), shape), last - 2


triangular_solve_p = matrix_primitive(
    "triangular_solve", type_rule=_solve_type, lower_on=by_library(_solve_lower), jvp=_solve_jvp,
    transpose=_solve_transpose, batch=_solve_batch, multiple_results=False)


# -- cholesky -------------------------------------------------------------------------------------------------------

def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with ``L @ L^H = x``.

    Args:
      x: float or complex[..., n, n], Hermitian and positive definite.
      symmetrize_input: use half the sum of `x` and its adjoint; else only the lower triangle is read.
    Returns: array like `x`, zero above the diagonal; NaN elsewhere if a matrix is not positive definite.
    """
    check_matrix("cholesky", typeof(x), square=True)
    return lower_triangle(cholesky_p.bind(symmetrized(x) if symmetrize_input else x))


def _cholesky_type(x):
    check_matrix("cholesky", x, square=True)
    return x.strong()


def _cholesky_lower(library: Library, b: Builder, out: ShapedArray, x: Value) -> Value:
    if not out.size:
        return b.constant(0, out)
    factor, info = library.potrf(b, x)
    return native.nan_where_failed(b, info, factor)[0]


def _hermitian_of_lower(x: Array) -> Array:
    """The Hermitian matrix that has the lower triangle of `x`, and the real part of its diagonal."""
    whole = add(lower_triangle(x), adjoint(lower_triangle(x, -1)))
    return symmetrized(whole) if dtypes.is_complex(typeof(x).dtype) else whole


def _cholesky_jvp(primals: Sequence[Any], tangents: Sequence[Any]):
    """dL = L phi(L^-1 dx L^-H), where phi keeps the lower triangle and half the diagonal (Murray 2016, eq. 8).

    The factorisation reads the lower triangle only, and so does its derivative.
    """
    (x,), (dx,) = primals, tangents
    factor = lower_triangle(cholesky_p.bind(x))
    if type(dx) is Zero:
        return factor, Zero(typeof(factor).tangent())
    dx = _hermitian_of_lower(dx)
    inner = triangular_solve(factor, dx, lower=True, transpose_a=True, conjugate_a=True)
    inner = triangular_solve(factor, inner, left_side=True, lower=True)
    half = div(lower_triangle(inner), add(identity_like(inner), number_of(typeof(inner).dtype, 1)))
    return factor, product(factor, half)


cholesky_p = matrix_primitive("cholesky", type_rule=_cholesky_type, lower_on=by_library(_cholesky_lower),
                              jvp=_cholesky_jvp, multiple_results=False)
