"""Blocks of arrays: slice and its adjoint pad, dynamic_slice and its adjoint dynamic_update_slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.config import DEFAULT_MODE, marked
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.types import ShapedArray, Zero, is_linear, number_of, typeof
from xjax.ops.arrange import batched_in_front, concatenate, jointly_linear
from xjax.ops.checks import canonical_axes, canonical_axis, check_same_dtype, check_sequence, static_int
from xjax.ops.compare import lt, select_n
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, sub
from xjax.ops.gather import gather, gather_p
from xjax.ops.index_numbers import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from xjax.ops.makers import match_scalars
from xjax.ops.piecewise import rem
from xjax.ops.scatter import scatter_p
from xjax.ops.shape import broadcast_in_dim, expand_dims, reduce_sum, reshape, squeeze
from xjax.ops.text import dynamic_slice_text, dynamic_update_slice_text, slice_text
from xjax.ops.zeros import full_of, instantiate, zeros_of
from xjax.typing import Array, ArrayLike


def _ints(values: Sequence[Any], name: str, caller: str) -> tuple[int, ...]:
    check_sequence(caller, name, values)
    return tuple(static_int(v, name, caller) for v in values)


# -- slice --------------------------------------------------------------------------------------------------------

def slice(operand: ArrayLike, start_indices: Sequence[int], limit_indices: Sequence[int],
          strides: Sequence[int] | None = None) -> Array:
    """The block of `operand` from `start_indices` to `limit_indices` (excluded), in steps of `strides`."""
    caller = "lax.slice"
    return slice_p.bind(operand, start_indices=_ints(start_indices, "start_indices", caller),
                        limit_indices=_ints(limit_indices, "limit_indices", caller),
                        strides=None if strides is None else _ints(strides, "strides", caller))


def _slice_type(x, *, start_indices, limit_indices, strides):
    steps = strides or (1,) * x.ndim
    fits = (len(start_indices) == len(limit_indices) == len(steps) == x.ndim
            and all(0 <= lo <= hi <= n for lo, hi, n in zip(start_indices, limit_indices, x.shape, strict=True))
            and all(s > 0 for s in steps))
    if not fits:
        raise bad("lax.slice", "the block is not inside the operand",
                  given={"operand": x.str_short(), "start_indices": str(start_indices),
                         "limit_indices": str(limit_indices), "strides": str(strides)},
                  fix="give 0 <= start <= limit <= size and stride > 0 for each axis, or index with x[lo:hi].")
    shape = tuple(-(-(hi - lo) // s) for lo, hi, s in zip(start_indices, limit_indices, steps, strict=True))
    return x.update(shape=shape)


def _slice_lower(b: Builder, out: ShapedArray, x: Value, *, start_indices, limit_indices, strides) -> Value:
    return slice_text(b, x, start_indices, limit_indices, strides)


def _slice_transpose(ct, x, *, start_indices, limit_indices, strides):
    shape, steps = x.aval.shape, strides or (1,) * x.aval.ndim
    covered = [lo + (1 + (n - 1) * s if n else 0)
               for lo, n, s in zip(start_indices, typeof(ct).shape, steps, strict=True)]
    config = [(lo, size - end, s - 1)
              for lo, size, end, s in zip(start_indices, shape, covered, steps, strict=True)]
    return [pad(ct, number_of(typeof(ct).dtype, 0), config)]


def _slice_batch(axis, args, bdims, *, start_indices, limit_indices, strides):
    (x,), (bdim,) = args, bdims
    def insert(values: Sequence[int], value: int) -> tuple[int, ...]:
        return (*values[:bdim], value, *values[bdim:])
    return slice_p.bind(x, start_indices=insert(start_indices, 0), limit_indices=insert(limit_indices, axis.size),
                        strides=None if strides is None else insert(strides, 1)), bdim


slice_p = Primitive("slice", type_rule=_slice_type, lower=_slice_lower, jvp=LINEAR, transpose=_slice_transpose,
                    batch=_slice_batch, fusible=True)


def slice_in_dim(operand: ArrayLike, start_index: int | None, limit_index: int | None, stride: int = 1,
                 axis: int = 0) -> Array:
    """`operand[start_index:limit_index:stride]` along one axis; negative positions count from the end."""
    shape, where = typeof(operand).shape, "lax.slice_in_dim"
    axis = canonical_axis(axis, len(shape), where)
    size = shape[axis]
    lo = 0 if start_index is None else _from_end(static_int(start_index, "start_index", where), size)
    hi = size if limit_index is None else _from_end(static_int(limit_index, "limit_index", where), size)
    starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], limits[axis], strides[axis] = lo, hi, static_int(stride, "stride", where)
    return slice(operand, starts, limits, strides)


def _from_end(position: int, size: int) -> int:
    return position + size if position < 0 else position


def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The slice of size 1 at `index` along an axis; the axis is removed unless `keepdims`."""
    caller = "lax.index_in_dim"
    axis = canonical_axis(axis, typeof(operand).ndim, caller)
    size, index = typeof(operand).shape[axis], static_int(index, "index", caller)
    if not -size <= index < size:
        raise bad(caller, f"index {index} is out of bounds for axis {axis} with size {size}",
                  fix=f"use a value from {-size} to {size - 1}." if size else "the axis is empty.", exc=IndexError)
    lo = index % size
    part = slice_in_dim(operand, lo, lo + 1, 1, axis)
    return part if keepdims else squeeze(part, (axis,))


