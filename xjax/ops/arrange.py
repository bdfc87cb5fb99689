"""Joining, splitting and repeating along axes: concatenate and split, stack and unstack, rev, tile, iota."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.primitive import LINEAR, ZERO, Primitive
from xjax.core.types import ShapedArray, Zero, is_linear, typeof
from xjax.ops.checks import NUMBER, canonical_axes, canonical_axis, check_kinds, check_same_dtype, static_int
from xjax.ops.shape import after_batch, broadcast_in_dim, move_axis_to_front, reduce_sum, reshape
from xjax.ops.text import concatenate_text, reshape_text, slice_text
from xjax.ops.zeros import instantiate, zeros_of
from xjax.typing import Array, ArrayLike, DTypeLike


def jointly_linear(p: Callable[[], Primitive]) -> Callable:
    """jvp rule of an operation that is linear in all its operands together."""
    def jvp(primals, tangents, **params):
        out = p().bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return out, Zero(out.aval.tangent())
        return out, p().bind(*map(instantiate, tangents), **params)
    return jvp


def linear_with_results(p: Callable[[], Primitive]) -> Callable:
    """jvp rule of a linear operation of one operand and several results."""
    def jvp(primals, tangents, **params):
        outs = p().bind(*primals, **params)
        if type(tangents[0]) is Zero:
            return outs, [Zero(o.aval.tangent()) for o in outs]
        return outs, p().bind(*tangents, **params)
    return jvp


def batched_in_front(axis: Any, args: Sequence[Any], bdims: Sequence[int | None]) -> list[Any]:
    """All arguments with a leading batch axis; arguments without a batch axis are repeated."""
    return [move_axis_to_front(x, b) if b is not None else _repeat(x, axis.size)
            for x, b in zip(args, bdims, strict=True)]


def _repeat(x: ArrayLike, size: int) -> Array:
    shape = typeof(x).shape
    return broadcast_in_dim(x, (size, *shape), range(1, len(shape) + 1))


def all_weak(avals: Sequence[ShapedArray]) -> bool:
    return all(a.weak_type for a in avals)


# -- concatenate and split ----------------------------------------------------------------------------------------

def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """Join arrays one after another along the axis `dimension`.

    Args: operands: arrays any[...] of one dtype, with equal sizes of all other axes.
    """
    operands = list(operands)
    if not operands:
        raise bad("lax.concatenate", "there is nothing to concatenate", fix="pass at least one array.", exc=ValueError)
    if len(operands) == 1 and isinstance(operands[0], Array):
        return operands[0]
    return concatenate_p.bind(*operands, dimension=static_int(dimension, "dimension", "lax.concatenate"))


def _concatenate_type(*avals, dimension):
    check_same_dtype("concatenate", *avals)
    first = avals[0]
    given = {f"operand {i}": a.str_short() for i, a in enumerate(avals)}
    if len({a.ndim for a in avals}) > 1:
        raise bad("lax.concatenate", "the operands have different numbers of axes", given=given,
                  fix="insert axes of size 1 with lax.expand_dims(x, [axis]), or x[None].")
    if not 0 <= dimension < first.ndim:
        raise bad("lax.concatenate", f"`dimension` {dimension} is out of bounds for arrays with {first.ndim} axes",
                  given=given, fix=f"pass an axis from 0 to {first.ndim - 1}." if first.ndim else
                  "0-d arrays have no axes: use lax.stack.")
    rest = [a.shape[:dimension] + a.shape[dimension + 1:] for a in avals]
    if len(set(rest)) > 1:
        raise bad("lax.concatenate", f"the operands differ in size along an axis other than {dimension}", given=given,
                  fix="make the other sizes equal, or concatenate along the axis in which they differ.")
    shape = list(first.shape)
    shape[dimension] = sum(a.shape[dimension] for a in avals)
    return ShapedArray(tuple(shape), first.dtype, all_weak(avals))


def _concatenate_lower(b: Builder, out: ShapedArray, *xs: Value, dimension) -> Value:
    return concatenate_text(b, xs, out, dimension)


def _concatenate_transpose(ct, *xs, dimension):
    sizes = tuple(typeof(x).shape[dimension] for x in xs)
    parts = split(ct, sizes, dimension)
    return [part if is_linear(x) else None for part, x in zip(parts, xs, strict=True)]


def _concatenate_batch(axis, args, bdims, *, dimension):
    return concatenate_p.bind(*batched_in_front(axis, args, bdims), dimension=dimension + 1), 0


concatenate_p = Primitive("concatenate", type_rule=_concatenate_type, lower=_concatenate_lower,
                          jvp=jointly_linear(lambda: concatenate_p), transpose=_concatenate_transpose,
                          batch=_concatenate_batch)


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> Sequence[Any]:
    """Consecutive parts of the given sizes along an axis; the sizes must add up to the size of the axis."""
    axis = canonical_axis(axis, typeof(operand).ndim, "lax.split")
    sizes = tuple(static_int(n, "sizes", "lax.split") for n in sizes)
    return split_p.bind(operand, sizes=sizes, axis=axis)


def _split_type(x, *, sizes, axis):
    if any(n < 0 for n in sizes) or sum(sizes) != x.shape[axis]:
        raise bad("lax.split", f"the sizes do not add up to the size of axis {axis}",
                  given={"operand": x.str_short(), "sizes": f"{sizes}, sum {sum(sizes)}"},
                  fix=f"pass sizes >= 0 whose sum is {x.shape[axis]}.", exc=ValueError)
    return tuple(x.update(shape=x.shape[:axis] + (n,) + x.shape[axis + 1:]) for n in sizes)


def _split_lower(b: Builder, outs: Sequence[ShapedArray], x: Value, *, sizes, axis) -> list[Value]:
    parts, end = [], 0
    for n in sizes:
        lo, hi = [0] * x.aval.ndim, list(x.aval.shape)
        lo[axis], hi[axis] = end, end + n
        parts.append(slice_text(b, x, lo, hi))
        end += n
    return parts


def _split_transpose(cts, x, *, sizes, axis):
    return [concatenate([instantiate(ct) for ct in cts], axis)]


def _split_batch(batch_axis, args, bdims, *, sizes, axis):
    (x,), (bdim,) = args, bdims
    (inner,) = after_batch(bdim, (axis,))
    return split_p.bind(x, sizes=sizes, axis=inner), [bdim] * len(sizes)


split_p = Primitive("split", type_rule=_split_type, lower=_split_lower, multiple_results=True,
                    jvp=linear_with_results(lambda: split_p), transpose=_split_transpose, batch=_split_batch)


# -- stack and unstack --------------------------------------------------------------------------------------------

def stack(operands: Sequence[Any], axis: int = 0) -> Array:
    """Join arrays of one shape and dtype along a new axis."""
    operands = list(operands)
    if not operands:
        raise bad("lax.stack", "there is nothing to stack", fix="pass at least one array.", exc=ValueError)
    return stack_p.bind(*operands, axis=canonical_axis(axis, typeof(operands[0]).ndim + 1, "lax.stack"))


def _stack_type(*avals, axis):
    check_same_dtype("stack", *avals)
    if len({a.shape for a in avals}) > 1:
        raise bad("lax.stack", "the operands differ in shape",
                  given={f"operand {i}": a.str_short() for i, a in enumerate(avals)},
                  fix="make the shapes equal, or join along an existing axis with lax.concatenate.", exc=ValueError)
    shape = avals[0].shape
    return ShapedArray(shape[:axis] + (len(avals),) + shape[axis:], avals[0].dtype, all_weak(avals))


def _stack_lower(b: Builder, out: ShapedArray, *xs: Value, axis) -> Value:
    shape = out.shape[:axis] + (1,) + out.shape[axis + 1:]
    return concatenate_text(b, [reshape_text(b, x, shape) for x in xs], out, axis)


def _stack_transpose(ct, *xs, axis):
    parts = unstack(ct, axis)
    return [part if is_linear(x) else None for part, x in zip(parts, xs, strict=True)]


def _stack_batch(batch_axis, args, bdims, *, axis):
    return stack_p.bind(*batched_in_front(batch_axis, args, bdims), axis=axis + 1), 0


stack_p = Primitive("stack", type_rule=_stack_type, lower=_stack_lower, jvp=jointly_linear(lambda: stack_p),
                    transpose=_stack_transpose, batch=_stack_batch)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Any, ...]:
    """The slices of `x` along an axis, without that axis: the inverse of `stack`."""
    return tuple(unstack_p.bind(x, axis=canonical_axis(axis, typeof(x).ndim, "lax.unstack")))


def _unstack_type(x, *, axis):
    part = x.update(shape=x.shape[:axis] + x.shape[axis + 1:])
    return (part,) * x.shape[axis]


def _unstack_lower(b: Builder, outs: Sequence[ShapedArray], x: Value, *, axis) -> list[Value]:
    parts = _split_lower(b, outs, x, sizes=(1,) * x.aval.shape[axis], axis=axis)
    return [reshape_text(b, part, out.shape) for part, out in zip(parts, outs, strict=True)]


def _unstack_transpose(cts, x, *, axis):
    if not cts:
        return [zeros_of(x.aval)]
    return [stack([instantiate(ct) for ct in cts], axis)]


def _unstack_batch(batch_axis, args, bdims, *, axis):
    (x,), (bdim,) = args, bdims
    (inner,) = after_batch(bdim, (axis,))
    outs = unstack_p.bind(x, axis=inner)
    return outs, [bdim - (inner < bdim)] * len(outs)


unstack_p = Primitive("unstack", type_rule=_unstack_type, lower=_unstack_lower, multiple_results=True,
                      jvp=linear_with_results(lambda: unstack_p), transpose=_unstack_transpose, batch=_unstack_batch)


# -- rev ----------------------------------------------------------------------------------------------------------

def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """`operand` with the order of elements reversed along the given axes."""
    return rev_p.bind(operand, dimensions=canonical_axes(dimensions, typeof(operand).ndim, "lax.rev", "dimensions"))


def _rev_type(x, *, dimensions):
    return x


def _rev_lower(b: Builder, out: ShapedArray, x: Value, *, dimensions) -> Value:
    return b.op(f"stablehlo.reverse {x}, dims = {list(dimensions)} : {x.type}", out) if dimensions else x


def _rev_transpose(ct, x, *, dimensions):
    return [rev_p.bind(ct, dimensions=dimensions)]


def _rev_batch(axis, args, bdims, *, dimensions):
    return rev_p.bind(args[0], dimensions=after_batch(bdims[0], dimensions)), bdims[0]


rev_p = Primitive("rev", type_rule=_rev_type, lower=_rev_lower, jvp=LINEAR, transpose=_rev_transpose, batch=_rev_batch,
                  fusible=True)


# -- tile ---------------------------------------------------------------------------------------------------------

def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """`operand` repeated `reps[i]` times along axis i.

    Args: operand: any[...]; reps: one integer >= 0 for each axis.
    """
    reps = tuple(static_int(n, "reps", "lax.tile") for n in reps)
    return tile_p.bind(operand, reps=reps)


def _tile_type(x, *, reps):
    if len(reps) != x.ndim or any(n < 0 for n in reps):
        raise bad("lax.tile", "`reps` must have one integer >= 0 for each axis",
                  given={"operand": x.str_short(), "reps": str(reps)},
                  fix="add axes with lax.expand_dims, or use numpy.tile, which adds them.", exc=ValueError)
    return x.update(shape=tuple(n * r for n, r in zip(x.shape, reps, strict=True)))


def _interleaved(shape: Sequence[int], reps: Sequence[int]) -> tuple[int, ...]:
    """(r0, n0, r1, n1, ...): the shape in which each repetition has an axis of its own."""
    return tuple(k for pair in zip(reps, shape, strict=True) for k in pair)


def _tile_lower(b: Builder, out: ShapedArray, x: Value, *, reps) -> Value:
    wide = ShapedArray(_interleaved(x.aval.shape, reps), x.aval.dtype)
    return reshape_text(b, b.broadcast(x, wide, tuple(range(1, 2 * x.aval.ndim, 2))), out.shape)


def _tile_transpose(ct, x, *, reps):
    wide = reshape(ct, _interleaved(x.aval.shape, reps))
    return [reduce_sum(wide, tuple(range(0, 2 * x.aval.ndim, 2)))]


def _tile_batch(axis, args, bdims, *, reps):
    (x,), (bdim,) = args, bdims
    return tile_p.bind(x, reps=(*reps[:bdim], 1, *reps[bdim:])), bdim


tile_p = Primitive("tile", type_rule=_tile_type, lower=_tile_lower, jvp=LINEAR, transpose=_tile_transpose,
                   batch=_tile_batch)


# -- iota and empty -----------------------------------------------------------------------------------------------

def iota(dtype: DTypeLike, size: int) -> Array:
    """The numbers 0, 1, ..., size - 1, as an array of shape [size]."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: DTypeLike, shape: Sequence[int], dimension: int, *, out_sharding: object = None) -> Array:
    """Array of `shape` in which each element is its own index along the axis `dimension`."""
    if out_sharding is not None:
        return constrained("lax.broadcasted_iota", broadcasted_iota(dtype, shape, dimension), out_sharding)
    caller = "lax.broadcasted_iota"
    shape = tuple(static_int(n, "shape", caller) for n in shape)
    return iota_p.bind(dtype=dtypes.user_dtype(dtype, caller), shape=shape,
                       dimension=canonical_axis(dimension, len(shape), caller, "dimension"))


