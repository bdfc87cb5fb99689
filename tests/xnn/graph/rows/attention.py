"""Rows of GAT, GATv2 and GraphTransformer."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from tests.xnn.graph.rows.spectral import tensor
from xnn.graph import Graph
from xnn.graph.layers.attention import GAT, GATv2, GraphTransformer


def leaky(z, slope=0.2):
    return np.where(z >= 0, z, slope * z)


def edges_to(graph, i, loops):
    """(Sender, edge features) of the edges to node i; with `loops` also a self loop, with the mean features."""
    incoming = [(j, None if graph.edge_features is None else graph.edge_features[k])
                for k, (j, to) in enumerate(zip(graph.senders, graph.receivers, strict=True)) if to == i]
    if not loops:
        return incoming
    incoming = [(j, e) for j, e in incoming if j != i]
    if graph.edge_features is None:
        return [*incoming, (i, None)]
    own = np.mean([e for _, e in incoming], axis=0) if incoming else np.zeros(graph.edge_features.shape[1])
    return [*incoming, (i, own)]


def attended(graph, heads, n_out, loops, score, message):
    """[n, heads, n_out]; score and message are functions of (head, sender, receiver, edge features)."""
    y = np.zeros((graph.n_nodes, heads, n_out))
    for i in range(graph.n_nodes):
        edges = edges_to(graph, i, loops)
        for h in range(heads):
            grown = [np.exp(score(h, j, i, e)) for j, e in edges]
            for (j, e), g in zip(edges, grown, strict=True):
                y[i, h] += g / sum(grown) * message(h, j, e)
    return y


def finished(params, x, y, concat):
    y = y.reshape(len(y), -1) if concat else y.mean(1)
    y = y + x @ params["w_residual"] if "w_residual" in params else y
    return y + params.get("b", 0)


def gat(heads, n_out, concat=True, loops=True, slope=0.2):
    def value(params, x, graph):
        h = (x @ params["w"]).reshape(len(x), heads, n_out)

        def score(k, j, i, e):
            z = params["a_sender"][k] @ h[j, k] + params["a_receiver"][k] @ h[i, k]
            if "w_edge" in params:
                z = z + params["a_edge"][k] @ (e @ params["w_edge"]).reshape(heads, n_out)[k]
            return leaky(z, slope)

        return finished(params, x, attended(graph, heads, n_out, loops, score, lambda k, j, e: h[j, k]), concat)
    return value


def gatv2(heads, n_out, concat=True, loops=True):
    def value(params, x, graph):
        of = lambda name: (x @ params[f"w_{name}"] + params.get(f"b_{name}", 0)).reshape(len(x), heads, n_out)
        sent = of("sender")
        received = of("receiver") if "w_receiver" in params else sent

        def score(k, j, i, e):
            z = sent[j, k] + received[i, k]
            if "w_edge" in params:
                z = z + (e @ params["w_edge"]).reshape(heads, n_out)[k]
            return params["a"][k] @ leaky(z)

        return finished(params, x, attended(graph, heads, n_out, loops, score, lambda k, j, e: sent[j, k]), concat)
    return value


def transformer(heads, n_out, concat=True):
    def value(params, x, graph):
        of = lambda name: (x @ params[f"w_{name}"] + params.get(f"b_{name}", 0)).reshape(len(x), heads, n_out)
        query, key, v = of("query"), of("key"), of("value")
        edge = lambda k, e: (e @ params["w_edge"]).reshape(heads, n_out)[k] if "w_edge" in params else 0
        score = lambda k, j, i, e: query[i, k] @ (key[j, k] + edge(k, e)) / np.sqrt(n_out)
        y = attended(graph, heads, n_out, False, score, lambda k, j, e: v[j, k] + edge(k, e))
        y = y.reshape(len(y), -1) if concat else y.mean(1)
        if "w_residual" not in params:
            return y
        skip = x @ params["w_residual"] + params.get("b_residual", 0)
        if "w_gate" not in params:
            return y + skip
        gate = 1 / (1 + np.exp(-np.concatenate([y, skip, y - skip], 1) @ params["w_gate"]))
        return gate * skip + (1 - gate) * y
    return value


def of_weights(value):
    """The value for a graph whose weights are its only edge feature."""
    def of_weighted(params, x, graph):
        return value(params, x, Graph(graph.nodes, graph.weight[:, None], *graph_fields(graph)))
    return of_weighted


def graph_fields(graph):
    return graph.senders, graph.receivers, graph.globals, graph.n_node, graph.n_edge


# -- peers ----------------------------------------------------------------------------------------------------------


def loaded(layer, params, matrices, vectors):
    """The module with xnn's params: name of the module -> name in params. Its attention vectors have one more axis."""
    for theirs, ours in matrices.items():
        if ours in params:
            getattr(layer, theirs).weight.data = tensor(params[ours]).T
    for theirs, ours in vectors.items():
        if ours in params:
            owner, _, name = theirs.rpartition(".")
            value = tensor(params[ours])
            setattr(getattr(layer, owner) if owner else layer, name,
                    __import__("torch").nn.Parameter(value[None] if ours.startswith("a") else value))
    return layer, lambda x, graph: layer(x, graph.edge_index, graph.features)


