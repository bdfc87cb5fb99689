"""Shared by gather and scatter: dimension numbers, modes, and the checks and bounds that follow from them.

Index vectors are stored along the last axis of the index array (StableHLO allows any axis, JAX does not).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.symbolic.dims import is_static, max_dim
from xjax.core.types import ShapedArray

Axes = tuple[int, ...]


class GatherDimensionNumbers(NamedTuple):
    """The roles of axes in a `gather`.

    offset_dims: axes of the result within a slice; the other axes run over the indices.
    collapsed_slice_dims: axes of the operand with slice size 1 that are removed from the result.
    start_index_map: operand axis that component i of an index vector addresses.
    operand_batching_dims, start_indices_batching_dims: batch axes, which operand and indices have in common.
    """

    offset_dims: Axes
    collapsed_slice_dims: Axes
    start_index_map: Axes
    operand_batching_dims: Axes = ()
    start_indices_batching_dims: Axes = ()


class ScatterDimensionNumbers(NamedTuple):
    """The roles of axes in a `scatter`, the counterpart of `GatherDimensionNumbers`.

    update_window_dims: axes of the updates within a window; the other axes run over the indices.
    inserted_window_dims: axes of the operand with window size 1 that the updates do not have.
    scatter_dims_to_operand_dims: operand axis that component i of an index vector addresses.
    operand_batching_dims, scatter_indices_batching_dims: batch axes, which operand and indices have in common.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


class GatherScatterMode(enum.Enum):
    """Treatment of indices outside the operand.

    CLIP clamps an index to the nearest valid one. FILL_OR_DROP: a gather returns the fill value, a scatter ignores the
    update. PROMISE_IN_BOUNDS: the caller promises that there are none. ONE_HOT: a gather by a product with one-hot
    vectors.
    """

    CLIP = 1
    FILL_OR_DROP = 2
    PROMISE_IN_BOUNDS = 3
    ONE_HOT = 4

    @staticmethod
    def from_any(mode: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode with a name: "clip", "fill", "drop", "promise_in_bounds"; None means "fill"."""
        if isinstance(mode, GatherScatterMode):
            return mode
        result = _MODES.get(mode) if mode is None or isinstance(mode, str) else None
        if result is None:
            raise bad("GatherScatterMode", f"unknown mode {mode!r}",
                      fix="use 'clip', 'fill' (or 'drop'), 'promise_in_bounds' or None.", exc=ValueError)
        return result


_MODES = {None: GatherScatterMode.FILL_OR_DROP, "fill": GatherScatterMode.FILL_OR_DROP,
          "drop": GatherScatterMode.FILL_OR_DROP, "clip": GatherScatterMode.CLIP,
          "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS, "one_hot": GatherScatterMode.ONE_HOT}


def as_ints(axes: Sequence[int]) -> Axes:
    return tuple(int(a) for a in axes)


def shifted(axes: Sequence[int], by: int = 1) -> Axes:
    """The axes after `by` new leading axes are added."""
    return tuple(a + by for a in axes)


def is_sorted_set(axes: Sequence[int], ndim: int) -> bool:
    """Whether these are strictly increasing axes of an array with `ndim` axes."""
    return list(axes) == sorted(set(axes)) and all(0 <= a < ndim for a in axes)


def is_set(axes: Sequence[int], ndim: int) -> bool:
    """Whether these are distinct axes of an array with `ndim` axes."""
    return len(set(axes)) == len(axes) and all(0 <= a < ndim for a in axes)


def check_index_dtype(caller: str, indices: ShapedArray) -> None:
    if not dtypes.is_int(indices.dtype):
        raise bad(caller, "the indices must be integers", given={"indices": indices.str_short()},
                  fix="convert them with x.astype('int32').")
    if not indices.ndim:
        raise bad(caller, "the indices need an axis for the components of an index vector",
                  given={"indices": indices.str_short()}, fix="pass indices[..., None].")


# -- lowering -----------------------------------------------------------------------------------------------------

def wide_indices(b: Builder, indices: Value) -> Value:
    """Indices of at least 32 bits, since a narrower type may not hold the bounds that they are compared with."""
    narrow = dtypes.itemsize_bits(indices.aval.dtype) < 32
    return b.convert(indices, np.dtype(np.int32)) if narrow else indices


def last_starts(b: Builder, indices: Value, sizes: Sequence[int], windows: Sequence[int], axes: Axes) -> Value:
    """The largest valid index for each component, in the shape of the indices."""
    dtype, last = indices.aval.dtype, [max_dim(sizes[a] - windows[a], 0) for a in axes]
    row_type = ShapedArray((len(last),), dtype)
    if is_static(last):
        row = b.constant(np.array([min(n, int(dtypes.iinfo(dtype).max)) for n in last], dtype), row_type)
    else:
        one = ShapedArray((1,), dtype)
        parts = [b.broadcast(b.convert(b.size(n), dtype), one, ()) for n in last]
        row = parts[0] if len(parts) == 1 else b.op(
            f"stablehlo.concatenate {', '.join(part.name for part in parts)}, dim = 0 : "
            f"({', '.join(part.type for part in parts)}) -> {tensor_type(row_type)}", row_type)
    return b.broadcast(row, indices.aval, (indices.aval.ndim - 1,))


def clip_indices(b: Builder, indices: Value, sizes: Sequence[int], windows: Sequence[int], axes: Axes) -> Value:
    """Indices clamped so that the windows are inside the operand."""
    zero = b.constant(0, indices.aval)
    last = last_starts(b, indices, sizes, windows, axes)
    return b.op(f"stablehlo.clamp {zero}, {indices}, {last} : {indices.type}", indices.aval)


def valid_indices(b: Builder, indices: Value, sizes: Sequence[int], windows: Sequence[int], axes: Axes) -> Value:
    """Whether the window of an index vector is inside the operand: bool of the indices' shape without its last axis."""
    lower = b.compare("GE", indices, b.constant(0, indices.aval))
    upper = b.compare("LE", indices, last_starts(b, indices, sizes, windows, axes))
    both = b.binary("stablehlo.and", lower, upper)
    true = b.constant(True, ShapedArray((), np.dtype(bool)))
    out = ShapedArray(indices.aval.shape[:-1], np.dtype(bool))
    return b.op(f"stablehlo.reduce({both} init: {true}) applies stablehlo.and across dimensions = "
                f"[{indices.aval.ndim - 1}] : ({both.type}, {true.type}) -> {tensor_type(out)}", out)


def axes_text(fields: dict[str, Sequence[int]]) -> str:
    """`offset_dims = [1], collapsed_slice_dims = [0]`; the parser does not accept empty lists."""
    return ", ".join(f"{name} = {list(axes)}" for name, axes in fields.items() if len(axes))


def flag(name: str, value: bool) -> str:
    """A boolean attribute, written only if it is true."""
    return f", {name} = true" if value else ""
