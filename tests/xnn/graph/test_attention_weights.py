"""`attention_weights` of layers on graphs: the means with these weights are the layer's output."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.xnn.drawn_params import traced_init
from xnn import CSR
from xnn.graph import GAT, GATv2, Graph, GraphTransformer

HEADS, N_OUT = 2, 3
LAYERS = {
    "GAT": (lambda **options: GAT(N_OUT, HEADS, **options), "w", "b"),
    "GATv2": (lambda **options: GATv2(N_OUT, HEADS, **options), "w_sender", "b_sender"),
    "GraphTransformer": (lambda **options: GraphTransformer(N_OUT, HEADS, residual=False, **options),
                         "w_value", "b_value"),
}


def a_graph():
    npr = np.random.default_rng(0)
    senders, receivers = [0, 1, 2, 2, 3, 0, 4], [1, 0, 1, 2, 1, 3, 0]              # 2 -> 2 is a self loop
    return Graph.from_edges(senders, receivers, npr.normal(size=(6, 4)).astype(np.float32))


def mean(graph, weights, values):
    """The weighted means [n, heads, n_out], by NumPy."""
    y = np.zeros(values.shape) if weights.own is None else np.asarray(weights.own)[..., None] * values
    for k, (j, i) in enumerate(zip(graph.senders, graph.receivers, strict=True)):
        y[i] += np.asarray(weights.edges)[k][:, None] * values[j]
    return y


@pytest.mark.parametrize("name", LAYERS)
def test_the_output_is_the_mean_with_these_weights(name):
    make, w, b = LAYERS[name]
    layer, graph = make(bias=False), a_graph()
    _, params = traced_init(layer, graph.nodes.shape)
    padded = xg.pad(graph, 9, 12, 3)
    csr = CSR.from_edges(graph.receivers, graph.senders, np.ones(graph.n_edges, np.float32), shape=(6, 6))
    weights, of_csr, y = xjax.jit(lambda params, x: (layer.attention_weights(params, x, graph), layer.attention_weights(
        params, x, csr), layer.apply(params, x, graph)))(params, graph.nodes)
    assert (weights.own is None) == (name == "GraphTransformer")
    values = (graph.nodes @ np.asarray(params[w])).reshape(-1, HEADS, N_OUT)
    np.testing.assert_allclose(mean(graph, weights, values).reshape(6, -1), y, rtol=1e-5, atol=1e-6)
    of_padded = np.asarray(xjax.jit(layer.attention_weights)(params, padded.nodes, padded).edges)
    np.testing.assert_allclose(of_padded[:graph.n_edges], weights.edges, rtol=1e-5)
    np.testing.assert_array_equal(of_padded[graph.n_edges:], 0)
    np.testing.assert_allclose(of_csr.edges, weights.edges, rtol=1e-5)


def test_the_weights_of_a_node_sum_to_one_whatever_the_dropout():
    graph, layer = a_graph(), GAT(N_OUT, HEADS, dropout=0.5)
    _, params = traced_init(layer, graph.nodes.shape)

    def own_share(params):
        edges, own = layer.attention_weights(params, graph.nodes, graph)
        return jnp.sum(own), (edges, own, xg.segment_sum(edges, graph.receivers, 6) + own)

    slope, (edges, own, total) = xjax.jit(xjax.grad(own_share, has_aux=True))(params)
    np.testing.assert_allclose(total, 1, rtol=1e-6)
    assert np.all(np.asarray(edges)[graph.senders == graph.receivers] == 0) and np.all(np.asarray(own)[5] == 1)
    assert np.any(np.asarray(slope["a_sender"])) and np.all(np.isfinite(slope["w"]))


def test_wrong_features_are_refused_as_in_apply():
    layer, graph = GAT(N_OUT), a_graph()
    _, params = traced_init(layer, (-1, 4))
    with pytest.raises(TypeError, match="(?s)GAT.*fix:"):
        layer.attention_weights(params, graph.nodes[:, :3], graph)
