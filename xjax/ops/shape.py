"""The algebra of axes: broadcast_in_dim and its adjoint reduce_sum, reshape, transpose, squeeze.

These operations come before all others, because the rules of element-wise operations use them to match shapes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.config import config
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.types import ShapedArray, typeof
from xjax.ops.checks import NUMBER, canonical_axes, check_kinds, check_sequence, static_int
from xjax.ops.cpu.sums import sum_on_cpu
from xjax.ops.text import reduce_text, reshape_text, transpose_text
from xjax.typing import Array, ArrayLike


def _shape(shape: Any, caller: str) -> tuple[int, ...]:
    if not isinstance(shape, (tuple, list)) and not hasattr(shape, "__iter__"):
        shape = (shape,)
    sizes = tuple([n if type(n) is int else static_int(n, "shape", caller) for n in shape])
    if any([n < 0 for n in sizes]):
        raise bad(caller, "shapes must have sizes >= 0", given={"shape": str(sizes)}, fix="pass sizes >= 0.",
                  exc=ValueError)
    return sizes


def after_batch(bdim: int, axes: Sequence[int]) -> tuple[int, ...]:
    """Axes of an unbatched array as axes of the array with a batch axis at `bdim`."""
    return tuple(a + (a >= bdim) for a in axes)


# -- broadcast_in_dim ---------------------------------------------------------------------------------------------

def broadcast_in_dim(operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int],
                     *, out_sharding: object = None) -> Array:
    """Array of `shape` in which axis `broadcast_dimensions[i]` repeats axis i of `operand`.

    Args:
      operand: any[...]; an axis of size 1 expands.
      broadcast_dimensions: strictly increasing, one for each axis of `operand`.
    """
    if out_sharding is not None:
        return constrained("lax.broadcast_in_dim", broadcast_in_dim(operand, shape, broadcast_dimensions), out_sharding)
    shape = _shape(shape, "lax.broadcast_in_dim")
    dims = tuple(broadcast_dimensions)
    if typeof(operand).shape == shape and dims == tuple(range(len(shape))) and isinstance(operand, Array):
        return operand
    return broadcast_in_dim_p.bind(operand, shape=shape, broadcast_dimensions=dims)


def _broadcast_type(x, *, shape, broadcast_dimensions):
    dims = broadcast_dimensions
    fits = (len(dims) == x.ndim and list(dims) == sorted(set(dims)) and all(0 <= d < len(shape) for d in dims)
            and all(n in (1, shape[d]) for n, d in zip(x.shape, dims, strict=True)))
    if not fits:
        raise bad("lax.broadcast_in_dim", "the operand does not fit into the shape",
                  given={"operand": x.str_short(), "shape": str(shape), "broadcast_dimensions": str(dims)},
                  fix="give one increasing result axis for each operand axis; sizes must be equal or 1.")
    return ShapedArray(shape, x.dtype, x.weak_type)


def _broadcast_lower(b: Builder, out: ShapedArray, x: Value, *, shape, broadcast_dimensions) -> Value:
    return b.broadcast(x, out, broadcast_dimensions)


def _broadcast_transpose(ct, x, *, shape, broadcast_dimensions):
    added = [d for d in range(len(shape)) if d not in broadcast_dimensions]
    stretched = [d for n, d in zip(x.aval.shape, broadcast_dimensions, strict=True) if n != shape[d]]
    total = reduce_sum(ct, sorted(added + stretched)) if added or stretched else ct
    return [reshape(total, x.aval.shape)]


def _broadcast_batch(axis, args, bdims, *, shape, broadcast_dimensions):
    x = move_axis_to_front(args[0], bdims[0])
    dims = (0, *(d + 1 for d in broadcast_dimensions))
    return broadcast_in_dim_p.bind(x, shape=(axis.size, *shape), broadcast_dimensions=dims), 0


broadcast_in_dim_p = Primitive(
    "broadcast_in_dim", type_rule=_broadcast_type, lower=_broadcast_lower,
    jvp=LINEAR, transpose=_broadcast_transpose, batch=_broadcast_batch, fusible=True)


def broadcast(operand: ArrayLike, sizes: Sequence[int], *, out_sharding: object = None) -> Array:
    """`operand` repeated along new leading axes of the given sizes."""
    if out_sharding is not None:
        return constrained("lax.broadcast", broadcast(operand, sizes), out_sharding)
    sizes = _shape(sizes, "lax.broadcast")
    shape = sizes + typeof(operand).shape
    return broadcast_in_dim(operand, shape, range(len(sizes), len(shape)))


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """`array` with axes of size 1 inserted, at the positions `dimensions` of the result."""
    check_sequence("lax.expand_dims", "dimensions", dimensions)
    aval = typeof(array)
    rank = aval.ndim + len(dimensions)
    new = set(canonical_axes(dimensions, rank, "lax.expand_dims", "dimensions"))
    if not new and isinstance(array, Array):
        return array
    kept = [d for d in range(rank) if d not in new]
    shape = [1] * rank
    for d, n in zip(kept, aval.shape, strict=True):
        shape[d] = n
    return broadcast_in_dim(array, shape, kept)


# -- reduce_sum ---------------------------------------------------------------------------------------------------

def reduce_sum(operand: ArrayLike, axes: Sequence[int], *, out_sharding: object = None) -> Array:
    """Sum over `axes`, which are removed. The dtype is kept; the sum of no elements is 0."""
    if out_sharding is not None:
        return constrained("lax.reduce_sum", reduce_sum(operand, axes), out_sharding)
    aval = typeof(operand)
    axes = canonical_axes(axes, aval.ndim, "lax.reduce_sum", "axes")
    if not config.allow_f16_reductions and dtypes.accumulator_dtype(aval.dtype) != aval.dtype:
        raise bad("lax.reduce_sum", "sums in half precision are disabled", {"operand": aval.str_short(),
                  "allow_f16_reductions": False}, "convert to float32 first: x.astype('float32').", exc=ValueError)
    return operand if not axes and isinstance(operand, Array) else reduce_sum_p.bind(operand, axes=axes)


def _reduce_sum_type(x, *, axes):
    check_kinds("reduce_sum", NUMBER, x)
    return ShapedArray(tuple(n for i, n in enumerate(x.shape) if i not in axes), x.dtype, x.weak_type)


def _reduce_sum_lower(b: Builder, out: ShapedArray, x: Value, *, axes) -> Value:
    return reduce_text(b, x, "stablehlo.add", 0, axes)


def _reduce_sum_transpose(ct, x, *, axes):
    kept = tuple(i for i in range(x.aval.ndim) if i not in axes)
    return [broadcast_in_dim(ct, x.aval.shape, kept)]


def _reduce_sum_batch(axis, args, bdims, *, axes):
    (x,), (bdim,) = args, bdims
    inner = after_batch(bdim, axes)
    return reduce_sum_p.bind(x, axes=inner), bdim - sum(a < bdim for a in inner)


reduce_sum_p = Primitive("reduce_sum", type_rule=_reduce_sum_type, lower=_reduce_sum_lower,
                         lower_on={"cpu": sum_on_cpu}, jvp=LINEAR, transpose=_reduce_sum_transpose,
                         batch=_reduce_sum_batch)


# -- reshape ------------------------------------------------------------------------------------------------------

def reshape(operand: ArrayLike, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None,
            *, out_sharding: object = None) -> Array:
    """`operand` in another shape of the same size, in row-major order; transposed first if `dimensions` is given."""
    if out_sharding is not None:
        return constrained("lax.reshape", reshape(operand, new_sizes, dimensions), out_sharding)
    new_sizes = _shape(new_sizes, "lax.reshape")
    if dimensions is not None:
        operand = transpose(operand, dimensions)
    if typeof(operand).shape == new_sizes and isinstance(operand, Array):
        return operand
    return reshape_p.bind(operand, new_sizes=new_sizes, dimensions=None)


def _reshape_type(x, *, new_sizes, dimensions):
    if math.prod(new_sizes) != x.size:
        raise bad("lax.reshape", f"cannot turn {x.size} elements into shape {new_sizes}",
                  given={"operand": x.str_short()}, fix=f"choose sizes whose product is {x.size}.")
    return ShapedArray(new_sizes, x.dtype, x.weak_type)


def _reshape_lower(b: Builder, out: ShapedArray, x: Value, *, new_sizes, dimensions) -> Value:
    return reshape_text(b, x, out.shape)


def _reshape_transpose(ct, x, *, new_sizes, dimensions):
    return [reshape(ct, x.aval.shape)]


def _reshape_batch(axis, args, bdims, *, new_sizes, dimensions):
    x = move_axis_to_front(args[0], bdims[0])
    return reshape_p.bind(x, new_sizes=(axis.size, *new_sizes), dimensions=None), 0


reshape_p = Primitive("reshape", type_rule=_reshape_type, lower=_reshape_lower,
                      jvp=LINEAR, transpose=_reshape_transpose, batch=_reshape_batch, fusible=True)


# -- squeeze ------------------------------------------------------------------------------------------------------

def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """`array` without the given axes, which must have size 1."""
    axes = canonical_axes(dimensions, typeof(array).ndim, "lax.squeeze", "dimensions")
    return array if not axes and isinstance(array, Array) else squeeze_p.bind(array, dimensions=tuple(sorted(axes)))


def _squeeze_type(x, *, dimensions):
    if any(x.shape[d] != 1 for d in dimensions):
        raise bad("lax.squeeze", "cannot remove an axis whose size is not 1",
                  given={"operand": x.str_short(), "dimensions": str(dimensions)},
                  fix="name axes of size 1 only, or index them: x[0].", exc=ValueError)
    return ShapedArray(tuple(n for i, n in enumerate(x.shape) if i not in dimensions), x.dtype, x.weak_type)


def _squeeze_lower(b: Builder, out: ShapedArray, x: Value, *, dimensions) -> Value:
    return reshape_text(b, x, out.shape)


def _squeeze_transpose(ct, x, *, dimensions):
    return [expand_dims(ct, dimensions)]


def _squeeze_batch(axis, args, bdims, *, dimensions):
    (x,), (bdim,) = args, bdims
    inner = after_batch(bdim, dimensions)
    return squeeze_p.bind(x, dimensions=inner), bdim - sum(a < bdim for a in inner)


squeeze_p = Primitive("squeeze", type_rule=_squeeze_type, lower=_squeeze_lower,
                      jvp=LINEAR, transpose=_squeeze_transpose, batch=_squeeze_batch, fusible=True)


# -- transpose ----------------------------------------------------------------------------------------------------

def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """`operand` with its axes in a new order: result axis i is operand axis `permutation[i]`."""
    permutation = tuple([int(a) if isinstance(a, np.integer) else a for a in permutation])
    if permutation == tuple(range(typeof(operand).ndim)) and isinstance(operand, Array):
        return operand
    return transpose_p.bind(operand, permutation=permutation)


def _transpose_type(x, *, permutation):
    if sorted(permutation) != list(range(x.ndim)):
        raise bad("lax.transpose", "`permutation` must name every axis once",
                  given={"operand": x.str_short(), "permutation": str(permutation)},
                  fix=f"pass a permutation of {tuple(range(x.ndim))}.")
    return ShapedArray(tuple(x.shape[i] for i in permutation), x.dtype, x.weak_type)


def _transpose_lower(b: Builder, out: ShapedArray, x: Value, *, permutation) -> Value:
    return transpose_text(b, x, permutation)


def _inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def _transpose_transpose(ct, x, *, permutation):
    return [transpose(ct, _inverse(permutation))]


def _transpose_batch(axis, args, bdims, *, permutation):
    (x,), (bdim,) = args, bdims
    return transpose_p.bind(x, permutation=(bdim, *after_batch(bdim, permutation))), 0


transpose_p = Primitive("transpose", type_rule=_transpose_type, lower=_transpose_lower,
                        jvp=LINEAR, transpose=_transpose_transpose, batch=_transpose_batch, fusible=True)


# -- moving one axis ----------------------------------------------------------------------------------------------

def move_axis(x: ArrayLike, source: int, destination: int) -> Array:
    """`x` with one axis moved; the order of the others is kept."""
    order = [i for i in range(typeof(x).ndim) if i != source]
    order.insert(destination, source)
    return transpose(x, order)


def move_axis_to_front(x: ArrayLike, source: int) -> Array:
    return move_axis(x, source, 0)
