"""xnn: layers as pairs of pure functions, on xjax.

A layer unpacks as ``init, apply``; `serial` and `parallel` make layers of layers; `GCN` is one. `stax` and `optimizers`
have the API of JAX's example libraries, `optim` is optax.
"""

import importlib

from xnn import graph, layers, losses, metrics, params, rng, sparse
from xnn.combinators import named, parallel, renamed, repeat, residual, serial
from xnn.compose import composite
from xnn.describe import describe
from xnn.generation import filter_logits, generate, sample
from xnn.graph import GCN, GraphConvolution, normalized_adjacency
from xnn.layer import CacheFns, Layer, StateFns
from xnn.layers import (
    GRU,
    LSTM,
    RNN,
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    Attend,
    AvgPool,
    BatchNorm,
    Conv,
    ConvLocal,
    ConvLSTMCell,
    ConvTranspose,
    Dense,
    DepthwiseConv,
    Dropout,
    Elu,
    Embedding,
    Exp,
    FanInConcat,
    FanInSum,
    FanOut,
    Flatten,
    Gelu,
    GlobalAvgPool,
    GlobalMaxPool,
    GlobalSumPool,
    GroupNorm,
    GRUCell,
    Identity,
    InstanceNorm,
    LayerNorm,
    LayerScale,
    LeakyRelu,
    LogSoftmax,
    LSTMCell,
    MaxPool,
    Pad,
    PixelShuffle,
    PixelUnshuffle,
    Relu,
    Reshape,
    RMSNorm,
    RNNCell,
    Selu,
    Sigmoid,
    Softmax,
    Softplus,
    SumPool,
    Tanh,
    Upsample,
    bidirectional,
    elementwise,
    scan_over_time,
)
from xnn.layers.scan import init_carry
from xnn.precision import Policy, with_precision
from xnn.remat import with_remat
from xnn.rng import RowKey
from xnn.sharing import shared, with_shared
from xnn.sparse import CSR

# Loaded when they are asked for: optax takes longer to import than all of xnn, and few programs use the others.
_LAZY = ("models", "optim", "optimizers", "stax")


def __getattr__(name: str):
    if name in _LAZY:
        return importlib.import_module(f"xnn.{name}")
    raise AttributeError(f"module 'xnn' has no attribute {name!r}")


__all__ = [
    "CSR",
    "GCN",
    "GRU",
    "LSTM",
    "RNN",
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "Attend",
    "AvgPool",
    "BatchNorm",
    "CacheFns",
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
    "GraphConvolution",
    "GroupNorm",
    "Identity",
    "InstanceNorm",
    "LSTMCell",
    "Layer",
    "LayerNorm",
    "LayerScale",
    "LeakyRelu",
    "LogSoftmax",
    "MaxPool",
    "Pad",
    "PixelShuffle",
    "PixelUnshuffle",
    "Policy",
    "RMSNorm",
    "RNNCell",
    "Relu",
    "Reshape",
    "RowKey",
    "Selu",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "StateFns",
    "SumPool",
    "Tanh",
    "Upsample",
    "bidirectional",
    "composite",
    "describe",
    "elementwise",
    "filter_logits",
    "generate",
    "graph",
    "init_carry",
    "layers",
    "losses",
    "metrics",
    "named",
    "normalized_adjacency",
    "parallel",
    "params",
    "renamed",
    "repeat",
    "residual",
    "rng",
    "sample",
    "scan_over_time",
    "serial",
    "shared",
    "sparse",
    "with_precision",
    "with_remat",
    "with_shared",
]
