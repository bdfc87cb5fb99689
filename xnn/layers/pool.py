"""Pooling of [batch, ..., features]: reductions over windows, bins or all positions, for each feature separately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.errors import bad
from xjax.typing import Array
from xnn.checks import as_row_mask, check_float
from xnn.covariance.fixed import linear_rule, on_positions, row_masks, scaled_positions
from xnn.covariance.kernel import NONE, Pair
from xnn.layer import Layer, recorded
from xnn.layers.windows import Padding, Sizes, Window, check_spatial_shape, make_window, sizes_of
from xnn.precision import at_least_float32

# -- windows ------------------------------------------------------------------------------------------------------


@recorded()
def MaxPool(window: Sizes, *, strides: Sizes | None = None, padding: Padding = "VALID", dilation: Sizes = 1) -> Layer:
    """The maximum of each window.  Shape: [..., *spatial, features] -> [..., *out, features].

    Args:
      window: sizes for the 1 to 3 spatial axes; an int means one axis.
      strides: step of the window along each axis; None: the window size, PyTorch's default.
      padding: "VALID": no padding; "SAME": ``ceil(size / stride)`` windows; a number; or a number or pair (before,
        after) for each axis, less than the window. Padding is never the maximum.
      dilation: distance between adjacent positions in the window.
    Params: ``()``.
    Raises: ValueError if the window is larger than the padded input.
    """
    shape = _window("MaxPool", window, strides, padding, dilation)
    return _pool(shape, lambda x: _reduced(shape, x, -np.inf, lax.max))


@recorded()
def SumPool(window: Sizes, *, strides: Sizes | None = None, padding: Padding = "VALID") -> Layer:
    """The sum of each window.  Shape, Args, Params: as `MaxPool`; padding is zeros."""
    shape = _window("SumPool", window, strides, padding)
    return _pool(shape, lambda x: _total(shape, x).astype(x.dtype), linear=True)


@recorded()
def AvgPool(window: Sizes, *, strides: Sizes | None = None, padding: Padding = "VALID",
            count_include_pad: bool = True) -> Layer:
    """The mean of each window.  Shape, Args, Params: as `MaxPool`.

    Args: count_include_pad: whether padding counts as zeros, as by default in PyTorch and Flax. With False only values
      of the input count, as in Keras and stax.
    """
    shape = _window("AvgPool", window, strides, padding)

    def mean(x):
        if count_include_pad:
            return (_total(shape, x) / int(np.prod(shape.sizes))).astype(x.dtype)
        ones = jnp.ones((*shape.spatial(x.shape), 1), x.dtype)
        total = _total(shape, x)
        return (total / jnp.broadcast_to(_total(shape, ones), total.shape)).astype(x.dtype)

    return _pool(shape, mean, linear=True)


def _window(name: str, window: Sizes, strides: Sizes | None, padding: Padding, dilation: Sizes = 1) -> Window:
    shape = make_window(name, window, window if strides is None else strides, padding, dilation)
    if not isinstance(shape.padding, str) and any(
            max(pad) >= extent for pad, extent in zip(shape.padding, shape.extents, strict=True)):
        raise bad(name, "a window could contain padding only", {"window": shape.extents, "padding": shape.padding},
                  "choose a padding smaller than the window.", ValueError)
    return shape


def _total(window: Window, x: Array) -> Array:
    """Sums in float32 or wider: a sum in bfloat16 stays at 256 when ones are added to it."""
    return _reduced(window, x.astype(at_least_float32(x.dtype)), 0.0, lax.add)


def _reduced(window: Window, x: Array, start: float, combine: Callable) -> Array:
    def of_all_axes(spatial, other):
        return (*[other] * (x.ndim - window.n_axes - 1), *spatial, other)

    return lax.reduce_window(x, start, combine, of_all_axes(window.sizes, 1), of_all_axes(window.strides, 1),
                             of_all_axes(window.pads(window.spatial(x.shape)), (0, 0)),
                             window_dilation=of_all_axes(window.dilation, 1))


def _pool(window: Window, reduce: Callable, linear: bool = False) -> Layer:
    n = window.n_axes

    def init(rng, in_shape):
        in_shape = window.check_shape(in_shape)
        return (*in_shape[:-n - 1], *window.out_sizes(window.spatial(in_shape)), in_shape[-1]), ()

    def apply(params, x, *, rng=None, train=False):
        x = check_float(window.caller, x, n + 1)
        window.out_sizes(window.spatial(x.shape))
        return reduce(x)

    return Layer(init, apply, window.caller, kernel_rule=linear_rule(apply) if linear else None)



# -- bins ---------------------------------------------------------------------------------------------------------


@recorded()
def AdaptiveAvgPool(out_sizes: int | Sequence[int | None]) -> Layer:
    """The mean of each of `out_sizes` bins along the spatial axes.  Shape: [..., *spatial, f] -> [..., *out_sizes, f].

    For an axis of n positions and m bins, bin i has the positions from ``floor(i n / m)`` up to, but not including,
    ``ceil((i + 1) n / m)``, as in PyTorch. If m does not divide n, adjacent bins overlap.

    Args: out_sizes: numbers of bins for the 1 to 3 spatial axes, None to keep a size; an int means one axis.
    Params: ``()``.
    """
    return _adaptive_pool("AdaptiveAvgPool", out_sizes, _mean_of_bins, linear=True)


@recorded()
def AdaptiveMaxPool(out_sizes: int | Sequence[int | None]) -> Layer:
    """The maximum of each bin.  Shape, Args, Params: as `AdaptiveAvgPool`."""
    return _adaptive_pool("AdaptiveMaxPool", out_sizes, _largest_of_bins)


def _mean_of_bins(binned: Array, inside: Array, axis: int) -> Array:
    counts = jnp.sum(inside.astype(binned.dtype), axis)
    return jnp.sum(jnp.where(inside, binned, 0), axis) / counts


def _largest_of_bins(binned: Array, inside: Array, axis: int) -> Array:
    return jnp.max(jnp.where(inside, binned, -np.inf), axis)


def _adaptive_pool(name: str, out_sizes: Any, reduce: Callable, linear: bool = False) -> Layer:
    bin_counts = tuple(out_sizes) if isinstance(out_sizes, tuple | list) else (out_sizes,)
    sizes_of(name, "out_sizes", tuple(1 if size is None else size for size in bin_counts))
    n = len(bin_counts)

    def init(rng, in_shape):
        in_shape = check_spatial_shape(name, in_shape, n)
        spatial = in_shape[-n - 1:-1]
        return (*in_shape[:-n - 1], *(old if m is None else m for old, m in zip(spatial, bin_counts, strict=True)),
                in_shape[-1]), ()

    def apply(params, x, *, rng=None, train=False):
        x = check_float(name, x, n + 1)
        for axis, bins in enumerate(bin_counts, x.ndim - n - 1):
            if bins is not None:
                index, inside = _bins(x.shape[axis], bins)
                binned = jnp.take(x, index, axis)
                mask = jnp.broadcast_to(jnp.expand_dims(inside, [*range(axis), *range(axis + 2, binned.ndim)]),
                                        binned.shape)
                x = reduce(binned, mask, axis + 1)
        return x

    return Layer(init, apply, name, kernel_rule=linear_rule(apply) if linear else None)


def _bins(n: int, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """(Positions of each bin [bins, size of the largest bin], whether each of them is in the bin)."""
    i = np.arange(bins)
    start, end = i * n // bins, -((i + 1) * -n // bins)
    index = start[:, None] + np.arange(np.max(end - start))
    return np.minimum(index, n - 1).astype(np.int32), index < end[:, None]


# -- all positions ------------------------------------------------------------------------------------------------


@recorded()
def GlobalAvgPool(*, keepdims: bool = False) -> Layer:
    """The mean over all positions.  Shape: [batch, *spatial, features] -> [batch, features].

    Args: keepdims: True keeps the spatial axes, with size 1.
    Inputs: row_mask: bool [batch, *spatial], or of the first of these axes: False for padding, which does not count, as
      in `BatchNorm`. The result of an example that is all padding is 0. None: all positions count.
    Params: ``()``.  Raises: TypeError from apply for a mask of another shape or dtype.
    """
    return _global_pool("GlobalAvgPool", keepdims, _mean, linear=True)


@recorded()
def GlobalMaxPool(*, keepdims: bool = False) -> Layer:
    """The maximum over all positions.  Shape, Args, Inputs, Params: as `GlobalAvgPool`."""
    return _global_pool("GlobalMaxPool", keepdims, _maximum)


@recorded()
def GlobalSumPool(*, keepdims: bool = False) -> Layer:
    """The sum over all positions.  Shape, Args, Inputs, Params: as `GlobalAvgPool`."""
    return _global_pool("GlobalSumPool", keepdims, _sum, linear=True)


def _sum(x: Array, mask: Array | None, axes: tuple[int, ...], keepdims: bool) -> Array:
    return jnp.sum(x if mask is None else jnp.where(mask, x, 0), axes, keepdims=keepdims)


def _mean(x: Array, mask: Array | None, axes: tuple[int, ...], keepdims: bool) -> Array:
    if mask is None:
        return jnp.mean(x, axes, keepdims=keepdims)
    wide = x.astype(at_least_float32(x.dtype))                     # sums of half precision overflow
    counts = jnp.sum(mask, axes, dtype=wide.dtype, keepdims=keepdims)
    return (_sum(wide, mask, axes, keepdims) / jnp.maximum(counts, 1)).astype(x.dtype)


def _maximum(x: Array, mask: Array | None, axes: tuple[int, ...], keepdims: bool) -> Array:
    if mask is None:
        return jnp.max(x, axes, keepdims=keepdims)
    largest = jnp.max(jnp.where(mask, x, -np.inf), axes, keepdims=keepdims)
    return jnp.where(jnp.any(mask, axes, keepdims=keepdims), largest, 0)


def _global_pool(name: str, keepdims: bool, reduce: Callable[..., Array], linear: bool = False) -> Layer:
    def init(rng, in_shape):
        in_shape = check_spatial_shape(name, in_shape, 2)
        return (in_shape[0], *(1,) * (len(in_shape) - 2) * keepdims, in_shape[-1]), ()

    def apply(params, x, row_mask=None, *, rng=None, train=False):
        x = check_float(name, x, 3)
        mask = None if row_mask is None else as_row_mask(name, x, row_mask)[..., None]
        return reduce(x, mask, tuple(range(1, x.ndim - 1)), keepdims)

    def kernel_rule(kernel, row_mask=NONE):
        if row_mask.of1 is None:
            return on_positions(kernel, lambda x: apply((), x))
        masks = row_masks(name, kernel, row_mask)
        if reduce is _mean:
            counts = (jnp.sum(mask, range(1, mask.ndim), keepdims=True) for mask in masks)
            masks = Pair(*(mask / jnp.maximum(n, 1) for mask, n in zip(masks, counts, strict=True)))
        kernel = scaled_positions(kernel, masks)
        return on_positions(kernel, lambda x: _sum(x, None, tuple(range(1, x.ndim - 1)), keepdims))

    return Layer(init, apply, name, kernel_rule=kernel_rule if linear else None)
