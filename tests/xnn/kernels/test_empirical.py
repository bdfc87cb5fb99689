"""Kernels of finite networks, and expansions in the parameters."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.refusals import assert_refused
from xjax import random
from xnn import Conv, Dense, Relu, Tanh, serial
from xnn.kernels import (
    Kernels,
    empirical_kernel,
    empirical_nngp,
    empirical_ntk,
    linearize,
    ntk_product,
    taylor_expand,
)
from xnn.kernels.empirical import METHODS

MODELS = {
    "dense": (serial(Dense(7), Tanh, Dense(5), Relu, Dense(3)), (4, 6)),
    "conv": (serial(Conv(4, (3, 2), strides=(2, 1), dilation=(1, 2)), Relu, Conv(3, (2, 2), groups=1), xnn.LayerNorm(),
                    xnn.Flatten, Dense(2)), (3, 6, 5, 2)),
    "groups": (serial(Conv(4, (3,), groups=2), Tanh, xnn.GlobalAvgPool(), Dense(2)), (3, 6, 2)),
    "general": (serial(xnn.DenseGeneral((2, 3)), Tanh, xnn.DenseGeneral(2, axis=(-2, -1))), (3, 5, 4)),
    "attention": (xnn.MultiHeadAttention(4, 2), (2, 5, 4)),
    "shared": (xnn.with_shared(serial(xnn.shared("a", Dense(4)), Tanh, xnn.shared("a", Dense(4)))), (3, 4)),
}


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape)


def by_hand(apply, params, x1, x2):
    """[n1, n2, *output, *output]."""
    def jacobian(x):
        leaves = xjax.tree.leaves(xjax.jacrev(lambda p: apply(p, x))(params))
        n = np.ndim(apply(params, x))
        return np.concatenate([np.reshape(leaf, (*leaf.shape[:n], -1)) for leaf in leaves], -1)

    one, other = jacobian(x1), jacobian(x2)
    n = one.ndim - 1
    product = np.tensordot(one, other, [[n], [n]])
    return np.moveaxis(product, n, 1)


# The fast set has one method for each model, in turn.
@pytest.mark.parametrize("name, method", [
    pytest.param(name, method, marks=[pytest.mark.slow] * (i % len(METHODS) != j))
    for i, name in enumerate(MODELS) for j, method in enumerate(METHODS)])
def test_methods(name, method):
    layer, shape = MODELS[name]
    with xjax.enable_x64(True):
        x1, x2 = drawn(*shape), drawn(*shape)[1:] + 0.3
        params = layer.init(random.PRNGKey(0), shape)[1]
        full = by_hand(layer.apply, params, x1, x2)
        result = empirical_ntk(layer.apply, method=method, trace_axes=())(params, x1, x2)
        np.testing.assert_allclose(result, full, 1e-9, 1e-9)
        n = (full.ndim - 2) // 2
        last = full.shape[-1]
        mean = np.trace(full, axis1=1 + n, axis2=full.ndim - 1) / last
        np.testing.assert_allclose(empirical_ntk(layer.apply, method=method)(params, x1, x2), mean, 1e-9, 1e-9)
        equal = np.moveaxis(np.diagonal(full, axis1=1 + n, axis2=full.ndim - 1), -1, 2)
        result = empirical_ntk(layer.apply, method=method, trace_axes=(), diagonal_axes=-1)(params, x1, x2)
        np.testing.assert_allclose(result, equal, 1e-9, 1e-9)


def test_outputs():
    layer, shape = MODELS["dense"]
    params, x = layer.init(random.PRNGKey(0), shape)[1], drawn(*shape).astype(np.float32)
    y = layer.apply(params, x)
    np.testing.assert_allclose(empirical_nngp(layer.apply)(params, x), y @ y.T / 3, 1e-5)
    both = empirical_kernel(layer.apply)(params, x)
    assert isinstance(both, Kernels)
    np.testing.assert_allclose(both.ntk, empirical_ntk(layer.apply)(params, x), 1e-5)
    np.testing.assert_allclose(empirical_kernel(layer.apply, get="nngp")(params, x), both.nngp, 1e-6)


def test_products_without_the_matrix():
    layer, shape = MODELS["conv"]
    params, x = layer.init(random.PRNGKey(0), shape)[1], drawn(*shape).astype(np.float32)
    v = drawn(3, 2).astype(np.float32)
    full = empirical_ntk(layer.apply, trace_axes=())(params, x)
    np.testing.assert_allclose(ntk_product(layer.apply, params, x)(v), np.einsum("abij,bj->ai", full, v), 1e-4, 1e-4)


def test_plain_functions_and_inputs():
    def apply(params, x, factor):
        return factor * jnp.sin(x @ params["w"])

    params, x = {"w": jnp.asarray(drawn(4, 2), "float32")}, drawn(3, 4).astype(np.float32)
    assert empirical_ntk(apply)(params, x, factor=2.0).shape == (3, 3)
    np.testing.assert_allclose(empirical_ntk(apply)(params, x, factor=2.0),
                               4 * empirical_ntk(apply)(params, x, factor=1.0), 1e-5)


def test_expansions():
    layer = serial(Dense(5), Tanh, Dense(2))
    x = drawn(3, 4).astype(np.float32)
    params = layer.init(random.PRNGKey(0), x.shape)[1]
    with xjax.enable_x64(True):
        params = xjax.tree.map(lambda w: jnp.asarray(w, "float64"), params)
        x = drawn(3, 4)
        step = xjax.tree.map(lambda w: jnp.asarray(drawn(*w.shape)), params)
        errors = {}
        for size in (1e-2, 2e-2):
            new = xjax.tree.map(lambda w, d: w + size * d, params, step)
            errors[size] = [np.max(abs(taylor_expand(layer.apply, params, k)(new, x) - layer.apply(new, x)))
                            for k in range(4)]
        for k in range(4):                  # the error of degree k is of the order k + 1 in the step
            assert np.log2(errors[2e-2][k] / errors[1e-2][k]) == pytest.approx(k + 1, abs=0.1)
        linear = linearize(layer.apply, params)
        np.testing.assert_allclose(linear(new, x), taylor_expand(layer.apply, params, 1)(new, x))


def of_dense(**options):
    layer, x = Dense(2), np.ones((1, 2), np.float32)
    return empirical_ntk(layer.apply, **options)(layer.init(random.PRNGKey(0), x.shape)[1], x)


ERRORS = {
    "method": (lambda: empirical_ntk(Dense(2).apply, method="fast"), ["method", "fast"]),
    "axis": (lambda: of_dense(trace_axes=3), ["trace_axes"]),
    "twice": (lambda: of_dense(diagonal_axes=-1), ["averaged and kept"]),
    "degree": (lambda: taylor_expand(Dense(2).apply, (), -1), ["degree"]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, words = ERRORS[name]
    assert_refused(call, ValueError, words)
