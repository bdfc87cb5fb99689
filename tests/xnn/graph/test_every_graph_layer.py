"""Every layer on graphs by table (`tests/xnn/graph/rows`): values, forms of the graph, padding, gradients, errors."""

import importlib.util

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.compare import assert_close
from tests.refusals import assert_refused
from tests.xnn.graph.row import draw_extra, draw_graph, empty_graph, init_shapes, make_params, run
from tests.xnn.graph.rows import ROWS, WRONG
from xjax import random, tree_util
from xnn import CSR
from xnn.cost import cost_of
from xnn.graph import Graph

LAYERS = [name for name in ROWS if "," not in name]
VARIANTS = [name for name in ROWS if "," in name]


def rows(fast, among=None):
    """Args: fast: the names of the rows in the fast set; among: those that the test is for, all if None."""
    return pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in fast))
                                            for name in ROWS if among is None or among(ROWS[name])])


def doubled(tree):
    return tree_util.tree_map(lambda leaf: np.asarray(leaf, np.float64) if leaf.dtype.kind == "f" else leaf, tree)


@rows([*LAYERS, *VARIANTS[::20]])
def test_shapes_and_values(name):
    row = ROWS[name]
    graph, params = draw_graph(row), make_params(row)
    extra = draw_extra(row, graph)
    out_shape, _ = row.layer.init(random.key(0), graph.nodes.shape, **init_shapes(row, graph))
    y = run(row, params, graph.nodes, graph, extra)
    if row.per == "node":
        assert tree_util.tree_map(jnp.shape, y) == out_shape
    assert all(leaf.dtype == np.float32 for leaf in tree_util.tree_leaves(y))
    want = row.value(doubled(params), doubled(graph.nodes), doubled(graph), **doubled(extra))
    assert_close(y, want, tol=row.grows / 4)
    jitted = xjax.jit(lambda params, x, graph, extra: run(row, params, x, graph, extra))
    assert_close(jitted(params, graph.nodes, graph, extra), y, tol=row.grows / 4)


@rows(LAYERS)
def test_the_cost_is_known(name):
    graph = draw_graph(ROWS[name])
    assert cost_of(ROWS[name].layer, graph.nodes.shape, graph=graph, **draw_extra(ROWS[name], graph)) is not None


@rows(LAYERS[::6])
def test_a_graph_without_edges_has_finite_values_and_gradients(name):
    row = ROWS[name]
    graph, params = empty_graph(row), make_params(row)
    extra = draw_extra(row, graph)
    y = run(row, params, graph.nodes, graph, extra)
    want = row.value(doubled(params), doubled(graph.nodes), doubled(graph), **doubled(extra))
    assert_close(y, want, tol=row.grows / 4)
    slopes = xjax.jit(xjax.grad(lambda params, x: _total(run(row, params, x, graph, extra)), argnums=(0, 1)))
    grads = slopes(params, graph.nodes)
    assert all(np.isfinite(leaf).all() for leaf in tree_util.tree_leaves(grads))


@rows(LAYERS[1::8], among=lambda row: row.edge_features is None and row.per == "node")
def test_every_form_of_the_graph_gives_the_same(name):
    row = ROWS[name]
    graph, params = draw_graph(row), make_params(row)
    extra = draw_extra(row, graph)
    weight = np.ones(graph.n_edges, np.float32) if graph.weight is None else graph.weight
    shape = (graph.n_nodes, graph.n_nodes)
    csr = CSR.from_edges(graph.receivers, graph.senders, weight, shape=shape)
    shuffled = np.random.default_rng(1).permutation(graph.n_edges)
    unsorted = Graph(graph.nodes, tree_util.tree_map(lambda e: e[shuffled], graph.edges), graph.senders[shuffled],
                     graph.receivers[shuffled], None, graph.n_node, graph.n_edge)
    forms = {"csr": csr, "unrolled csr": csr.tune(form="unrolled"), "unrolled": graph.tune(form="unrolled"),
             "scipy": csr.to_scipy(), "dense": np.asarray(csr.todense()), "unsorted": unsorted,
             "edges": ((graph.receivers, graph.senders), weight)}
    if row.ordered:
        del forms["unsorted"]
    want = run(row, params, graph.nodes, graph, extra)
    for form, given in forms.items():
        call = lambda given: run(row, params, jnp.asarray(graph.nodes), given, extra)
        y = xjax.jit(call)(given) if isinstance(given, CSR | Graph) else call(given)
        assert_close(y, want, tol=row.grows / 4, what=form)
    traced = xjax.jit(lambda dense: run(row, params, graph.nodes, dense, extra))(forms["dense"])
    assert_close(traced, want, tol=row.grows / 4)


