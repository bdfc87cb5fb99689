"""Every layer on graphs by table (`tests/xnn/graph/rows`): values, forms of the graph, padding, gradients, errors."""

import functools
import importlib.util
import inspect

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.compare import assert_close
from tests.refusals import assert_refused
from tests.xnn.drawn_params import traced_init
from tests.xnn.graph.checks import cast, doubled
from tests.xnn.graph.row import draw_extra, draw_graph, empty_graph, init_shapes, make_params, run
from tests.xnn.graph.rows import ROWS, WRONG
from xjax import random, tree_util
from xnn import CSR, Layer
from xnn.cost import cost_of
from xnn.graph import Graph

LAYERS = [name for name in ROWS if "," not in name]
VARIANTS = [name for name in ROWS if "," in name]


def rows(fast, among=None):
    """Args: fast: the names of the rows in the fast set; among: the condition on rows; None: all rows."""
    return pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in fast))
                                            for name in ROWS if among is None or among(ROWS[name])])


@functools.cache
def compiled(name):
    return xjax.jit(lambda params, graph, extra: run(ROWS[name], params, jnp.asarray(graph.nodes), graph, extra))


@rows([*LAYERS, *VARIANTS[::20], "RGCN, bases", "RGCN, blocks"])
def test_shapes_and_values(name):
    row = ROWS[name]
    graph, params = draw_graph(row), make_params(row)
    extra = draw_extra(row, graph)
    y = compiled(name)(params, graph, extra)
    if row.per == "node":
        out_shape, _ = traced_init(row.layer, graph.nodes.shape, **init_shapes(row, graph))
        assert tree_util.tree_map(jnp.shape, y) == out_shape
    assert all(leaf.dtype == np.float32 for leaf in tree_util.tree_leaves(y))
    want = row.oracle(doubled(params), doubled(graph.nodes), doubled(graph), **doubled(extra))
    assert_close(y, want, tol=row.tol / 4)


@rows(LAYERS[3::6])
def test_eager_and_compiled_agree(name):
    """Compiled, the graph is an argument in evaluation and a constant in training."""
    row = ROWS[name]
    graph, params = draw_graph(row), make_params(row)
    extra = draw_extra(row, graph)
    assert_close(run(row, params, graph.nodes, graph, extra), compiled(name)(params, graph, extra), tol=row.tol / 4)
    step = lambda params, x: run(row, params, x, graph, extra, rng=random.key(4), train=True)
    assert_close(step(params, graph.nodes), xjax.jit(step)(params, graph.nodes), tol=row.tol / 4)


@rows(LAYERS)
def test_the_cost_is_known(name):
    graph = draw_graph(ROWS[name])
    assert cost_of(ROWS[name].layer, graph.nodes.shape, graph=graph, **draw_extra(ROWS[name], graph)) is not None


@rows(LAYERS[::6])
def test_a_graph_without_edges_has_finite_values_and_gradients(name):
    row = ROWS[name]
    graph, params = empty_graph(row), make_params(row)
    extra = draw_extra(row, graph)

    @xjax.jit
    def outcome(params, x):
        y, pull = xjax.vjp(lambda params, x: run(row, params, x, graph, extra), params, x)
        return y, pull(tree_util.tree_map(jnp.ones_like, y))

    y, grads = outcome(params, graph.nodes)
    want = row.oracle(doubled(params), doubled(graph.nodes), doubled(graph), **doubled(extra))
    assert_close(y, want, tol=row.tol / 4)
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
    dense = np.asarray(csr.todense())
    given = {"graph": graph, "scipy": csr.to_scipy(), "dense": dense,
             "edges": ((graph.receivers, graph.senders), weight)}
    arguments = {"csr": csr, "unrolled csr": csr.tune(form="unrolled"), "unrolled": graph.tune(form="unrolled"),
                 "traced dense": dense}
    if not row.ordered:
        arguments["unsorted"] = unsorted

    @xjax.jit
    def outputs(params, x, arguments):
        return {form: run(row, params, x, of, extra) for form, of in (given | arguments).items()}

    result = outputs(params, graph.nodes, arguments)
    want = result.pop("graph")
    for form, y in result.items():
        assert_close(y, want, tol=row.tol / 4, what=form)


