"""The public names of `xnn`; `xnn/__init__.py` loads this file when one of them is first used."""

from xnn import graph, layers, losses, metrics, params, rng, sparse
from xnn.choice import switch
from xnn.combinators import named, parallel, renamed, repeat, residual, serial, whole
from xnn.compose import composite, lambda_
from xnn.composites import combine
from xnn.description import describe
from xnn.generation import filter_logits, generate, sample
from xnn.graph.layers.gcn import GCN, GraphConvolution
from xnn.graph.layers.normalize import normalized_adjacency
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

__all__ = [
    "CSR", "GCN", "CacheFns", "GraphConvolution", "Layer", "Policy", "RowKey", "StateFns", "auxiliary_loss", "combine",
    "composite", "describe", "filter_logits", "generate", "graph", "init_carry", "lambda_", "layers", "losses",
    "metrics", "named", "normalized_adjacency", "parallel", "params", "renamed", "repeat", "residual", "rng", "sample",
    "serial", "shared", "sparse", "spectral_norm", "switch", "weight_norm", "whole", "with_precision", "with_remat",
    "with_shared"]
__all__ += layers.__all__
