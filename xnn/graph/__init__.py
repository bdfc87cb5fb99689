"""Graphs: `Graph` and its batches, adjacency matrices and their normalisation, layers that pass messages."""

from xnn.graph.adjacency import as_adjacency, as_edges
from xnn.graph.batch import at_edges, at_nodes, batch, pad, unbatch
from xnn.graph.edges import Edges
from xnn.graph.gcn import GCN, GraphConvolution
from xnn.graph.graph import Graph
from xnn.graph.normalize import normalized_adjacency
from xnn.graph.row_block import RowBlock, rows_moved, split_rows
from xnn.graph.segment import (
    segment_count,
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_softmax,
    segment_std,
    segment_sum,
    segment_top_k,
)

__all__ = [
    "GCN",
    "Edges",
    "Graph",
    "GraphConvolution",
    "RowBlock",
    "as_adjacency",
    "as_edges",
    "at_edges",
    "at_nodes",
    "batch",
    "normalized_adjacency",
    "pad",
    "rows_moved",
    "segment_count",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_prod",
    "segment_softmax",
    "segment_std",
    "segment_sum",
    "segment_top_k",
    "split_rows",
    "unbatch",
]