@rows(LAYERS[::6])
def test_padding_and_batching_change_nothing(name):
    row = ROWS[name]
    params = make_params(row)
    alone = [draw_graph(row, seed=1, n=5), empty_graph(row, 2), draw_graph(row, seed=2, n=6)]
    if row.extra:
        pytest.skip("further inputs are not batched here")
    joined = xg.batch(alone)
    padded = xg.pad(joined, 20, 40, 6)

    def outcome(params, graph):
        def loss(params):
            y = run(row, params, jnp.asarray(graph.nodes), graph)
            kept = joined.n_nodes if row.per == "node" else joined.n_graphs
            y = tree_util.tree_map(lambda leaf: leaf[:kept], y)
            return _total(tree_util.tree_map(jnp.sin, y)), y
        slopes, y = xjax.grad(loss, has_aux=True)(params)
        return y, slopes

    @xjax.jit
    def outcomes(params, padded, joined, alone):
        parts = [] if row.layer.state else [run(row, params, jnp.asarray(graph.nodes), graph) for graph in alone]
        return outcome(params, padded), outcome(params, joined), parts

    (got, slopes), (want, slopes_alone), parts = outcomes(params, padded, joined, alone)
    assert_close(got, want, tol=row.tol / 4)
    assert_close(slopes, slopes_alone, tol=2.5 * row.tol)         # sums over all nodes
    if not row.layer.state:
        together = tree_util.tree_map(lambda *leaves: np.concatenate(leaves), *parts)
        assert_close(want, together, tol=row.tol / 4)


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

        forms = {form: csr.tune(form=form) for form in ("segments", "unrolled")}

        @xjax.jit
        def outcomes(x, forms):
            return (pulled(lambda x: x, x), run(row, params, csr.to_scipy(), graph),
                    {form: pulled(csr.with_data, csr.data) for form, csr in forms.items()})

        (y, by_params, by_x), of_scipy, of_forms = outcomes(x, forms)
        for got in of_forms.values():
            assert_close(got, (y, by_params, by_x[csr.rows, csr.indices]))
        assert_close(of_scipy, y)


@rows(LAYERS[2::6], among=lambda row: row.per == "node" and not row.extra and not row.ordered)
def test_permuted_nodes_give_permuted_outputs(name):
    row = ROWS[name]
    graph, params = draw_graph(row), make_params(row)
    order = np.random.default_rng(3).permutation(graph.n_nodes)            # node order[i] becomes node i
    place = np.argsort(order)
    moved = Graph.from_edges(place[graph.senders], place[graph.receivers], graph.nodes[order], graph.edges)
    y, of_moved = (compiled(name)(params, graph, {}) for graph in (graph, moved))
    assert_close(of_moved, tree_util.tree_map(lambda leaf: leaf[order], y), tol=row.tol / 4)


@rows(LAYERS[1::8])
def test_gradients_are_those_of_differences_in_double_precision(name):
    row = ROWS[name]
    with xjax.enable_x64(True):
        graph, params = draw_graph(row, dtype=np.float64), make_params(row, np.float64)
        extra = draw_extra(row, graph, np.float64)
        # The derivative is not in the structure, but in weights and features of edges.
        floats = tree_util.tree_map(np.asarray, (params, graph.nodes, graph.edges))

        def total(floats):
            params, x, edges = floats
            y = run(row, params, x, graph.replace(nodes=x, edges=edges), extra)
            assert all(leaf.dtype == np.float64 for leaf in tree_util.tree_leaves(y))
            return _total(tree_util.tree_map(jnp.sin, y))

        npr = np.random.default_rng(5)
        step = tree_util.tree_map(lambda leaf: npr.normal(size=leaf.shape), floats)
        derivatives = xjax.jit(lambda floats: (xjax.jvp(total, (floats,), (step,)), xjax.grad(total)(floats)))
        along = lambda sign: derivatives(tree_util.tree_map(lambda leaf, d: leaf + sign * 1e-6 * d, floats, step))[0][0]
        difference = (along(1) - along(-1)) / 2e-6
        (_, forward), grads = derivatives(floats)
        slope = _slope(grads, step)
        # Rounding of total / 1e-6, and a second-order error of (1e-6)^2: about 1e-9 of the largest terms.
        np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-6 * row.tol)
        np.testing.assert_allclose(forward, slope, rtol=1e-9, atol=1e-9 * row.tol)


