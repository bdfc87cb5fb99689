"""`scatter_mul`: products at computed positions, with the derivative for several updates of one element."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xjax.core.types import ShapedArray, Zero, is_linear, typeof
from xjax.ops.arrange import concatenate, iota
from xjax.ops.bitwise import bitwise_or
from xjax.ops.compare import eq, ne, select_n
from xjax.ops.convert import convert_element_type
from xjax.ops.cumulative import combine_along
from xjax.ops.elementwise import add, mul
from xjax.ops.gather import read_windows, scatter_add, scatter_function, scatter_primitive, take_along
from xjax.ops.index_numbers import GatherScatterMode, ScatterDimensionNumbers
from xjax.ops.makers import accumulate
from xjax.ops.shape import broadcast_in_dim, reshape
from xjax.ops.slice import slice_in_dim
from xjax.ops.sort import sort
from xjax.ops.zeros import full_of, zeros_of
from xjax.typing import Array, ArrayLike

_POSITION = np.dtype(np.uint32)


def _scatter_mul_jvp(primals, tangents, *, dimension_numbers, **params):
    x, indices, updates = primals
    dx, _, du = tangents
    out = scatter_mul_p.bind(*primals, dimension_numbers=dimension_numbers, **params)
    tangent: Any = Zero(out.aval.tangent())
    if type(dx) is not Zero:
        tangent = scatter_mul_p.bind(dx, indices, updates, dimension_numbers=dimension_numbers, **params)
    if type(du) is not Zero:
        if params["unique_indices"]:
            flags = {k: params[k] for k in ("indices_are_sorted", "unique_indices", "mode")}
            old = read_windows(x, indices, typeof(updates), dimension_numbers, mode=params["mode"], fill_value=0)
            into = zeros_of(out.aval) if type(tangent) is Zero else tangent
            tangent = scatter_add(into, indices, mul(old, du), dimension_numbers, **flags)
        else:
            moved = _product_tangent(typeof(x), indices, updates, du, dimension_numbers, params["mode"])
            tangent = accumulate(tangent, mul(x, moved))
    return out, tangent


def _scatter_mul_transpose(ct, x, indices, updates, *, dimension_numbers, **params):
    return [scatter_mul_p.bind(ct, indices, updates, dimension_numbers=dimension_numbers, **params)
            if is_linear(x) else None, None, None]


def _product_tangent(x: ShapedArray, indices: ArrayLike, updates: ArrayLike, d_updates: Array,
                     n: ScatterDimensionNumbers, mode: GatherScatterMode) -> Array | np.ndarray:
    """Tangent of the product of the updates that hit each element of `x`; 0 for elements without updates.

    The updates are sorted by the element that they hit, and multiplied in a tree, in which a new product starts at each
    element. There is no division by updates, so derivatives of every order are right where updates are 0.
    """
    size = math.prod(x.shape)
    if not size or not typeof(updates).size:
        return zeros_of(x)
    where = _positions_hit(x, indices, typeof(updates), n, mode)
    count = typeof(where).size
    where, order = sort((where, iota(_POSITION, count)))
    product, tangent = (take_along(reshape(v, (count,)), _as_vectors(order), 0) for v in (updates, d_updates))
    dropped = eq(where, zeros_of(typeof(where)))            # not multiplied with each other: 0 times inf is NaN
    product = select_n(dropped, product, full_of(typeof(product), 1))
    tangent = select_n(dropped, tangent, zeros_of(typeof(tangent)))
    differs = ne(slice_in_dim(where, 0, count - 1), slice_in_dim(where, 1, count))
    true = full_of(ShapedArray((1,), np.dtype(bool)), True)
    starts, is_last = concatenate([true, differs], 0), concatenate([differs, true], 0)
    _, _, tangent = combine_along(_products_of_runs, (convert_element_type(starts, _POSITION), product, tangent), 0)
    tangent = select_n(is_last, zeros_of(typeof(tangent)), tangent)
    flat = ShapedArray((size + 1,), x.dtype)
    totals = scatter_add(zeros_of(flat), _as_vectors(where), tangent, ScatterDimensionNumbers((), (0,), (0,)),
                         mode=GatherScatterMode.PROMISE_IN_BOUNDS)
    return reshape(slice_in_dim(totals, 1, size + 1), x.shape)


def _positions_hit(x: ShapedArray, indices: ArrayLike, updates: ShapedArray, n: ScatterDimensionNumbers,
                   mode: GatherScatterMode) -> Array:
    """For each element of the updates, in order: 1 + the position in `x` that it hits, or 0 if it is dropped."""
    size = math.prod(x.shape)
    numbered = reshape(add(iota(_POSITION, size), full_of(ShapedArray((size,), _POSITION), 1)), x.shape)
    return reshape(read_windows(numbered, indices, updates, n, mode=mode, fill_value=0), (math.prod(updates.shape),))


def _as_vectors(positions: Array) -> Array:
    return broadcast_in_dim(positions, (*typeof(positions).shape, 1), (0,))


def _products_of_runs(one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
    """(Whether a run starts within, product of the last run, its tangent) of two adjacent pieces.

    Where a run starts, the factors before it are replaced by 1 before the multiplication: 0 times an infinite product
    of another run would be NaN.
    """
    (starts, x, dx), (other_starts, y, dy) = one, other
    continues = eq(other_starts, zeros_of(typeof(other_starts)))
    x = select_n(continues, full_of(typeof(x), 1), x)
    dx = select_n(continues, zeros_of(typeof(dx)), dx)
    return bitwise_or(starts, other_starts), mul(x, y), add(mul(dx, y), mul(x, dy))


scatter_mul_p = scatter_primitive("scatter-mul", "stablehlo.multiply", _scatter_mul_jvp, _scatter_mul_transpose,
                                  lambda: scatter_mul_p)
scatter_mul = scatter_function(scatter_mul_p, mul, "Multiply `operand` by `updates` at computed positions.")