def modulo(positions: ArrayLike, size: int) -> Array:
    """Positions modulo `size`, with the sign rule of Python's %."""
    dtype = positions.aval.dtype
    remainder = rem(positions, number_of(dtype, max(size, 1)))
    return select_n(lt(remainder, number_of(dtype, 0)), remainder, add(remainder, number_of(dtype, size)))


def index_take(src: ArrayLike, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """For each i, the slice of `src` at the positions `idxs[k][i]` along the axes `axes[k]`.

    Args: src: any[...]; idxs: arrays int[n], one for each of `axes`. Positions are modulo the size of the axis.
    Returns: any[n, *other axes of src].

    >>> xjax.lax.index_take(np.arange(6).reshape(2, 3), (np.array([0, 1]), np.array([-1, 0])), (0, 1))
    Array([2, 3], dtype=int32)
    """
    where, shape = "lax.index_take", typeof(src).shape
    axes = canonical_axes(axes, len(shape), where)
    avals = [typeof(i) for i in idxs]
    if len(avals) != len(axes) or not axes or len({a.shape for a in avals}) > 1 or avals[0].ndim != 1 or not all(
            dtypes.is_int(a.dtype) for a in avals):
        raise bad(where, "needs one integer vector for each axis, all of one length",
                  given={"axes": str(axes), "idxs": ", ".join(a.str_short() for a in avals)},
                  fix="pass idxs=(i, j, ...) of type int32[n] and the same number of axes.")
    columns = [modulo(convert_element_type(i, dtypes.canonicalize_dtype(np.int64)), shape[a])
               for i, a in zip(idxs, axes, strict=True)]
    sizes = tuple(1 if d in axes else n for d, n in enumerate(shape))
    numbers = GatherDimensionNumbers(tuple(range(1, len(shape) - len(axes) + 1)), tuple(sorted(axes)), tuple(axes))
    return gather(src, concatenate([expand_dims(c, (1,)) for c in columns], 1), numbers, sizes)


# -- pad ----------------------------------------------------------------------------------------------------------

def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]) -> Array:
    """`operand` with `padding_value` before, after and between its elements.

    Args:
      operand: any[...]; padding_value: scalar of its dtype.
      padding_config: (low, high, interior) for each axis. `interior` elements are inserted between neighbours first;
        then negative low and high crop.
    """
    operand, padding_value = match_scalars(operand, padding_value)
    config = tuple(_ints(triple, "padding_config", "lax.pad") for triple in padding_config)
    return pad_p.bind(operand, padding_value, padding_config=config)


