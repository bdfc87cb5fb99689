"""Layers, one family in each file."""

from xnn.layers.dense import Dense
from xnn.layers.dropout import Dropout
from xnn.layers.elementwise import (
    Elu,
    Exp,
    Flatten,
    Gelu,
    Identity,
    LeakyRelu,
    LogSoftmax,
    Relu,
    Reshape,
    Selu,
    Sigmoid,
    Softmax,
    Softplus,
    Tanh,
    elementwise,
)
from xnn.layers.embed import Attend, Embedding
from xnn.layers.fan import FanInConcat, FanInSum, FanOut
from xnn.layers.norm import BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RMSNorm

__all__ = [
    "Attend",
    "BatchNorm",
    "Dense",
    "Dropout",
    "Elu",
    "Embedding",
    "Exp",
    "FanInConcat",
    "FanInSum",
    "FanOut",
    "Flatten",
    "Gelu",
    "GroupNorm",
    "Identity",
    "InstanceNorm",
    "LayerNorm",
    "LeakyRelu",
    "LogSoftmax",
    "RMSNorm",
    "Relu",
    "Reshape",
    "Selu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "elementwise",
]
