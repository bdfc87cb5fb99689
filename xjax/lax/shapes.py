"""Small functions on shapes, and arrays filled with one value."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import overload

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.key_types import KeyType
from xjax.core.types import typeof
from xjax.ops import convert
from xjax.ops.checks import canonical_axis
from xjax.ops.keys import filled_keys
from xjax.ops.pvary import vary_to
from xjax.ops.shape import broadcast_in_dim, expand_dims, reshape
from xjax.runtime.arrays.fill import placement_like
from xjax.runtime.device_put import put_one
from xjax.runtime.placement.sharding import Sharding
from xjax.typing import Array, ArrayLike, DTypeLike


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which arrays of these shapes broadcast, by NumPy's rules.

    Raises: ValueError if there is none.

    >>> broadcast_shapes((3, 1), (4,), ())
    (3, 4)
    """
    return _broadcast_shapes(*map(tuple, shapes))


@functools.lru_cache(4096)
def _broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(map(len, shapes), default=0)
    aligned = [(1,) * (rank - len(s)) + s for s in shapes]
    sizes = [{n for n in axis if n != 1} for axis in zip(*aligned, strict=True)]
    if any(len(s) > 1 for s in sizes):
        raise bad("lax.broadcast_shapes", "Incompatible shapes for broadcasting",
                  given={f"argument {i}": str(s) for i, s in enumerate(shapes)},
                  fix="sizes must be equal or 1, counted from the last axis; add axes with x[:, None].",
                  exc=ValueError)
    return tuple(s.pop() if s else 1 for s in sizes)


@overload
def broadcast_to_rank(x: Array, rank: int) -> Array: ...
@overload
def broadcast_to_rank(x: ArrayLike, rank: int) -> ArrayLike: ...


def broadcast_to_rank(x: ArrayLike, rank: int) -> ArrayLike:
    """`x` with leading axes of size 1, so that it has `rank` axes."""
    ndim = typeof(x).ndim
    if ndim > rank:
        raise bad("lax.broadcast_to_rank", f"the array has more than {rank} axes", given={"x": typeof(x).str_short()},
                  fix="pass a rank that is at least x.ndim.", exc=ValueError)
    return expand_dims(x, range(rank - ndim))


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """`operand` with the axes from `start_dimension` to `stop_dimension` (excluded) merged into one.

    >>> collapse(jnp.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = typeof(operand).shape
    stop = len(shape) if stop_dimension is None else stop_dimension
    start = canonical_axis(start_dimension, len(shape), "lax.collapse", "start_dimension")
    stop = stop + len(shape) if stop < 0 else stop
    if not start <= stop <= len(shape):
        raise bad("lax.collapse", "`stop_dimension` must come after `start_dimension`",
                  given={"operand": typeof(operand).str_short(), "start_dimension": str(start_dimension),
                         "stop_dimension": str(stop_dimension)},
                  fix=f"pass axes between 0 and {len(shape)}.", exc=ValueError)
    merged = int(np.prod(shape[start:stop], dtype=np.int64))
    return reshape(operand, (*shape[:start], merged, *shape[stop:]))


def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike | None, weak_type: bool = False) -> Array:
    """`operand` with its elements converted to another dtype.

    Args:
      operand: an array or number of any dtype.
      new_dtype: the new dtype; None keeps the operand's. 64-bit types need jax_enable_x64.
      weak_type: whether the result adapts to other operands in promotion, as a Python number does.
    Returns: the operand itself if it is an array of this type already. Floats are truncated toward zero and saturate
      when converted to integers; integers wrap; bool is ``x != 0``; complex to real drops the imaginary part, with a
      warning.
    """
    dtype = None if new_dtype is None else dtypes.user_dtype(new_dtype, "lax.convert_element_type")
    return convert.convert_element_type(operand, dtype, weak_type)


def full(shape: Sequence[int], fill_value: ArrayLike, dtype: DTypeLike | None = None, *,
         sharding: Sharding | None = None) -> Array:
    """Array of `shape` filled with the scalar `fill_value`, in its dtype or in `dtype`, placed by `sharding`."""
    if type(fill_value) is int and abs(fill_value) >= 1 << 31 and dtype is not None:
        dtype = asked = dtypes.user_dtype(dtype, "lax.full")
        fill_value = float(fill_value) if dtypes.is_inexact(asked) else asked.type(fill_value)
    aval = typeof(fill_value)
    if aval.ndim:
        raise bad("lax.full", "`fill_value` must be a scalar", given={"fill_value": aval.str_short()},
                  fix="use numpy.full, which broadcasts.")
    weak = dtype is None and aval.weak_type
    dtype = aval.dtype if dtype is None else dtypes.user_dtype(dtype, "lax.full")
    if type(dtype) is KeyType and aval.dtype is not dtype:
        return _put(filled_keys(tuple(shape), dtype, fill_value), sharding)
    if not weak or aval.dtype != dtype:
        fill_value = convert.convert_element_type(fill_value, dtype)
    return _put(broadcast_in_dim(fill_value, shape, ()), sharding)


def _put(x: Array, sharding: Sharding | None) -> Array:
    return x if sharding is None else put_one(x, sharding)


def full_like(x: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, shape: Sequence[int] | None = None,
              sharding: Sharding | None = None) -> Array:
    """Array filled with `fill_value`, with the shape, dtype and placement of `x` unless others are given.

    In a checked `shard_map` the result varies along the same mesh axes as `x`.
    """
    aval = typeof(x)
    weak = dtype is None and aval.weak_type
    if dtype is None and type(aval.dtype) is not KeyType:
        fill_value = convert.convert_element_type(fill_value, aval.dtype, weak)     # even a 64-bit type without x64
    elif dtype is None:
        dtype = aval.dtype
    shape = aval.shape if shape is None else tuple(shape)
    sharding = placement_like(x, shape, weak) if sharding is None else sharding
    return vary_to(full(shape, fill_value, dtype, sharding=sharding), aval.vma)


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """`arr` broadcast, by NumPy's rules, to the shape of another array.

    Raises: ValueError if the shapes do not fit.
    """
    aval, shape = typeof(arr), typeof(like_arr).shape
    if broadcast_shapes(aval.shape, shape) != shape:
        raise bad("lax.broadcast_like", "the array does not broadcast to the shape of the other",
                  given={"arr": aval, "like_arr": typeof(like_arr)}, fix="swap them, or index the larger array.",
                  exc=ValueError)
    return broadcast_in_dim(arr, shape, range(len(shape) - aval.ndim, len(shape)))


def dtype(x: ArrayLike) -> np.dtype:
    """The dtype of an array or number in xjax, or the dtype that a dtype or scalar type becomes (float64 needs x64).

    >>> dtype(1.5), dtype(int)
    (dtype('float32'), dtype('int32'))
    """
    if isinstance(x, (type, str, np.dtype)):
        return dtypes.canonicalize_dtype(x)
    return typeof(x).dtype


def shape_as_value(shape: Sequence[int]) -> ArrayLike:
    """The sizes as an array int32[rank]."""
    return full((0,), np.int32(0)) if not shape else np.asarray(shape, np.int32)