def _pad_type(x, value, *, padding_config):
    check_same_dtype("pad", x, value)
    given = {"operand": x.str_short(), "padding_value": value.str_short(), "padding_config": str(padding_config)}
    if value.ndim:
        raise bad("lax.pad", "`padding_value` must be a scalar", given=given, fix="pass a 0-d array or a number.")
    fits = len(padding_config) == x.ndim and all(len(t) == 3 and t[2] >= 0 for t in padding_config)
    if not fits:
        raise bad("lax.pad", "`padding_config` must have (low, high, interior >= 0) for each axis", given=given,
                  fix="pass one triple for each axis; (0, 0, 0) leaves an axis unchanged.", exc=ValueError)
    shape = tuple(n + lo + hi + max(n - 1, 0) * inner
                  for n, (lo, hi, inner) in zip(x.shape, padding_config, strict=True))
    if any(n < 0 for n in shape):
        raise bad("lax.pad", f"cropping leaves a negative size: {shape}", given=given,
                  fix="crop less: low + high must be at least minus the size.", exc=ValueError)
    return ShapedArray(shape, x.dtype, x.weak_type and value.weak_type)


def _pad_lower(b: Builder, out: ShapedArray, x: Value, value: Value, *, padding_config) -> Value:
    low, high, interior = ([t[i] for t in padding_config] for i in range(3))
    return b.op(f"stablehlo.pad {x}, {value}, low = {low}, high = {high}, interior = {interior} : "
                f"({x.type}, {value.type}) -> {tensor_type(out)}", out)


def _pad_transpose(ct, x, value, *, padding_config):
    zero = number_of(typeof(ct).dtype, 0)
    cropped = pad(ct, zero, [(-lo, -hi, 0) for lo, hi, _ in padding_config])
    kept = slice(cropped, [0] * typeof(ct).ndim, cropped.aval.shape, [t[2] + 1 for t in padding_config])
    ct_value = None
    if is_linear(value):
        axes = tuple(range(typeof(ct).ndim))
        ct_value = sub(reduce_sum(ct, axes), reduce_sum(kept, axes))
    return [kept if is_linear(x) else None, ct_value]


def _pad_batch(axis, args, bdims, *, padding_config):
    (x, value), (x_bdim, v_bdim) = args, bdims
    if v_bdim is None:
        config = (*padding_config[:x_bdim], (0, 0, 0), *padding_config[x_bdim:])
        return pad_p.bind(x, value, padding_config=config), x_bdim
    # Each row has its own padding value: pad with zeros, then select the value in the padding.
    x, value = batched_in_front(axis, args, bdims)
    config = ((0, 0, 0), *padding_config)
    aval = typeof(x)
    padded = pad_p.bind(x, number_of(aval.dtype, 0), padding_config=config)
    elements = full_of(ShapedArray(aval.shape, np.dtype(bool)), True)
    inside = pad_p.bind(elements, np.bool_(False), padding_config=config)
    return select_n(inside, broadcast_in_dim(value, padded.aval.shape, (0,)), padded), 0


pad_p = Primitive("pad", type_rule=_pad_type, lower=_pad_lower, jvp=jointly_linear(lambda: pad_p),
                  transpose=_pad_transpose, batch=_pad_batch)


# -- starts of dynamic slices -------------------------------------------------------------------------------------

def _starts(indices: Any, shape: tuple[int, ...], allow_negative: bool | Sequence[bool],
            caller: str) -> list[Any]:
    """One scalar start for each axis, all of one integer dtype; negative starts count from the end where allowed."""
    if hasattr(indices, "ndim"):
        if indices.ndim != 1 or indices.shape[0] != len(shape):
            raise bad(caller, f"`start_indices` must have one entry for each of the {len(shape)} axes",
                      given={"start_indices": indices}, fix="pass a sequence of scalars, or an array int[ndim].")
        indices = [squeeze(slice(indices, (i,), (i + 1,), (1,)), (0,)) for i in range(len(shape))]
    check_sequence(caller, "start_indices", indices)
    allowed = [allow_negative] * len(shape) if isinstance(allow_negative, bool) else list(allow_negative)
    if len(indices) != len(shape) or len(allowed) != len(shape):
        raise bad(caller, f"needs one start for each of the {len(shape)} axes, not {len(indices)}",
                  fix="pass 0 for the axes that are kept whole.")
    dtype = _start_dtype(indices, caller)
    if dtypes.iinfo(dtype).max < max(shape, default=0) and not dtypes.is_unsigned(dtype) and any(allowed):
        dtype = np.dtype(np.int32)                  # a start from the end needs a dtype that holds the sizes
        indices = [i if type(i) is int else convert_element_type(i, dtype) for i in indices]
    return [_start(i, n, neg, dtype, caller) for i, n, neg in zip(indices, shape, allowed, strict=True)]


