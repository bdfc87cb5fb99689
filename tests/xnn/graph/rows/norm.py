"""Rows of norms over the nodes of each graph."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from tests.xnn.graph.rows.pooling import members
from xnn import Layer
from xnn.graph.layers.norm import GraphNorm, GraphSizeNorm, MessageNorm, PairNorm
from xnn.graph.structure.adjacency import as_edges


def by_graph(normalize):
    return lambda params, x, graph: np.concatenate([normalize(params, x[nodes]) for nodes in members(graph)])


def graph_norm(params, x):
    h = x - params["mean_scale"] * x.mean(0)
    return params["scale"] * h / np.sqrt((h ** 2).mean(0) + 1e-5) + params["bias"]


def pair_norm(params, x):
    h = x - x.mean(0)
    return 2.0 * h / np.sqrt((h ** 2).sum(1).mean() + 1e-5)


def pair_norm_individually(params, x):
    h = x - x.mean(0)
    return h / (np.sqrt((h ** 2).sum(1, keepdims=True)) + 1e-5)


def message_norm(params, x, graph):
    norm = lambda rows: np.sqrt((rows ** 2).sum(1, keepdims=True))
    return params["scale"] * norm(x ** 2) * x / norm(x)


def squared_nodes(norm):
    """The norm as a layer on a graph: the messages are x, and the nodes x squared."""
    def apply(params, x, graph, *, rng=None, train=False):
        as_edges(graph, x, "messages")
        return norm.apply(params, x, x * x)
    return Layer(norm.init, apply, "messages")


def peer(name, **options):
    def build(params):
        import torch
        import torch_geometric.nn as pyg

        module = getattr(pyg, name)(**options)
        if name == "GraphNorm":
            ours = {"weight": "scale", "bias": "bias", "mean_scale": "mean_scale"}
            module.load_state_dict({key: torch.tensor(np.array(params[value])) for key, value in ours.items()})
        if name == "MessageNorm":
            module.scale.data = torch.tensor(np.array(params["scale"]))
            return module, lambda x, graph: module(x * x, x)
        return module, lambda x, graph: module(x, graph.batch)
    return build


ROWS = {
    "GraphNorm": GraphRow(GraphNorm(), by_graph(graph_norm), peer=peer("GraphNorm", in_channels=4)),
    "PairNorm": GraphRow(PairNorm(2.0), by_graph(pair_norm), peer=peer("PairNorm", scale=2.0)),
    "PairNorm, individually": GraphRow(PairNorm(individually=True), by_graph(pair_norm_individually),
                                       peer=peer("PairNorm", scale_individually=True)),
    "GraphSizeNorm": GraphRow(GraphSizeNorm(), by_graph(lambda params, x: x / np.sqrt(len(x))),
                              peer=peer("GraphSizeNorm")),
    "MessageNorm, of the squares": GraphRow(squared_nodes(MessageNorm(learn_scale=True)), message_norm,
                                            peer=peer("MessageNorm", learn_scale=True)),
}

WRONG = {
    "GraphNorm, a vector": (lambda: GraphNorm().init(KEY, (4,)), TypeError, ["GraphNorm", "shape"]),
    "GraphNorm, params of another size": (
        lambda: GraphNorm().apply(GraphNorm().init(KEY, (-1, 3))[1], np.ones((2, 4), np.float32), np.eye(2)),
        TypeError, ["GraphNorm", "mean_scale"]),
    "PairNorm, another number of nodes": (
        lambda: PairNorm().apply((), np.ones((3, 1), np.float32), np.ones((2, 2), np.float32)), ValueError,
        ["PairNorm", "2 nodes", "3 rows"]),
}
