"""Operations on one sparse array: conversion from and to dense arrays, transposes, reshapes, slices, sums.

A function that has no rule for batch or dense dimensions first moves them to the indices (`flat`). So its result has
none, and may have more entries than JAX's result of equal value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.errors import bad
from xjax.core.trace import Tracer
from xjax.experimental.sparse.arrays import BCOO
from xjax.ops.checks import canonical_axes
from xjax.transforms.vmap import vmap
from xjax.typing import Array, ArrayLike, DTypeLike, Shape


def mapped(f: Callable, n_batch: int) -> Callable:
    """`f` mapped over leading batch dimensions."""
    for _ in range(n_batch):
        f = vmap(f)
    return f


def _columns(indices: Array) -> tuple[Array, ...]:
    return tuple([indices[..., k] for k in range(indices.shape[-1])])


def with_full_batch(mat: BCOO) -> tuple[Array, Array]:
    """Data and indices, whose batch dimensions have the sizes of the array, never 1 for all."""
    n = mat.n_batch
    batch = mat.shape[:n]
    data, indices = mat.data, mat.indices
    return (data if data.shape[:n] == batch else jnp.broadcast_to(data, (*batch, *data.shape[n:])),
            indices if indices.shape[:n] == batch else jnp.broadcast_to(indices, (*batch, *indices.shape[n:])))


# -- dense and sparse -----------------------------------------------------------------------------------------------

def bcoo_todense(mat: BCOO) -> Array:
    """The dense array: entries with equal indices are added."""
    tail = mat._tail

    def dense(data: Array, indices: Array) -> Array:
        if not indices.shape[-1]:
            return data.sum(0)
        return jnp.zeros(tail, data.dtype).at[_columns(indices)].add(
            data, mode="drop", indices_are_sorted=mat.indices_sorted, unique_indices=mat.unique_indices)

    return mapped(dense, mat.n_batch)(*with_full_batch(mat))


def bcoo_fromdense(mat: ArrayLike, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0,
                   index_dtype: DTypeLike = np.int32) -> BCOO:
    """The non-zero entries of a dense array.

    Args:
      mat: number[*batch, *sparse, *dense].
      nse: number of entries, of each batch element; None: as many as `mat` needs, which must be known, so not inside
        `jit`. Where there are fewer, indices out of range follow.
      n_batch: number of leading dimensions with entries of their own.
      n_dense: number of trailing dimensions of each entry.

    >>> bcoo_fromdense(jnp.array([[0., 5.], [0., 0.]])).indices
    Array([[0, 1]], dtype=int32)
    """
    mat = jnp.asarray(mat)
    if not 0 <= n_batch <= mat.ndim - n_dense or n_dense < 0:
        raise bad("sparse.bcoo_fromdense", "the array has too few dimensions",
                  {"shape": mat.shape, "n_batch": n_batch, "n_dense": n_dense},
                  "pass n_batch and n_dense whose sum is at most the rank.", exc=ValueError)
    mask = mat != 0
    if n_dense:
        mask = mask.any(tuple(range(mat.ndim - n_dense, mat.ndim)))
    if nse is None:
        nse = int(mask.sum(tuple(range(n_batch, mask.ndim))).max(initial=0))
    n_sparse = mask.ndim - n_batch

    def find(mask: Array) -> Array:
        if not n_sparse:
            return jnp.zeros((nse, 0), index_dtype)
        fill = tuple(mask.shape)
        return jnp.stack(jnp.nonzero(mask, size=nse, fill_value=fill), -1).astype(index_dtype)

    indices = mapped(find, n_batch)(mask)
    return BCOO((extract(indices, mat, n_batch), indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def extract(indices: Array, mat: Array, n_batch: int = 0) -> Array:
    """The elements of a dense array at the indices, 0 where they are out of range."""
    def take(indices: Array, mat: Array) -> Array:
        if not indices.shape[-1]:
            first = jnp.arange(indices.shape[0]).reshape(-1, *[1] * mat.ndim) == 0
            return jnp.where(first, mat[None], jnp.zeros((), mat.dtype))
        return mat.at[_columns(indices)].get(mode="fill", fill_value=0)

    return mapped(take, n_batch)(indices, mat)


# -- layout ---------------------------------------------------------------------------------------------------------

def flat(mat: BCOO) -> BCOO:
    """The same array without batch and dense dimensions: all dimensions have indices."""
    if not (mat.n_batch or mat.n_dense):
        return mat
    n_batch, n_dense, shape = mat.n_batch, mat.n_dense, mat.shape
    data, indices = with_full_batch(mat)
    axes = [*data.shape]                                            # batch, nse, dense
    grid = [lax.broadcasted_iota(indices.dtype, tuple(axes), k) for k in range(len(axes))]
    columns = [*grid[:n_batch],
               *[jnp.broadcast_to(c.reshape(*c.shape, *[1] * n_dense), axes) for c in _columns(indices)],
               *grid[n_batch + 1:]]
    out = mat.with_entries(data.reshape(-1), jnp.stack([c.reshape(-1) for c in columns], -1), shape,
                           indices_sorted=False)
    return _without_invalid(out) if n_batch + n_dense else out


def bcoo_update_layout(mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None,
                       on_inefficient: str | None = "error") -> BCOO:
    """The same array with other numbers of batch and dense dimensions.

    To get more of them than 0, the array is first made dense, so not inside `jit`.

    Args: on_inefficient: accepted as in JAX.
    """
    wanted = (mat.n_batch if n_batch is None else n_batch, mat.n_dense if n_dense is None else n_dense)
    if wanted == (mat.n_batch, mat.n_dense):
        return mat
    if wanted == (0, 0):
        return flat(mat)
    return bcoo_fromdense(bcoo_todense(mat), n_batch=wanted[0], n_dense=wanted[1], index_dtype=mat.indices.dtype)


def _valid(mat: BCOO) -> Array:
    """Whether each entry exists, of an array without batch dimensions."""
    return (mat.indices < jnp.array(mat.sparse_shape, mat.indices.dtype)).all(-1)


def _without_invalid(mat: BCOO) -> BCOO:
    """Entries out of range as zeros, out of range in each dimension."""
    valid = _valid(mat)
    ends = jnp.array(mat.sparse_shape, mat.indices.dtype)
    return mat.with_entries(_where(valid, mat.data), jnp.where(valid[:, None], mat.indices, ends))


def _where(mask: Array, data: Array) -> Array:
    return jnp.where(mask.reshape(-1, *[1] * (data.ndim - 1)), data, jnp.zeros((), data.dtype))


def _renumbered(mat: BCOO, columns: Sequence[Array], tail: Sequence[int], valid: Array, **known: bool) -> BCOO:
    """The entries at other indices; an entry that is not valid is moved out of range, with value 0."""
    known = {"indices_sorted": False, "unique_indices": False, **known}
    dtype = mat.indices.dtype
    columns = [jnp.where(valid, c, n).astype(dtype) for c, n in zip(columns, tail, strict=True)]
    indices = jnp.stack(columns, -1) if columns else jnp.zeros((mat.nse, 0), dtype)
    return mat.with_entries(_where(valid, mat.data), indices, tail, **known)


# -- shapes ---------------------------------------------------------------------------------------------------------

def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The array with its dimensions in another order.

    >>> bcoo_transpose(BCOO.fromdense(jnp.ones((2, 3))), permutation=(1, 0)).shape
    (3, 2)
    """
    if sorted(permutation) != [*range(mat.ndim)]:
        raise bad("sparse.bcoo_transpose", "permutation must name each dimension once",
                  {"shape": mat.shape, "permutation": permutation}, "pass a permutation of the dimensions.",
                  exc=ValueError)
    b, s = mat.n_batch, mat.n_sparse
    batch, sparse, dense = permutation[:b], permutation[b:b + s], permutation[b + s:]
    if sorted(batch) != [*range(b)] or sorted(sparse) != [*range(b, b + s)]:
        return bcoo_transpose(flat(mat), permutation=permutation)
    data, indices = with_full_batch(mat)
    shape, order = mat.shape, [k - b for k in sparse]
    return mat.with_entries(data.transpose(*batch, b, *[k - s + 1 for k in dense]),
                            indices.transpose(*batch, b, b + 1)[..., np.array(order, int)],
                            [shape[k] for k in permutation[b:]],
                            indices_sorted=mat.indices_sorted and order == sorted(order))


