"""Convolutions over 1 to 3 spatial axes of [batch, ..., features], with any number of batch axes.

The length of `window` is the number of spatial axes; an int means one axis. As in all neural network libraries, the
weights are not flipped, so the result is a correlation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import xjax
import xjax.numpy as jnp
from xjax import lax, random
from xjax.errors import bad
from xjax.nn import initializers
from xjax.typing import Array, PRNGKey
from xnn.checks import check_float, check_params
from xnn.covariance.affine import affine, mean_of_windows, of_equal_positions, variance_of
from xnn.covariance.kernel import Kernel
from xnn.layer import Layer, recorded
from xnn.layers.windows import Padding, Sizes, Window, as_one_batch, make_window, pad_spatial, sizes_of

_PADDINGS = ("SAME", "VALID", "CAUSAL", "CIRCULAR", "REFLECT")
_LAYOUTS = {1: ("NXC", "XIO", "NXC"), 2: ("NXYC", "XYIO", "NXYC"), 3: ("NXYZC", "XYZIO", "NXYZC")}


@recorded()
def Conv(features: int, window: Sizes, *, strides: Sizes = 1, padding: Padding = "SAME", dilation: Sizes = 1,
         groups: int = 1, bias: bool = True, w_init: Callable | None = None, b_init: Callable | None = None) -> Layer:
    """Convolution plus a bias for each feature.  Shape: [..., *spatial, n_in] -> [..., *out, features].

    Args:
      features: number of output features.
      window: sizes of the window.
      strides: step of the window along each axis.
      padding: "SAME": zeros around the input such that the output has ``ceil(size / stride)`` positions, as in Flax;
        "VALID": no padding; "CAUSAL": zeros before the first position, for one spatial axis, so that no output depends
        on a later position; "CIRCULAR", "REFLECT": the input is continued periodically, or mirrored. As in PyTorch, it
        may also be a number, or a sequence with a number or pair (before, after) for each axis.
      dilation: distance between adjacent positions in the window.
      groups: number of separate groups of features; it must divide n_in and `features`.
      bias: False leaves b out.
      w_init, b_init: initializers ``(key, shape) -> array``; None: LeCun normal and zeros, Flax's defaults.
    Params: ``{"w": [*window, n_in / groups, features], "b": [features]}``, without "b" if bias is False.
    Raises: ValueError if groups do not divide the features, or the window is larger than the padded input.

    >>> layer = Conv(8, (3, 3), strides=2)
    >>> shape, params = layer.init(random.PRNGKey(0), (-1, 28, 28, 1))
    >>> shape, params["w"].shape
    ((-1, 14, 14, 8), (3, 3, 1, 8))
    """
    shape = make_window("Conv", window, strides, padding, dilation, _PADDINGS)
    return _convolution(shape, _by_groups("Conv", features, groups), functools.partial(_correlated, shape),
                        shape.out_sizes, bias, w_init, b_init)


@recorded()
def DepthwiseConv(window: Sizes, *, multiplier: int = 1, strides: Sizes = 1, padding: Padding = "SAME",
                  dilation: Sizes = 1, bias: bool = True, w_init: Callable | None = None,
                  b_init: Callable | None = None) -> Layer:
    """Convolution of each feature separately.  Shape: [..., *spatial, n_in] -> [..., *out, n_in * multiplier].

    Output features from ``i * multiplier`` up to, but not including, ``(i + 1) * multiplier`` are computed from input
    feature i, as in PyTorch's ``Conv2d(n_in, n_in * multiplier, groups=n_in)``.

    Args: multiplier: number of output features for each input feature. The other arguments are as in `Conv`.
    Params: ``{"w": [*window, 1, n_in * multiplier], "b": [n_in * multiplier]}``, without "b" if bias is False.
    """
    shape = make_window("DepthwiseConv", window, strides, padding, dilation, _PADDINGS)
    return _convolution(shape, lambda n_in: (n_in * multiplier, n_in), functools.partial(_correlated, shape),
                        shape.out_sizes, bias, w_init, b_init)


@recorded()
def ConvTranspose(features: int, window: Sizes, *, strides: Sizes = 1, padding: Padding = "SAME",
                  output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1, bias: bool = True,
                  w_init: Callable | None = None, b_init: Callable | None = None) -> Layer:
    """Transposed convolution plus a bias for each feature; it enlarges the spatial axes by `strides`.

    It is a convolution of the input with ``stride - 1`` zeros between its positions (Dumoulin and Visin, 2016).
    Shape: [..., *spatial, n_in] -> [..., *out, features].

    Args:
      strides: factor by which the output is larger along each axis.
      padding: "SAME": the output has ``size * stride`` positions; "VALID": ``size * stride + max(extent - stride, 0)``,
        as in Flax, with the extent ``dilation * (window - 1) + 1``. Numbers are, as in PyTorch, the padding of the
        convolution that this one transposes: ``(size - 1) * stride + extent - before - after + output_padding``.
      output_padding: positions added at the end of each axis; only if `padding` is given as numbers. It must be less
        than the stride or the dilation.
      Others: as in `Conv`.
    Params: those of `Conv`. PyTorch stores the weights as [in, out / groups, *window], with flipped window axes.
    """
    name = "ConvTranspose"
    shape = make_window(name, window, strides, padding, dilation)
    pads = _transposed_pads(shape, _output_padding(shape, output_padding))

    def out_sizes(spatial):
        out = [-1 if n < 0 else max((n - 1) * s + 2 + sum(pad) - e, 0)
               for n, s, pad, e in zip(spatial, shape.strides, pads, shape.extents, strict=True)]
        if 0 in out:
            raise bad(name, "the padding removes the whole output",
                      {"spatial sizes": spatial, "padding": repr(padding)}, "choose a smaller padding.", ValueError)
        return tuple(out)

    def linear(x, w, groups):
        x, leading = as_one_batch(x, shape.n_axes)
        y = lax.conv_general_dilated(x, w, (1,) * shape.n_axes, pads, shape.strides, shape.dilation,
                                     _LAYOUTS[shape.n_axes], groups)
        return jnp.reshape(y, (*leading, *y.shape[1:]))

    return _convolution(shape, _by_groups(name, features, groups), linear, out_sizes, bias, w_init, b_init,
                        [(*pad, s - 1) for pad, s in zip(pads, shape.strides, strict=True)])


def _output_padding(window: Window, value: Sizes) -> tuple[int, ...]:
    more = sizes_of(window.caller, "output_padding", value, window.n_axes, least=0)
    if any(m >= max(s, d) for m, s, d in zip(more, window.strides, window.dilation, strict=True)):
        raise bad(window.caller, "output_padding must be less than the stride or the dilation",
                  {"output_padding": more, "strides": window.strides, "dilation": window.dilation},
                  "choose a smaller value: it selects one of `stride` possible output sizes.", ValueError)
    if any(more) and isinstance(window.padding, str):
        raise bad(window.caller, f"padding {window.padding!r} sets the output size, so output_padding must be 0",
                  {"output_padding": more}, "pass padding as numbers, or no output_padding.", ValueError)
    return more


def _transposed_pads(window: Window, output_padding: tuple[int, ...]) -> list[tuple[int, int]]:
    """Padding of the enlarged input."""
    if window.padding == "SAME":
        totals = [e + s - 2 for e, s in zip(window.extents, window.strides, strict=True)]
        before = [e - 1 if s > e - 1 else -(-total // 2)
                  for e, s, total in zip(window.extents, window.strides, totals, strict=True)]
        return [(low, total - low) for low, total in zip(before, totals, strict=True)]
    if window.padding == "VALID":
        return [(e - 1, s - 1 + max(e - s, 0)) for e, s in zip(window.extents, window.strides, strict=True)]
    return [(e - 1 - low, e - 1 - high + more)
            for e, (low, high), more in zip(window.extents, window.padding, output_padding, strict=True)]


@recorded()
def ConvLocal(features: int, window: Sizes, *, strides: Sizes = 1, padding: Padding = "SAME", dilation: Sizes = 1,
              bias: bool = True, w_init: Callable | None = None, b_init: Callable | None = None) -> Layer:
    """Convolution with separate weights at each position, a locally connected layer.

    Shape: [..., *spatial, n_in] -> [..., *out, features]; the spatial sizes must be known.

    Args: as in `Conv`; initializers get the shapes of one position, ``(*window, n_in, features)`` and ``(features,)``.
    Params: ``{"w": [*out, *window, n_in, features], "b": [*out, features]}``, without "b" if bias is False.
    """
    name = "ConvLocal"
    shape = make_window(name, window, strides, padding, dilation, _PADDINGS)
    n, (w_init, b_init) = shape.n_axes, _initializers(name, bias, w_init, b_init)

    def init(rng, in_shape):
        in_shape = shape.check_shape(in_shape)
        out = shape.out_sizes(shape.spatial(in_shape))
        if min(out) < 0:
            raise bad(name, "the weights depend on the spatial sizes", {"in_shape": str(in_shape)},
                      "pass all of them to init; only batch sizes may be -1.")
        w_rng, b_rng = random.split(rng)
        params = {"w": _at_each(out, w_rng, w_init, (*shape.sizes, in_shape[-1], features))}
        if bias:
            params["b"] = _at_each(out, b_rng, b_init, (features,))
        return (*in_shape[:-n - 1], *out, features), params

    def apply(params, x, *, rng=None, train=False):
        x = check_float(name, x, n + 1)
        out = shape.out_sizes(shape.spatial(x.shape))
        check_params(name, params, x, w=(*out, *shape.sizes, x.shape[-1], features),
                     b=(*out, features) if bias else None)
        y = _by_position(shape, x, params["w"])
        return y + jnp.broadcast_to(params["b"], y.shape) if bias else y

    def kernel_rule(kernel):
        w_shape = (*shape.sizes, kernel.features, features)
        return of_equal_positions(_after_windows(kernel, shape, None, w_shape, (features,), w_init,
                                                 b_init if bias else None))

    return Layer(init, apply, name, kernel_rule=kernel_rule)


def _at_each(out: tuple[int, ...], rng: PRNGKey, init: Callable, sizes: tuple[int, ...]) -> Array:
    """Weights of these sizes for each position, drawn separately, so that an initializer gets the shape of a window."""
    keys = random.split(rng, math.prod(out))
    return jnp.reshape(xjax.vmap(lambda key: init(key, sizes))(keys), (*out, *sizes))


def _by_position(window: Window, x: Array, w: Array) -> Array:
    """The product of the window of x at each position with the weights of that position."""
    n = window.n_axes
    x, leading = as_one_batch(x, n)
    x, pads = window.padded(x)
    seen = lax.conv_general_dilated_patches(x, window.sizes, window.strides, pads, rhs_dilation=window.dilation,
                                            dimension_numbers=_LAYOUTS[n])
    out = seen.shape[1:-1]
    seen = jnp.reshape(seen, (seen.shape[0], *out, x.shape[-1], *window.sizes))       # a feature's values are adjacent
    at, inside = "abc"[:n], "ijk"[:n]
    y = jnp.einsum(f"n{at}f{inside},{at}{inside}fo->n{at}o", seen, w)
    return jnp.reshape(y, (*leading, *y.shape[1:]))


def _initializers(name: str, bias: bool, w_init: Callable | None, b_init: Callable | None) -> tuple[Callable, Callable]:
    if b_init and not bias:
        raise bad(name, "b_init needs a bias", {"bias": "False", "b_init": repr(b_init)},
                  "leave out b_init, or bias=False.")
    return w_init or initializers.lecun_normal(), b_init or initializers.zeros


def _by_groups(name: str, features: int, groups: int) -> Callable[[int], tuple[int, int]]:
    def channels(n_in):
        if groups < 1 or n_in % groups or features % groups:
            raise bad(name, "the features do not divide into groups of equal size",
                      {"input features": n_in, "output features": features, "groups": groups},
                      f"pass a divisor of both, such as groups={math.gcd(n_in, features)}.", ValueError)
        return features, groups

    return channels


def _correlated(window: Window, x: Array, w: Array, groups: int) -> Array:
    x, leading = as_one_batch(x, window.n_axes)
    x, pads = window.padded(x)
    y = lax.conv_general_dilated(x, w, window.strides, pads, rhs_dilation=window.dilation,
                                 dimension_numbers=_LAYOUTS[window.n_axes], feature_group_count=groups)
    return jnp.reshape(y, (*leading, *y.shape[1:]))


def _after_windows(kernel: Kernel, window: Window, spread: Sequence[tuple[int, int, int]] | None,
                   w_shape: tuple[int, ...], b_shape: tuple[int, ...], w_init: Callable,
                   b_init: Callable | None) -> Kernel:
    """The kernel after a convolution. Args: spread: as in `_convolution`; b_init: None for a layer without bias."""
    if kernel.positions < window.n_axes:
        raise bad(f"{window.caller}.kernel", "the values have fewer position axes than the window",
                  {"window": window.sizes, "position axes": kernel.positions}, "pool or flatten after it.", ValueError)

    def padded(values, axes):
        if spread is not None:
            widths = [(0, 0, 0)] * values.ndim
            for axis, pad in zip(axes, spread, strict=True):
                widths[axis] = pad
            return lax.pad(values, jnp.zeros((), values.dtype), widths)
        moved = jnp.moveaxis(values, axes, range(-window.n_axes - 1, -1))
        moved, pads = window.padded(moved)
        return jnp.moveaxis(pad_spatial(moved, pads), range(-window.n_axes - 1, -1), axes)

    strides = (1,) * window.n_axes if spread is not None else window.strides
    inputs = mean_of_windows(kernel, window.sizes, strides, window.dilation, padded)
    return affine(inputs, w_shape[-1], math.prod(w_shape[:-1]), variance_of(window.caller, "w_init", w_init, w_shape),
                  None if b_init is None else variance_of(window.caller, "b_init", b_init, b_shape))


def _convolution(window: Window, channels: Callable[[int], tuple[int, int]], linear: Callable, out_sizes: Callable,
                 bias: bool, w_init: Callable | None, b_init: Callable | None,
                 spread: Sequence[tuple[int, int, int]] | None = None) -> Layer:
    """A layer with the same weights at all positions.

    Args:
      channels: number of input features -> (number of output features, number of groups).
      linear: ``(x, w, groups) -> y``.
      out_sizes: spatial sizes of the input -> spatial sizes of the output; raises if the window is too large.
      spread: of a transposed convolution: zeros (before, after, between positions) for each axis, before a convolution
        without strides.
    """
    name, n = window.caller, window.n_axes
    w_init, b_init = _initializers(name, bias, w_init, b_init)

    def shapes(n_in):
        features, groups = channels(n_in)
        return (*window.sizes, n_in // groups, features), (features,), groups

    def init(rng, in_shape):
        in_shape = window.check_shape(in_shape)
        w_shape, b_shape, _ = shapes(in_shape[-1])
        w_rng, b_rng = random.split(rng)
        params = {"w": w_init(w_rng, w_shape)}
        if bias:
            params["b"] = b_init(b_rng, b_shape)
        return (*in_shape[:-n - 1], *out_sizes(window.spatial(in_shape)), *b_shape), params

    def apply(params, x, *, rng=None, train=False):
        x = check_float(name, x, n + 1)
        w_shape, b_shape, groups = shapes(x.shape[-1])
        check_params(name, params, x, w=w_shape, b=b_shape if bias else None)
        out_sizes(window.spatial(x.shape))
        y = linear(x, params["w"], groups)
        return y + jnp.broadcast_to(params["b"], y.shape) if bias else y

    def kernel_rule(kernel):
        w_shape, b_shape, groups = shapes(kernel.features)
        if w_shape[-2] == 1 < kernel.features:
            raise bad(f"{name}.kernel", "an output with one input feature is not Gaussian for any number of features",
                      {"groups": groups}, "use Conv with fewer groups.", ValueError)
        return _after_windows(kernel, window, spread, w_shape, b_shape, w_init, b_init if bias else None)

    pointwise = window.extents == window.strides == (1,) * n and not any(map(sum, window.pads((1,) * n)))
    return Layer(init, apply, name, positionwise=pointwise, kernel_rule=kernel_rule)
