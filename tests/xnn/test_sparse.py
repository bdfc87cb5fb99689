"""CSR against SciPy and against the dense product, with its gradients and its limits."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close
from tests.refusals import assert_refused
from xjax import tree_util
from xnn import CSR
from xnn.sparse.product import sampled

sp = pytest.importorskip("scipy.sparse")


@st.composite
def edges(draw):
    """rows, cols, values, shape: also empty rows, repeated places and empty matrices."""
    n_rows, n_cols = draw(st.sampled_from([(0, 3), (1, 1), (4, 3), (3, 5)]))
    nnz = draw(st.sampled_from([0, 1, 6])) if n_rows else 0
    index = st.tuples(st.integers(0, max(n_rows - 1, 0)), st.integers(0, n_cols - 1))
    places = draw(st.lists(index, min_size=nnz, max_size=nnz))
    values = draw(st.lists(st.integers(-3, 3), min_size=nnz, max_size=nnz))
    rows, cols = (np.array([place[i] for place in places], int) for i in (0, 1))
    return rows, cols, np.array(values, np.float32), (n_rows, n_cols)


@xjax.jit
def computed(csr, b):
    return csr @ b, csr @ b[:, 0], csr.todense(), csr.T.todense()


@given(edges())
@settings(max_examples=20, deadline=None)
def test_agrees_with_scipy(example):
    rows, cols, values, shape = example
    csr = CSR.from_edges(rows, cols, values, shape=shape)
    coo = sp.coo_array((values, (rows, cols)), shape=shape)
    dense = coo.toarray()
    b = np.arange(shape[1] * 2, dtype=np.float32).reshape(shape[1], 2)
    product, column, ours, transposed = computed(csr, b)
    np.testing.assert_allclose(product, dense @ b, rtol=1e-6)
    np.testing.assert_allclose(column, dense @ b[:, 0], rtol=1e-6)
    np.testing.assert_array_equal(ours, dense)
    np.testing.assert_array_equal(transposed, dense.T)
    for made in (csr, CSR.from_scipy(coo), CSR.from_dense(dense)):
        np.testing.assert_array_equal(made.to_scipy().toarray(), dense)
    assert (csr.nnz, csr.shape, csr.ndim) == (len(rows), shape, 2)


@xjax.jit
def gradients(csr, dense, b):
    def sparse_loss(data, b):
        return jnp.sum(jnp.sin(csr.with_data(data) @ b))

    def dense_loss(a, b):
        return jnp.sum(jnp.sin(a @ b))

    return xjax.grad(sparse_loss, (0, 1))(csr.data, b), xjax.grad(dense_loss, (0, 1))(dense, b)


@given(edges())
@settings(max_examples=8, deadline=None)
def test_gradients_agree_with_the_dense_product(example):
    rows, cols, values, shape = example
    csr = CSR.from_edges(rows, cols, values, shape=shape)
    b = np.random.default_rng(0).normal(size=(shape[1], 2)).astype(np.float32)
    (d_data, d_b), (d_dense, d_b_expected) = gradients(csr, csr.to_scipy().toarray(), b)
    np.testing.assert_allclose(d_b, d_b_expected, rtol=1e-5, atol=1e-5)
    stored = np.asarray(d_dense)[np.asarray(csr.rows), np.asarray(csr.indices)]
    np.testing.assert_allclose(d_data, stored, rtol=1e-5, atol=1e-5)


@pytest.fixture
def matrix(npr):
    dense = npr.normal(size=(6, 4)).astype(np.float32) * (npr.random((6, 4)) < 0.5)
    return CSR.from_dense(dense), dense


def test_order_of_edges_does_not_matter(npr):
    rows, cols = npr.integers(0, 5, 20), npr.integers(0, 4, 20)
    values, b = npr.normal(size=20).astype(np.float32), jnp.ones((4, 3))
    shuffle = npr.permutation(20)
    one = CSR.from_edges(rows, cols, values, shape=(5, 4))
    other = CSR.from_edges(rows[shuffle], cols[shuffle], values[shuffle], shape=(5, 4))
    np.testing.assert_allclose(one @ b, other @ b, rtol=1e-5, atol=1e-6)
    assert np.all(np.diff(np.asarray(one.indptr)) == np.bincount(rows, minlength=5))


def test_jit_vmap_and_second_order(matrix, npr):
    csr, dense = matrix
    b = npr.normal(size=(3, 4, 2)).astype(np.float32)
    expected = np.einsum("ij,bjk->bik", dense, b)
    np.testing.assert_allclose(xjax.jit(xjax.vmap(lambda b: csr @ b))(b), expected, rtol=1e-5, atol=1e-6)
    jitted = xjax.jit(lambda a, b: a @ b)
    np.testing.assert_allclose(jitted(csr, b[0]), expected[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        jitted(csr.T, jnp.ones((6, 1))), dense.T @ np.ones((6, 1)), rtol=1e-5
    )

    def loss(product, b):
        return jnp.sum(jnp.square(product(b)) ** 2)

    def penalty(product, b):
        return jnp.sum(jnp.square(xjax.grad(lambda b: loss(product, b))(b)))

    got, want = xjax.jit(lambda b: [xjax.grad(lambda b: penalty(lambda b: a @ b, b))(b) for a in (csr, dense)])(b[0])
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)  # sixth powers in float32


def test_vmap_over_the_values(matrix):
    csr, dense = matrix
    scales = jnp.asarray([1.0, 2.0])
    b = np.ones((4, 2), np.float32)
    out = xjax.jit(xjax.vmap(lambda s: csr.with_data(csr.data * s) @ b))(scales)
    np.testing.assert_allclose(out, np.stack([dense @ b, 2 * dense @ b]), rtol=1e-5)


def test_gradient_of_the_transpose_and_of_the_left_product(matrix, npr):
    csr, dense = matrix
    left = npr.normal(size=(3, 6)).astype(np.float32)
    np.testing.assert_allclose(left @ csr, left @ dense, rtol=1e-5, atol=1e-6)
    product, got, want = xjax.jit(lambda left, data, dense: (
        left @ csr, xjax.grad(lambda d: jnp.sum(jnp.sin(csr.with_data(d).T @ left.T)))(data),
        xjax.grad(lambda a: jnp.sum(jnp.sin(a.T @ left.T)))(dense)))(left, csr.data, dense)
    np.testing.assert_allclose(product, left @ dense, rtol=1e-5, atol=1e-6)
    stored = np.asarray(want)[np.asarray(csr.rows), np.asarray(csr.indices)]
    np.testing.assert_allclose(got, stored, rtol=1e-5, atol=1e-6)


def test_values_may_be_traced(npr):
    rows, cols = np.array([2, 0, 1]), np.array([1, 0, 2])

    def product(values):
        return CSR.from_edges(rows, cols, values, shape=(3, 3)) @ jnp.asarray([1.0, 10.0, 100.0])

    values = jnp.asarray([2.0, 3.0, 4.0])
    np.testing.assert_allclose(xjax.jit(product)(values), [3, 400, 20])
    np.testing.assert_allclose(xjax.grad(lambda v: product(v).sum())(values), [10, 1, 100])


def test_nothing_of_full_size_is_made():
    n = 1234
    ring = CSR.from_edges(np.arange(n), (np.arange(n) + 1) % n, shape=(n, n))

    def loss(data, b):
        return jnp.sum(jnp.square(ring.with_data(data) @ b))

    program = str(xjax.make_jaxpr(xjax.grad(loss, (0, 1)))(ring.data, jnp.ones((n, 3))))
    assert f"[{n},3]" in program and f"{n},{n}" not in program


def test_is_a_pytree_with_a_static_shape(matrix):
    csr, dense = matrix
    leaves, treedef = tree_util.tree_flatten(csr)
    again = tree_util.tree_unflatten(treedef, leaves)
    assert again.shape == csr.shape and len(leaves) == 9
    np.testing.assert_array_equal(again.todense(), dense)
    doubled = xjax.jit(lambda a: a.with_data(a.data * 2))(csr)
    np.testing.assert_array_equal(doubled.todense(), 2 * dense)


def test_from_arrays_takes_scipys_three(matrix):
    csr, dense = matrix
    other = sp.csr_array(np.asarray(dense))
    again = CSR.from_arrays(other.data, other.indices, other.indptr, shape=other.shape)
    np.testing.assert_array_equal(again.todense(), dense)
    np.testing.assert_array_equal(again.indptr, csr.indptr)


def test_from_scipy_sums_repeated_places_and_leaves_its_argument_alone():
    coo = sp.coo_matrix(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    csr = CSR.from_scipy(coo)
    assert csr.nnz == 2 and coo.nnz == 3
    np.testing.assert_array_equal(csr.todense(), [[0, 3], [4, 0]])
    unsorted = sp.csr_matrix((np.ones(2), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    CSR.from_scipy(unsorted)
    assert list(unsorted.indices) == [1, 0]


def test_the_product_of_two_sparse_matrices_is_one():
    left, right = sp.random(5, 7, 0.4, format="csr"), sp.random(7, 3, 0.4, format="coo")
    for other in (right, CSR.from_scipy(right)):
        product = CSR.from_scipy(left) @ other
        assert isinstance(product, CSR) and product.shape == (5, 3)
        np.testing.assert_allclose(product.todense(), (left @ right).todense(), rtol=1e-6)


@pytest.mark.parametrize("shape", [(1, 3), (2, 0), (2, 5), (3, 16), (2, 17), (1, 64), (2, 66), (1, 128), (2, 300)])
def test_sampled_products_of_several_heads(npr, shape):
    """Small integers, which are exact in every order."""
    left, right = (npr.integers(-9, 9, (n, *shape)).astype(np.float32) for n in (4, 5))
    rows, cols = npr.integers(0, 4, 9), npr.integers(0, 5, 9)
    want = np.einsum("ehf,ehf->eh", left[rows], right[cols])
    np.testing.assert_array_equal(xjax.jit(sampled)(left, right, rows, cols), want)


def test_sampled_products_and_their_gradients(matrix, npr):
    csr, _ = matrix
    total = lambda scores, *operands: jnp.sum(jnp.sin(scores(*operands)))
    dense = lambda left, right: (left @ right.T)[csr.rows, csr.indices]
    sparse = lambda left, right: csr.sampled(left, right).data
    computed = xjax.jit(lambda left, right: (csr.sampled(left, right).todense(), *(
        xjax.grad(functools.partial(total, scores), (0, 1))(left, right) for scores in (sparse, dense))))
    mask = np.zeros(csr.shape)
    mask[csr.rows, csr.indices] = 1
    for f in (0, 1, 3, 8):
        left, right = (npr.normal(size=(n, f)).astype(np.float32) for n in csr.shape)
        made, got, want = computed(left, right)
        np.testing.assert_allclose(made, mask * (left @ right.T), rtol=1e-5, atol=1e-5)
        assert_close(got, want, tol=0.25)


def test_values_default_to_ones_and_keep_their_type():
    csr = CSR.from_edges([0, 1], [1, 0], shape=(2, 2))
    assert csr.dtype == jnp.float32
    half = csr.astype(jnp.bfloat16)
    assert half.dtype == jnp.bfloat16
    assert (half @ jnp.ones((2, 1), jnp.bfloat16)).dtype == jnp.bfloat16
    assert repr(csr) == "<CSR sparse f32[2,2] with 2 stored>"


SQUARE = CSR.from_edges([0, 1], [1, 0], shape=(2, 2))
WRONG = {
    "range": (
        lambda: CSR.from_edges([0, 5], [0, 0], shape=(2, 2)),
        ValueError,
        ["CSR.from_edges: an index in rows is outside", "rows[1]", "from 0 to 1"],
    ),
    "negative": (
        lambda: CSR.from_edges([0, 1], [0, -1], shape=(2, 2)),
        ValueError,
        ["an index in cols", "-1"],
    ),
    "lengths": (
        lambda: CSR.from_edges([0, 1], [0], shape=(2, 2)),
        ValueError,
        ["different lengths", "[2]", "[1]"],
    ),
    "float index": (
        lambda: CSR.from_edges([0.0], [0], shape=(1, 1)),
        TypeError,
        ["rows must be a one-dimensional array of integers", "f64[1]"],
    ),
    "shape": (lambda: CSR.from_edges([0], [0], shape=3), TypeError, ["(n_rows, n_cols)", "3"]),
    "indptr": (
        lambda: CSR.from_arrays([1.0], [0], [0, 2], shape=(1, 1)),
        ValueError,
        ["CSR.from_arrays: indptr is not a valid row pointer array", "ascending"],
    ),
    "not scipy": (
        lambda: CSR.from_scipy(np.ones((2, 2))),
        TypeError,
        ["CSR.from_scipy", "f64[2,2]", "CSR.from_dense"],
    ),
    "not a matrix": (
        lambda: CSR.from_dense(np.ones(3)),
        TypeError,
        ["x is not a matrix", "f64[3]"],
    ),
    "traced": (
        lambda: xjax.jit(lambda r: CSR.from_edges(r, r, shape=(2, 2)))(jnp.arange(2)),
        TypeError,
        ["rows is traced", "make the CSR outside jit"],
    ),
    "operand": (
        lambda: SQUARE @ jnp.ones((3, 1)),
        TypeError,
        ["CSR.__matmul__", "f32[3,1]", "f32[2,2] with 2 stored"],
    ),
    "rank": (lambda: SQUARE @ jnp.ones((2, 2, 2)), TypeError, ["f32[2,2,2]", "vmap"]),
    "sparse operand": (lambda: SQUARE @ CSR.from_dense(np.ones((3, 2))), TypeError,
                       ["two sparse matrices", "with 6 stored", "2 rows"]),
    "traced sparse operand": (lambda: xjax.jit(lambda csr: csr @ csr)(SQUARE), TypeError, ["is traced"]),
    "sampled": (lambda: SQUARE.sampled(np.ones((2, 3)), np.ones((2, 4))), TypeError, ["CSR.sampled", "[2, f]"]),
    "values": (
        lambda: SQUARE.with_data(jnp.ones(3)),
        ValueError,
        ["CSR.with_data", "f32[2]", "f32[3]"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_and_how_to_fix_it(name):
    assert_refused(*WRONG[name])
