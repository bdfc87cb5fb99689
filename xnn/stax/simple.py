"""Layers without weights, BatchNorm, and FanOut, FanInSum and FanInConcat for branches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad
from xjax.nn.initializers import ones, zeros
from xnn import layers
from xnn.layer import Layer, shape_kept
from xnn.layers.dropout import keep_some
from xnn.rng import split


def stateless(fun: Callable, out_shape: Callable, name: str) -> Layer:
    """A layer without parameters from ``fun(x)`` and ``out_shape(in_shape)``; its apply accepts any keyword."""
    return Layer(lambda rng, in_shape: (out_shape(in_shape), ()), lambda params, x, **kwargs: fun(x), name)


def elementwise(fun: Callable, **fun_kwargs: Any) -> Layer:
    """A layer that applies ``fun(x, **fun_kwargs)``, which must keep the shape.

    >>> elementwise(jnp.clip, min=0, max=6).apply((), jnp.array([-1.0, 7.0]))
    Array([0., 6.], dtype=float32)
    """
    name = getattr(fun, "__name__", "elementwise")
    return stateless(functools.partial(fun, **fun_kwargs), lambda shape: shape, name)


def _old(layer: Layer) -> Layer:
    """A layer of xnn that depends on x only, with an apply that accepts and ignores any keyword."""
    return Layer(layer.init, lambda params, x, **kwargs: layer.apply(params, x), layer.name)


Tanh, Relu, Exp = _old(layers.Tanh), _old(layers.Relu), _old(layers.Exp)
LogSoftmax, Softmax, Softplus = _old(layers.LogSoftmax), _old(layers.Softmax), _old(layers.Softplus)
Sigmoid, Elu, LeakyRelu = _old(layers.Sigmoid), _old(layers.Elu), _old(layers.LeakyRelu)
Selu, Gelu = _old(layers.Selu), _old(layers.Gelu)
Identity, Flatten = _old(layers.Identity), _old(layers.Flatten)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """Keep each value with probability `rate` and divide it by `rate`; set the others to 0.

    Args:
      rate: probability to *keep*, 0 < rate <= 1. (In `xnn.Dropout` it is the probability to drop.)
      mode: "train"; with any other value the layer is the identity. The keyword `train` of `apply` has no effect.
    Raises: ValueError for another rate; apply raises ValueError, in any mode, without rng.
    """
    if not 0 < rate <= 1:
        raise bad("stax.Dropout", "rate is the probability to keep a value, and must be in (0, 1]",
                  {"rate": repr(rate)}, "Dropout(0.9) drops a tenth of the values.", ValueError)

    def apply(params, x, *, rng=None, **kwargs):
        if rng is None:
            raise bad("stax.Dropout", "needs random bits, but rng is None", {"mode": repr(mode), "rng": "None"},
                      "call apply_fun(params, inputs, rng=key).", ValueError)
        return keep_some(rng, x, rate) if mode == "train" else x

    return Layer(shape_kept, apply, "Dropout")


def BatchNorm(axis: int | Sequence[int] = (0, 1, 2), epsilon: float = 1e-5, center: bool = True, scale: bool = True,
              beta_init: Callable = zeros, gamma_init: Callable = ones) -> Layer:
    """``gamma (x - mean) / sqrt(variance + epsilon) + beta``, with mean and variance over `axis` of the current batch.

    There are no running averages, so in evaluation the output of a row also depends on the other rows of the batch. The
    variance is ``mean(x**2) - mean(x)**2``, which is inexact if the mean is large.

    Args:
      axis: the axes over which mean and variance are computed; the parameters have the other axes.
      center, scale: False leaves beta or gamma out.
    Params: ``(beta, gamma)``, each with the sizes of the other axes, or ``()`` if left out.
    """
    axes = (axis,) if np.ndim(axis) == 0 else tuple(axis)

    def init(rng, in_shape):
        over = [a % len(in_shape) for a in axes]
        shape = tuple(n for i, n in enumerate(in_shape) if i not in over)
        beta_rng, gamma_rng = split(rng, 2)
        return in_shape, (beta_init(beta_rng, shape) if center else (), gamma_init(gamma_rng, shape) if scale else ())

    def apply(params, x, **kwargs):
        beta, gamma = params
        y = nn.standardize(x, axes, epsilon=epsilon)
        y = jnp.expand_dims(gamma, axes) * y if scale else y
        return y + jnp.expand_dims(beta, axes) if center else y

    return Layer(init, apply, "BatchNorm")


def FanOut(num: int) -> Layer:
    """The input `num` times, as a list, for the layers of a `parallel`."""
    return stateless(lambda x: [x] * num, lambda shape: [shape] * num, "FanOut")


# Shapes are not compared, because stax accepts arrays that broadcast.
FanInSum = stateless(functools.partial(layers.FanInSum.apply, ()), lambda shapes: shapes[0], "FanInSum")


def FanInConcat(axis: int = -1) -> Layer:
    """The inputs concatenated along one axis."""
    def out_shape(shapes):
        first = tuple(shapes[0])
        at = axis % len(first)
        return (*first[:at], sum(shape[at] for shape in shapes), *first[at + 1:])

    return stateless(lambda xs: jnp.concatenate(xs, axis), out_shape, "FanInConcat")