@rows(LAYERS[::6])
def test_padding_and_batching_change_nothing(name):
    row = ROWS[name]
    params = make_params(row)
    alone = [draw_graph(row, seed=1, n=5), empty_graph(row, 2), draw_graph(row, seed=2, n=6)]
    if row.extra:
        pytest.skip("inputs beside the graph are not batched here")
    joined = xg.batch(alone)
    padded = xg.pad(joined, 20, 40, 6)

    def outputs(params, graph):
        y = run(row, params, jnp.asarray(graph.nodes), graph)
        kept = joined.n_nodes if row.per == "node" else joined.n_graphs
        return tree_util.tree_map(lambda leaf: leaf[:kept], y)

    def outcomes(params, graph):
        loss = lambda params: _total(tree_util.tree_map(jnp.sin, outputs(params, graph)))
        return outputs(params, graph), xjax.grad(loss)(params)

    (got, slopes), (want, slopes_alone) = (xjax.jit(outcomes)(params, graph) for graph in (padded, joined))
    assert_close(got, want, tol=row.grows / 4)
    assert_close(slopes, slopes_alone, tol=2.5 * row.grows)         # sums over all nodes
    if not row.layer.state:
        parts = [xjax.jit(lambda params, graph: run(row, params, jnp.asarray(graph.nodes), graph))(params, graph)
                 for graph in alone]
        together = tree_util.tree_map(lambda *leaves: jnp.concatenate(leaves), *parts)
        assert_close(want, together, tol=row.grows / 4)


@rows(["GraphSAGE"], among=lambda row: row.sparse)
def test_sparse_features_give_the_same_values_and_gradients(name):
    row = ROWS[name]
    with xjax.enable_x64(True):
        graph, params = draw_graph(row, dtype=np.float64), make_params(row, np.float64)
        x = np.where(graph.nodes > 0, graph.nodes, 0)
        csr = CSR.from_dense(x)

        def pulled(of_values, values):
            y, pull = xjax.vjp(lambda params, values: run(row, params, of_values(values), graph), params, values)
            return y, *pull(jnp.asarray(np.random.default_rng(4).normal(size=y.shape)))

        y, by_params, by_x = pulled(lambda x: x, jnp.asarray(x))
        want = (y, by_params, by_x[csr.rows, csr.indices])
        for form in ("segments", "unrolled"):
            got = xjax.jit(lambda csr: pulled(csr.with_data, csr.data))(csr.tune(form=form))
            assert_close(got, want)
        assert_close(run(row, params, csr.to_scipy(), graph), y)


@rows(LAYERS[2::6], among=lambda row: row.per == "node" and not row.extra and not row.ordered)
def test_permuted_nodes_give_permuted_outputs(name):
    row = ROWS[name]
    graph, params = draw_graph(row), make_params(row)
    order = np.random.default_rng(3).permutation(graph.n_nodes)            # node order[i] becomes node i
    place = np.argsort(order)
    moved = Graph.from_edges(place[graph.senders], place[graph.receivers], graph.nodes[order], graph.edges)
    call = xjax.jit(lambda graph: run(row, params, jnp.asarray(graph.nodes), graph))
    y = call(graph)
    assert_close(call(moved), tree_util.tree_map(lambda leaf: leaf[order], y), tol=row.grows / 4)


@rows(LAYERS[1::8])
def test_gradients_are_those_of_differences_in_double_precision(name):
    row = ROWS[name]
    with xjax.enable_x64(True):
        graph, params = draw_graph(row, dtype=np.float64), make_params(row, np.float64)
        extra = draw_extra(row, graph, np.float64)
        # The structure is no input of the derivative; weights and features of edges are.
        floats = (params, jnp.asarray(graph.nodes), graph.edges)

        def total(floats):
            params, x, edges = floats
            y = run(row, params, x, graph.replace(nodes=x, edges=edges), extra)
            assert all(leaf.dtype == np.float64 for leaf in tree_util.tree_leaves(y))
            return _total(tree_util.tree_map(jnp.sin, y))

        npr = np.random.default_rng(5)
        step = tree_util.tree_map(lambda leaf: npr.normal(size=leaf.shape), floats)
        total = xjax.jit(total)
        along = lambda sign: total(tree_util.tree_map(lambda leaf, d: leaf + sign * 1e-6 * d, floats, step))
        difference = (along(1) - along(-1)) / 2e-6
        slope = _slope(xjax.jit(xjax.grad(total))(floats), step)
        forward = xjax.jit(lambda floats, step: xjax.jvp(total, (floats,), (step,))[1])(floats, step)
        # Rounding of total / 1e-6 and a second-order error of (1e-6)^2: some 1e-9 of the largest terms.
        np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-6 * row.grows)
        np.testing.assert_allclose(forward, slope, rtol=1e-9, atol=1e-9 * row.grows)