def gat_peer(n_out, heads, **options):
    def peer(params):
        from torch_geometric.nn import GATConv
        layer = GATConv(4, n_out, heads, bias="b" in params, **options)
        return loaded(layer, params, {"lin": "w", "lin_edge": "w_edge", "res": "w_residual"},
                      {"att_src": "a_sender", "att_dst": "a_receiver", "att_edge": "a_edge", "bias": "b"})
    return peer


def gatv2_peer(n_out, heads, **options):
    def peer(params):
        from torch_geometric.nn import GATv2Conv
        layer = GATv2Conv(4, n_out, heads, bias="b" in params, **options)
        return loaded(layer, params, {"lin_l": "w_sender", "lin_r": "w_receiver", "lin_edge": "w_edge",
                                      "res": "w_residual"},
                      {"att": "a", "bias": "b", "lin_l.bias": "b_sender", "lin_r.bias": "b_receiver"})
    return peer


def transformer_peer(n_out, heads, **options):
    def peer(params):
        from torch_geometric.nn import TransformerConv
        layer = TransformerConv(4, n_out, heads, bias="b_query" in params, **options)
        names = {"query": "query", "key": "key", "value": "value", "skip": "residual"}
        return loaded(layer, params,
                      {f"lin_{theirs}": f"w_{ours}" for theirs, ours in names.items()}
                      | {"lin_edge": "w_edge", "lin_beta": "w_gate"},
                      {f"lin_{theirs}.bias": f"b_{ours}" for theirs, ours in names.items()})
    return peer


