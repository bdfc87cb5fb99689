"""Every layer without neighbours, by table: shape, value, jit, gradient; then dropout."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.xnn.wrong import assert_refused
from xjax import nn, random, tree_util
from xnn import CSR, Dense, Dropout, Layer, RowKey


class Row(NamedTuple):
    layer: Layer
    shape: tuple
    value: Callable  # (params, x) -> y, in NumPy


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


_erf_gelu = np.vectorize(lambda v: 0.5 * v * (1 + math.tanh(0.7978845608 * (v + 0.044715 * v**3))))

def _standard(x, axes, epsilon=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def _group_norm(groups):
    def value(p, x):
        split = x.reshape(*x.shape[:-1], groups, -1)
        y = _standard(split, (*range(1, x.ndim - 1), x.ndim)).reshape(x.shape)
        return y * p.get("scale", 1) + p.get("bias", 0)
    return value


def _affine_of(layer):
    """The layer with parameters that are neither 1 nor 0."""
    def init(rng, in_shape):
        shape, params = layer.init(rng, in_shape)
        return shape, tree_util.tree_map(lambda leaf: leaf + random.uniform(rng, leaf.shape), params)
    return Layer(init, layer.apply, layer.name)


LAYERS = {
    "LayerNorm": Row(_affine_of(xnn.LayerNorm()), (4, 5), lambda p, x: _standard(x, -1) * p["scale"] + p["bias"]),
    "LayerNorm axes": Row(_affine_of(xnn.LayerNorm((-1, 1), epsilon=0.1)), (2, 3, 2, 5), lambda p, x: (
        _standard(x, (1, 3), 0.1) * p["scale"][:, None] + p["bias"][:, None])),
    "LayerNorm plain": Row(xnn.LayerNorm(scale=False, bias=False), (4, 5), lambda p, x: _standard(x, -1)),
    "RMSNorm": Row(_affine_of(xnn.RMSNorm()), (2, 3, 5), lambda p, x: (
        x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6) * p["scale"])),
    "GroupNorm": Row(_affine_of(xnn.GroupNorm(2)), (3, 4, 2, 6), _group_norm(2)),
    "GroupNorm rank 2": Row(_affine_of(xnn.GroupNorm(3)), (4, 6), _group_norm(3)),
    "InstanceNorm": Row(xnn.InstanceNorm(), (3, 4, 2), _group_norm(2)),
    "InstanceNorm affine": Row(_affine_of(xnn.InstanceNorm(scale=True, bias=True)), (3, 4, 2), _group_norm(2)),
    "Attend": Row(xnn.Attend(7), (2, 4, 3), lambda p, x: x @ p["table"].T),
    "Dense": Row(Dense(3), (4, 5), lambda p, x: x @ p["w"] + p["b"]),
    "Dense no bias": Row(Dense(3, bias=False), (4, 5), lambda p, x: x @ p["w"]),
    "Dense rank 3": Row(Dense(2), (2, 4, 5), lambda p, x: x @ p["w"] + p["b"]),
    "Dense rank 1": Row(Dense(2), (5,), lambda p, x: x @ p["w"] + p["b"]),
    "Dense b_init": Row(Dense(3, b_init=nn.initializers.ones), (4, 5), lambda p, x: x @ p["w"] + 1),
    "Dropout": Row(Dropout(0.5), (4, 5), lambda p, x: x),
    "Relu": Row(xnn.Relu, (4, 5), lambda p, x: np.maximum(x, 0)),
    "Tanh": Row(xnn.Tanh, (4, 5), lambda p, x: np.tanh(x)),
    "Sigmoid": Row(xnn.Sigmoid, (4, 5), lambda p, x: 1 / (1 + np.exp(-x))),
    "Elu": Row(xnn.Elu, (4, 5), lambda p, x: np.where(x > 0, x, np.expm1(x))),
    "LeakyRelu": Row(xnn.LeakyRelu, (4, 5), lambda p, x: np.where(x > 0, x, 0.01 * x)),
    "Selu": Row(
        xnn.Selu,
        (4, 5),
        lambda p, x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    ),
    "Gelu": Row(xnn.Gelu, (4, 5), lambda p, x: _erf_gelu(x)),
    "Softplus": Row(xnn.Softplus, (4, 5), lambda p, x: np.log1p(np.exp(x))),
    "Exp": Row(xnn.Exp, (4, 5), lambda p, x: np.exp(x)),
    "Softmax": Row(xnn.Softmax, (4, 5), lambda p, x: _softmax(x)),
    "LogSoftmax": Row(xnn.LogSoftmax, (4, 5), lambda p, x: np.log(_softmax(x))),
    "Identity": Row(xnn.Identity, (4, 5), lambda p, x: x),
    "elementwise": Row(
        xnn.elementwise(nn.leaky_relu, negative_slope=0.5),
        (4, 5),
        lambda p, x: np.where(x > 0, x, 0.5 * x),
    ),
    "Flatten": Row(xnn.Flatten, (4, 5, 2), lambda p, x: x.reshape(4, 10)),
    "Reshape": Row(xnn.Reshape(2, 5), (4, 10), lambda p, x: x.reshape(4, 2, 5)),
    "Reshape open": Row(xnn.Reshape(5, -1), (4, 10), lambda p, x: x.reshape(4, 5, 2)),
    "FanOut": Row(xnn.FanOut(2), (4, 5), lambda p, x: (x, x)),
    "residual": Row(xnn.residual(xnn.Tanh), (4, 5), lambda p, x: x + np.tanh(x)),
}


@pytest.fixture(params=LAYERS, ids=str)
def row(request):
    return LAYERS[request.param]


def test_shape_value_and_jit(row, key, npr):
    x = npr.normal(size=row.shape).astype(np.float32)
    out_shape, params = row.layer.init(key, row.shape)
    y = row.layer.apply(params, jnp.asarray(x))
    expected = row.value(tree_util.tree_map(np.asarray, params), x)
    assert tree_util.tree_map(jnp.shape, y) == out_shape
    for got, want in zip(tree_util.tree_leaves(y), tree_util.tree_leaves(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    jitted = xjax.jit(row.layer.apply)(params, x)
    for got, want in zip(tree_util.tree_leaves(jitted), tree_util.tree_leaves(y), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_gradient_to_the_input_is_that_of_a_difference(row, key, npr):
    _, params = row.layer.init(key, row.shape)
    x = npr.normal(size=row.shape).astype(np.float32)
    x += 0.1 * np.sign(x)  # away from the corner of relu
    dx = npr.normal(size=row.shape).astype(np.float32)

    def total(x):
        leaves = tree_util.tree_leaves(row.layer.apply(params, x))
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in leaves)

    eps = 1e-2
    difference = (total(x + eps * dx) - total(x - eps * dx)) / (2 * eps)
    along = np.sum(np.asarray(xjax.grad(total)(jnp.asarray(x))) * dx)
    # float32 and a second-order difference: the error is about eps^2
    np.testing.assert_allclose(along, difference, rtol=1e-2, atol=1e-2)


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
    assert repr(xnn.GraphConvolution(2)) == "GraphConvolution(n_out=2) of (x, adj)"


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

    np.testing.assert_array_equal(xjax.grad(lambda x: drop(x).sum())(x), drop(x))


@pytest.mark.parametrize("n_blocks", [1, 2, 4])
def test_row_key_draws_the_same_mask_for_any_number_of_blocks(key, n_blocks):
    x = jnp.ones((8, 16))
    layer = Dropout(0.5)
    whole = layer.apply((), x, rng=RowKey(key, 0), train=True)
    size = 8 // n_blocks

    def block(i, x):
        return layer.apply((), x, rng=RowKey(key, i * size), train=True)

    blocks = xjax.vmap(block)(jnp.arange(n_blocks), x.reshape(n_blocks, size, 16))
    np.testing.assert_array_equal(blocks.reshape(8, 16), whole)
    assert len(np.unique(np.asarray(whole), axis=0)) > 1  # rows differ from one another


def test_row_key_on_sparse_rows(key, npr):
    x = (npr.random((8, 6)) < 0.6).astype(np.float32)
    layer = Dropout(0.5)
    whole = layer.apply((), CSR.from_dense(x), rng=RowKey(key, 0), train=True).todense()
    upper, lower = (
        layer.apply((), CSR.from_dense(part), rng=RowKey(key, start), train=True).todense()
        for start, part in ((0, x[:5]), (5, x[5:]))
    )
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


WRONG = {
    "dropout rate": (lambda key: Dropout(1.0), ValueError, ["Dropout: rate", "1.0", "keep rate"]),
    "dropout negative": (lambda key: Dropout(-0.1), ValueError, ["[0, 1)", "-0.1"]),
    "dropout no rng": (
        lambda key: Dropout(0.5).apply((), jnp.ones(3), train=True),
        TypeError,
        ["Dropout: training needs random bits", "rng", "train=False"],
    ),
    "dense features": (
        lambda key: Dense(2).apply(Dense(2).init(key, (-1, 4))[1], jnp.ones((3, 5))),
        TypeError,
        ["Dense: the weights take 4 features, the input has 5", "f32[3,5]"],
    ),
    "dense shape": (
        lambda key: Dense(2).init(key, (4, -1)),
        TypeError,
        ["Dense: init needs the shape", "(4, -1)", "leading"],
    ),
    "dense shape int": (lambda key: Dense(2).init(key, 4), TypeError, ["in_shape", "4"]),
    "reshape": (
        lambda key: xnn.Reshape(3, 4).init(key, (2, 10)),
        TypeError,
        ["Reshape: the number of elements differs", "10 per row", "(3, 4)"],
    ),
    "reshape open": (lambda key: xnn.Reshape(-1, -1), TypeError, ["more than one size is -1"]),
    "flatten": (
        lambda key: xnn.Flatten.init(key, (2, -1, 3)),
        TypeError,
        ["Flatten", "(2, -1, 3)"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_say_what_and_how_to_fix_it(name, key):
    assert_refused(WRONG[name], key)
