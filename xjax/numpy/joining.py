"""Functions that join and split arrays along axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from xjax.core.aliases import alias
from xjax.core.errors import bad
from xjax.core.trace import Tracer
from xjax.numpy.creation import asarray
from xjax.numpy.manipulate import atleast_1d, atleast_2d, atleast_3d, moveaxis, ravel, reshape, take_slices
from xjax.numpy.promote import array_like, array_likes, expand_to, promote, shape_of
from xjax.numpy.ufuncs import to_array_like
from xjax.ops import arrange
from xjax.ops.checks import canonical_axis, static_int
from xjax.ops.compare import clamp, ge, lt, select
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, sub
from xjax.ops.shape import expand_dims, reduce_sum
from xjax.ops.slice import slice_in_dim
from xjax.ops.sort import sort
from xjax.typing import Array, ArrayLike, DTypeLike, PyTree

# The arrays to join: a sequence of them, or one array of which they are the slices along the first axis.
Arrays: TypeAlias = Array | np.ndarray | Iterable[ArrayLike]


# -- joining ------------------------------------------------------------------------------------------------------

def _arrays(caller: str, arrays: Arrays, dtype: DTypeLike | None = None) -> list[Any]:
    """The items of a sequence, promoted to one dtype."""
    arrays = list(arrays)
    if not arrays:
        raise _nothing(caller)
    items = array_likes(caller, arrays)
    items = promote(caller, *items) if dtype is None else [convert_element_type(x, dtype) for x in items]
    return [x if isinstance(x, Array) else asarray(x) for x in items]


def _nothing(caller: str) -> Exception:
    return bad(caller, "there is nothing to join", fix="pass at least one array.", exc=ValueError)


def _is_array(arrays: object) -> bool:
    return isinstance(arrays, (np.ndarray, Tracer)) or hasattr(arrays, "aval")


def _slices(caller: str, x: Array, dtype: DTypeLike | None) -> Array:
    """An array whose slices along the first axis are to be joined, by a reshape instead of many operands."""
    if not shape_of(x):
        raise bad(caller, "needs a sequence of arrays", given={"arrays": str(shape_of(x))}, fix="pass a list: [x, y].")
    if not shape_of(x)[0]:
        raise _nothing(caller)
    return asarray(x, dtype)


def _joined_axis(caller: str, axis: int, rank: int) -> int:
    if not rank:
        raise bad(caller, "0-d arrays have no axis along which to join", exc=ValueError,
                  fix="use stack; several arrays are passed as one list: concatenate([x, y]).")
    return canonical_axis(axis, rank, caller)


def concatenate(arrays: Arrays, axis: int | None = 0, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along an existing axis (None: flattened arrays).

    Args: arrays: any[...] each, with equal sizes of the other axes; they are promoted to one dtype.
    Raises: ValueError for no array or 0-d ones, TypeError for shapes that do not match.
    """
    caller = "numpy.concatenate"
    if _is_array(arrays):
        slices = _slices(caller, arrays, dtype)
        if axis is None:
            return ravel(slices)
        count, *shape = slices.shape
        axis = _joined_axis(caller, axis, len(shape))
        return reshape(moveaxis(slices, 0, axis), (*shape[:axis], count * shape[axis], *shape[axis + 1:]))
    arrays = _arrays(caller, arrays, dtype)
    if axis is None:
        return arrange.concatenate([ravel(x) for x in arrays], 0)
    return arrange.concatenate(arrays, _joined_axis(caller, axis, arrays[0].ndim))


concat = alias(concatenate, "concat")


def stack(arrays: Arrays, axis: int = 0, out: None = None, dtype: DTypeLike | None = None) -> Array:
    """Join arrays of one shape along a new axis.

    Raises: ValueError for no array or if shapes differ.
    """
    caller = "numpy.stack"
    if _is_array(arrays):
        slices = _slices(caller, arrays, dtype)
        return moveaxis(slices, 0, canonical_axis(axis, slices.ndim, caller))
    arrays = _arrays(caller, arrays, dtype)
    if len({x.shape for x in arrays}) > 1:
        raise bad(caller, "the arrays differ in shape", given={f"array {i}": x.aval for i, x in enumerate(arrays)},
                  fix="make the shapes equal, or use concatenate.", exc=ValueError)
    return arrange.stack(arrays, canonical_axis(axis, arrays[0].ndim + 1, caller))


def _each(f: Callable[[ArrayLike], Array], arrays: Arrays) -> Arrays:
    """`f` of each item of a sequence; for an array, one reshape of all its slices to the shape that `f` gives them."""
    if hasattr(arrays, "aval"):
        if arrays.ndim and arrays.size:
            return reshape(arrays, (arrays.shape[0], *f(arrays[0]).shape))
        arrays = arrange.unstack(arrays)
    return [f(x) for x in arrays]


