"""DiT, a transformer for diffusion models of images (Peebles and Xie, 2023)."""

from __future__ import annotations

from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.nn import initializers
from xjax.typing import Array
from xnn.combinators import repeat, serial
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import AdaLN, AdaLNZero, Dense, FeedForward, MultiHeadAttention, SinusoidalFeatures
from xnn.layers.positions import angles_of, frequencies_of
from xnn.models.conditioned import conditioned, embeddings
from xnn.models.configs import DiTConfig
from xnn.models.patches import check_patch, images_of, patches_of

_TIME_FEATURES = 256                                               # of the paper's code, for models of all sizes


def DiT(config: DiTConfig = DiTConfig()) -> Layer:
    """The noise, and its variance, in images at a time.

    Shape: [batch, image, image, channels] -> [batch, image, image, outputs]. The initial outputs are zero.

    Inputs: time, one number for each image, or one for all: the steps 0, 1, 2, ...; label, integers in [0, labels].
      The label `labels`, or None, means "no label".
    Params: ``{"time", "label", "network": {"patches", "blocks", "norm", "outputs"}}``. The first axis of the parameters
      of the blocks is the number of the layer. DiT-XL/2 has 674,834,720 parameters for images with 4 channels. The
      embeddings of positions, which the paper's 675 million include, are constants.
    Raises: ValueError if the image size is not a multiple of the patch size, and for features that 4 does not divide;
      TypeError for an image of another size.
    """
    check_patch("DiT", config.image, config.patch)
    if config.features % 4:
        raise bad("DiT", "sines and cosines of rows and columns need a number of features that 4 divides",
                  {"features": config.features}, f"use {config.features + -config.features % 4} features.", ValueError)
    features, side = config.features, config.image // config.patch
    block = serial(AdaLNZero(MultiHeadAttention(features, config.heads)),
                   AdaLNZero(FeedForward(features, config.hidden)))

    def network(layers: Any, images: Array, condition) -> Array:
        x = layers.patches(patches_of("DiT", images, config.image, config.patch))
        x = x + jnp.broadcast_to(_positions(x, side), x.shape)
        x = layers.norm(layers.blocks(x, condition=condition), condition=condition)
        return images_of(layers.outputs(x), config.image, config.patch)

    zeros = initializers.zeros
    of_inputs = embeddings(features, of_time=SinusoidalFeatures(_TIME_FEATURES), labels=config.labels,
                           dropout=config.label_dropout)
    return conditioned("DiT", {**of_inputs, "network": composite(
        network, patches=Dense(features), blocks=repeat(block, config.layers), norm=AdaLN(),
        outputs=Dense(config.patch**2 * config.outputs, w_init=zeros))}, config.labels)


def _positions(x: Array, side: int) -> Array:
    """[side * side, features]: sines and cosines of the column of a patch, then of its row, as in the paper's code."""
    half = x.shape[-1] // 2
    angles = angles_of(x, jnp.arange(side, dtype=np.int32), frequencies_of(half, 10_000.0))
    one = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1).astype(x.dtype)
    rows = jnp.broadcast_to(one[:, None], (side, side, half))
    return jnp.reshape(jnp.concatenate([jnp.swapaxes(rows, 0, 1), rows], -1), (side * side, 2 * half))
