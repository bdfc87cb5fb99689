"""Graph convolutions and GCN: every form of the graph gives the same numbers."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.refusals import assert_refused
from tests.sampling import each_once
from tests.xnn.drawn_params import drawn_params
from xjax import lax, random, tree_util
from xnn import CSR, GCN, GraphConvolution, RowKey, normalized_adjacency
from xnn.graph import as_adjacency

sp = pytest.importorskip("scipy.sparse")
N, F = 12, 5


@pytest.fixture
def graph(npr):
    """A symmetric SciPy adjacency with a node without edges, and sparse features."""
    upper = np.triu(npr.random((N, N)) < 0.3, 1)
    upper[:, -1] = False
    x = npr.normal(size=(N, F)).astype(np.float32) * (npr.random((N, F)) < 0.6)
    return sp.csr_matrix((upper | upper.T).astype(np.float32)), x


def forms(adj):
    """The same matrix in every form that a layer takes."""
    csr, coo = CSR.from_scipy(adj), sp.coo_matrix(adj)
    shuffle = np.random.default_rng(1).permutation(coo.nnz)
    places = coo.row[shuffle], coo.col[shuffle]

    class Product:
        def __matmul__(self, h):
            return csr @ h

    return {
        "scipy": adj,
        "scipy array": sp.coo_array(adj),
        "csr": csr,
        "edges": (places, coo.data[shuffle]),
        "edges [2, nnz]": (np.stack(places), coo.data[shuffle]),
        "edge lists": ([list(part) for part in places], coo.data[shuffle]),
        "dense": np.asarray(adj.toarray()),
        "own product": Product(),
    }


def normalised(a, norm, self_loops):
    """Transcription of the two formulas."""
    a = a + np.eye(len(a)) if self_loops else a
    with np.errstate(divide="ignore"):
        inverse = np.where(a.sum(1) > 0, 1 / a.sum(1), 0)
    if norm == "row":
        return inverse[:, None] * a
    return np.sqrt(inverse)[:, None] * a * np.sqrt(inverse)[None]


@pytest.mark.parametrize("norm", ["symmetric", "row"])
@pytest.mark.parametrize("self_loops", [True, False])
def test_normalized_adjacency(graph, norm, self_loops):
    adj, _ = graph
    expected = normalised(adj.toarray(), norm, self_loops)
    coo = sp.coo_matrix(adj)
    for given in (adj, adj.toarray(), CSR.from_scipy(adj), ((coo.row, coo.col), coo.data)):
        size = {"n_nodes": N} if isinstance(given, tuple) else {}
        got = normalized_adjacency(given, norm, self_loops, **size)
        assert isinstance(got, CSR) and got.dtype == jnp.float32
        np.testing.assert_allclose(got.todense(), expected, rtol=1e-6)


def test_normalized_adjacency_sums_repeats_and_takes_edges_without_values():
    got = normalized_adjacency((([0, 0, 1], [1, 1, 0]), None), "row", self_loops=False)
    np.testing.assert_allclose(got.todense(), [[0, 1], [1, 0]])
    weighted = normalized_adjacency((([0, 0, 1], [1, 1, 0]), [1.0, 2.0, 1.0]), "row")
    np.testing.assert_allclose(weighted.todense(), [[0.25, 0.75], [0.5, 0.5]])
    assert normalized_adjacency((([], []), []), n_nodes=2).nnz == 2  # the self loops
    assert normalized_adjacency((([], []), [])).shape == (0, 0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("form", ["scipy", "scipy array", "csr", "edges", "edges [2, nnz]",
                                  "edge lists", "dense", "own product"])  # fmt: skip
def test_graph_convolution_is_a_x_w_plus_b(graph, key, form, bias):
    adj, x = graph
    layer = GraphConvolution(3, bias=bias, b_init=random.normal)
    out_shape, params = layer.init(key, (-1, F))
    w, b = params
    assert out_shape == (-1, 3) and w.shape == (F, 3) and (b is not None) == bias
    expected = adj.toarray() @ (x @ np.asarray(w)) + (np.asarray(b) if bias else 0)
    a = forms(adj)[form]
    for features in (x, sp.csr_matrix(x), CSR.from_dense(x)):
        np.testing.assert_allclose(layer.apply(params, features, a), expected, rtol=1e-4, atol=1e-5)


def test_weights_do_not_depend_on_bias(key):
    _, (w, b) = GraphConvolution(3).init(key, (-1, F))
    _, (w_alone, none) = GraphConvolution(3, bias=False).init(key, (-1, F))
    np.testing.assert_array_equal(w, w_alone)
    assert none is None and not np.any(b)


@pytest.mark.parametrize("norm", ["symmetric", "row"])
@pytest.mark.parametrize("self_loops", [True, False])
def test_norm_inside_the_layer_is_the_one_outside(graph, key, norm, self_loops):
    adj, x = graph
    layer = GraphConvolution(3, norm=norm, self_loops=self_loops)
    _, params = layer.init(key, (-1, F))
    ready = normalized_adjacency(adj, norm, self_loops)
    expected = GraphConvolution(3).apply(params, x, ready)
    for a in forms(adj).values():
        np.testing.assert_allclose(layer.apply(params, x, a), expected, rtol=1e-4, atol=1e-5)


def test_gradient_to_edge_values_through_norm(graph, key):
    adj, x = graph
    csr = CSR.from_scipy(adj)
    layer = GraphConvolution(3, norm="symmetric", self_loops=False)
    _, params = layer.init(key, (-1, F))

    def loss(a):
        return jnp.sum(jnp.sin(layer.apply(params, x, a)))

    got, dense = xjax.jit(lambda data, dense: (
        xjax.grad(lambda data: loss(csr.with_data(data)))(data), xjax.grad(loss)(dense)))(csr.data, adj.toarray())
    stored = np.asarray(dense)[np.asarray(csr.rows), np.asarray(csr.indices)]
    assert np.all(np.isfinite(got))  # the last node has degree 0
    np.testing.assert_allclose(got, stored, rtol=1e-4, atol=1e-5)


def test_batch_of_dense_graphs(key, npr):
    adj, x = npr.random((2, 4, 4)).astype(np.float32), npr.random((2, 4, F)).astype(np.float32)
    layer = GraphConvolution(3, norm="row")
    shape, params = layer.init(key, (2, 4, F))
    run = xjax.jit(layer.apply)
    y = np.asarray(run(params, x, adj))
    assert y.shape == shape
    for i in range(2):
        np.testing.assert_allclose(y[i], run(params, x[i], adj[i]), rtol=1e-5)


def test_the_classic_program_runs_as_written(graph, key):
    adj, x = graph
    n_features, rng = F, random.PRNGKey(1)
    init_fun, predict_fun = GCN(16, 7, sparse=True)         # not within jit, as in the original program
    _, params = init_fun(key, (-1, n_features))
    log_probs = predict_fun(params, x, adj, rng=rng)
    assert log_probs.shape == (N, 7)
    np.testing.assert_allclose(np.exp(log_probs).sum(1), 1, rtol=1e-5)
    assert [tuple(leaf.shape for leaf in entry) for entry in params] == [
        ((F, 16), (16,)),
        ((16, 7), (7,)),
    ]


def test_gcn_equals_its_formula_in_every_form(graph, key):
    adj, x = graph
    ready = normalized_adjacency(adj).to_scipy()
    layer = GCN(8, 3)
    out_shape, params = layer.init(key, (N, F))
    (w1, b1), (w2, b2) = tree_util.tree_map(np.asarray, params)
    a = ready.toarray()
    z = a @ (np.maximum(a @ (x @ w1) + b1, 0) @ w2) + b2
    expected = z - np.log(np.exp(z).sum(1, keepdims=True))
    assert out_shape == expected.shape
    for given in forms(sp.csr_matrix(ready)).values():
        for features in (x, CSR.from_dense(x)):
            got = layer.apply(params, features, given)
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_gcn_gradients_agree_sparse_and_dense(graph, key, bias):
    adj, x = graph
    csr = normalized_adjacency(adj)
    _, predict = GCN(8, 3, bias=bias)
    params = drawn_params(GCN(8, 3, bias=bias), (-1, F))

    def loss(params, x, adj):
        return jnp.mean(predict(params, x, adj)[:, 0])

    edges = ((csr.rows, csr.indices), csr.data)
    gradient = xjax.jit(xjax.grad(loss))
    expected = gradient(params, x, csr.to_scipy().toarray())
    for features, a in ((CSR.from_dense(x), csr), (x, edges)):
        got = gradient(params, features, a)
        assert_same(got, expected, tol=0.125)


def test_train_is_open_only_for_gcn_and_means_rng_is_given(graph, key):
    adj, x = graph
    _, predict = GCN(8, 3)
    _, params = GCN(8, 3).init(key, (-1, F))
    calm = predict(params, x, adj)
    noisy = predict(params, x, adj, rng=key)
    assert np.abs(np.asarray(noisy - calm)).max() > 1e-3
    for flags in (
        {"rng": key, "train": False},
        {"rng": key, "is_training": False},
        {"train": False},
        {"rng": None},
    ):
        np.testing.assert_array_equal(predict(params, x, adj, **flags), calm)
    for flags in ({"train": True}, {"is_training": True}, {"train": True, "is_training": True}):
        np.testing.assert_array_equal(predict(params, x, adj, rng=key, **flags), noisy)
    init, predict = GCN(8, 3, dropout=0.0)
    np.testing.assert_array_equal(predict(params, x, adj, rng=key), calm)


def test_the_two_dropouts_draw_different_masks(key):
    eye = jnp.eye(6)
    params = ((eye, None), (eye, None))
    out = GCN(6, 6, bias=False).apply(params, jnp.ones((6, 6)), eye, rng=key)
    kept = np.asarray(out) > np.asarray(out).min(1, keepdims=True)
    assert 0 < kept.sum() < 18  # both masks agree on a quarter of 36, not on a half


def test_depth_and_widths(key):
    sizes = {
        ((16,), 7, None): [(5, 16), (16, 7)],
        ((8, 4), 3, None): [(5, 8), (8, 4), (4, 3)],
        (6, 3, 4): [(5, 6), (6, 6), (6, 6), (6, 3)],
        (6, 3, 1): [(5, 3)],
    }
    for (nhid, nclass, n_layers), expected in sizes.items():
        shape, params = GCN(nhid, nclass, n_layers=n_layers).init(key, (-1, F))
        assert [w.shape for w, _ in params] == expected and shape == (-1, nclass)


@pytest.mark.parametrize("n_blocks, norm", each_once([2, 4], [None, "symmetric"]))
def test_blocks_of_rows_with_their_own_product(graph, key, n_blocks, norm):
    """The data-parallel form: each block has some rows, and its product gathers the others."""
    adj, x = graph
    a, size = adj.toarray(), N // n_blocks

    class RowBlock:
        def __init__(self, rows):
            self.rows = rows

        def __matmul__(self, h):
            return self.rows @ lax.all_gather(h, "blocks").reshape(-1, h.shape[-1])

    _, predict = GCN(8, 3, sparse=True, norm=norm)
    params = drawn_params(GCN(8, 3, norm=norm), (-1, F))

    def block(x, rows, i):
        return predict(params, x, RowBlock(rows), rng=RowKey(key, i * size), train=True)

    split = (x.reshape(n_blocks, size, F), a.reshape(n_blocks, size, N))
    got = xjax.jit(xjax.vmap(block, axis_name="blocks"))(*split, np.arange(n_blocks))
    expected = xjax.jit(lambda x, csr: predict(params, x, csr, rng=RowKey(key, 0), train=True))(
        x, CSR.from_scipy(adj))
    np.testing.assert_allclose(np.asarray(got).reshape(N, 3), expected, rtol=1e-4, atol=1e-5)


def test_a_traced_edge_out_of_range_is_never_a_number():
    @xjax.jit
    def product(rows, cols):
        return as_adjacency(((rows, cols), jnp.ones(2))) @ jnp.ones((2, 1))

    rows = jnp.asarray([0, 1])
    np.testing.assert_array_equal(product(rows, jnp.asarray([0, 5])), [[1], [np.nan]])
    np.testing.assert_array_equal(product(jnp.asarray([0, 5]), rows), [[1], [0]])


EYE = np.eye(4, dtype=np.float32)
X = np.ones((4, F), np.float32)


def gcn(**options):
    layer = GCN(8, 3, **options)
    return layer, layer.init(random.PRNGKey(0), (-1, F))[1]


def predict(x, adj, options=None, **keywords):
    layer, params = gcn(**(options or {}))
    return layer.apply(params, x, adj, **keywords)


WRONG = {
    "dense for sparse": (
        lambda: predict(X, EYE, {"sparse": True}),
        TypeError,
        ["GCN: the network has sparse=True, but the adjacency is dense", "f32[4,4]"],
    ),
    "indices of edges": (
        lambda: predict(X, np.array([[0, 1, 2], [1, 2, 0]])),
        TypeError,
        ["the adjacency is not a square matrix", "i32[2,3]", "Graph.from_edges(index[0], index[1], x)"],
    ),
    "sparse for dense": (
        lambda: predict(X, sp.eye(4), {"sparse": False}),
        TypeError,
        ["the network has sparse=False, but the adjacency is sparse"],
    ),
    "edges for dense": (
        lambda: predict(X, (([0], [0]), [1.0]), {"sparse": False}),
        TypeError,
        ["the adjacency is sparse"],
    ),
    "features": (
        lambda: predict(np.ones((4, 3), np.float32), EYE),
        TypeError,
        ["the weights take 5 features, the input has 3", "f32[4,3]"],
    ),
    "nodes": (
        lambda: predict(X, np.eye(3, dtype=np.float32)),
        TypeError,
        ["the adjacency has 3 nodes, but the features have 4 rows"],
    ),
    "sparse nodes": (
        lambda: predict(X, CSR.from_dense(np.eye(3))),
        TypeError,
        ["the adjacency has 3 nodes, but the features have 4 rows", "sparse f32[3,3]"],
    ),
    "edge range": (
        lambda: predict(X, (([0, 4], [0, 1]), [1.0, 1.0])),
        IndexError,
        ["an index in rows is out of range", "from 0 to 4"],
    ),
    "not square": (
        lambda: predict(X, np.ones((4, 3), np.float32)),
        TypeError,
        ["GCN: the adjacency is not a square matrix", "f32[4,3]"],
    ),
    "no adjacency": (
        lambda: predict(X, "cora"),
        TypeError,
        ["GCN: this is not an adjacency", "str", "CSR"],
    ),
    "no rng": (
        lambda: predict(X, EYE, train=True),
        TypeError,
        ["Dropout: training needs random bits"],
    ),
    "two names": (
        lambda: predict(X, EYE, train=True, is_training=False, rng=random.PRNGKey(0)),
        TypeError,
        ["GCN: train and is_training disagree"],
    ),
    "norm": (lambda: GraphConvolution(3, norm="left"), ValueError, ["unknown norm", "'left'"]),
    "norm function": (lambda: normalized_adjacency(EYE, "left"), ValueError, ["unknown norm"]),
    "layers": (lambda: GCN((8, 8), 3, n_layers=2), ValueError, ["nhid and n_layers", "(8, 8)"]),
    "no layers": (lambda: GCN(8, 3, n_layers=0), ValueError, ["nhid and n_layers"]),
    "params": (
        lambda: GCN(8, 3).apply(gcn()[1][:1], X, EYE),
        TypeError,
        ["GCN: needs params for 2 layers", "tuple of 1"],
    ),
    "shape": (
        lambda: GCN(8, 3).init(random.PRNGKey(0), (F,)),
        TypeError,
        ["GraphConvolution: init needs the shape", "(5,)"],
    ),
    "normalise not square": (
        lambda: normalized_adjacency(np.ones((2, 3))),
        ValueError,
        ["adj is not square", "[2,3]"],
    ),
    "negative degree": (
        lambda: normalized_adjacency(-3 * EYE),
        ValueError,
        ["negative sum", "row", "-2"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_and_how_to_fix_it(name):
    assert_refused(*WRONG[name])


def test_an_error_in_gcn_names_the_convolution():
    layer, params = gcn()
    with pytest.raises(TypeError) as caught:
        layer.apply((params[0], (jnp.ones((9, 3)), None)), X, EYE)
    assert caught.value.__notes__ == ["in GCN[1] -> GraphConvolution (input f32[4,8])"]
