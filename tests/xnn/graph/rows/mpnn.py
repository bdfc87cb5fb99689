"""Rows of MPNN."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from xjax import random
from xnn.graph.layers.mpnn import MPNN

REDUCE = {"sum": lambda rows: np.sum(rows, 0), "mean": lambda rows: np.mean(rows, 0),
          "max": lambda rows: np.max(rows, 0), "min": lambda rows: np.min(rows, 0)}


def received(graph, messages, reduction="sum"):
    """[n, f]: for each node the reduction of the messages [e, f] that it receives; 0 without messages."""
    out = np.zeros((graph.n_nodes, messages.shape[-1]))
    for node in range(graph.n_nodes):
        rows = [message for message, to in zip(messages, graph.receivers, strict=True) if to == node]
        if rows:
            out[node] = REDUCE[reduction](rows)
    return out


def dense(params, x):
    return x @ params["w"] + params.get("b", 0)


def relu(x):
    return np.maximum(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(params, x, h):
    """A GRU with one bias for all gates and one for the reset part."""
    zr, zu, zn = np.split(x @ params["w_in"] + params["b"], 3, -1)
    hr, hu, hn = np.split(h @ params["w_rec"], 3, -1)
    r, u = sigmoid(zr + hr), sigmoid(zu + hu)
    return (1 - u) * np.tanh(zn + r * (hn + params["b_rec"])) + u * h


def messages(params, x, graph, reduction):
    out = []
    n_in = x.shape[1]
    for k in range(graph.n_edges):
        z = relu(dense(params["edge_network"][0], graph.edge_features[k]))
        matrix = dense(params["edge_network"][2], z).reshape(n_in, -1)
        out.append(x[graph.senders[k]] @ matrix)
    n_out = params["edge_network"][2]["w"].shape[1] // n_in
    return received(graph, np.reshape(out, (-1, n_out)), reduction)


def mpnn(reduction="sum"):
    def value(params, x, graph):
        m = messages(params, x, graph, reduction)
        return m + (dense(params["root"], x) if "root" in params else params["bias"]["b"] if "bias" in params else 0)

    return value


def mpnn_gru(params, x, graph):
    for _ in range(3):
        x = gru(params["gru"], messages(params, x, graph, "sum"), x)
    return x


def linear(layer, params):
    """The weights of a Dense as a torch Linear."""
    import torch

    layer.weight.data = torch.tensor(np.array(params["w"]).T)
    if "b" in params and layer.bias is not None:
        layer.bias.data = torch.tensor(np.array(params["b"]))
    return layer


def nn_conv(aggr):
    def peer(params):
        import torch
        from torch_geometric.nn import NNConv

        one, _, two = params["edge_network"]
        network = torch.nn.Sequential(torch.nn.Linear(*one["w"].shape), torch.nn.ReLU(),
                                      torch.nn.Linear(*two["w"].shape))
        n_in, n_out = params["root"]["w"].shape
        layer = NNConv(n_in, n_out, network, aggr=aggr)      # it draws the network's weights again
        linear(network[0], one), linear(network[2], two)
        linear(layer.lin, params["root"])
        layer.bias.data = torch.tensor(np.array(params["root"]["b"]))
        return layer, lambda x, graph: layer(x, graph.edge_index, graph.features)

    return peer


ROWS = {
    "MPNN": GraphRow(MPNN(3, edge_features=2, hidden=(5,)), mpnn(), edge_features=2, peer=nn_conv("add")),
    "MPNN, mean": GraphRow(MPNN(3, edge_features=2, hidden=(5,), aggregate="mean"), mpnn("mean"), edge_features=2,
                           peer=nn_conv("mean")),
    "MPNN, max": GraphRow(MPNN(3, edge_features=2, hidden=(5,), aggregate="max"), mpnn("max"), edge_features=2,
                          peer=nn_conv("max")),
    "MPNN, without root": GraphRow(MPNN(3, edge_features=2, hidden=(5,), update=None), mpnn(), edge_features=2),
    "MPNN, GRU": GraphRow(MPNN(4, edge_features=2, hidden=(5,), update="gru", steps=3), mpnn_gru, edge_features=2,
                          tol=3.0),
}

WRONG = {
    "MPNN, unknown aggregate": (
        lambda: MPNN(3, edge_features=2, aggregate="median"), ValueError, ["MPNN", "aggregate", "median"]),
    "MPNN, steps without a GRU": (
        lambda: MPNN(3, edge_features=2, steps=2), ValueError, ["MPNN", "step", "gru"]),
    "MPNN, a GRU that changes the size": (
        lambda: MPNN(3, edge_features=2, update="gru").init(KEY, (-1, 4)), ValueError, ["MPNN", "Dense(3)"]),
    "MPNN, a graph without features of edges": (
        lambda: MPNN(3, edge_features=2).apply(
            MPNN(3, edge_features=2).init(KEY, (-1, 4))[1], random.normal(KEY, (2, 4)), np.eye(2, dtype=np.float32)),
        TypeError, ["MPNN", "edge features", "none"]),
}
