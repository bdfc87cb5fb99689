"""Rows of GraphSAGE."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from tests.xnn.graph.rows.spectral import tensor
from xnn import CSR
from xnn.graph import Graph
from xnn.graph.layers.sage import GraphSAGE


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def lstm(params, rows):
    h = c = np.zeros(params["w_rec"].shape[0])
    for x in rows:
        i, f, g, o = np.split(x @ params["w_in"] + h @ params["w_rec"] + params["b"], 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return h


def sage(reduce, normalize=False):
    """Args: reduce: ``(params, rows of the neighbours) -> row``; a node without neighbours gets zeros."""
    def value(params, x, graph):
        h = np.maximum(x @ params["w_project"] + params["b_project"], 0) if "w_project" in params else x
        y = []
        for i in range(graph.n_nodes):
            rows = h[graph.senders[graph.receivers == i]]
            aggregate = reduce(params, rows) if len(rows) else np.zeros(x.shape[1])
            own = x[i] @ params["w_own"] if "w_own" in params else 0
            y.append(own + aggregate @ params["w"] + params.get("b", 0))
        y = np.array(y)
        return y / np.maximum(np.linalg.norm(y, axis=1, keepdims=True), 1e-12) if normalize else y
    return value


def mean(params, rows):
    return rows.mean(0)


def largest(params, rows):
    return rows.max(0)


def total(params, rows):
    return rows.sum(0)


def sage_peer(aggr="mean", **options):
    def peer(params):
        from torch_geometric.nn import SAGEConv
        n_in, n_out = params["w"].shape
        aggregator = packed_lstm(n_in) if aggr == "lstm" else aggr
        layer = SAGEConv(n_in, n_out, aggregator, root_weight="w_own" in params, bias="b" in params,
                         project="w_project" in params, **options)
        if aggr == "lstm":                                         # after the layer, which draws new weights
            cell, w = aggregator.lstm, params["lstm"]
            cell.weight_ih_l0.data, cell.weight_hh_l0.data = tensor(w["w_in"]).T, tensor(w["w_rec"]).T
            cell.bias_ih_l0.data, cell.bias_hh_l0.data = tensor(w["b"]), 0 * tensor(w["b"])
        layer.lin_l.weight.data = tensor(params["w"]).T
        if "b" in params:
            layer.lin_l.bias.data = tensor(params["b"])
        if "w_own" in params:
            layer.lin_r.weight.data = tensor(params["w_own"]).T
        if "w_project" in params:
            layer.lin.weight.data, layer.lin.bias.data = tensor(params["w_project"]).T, tensor(params["b_project"])
        return layer, lambda x, graph: layer(x, graph.edge_index)
    return peer


def packed_lstm(n):
    """PyTorch Geometric's LSTMAggregation, without reading the zeros after a node's last neighbour."""
    import torch
    from torch_geometric.nn.aggr import LSTMAggregation

    class Packed(LSTMAggregation):
        def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2, max_num_elements=None):
            rows, counts = self.to_dense_batch(x, index, ptr, dim_size, dim)
            y, lengths = self.lstm(rows)[0], counts.sum(1)
            last = y[torch.arange(len(y)), (lengths - 1).clamp(min=0)]
            return torch.where((lengths > 0)[:, None], last, torch.zeros(()))

    return Packed(n, n)


def read(params, rows):
    return lstm(params["lstm"], rows)


ROWS = {
    "GraphSAGE": GraphRow(GraphSAGE(3), sage(mean), sparse=True, peer=sage_peer()),
    "GraphSAGE, more features than before": GraphRow(GraphSAGE(6, bias=False), sage(mean), weights=True, sparse=True,
                                               peer=sage_peer()),
    "GraphSAGE, of length one": GraphRow(GraphSAGE(3, normalize=True), sage(mean, True),
                                         peer=sage_peer(normalize=True)),
    "GraphSAGE, max": GraphRow(GraphSAGE(3, "max"), sage(largest), peer=sage_peer("max")),
    "GraphSAGE, pooling": GraphRow(GraphSAGE(3, "max", project=True), sage(largest), sparse=True,
                                   peer=sage_peer("max")),
    "GraphSAGE, sum": GraphRow(GraphSAGE(3, "sum", own=False), sage(total), peer=sage_peer("sum")),
    "GraphSAGE, lstm": GraphRow(GraphSAGE(3, "lstm", max_degree=6, project=True), sage(read), ordered=True,
                                peer=sage_peer("lstm"), tol=3),
}


def three_edges_to_one_node(layer):
    graph = Graph.from_edges([0, 1, 2], [3, 3, 3], np.ones((4, 2), np.float32))
    return layer.apply(layer.init(KEY, (-1, 2))[1], graph.nodes, graph)


def of_sparse_features(layer):
    x = CSR.from_dense(np.eye(2, dtype=np.float32))
    return layer.apply(layer.init(KEY, x.shape)[1], x, np.eye(2, dtype=np.float32))


WRONG = {
    "GraphSAGE, largest of sparse features": (
        lambda: of_sparse_features(GraphSAGE(3, "max")), TypeError,
        ["GraphSAGE", "'max'", "sparse f32[2,2]", "project=True"]),
    "GraphSAGE, an LSTM on sparse features": (
        lambda: of_sparse_features(GraphSAGE(3, "lstm", max_degree=2)), TypeError, ["GraphSAGE", "'lstm'"]),
    "GraphSAGE, an unknown aggregator": (lambda: GraphSAGE(3, "median"), ValueError, ["GraphSAGE", "'median'"]),
    "GraphSAGE, an LSTM without bound": (lambda: GraphSAGE(3, "lstm"), ValueError, ["GraphSAGE", "max_degree"]),
    "GraphSAGE, a bound without LSTM": (lambda: GraphSAGE(3, max_degree=5), ValueError,
                                        ["GraphSAGE", "max_degree  5", "'mean'"]),
    "GraphSAGE, more edges than the bound": (
        lambda: three_edges_to_one_node(GraphSAGE(3, "lstm", max_degree=2)), ValueError,
        ["GraphSAGE", "more edges", "node        3", "3", "max_degree  2", "max_degree=3"]),
    "GraphSAGE, LSTM params missing": (
        lambda: GraphSAGE(3, "lstm", max_degree=2).apply(GraphSAGE(3).init(KEY, (-1, 2))[1],
                                                         np.ones((2, 2), np.float32), np.eye(2)),
        TypeError, ["LSTMCell", "params"]),
}
