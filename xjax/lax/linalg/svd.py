"""Singular value decomposition."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.types import ShapedArray, Zero, number_of, typeof
from xjax.lax.linalg import native
from xjax.lax.linalg.gaps import inverse, rounding_of
from xjax.lax.linalg.libraries import Library, by_library
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
from xjax.ops.compare import le
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, mul, sub
from xjax.ops.piecewise import abs as absolute
from xjax.ops.piecewise import max as larger
from xjax.ops.piecewise import min as smaller
from xjax.ops.slice import slice_in_dim
from xjax.typing import Array, ArrayLike


class SvdAlgorithm(enum.Enum):
    """Algorithms of `svd`: QR is gesvd, on every device; DIVIDE_AND_CONQUER is LAPACK's gesdd, on CPUs only.

    JACOBI and POLAR exist on GPUs only. DEFAULT is DIVIDE_AND_CONQUER on CPUs; on GPUs it is JACOBI up to 1024 rows and
    columns, else QR.
    """

    DEFAULT, QR = "default", "QR"
    JACOBI, POLAR, DIVIDE_AND_CONQUER = "Jacobi", "polar", "divide_and_conquer"


def svd(x: ArrayLike, *, full_matrices: bool = True, compute_uv: bool = True,
        subset_by_index: tuple[int, int] | None = None, algorithm: SvdAlgorithm | None = None) -> Any:
    """Decompose matrices as ``x = U @ diag(s) @ Vh``.

    Args:
      x: float or complex[..., m, n].
      full_matrices: U and Vh are square; else U has k = min(m, n) columns and Vh k rows.
      compute_uv: else only s is returned.
      subset_by_index: None or (0, k). algorithm: see `SvdAlgorithm`; None is DEFAULT.
    Returns: (U, s, Vh), or s: real[..., k], descending. NaN where the library does not converge.

    Derivatives are finite everywhere; singular values that differ by less than ``(4 + sqrt(k)) eps max(s)`` count as
    equal. Where they are equal, derivatives are right for symmetric functions of `s` (nuclear norm), for ``U @ Vh`` of
    a matrix of full rank, and for projectors on all vectors of these values. For ``(U * f(s)) @ Vh`` they are
    incomplete within a block of equal values, as in `eigh`.
    """
    caller = "lax.linalg.svd"
    algorithm = None if algorithm is None else SvdAlgorithm(algorithm)
    if subset_by_index not in (None, (0, min(typeof(x).shape[-2:], default=0))):
        raise bad(caller, "a subset of the singular values cannot be computed on this platform",
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


def _svd_lower(library: Library, b: Builder, outs: Sequence[ShapedArray], x: Value, *, full_matrices, compute_uv,
               algorithm, **_) -> list[Value]:
    if not x.aval.size:
        return [b.constant(0, outs[0]), *[native.identities(b, out) for out in outs[1:]]]
    s_type, u_type, v_type = outs if compute_uv else (
        *outs, *_svd_type(x.aval, full_matrices=full_matrices, compute_uv=True)[1:])
    *results, info = library.svd(b, x, s_type, u_type, v_type, full_matrices=full_matrices, compute_uv=compute_uv,
                                 algorithm=algorithm and algorithm.value)
    return native.nan_where_failed(b, info, *results[:len(outs)])


def _svd_jvp(primals, tangents, *, full_matrices, compute_uv, **rest):
    """Derivatives of s, and the rotations of U and V within the spaces that they span, and out of them if m != n."""
    (x,), (dx,) = primals, tangents
    m, n = typeof(x).shape[-2:]
    if type(dx) is not Zero and compute_uv and full_matrices and m != n:
        raise bad("lax.linalg.svd", "has no derivative for full factors of matrices that are not square",
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
    rounding = rounding_of(slice_in_dim(s, 0, min(m, n, 1), axis=-1), min(m, n))            # s is descending
    # Values and gaps up to `floor` count as 0; larger values have inverse squares that are finite.
    floor = mul(rounding, number_of(typeof(s).dtype, dtypes.finfo(typeof(s).dtype).eps))
    k_u, k_v = _rotations(s, inner, as_row(rounding), as_row(floor))
    du, dv = product(u, k_u), product(v, k_v)
    row = as_row(convert_element_type(inverse(s, le(s, floor)), typeof(x).dtype)) if m != n else None
    if m > n:
        along = product(dx, v)
        du = add(du, mul(sub(along, product(u, product(uh, along))), row))
    if n > m:
        along = product(adjoint(dx), u)
        dv = add(dv, mul(sub(along, product(v, product(vh, along))), row))
    return [s, u, vh], [ds, du, adjoint(dv)]


def _rotations(s: Array, inner: Array, rounding: Any, floor: Any) -> tuple[Array, Array]:
    """The antihermitian K_u and K_v with ``K_u S - S K_v = inner`` off the diagonal: dU = U K_u, dV = V K_v.

    The Hermitian part of `inner` rotates U and V alike, the antihermitian part in opposite directions. So for equal
    singular values, the polar factor U V^H, which is defined there, needs no inverse gap. Vectors of zero singular
    values do have gaps: a result that does not depend on their choice is at least linear in s, which cancels the noise.
    """
    dtype = typeof(inner).dtype
    row, column = as_row(s), as_column(s)
    gaps, sums = sub(row, column), add(row, column)
    least = smaller(rounding, larger(sub(sums, add(rounding, rounding)), floor))
    by_gap = convert_element_type(inverse(gaps, le(absolute(gaps), least)), dtype)
    by_sum = convert_element_type(inverse(sums, le(sums, floor)), dtype)
    half = mul(inner, number_of(dtype, 0.5))
    half_adjoint = adjoint(half)
    alike, opposite = mul(add(half, half_adjoint), by_gap), mul(sub(half, half_adjoint), by_sum)
    if not dtypes.is_complex(dtype):
        return add(alike, opposite), sub(alike, opposite)
    phase = mul(identity_like(opposite), opposite)          # of u_i relative to v_i; applied to u_i only
    return add(alike, add(opposite, phase)), add(sub(alike, opposite), phase)


svd_p = matrix_primitive("svd", type_rule=_svd_type, lower_on=by_library(_svd_lower), jvp=_svd_jvp)
