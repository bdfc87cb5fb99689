"""Rows of GatedGraphConvolution and GatedGraph; GatedGCN has its own file, `test_gated.py`."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from tests.xnn.graph.rows.mpnn import dense, gru, linear, received, sigmoid
from xjax import random
from xnn.graph.layers.gated import GatedGCN, GatedGraph, GatedGraphConvolution


def gated_convolution(params, x, graph):
    messages = []
    for k in range(graph.n_edges):
        sender, receiver = x[graph.senders[k]], x[graph.receivers[k]]
        gate = dense(params["key"], receiver) + dense(params["query"], sender)
        value = dense(params["value"], sender)
        if "edge_gate" in params:
            gate = gate + dense(params["edge_gate"], graph.edge_features[k])
            value = value + dense(params["edge_value"], graph.edge_features[k])
        messages.append(sigmoid(gate) * value)
    total = received(graph, np.reshape(messages, (-1, params["key"]["w"].shape[1])))
    return total + (dense(params["root"], x) if "root" in params else params["bias"]["b"])


def gated_graph(reduction="sum", shared=False):
    def value(params, x, graph):
        n_out = params["gru"]["w_rec"].shape[0]
        x = np.concatenate([x, np.zeros((len(x), n_out - x.shape[1]))], 1)
        weight = np.ones(graph.n_edges) if graph.weight is None else graph.weight
        for i in range(3):
            h = dense(params[f"message{0 if shared else i}"], x)
            x = gru(params["gru"], received(graph, weight[:, None] * h[graph.senders], reduction), x)
        return x

    return value


def res_gated(edge_features):
    def peer(params):
        import torch
        from torch_geometric.nn import ResGatedGraphConv

        n_in, n_out = params["key"]["w"].shape
        layer = ResGatedGraphConv(n_in, n_out, edge_dim=edge_features)
        joined = {key: np.array(params[key]["w"]) for key in ("key", "query", "value")}
        if edge_features:                               # the gate's part from edges may be in either of the two
            joined["key"] = np.concatenate([joined["key"], np.array(params["edge_gate"]["w"])])
            joined["query"] = np.concatenate([joined["query"], np.zeros((edge_features, n_out), np.float32)])
            joined["value"] = np.concatenate([joined["value"], np.array(params["edge_value"]["w"])])
        for key, w in joined.items():
            linear(getattr(layer, f"lin_{key}"), {"w": w, "b": params[key]["b"]})
        linear(layer.lin_skip, params["root"])
        layer.bias.data = torch.tensor(np.array(params["root"]["b"]))
        return layer, lambda x, graph: layer(x, graph.edge_index, graph.features)

    return peer


def gated_graph_peer(params):
    import torch
    from torch_geometric.nn import GatedGraphConv

    n = params["gru"]["w_rec"].shape[0]
    layer = GatedGraphConv(n, 3)
    layer.weight.data = torch.tensor(np.stack([params[f"message{i}"]["w"] for i in range(3)]))
    own = {key: torch.tensor(np.array(value)) for key, value in params["gru"].items()}
    layer.rnn.weight_ih.data, layer.rnn.weight_hh.data = own["w_in"].T, own["w_rec"].T
    layer.rnn.bias_ih.data = own["b"]
    layer.rnn.bias_hh.data = torch.cat([torch.zeros(2 * n), own["b_rec"]])
    return layer, lambda x, graph: layer(x, graph.edge_index, graph.weight)


ROWS = {
    "GatedGraphConvolution": GraphRow(GatedGraphConvolution(3), gated_convolution, peer=res_gated(None)),
    "GatedGraphConvolution, features of edges": GraphRow(GatedGraphConvolution(3, edge_features=2), gated_convolution,
                                                         edge_features=2, peer=res_gated(2)),
    "GatedGraphConvolution, without root": GraphRow(GatedGraphConvolution(3, root=False), gated_convolution),
    "GatedGraph": GraphRow(GatedGraph(6, 3), gated_graph(), weights=True, peer=gated_graph_peer, tol=3.0),
    "GatedGraph, mean, one matrix": GraphRow(GatedGraph(6, 3, aggregate="mean", shared=True), gated_graph("mean", True),
                                             weights=True, tol=3.0),
}

WRONG = {
    "GatedGraphConvolution, a graph without features of edges": (
        lambda: GatedGraphConvolution(3, edge_features=2).apply(
            GatedGraphConvolution(3, edge_features=2).init(KEY, (-1, 4))[1], random.normal(KEY, (2, 4)),
            np.eye(2, dtype=np.float32)), TypeError, ["GatedGraphConvolution", "edge features"]),
    "GatedGraph, no step": (lambda: GatedGraph(3, 0), ValueError, ["GatedGraph", "step"]),
    "GatedGraph, unknown aggregate": (
        lambda: GatedGraph(3, 1, aggregate="add"), ValueError, ["GatedGraph", "aggregate", "add"]),
    "GatedGraph, a state smaller than the input": (
        lambda: GatedGraph(3, 1).init(KEY, (-1, 4)), ValueError, ["GatedGraph", "n_out >= 4"]),
    "GatedGCN, x is not a pair": (
        lambda: GatedGCN(3).init(KEY, (-1, 4)), TypeError, ["GatedGCN", "pair"]),
    "GatedGCN, a row too few": (
        lambda: GatedGCN(3).apply(GatedGCN(3).init(KEY, ((-1, 4), (-1, 2)))[1],
                                  (random.normal(KEY, (2, 4)), random.normal(KEY, (1, 2))),
                                  (([0, 1], [1, 0]), np.ones(2, np.float32))), ValueError,
        ["GatedGCN", "one row for each edge"]),
}
