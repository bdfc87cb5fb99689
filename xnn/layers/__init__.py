"""Layers, one family in each file."""

from xnn.layers.cells import ConvLSTMCell, GRUCell, LSTMCell, RNNCell
from xnn.layers.conv import Conv, ConvLocal, ConvTranspose, DepthwiseConv
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
from xnn.layers.pool import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    GlobalAvgPool,
    GlobalMaxPool,
    GlobalSumPool,
    MaxPool,
    SumPool,
)
from xnn.layers.resize import Pad, PixelShuffle, PixelUnshuffle, Upsample
from xnn.layers.scale import LayerScale

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "Attend",
    "AvgPool",
    "BatchNorm",
    "Conv",
    "ConvLSTMCell",
    "ConvLocal",
    "ConvTranspose",
    "Dense",
    "DepthwiseConv",
    "Dropout",
    "Elu",
    "Embedding",
    "Exp",
    "FanInConcat",
    "FanInSum",
    "FanOut",
    "Flatten",
    "GRUCell",
    "Gelu",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "GlobalSumPool",
    "GroupNorm",
    "Identity",
    "InstanceNorm",
    "LSTMCell",
    "LayerNorm",
    "LayerScale",
    "LeakyRelu",
    "LogSoftmax",
    "MaxPool",
    "Pad",
    "PixelShuffle",
    "PixelUnshuffle",
    "RMSNorm",
    "RNNCell",
    "Relu",
    "Reshape",
    "Selu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "SumPool",
    "Tanh",
    "Upsample",
    "bidirectional",
    "elementwise",
    "scan_over_time",
]
