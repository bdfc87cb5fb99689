"""Rows of GraphConvolution."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from xnn import GraphConvolution


def matrix(graph, weighted=True):
    """Dense adjacency in float64: entry [receiver, sender]."""
    a = np.zeros((graph.n_nodes, graph.n_nodes))
    weight = graph.weight if weighted and graph.weight is not None else np.ones(graph.n_edges)
    np.add.at(a, (graph.receivers, graph.senders), weight)
    return a


def symmetric(a, self_loops=True):
    """D^-1/2 (A + I) D^-1/2."""
    a = a + np.eye(len(a)) if self_loops else a
    degree = a.sum(1)
    with np.errstate(divide="ignore"):
        scale = np.where(degree > 0, degree ** -0.5, 0)
    return scale[:, None] * a * scale


def convolution(params, x, graph):
    w, b = params
    return symmetric(matrix(graph)) @ x @ w + b


def gcn_peer(params):
    import torch
    from torch_geometric.nn import GCNConv

    layer = GCNConv(params[0].shape[0], params[0].shape[1])
    layer.lin.weight.data, layer.bias.data = torch.tensor(np.array(params[0]).T), torch.tensor(np.array(params[1]))
    return layer, lambda x, graph: layer(x, graph.edge_index, graph.weight)


ROWS = {
    "GraphConvolution": GraphRow(GraphConvolution(3, norm="symmetric"), convolution, weights=True, peer=gcn_peer),
    "GraphConvolution, as it is": GraphRow(GraphConvolution(3), lambda p, x, graph: matrix(graph) @ x @ p[0] + p[1],
                                           weights=True),
}

WRONG = {
    "GraphConvolution, an unknown norm": (
        lambda: GraphConvolution(3, norm="both"), ValueError, ["GraphConvolution", "unknown norm", "both"]),
    "GraphConvolution, features as integers": (
        lambda: GraphConvolution(3).init(KEY, 4), TypeError, ["GraphConvolution", "shape"]),
}
