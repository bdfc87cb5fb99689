"""The maximum over the rows of x selected by each row of a sparse matrix, and its derivatives."""

from __future__ import annotations

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax
from xjax.custom_derivatives import linear_call
from xjax.typing import Array, ArrayLike
from xnn.sparse.product import Side
from xnn.sparse.rows import matching_sum, row_max


@xjax.custom_jvp
def neighbour_max(x: ArrayLike, by_row: Side, by_col: Side) -> Array:
    """Maximum, column by column, over the rows of x selected by each row of a matrix: [m, f] -> [n_rows, f].

    Rows with equal values share the gradient, as in `segment_max`. No array of size [nnz, f] is allocated.

    Args: by_row, by_col: sides of the matrix, in the form "unrolled"; only their `rows` and `blocks` are read.
    """
    return row_max(by_row.blocks, x)


@neighbour_max.defjvp
def _rule(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (x, by_row, by_col), (dx, *_) = primals, tangents
    largest = neighbour_max(x, by_row, by_col)
    # Infinite maxima become NaN, which equals nothing, so that they have no gradient.
    tables = by_row, by_col, *map(lax.stop_gradient, (jnp.where(jnp.isfinite(largest), largest, np.nan), x))

    def moved(tables, dx):
        by_row, _, largest, x = tables
        return matching_sum(by_row.blocks, by_row.rows, largest, x, dx)

    def transposed(tables, ct):
        _, by_col, largest, x = tables
        return matching_sum(by_col.blocks, by_col.rows, x, largest, ct)

    return largest, linear_call(moved, transposed, tables, dx) / jnp.maximum(moved(tables, None), 1)
