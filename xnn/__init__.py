"""xnn: layers as pairs of pure functions, on xjax.

A layer unpacks as ``init, apply``; `serial` and `parallel` make layers of layers; `GCN` is one, and `models` has more.
`stax` and `optimizers` have the API of JAX's example libraries, `optim` is optax.
"""

import importlib

from xnn import graph, layers, losses, metrics, params, rng, sparse
from xnn.choice import switch
from xnn.combinators import named, parallel, renamed, repeat, residual, serial
from xnn.compose import composite, lambda_
from xnn.describe import describe
from xnn.generation import filter_logits, generate, sample
from xnn.graph import GCN, GraphConvolution, normalized_adjacency
from xnn.layer import CacheFns, Layer, StateFns
from xnn.layers import *
from xnn.layers.experts import auxiliary_loss
from xnn.layers.scan import init_carry
from xnn.precision import Policy, with_precision
from xnn.remat import with_remat
from xnn.rng import RowKey
from xnn.sharing import shared, with_shared
from xnn.sparse import CSR
from xnn.weights import spectral_norm, weight_norm

# Loaded when they are asked for: optax takes longer to import than all of xnn, and few programs use the others.
_LAZY = ("models", "optim", "optimizers", "pretrained", "stax")


def __getattr__(name: str):
    if name in _LAZY:
        return importlib.import_module(f"xnn.{name}")
    raise AttributeError(f"module 'xnn' has no attribute {name!r}")


__all__ = [
    *layers.__all__,
    "CSR",
    "GCN",
    "CacheFns",
    "GraphConvolution",
    "Layer",
    "Policy",
    "RowKey",
    "StateFns",
    "auxiliary_loss",
    "composite",
    "describe",
    "filter_logits",
    "generate",
    "graph",
    "init_carry",
    "lambda_",
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
    "serial",
    "shared",
    "sparse",
    "spectral_norm",
    "switch",
    "weight_norm",
    "with_precision",
    "with_remat",
    "with_shared",
]
