"""Preparation of the operands of products: conversion to one dtype, and reshaping to matrices where possible."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.hlo import Builder, Value
from xjax.core.promotion import promote_by_default
from xjax.core.types import ShapedArray
from xjax.ops.checks import kind_of
from xjax.ops.text import reshape_text

Axes = tuple[int, ...]


def free_axes(ndim: int, *groups: Axes) -> Axes:
    """The axes that are in none of the groups."""
    used = {a for group in groups for a in group}
    return tuple(a for a in range(ndim) if a not in used)


_KIND_ORDER = "bifc"


def operand_types(b: Builder, lhs: Value, rhs: Value, out: np.dtype) -> tuple[Value, Value, np.dtype]:
    """Operands of one dtype, and the dtype of the product before it is converted to `out`.

    XLA sums in the type of the result, which may be wider if it is of the operands' kind; other types are converted.
    """
    common = _common(lhs.aval.dtype, rhs.aval.dtype)
    dtype = out
    if kind_of(out) != kind_of(common):
        if _KIND_ORDER.index(kind_of(out)) > _KIND_ORDER.index(kind_of(common)):
            common = out
        dtype = common
    elif dtypes.itemsize_bits(out) < dtypes.itemsize_bits(common):
        dtype = common
    return b.convert(lhs, common), b.convert(rhs, common), dtype


def _common(lhs: np.dtype, rhs: np.dtype) -> np.dtype:
    """The dtype of both operands. Two different floats of 8 bits, as in training in 8 bits, have none: float32."""
    if lhs == rhs:
        return lhs
    narrow = [dtypes.is_float(x) and dtypes.itemsize_bits(x) <= 8 for x in (lhs, rhs)]
    return np.dtype(np.float32) if all(narrow) else promote_by_default(lhs, rhs)


class Product(NamedTuple):
    """A product of two operands of one dtype, with adjacent axes merged. `out` is the type of its result."""

    lhs: Value
    rhs: Value
    out: ShapedArray
    contract: tuple[Axes, Axes]
    batch: tuple[Axes, Axes]

    def result(self, b: Builder, product: Value, out: ShapedArray) -> Value:
        """The computed product, converted to the shape and dtype of the operation's result."""
        return b.convert(reshape_text(b, product, out.shape), out.dtype)


def as_matrices(b: Builder, out: ShapedArray, lhs: Value, rhs: Value,
                dimension_numbers: tuple[tuple[Axes, Axes], tuple[Axes, Axes]]) -> Product:
    """The operands with adjacent contracted axes merged into one, and adjacent free axes too.

    XLA's CPU products need matrices. It copies and transposes other operands, and computes operations that it fuses
    into those copies element by element (a transformer step takes 1.7 times as long).
    """
    lhs, rhs, dtype = operand_types(b, lhs, rhs, out.dtype)
    contract, batch = in_order(dimension_numbers[0]), dimension_numbers[1]
    operands: list[_Operand] = [(x, [c, s, free_axes(x.aval.ndim, c, s)])
                                for x, c, s in zip((lhs, rhs), contract, batch, strict=True)]
    if all(map(_are_adjacent, contract)):
        operands = [_merged(b, x, axes, 0) for x, axes in operands]
    (lhs, left), (rhs, right) = [_merged(b, x, axes, 2) if _are_adjacent(axes[2]) else (x, axes)
                                 for x, axes in operands]
    sizes = [x.aval.shape[a] for x, axes in ((lhs, left[1]), (lhs, left[2]), (rhs, right[2])) for a in axes]
    return Product(lhs, rhs, ShapedArray(tuple(sizes), dtype), (left[0], right[0]), (left[1], right[1]))


def in_order(contract: tuple[Axes, Axes]) -> tuple[Axes, Axes]:
    """The contracted axes, sorted by the axes of the left operand."""
    if len(contract[0]) < 2:
        return contract
    pairs = sorted(zip(*contract, strict=True))
    return tuple(a for a, _ in pairs), tuple(a for _, a in pairs)


# An operand, and its (contracted, batch, free) axes.
_Operand = tuple[Value, list[Axes]]


def _are_adjacent(axes: Axes) -> bool:
    return len(axes) > 1 and axes == tuple(range(axes[0], axes[0] + len(axes)))


def _merged(b: Builder, x: Value, groups: list[Axes], k: int) -> _Operand:
    """The operand with the adjacent axes of group `k` merged into a single axis."""
    first, count, shape = groups[k][0], len(groups[k]), x.aval.shape
    size = math.prod(shape[first:first + count])
    flat = reshape_text(b, x, (*shape[:first], size, *shape[first + count:]))
    moved = [tuple(a if a < first else a - count + 1 for a in axes) for axes in groups]
    moved[k] = (first,)
    return flat, moved
