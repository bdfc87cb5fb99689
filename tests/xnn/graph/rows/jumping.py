"""Rows of JumpingKnowledge, virtual_node and with_drop_edge."""

import numpy as np

from tests.xnn.graph.row import KEY, GraphRow
from tests.xnn.graph.rows.gcn import convolution
from tests.xnn.graph.rows.pooling import members, sigmoid, softmax
from xjax import numpy as jnp
from xnn import Dense, GraphConvolution, Layer
from xnn.graph.layers.dropping import with_drop_edge
from xnn.graph.layers.jumping import JumpingKnowledge, virtual_node
from xnn.graph.structure.adjacency import as_edges


def of_three(jump):
    """JumpingKnowledge of x, its sines and its squares."""

    def init(rng, in_shape):
        return jump.init(rng, (in_shape,) * 3)

    def apply(params, x, graph, *, rng=None, train=False):
        as_edges(graph, x, "of_three")
        return jump.apply(params, (x, jnp.sin(x), x * x))

    return Layer(init, apply, "of_three")


def three(x):
    return np.stack([x, np.sin(x), x * x])


def jump_lstm(params, x, graph):
    def run(cell, rows):
        h = c = np.zeros(cell["w_rec"].shape[0])
        out = []
        for row in rows:
            i, forget, g, o = np.split(row @ cell["w_in"] + h @ cell["w_rec"] + cell["b"], 4)
            c = sigmoid(forget) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            out.append(h)
        return np.array(out)

    cells, score = params["lstm"]["layer_0"], params["score"]

    def node(rows):
        both = np.concatenate([run(cells["forward"], rows), run(cells["backward"], rows[::-1])[::-1]], 1)
        return (softmax(both @ score["w"] + score["b"]) * rows).sum(0)

    return np.stack([node(rows) for rows in three(x).swapaxes(0, 1)])


def jump_peer(mode):
    def build(params):
        import torch
        from torch_geometric.nn import JumpingKnowledge

        module = JumpingKnowledge(mode, channels=4, num_layers=3)
        tensor = lambda array: torch.tensor(np.array(array))
        if mode == "lstm":
            for name, end in (("forward", ""), ("backward", "_reverse")):
                cell = params["lstm"]["layer_0"][name]
                getattr(module.lstm, f"weight_ih_l0{end}").data = tensor(cell["w_in"]).T
                getattr(module.lstm, f"weight_hh_l0{end}").data = tensor(cell["w_rec"]).T
                getattr(module.lstm, f"bias_ih_l0{end}").data = tensor(cell["b"])
                getattr(module.lstm, f"bias_hh_l0{end}").data.zero_()
            module.att.weight.data, module.att.bias.data = tensor(params["score"]["w"]).T, tensor(params["score"]["b"])
        return module, lambda x, graph: module([x, torch.sin(x), x * x])
    return build


def virtual(params, x, graph):
    of_nodes = np.concatenate([np.full(len(nodes), i) for i, nodes in enumerate(members(graph))]).astype(int)
    dense = lambda p, h: h @ p["w"] + p["b"]
    total = lambda x: np.stack([x[nodes].sum(0) for nodes in members(graph)])
    row = np.tile(params["start"]["row"], (graph.n_graphs, 1))
    for i in range(2):
        x = x + row[of_nodes]
        if i == 0:
            first, _, second, _ = params["update_0"]
            row = np.maximum(dense(second, np.maximum(dense(first, row + total(x)), 0)), 0)
        x = convolution(params[f"layer_{i}"], x, graph)
    return x


CONV = GraphConvolution(4, norm="symmetric")

ROWS = {
    "JumpingKnowledge": GraphRow(of_three(JumpingKnowledge()), lambda p, x, graph: np.concatenate(three(x), 1),
                                 peer=jump_peer("cat")),
    "JumpingKnowledge, max": GraphRow(of_three(JumpingKnowledge("max")), lambda p, x, graph: three(x).max(0),
                                      peer=jump_peer("max")),
    "JumpingKnowledge, lstm": GraphRow(of_three(JumpingKnowledge("lstm")), jump_lstm, peer=jump_peer("lstm")),
    "virtual_node": GraphRow(virtual_node(4, CONV, CONV), virtual, weights=True, tol=10),
    "with_drop_edge": GraphRow(with_drop_edge(CONV, 0.5), convolution, weights=True, random=True),
}

WRONG = {
    "JumpingKnowledge, an unknown combination": (
        lambda: JumpingKnowledge("sum"), ValueError, ["JumpingKnowledge", "unknown how"]),
    "JumpingKnowledge, one array": (
        lambda: JumpingKnowledge().apply((), np.ones((2, 3), np.float32)), TypeError,
        ["JumpingKnowledge", "several layers"]),
    "JumpingKnowledge, one shape": (
        lambda: JumpingKnowledge().init(KEY, (-1, 3)), TypeError, ["JumpingKnowledge", "several layers"]),
    "JumpingKnowledge, layers of different size": (
        lambda: JumpingKnowledge("max").init(KEY, ((-1, 3), (-1, 2))), TypeError, ["JumpingKnowledge", "differ"]),
    "virtual_node, no layers": (lambda: virtual_node(4), ValueError, ["virtual_node", "no layers"]),
    "virtual_node, another number of features": (
        lambda: virtual_node(3, CONV).init(KEY, (-1, 4)), TypeError, ["virtual_node", "number of features"]),
    "virtual_node, a layer that changes the shape": (
        lambda: virtual_node(4, Dense(3)).init(KEY, (-1, 4)), TypeError, ["virtual_node", "changes the shape"]),
    "with_drop_edge, a rate of 1": (lambda: with_drop_edge(CONV, 1.0), ValueError, ["with_drop_edge", "rate"]),
    "with_drop_edge, a layer without a graph": (
        lambda: with_drop_edge(Dense(3), 0.5), TypeError, ["with_drop_edge", "`graph`"]),
    "with_drop_edge, no key": (
        lambda: with_drop_edge(CONV, 0.5).apply(CONV.init(KEY, (-1, 4))[1], np.ones((2, 4), np.float32),
                                                np.eye(2, dtype=np.float32), train=True),
        TypeError, ["with_drop_edge", "rng is None"]),
}
