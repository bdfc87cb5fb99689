"""Operations on images of any rank, under SciPy's names: the public namespace `xjax.scipy.ndimage`."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.types import typeof
from xjax.runtime.jit import library_jit
from xjax.typing import Array, ArrayLike


def _folded(index: Array, period: int, last: int) -> Array:
    """Index into an axis that is continued by its mirror image, periodically: the smaller of j and ``last - j``."""
    index = index % period if period else jnp.zeros_like(index)
    return jnp.minimum(index, last - index)


# For each mode, the index of the element whose value is used at index i of an axis with n elements.
_MODES: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda i, n: i,                                         # `cval` is used outside
    "nearest": lambda i, n: jnp.clip(i, 0, n - 1),
    "wrap": lambda i, n: i % n,
    "mirror": lambda i, n: _folded(i, 2 * (n - 1), 2 * (n - 1)),
    "reflect": lambda i, n: _folded(i, 2 * n, 2 * n - 1),
}


class _Node(NamedTuple):
    """A position of the grid along one axis from which a point is interpolated."""

    index: Any
    inside: Any                     # bool, or None if every index is inside
    weight: Any


def _nodes(x: Array, size: int, order: int, mode: str) -> list[_Node]:
    if order == 0:
        pairs = [(_rounded(x).astype(dtypes.int32), None)]
    else:
        below = jnp.floor(x)
        index, rest = below.astype(dtypes.int32), x - below
        pairs = [(index, 1 - rest), (index + 1, rest)]
    return [_Node(_MODES[mode](i, size), (i >= 0) & (i < size) if mode == "constant" else None, weight)
            for i, weight in pairs]


def _rounded(x: Array) -> Array:
    return x if dtypes.is_int(x.dtype) else lax.round(x)


def map_coordinates(input: ArrayLike, coordinates: Sequence[ArrayLike], order: int, mode: str = "constant",
                    cval: ArrayLike = 0.0) -> Array:
    """Values of an array between its elements.

    Args:
      input: number[n0, n1, ...]. coordinates: for each of its axes real[...]; they broadcast.
      order: 0: the nearest element; 1: linear interpolation along each axis.
      mode: how values outside the array are defined: "constant": `cval`, with interpolation between it and the edge
        (SciPy's "grid-constant"); "nearest": the element at the edge; "mirror": the array is reflected about the middle
        of that element; "reflect": about its outer edge; "wrap": the array repeats (SciPy's "grid-wrap").
    Returns: an array of the dtype of input; for integers, values are rounded.
    Raises: ValueError for another number of coordinates; NotImplementedError for other orders and modes.

    >>> map_coordinates(np.float32([0, 10, 20]), [np.float32([0.5, 1.25])], order=1)
    Array([ 5. , 12.5], dtype=float32)
    """
    caller = "scipy.ndimage.map_coordinates"
    if mode not in _MODES:
        raise bad(caller, f"unknown mode {mode!r}", given={"modes": ", ".join(_MODES)}, fix="pass one of them.",
                  exc=NotImplementedError)
    if order not in (0, 1):
        raise bad(caller, f"`order` is {order!r}", fix="pass 0 or 1.", exc=NotImplementedError)
    x, coordinates = jnp.asarray(input), [jnp.asarray(c) for c in coordinates]
    if len(coordinates) != x.ndim or not x.ndim:
        raise bad(caller, f"{len(coordinates)} coordinates for {x.ndim} axes", given={"input": typeof(x)},
                  fix="pass an array of coordinates for each axis of input.", exc=ValueError)
    return _mapped(x, coordinates, jnp.asarray(cval).astype(x.dtype), int(order), mode)


@functools.partial(library_jit, static_argnums=(3, 4))
def _mapped(x: Array, coordinates: list[Array], cval: Array, order: int, mode: str) -> Array:
    axes = [_nodes(c, n, order, mode) for c, n in zip(coordinates, x.shape, strict=True)]
    total = None
    for corner in itertools.product(*axes):
        value = x[tuple(node.index for node in corner)]
        if mode == "constant":
            value = jnp.where(functools.reduce(jnp.logical_and, [node.inside for node in corner]), value, cval)
        if order:
            value = math.prod(node.weight for node in corner) * value
        total = value if total is None else total + value
    assert total is not None                                # there is a corner, even without axes
    return (_rounded(total) if dtypes.is_int(x.dtype) else total).astype(x.dtype)


__all__ = ["map_coordinates"]

__getattr__ = attributes_of(__name__)
