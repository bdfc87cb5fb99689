"""Rows of EdgeConv and PointNet; `knn_edges` and the dynamic form are in `tests/xnn/graph/test_edge_conv.py`."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from tests.xnn.graph.rows.mpnn import dense, linear, received
from xjax import random
from xnn import Dense, Tanh, serial
from xnn.graph.layers.edge_conv import EdgeConv, PointNet, knn_edges


def edge_conv(reduction):
    def value(params, x, graph):
        one, _, two = params["network"]
        messages = [dense(two, np.tanh(dense(one, np.concatenate([x[i], x[j] - x[i]]))))
                    for j, i in zip(graph.senders, graph.receivers, strict=True)]
        return received(graph, np.reshape(messages, (-1, two["w"].shape[1])), reduction)

    return value


def point_net(self_loops):
    def value(params, x, graph, positions):
        out = []
        for i in range(graph.n_nodes):
            senders = [*graph.senders[graph.receivers == i], *([i] if self_loops else [])]
            messages = [dense(params["local"], np.concatenate([x[j], positions[j] - positions[i]])) for j in senders]
            out.append(np.max(messages, 0) if messages else np.zeros(params["local"]["w"].shape[1]))
        return dense(params["whole"], np.array(out)) if "whole" in params else np.array(out)

    return value


def edge_conv_peer(aggr):
    def peer(params):
        import torch
        from torch_geometric.nn import EdgeConv

        one, _, two = params["network"]
        network = torch.nn.Sequential(torch.nn.Linear(*one["w"].shape), torch.nn.Tanh(),
                                      torch.nn.Linear(*two["w"].shape))
        layer = EdgeConv(network, aggr=aggr)                   # it draws the network's weights again
        linear(network[0], one), linear(network[2], two)
        return layer, lambda x, graph: layer(x, graph.edge_index)

    return peer


NETWORK = serial(Dense(5), Tanh, Dense(3))
POSITIONS = {"positions": lambda npr, graph: npr.normal(size=(graph.n_nodes, 2))}
ROWS = {
    "EdgeConv": GraphRow(EdgeConv(NETWORK), edge_conv("max"), peer=edge_conv_peer("max")),
    "EdgeConv, mean": GraphRow(EdgeConv(NETWORK, aggregate="mean"), edge_conv("mean"), peer=edge_conv_peer("mean")),
    "PointNet": GraphRow(PointNet(Dense(5), Dense(3)), point_net(True), extra=POSITIONS),
    "PointNet, neighbours only": GraphRow(PointNet(Dense(5), self_loops=False), point_net(False), extra=POSITIONS),
}

WRONG = {
    "EdgeConv, unknown aggregate": (
        lambda: EdgeConv(NETWORK, aggregate="add"), ValueError, ["EdgeConv", "aggregate", "add"]),
    "EdgeConv, no neighbour": (lambda: EdgeConv(NETWORK, k=0), ValueError, ["EdgeConv", "neighbour"]),
    "knn_edges, no neighbour": (lambda: knn_edges(np.eye(2), 0), ValueError, ["knn_edges", "neighbour"]),
    "knn_edges, ids of other nodes": (
        lambda: knn_edges(np.eye(2), 1, np.zeros(3, int)), ValueError, ["knn_edges", "graph_ids"]),
    "PointNet, no shape of positions": (
        lambda: PointNet(Dense(3)).init(KEY, (-1, 4)), TypeError, ["PointNet", "positions"]),
    "PointNet, a position too few": (
        lambda: PointNet(Dense(3)).apply(PointNet(Dense(3)).init(KEY, (-1, 4), positions=(-1, 2))[1],
                                         random.normal(KEY, (2, 4)), np.eye(2), random.normal(KEY, (1, 2))),
        ValueError, ["PointNet", "one position"]),
}
