"""Residual networks for images (He et al., 2016), version 1.5: in a bottleneck the 3 x 3 convolution has the stride."""

from dataclasses import dataclass
from typing import Any

from xjax import nn
from xjax.nn import initializers
from xnn.combinators import named
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import BatchNorm, Conv, Dense, GlobalAvgPool, Identity, MaxPool, Relu


@dataclass(frozen=True, slots=True)
class ResNetConfig:
    """Sizes and options of a residual network; the defaults are those of ResNet-18.

    Attributes:
      stages: (number of blocks, features) of each stage; each after the first halves the image.
      bottleneck: whether a block is 1 x 1, 3 x 3 and 1 x 1 convolutions, the last with four times the features; else it
        is two 3 x 3 convolutions.
      classes: number of outputs.
      small_images: a stem of one 3 x 3 convolution that keeps the size, for images such as CIFAR's; else 7 x 7 with a
        stride of 2, and a pool.
      zero_init: whether the last scale of each block starts at 0, so that the block starts as its shortcut (Goyal et
        al., 2017).
      axis_name: of a `pmap`, whose devices have one batch together, as in `BatchNorm`.
    """

    stages: tuple[tuple[int, int], ...] = ((2, 64), (2, 128), (2, 256), (2, 512))
    bottleneck: bool = False
    classes: int = 1000
    small_images: bool = False
    zero_init: bool = False
    axis_name: str | None = None


def ResNet(config: ResNetConfig) -> Layer:
    """The network.  Shape: [batch, height, width, features] -> [batch, classes].

    Params: ``{"stem": {"conv", "norm"}, "stage0": {"block0": {"conv1", "norm1", ..., "shortcut"}, ...}, ...,
    "head": {"dense"}}``.  State: running statistics of the norms.
    """
    stages = {}
    for i, (n_blocks, features) in enumerate(config.stages):
        blocks = {"block0": _block(config, features, stride=1 if i == 0 else 2, project=i > 0 or config.bottleneck)}
        blocks |= {f"block{j}": _block(config, features) for j in range(1, n_blocks)}
        stages[f"stage{i}"] = named(**blocks)
    head = named(pool=GlobalAvgPool(), dense=Dense(config.classes))
    return named(stem=_stem(config), **stages, head=head)


def resnet18(**options: Any) -> Layer:
    """ResNet-18: 11,689,512 parameters for 1000 classes.  Args: options: fields of `ResNetConfig`."""
    return ResNet(ResNetConfig(**options))


def resnet50(**options: Any) -> Layer:
    """ResNet-50: 25,557,032 parameters for 1000 classes.  Args: options: fields of `ResNetConfig`."""
    return ResNet(ResNetConfig(**{"stages": ((3, 64), (4, 128), (6, 256), (3, 512)), "bottleneck": True, **options}))


def _stem(config: ResNetConfig) -> Layer:
    features, norm = config.stages[0][1], BatchNorm(axis_name=config.axis_name)
    if config.small_images:
        return named(conv=_conv(features, 3), norm=norm, relu=Relu)
    return named(conv=_conv(features, 7, 2), norm=norm, relu=Relu, pool=MaxPool((3, 3), strides=2, padding=1))


def _block(config: ResNetConfig, features: int, stride: int = 1, project: bool = False) -> Layer:
    """Convolutions and a shortcut, which is a 1 x 1 convolution if `project` is True."""
    norm = BatchNorm(axis_name=config.axis_name)
    last = BatchNorm(axis_name=config.axis_name, scale_init=initializers.zeros if config.zero_init else None)
    out = 4 * features if config.bottleneck else features
    shortcut = named(conv=_conv(out, 1, stride), norm=norm) if project else Identity
    if config.bottleneck:
        return composite(_bottleneck_block, conv1=_conv(features, 1), norm1=norm, conv2=_conv(features, 3, stride),
                         norm2=norm, conv3=_conv(out, 1), norm3=last, shortcut=shortcut)
    return composite(_basic_block, conv1=_conv(features, 3, stride), norm1=norm, conv2=_conv(features, 3), norm2=last,
                     shortcut=shortcut)


def _basic_block(layers, x):
    y = nn.relu(layers.norm1(layers.conv1(x)))
    y = layers.norm2(layers.conv2(y))
    return nn.relu(y + layers.shortcut(x))


def _bottleneck_block(layers, x):
    y = nn.relu(layers.norm1(layers.conv1(x)))
    y = nn.relu(layers.norm2(layers.conv2(y)))
    y = layers.norm3(layers.conv3(y))
    return nn.relu(y + layers.shortcut(x))


def _conv(features: int, window: int, stride: int = 1) -> Layer:
    """Numbers as padding: with a stride, "SAME" is another one than that of published weights."""
    return Conv(features, (window, window), strides=stride, padding=window // 2, bias=False,
                w_init=initializers.variance_scaling(2.0, "fan_out", "normal"))                  # He et al., 2015
