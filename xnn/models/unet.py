"""U-Net: a map from images to images through features at several resolutions (Ronneberger et al., 2015)."""

import xjax.numpy as jnp
from xjax.nn import initializers
from xnn.combinators import named
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import BatchNorm, Conv, ConvTranspose, Identity, MaxPool, Relu
from xnn.models.configs import UNetConfig


def UNet(config: UNetConfig) -> Layer:
    """Logits for each pixel.  Shape: [batch, height, width, features] -> [batch, height, width, classes].

    Convolutions keep the size of the image; in the paper they remove its border. Sizes may be odd: a pool then rounds
    up, and the upsampled image is cropped to the size of its shortcut.
    Params: ``{"down0": ..., "bottom": ..., "up0": {"w", "b"}, "merge0": ..., "head": {"w", "b"}}``, with a number for
    each resolution; "down", "merge" and "bottom" are ``{"conv1", "norm1", "conv2", "norm2"}``.
    State: running statistics of the norms.
    """
    *features, bottom = config.features
    down = {f"down{i}": _two_convs(config, n) for i, n in enumerate(features)}
    up = {f"up{i}": ConvTranspose(n, (2, 2), strides=2) for i, n in enumerate(features)}
    merge = {f"merge{i}": _two_convs(config, n) for i, n in enumerate(features)}
    pool = {"pool": MaxPool((2, 2), padding="SAME")} if features else {}

    def unet(layers, x):
        shortcuts = []
        for name in down:
            shortcuts.append(x := layers[name](x))
            x = layers.pool(x)
        x = layers.bottom(x)
        for i in reversed(range(len(features))):
            height, width = shortcuts[i].shape[1:3]
            x = layers[f"up{i}"](x)[:, :height, :width]
            x = layers[f"merge{i}"](jnp.concatenate([shortcuts[i], x], -1))
        return layers.head(x)

    return composite(unet, "UNet", **down, **pool, bottom=_two_convs(config, bottom), **up, **merge,
                     head=Conv(config.classes, (1, 1)))


def _two_convs(config: UNetConfig, features: int) -> Layer:
    conv = Conv(features, (3, 3), bias=not config.norm, w_init=initializers.he_normal())
    norm = BatchNorm(axis_name=config.axis_name) if config.norm else Identity
    return named(conv1=conv, norm1=norm, relu1=Relu, conv2=conv, norm2=norm, relu2=Relu)
