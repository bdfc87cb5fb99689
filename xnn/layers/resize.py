"""Changes of the spatial sizes: Upsample, PixelShuffle, PixelUnshuffle, Pad."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import xjax.numpy as jnp
from xjax import image
from xjax.errors import bad, check_choice
from xnn.checks import check_float
from xnn.covariance.fixed import linear_rule
from xnn.layer import Layer, recorded
from xnn.layers.windows import Sizes, check_spatial_shape, pad_spatial, pads_of, sizes_of

_METHODS = {"nearest": "nearest", "linear": "linear", "cubic": "cubic-pytorch", "lanczos3": "lanczos3"}
_MODES = ("constant", "edge", "reflect", "symmetric", "wrap")


@recorded()
def Upsample(scale: float | Sequence[float] | None = None, *, size: Sizes | None = None,
             method: str = "nearest", antialias: bool = False) -> Layer:
    """Resamples the spatial axes to other sizes.  Shape: [batch, *spatial, features] -> [batch, *out, features].

    Args:
      scale: the output has ``floor(size * scale)`` positions along an axis; one number for all spatial axes, or one for
        each axis.
      size: sizes of the output, instead of `scale`; an int for all axes.
      method: "nearest", "linear", "cubic" or "lanczos3". Positions are pixel centres, as in PyTorch's "nearest-exact"
        (its "nearest" is equal for integer scales), and in "bilinear" and "bicubic" with ``align_corners=False``. The
        cubic kernel is that of Keys (1981) with a = -0.75, or a = -0.5 if `antialias` is True, as in PyTorch.
      antialias: whether an axis is smoothed before it is made smaller.
    Params: ``()``.

    >>> Upsample(2).apply((), jnp.array([[[1.0], [2.0]]])).ravel()
    Array([1., 1., 2., 2.], dtype=float32)
    """
    if (scale is None) == (size is None):
        raise bad("Upsample", "takes either `scale` or `size`", {"scale": repr(scale), "size": repr(size)},
                  "Upsample(2), or Upsample(size=(32, 32)).")
    check_choice("Upsample", "method", method, _METHODS)
    if antialias and method == "nearest":
        raise bad("Upsample", 'the method "nearest" has no antialiasing', {"antialias": "True"}, 'method="linear".',
                  ValueError)
    scales = None if scale is None else _scales(scale)

    def out_shape(shape):
        n = len(shape) - 2
        if scales is None:
            out = sizes_of("Upsample", "size", size, n)
        elif len(scales) not in (1, n):
            raise bad("Upsample", "`scale` must have one entry for each spatial axis", {"scale": repr(scale),
                      "in_shape": str(shape)}, "pass one number, or one for each axis between batch and features.")
        else:
            out = [-1 if old < 0 else math.floor(old * s) for old, s in zip(shape[1:-1], scales * (n // len(scales)),
                                                                            strict=True)]
        if 0 in out:
            raise bad("Upsample", "an axis of the output is empty", {"scale": repr(scale), "in_shape": str(shape)},
                      "choose a larger scale.", ValueError)
        return (shape[0], *out, shape[-1])

    def init(rng, in_shape):
        return out_shape(check_spatial_shape("Upsample", in_shape, 2)), ()

    def apply(params, x, *, rng=None, train=False):
        x = check_float("Upsample", x, 3)
        return image.resize(x, out_shape(x.shape), _METHODS[method], antialias)

    return Layer(init, apply, "Upsample", kernel_rule=linear_rule(apply))


def _scales(scale: Any) -> tuple[float, ...]:
    scales = tuple(scale) if isinstance(scale, tuple | list) else (scale,)
    if not scales or not all(isinstance(s, int | float) and s > 0 for s in scales):
        raise bad("Upsample", "`scale` must be positive numbers", {"scale": repr(scale)}, "Upsample(2).")
    return scales


@recorded()
def Pad(widths: int | Sequence[Any], *, mode: str = "constant", value: float = 0.0) -> Layer:
    """Adds positions around the spatial axes.  Shape: [batch, *spatial, features] -> [batch, *out, features].

    Args:
      widths: a number for all spatial axes, or a number or pair (before, after) for each axis; negative numbers crop.
      mode: mode of `xjax.numpy.pad`: "constant", "edge" (PyTorch's "replicate"), "reflect", "symmetric" or "wrap"
        (PyTorch's "circular").
      value: the value for mode "constant".
    Params: ``()``.
    Raises: ValueError if cropping leaves no positions.

    >>> Pad(((1, -1),), mode="edge").init(None, (-1, 5, 3))[0], Pad(2).init(None, (-1, 8, 8, 3))[0]
    ((-1, 5, 3), (-1, 12, 12, 3))
    """
    check_choice("Pad", "mode", mode, _MODES)
    if value and mode != "constant":
        raise bad("Pad", f"mode {mode!r} takes no value", {"value": value}, 'leave it out, or pass mode="constant".')
    pads_of("Pad", "widths", widths, len(widths) if isinstance(widths, tuple | list) else 1)

    def out_shape(shape):
        pads = pads_of("Pad", "widths", widths, len(shape) - 2)
        out = [-1 if n < 0 else n + sum(pad) for n, pad in zip(shape[1:-1], pads, strict=True)]
        if any(m <= 0 <= n for n, m in zip(shape[1:-1], out, strict=True)):
            raise bad("Pad", "cropping leaves no positions", {"in_shape": str(shape), "widths": repr(widths)},
                      "crop less.", ValueError)
        return (shape[0], *out, shape[-1])

    def init(rng, in_shape):
        return out_shape(check_spatial_shape("Pad", in_shape, 2)), ()

    def apply(params, x, *, rng=None, train=False):
        x = check_float("Pad", x, 3)
        out_shape(x.shape)
        pads = pads_of("Pad", "widths", widths, x.ndim - 2)
        x = x[(slice(None), *(slice(max(-low, 0), min(n + high, n))
                              for n, (low, high) in zip(x.shape[1:-1], pads, strict=True)))]
        return pad_spatial(x, tuple((max(low, 0), max(high, 0)) for low, high in pads), mode, value)

    def kernel_rule(kernel):
        if value:
            raise bad("Pad.kernel", "there is a kernel for zeros as padding only", {"value": value},
                      "leave out `value`.", ValueError)
        return linear_rule(apply)(kernel)

    return Layer(init, apply, "Pad", kernel_rule=kernel_rule)


# -- features and positions ---------------------------------------------------------------------------------------


def PixelShuffle(factor: int) -> Layer:
    """Moves features to positions, `factor` times as many along each axis (Shi et al., 2016).

    Shape: [batch, *spatial, f * factor ** n] -> [batch, *(factor * spatial), f], with n spatial axes. The order is
    PyTorch's: for images, input feature ``factor ** 2 * feature + i * factor + j`` goes to row i and column j of a
    block.
    Params: ``()``.  Raises: ValueError if ``factor ** n`` does not divide the features.
    """
    (factor,) = sizes_of("PixelShuffle", "factor", factor)

    def out_shape(shape):
        blocks = factor ** (len(shape) - 2)
        if shape[-1] % blocks:
            raise bad("PixelShuffle", f"the number of features must be a multiple of {blocks}",
                      {"in_shape": str(shape), "factor": factor}, f"pass a multiple of {blocks} features.", ValueError)
        return (shape[0], *(-1 if n < 0 else n * factor for n in shape[1:-1]), shape[-1] // blocks)

    def shuffled(x):
        n, out = x.ndim - 2, out_shape(x.shape)
        split = jnp.reshape(x, (*x.shape[:-1], out[-1], *(factor,) * n))
        pairs = [axis for d in range(1, n + 1) for axis in (d, d + n + 1)]        # each axis, and its axis in a block
        return jnp.reshape(jnp.transpose(split, (0, *pairs, n + 1)), out)

    return _rearrangement("PixelShuffle", factor, out_shape, shuffled)


def PixelUnshuffle(factor: int) -> Layer:
    """Moves blocks of ``factor ** n`` positions to features, the inverse of `PixelShuffle`.

    Shape: [batch, *spatial, f] -> [batch, *(spatial / factor), f * factor ** n], with n spatial axes.
    Params: ``()``.  Raises: ValueError if `factor` does not divide the spatial sizes.
    """
    (factor,) = sizes_of("PixelUnshuffle", "factor", factor)

    def out_shape(shape):
        if any(n > 0 and n % factor for n in shape[1:-1]):
            raise bad("PixelUnshuffle", "the factor does not divide the spatial sizes",
                      {"in_shape": str(shape), "factor": factor}, "pad the input to multiples of it: Pad.", ValueError)
        return (shape[0], *(-1 if n < 0 else n // factor for n in shape[1:-1]), shape[-1] * factor ** (len(shape) - 2))

    def unshuffled(x):
        n, out = x.ndim - 2, out_shape(x.shape)
        split = jnp.reshape(x, (x.shape[0], *(k for m in out[1:-1] for k in (m, factor)), x.shape[-1]))
        return jnp.reshape(jnp.transpose(split, (0, *range(1, 2 * n, 2), 2 * n + 1, *range(2, 2 * n + 1, 2))), out)

    return _rearrangement("PixelUnshuffle", factor, out_shape, unshuffled)


def _rearrangement(name: str, factor: int, out_shape: Callable[..., Any], fun: Callable[..., Any]) -> Layer:
    def init(rng, in_shape):
        return out_shape(check_spatial_shape(name, in_shape, 2)), ()

    def apply(params, x, *, rng=None, train=False):
        return fun(check_float(name, x, 3))

    return Layer(init, apply, name, settings={"factor": factor})
