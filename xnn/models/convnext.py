"""ConvNeXt, a convolutional network for images, designed like a vision transformer (Liu et al., 2022)."""

from typing import Any

from xjax import nn
from xjax.nn import initializers
from xnn.combinators import named, residual
from xnn.layer import Layer
from xnn.layers import Conv, Dense, DepthwiseConv, GlobalAvgPool, LayerNorm, LayerScale, StochasticDepth, elementwise
from xnn.models.configs import ConvNeXtConfig

_INIT = initializers.truncated_normal(0.02)
_NORM = LayerNorm(epsilon=1e-6)


def ConvNeXt(config: ConvNeXtConfig) -> Layer:
    """Logits of classes.  Shape: [batch, height, width, features] -> [batch, classes].

    Params: ``{"stem": {"conv", "norm"}, "stage0": {"block0": {"depthwise", "norm", "expand", "project", "scale"},
    ...}, "stage1": {"downsample": {"norm", "conv"}, "block0": ...}, ..., "head": {"norm", "dense"}}``.
    Raises: TypeError in training with `drop_path` but without rng.
    """
    stages, n_before, n_all = {}, 0, sum(n_blocks for n_blocks, _ in config.stages)
    for i, (n_blocks, features) in enumerate(config.stages):
        layers = {} if i == 0 else {"downsample": named(norm=_NORM, conv=_patches(features, 2))}
        for j in range(n_blocks):
            rate = config.drop_path * (n_before + j) / max(n_all - 1, 1)
            layers[f"block{j}"] = _block(features, config.layer_scale, rate)
        stages[f"stage{i}"], n_before = named(**layers), n_before + n_blocks
    stem = named(conv=_patches(config.stages[0][1], config.patch), norm=_NORM)
    head = named(pool=GlobalAvgPool(), norm=_NORM, dense=Dense(config.classes, w_init=_INIT))
    return named(stem=stem, **stages, head=head)


def convnext_tiny(**options: Any) -> Layer:
    """ConvNeXt-T: 28,589,128 parameters for 1000 classes.  Args: options: fields of `ConvNeXtConfig`."""
    return ConvNeXt(ConvNeXtConfig(**options))


def _patches(features: int, size: int) -> Layer:
    return Conv(features, (size, size), strides=size, padding="VALID", w_init=_INIT)


def _block(features: int, layer_scale: float, drop_rate: float) -> Layer:
    return residual(
        depthwise=DepthwiseConv((7, 7), w_init=_INIT),
        norm=_NORM,
        expand=Dense(4 * features, w_init=_INIT),
        gelu=elementwise(nn.gelu, "Gelu", approximate=False),
        project=Dense(features, w_init=_INIT),
        scale=LayerScale(layer_scale),
        drop=StochasticDepth(drop_rate))