def _start_dtype(indices: Sequence[Any], caller: str) -> np.dtype:
    """The integer dtype of the starts: that of the arrays among them, which must have one dtype."""
    kinds = {typeof(i).dtype for i in indices if type(i) is not int}
    if len(kinds) > 1 or any(typeof(i).ndim for i in indices) or not all(map(dtypes.is_int, kinds)):
        raise bad(caller, "the starts must be scalar integers of one dtype",
                  given={f"start {k}": typeof(i).str_short() for k, i in enumerate(indices)},
                  fix="convert them with x.astype('int32').")
    return kinds.pop() if kinds else dtypes.canonicalize_dtype(int)


def _start(index: ArrayLike, size: int, allow_negative: bool, dtype: np.dtype, caller: str) -> ArrayLike:
    """A start of this dtype, counted from the beginning."""
    if isinstance(index, (int, np.integer, np.ndarray)):
        index = int(index)
        if index < 0 and not allow_negative:
            raise bad(caller, f"the start {index} is negative", given={"size of the axis": str(size)},
                      fix="pass allow_negative_indices=True to count from the end.", exc=ValueError)
        return number_of(dtype, max(index + size, 0) if index < 0 else index)
    if not allow_negative or dtypes.is_unsigned(dtype):
        return index
    return select_n(lt(index, number_of(dtype, 0)), index, add(_strong(index, dtype), number_of(dtype, size)))


def _strong(index: Array, dtype: np.dtype) -> Array:
    return convert_element_type(index, dtype) if index.aval.weak_type else index


def _check_starts(caller: str, x: ShapedArray, starts: Sequence[ShapedArray]) -> None:
    if len(starts) != x.ndim or any(s.ndim or not dtypes.is_int(s.dtype) for s in starts) \
            or len({s.dtype for s in starts}) > 1:
        raise bad(caller, "needs one scalar integer start for each axis, all of one dtype",
                  given={"operand": x.str_short(), "starts": ", ".join(s.str_short() for s in starts)},
                  fix="convert them with x.astype('int32').")


def _wide_starts(b: Builder, starts: Sequence[Value]) -> list[Value]:
    """Starts of at least 32 bits, since XLA clamps them to bounds that a narrow type may not hold."""
    return [b.convert(s, np.dtype(np.int32)) if dtypes.itemsize_bits(s.aval.dtype) < 32 else s for s in starts]


# -- dynamic_slice ------------------------------------------------------------------------------------------------

def dynamic_slice(operand: ArrayLike, start_indices: ArrayLike | Sequence[ArrayLike], slice_sizes: Sequence[int], *,
                  allow_negative_indices: bool | Sequence[bool] = True) -> Array:
    """The block of shape `slice_sizes` at `start_indices`, which may be traced.

    Args:
      operand: any[...]; start_indices: scalars or int[ndim], one start for each axis.
      allow_negative_indices: a negative start counts from the end; if False, it is clamped to 0.
    Returns: any[slice_sizes]. Starts are clamped so that the block is inside the operand.
    """
    starts = _starts(start_indices, typeof(operand).shape, allow_negative_indices, "lax.dynamic_slice")
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=_ints(slice_sizes, "slice_sizes", "lax.dynamic_slice"))


def _dynamic_slice_type(x, *starts, slice_sizes):
    _check_starts("lax.dynamic_slice", x, starts)
    if len(slice_sizes) != x.ndim or any(not 0 <= s <= n for s, n in zip(slice_sizes, x.shape, strict=True)):
        raise bad("lax.dynamic_slice", "the slice is larger than the operand",
                  given={"operand": x.str_short(), "slice_sizes": str(slice_sizes)},
                  fix="pass a size from 0 to the operand's size for each axis.")
    return x.update(shape=slice_sizes)


