"""Properties outside of the table of layers: forms of features, self loops, dropout, bounds of traced graphs."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.xnn.drawn_params import traced_init
from tests.xnn.graph.row import GraphRow, draw_graph
from tests.xnn.graph.rows.attention import gat, gatv2
from xjax import random, tree_util
from xnn.graph import Graph
from xnn.graph.layers.attention import GAT, GATv2, GraphTransformer
from xnn.graph.layers.chebyshev import ChebConv
from xnn.graph.layers.gin import GIN, GINE
from xnn.graph.layers.sage import GraphSAGE
from xnn.graph.layers.spectral import APPNP, GCNII, SGC

GRAPH = draw_graph(GraphRow(None, None, weights=True))
X = GRAPH.nodes
DENSE = np.zeros((7, 7), np.float32)
DENSE[GRAPH.receivers, GRAPH.senders] = GRAPH.weight


@pytest.mark.parametrize("layer", [SGC(3), SGC(6), ChebConv(3, 3), ChebConv(6, 3)])
def test_sparse_features(layer):
    _, params = traced_init(layer, X.shape)
    sparse = xnn.CSR.from_dense(X)
    got, want = xjax.jit(lambda params, *xs: [layer.apply(params, x, GRAPH) for x in xs])(params, sparse, X)
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("layer", [SGC(3), ChebConv(6, 3), APPNP(3)])
def test_a_batch_of_dense_adjacencies(layer):
    _, params = traced_init(layer, X.shape)
    y, want = xjax.jit(lambda params: (layer.apply(params, jnp.stack([X, X]), jnp.stack([DENSE, DENSE.T])),
                                       layer.apply(params, X, DENSE.T)))(params)
    np.testing.assert_allclose(np.asarray(y)[1], want, atol=1e-5)


@pytest.mark.parametrize("layer", [SGC(3), ChebConv(3, 3), APPNP(3)])
def test_any_object_with_a_product(layer):
    class Product:
        def __matmul__(self, h):
            return jnp.asarray(DENSE) @ h

    _, params = traced_init(layer, X.shape)
    got, want = xjax.jit(lambda params: [layer.apply(params, X, graph) for graph in (Product(), DENSE)])(params)
    np.testing.assert_allclose(got, want, atol=1e-5)


FORMS = {"dense": DENSE, "csr": xnn.CSR.from_dense(DENSE), "graph": GRAPH,
         "ends": ((GRAPH.receivers, GRAPH.senders), GRAPH.weight)}


@pytest.mark.parametrize("form", FORMS)
def test_dropout_of_appnp_keeps_the_mean(form, key):
    form = FORMS[form]
    layer = APPNP(1, 0.0, dropout=0.3)
    train = lambda one: layer.apply((), jnp.asarray(X), form, rng=one, train=True)
    drawn, want = map(np.asarray, xjax.jit(lambda keys: (xjax.vmap(train)(keys), layer.apply((), X, form)))(
        random.split(key, 4000)))
    # Each y is a sum of about 3 values below 1, whose factors have the variance 0.3 / 0.7: 5 standard errors.
    np.testing.assert_allclose(drawn.mean(0), want, atol=5 * np.sqrt(3 * 0.43 / 4000))


@pytest.mark.parametrize("n_out, k", [(2, 1), (2, 5), (9, 5)])
def test_chebyshev_polynomials_are_bounded_by_one(n_out, k):
    """For a symmetric graph, eigenvalues of the scaled Laplacian are in [-1, 1], so T_i(L) lengthens no vector."""
    symmetric = DENSE + DENSE.T
    layer = ChebConv(n_out, k, bias=False)
    w = np.zeros((k, 4, n_out), np.float32)
    w[-1, 0, 0] = 1
    y = xjax.jit(layer.apply)({"w": w}, X, symmetric)
    assert np.linalg.norm(y) <= np.linalg.norm(X[:, 0]) * (1 + 1e-5)


@pytest.mark.parametrize("weight", [None, "ones"])
def test_degrees_in_half_precision_do_not_end_at_256(weight):
    """1000 neighbours, one of them with a value: a sum of ones in bfloat16 would make the mean 1 / 256."""
    weight = None if weight is None else jnp.ones(1000, jnp.bfloat16)
    graph = Graph.from_edges(np.arange(1000), np.zeros(1000, int)).replace(edges=weight)
    x = jnp.zeros((1000, 1), jnp.bfloat16).at[7].set(1)
    y = xjax.jit(lambda x: APPNP(1, 0.0, norm="row", self_loops=False).apply((), x, graph))(x)
    assert y.dtype == jnp.bfloat16
    np.testing.assert_allclose(float(y[0, 0]), 1e-3, rtol=2**-7)


# -- attention ------------------------------------------------------------------------------------------------------


def with_loops(features):
    """A graph that already has self loops and repeated edges."""
    senders, receivers = [0, 0, 1, 1, 2, 3, 0], [0, 1, 1, 0, 0, 3, 1]
    npr = np.random.default_rng(3)
    edges = npr.normal(size=(7, features)).astype(np.float32) if features else None
    return Graph.from_edges(senders, receivers, npr.normal(size=(5, 4)).astype(np.float32), edges)


@pytest.mark.parametrize("features", [None, 2])
@pytest.mark.parametrize("layer, value", [(GAT, gat), (GATv2, gatv2)])
def test_a_node_is_its_own_neighbour_once(layer, value, features):
    graph, layer = with_loops(features), layer(3, 2, edge_features=features)
    _, params = traced_init(layer, (-1, 4))
    np.testing.assert_allclose(xjax.jit(layer.apply)(params, graph.nodes, graph),
                               value(2, 3)(tree_util.tree_map(np.asarray, params), graph.nodes, graph), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("features", [None, 2])
def test_self_loops_are_those_of_pytorch_geometric(features):
    pytest.importorskip("torch_geometric")
    import torch

    from tests.xnn.graph.peers import to_torch
    from tests.xnn.graph.rows.attention import gat_peer, gatv2_peer

    graph = with_loops(features)
    for layer, peer in ((GAT, gat_peer), (GATv2, gatv2_peer)):
        layer = layer(3, 2, edge_features=features)
        _, params = traced_init(layer, (-1, 4))
        module, call = peer(3, 2, edge_dim=features)(params)
        module.eval()
        theirs = call(torch.tensor(graph.nodes), to_torch(graph)).detach().numpy()
        np.testing.assert_allclose(layer.apply(params, graph.nodes, graph), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layer", [GAT(3, 2, dropout=0.3), GATv2(3, 2, dropout=0.3),
                                   GraphTransformer(3, 2, dropout=0.3)])
def test_dropout_of_attention_keeps_the_mean(layer, key):
    _, params = traced_init(layer, (-1, 4))
    train = lambda one: layer.apply(params, jnp.asarray(X), GRAPH, rng=one, train=True)
    drawn, want = map(np.asarray, xjax.jit(lambda keys: (xjax.vmap(train)(keys), layer.apply(params, X, GRAPH)))(
        random.split(key, 4000)))
    spread = np.std(drawn, 0).max()
    assert spread > 0.01
    np.testing.assert_allclose(drawn.mean(0), want, atol=5 * spread / np.sqrt(4000))


# -- GraphSAGE ------------------------------------------------------------------------------------------------------


def test_a_traced_graph_with_a_larger_degree_than_the_bound_gives_nan_at_that_node():
    graph = Graph.from_edges([0, 1, 2, 0], [3, 3, 3, 1], np.ones((4, 2), np.float32))
    layer, enough = GraphSAGE(3, "lstm", max_degree=2), GraphSAGE(3, "lstm", max_degree=3)
    _, params = traced_init(layer, (-1, 2))
    y, want = map(np.asarray, xjax.jit(lambda graph: [
        of.apply(params, graph.nodes, graph) for of in (layer, enough)])(graph))
    assert np.isnan(y[3]).all()
    np.testing.assert_allclose(y[:3], want[:3], atol=1e-6)


def test_lengths_are_one_and_gradients_finite_at_zero():
    layer = GraphSAGE(3, normalize=True, bias=False)
    _, params = traced_init(layer, (-1, 2))
    x = np.array([[1, 2], [0, 0]], np.float32)
    graph = Graph.from_edges([], [], n_nodes=2)

    def total(x):
        y = layer.apply(params, x, graph)
        return jnp.sum(y), y

    slopes, y = xjax.jit(xjax.grad(total, has_aux=True))(x)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), [1, 0], atol=1e-6)
    assert np.isfinite(slopes).all()


# -- GIN ------------------------------------------------------------------------------------------------------------


def test_the_network_of_gin_may_have_state_and_inputs_of_its_own():
    net = xnn.serial(xnn.Dense(5), xnn.BatchNorm(), xnn.Relu, xnn.Dense(3))
    layer = GIN(net)
    _, params = traced_init(layer, X.shape)
    y, state = layer.apply_with_state(params, layer.init_state(X.shape), X, GRAPH, train=True)
    assert y.shape == (7, 3)
    assert layer.apply(params, X, GRAPH, state=state).shape == (7, 3)
    scaled = xnn.lambda_(lambda x, scale: x * scale, out_shape=lambda shape: shape)
    assert GIN(scaled).extra_inputs == ("graph", "scale")
    y = GIN(scaled).apply(GIN(scaled).init(None, X.shape)[1], X, GRAPH, 2.0)
    np.testing.assert_allclose(y, 2 * (X + (DENSE != 0) @ X), atol=1e-5)


@pytest.mark.parametrize("layer", [
    SGC(3, 1, norm="row"), APPNP(5, dropout=0.1), ChebConv(3, 2), GCNII(3, alpha=0.2), GAT(3, 2, concat=False),
    GATv2(3, shared_weights=True), GraphTransformer(3, beta=True), GraphSAGE(3, "max"), GIN(xnn.Dense(3), 0.1),
    GINE(xnn.Dense(3), edge_features=2)])
def test_the_text_of_a_layer_is_its_call(layer, key):
    text = repr(layer).splitlines()[0]
    assert text.startswith(layer.name) and "=" in text and "graph" in text
    assert xnn.describe(layer, (-1, 4))


def test_the_rows_of_x_say_how_many_nodes_a_traced_graph_has():
    graph = Graph.from_edges([0, 1], [1, 2], n_nodes=4)
    x = np.ones((4, 2), np.float32)
    for layer in (xnn.GraphConvolution(3, norm="symmetric"), SGC(3), ChebConv(3, 2)):
        _, params = traced_init(layer, x.shape)
        assert xjax.jit(layer.apply)(params, x, graph).shape == (4, 3)
