"""TopKPool and masked graphs: the kept nodes, the layers after it, a second pool, and PyTorch Geometric's pool."""

import importlib.util

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.compare import assert_close
from tests.xnn.drawn_params import traced_init
from xnn import Dense, GraphConvolution, composite
from xnn.graph import Graph
from xnn.graph.layers.pooling import AttentionPool, GraphPool, Set2Set, SortPool, TopKPool
from xnn.graph.structure.masked import MaskedGraph, kept_part, mask_graph


def a_batch(padding=True):
    npr = np.random.default_rng(0)

    def one(n):
        receivers, senders = np.nonzero((npr.random((n, n)) < 0.4) & ~np.eye(n, dtype=bool))
        return Graph.from_edges(senders, receivers, npr.normal(size=(n, 4)).astype(np.float32),
                                npr.uniform(0.5, 1, len(senders)).astype(np.float32))

    graph = xg.batch([one(n) for n in (5, 1, 8)])
    return xg.pad(graph, 20, graph.n_edges + 3, 5) if padding else graph


W = {"w": jnp.array([0.3, -1.0, 0.5, 0.2])}


def test_it_keeps_the_largest_of_each_graph_and_the_edges_between_them():
    graph = a_batch()
    y, kept = xjax.jit(TopKPool(0.5).apply)(W, jnp.asarray(graph.nodes), graph)
    assert isinstance(kept, MaskedGraph)
    score = graph.nodes @ np.asarray(W["w"]) / np.linalg.norm(W["w"])
    want = np.zeros(20, bool)
    for start, n in ((0, 5), (5, 1), (6, 8)):
        want[start + np.argsort(-score[start:start + n])[:-(-n // 2)]] = True
    np.testing.assert_array_equal(kept.node_mask, want)
    np.testing.assert_allclose(y, np.where(want[:, None], graph.nodes * np.tanh(score)[:, None], 0), rtol=1e-6)
    np.testing.assert_array_equal(kept.edge_mask, np.asarray(graph.edge_mask) & want[graph.senders]
                                  & want[graph.receivers])


def test_layers_that_follow_see_the_kept_part_only():
    graph = a_batch()
    x, kept = xjax.jit(TopKPool(0.6).apply)(W, graph.nodes, graph)
    small = kept_part(kept)
    mask = np.asarray(kept.node_mask)
    assert small.n_nodes == mask.sum() and small.n_edges == np.asarray(kept.edge_mask).sum()
    assert small.by_sender is not None and np.all(np.diff(small.receivers) >= 0)
    _, params = traced_init(GraphConvolution(3, norm="symmetric"), (-1, 4))

    @xjax.jit
    def follow(x, graph):
        y = GraphConvolution(3, norm="symmetric").apply(params, x, graph)
        again, twice = TopKPool(0.5).apply({"w": W["w"][:3]}, y, graph)
        return (y, again, twice.node_mask), GraphPool("max").apply((), y, graph)

    (of_nodes, of_graphs), (small_of_nodes, small_of_graphs) = follow(x, kept), follow(np.asarray(x)[mask], small)
    np.testing.assert_allclose(of_graphs, small_of_graphs, atol=1e-6)
    for got, want in zip(of_nodes, small_of_nodes, strict=True):
        np.testing.assert_allclose(np.asarray(got)[mask], want, atol=1e-6)


def test_a_network_that_pools_twice_does_not_depend_on_padding():
    def forward(layers, x, graph):
        x, graph = layers.pool(layers.first(x, graph=graph), graph=graph)
        x, graph = layers.again(layers.second(x, graph=graph), graph=graph)
        return layers.head(layers.readout(x, graph=graph))

    model = composite(forward, first=GraphConvolution(8), pool=TopKPool(0.8), second=GraphConvolution(8),
                      again=TopKPool(k=2), readout=GraphPool("sum"), head=Dense(2))
    shape, params = traced_init(model, (-1, 4))
    assert shape == (-1, 2)
    loss = lambda params, graph: jnp.sum(jnp.sin(model.apply(params, jnp.asarray(graph.nodes), graph)[:3]))
    plain, padded = (xjax.jit(xjax.value_and_grad(loss))(params, graph) for graph in (a_batch(False), a_batch()))
    assert_close(padded, plain, tol=0.125)


def test_masks_add_up_and_a_wrong_one_is_refused():
    graph = a_batch(padding=False)
    without = mask_graph(mask_graph(graph, nodes=np.arange(14) != 0), edges=np.arange(graph.n_edges) != 3)
    ends = (graph.senders != 0) & (graph.receivers != 0)
    np.testing.assert_array_equal(without.edge_mask, ends & (np.arange(graph.n_edges) != 3))
    assert without.replace(edges=None).edge_mask is not None
    with pytest.raises(TypeError, match="fix:"):
        mask_graph(graph, nodes=np.ones(3, bool))
    with pytest.raises(TypeError, match="not a Graph"):
        mask_graph(np.eye(3), nodes=np.ones(3, bool))


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [0.5, 0.8, 3])
def test_it_keeps_what_pytorch_geometric_keeps(ratio):
    if importlib.util.find_spec("torch_geometric") is None:
        pytest.skip("PyTorch Geometric is not installed: pip install -e '.[peers]'")
    import torch
    from torch_geometric.nn import TopKPooling

    from tests.xnn.graph.peers import to_torch

    graph = a_batch(padding=False)
    module = TopKPooling(4, ratio)
    module.select.weight.data = torch.tensor(np.array(W["w"]))[None]
    given = to_torch(graph)
    theirs, edges, weight, _, perm, _ = module(torch.tensor(graph.nodes), given.edge_index, given.weight, given.batch)
    x, kept = (TopKPool(ratio) if ratio < 1 else TopKPool(k=ratio)).apply(W, jnp.asarray(graph.nodes), graph)
    np.testing.assert_array_equal(np.flatnonzero(kept.node_mask), np.sort(perm.numpy()))
    np.testing.assert_allclose(np.asarray(x)[perm.numpy()], theirs.detach().numpy(), rtol=1e-5, atol=1e-6)
    ours = {(int(s), int(r)): float(w) for s, r, w, there in
            zip(graph.senders, graph.receivers, graph.edges, np.asarray(kept.edge_mask), strict=True) if there}
    ends = perm.numpy()[edges.numpy()]
    assert ours == {(int(s), int(r)): float(w) for s, r, w in zip(*ends, weight, strict=True)}


def test_pools_of_many_nodes_in_bfloat16():
    x = jnp.full((3000, 1), 1.5, jnp.bfloat16)
    graph = Graph.from_edges([], [], np.zeros((3000, 1), np.float32))
    for reduction, want in (("mean", 1.5), ("sum", 4500)):
        np.testing.assert_allclose(GraphPool(reduction).apply((), x, graph).astype(np.float32), [[want]], rtol=2**-8)


@pytest.mark.parametrize("pool", [*map(GraphPool, ("sum", "mean", "max", "min", "std")), AttentionPool(), Set2Set(2),
                                  SortPool(3), TopKPool()], ids=str)
def test_batches_without_nodes_and_of_padding_only_have_zeros(pool):
    empty = Graph(np.zeros((0, 4), np.float32), None, *np.zeros((2, 0), np.int32), None, *np.zeros((2, 2), np.int32))
    padding = xg.pad(empty, 3, 2, 4).replace(mask=np.zeros(4, bool))
    _, params = traced_init(pool, (-1, 4))
    for graph in (empty, padding):
        y = xjax.jit(pool.apply)(params, jnp.ones_like(graph.nodes), graph)
        y = y[0] if isinstance(y, tuple) else y
        assert np.all(np.asarray(y)[:, -4:] == 0)
