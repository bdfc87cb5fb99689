"""Calls of cuSOLVER, cuSPARSE and the other libraries of the CUDA plugin on NVIDIA GPUs, as in JAX.

Non-Hermitian eigenvalues with left vectors, and pivoted QR, are hybrid: the plugin runs LAPACK on the host, or MAGMA
if it is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.lowering import lower_function
from xjax.core.types import ShapedArray, number_of, typeof
from xjax.lax.linalg import native
from xjax.lax.linalg.matrices import adjoint
from xjax.lax.linalg.native import flag, info_type
from xjax.ops.arrange import concatenate
from xjax.ops.compare import eq, gt, lt, select
from xjax.ops.complex_numbers import complex, imag
from xjax.ops.elementwise import neg, sub
from xjax.ops.makers import filled_like
from xjax.ops.piecewise import abs
from xjax.ops.shape import broadcast_in_dim, reduce_sum
from xjax.ops.slice import pad, slice_in_dim
from xjax.runtime.xla import cuda_library_version, initialize_cuda_hybrids
from xjax.typing import Array

_LARGEST_OF_JACOBI = 1024           # rows or columns: up to this size JAX computes singular values by Jacobi's method
_BATCHED_JACOBI = 32                # up to this size the plugin calls gesvdjBatched, which returns full matrices only
_FIRST_WITH_GEEV = 11701            # cuSOLVER 11.7.1


def potrf(b: Builder, x: Value) -> Sequence[Value]:
    return native.call(b, "cusolver_potrf_ffi", [x], [x.aval, info_type(x.aval)], flag("lower", True),
                       in_place=[(0, 0)])


def trsm(b: Builder, a: Value, rhs: Value, *, left_side: bool, lower: bool, transpose: str,
         unit_diagonal: bool) -> Value:
    op = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[transpose]
    flags = [flag("left_side", left_side), flag("lower", lower), flag("unit_diagonal", unit_diagonal)]
    return b.generic("stablehlo.triangular_solve", [a, rhs], [rhs.aval],
                     f"{', '.join(flags)}, transpose_a = #stablehlo<transpose {op}>")[0]


def getrf(b: Builder, x: Value, pivots: ShapedArray) -> Sequence[Value]:
    return native.call(b, "cusolver_getrf_ffi", [x], [x.aval, pivots, info_type(x.aval)], in_place=[(0, 0)])


def order_of_rows(b: Builder, outs: Sequence[ShapedArray], pivots: Value, *, permutation_size) -> list[Value] | None:
    """Lowering rule of lu_pivots_to_permutation; None leaves it to the general rule."""
    if pivots.aval.dtype != native.INT32 or not pivots.aval.size:
        return None
    return native.call(b, "cu_lu_pivots_to_permutation", [pivots], outs, batch_rank=outs[0].ndim - 1)


def geqrf(b: Builder, x: Value, taus: ShapedArray) -> Sequence[Value]:
    return native.call(b, "cusolver_geqrf_ffi", [x], [x.aval, taus], in_place=[(0, 0)])


def geqp3(b: Builder, x: Value, order: Value, taus: ShapedArray, use_magma: bool | None) -> Sequence[Value]:
    initialize_cuda_hybrids()
    return native.call(b, "cuhybrid_geqp3", [x, order], [x.aval, order.aval, taus], _magma(use_magma),
                       in_place=[(0, 0), (1, 1)])


def _magma(wanted: bool | None) -> str:
    return f'magma = "{"auto" if wanted is None else "on" if wanted else "off"}"'


def orgqr(b: Builder, a: Value, taus: Value) -> Value:
    return native.call(b, "cusolver_orgqr_ffi", [a, taus], [a.aval], in_place=[(0, 0)])[0]


def ormqr(b: Builder, a: Value, taus: Value, c: Value, *, left: bool, transpose: bool) -> Value:
    return native.call(b, "cusolver_ormqr_ffi", [a, taus, c], [c.aval], flag("left", left),
                       flag("transpose", transpose), in_place=[(2, 0)])[0]


def syevd(b: Builder, x: Value, values: ShapedArray, *, lower: bool, algorithm: str | None) -> Sequence[Value]:
    numbers = {None: 0, "qr": 1, "jacobi": 2}
    if algorithm not in numbers:
        raise bad("lax.linalg.eigh", f"the implementation {str(algorithm).upper()} is not available on this platform",
                  given={"platform": "gpu"}, fix="pass EighImplementation.QR or JACOBI, or nothing.",
                  exc=NotImplementedError)
    v, w, info = native.call(b, "cusolver_syevd_ffi", [x], [x.aval, values, info_type(x.aval)],
                             f"algorithm = {numbers[algorithm]} : ui8", flag("lower", lower), in_place=[(0, 0)])
    return v, w, _failed_unless_finite(b, x, info)


def _failed_unless_finite(b: Builder, x: Value, info: Value) -> Value:
    """`info`, set to a failure where a matrix has NaN or infinite elements, which cuSOLVER does not report."""
    def report(x: Array, info: Array) -> list[Any]:
        rank = typeof(x).ndim
        differences = reduce_sum(abs(sub(x, x)), (rank - 2, rank - 1))         # 0, or NaN
        return [select(eq(differences, filled_like(differences, 0)), info, filled_like(info, 1))]

    return lower_function(b, report, [x, info])[0]


# -- eigenvalues of other matrices ----------------------------------------------------------------------------------

def geev(b: Builder, x: Value, values: ShapedArray, *, left: bool, right: bool,
         implementation: str | None) -> Sequence[Value]:
    if _uses_cusolver(left, implementation):
        return _geev(b, x, values, right)
    return _hybrid_geev(b, x, values, left, right, {"magma": True, "lapack": False}.get(implementation or ""))


def _uses_cusolver(left: bool, implementation: str | None) -> bool:
    version = cuda_library_version("cusolver")
    has_geev = version is not None and version >= _FIRST_WITH_GEEV
    if implementation == "cusolver" and (left or not has_geev):
        raise bad("lax.linalg.eig", "cuSOLVER has no left eigenvectors" if left else "cuSOLVER 11.7.1 is needed",
                  given={"cuSOLVER": "not installed" if version is None else version},
                  fix="pass compute_left_eigenvectors=False." if left else "leave `implementation` out.",
                  exc=NotImplementedError)
    return implementation == "cusolver" or (implementation is None and has_geev and not left)


def _geev(b: Builder, x: Value, values: ShapedArray, right: bool) -> Sequence[Value]:
    _, w, vl, vr, info = native.call(b, "cusolver_geev_ffi", [x], [x.aval, values, x.aval, x.aval, info_type(x.aval)],
                                     flag("left", False), flag("right", right))
    if not dtypes.is_complex(x.aval.dtype) and right:
        vr, = lower_function(b, lambda w, v: [_complex_vectors(w, v)], [w, vr])
    return w, vl, vr, _failed_unless_finite(b, x, info)


def _complex_vectors(w: Array, v: Array) -> Array:
    """Complex eigenvectors of real matrices: columns j and j + 1 hold the real and imaginary part of a pair."""
    axis, n = typeof(v).ndim - 1, typeof(v).shape[-1]
    by_column = tuple(k for k in range(axis + 1) if k != axis - 1)
    sign = broadcast_in_dim(imag(w), typeof(v).shape, by_column)
    zero = filled_like(v, 0)
    first, second = gt(sign, zero), lt(sign, zero)      # the value of a pair with positive imaginary part is the first
    gap = slice_in_dim(zero, 0, 1, axis=axis)
    after = concatenate([slice_in_dim(v, 1, n, axis=axis), gap], axis)
    before = concatenate([gap, slice_in_dim(v, 0, n - 1, axis=axis)], axis)
    return complex(select(second, before, v), select(first, after, select(second, neg(v), zero)))


def _hybrid_geev(b: Builder, x: Value, values: ShapedArray, left: bool, right: bool,
                 magma: bool | None) -> Sequence[Value]:
    initialize_cuda_hybrids()
    parts, vectors = native.eigenvalue_types(x, values), ShapedArray(x.aval.shape, values.dtype)
    *w, vl, vr, info = native.call(b, f"cuhybrid_eig_{'comp' if dtypes.is_complex(x.aval.dtype) else 'real'}", [x],
                                   [*parts, vectors, vectors, info_type(x.aval)], flag("left", left), _magma(magma),
                                   flag("right", right))
    return native.as_complex(b, w), vl, vr, info


# -- singular values ------------------------------------------------------------------------------------------------

def svd(b: Builder, x: Value, s: ShapedArray, u: ShapedArray, vh: ShapedArray, *, full_matrices: bool,
        compute_uv: bool, algorithm: str | None) -> Sequence[Value]:
    if algorithm == "divide_and_conquer":
        raise bad("lax.linalg.svd", "the algorithm DIVIDE_AND_CONQUER is not available on this platform",
                  given={"platform": "gpu"}, fix="pass SvdAlgorithm.JACOBI, QR or POLAR, or nothing.",
                  exc=NotImplementedError)
    if algorithm in (None, "default"):
        algorithm = "Jacobi" if max(x.aval.shape[-2:]) <= _LARGEST_OF_JACOBI else "QR"
    if algorithm == "QR":
        *factors, info = _gesvd(b, x, s, u, vh, full_matrices, compute_uv)
    else:
        *factors, info = _svd_with_v(b, x, s, u, vh, full_matrices, compute_uv, algorithm == "Jacobi")
    return *factors, _failed_unless_finite(b, x, info)


def _gesvd(b: Builder, x: Value, s: ShapedArray, u: ShapedArray, vh: ShapedArray, full_matrices: bool,
           compute_uv: bool) -> Sequence[Value]:
    """By QR, for m >= n only: a row-major matrix with m < n is its own transpose in column-major order."""
    m, n = x.aval.shape[-2:]
    if not compute_uv:
        u = vh = ShapedArray((), u.dtype)
    factors = [vh, u] if m < n else [u, vh]
    _, values, *computed, info = native.call(b, "cusolver_gesvd_ffi", [x], [x.aval, s, *factors, info_type(x.aval)],
                                             flag("compute_uv", compute_uv), flag("full_matrices", full_matrices),
                                             flag("transposed", m < n), in_place=[(0, 0)], by_columns=m >= n)
    u_out, vh_out = computed[::-1] if m < n else computed
    return values, u_out, vh_out, info


def _svd_with_v(b: Builder, x: Value, s: ShapedArray, u: ShapedArray, vh: ShapedArray, full_matrices: bool,
                compute_uv: bool, by_jacobi: bool) -> Sequence[Value]:
    """By Jacobi's method or the polar decomposition, which return V and always need memory for U and V."""
    *batch, m, n = x.aval.shape
    is_small = min(m, n) <= _BATCHED_JACOBI
    full = full_matrices or (by_jacobi and is_small)
    k = min(m, n)
    outs = [x.aval, s, ShapedArray((*batch, m, m if full else k), x.aval.dtype),
            ShapedArray((*batch, n, n if full else k), x.aval.dtype), info_type(x.aval)]
    target = f"cusolver_gesvd{'j' if by_jacobi else 'p'}_ffi"
    _, values, u_out, v_out, info = native.call(b, target, [x], outs, flag("compute_uv", compute_uv),
                                                flag("full_matrices", full), in_place=[(0, 0)])
    if not compute_uv:
        return values, u_out, v_out, info

    def truncate(u_all: Array, v_all: Array) -> list[Array]:
        columns, rows = u.shape[-1], vh.shape[-2]
        return [slice_in_dim(u_all, 0, columns, axis=-1), slice_in_dim(adjoint(v_all), 0, rows, axis=-2)]

    return values, *lower_function(b, truncate, [u_out, v_out]), info


