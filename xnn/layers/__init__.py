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
from xnn.layers.fan import FanInConcat, FanInSum, FanOut

__all__ = [
    "Dense",
    "Dropout",
    "Elu",
    "Exp",
    "FanInConcat",
    "FanInSum",
    "FanOut",
    "Flatten",
    "Gelu",
    "Identity",
    "LeakyRelu",
    "LogSoftmax",
    "Relu",
    "Reshape",
    "Selu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Tanh",
    "elementwise",
]