def _dynamic_slice_lower(b: Builder, out: ShapedArray, x: Value, *starts: Value, slice_sizes) -> Value:
    if not starts:
        return x
    return dynamic_slice_text(b, x, _wide_starts(b, starts), slice_sizes)


def _dynamic_slice_transpose(ct, x, *starts, slice_sizes):
    return [dynamic_update_slice_p.bind(zeros_of(x.aval), ct, *starts), *[None] * len(starts)]


def _dynamic_slice_batch(axis, args, bdims, *, slice_sizes):
    (x, *starts), (x_bdim, *i_bdims) = args, bdims
    if all(b is None for b in i_bdims):             # one block for all rows needs no gather
        zero = number_of(typeof(starts[0]).dtype, 0) if starts else np.int32(0)
        starts.insert(x_bdim, zero)
        sizes = (*slice_sizes[:x_bdim], axis.size, *slice_sizes[x_bdim:])
        return dynamic_slice_p.bind(x, *starts, slice_sizes=sizes), x_bdim
    ndim = len(slice_sizes)
    indices = _index_vectors(axis, starts, i_bdims)
    numbers = GatherDimensionNumbers(tuple(range(ndim)), (), tuple(range(ndim)))
    params = {"dimension_numbers": numbers, "slice_sizes": slice_sizes, "unique_indices": True,
              "indices_are_sorted": True, "mode": GatherScatterMode.CLIP, "fill_value": None}
    with marked(DEFAULT_MODE):
        return gather_p.batch(axis, (x, indices), (x_bdim, 0), **params)


def _index_vectors(axis: Any, starts: Sequence[Any], bdims: Sequence[int | None]) -> Array:
    """The starts as index vectors int[batch, ndim]."""
    columns = [reshape(s, (axis.size, 1)) if b is not None else broadcast_in_dim(s, (axis.size, 1), ())
               for s, b in zip(starts, bdims, strict=True)]
    return concatenate(columns, 1)


dynamic_slice_p = Primitive("dynamic_slice", type_rule=_dynamic_slice_type, lower=_dynamic_slice_lower, jvp=LINEAR,
                            transpose=_dynamic_slice_transpose, batch=_dynamic_slice_batch)


def _in_dim(shape: tuple[int, ...], axis: int, start: ArrayLike) -> list[Any]:
    """Starts that are 0 except along one axis."""
    return [start if d == axis else 0 for d in range(len(shape))]


def dynamic_slice_in_dim(operand: ArrayLike, start_index: ArrayLike, slice_size: int, axis: int = 0, *,
                         allow_negative_indices: bool = True) -> Array:
    """`dynamic_slice` along one axis; the other axes are kept whole."""
    shape = typeof(operand).shape
    axis = canonical_axis(axis, len(shape), "lax.dynamic_slice_in_dim")
    sizes = (*shape[:axis], static_int(slice_size, "slice_size", "lax.dynamic_slice_in_dim"), *shape[axis + 1:])
    allowed = [d == axis and allow_negative_indices for d in range(len(shape))]
    return dynamic_slice(operand, _in_dim(shape, axis, start_index), sizes, allow_negative_indices=allowed)


def dynamic_index_in_dim(operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True, *,
                         allow_negative_indices: bool = True) -> Array:
    """The slice of size 1 at `index`, which may be traced; the axis is removed unless `keepdims`."""
    axis = canonical_axis(axis, typeof(operand).ndim, "lax.dynamic_index_in_dim")
    part = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return part if keepdims else squeeze(part, (axis,))


# -- dynamic_update_slice -----------------------------------------------------------------------------------------

def dynamic_update_slice(operand: ArrayLike, update: ArrayLike, start_indices: ArrayLike | Sequence[ArrayLike], *,
                         allow_negative_indices: bool | Sequence[bool] = True) -> Array:
    """`operand` with the block at `start_indices` replaced by `update`.

    Args: operand: any[...]; update: the same dtype and number of axes, not larger; start_indices: see `dynamic_slice`.
    Returns: an array like `operand`. Starts are clamped so that the block is inside the operand.
    """
    operand, update = match_scalars(operand, update)
    starts = _starts(start_indices, typeof(operand).shape, allow_negative_indices, "lax.dynamic_update_slice")
    return dynamic_update_slice_p.bind(operand, update, *starts)


