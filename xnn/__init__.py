"""xnn: layers as pairs of pure functions, on xjax.

A layer unpacks as ``init, apply``; `serial` and `parallel` make layers of layers; `GCN` is one. `stax` and `optimizers`
have the API of JAX's example libraries, `optim` is optax.
"""

import importlib

from xnn import graph, layers, params, rng, sparse
from xnn.combinators import named, parallel, renamed, repeat, residual, serial
from xnn.compose import composite
from xnn.describe import describe
from xnn.generation import filter_logits, generate, sample
from xnn.graph import GCN, GraphConvolution, normalized_adjacency
from xnn.layer import CacheFns, Layer, StateFns
from xnn.layers import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    Attend,
    AvgPool,
    BatchNorm,
    Conv,
    ConvLocal,
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
    Identity,
    InstanceNorm,
    LayerNorm,
    LayerScale,
    LeakyRelu,
    LogSoftmax,
    MaxPool,
    Pad,
    PixelShuffle,
    PixelUnshuffle,
    Relu,
    Reshape,
    RMSNorm,
    Selu,
    Sigmoid,
    Softmax,
    Softplus,
    SumPool,
    Tanh,
    Upsample,
    elementwise,
)
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
    "AdaptiveAvgPool",
    "AdaptiveMaxPool",
    "Attend",
    "AvgPool",
    "BatchNorm",
    "CacheFns",
    "Conv",
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
    "Gelu",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "GlobalSumPool",
    "GraphConvolution",
    "GroupNorm",
    "Identity",
    "InstanceNorm",
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
    "composite",
    "describe",
    "elementwise",
    "filter_logits",
    "generate",
    "graph",
    "layers",
    "named",
    "normalized_adjacency",
    "parallel",
    "params",
    "renamed",
    "repeat",
    "residual",
    "rng",
    "sample",
    "serial",
    "shared",
    "sparse",
    "with_precision",
    "with_remat",
    "with_shared",
]
