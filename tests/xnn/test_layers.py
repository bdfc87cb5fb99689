"""Single layers beyond the table of `test_every_layer.py`: open sizes, sparse inputs, weights, dropout."""


import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_same
from xjax import random
from xnn import CSR, Dense, Dropout, RowKey


def test_open_leading_size(key):
    for layer, in_shape, out in [
        (Dense(3), (-1, 5), (-1, 3)),
        (xnn.Flatten, (-1, 4, 5), (-1, 20)),
        (xnn.Reshape(-1, 2), (-1, 4, 5), (-1, 10, 2)),
        (xnn.Relu, (-1, 5), (-1, 5)),
    ]:
        assert layer.init(key, in_shape)[0] == out


def test_a_layer_unpacks_as_exactly_the_pair():
    layer = Dense(3)
    init_fun, apply_fun = layer
    assert (init_fun, apply_fun) == (layer.init, layer.apply)
    assert len(tuple(layer)) == 2
    init_funs, apply_funs = zip(*[Dense(3), xnn.Relu], strict=True)
    assert len(init_funs) == len(apply_funs) == 2
    assert repr(xnn.GraphConvolution(2)) == "GraphConvolution(n_out=2) of (x, graph)"


def test_dense_takes_sparse_input(key, npr):
    x = npr.normal(size=(6, 5)).astype(np.float32) * (npr.random((6, 5)) < 0.4)
    layer = Dense(3)
    _, params = layer.init(key, (6, 5))
    np.testing.assert_allclose(
        layer.apply(params, CSR.from_dense(x)), layer.apply(params, x), rtol=1e-5, atol=1e-6
    )


def test_dense_weights_are_glorot_uniform(key):
    _, params = Dense(300).init(key, (-1, 500))
    limit = np.sqrt(6 / 800)
    w = np.asarray(params["w"])
    assert np.abs(w).max() <= limit
    np.testing.assert_allclose(w.var(), limit**2 / 3, rtol=0.02)
    assert not np.any(params["b"])


OF_TABLES = {
    "Embedding": (xnn.Embedding(4, 2), np.zeros((2, 500), int), {}),
    "with_precision": (xnn.with_precision(xnn.Embedding(4, 2), "bfloat16"), np.zeros((2, 500), int), {}),
    "LabelEmbedding": (xnn.LabelEmbedding(4, 2), np.zeros(1000, int), {}),
    "LearnedPositions": (xnn.LearnedPositions(3), np.zeros((1000, 3, 2)), {"mask": np.ones((1000, 3), bool)}),
    "RelativeBias": (xnn.RelativeBias(2, buckets=8), np.zeros((2, 60, 1)), {"mask": np.ones((2, 60), bool)}),
}


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", OF_TABLES)
def test_gradients_of_a_row_that_is_read_often(name, dtype, key):
    """A sum of ones in bfloat16 stays at 256; rows are read for each occurrence of a token."""
    layer, x, inputs = OF_TABLES[name]
    params = {"table": jnp.ones(layer.init(key, x.shape)[1]["table"].shape)}

    def gradient(dtype):
        own = jnp.asarray(x, "int32" if x.dtype == int else dtype)
        return xjax.grad(lambda params: jnp.sum(layer.apply(params, own, **inputs)).astype("float32"))(
            xnn.params.cast(params, dtype))

    want, got = xjax.jit(lambda: (gradient("float32"), gradient(dtype)))()
    assert got["table"].dtype == jnp.dtype(dtype)
    np.testing.assert_allclose(got["table"].astype("float32"), want["table"], rtol=2 ** -8)


def test_rows_of_a_table_in_half_precision(key):
    table = random.normal(key, (3, 5, 2)).astype("bfloat16")
    ids = jnp.array([[0, 4, -1], [5, 2, 2]])
    look_up = xjax.vmap(lambda table, ids: xnn.Embedding(5, 2).apply({"table": table}, ids), (0, None))
    rows, tangents = xjax.jit(lambda table: xjax.jvp(lambda table: look_up(table, ids), (table,), (table,)))(table)
    assert_same(rows, look_up(table.astype("float32"), ids).astype("bfloat16"), tol=0)
    assert_same(jnp.nan_to_num(tangents), jnp.nan_to_num(rows), tol=0)