def _iota_type(*, dtype, shape, dimension):
    if any(n < 0 for n in shape):
        raise bad("lax.iota", "shapes must have sizes >= 0", given={"shape": str(shape)}, fix="pass sizes >= 0.")
    aval = ShapedArray(shape, dtype)
    check_kinds("iota", NUMBER, aval)
    return aval


def _iota_lower(b: Builder, out: ShapedArray, *, dtype, shape, dimension) -> Value:
    return b.op(f"stablehlo.iota dim = {dimension} : {tensor_type(out)}", out)


def _nullary_batch(p: Callable[[], Primitive]) -> Callable:
    def batch(axis, args, bdims, **params):
        return p().bind(**params), None
    return batch


def _no_operands(ct: object, **params: object) -> list[Any]:
    return []


iota_p = Primitive("iota", type_rule=_iota_type, lower=_iota_lower, jvp=ZERO, transpose=_no_operands,
                   batch=_nullary_batch(lambda: iota_p))


def empty(shape: Sequence[int], dtype: DTypeLike, *, out_sharding: object = None) -> Array:
    """An array to be overwritten; its elements are undefined (zero in this implementation)."""
    if out_sharding is not None:
        return constrained("lax.empty", empty(shape, dtype), out_sharding)
    caller = "lax.empty"
    shape = (shape,) if not np.iterable(shape) else shape
    return empty_p.bind(shape=tuple(static_int(n, "shape", caller) for n in shape),
                        dtype=dtypes.user_dtype(dtype, caller))


def _empty_type(*, shape, dtype):
    if any(n < 0 for n in shape):
        raise bad("lax.empty", "shapes must have sizes >= 0", given={"shape": str(shape)}, fix="pass sizes >= 0.")
    return ShapedArray(shape, dtype)


def _empty_lower(b: Builder, out: ShapedArray, *, shape, dtype) -> Value:
    return b.constant(0, out)


empty_p = Primitive("empty", type_rule=_empty_type, lower=_empty_lower, jvp=ZERO, transpose=_no_operands,
                    batch=_nullary_batch(lambda: empty_p))
