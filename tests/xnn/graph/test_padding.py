"""Running statistics in layers on graphs: padding and nodes removed by pooling do not count."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.compare import assert_close
from tests.refusals import assert_refused
from tests.xnn.drawn_params import traced_init
from xjax import random, tree_util
from xnn import BatchNorm, Dense, GraphConvolution, Relu, serial
from xnn.graph import Graph
from xnn.models import graph_configs, graph_networks

NPR = np.random.default_rng(0)


def draw(n, e):
    return Graph.from_edges(*NPR.integers(0, n, (2, e)), NPR.normal(size=(n, 4)).astype(np.float32),
                            NPR.normal(size=(e, 3)).astype(np.float32), globals=NPR.normal(size=2).astype(np.float32))


PLAIN = xg.batch([draw(5, 9), draw(4, 7), draw(6, 10)])
PADDED = xg.pad(PLAIN, 24, 40, 6)
PADDED = PADDED.replace(nodes=np.where(PADDED.node_mask[:, None], PADDED.nodes, np.float32(3.0)))
MLP = serial(Dense(5), BatchNorm(), Relu, Dense(4))
CONV = GraphConvolution(4)

LAYERS = {
    "with_node_mask": serial(CONV, xg.with_node_mask(BatchNorm()), Relu, CONV),
    "GIN": xg.GIN(MLP),
    "GINE": xg.GINE(MLP, edge_features=3),
    "EdgeConv": xg.EdgeConv(MLP),
    "EdgeConv, dynamic": xg.EdgeConv(MLP, k=2),
    "GatedGCN": xg.GatedGCN(4, norm=BatchNorm()),
    "GraphNetwork": xg.GraphNetwork(MLP, MLP, MLP),
    "virtual_node": xg.virtual_node(4, serial(CONV, BatchNorm()), CONV, update=MLP),
    "AttentionPool": xg.AttentionPool(value=MLP),
    "GAE": xg.GAE(serial(CONV, BatchNorm())),
    "VGAE": xg.VGAE(serial(CONV, BatchNorm()), serial(BatchNorm(), CONV), CONV),
    "SAGPool": xg.SAGPool(serial(CONV, BatchNorm(), Dense(1))),
    "GCNStack": graph_networks.GCNStack(graph_configs.GCNConfig(hidden=(5, 5), norm="batch", features=2, dropout=0.0)),
    "GINStack": graph_networks.GINStack(graph_configs.GINConfig(hidden=(5, 5), norm="batch", features=2, dropout=0.0)),
}
FAST = ["with_node_mask", "GIN"]


def inputs_of(name, graph):
    """x, and the inputs after it."""
    if name in ("GAE", "VGAE"):
        return graph.nodes, (graph, np.array([[0, 1], [2, 7]]))
    if name == "GraphNetwork":
        return graph, ()
    return ((graph.nodes, graph.edges) if name == "GatedGCN" else graph.nodes), (graph,)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST)) for name in LAYERS])
def test_statistics_are_those_of_what_counts(name):
    layer = LAYERS[name]
    shapes = tree_util.tree_map(lambda leaf: xjax.ShapeDtypeStruct(leaf.shape, leaf.dtype), inputs_of(name, PLAIN)[0])
    _, params = traced_init(layer, shapes)
    state = layer.init_state(shapes)

    def run(params, graph):
        x, extra = inputs_of(name, graph)
        y, moved = layer.apply_with_state(params, state, x, *extra, rng=random.key(1), train=True)
        rows = {PADDED.n_nodes: PLAIN.n_nodes, PADDED.n_edges: PLAIN.n_edges, PADDED.n_graphs: PLAIN.n_graphs}
        y = (y.nodes, y.edges, y.globals) if isinstance(y, Graph) else y
        y = {"SAGPool": lambda: y[0], "VGAE": lambda: y[1:]}.get(name, lambda: y)()      # VGAE: without the samples
        y = tree_util.tree_map(lambda leaf: leaf[:rows.get(leaf.shape[0], leaf.shape[0])], y)
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in tree_util.tree_leaves(y)), (y, moved)

    run = xjax.jit(xjax.value_and_grad(run, has_aux=True))
    got, want = run(params, PADDED), run(params, PLAIN)
    assert_close(got, want)
    moved = tree_util.tree_leaves(want[0][1][1])
    assert any(np.any(leaf != before) for leaf, before in zip(moved, tree_util.tree_leaves(state), strict=True))


def test_globals_do_not_read_what_was_masked_out():
    keep = np.array([True] * 4 + [False] + [True] * 10)
    masked = xg.mask_graph(PLAIN, nodes=keep)
    kept = xg.kept_part(masked)
    network = xg.GraphNetwork(update_global=Dense(3))
    _, params = traced_init(network, PLAIN)
    apply = xjax.jit(lambda graph: network.apply(params, graph).globals)
    np.testing.assert_allclose(apply(masked), apply(kept), rtol=1e-5)


def test_a_mask_of_ones_own_is_taken():
    model, mask = LAYERS["GIN"], np.arange(PLAIN.n_nodes) < 7
    _, params = traced_init(model, (-1, 4))
    state = model.init_state((-1, 4))
    moved = xjax.jit(lambda params: [
        model.apply_with_state(params, state, PLAIN.nodes, PLAIN, train=True, **inputs)[1]["mlp"][1]["mean"]
        for inputs in ({}, {"row_mask": mask})])(params)
    assert not np.allclose(*moved)


def test_with_node_mask_needs_a_layer_with_a_mask():
    assert_refused(lambda: xg.with_node_mask(Dense(3)), TypeError, ["with_node_mask", "Dense", "`row_mask`"])