def bcoo_reshape(mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None,
                 sharding: None = None) -> BCOO:
    """The array with the same elements in another shape.  Raises: ValueError if the sizes differ."""
    _no_sharding("sparse.bcoo_reshape", sharding)
    if dimensions is not None and [*dimensions] != [*range(mat.ndim)]:
        mat = bcoo_transpose(mat, permutation=dimensions)
    new_sizes = tuple(new_sizes)
    if math.prod(new_sizes) != mat.size:
        raise bad("sparse.bcoo_reshape", "the shapes have different numbers of elements",
                  {"from": mat.shape, "to": new_sizes}, "pass a shape of the same size.", exc=ValueError)
    mat = flat(mat)
    if mat.size >= 2**31:
        raise bad("sparse.bcoo_reshape", "positions of so large an array do not fit 32-bit integers",
                  {"shape": mat.shape}, "reshape the dimensions of the indices yourself.", exc=NotImplementedError)
    valid, position = _valid(mat), jnp.zeros(mat.nse, jnp.int32)
    for column, n in zip(_columns(mat.indices), mat.shape, strict=True):
        position = position * n + column.astype(jnp.int32)
    columns = []
    for n in reversed(new_sizes):
        columns.append(position % max(n, 1))
        position = position // max(n, 1)
    return _renumbered(mat, columns[::-1], new_sizes, valid, indices_sorted=mat.indices_sorted,
                       unique_indices=mat.unique_indices)


