"""ViT, a transformer for images (Dosovitskiy et al., 2021)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import xjax.numpy as jnp
from xjax.nn import initializers
from xjax.typing import Array, ArrayLike, Params, PRNGKey, Shape
from xnn.checks import check_params, check_shape
from xnn.combinators import repeat
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import Dense, Dropout, EncoderBlock, FeedForward, LayerNorm, LearnedPositions, MultiHeadAttention
from xnn.layers.positions import check_sequence
from xnn.layers.transformer import exact_gelu
from xnn.models.configs import ViTConfig
from xnn.models.heads import VECTORS, Head, chosen, pooler_head
from xnn.models.patches import check_patch, patches_of
from xnn.rng import Rng


def ViT(config: ViTConfig = ViTConfig()) -> Layer:
    """Logits of classes, or vectors, by `config.head`.

    Shape: [batch, image, image, channels] -> "image": [batch, classes]; "pooler":
      ([batch, 1 + patches, features], [batch, features]), the vectors of a learned first token and of the patches, and
      the pooled vector of the image; "none": only the former.
    Params: ``{"patches", "first", "positions", "blocks", "norm", "logits" or "pooler", "dropout"}``. The first axis of
      the parameters of the blocks is the number of the layer. ViT-B/16 has 86,567,656 parameters for images with 3
      channels.
    Raises: ValueError if the image size is not a multiple of the patch size; TypeError for an image of another size.
    """
    check_patch("ViT", config.image, config.patch)
    head = chosen("ViT", config.head, _HEADS)(config)
    norm = LayerNorm(epsilon=config.epsilon)
    block = EncoderBlock(MultiHeadAttention(config.features, config.heads),
                         FeedForward(config.features, config.hidden, activation=exact_gelu), norm=norm,
                         dropout=config.dropout)

    def forward(layers: Any, images: Array) -> Array:
        x = layers.first(layers.patches(patches_of("ViT", images, config.image, config.patch)))
        x = layers.blocks(layers.dropout(layers.positions(x)))
        return head.apply(layers, layers.norm(x))

    return composite(
        forward, "ViT", patches=Dense(config.features), first=_FirstToken(),
        positions=LearnedPositions(1 + (config.image // config.patch) ** 2), blocks=repeat(block, config.layers),
        norm=norm, **head.layers, dropout=Dropout(config.dropout))


_HEADS: Mapping[str, Callable[[ViTConfig], Head]] = {
    "image": lambda config: Head({"logits": Dense(config.classes)}, lambda layers, x: layers.logits(x[:, 0])),
    "pooler": lambda config: pooler_head(config.features), "none": lambda config: VECTORS}


def _FirstToken() -> Layer:
    """Prepends a learned vector to a sequence.  Shape: [batch, time, features] -> [batch, time + 1, features]."""

    def init(rng: PRNGKey, in_shape: Shape) -> tuple[Shape, Params]:
        batch, time, features = check_shape("FirstToken", in_shape, min_rank=3)
        return (batch, time if time < 0 else time + 1, features), {"token": initializers.normal(0.02)(rng, (features,))}

    def apply(params: Params, x: ArrayLike, *, rng: Rng = None, train: bool = False) -> Array:
        x = check_sequence("FirstToken", x)
        check_params("FirstToken", params, x, token=x.shape[-1:])
        return jnp.concatenate([jnp.broadcast_to(params["token"], (x.shape[0], 1, x.shape[-1])), x], 1)

    return Layer(init, apply, "FirstToken")
