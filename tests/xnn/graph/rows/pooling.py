"""Rows of pools."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from tests.xnn.graph.rows.gcn import convolution
from xnn import Dense, GraphConvolution, Layer
from xnn.graph.layers.pooling import AttentionPool, GraphPool, SAGPool, Set2Set, SortPool, TopKPool


def members(graph):
    """The nodes of each graph."""
    ends = np.cumsum(graph.n_node)
    return [np.arange(end - n, end) for n, end in zip(graph.n_node, ends, strict=True)]


def pooled(reduce):
    return lambda params, x, graph: np.stack([reduce(x[nodes]) for nodes in members(graph)])


def softmax(scores):
    grown = np.exp(scores - scores.max(0))
    return grown / grown.sum(0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def attention(weigh, has_value):
    def reduce(params, x):
        scores = x @ params["gate"]["w"] + params["gate"]["b"]
        value = x @ params["value"]["w"] + params["value"]["b"] if has_value else x
        return (weigh(scores) * value).sum(0)
    return lambda params, x, graph: pooled(lambda rows: reduce(params, rows))(params, x, graph)


def set2set(params, x, graph, steps=3):
    cell, f = params["cell"], x.shape[1]

    def read(rows):
        state, h, c = np.zeros(2 * f), np.zeros(f), np.zeros(f)
        for _ in range(steps):
            i, forget, g, o = np.split(state @ cell["w_in"] + h @ cell["w_rec"] + cell["b"], 4)
            c = sigmoid(forget) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            state = np.concatenate([h, softmax(rows @ h) @ rows])
        return state

    return pooled(read)(params, x, graph)


def sort_pool(params, x, graph, k=4):
    def largest(rows):
        rows = rows[np.argsort(-rows[:, -1], kind="stable")][:k]
        return np.concatenate([rows, np.zeros((k - len(rows), x.shape[1]))]).reshape(-1)
    return pooled(largest)(params, x, graph)


def top_k(count):
    def reduce(params, rows):
        score = rows @ params["w"] / np.sqrt((params["w"] ** 2).sum())
        kept = np.argsort(-score, kind="stable")[:count(len(rows))]
        return (rows[kept] * np.tanh(score[kept])[:, None]).sum(0)
    return lambda params, x, graph: pooled(lambda rows: reduce(params, rows))(params, x, graph)


def sag(params, x, graph):
    scores = convolution(params, x, graph)[:, 0]

    def reduce(nodes):
        kept = nodes[np.argsort(-scores[nodes], kind="stable")[:-(-len(nodes) // 2)]]
        return (x[kept] * np.tanh(scores[kept])[:, None]).sum(0)

    return np.stack([reduce(nodes) for nodes in members(graph)])


def summed(pool):
    """The sum of the nodes that a pool keeps, for each graph."""

    def init(rng, in_shape):
        (shape, _), params = pool.init(rng, in_shape)
        return shape, params

    def apply(params, x, graph, *, rng=None, train=False):
        x, graph = pool.apply(params, x, graph)
        return GraphPool("sum").apply((), x, graph)

    return Layer(init, apply, "summed")


def peer(make):
    """A pool of PyTorch Geometric, ``make(params) -> module``, called with (x, index of the graph)."""
    def build(params):
        module = make(params)
        return module, lambda x, graph: module(x, graph.batch)
    return build


def aggregation(name, **options):
    def make(params):
        from torch_geometric.nn import aggr
        return getattr(aggr, name)(**options)
    return peer(make)


def linear(params):
    import torch
    module = torch.nn.Linear(*params["w"].shape)
    module.weight.data = torch.tensor(np.array(params["w"]).T)
    module.bias.data = torch.tensor(np.array(params["b"]))
    return module


def attention_peer(params):
    from torch_geometric.nn.aggr import AttentionalAggregation
    return AttentionalAggregation(linear(params["gate"]), linear(params["value"]) if "value" in params else None)


def set2set_peer(params):
    import torch
    from torch_geometric.nn.aggr import Set2Set

    module, cell = Set2Set(4, 3), params["cell"]
    module.lstm.weight_ih_l0.data = torch.tensor(np.array(cell["w_in"]).T)
    module.lstm.weight_hh_l0.data = torch.tensor(np.array(cell["w_rec"]).T)
    module.lstm.bias_ih_l0.data = torch.tensor(np.array(cell["b"]))
    module.lstm.bias_hh_l0.data.zero_()
    return module


def top_k_peer(params):
    import torch
    from torch_geometric.nn import TopKPooling, global_add_pool

    module = TopKPooling(4, 0.5)
    module.select.weight.data = torch.tensor(np.array(params["w"]))[None]

    def call(x, graph):
        x, _, _, batch, _, _ = module(x, graph.edge_index, batch=graph.batch)
        return global_add_pool(x, batch)

    return module, call


def sag_peer(params):
    import torch
    from torch_geometric.nn import GCNConv, SAGPooling, global_add_pool

    module = SAGPooling(4, 0.5, GCNConv)
    module.gnn.lin.weight.data = torch.tensor(np.array(params[0]).T)
    module.gnn.bias.data = torch.tensor(np.array(params[1]))
    module.select.weight.data[:] = 1                       # PyTorch Geometric multiplies the scores by its sign

    def call(x, graph):
        x, _, _, batch, _, _ = module(x, graph.edge_index, batch=graph.batch)
        return global_add_pool(x, batch)

    return module, call


ROWS = {
    "GraphPool": GraphRow(GraphPool(), pooled(lambda rows: rows.mean(0)), per="graph",
                          peer=aggregation("MeanAggregation")),
    "GraphPool, sum": GraphRow(GraphPool("sum"), pooled(lambda rows: rows.sum(0)), per="graph",
                               peer=aggregation("SumAggregation")),
    "GraphPool, max": GraphRow(GraphPool("max"), pooled(lambda rows: rows.max(0)), per="graph",
                               peer=aggregation("MaxAggregation")),
    "GraphPool, min": GraphRow(GraphPool("min"), pooled(lambda rows: rows.min(0)), per="graph",
                               peer=aggregation("MinAggregation")),
    "GraphPool, std": GraphRow(GraphPool("std"), pooled(lambda rows: rows.std(0)), per="graph",
                               peer=aggregation("StdAggregation")),
    "AttentionPool": GraphRow(AttentionPool(value=Dense(3)), attention(softmax, True), per="graph",
                              peer=peer(attention_peer)),
    "AttentionPool, x itself": GraphRow(AttentionPool(), attention(softmax, False), per="graph",
                                        peer=peer(attention_peer)),
    "AttentionPool, a gate of each feature": GraphRow(AttentionPool(Dense(3), Dense(3)), attention(softmax, True),
                                                      per="graph", peer=peer(attention_peer)),
    "AttentionPool, sigmoid": GraphRow(AttentionPool(value=Dense(3), weights="sigmoid"), attention(sigmoid, True),
                                       per="graph"),
    "Set2Set": GraphRow(Set2Set(3), set2set, per="graph", peer=peer(set2set_peer)),
    "SortPool, four nodes": GraphRow(SortPool(4), sort_pool, per="graph", peer=aggregation("SortAggregation", k=4)),
    "TopKPool": GraphRow(summed(TopKPool(0.5)), top_k(lambda n: -(-n // 2)), per="graph", peer=top_k_peer),
    "SAGPool, half of the nodes": GraphRow(summed(SAGPool(GraphConvolution(1, norm="symmetric"))), sag, per="graph",
                                           peer=sag_peer),
    "TopKPool, k nodes": GraphRow(summed(TopKPool(k=3)), top_k(lambda n: 3), per="graph"),
}

WRONG = {
    "GraphPool, an unknown reduction": (
        lambda: GraphPool("median"), ValueError, ["GraphPool", "unknown reduction", "median"]),
    "GraphPool, integers": (
        lambda: GraphPool().apply((), np.ones((2, 1), np.int32), np.ones((2, 2))), TypeError, ["floating-point"]),
    "GraphPool, another number of nodes": (
        lambda: GraphPool().apply((), np.ones((3, 1), np.float32), np.ones((2, 2), np.float32)), ValueError,
        ["GraphPool", "2 nodes", "3 rows"]),
    "AttentionPool, unknown weights": (
        lambda: AttentionPool(weights="relu"), ValueError, ["AttentionPool", "unknown weights"]),
    "AttentionPool, a gate of another size": (
        lambda: AttentionPool(Dense(2), Dense(3)).init(KEY, (-1, 4)), TypeError, ["AttentionPool", "one score"]),
    "AttentionPool, a gate that is not a layer": (
        lambda: AttentionPool(Dense), TypeError, ["AttentionPool['gate']", "Dense(...)"]),
    "Set2Set, no steps": (lambda: Set2Set(0), ValueError, ["Set2Set", "at least one step"]),
    "SortPool, no nodes": (lambda: SortPool(0), ValueError, ["SortPool", "at least 1"]),
    "TopKPool, a ratio above 1": (lambda: TopKPool(1.5), ValueError, ["TopKPool", "ratio", "1.5"]),
    "SAGPool, two scores": (
        lambda: SAGPool(Dense(2)).init(KEY, (-1, 4)), TypeError, ["SAGPool", "one score"]),
    "SAGPool, no nodes": (lambda: SAGPool(Dense(1), k=0), ValueError, ["SAGPool", "must be kept"]),
    "TopKPool, no Graph": (
        lambda: TopKPool().apply({"w": np.ones(1, np.float32)}, np.ones((2, 1), np.float32), np.ones((2, 2))),
        TypeError, ["TopKPool", "needs a Graph"]),
}
