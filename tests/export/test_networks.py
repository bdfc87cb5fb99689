"""Networks of xnn exported for any batch size: values and gradients equal those of the network."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xnn
from xjax import export
from xnn.graph import GAT, GIN, EdgeConv, Graph, GraphSAGE, planted_partition

# name -> (network, an input's shape and dtype, its symbolic shape)
NETWORKS = {
    "MLP": (xnn.serial(xnn.Dense(8), xnn.Relu, xnn.BatchNorm(), xnn.Dense(3), xnn.LogSoftmax), (5, 4), "b, 4"),
    "CNN": (xnn.serial(xnn.Conv(4, (3, 3)), xnn.Relu, xnn.MaxPool((2, 2)), xnn.Flatten, xnn.Dense(3)), (5, 8, 8, 2),
            "b, 8, 8, 2"),
    "norms": (xnn.serial(xnn.Dense(8), xnn.LayerNorm(), xnn.Gelu, xnn.RMSNorm(), xnn.Dropout(0.1)), (5, 4), "b, 4"),
    "GRU": (xnn.GRU(6), (5, 7, 4), "b, t, 4"),
    "attention": (xnn.MultiHeadAttention(8, 2), (5, 7, 8), "b, t, 8"),
    "embedding": (xnn.serial(xnn.Embedding(11, 6), xnn.Dense(2)), (5, 7), "b, t"),
    "LSTM": (xnn.LSTM(6), (5, 7, 4), "b, 7, 4"),
    "LeNet": (xnn.models.LeNet(xnn.models.LeNetConfig()), (3, 28, 28, 1), "b, 28, 28, 1"),
    "GPT-2": (xnn.models.GPT2(xnn.models.GPT2Config(vocabulary=11, features=8, heads=2, layers=2)), (3, 6), "b, 6"),
}
SLOW = {"LSTM", "LeNet", "GPT-2"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in NETWORKS])
def test_any_batch_size(name):
    network, shape, symbolic = NETWORKS[name]
    integers = name in ("embedding", "GPT-2")
    rng = np.random.RandomState(0)
    x = rng.randint(0, 9, shape).astype(np.int32) if integers else rng.randn(*shape).astype(np.float32)
    _, params = network.init(xjax.random.key(0), shape)
    state = {} if network.state is None else {"state": network.init_state(shape)}

    def apply(params, x):
        return network.apply(params, x, **state)

    specs = export.symbolic_args_specs((params, x), (None, symbolic))
    call = export.deserialize(export.export(xjax.jit(apply))(*specs).serialize(vjp_order=1)).call

    def loss(f, params):
        return sum((y ** 2).sum() for y in xjax.tree.leaves(f(params, x)))

    for ours, direct in zip(xjax.tree.leaves(call(params, x)), xjax.tree.leaves(apply(params, x)), strict=True):
        np.testing.assert_allclose(ours, direct, rtol=1e-4, atol=1e-4)
    gradients = [xjax.tree.leaves(xjax.grad(lambda p, f=f: loss(f, p))(params)) for f in (call, apply)]
    for ours, direct in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours, direct, rtol=1e-3, atol=1e-3)


GRAPH_LAYERS = {"GraphConvolution": xnn.GraphConvolution(3, norm="symmetric"), "GraphSAGE": GraphSAGE(3),
                "GAT": GAT(3, heads=2), "GIN": GIN(xnn.Dense(3)), "EdgeConv": EdgeConv(xnn.Dense(3))}


@pytest.mark.parametrize("name", GRAPH_LAYERS)
def test_a_graph_of_any_size(name):
    """Numbers of nodes and edges are symbolic, and the edges are in any order."""
    layer = GRAPH_LAYERS[name]
    _, params = layer.init(xjax.random.key(0), (-1, 4))

    def apply(x, senders, receivers):
        return layer.apply(params, x, Graph(x, None, senders, receivers, None, None, None))

    nodes, edges = export.symbolic_shape("nodes, edges")
    ends = xjax.ShapeDtypeStruct((edges,), np.int32)
    call = export.deserialize(export.export(xjax.jit(apply))(
        xjax.ShapeDtypeStruct((nodes, 4), np.float32), ends, ends).serialize()).call
    for graph, _ in (planted_partition(20, 2, degree=4, features=4), planted_partition(31, 3, degree=5, features=4)):
        ours, direct = call(graph.nodes, graph.senders, graph.receivers), layer.apply(params, graph.nodes, graph)
        np.testing.assert_allclose(ours, direct, rtol=1e-4, atol=1e-5)
