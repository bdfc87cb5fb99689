"""Checks of layers whose input or output is not one array of nodes: the same checks as of every row."""

import numpy as np

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close
from xjax import tree_util


def doubled(tree):
    """The tree as NumPy arrays, with floats in float64."""
    return tree_util.tree_map(lambda v: np.asarray(v, np.float64) if jnp.issubdtype(v.dtype, np.floating) else
                              np.asarray(v), tree)


def cast(tree, dtype):
    """The tree with its floats in another dtype."""
    return tree_util.tree_map(
        lambda v: np.asarray(v).astype(dtype) if jnp.issubdtype(v.dtype, np.floating) else v, tree)


def check_numerics(f, floats, tol=1.0):
    """Values under vmap, gradients of both modes against differences in float64, bfloat16 stays bfloat16; all compiled.

    Args: f: a function from a tree of floats to a tree of floats.
    """
    doubled_floats = tree_util.tree_map(lambda leaf: np.stack([leaf, leaf]), floats)
    y, mapped = xjax.jit(lambda floats, doubles: (f(floats), xjax.vmap(f)(doubles)))(floats, doubled_floats)
    assert all(leaf.dtype == np.float32 for leaf in tree_util.tree_leaves(y))
    assert_close(mapped, tree_util.tree_map(lambda leaf: np.stack([leaf, leaf]), y), tol=tol / 4)
    half = xjax.jit(f)(cast(floats, jnp.bfloat16))
    assert all(leaf.dtype == jnp.bfloat16 for leaf in tree_util.tree_leaves(half))
    scale = max(1.0, *(float(np.max(np.abs(leaf))) for leaf in tree_util.tree_leaves(y) if leaf.size))
    assert_close(half, y, tol=2.5 * tol, scale=scale)
    with xjax.enable_x64(True):
        double, npr = cast(floats, np.float64), np.random.default_rng(5)

        def total(floats):
            y = f(floats)
            assert all(leaf.dtype == np.float64 for leaf in tree_util.tree_leaves(y))
            return sum(jnp.sum(jnp.sin(leaf)) for leaf in tree_util.tree_leaves(y))

        step = tree_util.tree_map(lambda leaf: npr.normal(size=leaf.shape), double)
        derivatives = xjax.jit(lambda double: (xjax.jvp(total, (double,), (step,)), xjax.grad(total)(double)))
        along = lambda sign: derivatives(tree_util.tree_map(lambda leaf, d: leaf + sign * 1e-6 * d, double, step))[0][0]
        (_, forward), grads = derivatives(double)
        slope = sum(np.sum(np.asarray(g) * d) for g, d in zip(*map(tree_util.tree_leaves, (grads, step)), strict=True))
        np.testing.assert_allclose(slope, (along(1) - along(-1)) / 2e-6, rtol=1e-6 * tol, atol=1e-6 * tol)
        np.testing.assert_allclose(forward, slope, rtol=1e-9 * tol, atol=1e-9 * tol)


def check_finite(f, floats):
    """Values and gradients are finite."""
    total = lambda floats: sum(jnp.sum(leaf) for leaf in tree_util.tree_leaves(f(floats)))
    for leaf in tree_util.tree_leaves(xjax.jit(lambda floats: (f(floats), xjax.grad(total)(floats)))(floats)):
        assert np.isfinite(np.asarray(leaf, np.float64)).all()
