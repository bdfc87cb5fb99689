"""QR decomposition, and products of Householder reflections, the form in which LAPACK returns Q."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.primitive import Missing
from xjax.core.types import ShapedArray, Zero, typeof
from xjax.lax.linalg import native
from xjax.lax.linalg.libraries import Library, by_library
from xjax.lax.linalg.matrices import (
    adjoint,
    check_matrix,
    diagonal,
    identity_like,
    lower_by,
    lower_triangle,
    matrix_primitive,
    product,
    swapped,
    take_rows,
    upper_triangle,
)
from xjax.lax.linalg.triangular import triangular_solve
from xjax.ops.complex_numbers import real
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, mul, sub
from xjax.ops.shape import expand_dims
from xjax.ops.text import slice_text
from xjax.typing import Array, ArrayLike

_NO_DERIVATIVE = Missing("reflections have no derivative rule", fix="differentiate through lax.linalg.qr.")


# -- householder_product --------------------------------------------------------------------------------------------

def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The first n columns of the product of k reflections ``1 - tau v v^H``.

    Args:
      a: float or complex[..., m, n]; v of reflection i is in column i below the diagonal (1 on it, 0 above).
      taus: the same dtype [..., k], k <= n <= m.
    Returns: array like `a`, with orthonormal columns.
    """
    return householder_product_p.bind(a, taus)


def _householder_type(a, taus):
    check_matrix("householder_product", a)
    if a.dtype != taus.dtype or a.shape[:-2] != taus.shape[:-1] or taus.shape[-1] > a.shape[-1] \
            or a.shape[-1] > a.shape[-2]:
        raise bad("lax.linalg.householder_product", "needs a[..., m, n] and taus[..., k] with k <= n <= m",
                  given={"a": a.str_short(), "taus": taus.str_short()}, fix="pass the results of numpy.linalg.qr with "
                  "mode='raw'; transpose the first one.", exc=ValueError)
    return a.strong()


def _householder_lower(library: Library, b: Builder, out: ShapedArray, a: Value, taus: Value) -> Value:
    if not a.aval.size:
        return native.identities(b, out)
    return library.orgqr(b, a, taus)


householder_product_p = matrix_primitive("householder_product", type_rule=_householder_type,
                                         lower_on=by_library(_householder_lower), jvp=_NO_DERIVATIVE,
                                         multiple_results=False)


# -- ormqr ----------------------------------------------------------------------------------------------------------

def ormqr(a: ArrayLike, taus: ArrayLike, c: ArrayLike, *, left: bool = True, transpose: bool = False) -> Array:
    """``Q @ c`` (or ``c @ Q``) for the full Q of k reflections, without computing Q.

    Args:
      a: float or complex[..., m, k] and taus [..., k]: the reflections as in `householder_product`.
      c: the same dtype [..., m, p], without `left` [..., p, m]. transpose: use the adjoint of Q.
    Returns: array like `c`.
    """
    return ormqr_p.bind(a, taus, c, left=bool(left), transpose=bool(transpose))


def _ormqr_type(a, taus, c, *, left, transpose):
    check_matrix("ormqr", a)
    check_matrix("ormqr", c)
    fits = a.dtype == c.dtype == taus.dtype and a.shape[:-2] == c.shape[:-2] == taus.shape[:-1]
    if not fits or taus.shape[-1] > a.shape[-1] or c.shape[-2 if left else -1] != a.shape[-2]:
        raise bad("lax.linalg.ormqr", "`a`, `taus` and `c` do not match",
                  given={"a": a.str_short(), "taus": taus.str_short(), "c": c.str_short(), "left": left},
                  fix="Q has as many rows and columns as a has rows.", exc=ValueError)
    return c.strong()


def _ormqr_lower(library: Library, b: Builder, out: ShapedArray, a: Value, taus: Value, c: Value, *, left,
                 transpose) -> Value:
    if not a.aval.size or not out.size:
        return c
    k = taus.aval.shape[-1]
    if k < a.aval.shape[-1]:                            # the libraries need one column per reflection
        a = slice_text(b, a, [0] * a.aval.ndim, [*a.aval.shape[:-1], k])
    return library.ormqr(b, a, taus, c, left=left, transpose=transpose)


ormqr_p = matrix_primitive("ormqr", type_rule=_ormqr_type, lower_on=by_library(_ormqr_lower), jvp=_NO_DERIVATIVE,
                           multiple_results=False)


# -- geqrf ----------------------------------------------------------------------------------------------------------

def geqrf(a: ArrayLike) -> tuple[Any, Any]:
    """QR decomposition in LAPACK's form: R above, the reflections below the diagonal, and their factors `taus`.

    Args: a: float or complex[..., m, n].
    Returns: (packed [..., m, n], taus [..., min(m, n)]).
    """
    return tuple(geqrf_p.bind(a))


def _geqrf_type(a):
    check_matrix("geqrf", a)
    *batch, m, n = a.shape
    return a.strong(), ShapedArray((*batch, min(m, n)), a.dtype)


def _geqrf_lower(library: Library, b: Builder, outs: Sequence[ShapedArray], a: Value) -> Sequence[Value]:
    if not outs[0].size:
        return [b.constant(0, out) for out in outs]
    return library.geqrf(b, a, outs[1])


