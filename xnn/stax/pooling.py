"""Layers that reduce each window of an image: MaxPool, SumPool, AvgPool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.typing import Array
from xnn.layer import Layer
from xnn.stax.shapes import check_image_shape, shape_of_result


def MaxPool(window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: str = "VALID",
            spec: str | None = None) -> Layer:
    """The maximum of each window.

    Args:
      window_shape: sizes of the window along the spatial axes.
      strides: step of the window along each spatial axis; None: 1.
      padding: "VALID": only windows inside the image; "SAME": ``ceil(size / stride)`` windows along an axis.
      spec: the order of the axes, such as "NCHW"; None: batch first, channels last.
    """
    return _pooling("MaxPool", _Windows.largest, window_shape, strides, padding, spec)


def SumPool(window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: str = "VALID",
            spec: str | None = None) -> Layer:
    """The sum of each window.  Args: as `MaxPool`."""
    return _pooling("SumPool", _Windows.total, window_shape, strides, padding, spec)


def AvgPool(window_shape: Sequence[int], strides: Sequence[int] | None = None, padding: str = "VALID",
            spec: str | None = None) -> Layer:
    """The mean of each window, without padding.  Args: as `MaxPool`.

    >>> AvgPool((1, 2), padding="SAME").apply((), jnp.arange(3.0).reshape(1, 1, 3, 1)).ravel()
    Array([0.5, 1.5, 2. ], dtype=float32)
    """
    return _pooling("AvgPool", _Windows.mean, window_shape, strides, padding, spec)


class _Windows(NamedTuple):
    """The windows of an image as arguments of `lax.reduce_window`, with size 1 along batch and channels."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    padding: Any
    batch: int
    channel: int

    def largest(self, x: Array) -> Array:
        return lax.reduce_window(x, -np.inf, lax.max, self.sizes, self.strides, self.padding)

    def total(self, x: Array) -> Array:
        return lax.reduce_window(x, 0.0, lax.add, self.sizes, self.strides, self.padding)

    def mean(self, x: Array) -> Array:
        image = [1 if axis in (self.batch, self.channel) else n for axis, n in enumerate(x.shape)]
        return self.total(x) / self.total(jnp.ones(image, x.dtype))


def _pooling(name: str, reduce: Callable[[_Windows, Any], Any], window_shape: Sequence[int],
             strides: Sequence[int] | None, padding: str, spec: str | None) -> Layer:
    n = len(window_shape)
    batch, channel = (spec.index("N"), spec.index("C")) if spec else (0, n + 1)

    def with_others(values: Sequence[int]) -> tuple[int, ...]:
        spatial = iter(values)
        return tuple(1 if axis in (batch, channel) else next(spatial) for axis in range(n + 2))

    windows = _Windows(with_others(window_shape), with_others(strides or (1,) * n), padding, batch, channel)

    def init(rng, in_shape):
        check_image_shape(name, in_shape, n + 2, batch)
        return shape_of_result(lambda x: reduce(windows, x), in_shape, float, (batch, batch)), ()

    def apply(params, x, **kwargs):
        return reduce(windows, jnp.asarray(x))

    return Layer(init, apply, name)
