"""Graphs: adjacency matrices, their normalisation, graph convolutions."""

from xnn.graph.adjacency import as_adjacency
from xnn.graph.gcn import GCN, GraphConvolution
from xnn.graph.normalize import normalized_adjacency

__all__ = ["GCN", "GraphConvolution", "as_adjacency", "normalized_adjacency"]
