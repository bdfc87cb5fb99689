"""Layers with weights and a bias: Dense, convolutions, transposed convolutions. Their parameters are ``(W, b)``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import xjax.numpy as jnp
from xjax import lax
from xjax.nn.initializers import glorot_normal, normal
from xjax.typing import Array
from xnn import layers
from xnn.layer import Layer
from xnn.rng import split
from xnn.stax.shapes import check_image_shape, shape_of_result

Padding = str | Sequence[tuple[int, int]]
Layouts = Sequence[str]


def Dense(out_dim: int, W_init: Callable | None = None, b_init: Callable | None = None) -> Layer:
    """Affine map of the last axis: ``y = x W + b``.  Shape: [..., n_in] -> [..., out_dim].

    Args: W_init, b_init: initializers ``(key, shape) -> array``; None: glorot normal, and normal with deviation 0.01.
    """
    affine = layers.Dense(out_dim, w_init=W_init or glorot_normal(), b_init=b_init or normal())

    def init(rng, in_shape):
        out_shape, params = affine.init(rng, in_shape)
        return out_shape, (params["w"], params["b"])

    def apply(params, x, **kwargs):
        W, b = params
        if jnp.result_type(x).kind in "iub":
            x = jnp.asarray(x, W.dtype)                        # stax also takes bools and integers
        return affine.apply({"w": W, "b": b}, x)

    return Layer(init, apply, "Dense")


def GeneralConv(dimension_numbers: Layouts, out_chan: int, filter_shape: Sequence[int],
                strides: Sequence[int] | None = None, padding: Padding = "VALID", W_init: Callable | None = None,
                b_init: Callable | None = None) -> Layer:
    """Convolution plus a bias for each channel.

    Args:
      dimension_numbers: the order of the axes of input, weights and output: ``("NHWC", "HWIO", "NHWC")`` for images
        with channels last, as in `Conv`.
      out_chan: number of output channels.
      filter_shape: sizes of the window, in their order in the weights.
      strides: step of the window along each of its axes; None: 1.
      padding: "VALID", "SAME", or (before, after) for each axis of the window.
      W_init, b_init: initializers ``(key, shape) -> array``; None: glorot normal, and normal with deviation 1e-6.
    """
    return _convolution("Conv", lax.conv_general_dilated, dimension_numbers, out_chan, filter_shape, strides, padding,
                        W_init, b_init)


def GeneralConvTranspose(dimension_numbers: Layouts, out_chan: int, filter_shape: Sequence[int],
                         strides: Sequence[int] | None = None, padding: Padding = "VALID",
                         W_init: Callable | None = None, b_init: Callable | None = None) -> Layer:
    """Transposed convolution plus a bias for each channel; it enlarges the image by `strides`.

    Args: as in `GeneralConv`; padding given as numbers applies to the enlarged image.
    """
    return _convolution("ConvTranspose", lax.conv_transpose, dimension_numbers, out_chan, filter_shape, strides,
                        padding, W_init, b_init)


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))


def _convolution(name: str, convolve: Callable, layouts: Layouts, out_chan: int, filter_shape: Sequence[int],
                 strides: Sequence[int] | None, padding: Padding, W_init: Callable | None,
                 b_init: Callable | None) -> Layer:
    x_layout, W_layout, y_layout = layouts
    batch_axes = x_layout.index("N"), y_layout.index("N")
    strides = strides or (1,) * len(filter_shape)
    W_init = W_init or glorot_normal(W_layout.index("I"), W_layout.index("O"))
    b_init = b_init or normal(1e-6)

    def linear(x: Array, W: Array) -> Array:
        return convolve(x, W, strides, padding, dimension_numbers=layouts)

    def init(rng, in_shape):
        check_image_shape(name, in_shape, len(x_layout), batch_axes[0])
        channels = {"I": in_shape[x_layout.index("C")], "O": out_chan}
        window = iter(filter_shape)
        W_shape = tuple(channels[axis] if axis in channels else next(window) for axis in W_layout)
        W_rng, b_rng = split(rng, 2)
        W = W_init(W_rng, W_shape)
        b = b_init(b_rng, tuple(out_chan if axis == "C" else 1 for axis in y_layout))
        return shape_of_result(lambda x: linear(x, W), in_shape, W.dtype, batch_axes), (W, b)

    def apply(params, x, **kwargs):
        W, b = params
        return linear(x, W) + b

    return Layer(init, apply, name)
