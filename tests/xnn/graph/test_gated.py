"""GatedGCN: values by loops, padding, gradients."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.compare import assert_close
from tests.xnn.drawn_params import traced_init
from tests.xnn.graph.checks import check_finite, check_numerics, doubled
from tests.xnn.graph.row import GraphRow, draw_graph, empty_graph
from tests.xnn.graph.rows.mpnn import dense, received, relu, sigmoid
from xnn import LayerNorm, serial
from xnn.graph.layers.gated import GatedGCN

SIZES = GraphRow(None, None, features=3, edge_features=3)


def drawn(layer, graph=None):
    graph = draw_graph(SIZES) if graph is None else graph
    shape, params = traced_init(layer, ((-1, 3), (-1, 3)))
    return graph, shape, params


def by_loops(params, x, e, graph, epsilon=1e-6):
    c = [dense(params["receiver"], x[j]) + dense(params["sender"], x[i]) + dense(params["edge"], e[k])
         for k, (i, j) in enumerate(zip(graph.senders, graph.receivers, strict=True))]
    c = np.reshape(c, (-1, 3))
    gates = sigmoid(c)
    total = received(graph, gates * dense(params["value"], x)[graph.senders])
    h = dense(params["own"], x) + total / (received(graph, gates) + epsilon)
    return x + relu(h), e + relu(c)


def test_values_and_gradients():
    layer = GatedGCN(3)
    graph, shape, params = drawn(layer)
    assert shape == ((-1, 3), (-1, 3))
    f = lambda floats: layer.apply(floats[0], floats[1:], graph)
    floats = (params, jnp.asarray(graph.nodes), jnp.asarray(graph.edge_features))
    want = by_loops(*doubled((params, graph.nodes, graph.edge_features)), graph)
    assert_close(f(floats), want, tol=0.25)
    check_numerics(f, floats)


def test_without_edges():
    graph, _, params = drawn(GatedGCN(3), empty_graph(SIZES))
    f = lambda floats: GatedGCN(3).apply(floats[0], floats[1:], graph)
    check_finite(f, (params, jnp.asarray(graph.nodes), jnp.asarray(graph.edge_features)))


def test_padding_changes_nothing_in_two_layers_with_norms():
    layer = serial(GatedGCN(3, norm=LayerNorm()), GatedGCN(3, norm=LayerNorm()))
    graph, _, params = drawn(layer)
    apply = xjax.jit(layer.apply)
    x, e = apply(params, (graph.nodes, graph.edge_features), graph)
    padded = xg.pad(graph, 12, 20, 3)
    px, pe = map(np.asarray, apply(params, (padded.nodes, padded.edge_features), padded))
    assert_close((px[:graph.n_nodes], pe[:graph.n_edges]), (x, e), tol=0.25)


@pytest.mark.parametrize("residual", [True, False])
def test_features_of_another_size_are_not_added(residual):
    layer = GatedGCN(5, residual=residual)
    graph, shape, params = drawn(layer)
    x, e = xjax.jit(layer.apply)(params, (graph.nodes, graph.edge_features), graph)
    assert shape == ((-1, 5), (-1, 5)) and x.shape == (graph.n_nodes, 5) and np.min(x) >= 0 and np.min(e) >= 0
