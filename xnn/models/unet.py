"""U-Net: a map from images to images through features at several resolutions (Ronneberger et al., 2015).

With the inputs `time` and `label` it is the network of diffusion models, as in Ho et al. (2020). The condition scales
and shifts features after a norm, as in Dhariwal and Nichol (2021).
"""

from __future__ import annotations

from typing import Any

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import check_choice
from xjax.nn import initializers
from xjax.typing import Array
from xnn.combinators import named, residual
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import (
    BatchNorm,
    Conv,
    ConvTranspose,
    FiLM,
    FourierFeatures,
    GroupNorm,
    Identity,
    MaxPool,
    MultiHeadAttention,
    Relu,
    SinusoidalFeatures,
)
from xnn.models.conditioned import conditioned, embeddings
from xnn.models.configs import UNetConfig

_TIMES = {"sinusoidal": SinusoidalFeatures, "fourier": FourierFeatures}
_NORMS = {True: "batch", False: None}                              # the norms that `norm=True` and `norm=False` name


def UNet(config: UNetConfig) -> Layer:
    """Logits for each pixel.  Shape: [batch, height, width, features] -> [batch, height, width, classes].

    Convolutions keep the size of the image; in the paper they remove its border. Sizes may be odd: a pool then rounds
    up, and the upsampled image is cropped to the size of its shortcut.

    Inputs: time, one number for each image, or one for all, if the config has `time`; label, integers in [0, labels],
      if it has `labels`. The label `labels`, or None, means "no label". row_mask, bool [batch], if it has a norm:
      images with False do not count in its statistics.
    Params: ``{"down0": ..., "bottom": ..., "up0": {"w", "b"}, "merge0": ..., "head": {"w", "b"}}``, with a number for
      each resolution; "down", "merge" and "bottom" are ``{"conv1", "norm1", "conv2", "norm2"}``, with "film" and
      "attention" if the config has them. A model with further inputs has ``{"time", "label", "network"}``, and these
      parameters in "network".
    State: running statistics of the norms.

    >>> UNet(UNetConfig(1, (8, 16), norm="group", groups=4, time="sinusoidal", labels=10)).extra_inputs
    ('time', 'label', 'row_mask')
    """
    if config.time is not None:
        check_choice("UNet", "time", config.time, _TIMES)
    first = config.features[0]
    of_inputs = embeddings(4 * first, of_time=_TIMES[config.time](first) if config.time else None,
                           labels=config.labels, dropout=config.label_dropout)
    if not of_inputs:
        return _network("UNet", config, conditional=False)
    return conditioned("UNet", {**of_inputs, "network": _network("network", config, conditional=True)}, config.labels)


def _network(name: str, config: UNetConfig, conditional: bool) -> Layer:
    """The network; a conditional one has the input `condition`."""
    *features, _ = config.features
    down = {f"down{i}": _block(config, i, conditional) for i in range(len(features))}
    up = {f"up{i}": ConvTranspose(n, (2, 2), strides=2) for i, n in enumerate(features)}
    merge = {f"merge{i}": _block(config, i, conditional) for i in range(len(features))}
    pool = {"pool": MaxPool((2, 2), padding="SAME")} if features else {}
    bottom = _block(config, len(features), conditional)

    def network(layers: Any, x: Array, row_mask=None, **inputs: Any) -> Array:
        inputs |= {"row_mask": row_mask} if "row_mask" in bottom.extra_inputs else {}
        shortcuts = []
        for key in down:
            shortcuts.append(x := layers[key](x, **inputs))
            x = layers.pool(x)
        x = layers.bottom(x, **inputs)
        for i in reversed(range(len(features))):
            height, width = shortcuts[i].shape[1:3]
            x = layers[f"up{i}"](x)[:, :height, :width]
            x = layers[f"merge{i}"](jnp.concatenate([shortcuts[i], x], -1), **inputs)
        return layers.head(x)

    def conditional_network(layers: Any, x: Array, condition, row_mask=None) -> Array:
        return network(layers, x, row_mask, condition=condition)

    return composite(conditional_network if conditional else network, name, **down, **pool, bottom=bottom, **up,
                     **merge, head=Conv(config.classes, (1, 1)))


def _block(config: UNetConfig, resolution: int, conditional: bool) -> Layer:
    """Two convolutions, and attention if this resolution has it."""
    features, norm = config.features[resolution], _norm(config)
    conv = Conv(features, (3, 3), bias=norm is Identity, w_init=initializers.he_normal())
    film = {"film": FiLM(activation=nn.silu)} if conditional else {}
    attention = {"attention": residual(norm=norm, attend=_over_pixels(MultiHeadAttention(features, config.heads)))}
    return named(conv1=conv, norm1=norm, **film, relu1=Relu, conv2=conv, norm2=norm, relu2=Relu,
                 **(attention if resolution in config.attention else {}))


def _norm(config: UNetConfig) -> Layer:
    norm = _NORMS.get(config.norm, config.norm)
    if norm is None:
        return Identity
    check_choice("UNet", "norm", norm, ("batch", "group"))
    return BatchNorm(axis_name=config.axis_name) if norm == "batch" else GroupNorm(config.groups)


def _over_pixels(attention: Layer) -> Layer:
    """Self-attention over the pixels of an image.  Shape: [batch, height, width, features] -> the same."""

    def over_pixels(layers: Any, x: Array) -> Array:
        pixels = jnp.reshape(x, (x.shape[0], x.shape[1] * x.shape[2], x.shape[3]))
        return jnp.reshape(layers.attention(pixels), x.shape)

    return composite(over_pixels, attention=attention)