def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without these dimensions, whose sizes must be 1."""
    axes = canonical_axes(dimensions, arr.ndim, "sparse.bcoo_squeeze")
    if any(arr.shape[k] != 1 for k in axes):
        raise bad("sparse.bcoo_squeeze", "only dimensions of size 1 can be removed",
                  {"shape": arr.shape, "dimensions": tuple(axes)}, "select an element of the others first.",
                  exc=ValueError)
    arr = flat(arr)
    kept = [k for k in range(arr.ndim) if k not in axes]
    return _renumbered(arr, [arr.indices[:, k] for k in kept], [arr.shape[k] for k in kept], _valid(arr),
                       indices_sorted=arr.indices_sorted, unique_indices=arr.unique_indices)


def bcoo_broadcast_in_dim(mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                          sharding: None = None) -> BCOO:
    """The array with new dimensions, along which it is repeated; see `lax.broadcast_in_dim`."""
    _no_sharding("sparse.bcoo_broadcast_in_dim", sharding)
    mat, shape = flat(mat), tuple(shape)
    valid, sources = _valid(mat), dict(zip(broadcast_dimensions, range(mat.ndim), strict=True))
    repeated = [k for k, n in enumerate(shape) if n != 1 and (k not in sources or mat.shape[sources[k]] != n)]
    copies = math.prod([shape[k] for k in repeated])
    data, valid = jnp.repeat(mat.data, copies), jnp.repeat(valid, copies)
    old = [jnp.repeat(c, copies) for c in _columns(mat.indices)]
    new = dict(zip(repeated, jnp.unravel_index(jnp.tile(jnp.arange(copies), mat.nse), [shape[k] for k in repeated])
                   if repeated else (), strict=True))
    columns = [new[k] if k in new else old[sources[k]] if k in sources else jnp.zeros(data.shape, mat.indices.dtype)
               for k in range(len(shape))]
    wide = mat.with_entries(data, jnp.zeros((data.size, 0), mat.indices.dtype), ())
    return _renumbered(wide, columns, shape, valid, unique_indices=mat.unique_indices)


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Arrays one after the other along a dimension."""
    (axis,) = canonical_axes((dimension,), operands[0].ndim, "sparse.bcoo_concatenate")
    shapes = [m.shape for m in operands]
    if len({s[:axis] + s[axis + 1:] for s in shapes}) != 1:
        raise bad("sparse.bcoo_concatenate", "the arrays differ in other dimensions", {"shapes": shapes},
                  "pass arrays whose shapes agree but for the dimension.", exc=ValueError)
    shape = (*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1:])
    parts, offset = [], 0
    for mat in map(flat, operands):
        columns = [*_columns(mat.indices)]
        columns[axis] = columns[axis] + offset
        parts.append(_renumbered(mat, columns, shape, _valid(mat)))
        offset += mat.shape[axis]
    return _joined(parts, unique=all(m.unique_indices for m in operands))


