"""Eigenvalues and eigenvectors: of Hermitian matrices (eigh) and of general matrices (eig)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.types import ShapedArray, Zero, typeof
from xjax.lax.linalg import native
from xjax.lax.linalg.gaps import inverse_gaps
from xjax.lax.linalg.libraries import Library, by_library
from xjax.lax.linalg.matrices import (
    adjoint,
    as_row,
    check_matrix,
    conjugate,
    diagonal,
    matrix_primitive,
    product,
    real_dtype,
    real_part,
    symmetrized,
)
from xjax.lax.linalg.solve import solve
from xjax.ops.arrange import broadcasted_iota
from xjax.ops.compare import eq
from xjax.ops.complex_numbers import complex, imag, real
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, div, mul, neg
from xjax.ops.piecewise import abs
from xjax.ops.piecewise import max as larger
from xjax.ops.reduce import argmax, reduce_max
from xjax.ops.shape import expand_dims, reduce_sum
from xjax.ops.slice import slice_in_dim
from xjax.typing import Array, ArrayLike


class EighImplementation(enum.Enum):
    """Algorithms of `eigh`: QR on every device, JACOBI on GPUs too, QDWH on no device that xjax supports."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class EigImplementation(enum.Enum):
    """Implementations of `eig`: LAPACK on CPUs; on GPUs all three (LAPACK and MAGMA run on the host)."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


# -- eigh -----------------------------------------------------------------------------------------------------------

def eigh(x: ArrayLike, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True,
         subset_by_index: tuple[int, int] | None = None,
         implementation: EighImplementation | None = None) -> tuple[Any, Any]:
    """Eigenvectors and eigenvalues of Hermitian matrices: ``x @ v = v * w``.

    Args:
      x: float or complex[..., n, n].
      symmetrize_input: use half the sum of `x` and its adjoint; else only the triangle selected by `lower` is read.
      sort_eigenvalues: whether their order matters; they are in ascending order in either case.
      subset_by_index: None or (0, n). implementation: None: the library chooses; see `EighImplementation`.
    Returns: (v [..., n, n], w real[..., n]); NaN where the library does not converge.

    Derivatives are finite everywhere. Eigenvalues that differ by less than ``(4 + sqrt(n)) eps max|w|`` count as equal,
    and the derivative does not rotate their vectors into each other. Where eigenvalues are equal, derivatives are

      - right for symmetric functions of `w` (sums, traces, determinants), for projectors on the whole eigenspace, and
        for functions composed of these;
      - incomplete for ``(v * f(w)) @ v^H``: of each block of equal eigenvalues only the trace is right. The rest of the
        block needs f', which the tangent of `w`, one number for each vector, does not contain;
      - arbitrary for single vectors of the eigenspace, which have no derivative there.

    `scipy.linalg.expm`, `sqrtm`, `polar` and `numpy.linalg.pinv`, `inv`, `matrix_power` do not differentiate
    eigenvectors, and their derivatives are also right at equal eigenvalues.
    """
    implementation = None if implementation is None else EighImplementation(implementation)
    check_matrix("eigh", typeof(x), square=True)
    if subset_by_index not in (None, (0, typeof(x).shape[-1])):
        raise bad("lax.linalg.eigh", "a subset of the eigenvalues cannot be computed on this platform",
                  given={"subset_by_index": subset_by_index}, fix="compute all, and slice the results.",
                  exc=NotImplementedError)
    x = symmetrized(x) if symmetrize_input else x
    return tuple(eigh_p.bind(x, lower=bool(lower), sort_eigenvalues=bool(sort_eigenvalues),
                             subset_by_index=subset_by_index, algorithm=implementation))


def _eigh_type(x, **_):
    check_matrix("eigh", x, square=True)
    return x.strong(), ShapedArray(x.shape[:-1], real_dtype(x.dtype))


def _eigh_lower(library: Library, b: Builder, outs: Sequence[ShapedArray], x: Value, *, lower, algorithm,
                **_) -> list[Value]:
    vectors, values = outs
    if not vectors.size:
        return [b.constant(0, out) for out in outs]
    v, w, info = library.syevd(b, x, values, lower=lower, algorithm=algorithm and algorithm.value)
    return native.nan_where_failed(b, info, v, w)


def _eigh_jvp(primals, tangents, **params):
    """Perturbation of eigenvalues: dw = diag(v^H dx v), dv = v (v^H dx v / gaps); 1 / gap is 0 for equal ones."""
    (x,), (dx,) = primals, tangents
    v, w = eigh_p.bind(symmetrized(x), **params)
    if type(dx) is Zero:
        return [v, w], [Zero(typeof(v).tangent()), Zero(typeof(w).tangent())]
    inner = product(adjoint(v), product(dx, v))
    n = typeof(w).shape[-1]
    first, last = slice_in_dim(w, 0, min(n, 1), axis=-1), slice_in_dim(w, max(n - 1, 0), n, axis=-1)
    gaps = inverse_gaps(w, larger(neg(first), last))            # the eigenvalues are in ascending order
    dv = product(v, mul(convert_element_type(gaps, typeof(v).dtype), inner))
    return [v, w], [dv, real_part(diagonal(inner))]


eigh_p = matrix_primitive("eigh", type_rule=_eigh_type, lower_on=by_library(_eigh_lower), jvp=_eigh_jvp)


# -- eig ------------------------------------------------------------------------------------------------------------

def eig(x: ArrayLike, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True,
        enable_eigvec_derivs: bool = False, implementation: EigImplementation | None = None,
        use_magma: bool | None = None) -> list[Any]:
    """Eigenvalues and eigenvectors of square matrices: ``x @ v = v * w``.

    Args:
      x: float or complex[..., n, n].
      enable_eigvec_derivs: differentiate eigenvectors, normalized so that their norm is 1 and their largest element is
        real. The derivative is right only for matrices with distinct eigenvalues.
      implementation: None: cuSOLVER on GPUs if it supports the call, else LAPACK.
      use_magma: an older form of `implementation`: True is MAGMA, False LAPACK.
    Returns: [w, left vectors, right vectors], complex, without the vectors that are not requested; column i belongs to
      w[i]. NaN where the library does not converge.
    """
    if use_magma is not None:
        implementation = EigImplementation.MAGMA if use_magma else EigImplementation.LAPACK
    implementation = None if implementation is None else EigImplementation(implementation)
    return list(eig_p.bind(x, compute_left_eigenvectors=bool(compute_left_eigenvectors),
                           compute_right_eigenvectors=bool(compute_right_eigenvectors),
                           enable_eigvec_derivs=bool(enable_eigvec_derivs), implementation=implementation))


def _eig_type(x, *, compute_left_eigenvectors, compute_right_eigenvectors, **_):
    check_matrix("eig", x, square=True)
    dtype = dtypes.to_complex_dtype(x.dtype)
    vectors = ShapedArray(x.shape, dtype)
    return (ShapedArray(x.shape[:-1], dtype), *[vectors] * (compute_left_eigenvectors + compute_right_eigenvectors))


def _eig_lower(library: Library, b: Builder, outs: Sequence[ShapedArray], x: Value, *, compute_left_eigenvectors,
               compute_right_eigenvectors, implementation, **_) -> list[Value]:
    if not x.aval.size:
        return [b.constant(0, out) for out in outs]
    w, left, right, info = library.geev(b, x, outs[0], left=compute_left_eigenvectors, right=compute_right_eigenvectors,
                                        implementation=implementation and implementation.value)
    wanted = [v for v, flag in ((left, compute_left_eigenvectors), (right, compute_right_eigenvectors)) if flag]
    return native.nan_where_failed(b, info, w, *wanted)


def _eig_jvp(primals, tangents, *, compute_left_eigenvectors, compute_right_eigenvectors, enable_eigvec_derivs,
             implementation):
    (x,), (dx,) = primals, tangents
    wants_vectors = compute_left_eigenvectors or compute_right_eigenvectors
    if type(dx) is not Zero and wants_vectors and not enable_eigvec_derivs:
        raise bad("lax.linalg.eig", "the derivative of eigenvectors is not defined without assumptions on the matrix",
                  fix="use numpy.linalg.eigvals for the eigenvalues alone, eigh for Hermitian matrices, or pass "
                      "enable_eigvec_derivs=True if the eigenvalues are distinct.", exc=NotImplementedError)
    # Second derivatives of eigenvalues need first derivatives of the vectors, under the same assumption.
    rest = {"enable_eigvec_derivs": enable_eigvec_derivs or not wants_vectors, "implementation": implementation}
    w, *left, v = eig_p.bind(x, compute_left_eigenvectors=compute_left_eigenvectors, compute_right_eigenvectors=True,
                             **rest)
    outs = [w, *left, *[v] * compute_right_eigenvectors]
    if type(dx) is Zero:
        return outs, [Zero(typeof(y).tangent()) for y in outs]
    dx = convert_element_type(dx, typeof(v).dtype)
    dw, dv = _vector_change(w, v, dx)
    dleft = [_vector_change(conjugate(w), u, adjoint(dx))[1] for u in left]
    return outs, [dw, *dleft, *[dv] * compute_right_eigenvectors]


def _vector_change(w: Array, v: Array, dx: Array) -> tuple[Any, Any]:
    """dw, and dv = u + v c: u follows from the perturbation of distinct eigenvalues; c keeps the norm at 1 and the
    largest element real, the scaling of LAPACK."""
    inner = product(solve(v, dx), v)
    sizes = abs(w)
    last = typeof(w).ndim - 1
    gaps = inverse_gaps(w, expand_dims(reduce_max(sizes, (last,)), (last,)) if typeof(w).size else sizes)
    u = product(v, mul(gaps, inner))
    rows = typeof(v).ndim - 2
    largest = as_row(argmax(abs(v), rows, np.int32))
    positions = broadcasted_iota(np.int32, typeof(v).shape, rows)
    mask = convert_element_type(eq(positions, largest), typeof(v).dtype)
    shrink = neg(real(reduce_sum(mul(conjugate(v), u), (rows,))))
    rotate = neg(div(imag(reduce_sum(mul(mask, u), (rows,))), real(reduce_sum(mul(mask, v), (rows,)))))
    return diagonal(inner), add(u, mul(v, as_row(complex(shrink, rotate))))


eig_p = matrix_primitive("eig", type_rule=_eig_type, lower_on=by_library(_eig_lower), jvp=_eig_jvp)
