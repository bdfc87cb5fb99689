"""Rows of GIN and GINE."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from tests.xnn.graph.rows.spectral import tensor
from xnn import Dense, Dropout, Relu, serial
from xnn.graph import Graph
from xnn.graph.layers.gin import GIN, GINE

MLP = serial(Dense(5), Relu, Dense(3))


def mlp(params, h):
    first, _, last = params
    return np.maximum(h @ first["w"] + first["b"], 0) @ last["w"] + last["b"]


def gin(eps=0.0, edges=False):
    def value(params, x, graph):
        own = params["aggregate"] or {}
        y = (1 + own.get("eps", eps)) * x
        for k, (j, i) in enumerate(zip(graph.senders, graph.receivers, strict=True)):
            message = x[j]
            if edges:
                e = graph.edge_features[k]
                if graph.weight is not None and len(e) < len(own.get("w_edge", x.T)):
                    e = np.append(e, graph.weight[k])
                message = np.maximum(message + (e @ own["w_edge"] + own["b_edge"] if "w_edge" in own else e), 0)
            y[i] = y[i] + message
        return mlp(params["mlp"][:2] + params["mlp"][-1:], y)
    return value


def gin_peer(eps=0.0, train_eps=False, edge_dim=None, edges=False):
    def peer(params):
        import torch
        from torch_geometric.nn import GINConv, GINEConv
        first, *_, last = params["mlp"]
        net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))
        own = params["aggregate"] or {}
        layer = GINEConv(net, eps, train_eps, edge_dim) if edges else GINConv(net, eps, train_eps)
        for module, ours in ((net[0], first), (net[2], last)):            # after the layer, which draws new weights
            module.weight.data, module.bias.data = tensor(ours["w"]).T, tensor(ours["b"])
        if train_eps:
            layer.eps.data = tensor(own["eps"])[None]
        if "w_edge" in own:
            layer.lin.weight.data, layer.lin.bias.data = tensor(own["w_edge"]).T, tensor(own["b_edge"])
        features = (lambda graph: (graph.features,)) if edges else (lambda graph: ())
        return layer, lambda x, graph: layer(x, graph.edge_index, *features(graph))
    return peer


ROWS = {
    "GIN": GraphRow(GIN(MLP), gin(), peer=gin_peer()),
    "GIN, an eps": GraphRow(GIN(MLP, 0.4), gin(0.4), weights=True, peer=gin_peer(0.4)),
    "GIN, a trained eps": GraphRow(GIN(MLP, 0.4, True), gin(), peer=gin_peer(0.4, True)),
    "GIN, dropout in its network": GraphRow(GIN(serial(Dense(5), Relu, Dropout(0.5), Dense(3))), gin(), random=True,
                                            peer=gin_peer()),
    "GINE": GraphRow(GINE(MLP, edge_features=2), gin(edges=True), edge_features=2,
                     peer=gin_peer(edge_dim=2, edges=True)),
    "GINE, features of the size of the nodes'": GraphRow(GINE(MLP, 0.3), gin(0.3, edges=True), edge_features=4,
                                                         peer=gin_peer(0.3, edges=True)),
    "GINE, a trained eps": GraphRow(GINE(MLP, 0.3, True, edge_features=2), gin(edges=True), edge_features=2,
                                    peer=gin_peer(0.3, True, 2, edges=True)),
    "GINE, weights as a feature": GraphRow(GINE(MLP, edge_features=3), gin(edges=True), weights=True, edge_features=2),
    "GINE, weights without effect": GraphRow(GINE(MLP), gin(edges=True), weights=True, edge_features=4,
                                             peer=gin_peer(edges=True)),
}


def without_edge_features(layer):
    graph = Graph.from_edges([0], [1], np.ones((2, 4), np.float32))
    return layer.apply(layer.init(KEY, (-1, 4))[1], graph.nodes, graph)


WRONG = {
    "GIN, a function as network": (lambda: GIN(Dense), TypeError, ["GIN", "not a layer"]),
    "GIN, params of another": (
        lambda: GIN(MLP, train_eps=True).apply(GIN(MLP).init(KEY, (-1, 4))[1], np.ones((2, 4), np.float32),
                                               np.eye(2)), TypeError, ["GIN", "eps"]),
    "GINE, no features of an edge": (lambda: GINE(MLP, edge_features=0), ValueError, ["GINE", "at least 1"]),
    "GINE, edges without features": (lambda: without_edge_features(GINE(MLP)), ValueError,
                                     ["GINE", "4 features of each edge", "has 0"]),
}