def _joined(parts: Sequence[BCOO], unique: bool = False) -> BCOO:
    """The sum of arrays of one shape: all their entries."""
    dtype = jnp.result_type(*[m.data for m in parts])
    return parts[0].with_entries(jnp.concatenate([m.data.astype(dtype) for m in parts]),
                                 jnp.concatenate([m.indices for m in parts]), indices_sorted=False,
                                 unique_indices=unique)


def sum_of(parts: Sequence[BCOO]) -> BCOO:
    """The sum of sparse arrays of one shape."""
    return _joined([*map(flat, parts)])


def bcoo_slice(mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int],
               strides: Sequence[int] | None = None) -> BCOO:
    """A part of the array; see `lax.slice`. It keeps the number of entries."""
    mat = flat(mat)
    strides = [1] * mat.ndim if strides is None else strides
    valid, columns, sizes = _valid(mat), [], []
    for c, start, stop, step in zip(_columns(mat.indices), start_indices, limit_indices, strides, strict=True):
        valid = valid & (c >= start) & (c < stop) & ((c - start) % step == 0)
        columns.append((c - start) // step)
        sizes.append(max(-(-(stop - start) // step), 0))
    return _renumbered(mat, columns, sizes, valid, indices_sorted=False, unique_indices=mat.unique_indices)


def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """A part of fixed size of the array, from traced positions on; see `lax.dynamic_slice`."""
    mat = flat(mat)
    valid, columns = _valid(mat), []
    for c, start, size, n in zip(_columns(mat.indices), start_indices, slice_sizes, mat.shape, strict=True):
        start = jnp.clip(jnp.asarray(start), 0, n - size).astype(c.dtype)
        valid = valid & (c >= start) & (c < start + size)
        columns.append(c - start)
    return _renumbered(mat, columns, slice_sizes, valid, unique_indices=mat.unique_indices)


def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array in reverse order along these dimensions."""
    axes = canonical_axes(dimensions, operand.ndim, "sparse.bcoo_rev")
    mat = flat(operand)
    columns = [mat.shape[k] - 1 - c if k in axes else c for k, c in enumerate(_columns(mat.indices))]
    return _renumbered(mat, columns, mat.shape, _valid(mat), unique_indices=mat.unique_indices)


def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """The sum along axes, with the same number of entries.

    >>> bcoo_reduce_sum(BCOO.fromdense(jnp.ones((2, 3))), axes=(0,)).todense()
    Array([2., 2., 2.], dtype=float32)
    """
    mat, axes = flat(mat), canonical_axes(axes, mat.ndim, "sparse.bcoo_reduce_sum")
    kept = [k for k in range(mat.ndim) if k not in axes]
    return _renumbered(mat, [mat.indices[:, k] for k in kept], [mat.shape[k] for k in kept], _valid(mat))


# -- order and duplicates -------------------------------------------------------------------------------------------

def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The same entries with their indices in lexicographic order."""
    def ordered(data: Array, indices: Array) -> tuple[Array, Array]:
        order = jnp.lexsort(_columns(indices)[::-1])
        return data[order], indices[order]

    if mat.indices_sorted or not mat.n_sparse:
        return mat
    return mat.with_entries(*mapped(ordered, mat.n_batch)(*with_full_batch(mat)), indices_sorted=True)


def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None) -> BCOO:
    """The same array with at most one entry for each index, in lexicographic order.

    Args: nse: the number of entries of the result; further entries are dropped. None: as many as there are, or, inside
      `jit`, where this is unknown, as many as before.

    >>> m = BCOO((jnp.array([1., 2.]), jnp.array([[1], [1]])), shape=(3,))
    >>> bcoo_sum_duplicates(m).data
    Array([3.], dtype=float32)
    """
    mat = _without_invalid(bcoo_sort_indices(flat(mat)))
    if not mat.n_sparse or not mat.nse:
        return mat
    mat = bcoo_sort_indices(mat.with_entries(mat.data, indices_sorted=False))
    first = jnp.concatenate([jnp.ones(1, bool), (mat.indices[1:] != mat.indices[:-1]).any(-1)])
    group = jnp.cumsum(first) - 1
    if nse is None:
        count = (first & _valid(mat)).sum()
        nse = mat.nse if _is_unknown(count) else int(count)
    ends = jnp.broadcast_to(jnp.array(mat.sparse_shape, mat.indices.dtype), (nse, mat.n_sparse))
    return mat.with_entries(jnp.zeros(nse, mat.data.dtype).at[group].add(mat.data, mode="drop"),
                            ends.at[group].set(mat.indices, mode="drop"), indices_sorted=True, unique_indices=True)


def _is_unknown(x: Array) -> bool:
    return isinstance(x, Tracer) and x.concrete() is None


def _no_sharding(caller: str, sharding: object) -> None:
    if sharding is not None:
        raise bad(caller, "sparse arrays have no sharding of their own", {"sharding": repr(sharding)},
                  "place the entries: BCOO((data, indices), shape=shape).", exc=NotImplementedError)


def empty(shape: Shape, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32",
          sparse_format: str = "bcoo", **kwds: int) -> BCOO:
    """A sparse array of zeros, without entries."""
    _only_bcoo("sparse.empty", sparse_format)
    nse, n_batch, n_dense = (kwds.pop(name, 0) for name in ("nse", "n_batch", "n_dense"))
    _no_more("sparse.empty", kwds)
    shape = tuple(shape)
    n_sparse = len(shape) - n_batch - n_dense
    batch, sparse = shape[:n_batch], shape[n_batch:n_batch + n_sparse]
    indices = jnp.broadcast_to(jnp.array(sparse, index_dtype), (*batch, nse, n_sparse))
    return BCOO((jnp.zeros((*batch, nse, *shape[n_batch + n_sparse:]), dtype), indices), shape=shape,
                indices_sorted=True, unique_indices=True)


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, index_dtype: DTypeLike = "int32",
        sparse_format: str = "bcoo", **kwds: int) -> BCOO:
    """The sparse matrix [N, M] with ones on diagonal `k`.

    >>> eye(2).todense()
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    _only_bcoo("sparse.eye", sparse_format)
    _no_more("sparse.eye", kwds)
    M = N if M is None else M
    row, col = max(-k, 0), max(k, 0)
    count = max(min(N - row, M - col), 0)
    rows = jnp.arange(count, dtype=index_dtype)
    return BCOO((jnp.ones(count, dtype), jnp.stack([rows + row, rows + col], -1).astype(index_dtype)), shape=(N, M),
                indices_sorted=True, unique_indices=True)


def _only_bcoo(caller: str, sparse_format: str) -> None:
    if sparse_format != "bcoo":
        raise bad(caller, "the only sparse format is BCOO", {"sparse_format": sparse_format},
                  'pass sparse_format="bcoo".', exc=ValueError)


def _no_more(caller: str, keywords: dict) -> None:
    if keywords:
        raise bad(caller, "unknown keywords", keywords, "leave them out.")
