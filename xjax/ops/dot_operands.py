"""The operands of products, made ready: of one dtype, and matrices where they can be."""

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


def free_axes(ndim: int, *taken: Axes) -> Axes:
    """The axes that are in none of the groups."""
    used = {a for group in taken for a in group}
    return tuple(a for a in range(ndim) if a not in used)


_KIND_ORDER = "bifc"


def operand_types(b: Builder, lhs: Value, rhs: Value, out: np.dtype) -> tuple[Value, Value, np.dtype]:
    """Operands of one dtype, and the dtype of the product before it is converted to `out`.

    XLA sums in the type of the result, which may be a wider one of the operands' kind; between kinds we convert.
    """
    same = lhs.aval.dtype == rhs.aval.dtype
    common = lhs.aval.dtype if same else promote_by_default(lhs.aval.dtype, rhs.aval.dtype)
    dtype = out
    if kind_of(out) != kind_of(common):
        if _KIND_ORDER.index(kind_of(out)) > _KIND_ORDER.index(kind_of(common)):
            common = out
        dtype = common
    elif dtypes.itemsize_bits(out) < dtypes.itemsize_bits(common):
        dtype = common
    return b.convert(lhs, common), b.convert(rhs, common), dtype


class Product(NamedTuple):
    """A product of two operands of one dtype, in which neighbouring axes are joined; `out`: what it gives."""

    lhs: Value
    rhs: Value
    out: ShapedArray
    contract: tuple[Axes, Axes]
    batch: tuple[Axes, Axes]

    def result(self, b: Builder, found: Value, out: ShapedArray) -> Value:
        """The product, once it is written, in the type of the operation."""
        return b.convert(reshape_text(b, found, out.shape), out.dtype)


def as_matrices(b: Builder, out: ShapedArray, lhs: Value, rhs: Value,
                dimension_numbers: tuple[tuple[Axes, Axes], tuple[Axes, Axes]]) -> Product:
    """The operands with neighbouring contracted axes as one, and neighbouring free axes.

    XLA's CPU products are made for matrices: it copies and transposes others, and what it fuses into those copies is
    computed element by element (a transformer step takes 1.7 times as long).
    """
    lhs, rhs, dtype = operand_types(b, lhs, rhs, out.dtype)
    contract, batch = in_order(dimension_numbers[0]), dimension_numbers[1]
    operands: list[_Operand] = [(x, [c, s, free_axes(x.aval.ndim, c, s)])
                                for x, c, s in zip((lhs, rhs), contract, batch, strict=True)]
    if all(map(_are_neighbours, contract)):
        operands = [_joined(b, x, axes, 0) for x, axes in operands]
    (lhs, left), (rhs, right) = [_joined(b, x, axes, 2) if _are_neighbours(axes[2]) else (x, axes)
                                 for x, axes in operands]
    sizes = [x.aval.shape[a] for x, axes in ((lhs, left[1]), (lhs, left[2]), (rhs, right[2])) for a in axes]
    return Product(lhs, rhs, ShapedArray(tuple(sizes), dtype), (left[0], right[0]), (left[1], right[1]))


def in_order(contract: tuple[Axes, Axes]) -> tuple[Axes, Axes]:
    """The contracted axes in the order that those of the left operand have."""
    if len(contract[0]) < 2:
        return contract
    pairs = sorted(zip(*contract, strict=True))
    return tuple(a for a, _ in pairs), tuple(a for _, a in pairs)


# An operand, and its contracted, batch and free axes.
_Operand = tuple[Value, list[Axes]]


def _are_neighbours(axes: Axes) -> bool:
    return len(axes) > 1 and axes == tuple(range(axes[0], axes[0] + len(axes)))


def _joined(b: Builder, x: Value, groups: list[Axes], which: int) -> _Operand:
    """The operand with the neighbouring axes of one group as a single axis."""
    first, count, shape = groups[which][0], len(groups[which]), x.aval.shape
    size = math.prod(shape[first:first + count])
    flat = reshape_text(b, x, (*shape[:first], size, *shape[first + count:]))
    moved = [tuple(a if a < first else a - count + 1 for a in axes) for axes in groups]
    moved[which] = (first,)
    return flat, moved
