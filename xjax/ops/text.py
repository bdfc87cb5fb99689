"""Operations as StableHLO text, for `lower` rules that write several: slices, reshape, transpose, reduce, ..."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.types import ShapedArray
from xjax.typing import ArrayLike


def slice_text(b: Builder, x: Value, starts: Sequence[int], limits: Sequence[int],
               strides: Sequence[int] | None = None) -> Value:
    """The block of `x` from `starts` to `limits`, as StableHLO text."""
    strides = strides or [1] * len(starts)
    shape = tuple(max(0, -(-(hi - lo) // step)) for lo, hi, step in zip(starts, limits, strides, strict=True))
    out = ShapedArray(shape, x.aval.dtype)
    ranges = ", ".join(f"{lo}:{hi}:{step}" for lo, hi, step in zip(starts, limits, strides, strict=True))
    return b.op(f"stablehlo.slice {x} [{ranges}] : ({x.type}) -> {tensor_type(out)}", out)


def dynamic_slice_text(b: Builder, x: Value, starts: Sequence[Value], sizes: Sequence[int]) -> Value:
    """The block of `x` with these sizes at computed positions, as StableHLO text."""
    out = ShapedArray(tuple(sizes), x.aval.dtype)
    types = ", ".join([x.type, *(s.type for s in starts)])
    return b.op(f"stablehlo.dynamic_slice {x}, {', '.join(s.name for s in starts)}, sizes = {list(sizes)} : "
                f"({types}) -> {tensor_type(out)}", out)


def dynamic_update_slice_text(b: Builder, x: Value, update: Value, starts: Sequence[Value]) -> Value:
    """`x` with the block `update` at computed positions, as StableHLO text."""
    types = ", ".join(v.type for v in (x, update, *starts))
    return b.op(f"stablehlo.dynamic_update_slice {x}, {update}, {', '.join(s.name for s in starts)} : ({types}) -> "
                f"{x.type}", x.aval)


def equal_slices(b: Builder, x: Value, axis: int, most: int) -> list[tuple[int, Value]]:
    """At most `most` slices of equal length along an axis, with their starts; the last may overlap the one before."""
    n = x.aval.shape[axis]
    length = -(-n // most)
    starts, limits = [0] * x.aval.ndim, list(x.aval.shape)
    slices = []
    for start in range(0, n, length):
        starts[axis] = min(start, n - length)
        limits[axis] = starts[axis] + length
        slices.append((starts[axis], slice_text(b, x, starts, limits)))
    return slices


def reduced_slices(b: Builder, x: Value, axis: int, most: int, operation: str) -> Value:
    """The `equal_slices` reduced, element by element, by one operation; the axis then has the length of a slice.

    Elements in which slices overlap count twice, so use it for operations like maximum, or for slices of length 1.
    """
    pieces = [piece for _, piece in equal_slices(b, x, axis, most)]
    return functools.reduce(lambda total, piece: b.binary(operation, total, piece), pieces)


def reshape_text(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """`x` in another shape, as StableHLO text."""
    out = ShapedArray(tuple(shape), x.aval.dtype)
    return x if out.shape == x.aval.shape else b.op(f"stablehlo.reshape {x} : ({x.type}) -> {tensor_type(out)}", out)


def transpose_text(b: Builder, x: Value, order: Sequence[int]) -> Value:
    """`x` with its axes in another order, as StableHLO text."""
    if list(order) == sorted(order):
        return x
    out = ShapedArray(tuple(x.aval.shape[a] for a in order), x.aval.dtype)
    return b.op(f"stablehlo.transpose {x}, dims = {list(order)} : ({x.type}) -> {tensor_type(out)}", out)


def reduce_text(b: Builder, x: Value, operation: str, init: ArrayLike, axes: Sequence[int]) -> Value:
    """`x` reduced over `axes` by one operation of the accumulator and the element, as StableHLO text."""
    out = ShapedArray(tuple(n for i, n in enumerate(x.aval.shape) if i not in axes), x.aval.dtype)
    start = b.constant(init, ShapedArray((), x.aval.dtype))
    return b.op(f"stablehlo.reduce({x} init: {start}) applies {operation} across dimensions = {list(axes)} : "
                f"({x.type}, {start.type}) -> {tensor_type(out)}", out)


def dot_text(b: Builder, lhs: Value, rhs: Value, out: ShapedArray, contract: tuple[Sequence[int], Sequence[int]],
             batch: tuple[Sequence[int], Sequence[int]] = ((), ()), precision: str = "") -> Value:
    """The product over contracted axes, as StableHLO text; `precision`: its precision attributes, as text."""
    batching = f"batching_dims = {list(batch[0])} x {list(batch[1])}, " if batch[0] else ""
    return b.op(f"stablehlo.dot_general {lhs}, {rhs}, {batching}contracting_dims = {list(contract[0])} x "
                f"{list(contract[1])}{precision} : ({lhs.type}, {rhs.type}) -> {tensor_type(out)}", out)


def barrier_text(b: Builder, x: Value) -> Value:
    """`x` after XLA's own barrier, which keeps operations in order but on CPUs does not prevent fusion."""
    return b.op(f"stablehlo.optimization_barrier {x} : {x.type}", x.aval)


def concatenate_text(b: Builder, xs: Sequence[Value], out: ShapedArray, dimension: int) -> Value:
    """The operands joined along an axis, as StableHLO text."""
    types = ", ".join(x.type for x in xs)
    return b.op(f"stablehlo.concatenate {', '.join(x.name for x in xs)}, dim = {dimension} : ({types}) -> "
                f"{tensor_type(out)}", out)
