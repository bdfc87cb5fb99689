"""LU decomposition with row exchanges, and the corresponding permutation of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import ZERO
from xjax.core.types import ShapedArray, Zero, number_of, typeof
from xjax.lax.linalg import cusolver, native
from xjax.lax.linalg.libraries import Library, by_library
from xjax.lax.linalg.matrices import (
    check_matrix,
    identity_like,
    lower_by,
    lower_triangle,
    matrix_primitive,
    product,
    take_rows,
    upper_triangle,
)
from xjax.lax.linalg.triangular import triangular_solve
from xjax.lax.loops import fori_loop
from xjax.ops.arrange import broadcasted_iota
from xjax.ops.checks import static_int
from xjax.ops.compare import eq, select
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add
from xjax.ops.makers import filled_like
from xjax.ops.shape import broadcast_in_dim, reduce_sum, squeeze
from xjax.ops.slice import dynamic_slice_in_dim, pad, slice_in_dim
from xjax.typing import Array, ArrayLike

# -- lu_pivots_to_permutation ---------------------------------------------------------------------------------------


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The order of the rows after the exchanges of row i with row ``pivots[i]``, for i = 0, 1, ...

    Args: pivots: int32[..., k]; permutation_size: the number n of rows, at least k.
    Returns: int32[..., n].
    """
    size = static_int(permutation_size, "permutation_size", "lax.linalg.lu_pivots_to_permutation")
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=size)[0]


def _order_type(pivots, *, permutation_size):
    if pivots.dtype.name not in ("int32", "int64", "uint32", "uint64") or not pivots.ndim \
            or pivots.shape[-1] > permutation_size:
        raise bad("lax.linalg.lu_pivots_to_permutation", "takes at most `permutation_size` pivots, as integers",
                  given={"pivots": pivots.str_short(), "permutation_size": permutation_size},
                  fix="pass the second result of lu, and the number of rows.", exc=ValueError)
    return (ShapedArray((*pivots.shape[:-1], permutation_size), native.INT32),)


def _order(pivots: Array, *, permutation_size: int) -> Sequence[Any]:
    *batch, k = typeof(pivots).shape
    shape = (*batch, permutation_size)
    positions = broadcasted_iota(np.int32, shape, len(batch))

    def exchange(i: Array, order: Array) -> Array:
        j = broadcast_in_dim(squeeze(dynamic_slice_in_dim(pivots, i, 1, len(batch)), (len(batch),)), shape,
                             range(len(batch)))
        i = broadcast_in_dim(convert_element_type(i, np.int32), shape, ())
        at_i, at_j = eq(positions, i), eq(positions, convert_element_type(j, np.int32))
        return select(at_i, _value_at(order, at_j), select(at_j, _value_at(order, at_i), order))

    return [fori_loop(np.int32(0), np.int32(k), exchange, positions) if k else positions]


def _value_at(order: Array, mask: Array) -> Array:
    """The value of each row at the position where `mask` is true, repeated along the row."""
    shape = typeof(order).shape
    value = reduce_sum(select(mask, order, filled_like(order, 0)), (len(shape) - 1,))
    return broadcast_in_dim(value, shape, range(len(shape) - 1))


lu_pivots_to_permutation_p = matrix_primitive("lu_pivots_to_permutation", type_rule=_order_type, lower=lower_by(_order),
                                              lower_on={"gpu": cusolver.order_of_rows}, jvp=ZERO)


# -- lu -------------------------------------------------------------------------------------------------------------

def lu(x: ArrayLike) -> tuple[Any, Any, Any]:
    """Decompose matrices as ``x[permutation] = L @ U``.

    Args: x: float or complex[..., m, n].
    Returns:
      (lu, pivots, permutation). lu [..., m, n]: L below the diagonal (its diagonal is 1), U on and above it. pivots
      int32[..., min(m, n)]: the row exchanged with each row. permutation int32[..., m]: the resulting order of rows.
    """
    return tuple(lu_p.bind(x))


def _lu_type(x):
    check_matrix("lu", x)
    *batch, m, n = x.shape
    return x.strong(), ShapedArray((*batch, min(m, n)), native.INT32), ShapedArray((*batch, m), native.INT32)


def _lu_lower(library: Library, b: Builder, outs: Sequence[ShapedArray], x: Value) -> list[Value]:
    factors, pivots, order = outs
    if not factors.size:
        rows = np.broadcast_to(np.arange(order.shape[-1], dtype=np.int32), order.shape)
        return [b.constant(0, factors), b.constant(0, pivots), b.constant(rows, order)]
    computed, exchanges, info = library.getrf(b, x, pivots)
    computed, = native.nan_where_failed(b, info, computed, allowed="GE")     # a singular matrix has a decomposition too
    exchanges = b.sub(exchanges, 1)
    ordered = lu_pivots_to_permutation_p.lower(b, [order], exchanges, permutation_size=order.shape[-1])
    return [computed, exchanges, *ordered]


def _lu_jvp(primals, tangents):
    """With F = L^-1 (P dx) U^-1: dL = L strictly_lower(F) and dU = upper(F) U, with L and U padded to be square."""
    (x,), (dx,) = primals, tangents
    computed, pivots, order = lu_p.bind(x)
    rest = [Zero(typeof(pivots).tangent()), Zero(typeof(order).tangent())]
    if type(dx) is Zero:
        return [computed, pivots, order], [Zero(typeof(computed).tangent()), *rest]
    m, n = typeof(computed).shape[-2:]
    k = min(m, n)
    below = lower_triangle(slice_in_dim(computed, 0, k, axis=-1), -1)
    left = _padded(below, 0, m - k)
    left = add(left, identity_like(left))
    right = _padded(upper_triangle(slice_in_dim(computed, 0, k, axis=-2)), n - k, 0)
    if n > k:                                           # ones on the diagonal that the padding added
        right = add(right, _corner(right, k))
    inner = triangular_solve(left, take_rows(dx, order), left_side=True, lower=True, unit_diagonal=True)
    inner = triangular_solve(right, inner)
    change = add(product(left, lower_triangle(inner, -1)), product(upper_triangle(inner), right))
    return [computed, pivots, order], [change, *rest]


def _padded(x: Array, rows: int, columns: int) -> Array:
    """The matrices with rows and columns of zeros appended."""
    widths = [(0, 0, 0)] * (typeof(x).ndim - 2) + [(0, rows, 0), (0, columns, 0)]
    return pad(x, number_of(typeof(x).dtype, 0), widths) if rows or columns else x


def _corner(x: Array, k: int) -> Array:
    """The identity matrix with zeros in the first k rows."""
    ones = identity_like(x)
    kept = slice_in_dim(ones, k, typeof(x).shape[-2], axis=-2)
    return pad(kept, number_of(typeof(x).dtype, 0), [(0, 0, 0)] * (typeof(x).ndim - 2) + [(k, 0, 0), (0, 0, 0)])


lu_p = matrix_primitive("lu", type_rule=_lu_type, lower_on=by_library(_lu_lower), jvp=_lu_jvp)
