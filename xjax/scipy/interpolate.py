"""Interpolation, under SciPy's names: the public namespace `xjax.scipy.interpolate`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.trace import Tracer
from xjax.core.tree_nodes import register_pytree_node_class
from xjax.core.types import typeof
from xjax.numpy.promote import array_like, promote_inexact
from xjax.runtime.jit import library_jit
from xjax.typing import Array, ArrayLike

_NAME = "scipy.interpolate.RegularGridInterpolator"


@register_pytree_node_class
class RegularGridInterpolator:
    """A function interpolated from values on a rectangular grid; a pytree of the grid, the values and the fill value.

    Args:
      points: for each axis of the grid its increasing coordinates, real[n], n > 1.
      values: number[n0, n1, ..., *channels]; integers become floats.
      method: "linear" or "nearest". bounds_error: only False. fill_value: result outside the grid; None: extrapolate.
    Raises: ValueError for shapes that do not fit, coordinates that do not increase (unless traced), unknown methods.

    >>> f = RegularGridInterpolator([np.array([0.0, 1.0]), np.array([0.0, 2.0])], np.array([[0.0, 1.0], [2.0, 3.0]]))
    >>> f(np.array([[0.5, 1.0], [3.0, 0.0]]))
    Array([1.5, nan], dtype=float32)
    """

    def __init__(self, points: Sequence[Any], values: ArrayLike, method: str = "linear", bounds_error: bool = False,
                 fill_value: ArrayLike | None = np.nan) -> None:
        if bounds_error:
            raise bad(_NAME, "a compiled function cannot raise an error for points outside",
                      fix="use fill_value, and test the result for it.", exc=NotImplementedError)
        self.method, self.bounds_error = _known(method), False
        self.values = jnp.asarray(promote_inexact(_NAME, array_like(_NAME, values))[0])
        self.grid = tuple(jnp.asarray(array_like(_NAME, p)) for p in points)
        self.fill_value = None if fill_value is None else jnp.asarray(array_like(_NAME, fill_value))
        _check(self.grid, self.values, self.fill_value)

    def tree_flatten(self) -> tuple[tuple, tuple]:
        return (self.grid, self.values, self.fill_value), (self.method, self.bounds_error)

    @classmethod
    def tree_unflatten(cls, aux: tuple, children: Sequence[Any]) -> RegularGridInterpolator:
        new = object.__new__(cls)
        new.method, new.bounds_error = aux
        new.grid, new.values, new.fill_value = children
        return new

    def __call__(self, xi: ArrayLike | Sequence[ArrayLike], method: str | None = None) -> Array:
        """Values at points.

        Args: xi: real[..., number of axes], or a tuple of an array for each axis; method: None for that of the object.
        Returns: number[..., *channels].
        """
        method = self.method if method is None else _known(method)
        points = _points(xi, len(self.grid))
        return _interpolated(self, points) if method == "linear" else _nearest(self, points)


def _known(method: str) -> str:
    if method not in ("linear", "nearest"):
        raise bad(_NAME, f"unknown method {method!r}", fix="pass 'linear' or 'nearest'.", exc=ValueError)
    return method


def _check(grid: tuple[Any, ...], values: Array, fill: Array | None) -> None:
    if len(grid) > values.ndim or any(g.shape != (n,) or n < 2 for g, n in zip(grid, values.shape, strict=False)):
        raise bad(_NAME, "the coordinates do not fit the values",
                  given={"points": ", ".join(str(g.shape) for g in grid), "values": typeof(values)},
                  fix="pass one coordinate for each value along each axis of the grid, two or more.",
                  exc=ValueError)
    if any(not isinstance(g, Tracer) and not (np.diff(np.asarray(g)) > 0).all() for g in grid):
        raise bad(_NAME, "coordinates must increase", fix="sort them, and the values along their axis; or flip both.",
                  exc=ValueError)
    if fill is not None and not np.can_cast(fill.dtype, values.dtype, "same_kind"):
        raise bad(_NAME, "`fill_value` cannot be converted to the dtype of the values",
                  given={"fill_value": typeof(fill), "values": typeof(values)}, fix="pass a number of their dtype.",
                  exc=ValueError)


def _points(xi: ArrayLike | Sequence[ArrayLike], axes: int) -> Array:
    """Points [..., axes] from an array or a tuple of arrays."""
    if isinstance(xi, tuple):
        xi = xi[0] if len(xi) == 1 else jnp.stack(jnp.broadcast_arrays(*xi), -1)
    x, = promote_inexact(_NAME, jnp.asarray(array_like(_NAME, xi)))
    if x.ndim == 1:
        x = jnp.reshape(x, (-1, axes))
    if not x.ndim or x.shape[-1] != axes:
        raise bad(_NAME, f"points need {axes} coordinates", given={"xi": typeof(x)},
                  fix=f"pass an array of shape [..., {axes}], or a tuple of arrays.", exc=ValueError)
    return x


def _located(f: RegularGridInterpolator, points: Array) -> tuple[list[Any], list[Any], Any]:
    """For each axis the lower index of the cell and the position in it, from 0 to 1; whether a point is outside."""
    indices, places, outside = [], [], False
    for d, g in enumerate(f.grid):
        x = points[..., d]
        i = jnp.clip(jnp.searchsorted(g, x) - 1, 0, g.size - 2)
        indices.append(i)
        places.append((x - g[i]) / (g[i + 1] - g[i]))
        outside = outside | (x < g[0]) | (x > g[-1])
    return indices, places, outside


@library_jit
def _interpolated(f: RegularGridInterpolator, points: Array) -> Array:
    indices, places, outside = _located(f, points)
    channels = tuple(range(points.ndim - 1, points.ndim - 1 + f.values.ndim - len(f.grid)))
    values = 0
    for corner in itertools.product((0, 1), repeat=len(indices)):
        value = f.values[tuple(i + up for i, up in zip(indices, corner, strict=True))]
        weight = math.prod(y if up else 1 - y for y, up in zip(places, corner, strict=True))
        values = values + value * jnp.expand_dims(weight, channels)
    return _filled(f, values, outside, channels)


@library_jit
def _nearest(f: RegularGridInterpolator, points: Array) -> Array:
    indices, places, outside = _located(f, points)
    channels = tuple(range(points.ndim - 1, points.ndim - 1 + f.values.ndim - len(f.grid)))
    values = f.values[tuple(jnp.where(y <= 0.5, i, i + 1) for i, y in zip(indices, places, strict=True))]
    return _filled(f, values, outside, channels)


def _filled(f: RegularGridInterpolator, values: Array, outside: Array, channels: tuple[int, ...]) -> Array:
    return values if f.fill_value is None else jnp.where(jnp.expand_dims(outside, channels), f.fill_value, values)


__all__ = ["RegularGridInterpolator"]

__getattr__ = attributes_of(__name__)
