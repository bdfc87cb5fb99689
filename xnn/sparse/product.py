"""The product of a sparse and a dense matrix, its derivatives, and the form in which rows are summed.

The derivative with respect to the dense operand is the product with the transpose, whose tables are stored, so it needs
no scatter. The derivative with respect to the values is `sampled`: for each stored value the dot product of two rows.
All derivatives exist, in both modes.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Literal, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax, ops
from xjax.custom_derivatives import SymbolicZero, linear_call
from xjax.forms import limits
from xjax.typing import Array, ArrayLike
from xnn.sparse.rows import SlicedEll, at, make_rows, spread, weighted_sum, widened, without_weights

Form = Literal["unrolled", "segments"]


class Side(NamedTuple):
    """Positions of the stored values, in row order, of a matrix or of its transpose.

    Attributes:
      rows: int32[nnz], ascending.
      cols: int32[nnz].
      indptr: int32[n_rows + 1]; row i has the values ``indptr[i]:indptr[i + 1]``.
      order: int32[nnz]; value k of this side is value ``order[k]`` of the other side.
      blocks: the rows as blocks, for products in the form "unrolled"; None for "segments".
    """

    rows: Any
    cols: Any
    indptr: Any
    order: Any
    blocks: SlicedEll | None = None


def best_form(nnz: int, columns: int, steps: int) -> Form:
    """The form with the least total time, including compilation, for `steps` products with `columns` columns."""
    measured = limits("sparse products unrolled", xjax.default_backend())
    wins = measured is not None and nnz * columns * steps * measured["saved"] > measured["compiling"]
    return "unrolled" if wins else "segments"


def with_blocks(side: Side, values: np.ndarray | None) -> Side:
    """The side with `blocks`. Args: values: [nnz] in the order of the side, or None if they are traced."""
    return side._replace(blocks=make_rows(np.asarray(side.indptr), np.asarray(side.cols), values))


def other_values(side: Side) -> Side:
    """The same side for other values."""
    return side if side.blocks is None else side._replace(blocks=without_weights(side.blocks))


@xjax.custom_jvp
def product(values: ArrayLike | None, x: ArrayLike, by_row: Side, by_col: Side) -> Array:
    """``A x``: values [nnz], x [n_cols, f] -> [n_rows, f]; `by_row` and `by_col` are the sides of A.

    With values [nnz, heads] and x [n_cols, heads, f] it computes several products, of matrices with the same positions.
    For values of None all values are 1.
    """
    def transposed(tables, ct):
        values, by_row, by_col = tables
        return product(None if values is None else at(values, by_col.order), ct, by_col, by_row)

    return linear_call(lambda tables, x: _row_sums(tables[0], x, tables[1]), transposed, (values, by_row, by_col), x)


def _product_rule(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (values, x, by_row, by_col), (d_values, dx, *_) = primals, tangents
    return product(values, x, by_row, by_col), _sum_of([
        None if isinstance(dx, SymbolicZero) else product(values, dx, by_row, by_col),
        None if isinstance(d_values, SymbolicZero | None) else _by_values(d_values, x, by_row, by_col)], x, by_row)


@xjax.custom_jvp
def _by_values(values: Array, x: Array, by_row: Side, by_col: Side) -> Array:
    """`product` as a linear function of the values."""
    def transposed(tables, ct):
        return sampled(ct, tables[0], tables[1].rows, tables[1].cols)

    return linear_call(lambda tables, values: _row_sums(values, tables[0], other_values(tables[1])), transposed,
                       (x, by_row), values)


def _by_values_rule(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (values, x, by_row, by_col), (d_values, dx, *_) = primals, tangents
    return _by_values(values, x, by_row, by_col), _sum_of([
        None if isinstance(d_values, SymbolicZero) else _by_values(d_values, x, by_row, by_col),
        None if isinstance(dx, SymbolicZero) else product(values, dx, other_values(by_row), other_values(by_col))],
        x, by_row)


product.defjvp(_product_rule, symbolic_zeros=True)
_by_values.defjvp(_by_values_rule, symbolic_zeros=True)


def _sum_of(tangents: list[Any], x: ArrayLike, by_row: Side) -> Array:
    there = [tangent for tangent in tangents if tangent is not None]
    if not there:
        return jnp.zeros((by_row.indptr.shape[0] - 1, *x.shape[1:]), x.dtype)
    return there[0] if len(there) == 1 else there[0] + there[1]


def _row_sums(values: Array | None, x: Array, side: Side) -> Array:
    if side.blocks is not None:
        return weighted_sum(side.blocks, x, values)
    picked = widened(spread(x, side.cols))
    picked = picked if values is None else picked * widened(values)[..., None]
    n_rows = side.indptr.shape[0] - 1
    return ops.segment_sum(picked, side.rows, num_segments=n_rows, indices_are_sorted=True).astype(x.dtype)


def sampled(left: Array, right: Array, rows: Array | np.ndarray, cols: Array | np.ndarray) -> Array:
    """``sum_f left[rows[k], ..., f] right[cols[k], ..., f]`` for each k: [n, ..., f], [m, ..., f] -> [nnz, ...]."""
    f, measured = left.shape[-1], limits("sampled products", xjax.default_backend()) or {}
    if f > (step := int(measured["at_once"])):              # limits the memory of the terms [nnz, f]
        parts = [slice(start, start + step) for start in range(0, f, step)]
        each = [sampled(left[..., part], right[..., part], rows, cols) for part in parts]
        return functools.reduce(jnp.add, map(lax.optimization_barrier, each))
    if math.prod(left.shape[1:-1]) > 1 and 0 < f <= measured["short"]:
        # The short rows of all heads are read as one row, because a loop over only 8 numbers takes twice as long each.
        flat = (x.reshape(x.shape[0], -1) for x in (left, right))
        terms = lax.optimization_barrier(functools.reduce(jnp.multiply, map(spread, flat, (rows, cols))))
        return jnp.sum(terms.reshape(-1, *left.shape[1:]), -1)
    terms = spread(left, rows) * spread(right, cols)
    # Halves are added down to `least` columns, and then single columns, because XLA's reduction takes 1.4 to 6 times as
    # long. 128 columns are halved only down to 32: further halving takes four times as long.
    least = 1 if f <= 64 else 32
    while terms.shape[-1] > least and terms.shape[-1] % 2 == 0:
        half = terms.shape[-1] // 2
        terms = terms[..., :half] + terms[..., half:]
    columns = [terms[..., k] for k in range(terms.shape[-1])]
    while len(columns) > 1:
        columns = [functools.reduce(jnp.add, columns[k:k + 2]) for k in range(0, len(columns), 2)]
    return columns[0] if columns else jnp.zeros(terms.shape[:-1], terms.dtype)