def _dynamic_update_slice_type(x, update, *starts):
    check_same_dtype("dynamic_update_slice", x, update)
    _check_starts("lax.dynamic_update_slice", x, starts)
    if update.ndim != x.ndim or any(m > n for m, n in zip(update.shape, x.shape, strict=True)):
        raise bad("lax.dynamic_update_slice", "the update does not fit into the operand",
                  given={"operand": x.str_short(), "update": update.str_short()},
                  fix="pass an update with the same number of axes, not larger; add axes with update[None].")
    return x.strong()


def _dynamic_update_slice_lower(b: Builder, out: ShapedArray, x: Value, update: Value, *starts: Value) -> Value:
    if not starts:
        return update
    return dynamic_update_slice_text(b, x, update, _wide_starts(b, starts))


def _dynamic_update_slice_jvp(primals, tangents):
    x, update, *starts = primals
    out = dynamic_update_slice_p.bind(*primals)
    if type(tangents[0]) is Zero and type(tangents[1]) is Zero:
        return out, Zero(out.aval.tangent())
    return out, dynamic_update_slice_p.bind(instantiate(tangents[0]), instantiate(tangents[1]), *starts)


def _dynamic_update_slice_transpose(ct, x, update, *starts):
    shape = typeof(update).shape
    ct_x = ct_update = None
    if is_linear(x):
        ct_x = dynamic_update_slice_p.bind(ct, zeros_of(typeof(update)), *starts)
    if is_linear(update):
        ct_update = dynamic_slice_p.bind(ct, *starts, slice_sizes=shape)
    return [ct_x, ct_update, *[None] * len(starts)]


def _dynamic_update_slice_batch(axis, args, bdims):
    x, update, *starts = args
    x_bdim, u_bdim, *i_bdims = bdims
    ndim = len(starts)
    if all(b is None for b in i_bdims):             # one block for all rows needs no scatter
        x, update = batched_in_front(axis, (x, update), (x_bdim, u_bdim))
        zero = number_of(typeof(starts[0]).dtype, 0) if starts else np.int32(0)
        return dynamic_update_slice_p.bind(x, update, zero, *starts), 0
    numbers = ScatterDimensionNumbers(tuple(range(ndim)), (), tuple(range(ndim)))
    params = {"dimension_numbers": numbers, "indices_are_sorted": True, "unique_indices": True,
              "mode": GatherScatterMode.CLIP, "update_jaxpr": None, "update_consts": ()}
    indices = _index_vectors(axis, starts, i_bdims)
    with marked(DEFAULT_MODE):
        return scatter_p.batch(axis, (x, indices, update), (x_bdim, 0, u_bdim), **params)


dynamic_update_slice_p = Primitive(
    "dynamic_update_slice", type_rule=_dynamic_update_slice_type, lower=_dynamic_update_slice_lower,
    jvp=_dynamic_update_slice_jvp, transpose=_dynamic_update_slice_transpose, batch=_dynamic_update_slice_batch)


def dynamic_update_slice_in_dim(operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int, *,
                                allow_negative_indices: bool = True) -> Array:
    """`dynamic_update_slice` along one axis; along the other axes the update starts at 0."""
    shape = typeof(operand).shape
    axis = canonical_axis(axis, len(shape), "lax.dynamic_update_slice_in_dim")
    allowed = [d == axis and allow_negative_indices for d in range(len(shape))]
    return dynamic_update_slice(operand, update, _in_dim(shape, axis, start_index), allow_negative_indices=allowed)


def dynamic_update_index_in_dim(operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int, *,
                                allow_negative_indices: bool = True) -> Array:
    """`operand` with the slice at `index` along an axis replaced; `update` may omit that axis."""
    aval = typeof(operand)
    axis = canonical_axis(axis, aval.ndim, "lax.dynamic_update_index_in_dim")
    operand, update = match_scalars(operand, update)
    if typeof(update).ndim != aval.ndim:
        update = expand_dims(update, (axis,))
    return dynamic_update_slice_in_dim(operand, update, index, axis, allow_negative_indices=allow_negative_indices)
