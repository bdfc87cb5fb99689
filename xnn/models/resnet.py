"""Residual networks for images (He et al., 2016), version 1.5: in a bottleneck, the stride is in the 3 x 3 convolution.
"""

from typing import Any

from xjax import nn
from xjax.nn import initializers
from xjax.typing import Array
from xnn.combinators import named
from xnn.compose import composite
from xnn.layer import Layer
from xnn.layers import BatchNorm, Conv, Dense, GlobalAvgPool, Identity, MaxPool, Relu
from xnn.models.configs import ResNetConfig
from xnn.models.heads import chosen


def ResNet(config: ResNetConfig) -> Layer:
    """Logits of classes, or without a head the features of the last stage.

    Shape: [batch, height, width, features] -> [batch, classes], or [batch, height, width, features] of smaller images.
    Params: ``{"stem": {"conv", "norm"}, "stage0": {"block0": {"conv1", "norm1", ..., "shortcut"}, ...}, ...,
    "head": {"dense"}}``.  State: running statistics of the norms.
    """
    stages = {}
    for i, (n_blocks, features) in enumerate(config.stages):
        blocks = {"block0": _block(config, features, stride=1 if i == 0 else 2, project=i > 0 or config.bottleneck)}
        blocks |= {f"block{j}": _block(config, features) for j in range(1, n_blocks)}
        stages[f"stage{i}"] = named(**blocks)
    head = chosen("ResNet", config.head, {"image": {"head": named(
        pool=GlobalAvgPool(), dense=Dense(config.classes))}, "none": {}})
    return named(stem=_stem(config), **stages, **head)


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


def _basic_block(layers: Any, x: Array) -> Array:
    y = nn.relu(layers.norm1(layers.conv1(x)))
    y = layers.norm2(layers.conv2(y))
    return nn.relu(y + layers.shortcut(x))


def _bottleneck_block(layers: Any, x: Array) -> Array:
    y = nn.relu(layers.norm1(layers.conv1(x)))
    y = nn.relu(layers.norm2(layers.conv2(y)))
    y = layers.norm3(layers.conv3(y))
    return nn.relu(y + layers.shortcut(x))


def _conv(features: int, window: int, stride: int = 1) -> Layer:
    """A convolution with padding as a number, because "SAME" with a stride differs from that of published weights."""
    return Conv(features, (window, window), strides=stride, padding=window // 2, bias=False,
                w_init=initializers.variance_scaling(2.0, "fan_out", "normal"))                  # He et al., 2015