ROWS = {
    "GAT": GraphRow(GAT(3, 2), gat(2, 3), sparse=True, peer=gat_peer(3, 2)),
    "GAT, mean of heads": GraphRow(GAT(3, 2, concat=False), gat(2, 3, concat=False), peer=gat_peer(3, 2, concat=False)),
    "GAT, edge features": GraphRow(GAT(3, 2, edge_features=2), gat(2, 3), edge_features=2,
                                   peer=gat_peer(3, 2, edge_dim=2)),
    "GAT, weights as features": GraphRow(GAT(3, edge_features=1), of_weights(gat(1, 3)), weights=True),
    "GAT, weights without effect": GraphRow(GAT(3), gat(1, 3), weights=True, peer=gat_peer(3, 1)),
    "GAT, without self loops": GraphRow(GAT(3, 2, self_loops=False, negative_slope=0.1),
                                        gat(2, 3, loops=False, slope=0.1),
                                        peer=gat_peer(3, 2, add_self_loops=False, negative_slope=0.1)),
    "GAT, residual, without bias": GraphRow(GAT(3, 2, residual=True, bias=False), gat(2, 3), sparse=True,
                                            peer=gat_peer(3, 2, residual=True)),
    "GAT, edge features, one head": GraphRow(GAT(3, edge_features=2, self_loops=False, residual=True, concat=False),
                                             gat(1, 3, False, False), edge_features=2,
                                             peer=gat_peer(3, 1, edge_dim=2, add_self_loops=False, residual=True,
                                                           concat=False)),
    "GAT, dropout": GraphRow(GAT(3, 2, dropout=0.4), gat(2, 3), random=True, peer=gat_peer(3, 2, dropout=0.4)),
    "GATv2": GraphRow(GATv2(3, 2), gatv2(2, 3), sparse=True, peer=gatv2_peer(3, 2)),
    "GATv2, mean of heads": GraphRow(GATv2(3, 2, concat=False), gatv2(2, 3, concat=False),
                                     peer=gatv2_peer(3, 2, concat=False)),
    "GATv2, edge features": GraphRow(GATv2(3, 2, edge_features=2), gatv2(2, 3), edge_features=2,
                                     peer=gatv2_peer(3, 2, edge_dim=2)),
    "GATv2, weights as features": GraphRow(GATv2(3, edge_features=1), of_weights(gatv2(1, 3)), weights=True),
    "GATv2, shared weights": GraphRow(GATv2(3, 2, shared_weights=True), gatv2(2, 3),
                                      peer=gatv2_peer(3, 2, share_weights=True)),
    "GATv2, without self loops": GraphRow(GATv2(3, 2, self_loops=False), gatv2(2, 3, loops=False),
                                          peer=gatv2_peer(3, 2, add_self_loops=False)),
    "GATv2, residual, without bias": GraphRow(GATv2(3, 2, residual=True, bias=False), gatv2(2, 3),
                                              peer=gatv2_peer(3, 2, residual=True)),
    "GATv2, dropout": GraphRow(GATv2(3, 2, dropout=0.4), gatv2(2, 3), random=True),
    "GraphTransformer": GraphRow(GraphTransformer(3, 2), transformer(2, 3), sparse=True,
                                 peer=transformer_peer(3, 2)),
    "GraphTransformer, mean of heads": GraphRow(GraphTransformer(3, 2, concat=False, beta=True),
                                                transformer(2, 3, False),
                                                peer=transformer_peer(3, 2, concat=False, beta=True)),
    "GraphTransformer, edge features": GraphRow(GraphTransformer(3, 2, edge_features=2), transformer(2, 3),
                                                edge_features=2, peer=transformer_peer(3, 2, edge_dim=2)),
    "GraphTransformer, weights as features": GraphRow(GraphTransformer(3, edge_features=1),
                                                      of_weights(transformer(1, 3)), weights=True),
    "GraphTransformer, gate": GraphRow(GraphTransformer(3, 2, beta=True), transformer(2, 3),
                                       peer=transformer_peer(3, 2, beta=True)),
    "GraphTransformer, without residual": GraphRow(GraphTransformer(3, 2, residual=False, bias=False),
                                                   transformer(2, 3), peer=transformer_peer(3, 2, root_weight=False)),
    "GraphTransformer, dropout": GraphRow(GraphTransformer(3, 2, dropout=0.4), transformer(2, 3), random=True),
}


def on_three_nodes(layer, **edges):
    graph = Graph.from_edges([0, 1], [1, 2], np.ones((3, 2), np.float32), edges or None)
    return layer.apply(layer.init(KEY, (-1, 2))[1], graph.nodes, graph)


WRONG = {
    "GAT, no heads": (lambda: GAT(3, 0), ValueError, ["GAT", "heads", "0"]),
    "GAT, no features of an edge": (lambda: GAT(3, edge_features=0), ValueError, ["GAT", "features of an edge"]),
    "GAT, a dropout of 1": (lambda: GAT(3, dropout=1.0), ValueError, ["rate", "1.0"]),
    "GAT, edges without features": (lambda: on_three_nodes(GAT(3, edge_features=2)), ValueError,
                                    ["GAT", "2 features of each edge", "has 0"]),
    "GAT, edges with other features": (
        lambda: on_three_nodes(GAT(3, edge_features=2), features=np.ones((2, 4), np.float32)), ValueError,
        ["GAT", "2 features of each edge", "has 4", "[2,4]"]),
    "GAT, dropout without rng": (
        lambda: GAT(3, dropout=0.5).apply(GAT(3).init(KEY, (-1, 2))[1], np.ones((2, 2), np.float32),
                                          np.eye(2, dtype=np.float32), train=True), TypeError, ["random bits"]),
    "GATv2, params of GAT": (
        lambda: GATv2(3).apply(GAT(3).init(KEY, (-1, 2))[1], np.ones((2, 2), np.float32), np.eye(2)), TypeError,
        ["GATv2", "params"]),
    "GraphTransformer, a gate without residual": (
        lambda: GraphTransformer(3, residual=False, beta=True), ValueError, ["GraphTransformer", "beta"]),
}