def vstack(tup: Arrays, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along axis 0, vectors as rows."""
    return concatenate(_each(atleast_2d, tup), 0, dtype)


def hstack(tup: Arrays, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along axis 1, vectors along axis 0."""
    arrays = _each(atleast_1d, tup)
    return concatenate(arrays, 0 if not len(arrays) or arrays[0].ndim == 1 else 1, dtype)


def dstack(tup: Arrays, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along axis 2."""
    return concatenate(_each(atleast_3d, tup), 2, dtype)


def column_stack(tup: Arrays) -> Array:
    """Join vectors as the columns of a matrix, and matrices along axis 1."""
    def as_columns(x: ArrayLike) -> Array:
        x = to_array_like("numpy.column_stack", x)
        return x if x.ndim >= 2 else reshape(x, (x.size, 1))

    return concatenate(_each(as_columns, tup), 1)


def block(arrays: PyTree) -> Array:
    """Join nested lists of blocks: the innermost lists along the last axis, the next outer ones along the axis before.

    >>> block([[np.ones((2, 2)), np.zeros((2, 1))]]).shape
    (2, 3)
    """
    depth = _depth(arrays)
    rank = max([depth, *(len(shape_of(x)) for x in _flat(arrays))])

    def join(part: PyTree, level: int) -> Array:
        if isinstance(part, list):
            return concatenate([join(p, level + 1) for p in part], rank - depth + level)
        part = to_array_like("numpy.block", part)
        return expand_dims(part, range(rank - part.ndim))

    return join(arrays, 0)


def _depth(arrays: PyTree) -> int:
    if not isinstance(arrays, list):
        return 0
    depths = {_depth(x) for x in arrays}
    if len(depths) != 1:
        raise bad("numpy.block", "the lists differ in depth, or are empty", fix="nest all blocks equally deep.",
                  exc=ValueError)
    return 1 + depths.pop()


def _flat(arrays: PyTree) -> list[Any]:
    return [y for x in arrays for y in _flat(x)] if isinstance(arrays, list) else [arrays]


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` after `arr` along an axis (default: both flattened)."""
    return concatenate([array_like("numpy.append", arr), array_like("numpy.append", values)], axis)


# -- splitting ----------------------------------------------------------------------------------------------------

def split(ary: ArrayLike, indices_or_sections: int | Sequence[int] | np.ndarray, axis: int = 0) -> list[Array]:
    """Parts of `ary` along an axis: n equal parts, or split before the given indices.

    Raises: ValueError if equal parts are not possible.
    """
    return _split("numpy.split", ary, indices_or_sections, axis, equal=True)


def array_split(ary: ArrayLike, indices_or_sections: int | Sequence[int] | np.ndarray, axis: int = 0) -> list[Array]:
    """`split` into parts whose sizes may differ by one."""
    return _split("numpy.array_split", ary, indices_or_sections, axis, equal=False)


def _split(caller: str, ary: ArrayLike, indices: int | Sequence[int] | np.ndarray, axis: int,
           equal: bool) -> list[Array]:
    ary = to_array_like(caller, ary)
    axis = canonical_axis(axis, ary.ndim, caller)
    size = ary.shape[axis]
    if isinstance(indices, int) or np.ndim(indices) == 0:
        n = static_int(indices, "indices_or_sections", caller)
        if n < 1 or (equal and size % n):
            raise bad(caller, f"axis {axis} of size {size} cannot be split into {n} equal parts",
                      given={"ary": ary.aval}, fix="use array_split, which makes parts of nearly equal size.",
                      exc=ValueError)
        sizes = [size // n + (i < size % n) for i in range(n)]
        return list(arrange.split(ary, sizes, axis))
    cuts = [static_int(i, "indices_or_sections", caller) for i in indices]
    ends = [0, *(min(i if i >= 0 else max(size + i, 0), size) for i in cuts), size]
    return [slice_in_dim(ary, a, max(a, b), axis=axis) for a, b in zip(ends[:-1], ends[1:], strict=True)]


def hsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | np.ndarray) -> list[Array]:
    """Parts along axis 1, of vectors along axis 0."""
    ary = to_array_like("numpy.hsplit", ary)
    return _split("numpy.hsplit", ary, indices_or_sections, min(1, ary.ndim - 1), equal=True)


def vsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | np.ndarray) -> list[Array]:
    """Parts along axis 0."""
    return _split("numpy.vsplit", ary, indices_or_sections, 0, equal=True)


def dsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int] | np.ndarray) -> list[Array]:
    """Parts along axis 2."""
    return _split("numpy.dsplit", ary, indices_or_sections, 2, equal=True)


# -- inserting, deleting ------------------------------------------------------------------------------------------

