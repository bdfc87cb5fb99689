"""Singular value decomposition."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.types import ShapedArray, Zero, typeof
from xjax.lax.linalg import native
from xjax.lax.linalg.libraries import library_of
from xjax.lax.linalg.matrices import (
    adjoint,
    as_column,
    as_row,
    check_matrix,
    diagonal,
    identity_like,
    matrix_primitive,
    product,
    real_dtype,
    real_part,
)
from xjax.ops.compare import eq
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, div, mul, reciprocal, sub
from xjax.ops.makers import filled_like


class SvdAlgorithm(enum.Enum):
    """How `svd` computes: QR is gesvd, on every device; DIVIDE_AND_CONQUER is LAPACK's gesdd, on CPUs only.

    JACOBI and POLAR are on GPUs only. DEFAULT is DIVIDE_AND_CONQUER on CPUs; on GPUs JACOBI up to 1024 rows and
    columns, else QR.
    """

    DEFAULT, QR = "default", "QR"
    JACOBI, POLAR, DIVIDE_AND_CONQUER = "Jacobi", "polar", "divide_and_conquer"


def svd(x: Any, *, full_matrices: bool = True, compute_uv: bool = True, subset_by_index: tuple[int, int] | None = None,
        algorithm: SvdAlgorithm | None = None) -> Any:
    """Decompose matrices as ``x = U @ diag(s) @ Vh``.

    Args:
      x: float or complex[..., m, n].
      full_matrices: U and Vh are square, else k = min(m, n) columns and rows. compute_uv: else only s.
      subset_by_index: None or (0, k). algorithm: see `SvdAlgorithm`; None is DEFAULT.
    Returns: (U, s, Vh), or s: real[..., k], descending. NaN where the library does not converge.
    """
    where = "lax.linalg.svd"
    algorithm = None if algorithm is None else SvdAlgorithm(algorithm)
    if subset_by_index not in (None, (0, min(typeof(x).shape[-2:], default=0))):
        raise bad(where, "a part of the singular values cannot be asked for on this platform",
                  given={"subset_by_index": subset_by_index}, fix="compute all, and slice the results.",
                  exc=NotImplementedError)
    s, *factors = svd_p.bind(x, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv),
                             subset_by_index=subset_by_index, algorithm=algorithm)
    return (factors[0], s, factors[1]) if compute_uv else s


def _svd_type(x, *, full_matrices, compute_uv, **_):
    check_matrix("svd", x)
    *batch, m, n = x.shape
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    s = ShapedArray((*batch, k), real_dtype(x.dtype))
    if not compute_uv:
        return (s,)
    return s, ShapedArray((*batch, m, rows), x.dtype), ShapedArray((*batch, columns, n), x.dtype)


def _svd_lower(b: Builder, outs: Sequence[ShapedArray], x: Value, *, full_matrices, compute_uv, algorithm,
               **_) -> list[Value]:
    if not x.aval.size:
        return [b.constant(0, outs[0]), *[native.identities(b, out) for out in outs[1:]]]
    s_type, u_type, v_type = outs if compute_uv else (
        *outs, *_svd_type(x.aval, full_matrices=full_matrices, compute_uv=True)[1:])
    *found, info = library_of(b).svd(b, x, s_type, u_type, v_type, full_matrices=full_matrices, compute_uv=compute_uv,
                                     algorithm=algorithm and algorithm.value)
    return native.nan_where_failed(b, info, *found[:len(outs)])


def _svd_jvp(primals, tangents, *, full_matrices, compute_uv, **rest):
    """Giles 2008 for distinct singular values; U and V get what the antihermitian parts of U^H dx V say."""
    (x,), (dx,) = primals, tangents
    m, n = typeof(x).shape[-2:]
    if type(dx) is not Zero and compute_uv and full_matrices and m != n:
        raise bad("lax.linalg.svd", "has no derivative with full matrices that are not square",
                  given={"x": typeof(x)}, fix="pass full_matrices=False.", exc=NotImplementedError)
    if type(dx) is Zero:
        outs = svd_p.bind(x, full_matrices=full_matrices, compute_uv=compute_uv, **rest)
        return outs, [Zero(typeof(y).tangent()) for y in outs]
    s, u, vh = svd_p.bind(x, full_matrices=False, compute_uv=True, **rest)
    uh, v = adjoint(u), adjoint(vh)
    inner = product(product(uh, dx), v)
    ds = real_part(diagonal(inner))
    if not compute_uv:
        return [s], [ds]
    du, dv = _factor_changes(s, u, v, inner)
    row = as_row(convert_element_type(s, typeof(x).dtype))
    if m > n:
        along = product(dx, v)
        du = add(du, div(sub(along, product(u, product(uh, along))), row))
    if n > m:
        along = product(adjoint(dx), u)
        dv = add(dv, div(sub(along, product(v, product(vh, along))), row))
    return [s, u, vh], [ds, du, adjoint(dv)]


def _factor_changes(s: Any, u: Any, v: Any, inner: Any) -> tuple[Any, Any]:
    """dU and dV within the spaces that U and V span."""
    dtype = typeof(inner).dtype
    row, column = as_row(s), as_column(s)
    ones = identity_like(mul(row, column))
    gaps = mul(add(row, column), sub(row, column))
    weights = convert_element_type(sub(reciprocal(add(gaps, ones)), ones), dtype)
    by_row = mul(inner, convert_element_type(row, dtype))
    by_column = mul(inner, convert_element_type(column, dtype))
    at_zero = convert_element_type(eq(s, filled_like(s, 0)), typeof(s).dtype)
    inverse = sub(reciprocal(add(s, at_zero)), at_zero)
    phase = mul(mul(sub(inner, adjoint(inner)), dtype.type(0.5)),
                convert_element_type(mul(ones, as_row(inverse)), dtype))
    du = product(u, add(mul(weights, add(by_row, adjoint(by_row))), phase))
    return du, product(v, mul(weights, add(by_column, adjoint(by_column))))


svd_p = matrix_primitive("svd", type_rule=_svd_type, lower=_svd_lower, jvp=_svd_jvp)
