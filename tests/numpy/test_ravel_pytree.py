"""`flatten_util.ravel_pytree` against real JAX: vectors, dtypes, weak types, unraveling; under transformations."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax.flatten_util import ravel_pytree

TREES = {
    "number": 1.0, "bool": True, "none": [], "nothing": {"a": None, "b": ()}, "numbers": [1.0, 2, 3j],
    "one dtype": {"w": np.ones((2, 3), np.float32), "b": (np.zeros(2, np.float32), np.float32(4))},
    "several": [np.arange(3, dtype=np.int32), 1.5, np.array([[True]]), np.zeros((2, 0), np.float32)],
}


@pytest.mark.parametrize("name", TREES)
def test_as_jax(name):
    jax, theirs = real_jax(), real_jax("flatten_util").flatten_util
    (flat, back), (their_flat, their_back) = (m.ravel_pytree(TREES[name]) for m in (xjax.flatten_util, theirs))
    np.testing.assert_array_equal(flat, their_flat)
    ours, theirs = ([x, *m.tree.leaves(f(x))] for m, f, x in ((xjax, back, flat), (jax, their_back, their_flat)))
    assert_same(ours, theirs, tol=0)
    assert xjax.tree.structure(back(flat)) == xjax.tree.structure(TREES[name])


def test_under_transformations():
    tree = {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(2)}
    flat, unravel = ravel_pytree(tree)
    hessian = xjax.hessian(lambda v: jnp.sum(unravel(v)["w"] ** 3))(flat)
    np.testing.assert_allclose(jnp.diag(hessian), [0, 0, *(6 * np.arange(6.0))])
    grads = xjax.grad(lambda t: jnp.sum(ravel_pytree(t)[0] ** 2))(tree)
    np.testing.assert_allclose(grads["w"], 2 * tree["w"])
    rows = xjax.vmap(lambda t: ravel_pytree(t)[0])(xjax.tree.map(lambda x: jnp.stack([x, 2 * x]), tree))
    np.testing.assert_array_equal(rows, np.stack([flat, 2 * flat]))


def test_the_way_back_is_a_static_argument():
    traces = []

    @functools.partial(xjax.jit, static_argnums=0)
    def total(unravel, v):
        traces.append(1)
        return sum(map(jnp.sum, xjax.tree.leaves(unravel(v))))

    for value in (1.0, 2.0):
        flat, unravel = ravel_pytree([jnp.full(2, value), jnp.ones((1, 2))])
        assert float(total(unravel, flat)) == 2 * value + 2
    assert len(traces) == 1


@pytest.mark.parametrize("call, kind, text", [
    (lambda: ravel_pytree(["text"]), TypeError, "requires an array or a number"),
    (lambda: ravel_pytree(np.ones(3))[1](np.ones(4)), ValueError, "must have 3 elements"),
    (lambda: ravel_pytree(np.ones(3))[1](1.0), ValueError, "fix: pass a vector of the size"),
    (lambda: ravel_pytree([1.0, 2])[1](np.ones(2, np.int32)), TypeError, "must have dtype float32"),
])
def test_misuse(call, kind, text):
    assert_refused(call, kind, text)
