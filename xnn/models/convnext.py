"""ConvNeXt, a convolutional network for images with the proportions of a vision transformer (Liu et al., 2022)."""

from dataclasses import dataclass
from typing import Any

from xjax import nn
from xjax.nn import initializers
from xnn.combinators import named, residual
from xnn.layer import Layer
from xnn.layers import Conv, Dense, DepthwiseConv, GlobalAvgPool, LayerNorm, LayerScale, elementwise

_INIT = initializers.truncated_normal(0.02)
_NORM = LayerNorm(epsilon=1e-6)


@dataclass(frozen=True, slots=True)
class ConvNeXtConfig:
    """Sizes of a ConvNeXt; the defaults are those of ConvNeXt-T.

    Attributes:
      stages: (number of blocks, features) of each stage; each after the first halves the image.
      classes: number of outputs.
      patch: size and stride of the first convolution.
      layer_scale: first value of the parameters of `LayerScale`.
    """

    stages: tuple[tuple[int, int], ...] = ((3, 96), (3, 192), (9, 384), (3, 768))
    classes: int = 1000
    patch: int = 4
    layer_scale: float = 1e-6


def ConvNeXt(config: ConvNeXtConfig) -> Layer:
    """The network.  Shape: [batch, height, width, features] -> [batch, classes].

    Params: ``{"stem": {"conv", "norm"}, "stage0": {"block0": {"depthwise", "norm", "expand", "project", "scale"},
    ...}, "stage1": {"downsample": {"norm", "conv"}, "block0": ...}, ..., "head": {"norm", "dense"}}``.
    """
    stages = {}
    for i, (n_blocks, features) in enumerate(config.stages):
        first = {} if i == 0 else {"downsample": named(norm=_NORM, conv=_patches(features, 2))}
        stages[f"stage{i}"] = named(**first, **{f"block{j}": _block(config, features) for j in range(n_blocks)})
    stem = named(conv=_patches(config.stages[0][1], config.patch), norm=_NORM)
    head = named(pool=GlobalAvgPool(), norm=_NORM, dense=Dense(config.classes, w_init=_INIT))
    return named(stem=stem, **stages, head=head)


def convnext_tiny(**options: Any) -> Layer:
    """ConvNeXt-T: 28,589,128 parameters for 1000 classes.  Args: options: fields of `ConvNeXtConfig`."""
    return ConvNeXt(ConvNeXtConfig(**options))


def _patches(features: int, size: int) -> Layer:
    return Conv(features, (size, size), strides=size, padding="VALID", w_init=_INIT)


def _block(config: ConvNeXtConfig, features: int) -> Layer:
    return residual(
        depthwise=DepthwiseConv((7, 7), w_init=_INIT),
        norm=_NORM,
        expand=Dense(4 * features, w_init=_INIT),
        gelu=elementwise(nn.gelu, "Gelu", approximate=False),
        project=Dense(features, w_init=_INIT),
        scale=LayerScale(config.layer_scale))