def test_dropout_keeps_the_mean_and_drops_at_the_rate(key):
    x = jnp.full((400, 250), 2.0)
    y = np.asarray(Dropout(0.3).apply((), x, rng=key, train=True))
    assert set(np.unique(y)) == {0.0, np.float32(2.0 / 0.7)}
    # 100,000 draws: three standard deviations of the share are 0.0043
    assert abs((y == 0).mean() - 0.3) < 0.0045


def test_dropout_is_the_identity_where_nothing_is_random(key):
    x = jnp.ones((3, 3))
    assert Dropout(0.5).apply((), x, rng=key) is x
    assert Dropout(0.5).apply((), x) is x
    assert Dropout(0.0).apply((), x, train=True) is x


def test_dropout_gradient_is_its_mask(key):
    x = jnp.ones((20, 20))

    def drop(x):
        return Dropout(0.5).apply((), x, rng=key, train=True)

    np.testing.assert_array_equal(*xjax.jit(lambda x: (xjax.grad(lambda x: drop(x).sum())(x), drop(x)))(x))


@pytest.mark.parametrize("n_blocks", [1, 2, 4])
def test_row_key_draws_the_same_mask_for_any_number_of_blocks(key, n_blocks):
    x = jnp.ones((8, 16))
    layer = Dropout(0.5)
    size = 8 // n_blocks

    def block(i, x):
        return layer.apply((), x, rng=RowKey(key, i * size), train=True)

    whole, blocks = xjax.jit(lambda x: (layer.apply((), x, rng=RowKey(key, 0), train=True), xjax.vmap(block)(
        jnp.arange(n_blocks), x.reshape(n_blocks, size, 16))))(x)
    np.testing.assert_array_equal(np.asarray(blocks).reshape(8, 16), whole)
    assert len(np.unique(np.asarray(whole), axis=0)) > 1  # rows differ from one another


def test_row_key_on_sparse_rows(key, npr):
    x = (npr.random((8, 6)) < 0.6).astype(np.float32)
    layer = Dropout(0.5)
    parts = [(CSR.from_dense(part), start) for start, part in ((0, x), (0, x[:5]), (5, x[5:]))]
    whole, upper, lower = xjax.jit(lambda parts: [
        layer.apply((), part, rng=RowKey(key, start), train=True).todense() for part, start in parts])(parts)
    np.testing.assert_array_equal(np.concatenate([upper, lower]), whole)
    assert set(np.unique(whole)) == {0.0, 2.0}
    assert not np.any(np.asarray(whole)[x == 0])


def test_dropout_of_a_sparse_matrix_drops_stored_values(key, npr):
    x = (npr.random((50, 40)) < 0.5).astype(np.float32)
    y = np.asarray(Dropout(0.5).apply((), CSR.from_dense(x), rng=key, train=True).todense())
    assert not np.any(y[x == 0])
    share = (y[x == 1] == 0).mean()
    assert set(np.unique(y)) == {0.0, 2.0} and abs(share - 0.5) < 0.05


def test_fold_in_knows_the_three_kinds_of_rng(key):
    assert xnn.rng.fold_in(None, 3) is None
    np.testing.assert_array_equal(xnn.rng.fold_in(key, 3), random.fold_in(key, 3))
    folded = xnn.rng.fold_in(RowKey(key, 7), 3)
    np.testing.assert_array_equal(folded.key, random.fold_in(key, 3))
    assert folded.start == 7


def test_split_knows_the_three_kinds_of_rng(key):
    assert xnn.rng.split(None, 2) == (None, None)
    keys = random.split(key, 3)
    np.testing.assert_array_equal(xnn.rng.split(key, 3), keys)
    rows = xnn.rng.split(RowKey(key, 7), 3)
    np.testing.assert_array_equal([row.key for row in rows], keys)
    assert [row.start for row in rows] == [7, 7, 7]