@rows(LAYERS[::8])
def test_an_ensemble_of_parameters(name):
    row = ROWS[name]
    graph = draw_graph(row)
    extra = draw_extra(row, graph)
    members = [make_params(row), make_params(row, seed=7)]
    if not tree_util.tree_leaves(members):
        pytest.skip("the layer has no parameters")
    ensemble = tree_util.tree_map(lambda *leaves: np.stack(leaves), *members)
    got = xjax.jit(xjax.vmap(lambda params, x: run(row, params, x, graph, extra), in_axes=(0, None), axis_size=2))(
        ensemble, graph.nodes)
    for i, member in enumerate(members):
        assert_close(tree_util.tree_map(lambda leaf, i=i: leaf[i], got), compiled(name)(member, graph, extra),
                     tol=row.tol / 4)


@rows(LAYERS[2::8])
def test_bfloat16_stays_bfloat16(name):
    row = ROWS[name]
    graph, params = draw_graph(row), make_params(row)
    extra = draw_extra(row, graph)
    y, want = compiled(name)(*cast((params, graph, extra), jnp.bfloat16)), compiled(name)(params, graph, extra)
    assert all(leaf.dtype == jnp.bfloat16 for leaf in tree_util.tree_leaves(y))
    assert_close(y, want, tol=2.5 * row.tol)             # each layer rounds about twenty times


@rows(LAYERS[3::8])
def test_training(name):
    row = ROWS[name]
    graph, params = draw_graph(row), make_params(row)
    extra, x = draw_extra(row, graph), jnp.asarray(graph.nodes)

    @xjax.jit
    def step(params, key):
        y, pull = xjax.vjp(lambda params: run(row, params, x, graph, extra, rng=key, train=True), params)
        return y, pull(tree_util.tree_map(jnp.ones_like, y))

    (trained, grads), (other, _) = step(params, random.key(4)), step(params, random.key(5))
    same = all(np.array_equal(a, b) for a, b in zip(*map(tree_util.tree_leaves, (trained, other)), strict=True))
    assert same != row.random
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
    np.testing.assert_allclose(y, theirs.detach().numpy(), rtol=1e-5, atol=1e-5 * row.tol)
    ct = np.random.default_rng(2).normal(size=y.shape).astype(np.float32)
    theirs.backward(torch.tensor(ct))
    np.testing.assert_allclose(pull(jnp.asarray(ct))[0], x.grad.numpy(), rtol=1e-4, atol=1e-5 * row.tol)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_say_what_to_do(name):
    call, *refusal = WRONG[name]
    assert_refused(lambda: xjax.eval_shape(call), *refusal)         # staged: earlier computations are not compiled


@rows(LAYERS, among=lambda row: row.per == "node" and row.layer.state is None)
def test_a_graph_of_another_size_is_refused(name):
    row = ROWS[name]
    given = make_params(row), draw_graph(row, n=9).nodes, draw_graph(row), draw_extra(row, draw_graph(row))
    assert_refused(lambda: run(row, *given), (TypeError, ValueError), "nodes")


# Layers without a row, most of them because their input or output is not an array of nodes: test file -> their names.
ELSEWHERE = {
    "tests/xnn/test_graph.py": "GCN",
    "tests/xnn/graph/test_egnn.py": "EGNN",
    "tests/xnn/graph/test_gated.py": "GatedGCN",
    "tests/xnn/graph/test_heads.py": "EdgeHead GAE NodeHead VGAE",
    "tests/xnn/graph/test_network.py": """DeepSets GraphMapFeatures GraphNetGAT GraphNetwork InteractionNetwork
        RelationNetwork""",
    "tests/xnn/graph/test_node2vec.py": "Node2Vec",
    "tests/xnn/graph/test_padding.py": "with_node_mask",
    "tests/xnn/graph/test_relational.py": "HeteroConvolution",
}


def test_every_public_layer_has_a_row():
    functions = {name: value for name, value in vars(xg).items() if name in xg.__all__ and inspect.isfunction(value)}
    layers = {name for name, f in functions.items() if inspect.signature(f).return_annotation in (Layer, "Layer")}
    tested = {name for names in ELSEWHERE.values() for name in names.split()}
    made = {name.partition(",")[0] for name in ROWS}.union(*(_names(row.layer) for row in ROWS.values()))
    assert layers > tested and not made & tested
    missing = layers - made - tested
    assert not missing, f"without a row in tests/xnn/graph/rows: {sorted(missing)}"


def _names(layer):
    return {layer.name}.union(*map(_names, layer.layers))


def _total(tree):
    return sum(jnp.sum(leaf) for leaf in tree_util.tree_leaves(tree))


def _slope(grads, step):
    return sum(np.sum(np.asarray(g) * d) for g, d in zip(*map(tree_util.tree_leaves, (grads, step)), strict=True))
