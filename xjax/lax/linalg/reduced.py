"""Reduced forms under orthogonal changes of basis: Schur, Hessenberg and tridiagonal; tridiagonal systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import Missing
from xjax.core.types import ShapedArray, Zero, is_linear, typeof
from xjax.lax.linalg import lapack, native
from xjax.lax.linalg.libraries import Library, by_library, on_host
from xjax.lax.linalg.matrices import as_column, check_matrix, matrix_primitive, real_dtype
from xjax.ops.arrange import batched_in_front, concatenate
from xjax.ops.elementwise import add, mul, neg
from xjax.ops.makers import accumulate, filled_like
from xjax.ops.shape import move_axis, reshape
from xjax.ops.slice import slice_in_dim
from xjax.ops.zeros import zeros_of
from xjax.typing import Array, ArrayLike

# -- schur ----------------------------------------------------------------------------------------------------------


def schur(x: ArrayLike, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False,
          select_callable: Callable[..., Any] | None = None) -> tuple[Any, ...]:
    """Decompose square matrices as ``x = Z @ T @ Z^H``: T upper triangular (real: with blocks of 2 on the diagonal).

    Args: x: float or complex[..., n, n]. sort_eig_vals, select_callable: not supported.
    Returns: (T, Z), or (T,) without `compute_schur_vectors`; NaN where it does not converge.
    """
    if sort_eig_vals or select_callable is not None:
        raise bad("lax.linalg.schur", "eigenvalues cannot be sorted",
                  fix="leave sort_eig_vals and select_callable out.", exc=NotImplementedError)
    return tuple(schur_p.bind(x, compute_schur_vectors=bool(compute_schur_vectors), sort_eig_vals=False,
                              select_callable=None))


def _schur_type(x, *, compute_schur_vectors, **_):
    check_matrix("schur", x, square=True)
    return (x.strong(),) * (1 + compute_schur_vectors)


def _schur_by_lapack(b: Builder, outs: Sequence[ShapedArray], x: Value, *, compute_schur_vectors, **_) -> list[Value]:
    if not x.aval.size:
        return [b.constant(0, out) for out in outs]
    *results, info = lapack.gees(b, x, compute_schur_vectors)
    return native.nan_where_failed(b, info, *results[:len(outs)])


schur_p = matrix_primitive("schur", type_rule=_schur_type, lower=on_host(lambda: schur_p),
                           lower_on={"cpu": _schur_by_lapack},
                           jvp=Missing("the Schur form has no derivative rule", fix="use eigh or eig."))


# -- hessenberg -----------------------------------------------------------------------------------------------------

def hessenberg(a: ArrayLike) -> tuple[Any, Any]:
    """Reduce square matrices to Hessenberg form H, which is zero below the first subdiagonal.

    Args: a: float or complex[..., n, n].
    Returns:
      (packed, taus): H, with the reflections that produce it below its subdiagonal; their factors, [..., n - 1].
    """
    return tuple(hessenberg_p.bind(a))


def _hessenberg_type(a):
    check_matrix("hessenberg", a, square=True)
    if not a.shape[-1]:
        raise bad("lax.linalg.hessenberg", "takes matrices that are not empty", given={"a": a.str_short()},
                  fix="pass at least one row.", exc=ValueError)
    return a.strong(), ShapedArray((*a.shape[:-2], a.shape[-1] - 1), a.dtype)


def _hessenberg_by_lapack(b: Builder, outs: Sequence[ShapedArray], a: Value) -> list[Value]:
    if not outs[1].size:                                # matrices of size 1 are in this form
        return [a, b.constant(0, outs[1])]
    packed, taus, info = lapack.gehrd(b, a, outs[1])
    return native.nan_where_failed(b, info, packed, taus)


hessenberg_p = matrix_primitive("hessenberg", type_rule=_hessenberg_type, lower=on_host(lambda: hessenberg_p),
                                lower_on={"cpu": _hessenberg_by_lapack},
                                jvp=Missing("the Hessenberg form has no derivative rule", fix="use qr or eigh."))


# -- tridiagonal ----------------------------------------------------------------------------------------------------

def tridiagonal(a: ArrayLike, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """Reduce Hermitian matrices to tridiagonal form.

    Args: a: float or complex[..., n, n]; only the triangle selected by `lower` is read.
    Returns:
      (packed, d, e, taus): the reflections and the form, packed; its diagonal, real[..., n], and off-diagonal,
      real[..., n - 1]; the factors of the reflections, [..., n - 1].
    """
    return tuple(tridiagonal_p.bind(a, lower=bool(lower)))


def _tridiagonal_type(a, *, lower):
    check_matrix("tridiagonal", a, square=True)
    *batch, n, _ = a.shape
    if not n:
        raise bad("lax.linalg.tridiagonal", "takes matrices that are not empty", given={"a": a.str_short()},
                  fix="pass at least one row.", exc=ValueError)
    part = real_dtype(a.dtype)
    return (a.strong(), ShapedArray((*batch, n), part), ShapedArray((*batch, n - 1), part),
            ShapedArray((*batch, n - 1), a.dtype))


def _tridiagonal_lower(library: Library, b: Builder, outs: Sequence[ShapedArray], a: Value, *, lower) -> list[Value]:
    if not a.aval.size:
        return [b.constant(0, out) for out in outs]
    *results, info = library.sytrd(b, a, outs, lower=lower)
    return native.nan_where_failed(b, info, *results)


tridiagonal_p = matrix_primitive("tridiagonal", type_rule=_tridiagonal_type, lower_on=by_library(_tridiagonal_lower),
                                 jvp=Missing("the tridiagonal form has no derivative rule", fix="use eigh."))


# -- tridiagonal_solve ----------------------------------------------------------------------------------------------

def tridiagonal_solve(dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *,
                      perturb_singular: bool = False) -> Array:
    """The x with ``A @ x = b`` for tridiagonal A.

    Args:
      dl, d, du: float or complex[..., n], the elements of A below, on and above the diagonal, indexed by row: dl[0]
        and du[-1] are not read.
      b: the same dtype [..., n, k].
      perturb_singular: replace pivots close to 0 by about ``eps * max(abs(U))``, where U is the upper factor of A, so
        that x is finite. This is for inverse iteration, where only the direction of x matters.
    Returns: array like `b`; NaN where A is singular, unless `perturb_singular` is set.
    """
    return tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=bool(perturb_singular))


def _banded_type(dl, d, du, b, *, perturb_singular):
    check_matrix("tridiagonal_solve", b)
    for name, x in (("dl", dl), ("d", d), ("du", du)):
        if x.shape != b.shape[:-1] or x.dtype != b.dtype:
            raise bad("lax.linalg.tridiagonal_solve", f"`{name}` does not match `b`",
                      given={name: x.str_short(), "b": b.str_short()},
                      fix="a diagonal has the dtype of b, and its shape without the last axis.")
    return b.strong()


def _banded_lower(library: Library, b: Builder, out: ShapedArray, dl: Value, d: Value, du: Value, rhs: Value, *,
                  perturb_singular) -> Value:
    if not out.size:
        return b.constant(0, out)
    solve = library.gtsv_perturbed if perturb_singular else library.gtsv
    return solve(b, [dl, d, du], rhs)


def _banded_product(dl: Array, d: Array, du: Array, x: Array) -> Array:
    """A @ x."""
    axis, n = typeof(x).ndim - 2, typeof(x).shape[-2]
    gap = filled_like(slice_in_dim(x, 0, 1, axis=axis), 0)
    above = concatenate([gap, slice_in_dim(x, 0, n - 1, axis=axis)], axis)
    below = concatenate([slice_in_dim(x, 1, n, axis=axis), gap], axis)
    return add(mul(as_column(d), x), add(mul(as_column(dl), above), mul(as_column(du), below)))


def _banded_jvp(primals, tangents, **params):
    *diagonals, _ = primals
    *changes, db = tangents
    x = tridiagonal_solve_p.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        return x, Zero(typeof(x).tangent())
    if any(type(t) is not Zero for t in changes):
        moved = _banded_product(*[zeros_of(t.aval) if type(t) is Zero else t for t in changes], x)
        db = accumulate(db, neg(moved))
    return x, tridiagonal_solve_p.bind(*diagonals, db, **params)


def _banded_transpose(ct, dl, d, du, b, **params):
    assert is_linear(b)
    axis, n = typeof(d).ndim - 1, typeof(d).shape[-1]
    gap = filled_like(slice_in_dim(d, 0, 1, axis=axis), 0)
    below = concatenate([gap, slice_in_dim(du, 0, n - 1, axis=axis)], axis)
    above = concatenate([slice_in_dim(dl, 1, n, axis=axis), gap], axis)
    return [None, None, None, tridiagonal_solve_p.bind(below, d, above, ct, **params)]


def _banded_batch(axis, args, bdims, **params):
    if any(b is not None for b in bdims[:3]):
        return tridiagonal_solve_p.bind(*batched_in_front(axis, args, bdims), **params), 0
    *diagonals, b = args                                # one matrix: the mapped right-hand sides are further columns
    last = typeof(b).ndim - 1
    b = move_axis(b, bdims[3], last)
    shape = typeof(b).shape
    x = tridiagonal_solve_p.bind(*diagonals, reshape(b, (*shape[:-2], shape[-2] * shape[-1])), **params)
    return reshape(x, shape), last


tridiagonal_solve_p = matrix_primitive("tridiagonal_solve", type_rule=_banded_type, lower_on=by_library(_banded_lower),
                                       jvp=_banded_jvp, transpose=_banded_transpose, batch=_banded_batch,
                                       multiple_results=False)