geqrf_p = matrix_primitive("geqrf", type_rule=_geqrf_type, lower_on=by_library(_geqrf_lower), jvp=_NO_DERIVATIVE)


# -- qr -------------------------------------------------------------------------------------------------------------

def qr(x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True,
       use_magma: bool | None = None) -> tuple[Any, ...]:
    """Decompose matrices as ``x = Q @ R``, or ``x[:, p] = Q @ R`` with `pivoting`.

    Args:
      x: float or complex[..., m, n].
      pivoting: reorder the columns so that the diagonal of R decreases in magnitude.
      full_matrices: Q has m columns, else min(m, n).
      use_magma: for `pivoting` on GPUs: use MAGMA (True) or LAPACK on the host (False). None: MAGMA if installed.
    Returns: (Q, R), with pivoting (Q, R, p) and p int32[..., n].
    """
    return tuple(qr_p.bind(x, pivoting=bool(pivoting), full_matrices=bool(full_matrices), use_magma=use_magma))


def _qr_type(x, *, pivoting, full_matrices, use_magma):
    check_matrix("qr", x)
    *batch, m, n = x.shape
    k = m if full_matrices else min(m, n)
    types = ShapedArray((*batch, m, k), x.dtype), ShapedArray((*batch, k, n), x.dtype)
    return (*types, ShapedArray((*batch, n), native.INT32)) if pivoting else types


def _qr_lower(library: Library, b: Builder, outs: Sequence[ShapedArray], x: Value, *, pivoting, full_matrices,
              use_magma) -> list[Value]:
    q_type, r_type, *order_type = outs
    *batch, m, n = x.aval.shape
    if not x.aval.size:
        order = [b.constant(np.broadcast_to(np.arange(n, dtype=np.int32), out.shape), out) for out in order_type]
        return [native.identities(b, q_type), b.constant(0, r_type), *order]
    taus_type = ShapedArray((*batch, min(m, n)), x.aval.dtype)
    if pivoting:
        free = b.constant(0, order_type[0])             # 0: the column may be moved
        packed, order, taus = library.geqp3(b, x, free, taus_type, use_magma)
        orders = [b.sub(order, 1)]
    else:
        (packed, taus), orders = library.geqrf(b, x, taus_type), []
    k = q_type.shape[-1]
    start = packed if k == n else _with_columns(b, packed, k)
    rows = slice_text(b, packed, [0] * packed.aval.ndim, [*batch, k, n])
    r, = lower_by(lambda y: [upper_triangle(y)])(b, None, rows)
    return [_householder_lower(library, b, q_type, start, taus), r, *orders]


def _with_columns(b: Builder, x: Value, k: int) -> Value:
    """The matrices truncated to k columns, or with columns of zeros appended."""
    *batch, m, n = x.aval.shape
    if k < n:
        return slice_text(b, x, [0] * x.aval.ndim, [*batch, m, k])
    out = ShapedArray((*batch, m, k), x.aval.dtype)
    zero = b.constant(0, ShapedArray((), x.aval.dtype))
    none = [0] * out.ndim
    return b.op(f"stablehlo.pad {x}, {zero}, low = {none}, high = {[*none[:-1], k - n]}, interior = {none} : "
                f"({x.type}, {zero.type}) -> {tensor_type(out)}", out)


def _qr_jvp(primals, tangents, *, pivoting, full_matrices, use_magma):
    """Walter, Lehmann and Lamour 2012: dQ = Q W with antihermitian W, so that R stays triangular."""
    (x,), (dx,) = primals, tangents
    q, r, *order = qr_p.bind(x, pivoting=pivoting, full_matrices=full_matrices, use_magma=use_magma)
    rest = [Zero(typeof(p).tangent()) for p in order]
    if type(dx) is Zero:
        return [q, r, *order], [Zero(typeof(q).tangent()), Zero(typeof(r).tangent()), *rest]
    m, n = typeof(x).shape[-2:]
    if m < n or (full_matrices and m != n):
        raise bad("lax.linalg.qr", "has a derivative only where R is square",
                  given={"x": typeof(x), "full_matrices": full_matrices},
                  fix="pass full_matrices=False (numpy: mode='reduced') and matrices with at least as many rows as "
                      "columns.", exc=NotImplementedError)
    if order:
        dx = swapped(take_rows(swapped(dx), order[0]))
    dx_by_r = triangular_solve(r, dx)
    inner = product(adjoint(q), dx_by_r)
    below = lower_triangle(inner, -1)
    rotation = sub(below, adjoint(below))
    if dtypes.is_complex(typeof(x).dtype):              # the diagonal of R stays real
        on_diagonal = diagonal(inner)
        phase = sub(on_diagonal, convert_element_type(real(on_diagonal), typeof(x).dtype))
        rotation = add(rotation, mul(identity_like(inner), expand_dims(phase, (typeof(phase).ndim,))))
    dq = add(product(q, sub(rotation, inner)), dx_by_r)
    dr = product(sub(inner, rotation), r)
    return [q, r, *order], [dq, dr, *rest]


qr_p = matrix_primitive("qr", type_rule=_qr_type, lower_on=by_library(_qr_lower), jvp=_qr_jvp)
