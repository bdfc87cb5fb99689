"""take, take_along_axis, put_along_axis, put, choose, select, piecewise, compress, extract, place."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
FAR = np.array([[0, -1], [7, -9]])


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("mode", [None, "clip", "wrap"])
def test_take(axis, mode):
    size = X.size if axis is None else X.shape[axis]
    inside = np.isin(FAR, np.arange(-size, size))
    known = FAR if mode else np.where(inside, FAR, 0)
    want = np.take(X, known, axis, mode=mode or "raise")
    if mode is None:                                    # elements out of range are nan
        whole = (slice(None),) * ((axis or 0) % X.ndim)     # the axes before the indexed axis
        want[(*whole, *np.nonzero(~inside))] = np.nan
    for f in (jnp.take, xjax.jit(jnp.take, static_argnames=("axis", "mode"))):
        np.testing.assert_array_equal(f(X, FAR, axis=axis, mode=mode), want)


def test_take_edges():
    assert jnp.take(X, 1, axis=0).shape == (4,)
    assert jnp.take(X, np.zeros((0, 2), np.int32), axis=1).shape == (3, 0, 2)
    assert jnp.take(jnp.arange(3), np.array([5]), fill_value=-1).tolist() == [-1]
    with pytest.raises(TypeError, match="integers"):
        jnp.take(X, np.array([1.5]))
    with pytest.raises(TypeError, match="numpy.array"):
        jnp.take(X, [0, 1])
    with pytest.raises(NotImplementedError, match="mode='fill'"):
        jnp.take(X, 0, mode="raise")
    with pytest.raises(IndexError, match="empty axis"):
        jnp.take(np.zeros((0, 2)), 0, axis=0)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_along_axis(axis):
    i = np.argsort(X, axis)
    np.testing.assert_array_equal(jnp.take_along_axis(X, i, axis), np.take_along_axis(X, i, axis))
    first = np.argmin(X, axis or 0, keepdims=True) if axis is not None else i[:2]
    np.testing.assert_array_equal(jnp.take_along_axis(X, first, axis), np.take_along_axis(X, first, axis))
    want = X.copy()
    np.put_along_axis(want, first, 9.0, axis)
    np.testing.assert_array_equal(jnp.put_along_axis(X, first, 9.0, axis, inplace=False), want)
    with pytest.raises(ValueError, match="inplace=False"):
        jnp.put_along_axis(X, first, 9.0, axis)


def test_gradient_of_take_along_axis():
    i = np.array([[1, 1], [0, 3], [2, 2]])
    got = xjax.grad(lambda x: jnp.sum(jnp.take_along_axis(x, i, 1) * np.array([1.0, 2.0], np.float32)))(X)
    want = np.zeros_like(X)
    np.add.at(want, (np.arange(3)[:, None], i), [1.0, 2.0])
    np.testing.assert_allclose(got, want)


def test_put_and_place():
    want = X.copy()
    np.put(want, [0, 5, -1], [1.0, 2.0])
    np.testing.assert_array_equal(jnp.put(X, np.array([0, 5, -1]), np.float32([1, 2]), inplace=False), want)
    nothing = jnp.put(X, np.array([0]), np.zeros(0, np.float32), inplace=False)
    np.testing.assert_array_equal(nothing, X)                   # as in NumPy; jax-ml/jax#28602
    want = X.copy()
    np.place(want, X > 0, [1.0, 2.0])
    np.testing.assert_array_equal(jnp.place(X, X > 0, np.float32([1, 2]), inplace=False), want)


def test_choose():
    a, choices = np.array([0, 2, 1]), [np.arange(3), 10 * np.arange(3), 100 * np.arange(3)]
    np.testing.assert_array_equal(jnp.choose(a, choices), np.choose(a, choices))
    for mode in ("wrap", "clip"):
        far = np.array([-1, 4, 1])
        np.testing.assert_array_equal(jnp.choose(far, choices, mode=mode), np.choose(far, choices, mode=mode))
    with pytest.raises(ValueError, match="3 choices"):
        jnp.choose(np.array([3]), choices)
    with pytest.raises(TypeError, match="mode='wrap'"):
        xjax.jit(lambda a: jnp.choose(a, choices))(a)


def test_select_and_piecewise():
    for conditions in ([X > 1, X > 0], [X > 0]):
        choices = [X, -X][:len(conditions)]
        np.testing.assert_array_equal(jnp.select(conditions, choices, 5.0), np.select(conditions, choices, 5.0))
    conditions, functions = [X > 0, X > 1], [lambda x: 2 * x, 7.0, lambda x: -x]
    np.testing.assert_allclose(jnp.piecewise(X, conditions, functions), np.piecewise(X, conditions, functions))
    np.testing.assert_allclose(jnp.piecewise(X, [X > 0], [1.0]), np.piecewise(X, [X > 0], [1.0]))
    with pytest.raises(ValueError, match="at least one"):
        jnp.select([], [])
    with pytest.raises(ValueError, match="functions"):
        jnp.piecewise(X, [X > 0], [])


def test_compress_and_extract():
    mask = np.array([True, False, True])
    np.testing.assert_array_equal(jnp.compress(mask, X, 0), np.compress(mask, X, 0))
    np.testing.assert_array_equal(jnp.compress(mask, X), np.compress(mask, X))
    np.testing.assert_array_equal(jnp.extract(X > 0, X), np.extract(X > 0, X))
    got = xjax.jit(lambda m, x: jnp.extract(m, x, size=12, fill_value=-9))(X > 0, X)
    kept = X[X > 0]
    np.testing.assert_array_equal(got, np.concatenate([kept, np.full(12 - kept.size, -9)]))
    with pytest.raises(ValueError, match="beyond the end"):
        jnp.compress(np.ones(5, bool), X, 0)
    with pytest.raises(xjax.errors.NonConcreteBooleanIndexError):
        xjax.jit(lambda m: jnp.compress(m, X, 0))(mask)