# -- tridiagonal matrices, updates ----------------------------------------------------------------------------------

def sytrd(b: Builder, x: Value, outs: Sequence[ShapedArray], *, lower: bool) -> Sequence[Value]:
    return native.call(b, "cusolver_sytrd_ffi", [x], [*outs, info_type(x.aval)], flag("lower", lower),
                       in_place=[(0, 0)])


def gtsv(b: Builder, diagonals: Sequence[Value], rhs: Value) -> Value:
    """By cuSPARSE, which needs at least 3 rows, and zeros in the elements outside the matrix."""
    n = rhs.aval.shape[-2]
    more = max(3 - n, 0)
    *operands, rhs = lower_function(b, lambda *xs: _banded(*xs, more=more), [*diagonals, rhs])
    x = native.call(b, "cusparse_gtsv2_ffi", [*operands, rhs], [rhs.aval], in_place=[(3, 0)],
                    batch_rank=rhs.aval.ndim - 2)[0]
    return lower_function(b, lambda x: [slice_in_dim(x, 0, n, axis=-2)], [x])[0] if more else x


def _banded(dl: Array, d: Array, du: Array, rhs: Array, more: int) -> list[Any]:
    """The operands with zeros outside the matrix, and with `more` rows of the identity below."""
    def padded(x: Array, axis: int, value: float, low: int, high: int) -> Array:
        if not low + high:
            return x
        axis += typeof(x).ndim
        return pad(x, number_of(typeof(x).dtype, value), [(low, high, 0) if k == axis else (0, 0, 0)
                                                          for k in range(typeof(x).ndim)])

    n = typeof(d).shape[-1]
    return [padded(slice_in_dim(dl, 1, n, axis=-1), -1, 0, 1, more), padded(d, -1, 1, 0, more),
            padded(slice_in_dim(du, 0, n - 1, axis=-1), -1, 0, 0, 1 + more),
            padded(rhs, -2, 0, 0, more)]


def gtsv_perturbed(b: Builder, diagonals: Sequence[Value], rhs: Value) -> Value:
    return native.call(b, "cu_tridiagonal_solve_perturbed", [*diagonals, rhs], [rhs.aval],
                       batch_rank=rhs.aval.ndim - 2)[0]


def cholesky_update(b: Builder, out: ShapedArray, r: Value, w: Value) -> Value | None:
    """Lowering rule of cholesky_update; cuSOLVER's operation has no batches."""
    if r.aval.ndim > 2:
        return None
    return native.call(b, "cu_cholesky_update_ffi", [r, w], [r.aval, w.aval], in_place=[(0, 0), (1, 1)],
                       by_columns=False)[0]
