"""Reductions over the rows of each segment, such as the nodes of a graph or the edges of a node.

Each takes rows ``x: [n, ...]`` with ``ids: int[n]``, the segment of each row, and returns ``[n_segments, ...]``. A row
belongs to no segment if its id is outside ``0 .. n_segments - 1`` or its `mask` is False; NaN in such a row changes
neither values nor gradients. The result for a segment without rows is 0. Derivatives exist in both modes. The result
has the dtype of x, but means of integers are float32; 16-bit floats are summed in float32.

Args that all functions share:
  n_segments: number of segments, static.
  mask: bool[n], False for rows that do not count; None if all rows count.
  is_sorted: promise that ids ascend, which is faster.
  rows: `xnn.sparse.rows.SlicedEll` of the segments, if ids are concrete, valid and ascending: faster still
    (`CSR.tune`).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax, ops
from xjax.custom_derivatives import linear_call
from xjax.errors import bad
from xjax.typing import Array, ArrayLike, DTypeLike
from xnn.checks import type_text
from xnn.sparse.rows import SlicedEll, is_empty, message_max, message_sum, over_columns, spread

A = TypeVar("A", Array, np.ndarray)


def segment_sum(x: ArrayLike, ids: ArrayLike, n_segments: int, *, mask: ArrayLike | None = None,
                is_sorted: bool = False, rows: SlicedEll | None = None) -> Array:
    """Sum of the rows of each segment.

    >>> segment_sum(jnp.array([1.0, 2.0, 5.0]), jnp.array([0, 0, 2]), 3)
    Array([3., 0., 5.], dtype=float32)
    """
    x, ids = _rows("segment_sum", x, ids, mask)
    return _wide_sum(x, ids, n_segments, mask, is_sorted, rows).astype(x.dtype)


def segment_count(ids: ArrayLike, n_segments: int, *, mask: ArrayLike | None = None, is_sorted: bool = False,
                  rows: SlicedEll | None = None, dtype: DTypeLike = np.int32) -> Array:
    """Number of rows of each segment: [n_segments].

    >>> segment_count(jnp.array([0, 0, 2]), 3)
    Array([2, 0, 1], dtype=int32)
    """
    ones, ids = _rows("segment_count", jnp.ones(jnp.shape(ids), np.int32), ids, mask)
    return _wide_sum(ones, ids, n_segments, mask, is_sorted, rows).astype(dtype)


def segment_mean(x: ArrayLike, ids: ArrayLike, n_segments: int, *, mask: ArrayLike | None = None,
                 is_sorted: bool = False, rows: SlicedEll | None = None) -> Array:
    """Mean of the rows of each segment.

    >>> segment_mean(jnp.array([1.0, 2.0, 5.0]), jnp.array([0, 0, 2]), 3)
    Array([1.5, 0. , 5. ], dtype=float32)
    """
    x, ids = _rows("segment_mean", x, ids, mask)
    total = _wide_sum(x, ids, n_segments, mask, is_sorted, rows)
    count = segment_count(ids, n_segments, mask=mask, is_sorted=is_sorted, rows=rows, dtype=total.dtype)
    mean = total / over_columns(jnp.maximum(count, 1), total)
    return mean.astype(x.dtype) if jnp.issubdtype(x.dtype, np.inexact) else mean


def segment_std(x: ArrayLike, ids: ArrayLike, n_segments: int, *, mask: ArrayLike | None = None,
                is_sorted: bool = False, rows: SlicedEll | None = None, epsilon: float = 1e-5) -> Array:
    """Standard deviation of the rows of each segment, in two passes: the root of the mean of ``(x - mean)**2``.

    A variance up to `epsilon` counts as 0 and has no gradient, because the gradient of the root is unbounded near 0
    (PNA, Corso et al., 2020, as PyTorch Geometric computes it).

    >>> segment_std(jnp.array([1.0, 3.0, 5.0]), jnp.array([0, 0, 2]), 3)
    Array([1., 0., 0.], dtype=float32)
    """
    x, ids = _rows("segment_std", x, ids, mask)
    x = x if jnp.issubdtype(x.dtype, np.inexact) else x.astype(np.float32)
    x, options = kept(x, _counted(ids, n_segments, mask), 0), {"is_sorted": is_sorted, "rows": rows}
    mean = segment_mean(x, ids, n_segments, mask=mask, **options)
    variance = segment_mean(jnp.square(x - rows_of(mean, ids, **options)), ids, n_segments, mask=mask, **options)
    flat = variance <= epsilon                                      # False for NaN, which is kept
    return jnp.where(flat, 0, jnp.sqrt(jnp.where(flat, 1, variance)))


def segment_max(x: ArrayLike, ids: ArrayLike, n_segments: int, *, mask: ArrayLike | None = None,
                is_sorted: bool = False, rows: SlicedEll | None = None) -> Array:
    """Maximum over the rows of each segment, column by column; rows with equal values share its gradient.

    >>> segment_max(jnp.array([-1.0, -2.0, 5.0]), jnp.array([0, 0, 2]), 3)
    Array([-1.,  0.,  5.], dtype=float32)
    """
    return _extreme("segment_max", 1, x, ids, n_segments, mask, is_sorted, rows)


def segment_min(x: ArrayLike, ids: ArrayLike, n_segments: int, *, mask: ArrayLike | None = None,
                is_sorted: bool = False, rows: SlicedEll | None = None) -> Array:
    """Minimum over the rows of each segment, column by column; see `segment_max`.

    >>> segment_min(jnp.array([1.0, 2.0, 5.0]), jnp.array([0, 0, 2]), 3)
    Array([1., 0., 5.], dtype=float32)
    """
    return _extreme("segment_min", -1, x, ids, n_segments, mask, is_sorted, rows)


def segment_prod(x: ArrayLike, ids: ArrayLike, n_segments: int, *, mask: ArrayLike | None = None,
                 is_sorted: bool = False, rows: SlicedEll | None = None) -> Array:
    """Product of the rows of each segment; 0 for a segment without rows, as in the other reductions.

    >>> segment_prod(jnp.array([2.0, 3.0, 5.0]), jnp.array([0, 0, 2]), 3)
    Array([6., 0., 5.], dtype=float32)
    """
    x, ids = _rows("segment_prod", x, ids, mask)
    x = kept(x, _counted(ids, n_segments, mask), 1)
    if x.shape[0] == 0:
        return jnp.zeros((n_segments, *x.shape[1:]), x.dtype)
    if not is_sorted:
        ids = _counted_ids(ids, n_segments)
        order = jnp.argsort(ids, stable=True)
        x, ids = x[order], ids[order]
        mask = None if mask is None else jnp.asarray(mask)[order]
    # Running products restart at each segment. Unlike quotients of one running product, they have all derivatives at 0.
    starts = over_columns(jnp.concatenate([jnp.ones(1, bool), ids[1:] != ids[:-1]]), x)
    _, products = lax.associative_scan(_product_of_runs, (jnp.broadcast_to(starts, x.shape), x))
    ends = jnp.concatenate([ids[1:] != ids[:-1], jnp.ones(1, bool)])
    product = ops.segment_sum(kept(products, ends, 0), ids, n_segments, indices_are_sorted=True)
    some = segment_count(ids, n_segments, mask=mask, is_sorted=True) > 0
    return jnp.where(over_columns(some, product), product, jnp.zeros((), product.dtype))


def _product_of_runs(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    (one_starts, one_product), (other_starts, other_product) = one, other
    # The choice is in the factor. A choice between two products would give NaN gradients: 0 times an infinite product
    # of an earlier segment.
    return one_starts | other_starts, jnp.where(other_starts, jnp.ones_like(one_product), one_product) * other_product


def segment_softmax(x: ArrayLike, ids: ArrayLike, n_segments: int, own: ArrayLike | None = None, *,
                    mask: ArrayLike | None = None, is_sorted: bool = False, rows: SlicedEll | None = None) -> Any:
    """Softmax over the rows of each segment, with the shape of x; 0 for rows that do not count.

    Args: own: [n_segments, ...], one more row for each segment, which is not in x.
    Returns: with `own`, a pair: the results for x and for `own`.

    >>> segment_softmax(jnp.array([1.0, 1.0, 5.0]), jnp.array([0, 0, 2]), 3)
    Array([0.5, 0.5, 1. ], dtype=float32)
    """
    x, ids = _rows("segment_softmax", x, ids, mask)
    if not jnp.issubdtype(x.dtype, np.inexact):
        raise bad("segment_softmax", "needs floating-point numbers", {"x": type_text(x)},
                  "convert them: x.astype('float32').")
    grown, own, total = segment_exp(x, ids, n_segments, own, mask=mask, is_sorted=is_sorted, rows=rows)
    divisor = rows_of(total, ids, is_sorted=is_sorted, rows=rows)
    weights = grown / jnp.where(divisor == 0, 1, divisor)
    return weights if own is None else (weights, own / jnp.where(total == 0, 1, total))


def segment_exp(x: ArrayLike, ids: ArrayLike, n_segments: int, own: ArrayLike | None = None, *,
                mask: ArrayLike | None = None, is_sorted: bool = False,
                rows: SlicedEll | None = None) -> tuple[Array, Array | None, Array]:
    """Numerators and denominator of `segment_softmax`: ``exp(x - maximum of the segment)``, and sums over segments.

    Derivatives are correct only for quotients of the results, in which the maximum cancels.
    Returns: (exponentials of x, 0 for rows that do not count; exponentials of own, or None; their sums
      [n_segments, ...], 0 for a segment without rows).
    """
    options = {"is_sorted": is_sorted, "rows": rows}
    # Without barriers XLA recomputes scores, exponentials and their cotangents for every term that reads them.
    x = lax.optimization_barrier(kept(x, _counted(ids, n_segments, mask), -np.inf))
    largest = _largest(lax.stop_gradient(x), ids, n_segments, **options)
    if own is not None:
        if rows is not None:                # empty rows have 0 here, which may be far above their own score
            largest = jnp.where(over_columns(is_empty(rows), largest), -np.inf, largest)
        largest = jnp.maximum(largest, lax.stop_gradient(own))
    shift = jnp.where(jnp.isfinite(largest), largest, 0)
    grown = lax.optimization_barrier(jnp.exp(x - rows_of(shift, ids, **options)))   # exp(-inf) for rows not counted
    total = segment_sum(grown, ids, n_segments, **options)
    if own is None:
        return grown, None, total
    grown_own: Array = jnp.exp(own - shift)
    return grown, grown_own, total + grown_own


def segment_top_k(x: ArrayLike, ids: ArrayLike, n_segments: int, k: int, *,
                  mask: ArrayLike | None = None) -> tuple[Array, Array]:
    """Positions of the k largest values of each segment, in descending order, and whether they exist.

    Equal values are in the order of their positions; NaN counts as larger than all numbers.

    Args: x: [n], one value for each row.
    Returns: ``(positions int32[n_segments, k], exists bool[n_segments, k])``; a position that does not exist is 0.

    >>> segment_top_k(jnp.array([1.0, 7.0, 5.0]), jnp.array([0, 0, 1]), 2, k=2)
    (Array([[1, 0],
           [2, 0]], dtype=int32), Array([[ True,  True],
           [ True, False]], dtype=bool))
    """
    x, ids = _rows("segment_top_k", x, ids, mask)
    if x.ndim != 1:
        raise bad("segment_top_k", "needs one value for each row", {"x": type_text(x)},
                  "pass x [n], a score for each row.")
    n = x.shape[0]
    ids = jnp.where(_counted(ids, n_segments, mask), ids, n_segments).astype(np.int32)
    if jnp.issubdtype(x.dtype, np.inexact):                          # a sort puts NaN last; here it comes first
        order = jnp.lexsort((-x, ~jnp.isnan(x), ids))
    else:
        order = jnp.lexsort((~x, ids))                               # ~x reverses the order of integers; -x overflows
    counts = segment_count(ids, n_segments)
    starts = jnp.cumsum(counts) - counts
    exists = jnp.arange(k)[None] < counts[:, None]
    places = jnp.where(exists, starts[:, None] + jnp.arange(k, dtype=starts.dtype)[None], 0)
    positions = jnp.take(order, places, mode="clip") if n else places
    return jnp.where(exists, positions, 0).astype(np.int32), exists


def rows_of(table: Array | np.ndarray, ids: Array | np.ndarray, *, is_sorted: bool = False,
            rows: SlicedEll | None = None) -> Array:
    """``table[ids]``: for each row the value of its segment; 0 for a row that belongs to no segment."""
    n = table.shape[0]
    if n == 0:
        return jnp.zeros((*ids.shape, *table.shape[1:]), table.dtype)
    if rows is None:
        ids = _counted_ids(ids, n)
    # An explicit transpose, because that of `take` cannot use that ids ascend.
    return linear_call(
        lambda known, table: spread(table, known[0]) if rows is not None else
        jnp.take(table, known[0], axis=0, mode="fill", fill_value=0),
        lambda known, ct: segment_sum(ct, known[0], n, is_sorted=is_sorted, rows=known[1]), (ids, rows), table)


def rows_at(table: Array, ids: Array) -> Array:
    """Rows of a table [n, features] at ids of any shape, and NaN for an id outside [0, n).

    In half precision the gradients of a row are added up in float32: in bfloat16, a sum of ones stays at 256, and a
    row of an embedding is read for each occurrence of its token.
    """
    n = table.shape[0]
    if table.dtype.itemsize >= 4:
        # A negative index would count from the end; n gives NaN.
        return jnp.take(table, jnp.where(ids < 0, n, ids), axis=0, mode="fill", fill_value=np.nan)
    flat = jnp.reshape(ids, (-1,))
    rows = kept(rows_of(table, flat), _counted(flat, n, None), np.nan)
    return jnp.reshape(rows, (*ids.shape, *table.shape[1:]))


def _counted_ids(ids: Array | np.ndarray, n_segments: int) -> Array:
    """ids with every invalid id replaced by n_segments, because a negative index would count from the end."""
    return jnp.where((ids < 0) | (ids > n_segments), n_segments, ids)


def _counted(ids: Array | np.ndarray, n_segments: int, mask: ArrayLike | None) -> Array | np.ndarray:
    """bool[n]: whether a row belongs to a segment."""
    counted = (ids >= 0) & (ids < n_segments)
    return counted if mask is None else counted & jnp.asarray(mask)


def _wide_sum(x: Array, ids: Array, n_segments: int, mask: ArrayLike | None, is_sorted: bool,
              rows: SlicedEll | None) -> Array:
    """Sum in 32 bits for narrower dtypes, because a sum of ones in bfloat16 stops at 256."""
    x = kept(x, mask, 0)
    if x.dtype.itemsize < 4:
        x = x.astype(np.float32 if jnp.issubdtype(x.dtype, np.floating) else np.int32)
    if rows is None:
        return ops.segment_sum(x, ids, n_segments, indices_are_sorted=is_sorted)
    return linear_call(lambda known, x: _by_rows(message_sum, known[0], x), lambda known, ct: spread(ct, known[1]),
                       (rows, ids), x)


def _largest(x: Array, ids: ArrayLike, n_segments: int, *, is_sorted: bool, rows: SlicedEll | None) -> Array:
    """Maximum over the rows of each segment, without derivatives; any value for a segment without rows."""
    if rows is None:
        return ops.segment_max(x, ids, n_segments, indices_are_sorted=is_sorted)
    return _by_rows(message_max, rows, x)


def _by_rows(reduce: Callable[[SlicedEll, Array], Array], rows: SlicedEll, x: Array) -> Array:
    return reduce(rows, x.reshape(x.shape[0], -1)).reshape(-1, *x.shape[1:])


def _extreme(caller: str, sign: int, x: ArrayLike, ids: ArrayLike, n_segments: int, mask: ArrayLike | None,
             is_sorted: bool, rows: SlicedEll | None) -> Array:
    x, ids = _rows(caller, x, ids, mask)
    find = _float_extreme if jnp.issubdtype(x.dtype, np.inexact) else _find_extreme
    return find(sign, n_segments, is_sorted, x, ids, mask, rows)


def _find_extreme(sign: int, n_segments: int, is_sorted: bool, x: Array, ids: Array, mask: ArrayLike | None,
                  rows: SlicedEll | None) -> Array:
    options, is_float = {"is_sorted": is_sorted, "rows": rows}, jnp.issubdtype(x.dtype, np.inexact)
    x = kept(x, mask, -sign * np.inf if is_float else (jnp.iinfo(x.dtype).min if sign > 0 else jnp.iinfo(x.dtype).max))
    flip = (lambda x: x) if sign > 0 else operator.neg if is_float else operator.invert    # -x of integers overflows
    extreme = flip(_largest(flip(x), ids, n_segments, **options))
    some = segment_count(ids, n_segments, mask=mask, **options) > 0
    return jnp.where(over_columns(some, extreme), extreme, jnp.zeros((), extreme.dtype))


_float_extreme = functools.partial(xjax.custom_jvp, nondiff_argnums=(0, 1, 2))(_find_extreme)


@_float_extreme.defjvp
def _extreme_rule(sign: int, n_segments: int, is_sorted: bool, primals: tuple,
                  tangents: tuple) -> tuple[Array, Array]:
    """The derivative is that of the mean of the rows equal to the extreme, if the extreme is finite."""
    (x, ids, mask, rows), (dx, *_) = primals, tangents
    options = {"mask": mask, "is_sorted": is_sorted, "rows": rows}
    x = lax.optimization_barrier(x)         # if XLA recomputed x for the comparison, it might round differently
    extreme = _float_extreme(sign, n_segments, is_sorted, x, ids, mask, rows)
    finite = jnp.where(jnp.isfinite(extreme), extreme, np.nan)
    equal = lax.stop_gradient(x) == lax.stop_gradient(rows_of(finite, ids, is_sorted=is_sorted, rows=rows))
    ties = segment_sum(equal.astype(x.dtype), ids, n_segments, **options)
    return extreme, segment_sum(jnp.where(equal, dx, 0), ids, n_segments, **options) / jnp.maximum(ties, 1)


def _rows(caller: str, x: ArrayLike, ids: ArrayLike, mask: ArrayLike | None) -> tuple[Array, Array]:
    x, ids = jnp.asarray(x), jnp.asarray(ids)
    if x.dtype == np.bool_:
        raise bad(caller, "needs numbers, not bools", {"x": type_text(x)}, "convert them: x.astype('int32').")
    if ids.ndim != 1 or not jnp.issubdtype(ids.dtype, np.integer) or x.ndim < 1 or x.shape[0] != ids.shape[0]:
        raise bad(caller, "needs one segment id for each row", {"x": type_text(x), "ids": type_text(ids)},
                  fix="pass x [n, ...] and ids int[n].")
    if mask is not None and (jnp.shape(mask) != ids.shape or not jnp.issubdtype(jnp.asarray(mask).dtype, np.bool_)):
        raise bad(caller, "the mask must have one bool for each row",
                  {"mask": type_text(jnp.asarray(mask)), "ids": type_text(ids)}, fix="pass bool[n].")
    return x, ids.astype(np.int32) if ids.dtype.itemsize < 4 else ids      # n_segments may need more than 16 bits


def kept(x: A, mask: ArrayLike | None, fill: ArrayLike) -> A | Array:
    """x with `fill` in the rows where `mask` is False."""
    if mask is None:
        return x
    return jnp.where(over_columns(jnp.asarray(mask), x), x, jnp.asarray(fill, x.dtype))