@rows(LAYERS[::8])
def test_an_ensemble_of_parameters(name):
    row = ROWS[name]
    graph = draw_graph(row)
    extra = draw_extra(row, graph)
    members = [make_params(row), make_params(row, seed=7)]
    if not tree_util.tree_leaves(members):
        pytest.skip("the layer has no parameters")
    ensemble = tree_util.tree_map(lambda *leaves: jnp.stack(leaves), *members)
    got = xjax.jit(xjax.vmap(lambda params, x: run(row, params, x, graph, extra), in_axes=(0, None), axis_size=2))(
        ensemble, graph.nodes)
    for i, member in enumerate(members):
        assert_close(tree_util.tree_map(lambda leaf, i=i: leaf[i], got), run(row, member, graph.nodes, graph, extra),
                    tol=row.grows / 4)


@rows(LAYERS[2::8])
def test_bfloat16_stays_bfloat16(name):
    row = ROWS[name]
    graph, params = draw_graph(row), make_params(row)
    extra = draw_extra(row, graph)
    half = lambda tree: tree_util.tree_map(lambda v: jnp.asarray(v, jnp.bfloat16) if v.dtype.kind == "f" else v, tree)
    call = xjax.jit(lambda params, graph, extra: run(row, params, jnp.asarray(graph.nodes), graph, extra))
    y, want = call(half(params), half(graph), half(extra)), call(params, graph, extra)
    assert all(leaf.dtype == jnp.bfloat16 for leaf in tree_util.tree_leaves(y))
    assert_close(y, want, tol=2.5 * row.grows)             # each layer rounds some twenty times


@rows(LAYERS[3::8])
def test_training(name):
    row = ROWS[name]
    graph, params = draw_graph(row), make_params(row)
    extra, x = draw_extra(row, graph), jnp.asarray(graph.nodes)
    step = lambda params, key: run(row, params, x, graph, extra, rng=key, train=True)
    trained, other = step(params, random.key(4)), step(params, random.key(5))
    assert_close(xjax.jit(step)(params, random.key(4)), trained, tol=row.grows / 4)
    same = all(np.array_equal(a, b) for a, b in zip(*map(tree_util.tree_leaves, (trained, other)), strict=True))
    assert same != row.random
    grads = xjax.jit(xjax.grad(lambda params: _total(step(params, random.key(4)))))(params)
    assert all(np.isfinite(leaf).all() for leaf in tree_util.tree_leaves(grads))


@pytest.mark.slow
@rows(ROWS, among=lambda row: row.peer is not None)
def test_equals_pytorch_geometric(name):
    if importlib.util.find_spec("torch_geometric") is None:
        pytest.skip("PyTorch Geometric is not installed: pip install -e '.[peers]'")
    import torch

    from tests.xnn.graph.peers import to_torch

    row = ROWS[name]
    graph, params = draw_graph(row), make_params(row)
    module, call = row.peer(params)
    module.eval()
    x = torch.tensor(graph.nodes, requires_grad=True)
    extra = draw_extra(row, graph)
    theirs = call(x, to_torch(graph), **{name: torch.tensor(value) for name, value in extra.items()})
    y, pull = xjax.vjp(lambda x: run(row, params, x, graph, extra), jnp.asarray(graph.nodes))
    np.testing.assert_allclose(y, theirs.detach().numpy(), rtol=1e-5, atol=1e-5 * row.grows)
    ct = np.random.default_rng(2).normal(size=y.shape).astype(np.float32)
    theirs.backward(torch.tensor(ct))
    np.testing.assert_allclose(pull(jnp.asarray(ct))[0], x.grad.numpy(), rtol=1e-4, atol=1e-5 * row.grows)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_say_what_to_do(name):
    assert_refused(*WRONG[name])


@rows(LAYERS, among=lambda row: row.per == "node" and row.layer.state is None)
def test_a_graph_of_another_size_is_refused(name):
    row = ROWS[name]
    given = make_params(row), draw_graph(row, n=9).nodes, draw_graph(row), draw_extra(row, draw_graph(row))
    assert_refused(lambda: run(row, *given), (TypeError, ValueError), "nodes")


def _total(tree):
    return sum(jnp.sum(leaf) for leaf in tree_util.tree_leaves(tree))


def _slope(grads, step):
    return sum(np.sum(g * d) for g, d in zip(*map(tree_util.tree_leaves, (grads, step)), strict=True))