def _static_positions(caller: str, obj: int | slice | ArrayLike | Sequence[int], size: int) -> np.ndarray:
    """Positions from an int, a slice, or a list or mask of them, which must be known while tracing."""
    if isinstance(obj, slice):
        return np.arange(size)[obj]
    if isinstance(obj, Tracer):
        static_int(obj, "obj", caller)           # raises the error for traced values
    positions = np.atleast_1d(np.asarray(obj))
    positions = np.flatnonzero(positions) if positions.dtype == bool else positions.astype(np.int64)
    if positions.size and (positions.min() < -size or positions.max() > size):
        raise bad(caller, f"position {positions.max()} is out of bounds for an axis of size {size}",
                  fix=f"use positions from {-size} to {size}.", exc=IndexError)
    return np.where(positions < 0, positions + size, positions)


def delete(arr: ArrayLike, obj: int | slice | ArrayLike | Sequence[int], axis: int | None = None, *,
           assume_unique_indices: bool = False) -> Array:
    """`arr` without the slices at the positions `obj` (int, slice or list) along an axis (None: of all elements).

    Args: assume_unique_indices: the integers in `obj` are distinct positions. Then `obj` may be traced, since its
      length determines how many slices remain.
    """
    caller = "numpy.delete"
    arr = to_array_like(caller, arr)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonical_axis(axis, arr.ndim, caller)
    if assume_unique_indices and isinstance(obj, Tracer):
        return _without(arr, ravel(obj), axis)
    keep = np.ones(arr.shape[axis], bool)
    keep[_static_positions(caller, obj, arr.shape[axis])] = False
    edges = np.flatnonzero(np.diff(np.concatenate([[False], keep, [False]])))
    parts = [slice_in_dim(arr, int(a), int(b), axis=axis) for a, b in edges.reshape(-1, 2)]
    return arrange.concatenate(parts, axis) if parts else slice_in_dim(arr, 0, 0, axis=axis)


def _without(arr: Array, positions: Array, axis: int) -> Array:
    """`arr` without the slices at traced, distinct positions: a slice moves down by the number removed before it."""
    n, removed = arr.shape[axis], positions.shape[0]
    positions = convert_element_type(positions, np.int32)
    places = sort(select(lt(positions, np.int32(0)), add(positions, np.int32(n)), positions))
    kept, free = arrange.iota(np.int32, n - removed), sub(places, arrange.iota(np.int32, removed))
    before = ge(expand_dims(kept, (1,)), expand_dims(free, (0,)))
    return take_slices(arr, add(kept, reduce_sum(convert_element_type(before, np.int32), (1,))), axis)


def insert(arr: ArrayLike, obj: int | slice | ArrayLike | Sequence[int], values: ArrayLike,
           axis: int | None = None) -> Array:
    """`arr` with slices inserted before the positions `obj` along an axis (None: of all elements).

    Args: obj: an int, a slice, or a list; traced positions out of range are moved to the ends. values: broadcast to the
      inserted slices; if there is one position, all are inserted there.
    Raises: IndexError for known positions out of range.
    """
    caller = "numpy.insert"
    arr = asarray(arr)
    values = convert_element_type(asarray(array_like(caller, values)), arr.dtype)
    if axis is None:
        arr, axis = ravel(arr), 0
    axis = canonical_axis(axis, arr.ndim, caller)
    size = arr.shape[axis]
    values = expand_dims(values, range(arr.ndim - values.ndim))
    if not isinstance(obj, slice) and np.ndim(obj) == 0:
        values = moveaxis(values, 0, axis)          # as NumPy: axis 0 of values is then the inserted axis
    positions = _traced_positions(obj, size) if isinstance(obj, Tracer) else _static_positions(caller, obj, size)
    if positions.shape == (1,):
        positions = positions[np.zeros(values.shape[axis], np.int32)]
    shape = [*arr.shape]
    shape[axis] = positions.shape[0]
    both = arrange.concatenate([expand_to(caller, values, tuple(shape)), arr], axis)
    return take_slices(both, _order_after_inserting(positions, size), axis)


def _traced_positions(positions: Array, size: int) -> Array:
    positions = convert_element_type(ravel(positions), np.int32)
    positions = select(lt(positions, np.int32(0)), add(positions, np.int32(size)), positions)
    return clamp(np.int32(0), positions, np.int32(size))


def _order_after_inserting(positions: Array | np.ndarray, size: int) -> Array | np.ndarray:
    """int32[m + size]: position of each slice of the result in the concatenation of inserted and old slices."""
    old_keys, count = 2 * np.arange(size, dtype=np.int32) + 1, positions.shape[0]
    if isinstance(positions, np.ndarray):
        return np.argsort(np.concatenate([2 * positions, old_keys]), kind="stable").astype(np.int32)
    keys = arrange.concatenate([add(positions, positions), old_keys], 0)
    return sort((keys, arrange.iota(np.int32, count + size)), num_keys=1)[1]
