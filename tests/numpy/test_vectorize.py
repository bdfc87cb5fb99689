"""`vectorize`, `apply_along_axis` and `apply_over_axes` against JAX: values, shapes, classes of errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp
from tests.compare import assert_same, assert_same_outcome, outcome
from tests.numpy.rows import X3, I, V, X
from tests.oracle import real_jax

jnp = real_jax().numpy


def dot(np_: Any, a: Any, b: Any) -> Any:
    assert a.ndim == b.ndim == 1
    return np_.sum(a * b)


def mean_and_center(np_: Any, a: Any) -> Any:
    return np_.mean(a), a - np_.mean(a)


def scaled(np_: Any, a: Any, b: Any = 2, *, by: Any = 1) -> Any:
    return a if b is None else a * b * by


# function, keywords of vectorize, arguments, keywords
CALLS = [
    (scaled, {}, (X, V), {}),
    (scaled, {}, (X3, X[:2, :1].reshape(2, 1, 1)), {}),
    (scaled, {}, (2.0, 3), {}),
    (scaled, {}, (X[:1], None), {}),
    (scaled, {"excluded": {1}}, (X, 3), {}),
    (scaled, {"excluded": {"by"}}, (X, V), {"by": 3}),
    (dot, {"signature": "(n),(n)->()"}, (X, V), {}),
    (dot, {"signature": "(n),(n)->()"}, (X3, X[:2, None]), {}),
    (dot, {"signature": "(n),(n)->()"}, (X3[:1], V), {}),
    (mean_and_center, {"signature": "(n)->(),(n)"}, (X3[:, :1],), {}),
    # errors
    (dot, {"signature": "(n),(n)->()"}, (X, V[:3]), {}),
    (dot, {"signature": "(n),(n)->()"}, (X, 2.0), {}),
    (dot, {"signature": "(n),(n)->()"}, (X,), {}),
    (dot, {"signature": "(n),(n)->()"}, (X, None), {}),
    (dot, {"signature": "(n),(n)->(n)"}, (X, V), {}),
    (dot, {"signature": "(n),(n)->(),()"}, (X, V), {}),
    (mean_and_center, {"signature": "(n)->(),()"}, (X,), {}),
    (dot, {"signature": "n,n->"}, (X, V), {}),
    (scaled, {"excluded": {-1}}, (X, V), {}),
    (scaled, {"excluded": {1.5}}, (X, V), {}),
    (scaled, {}, (X, V[:3]), {}),
]


def run(np_: Any, f: Any, options: dict, args: tuple, kwargs: dict) -> Any:
    args = [np_.asarray(x) if isinstance(x, np.ndarray) else x for x in args]
    try:
        out = np_.vectorize(lambda *a, **k: f(np_, *a, **k), **options)(*args, **kwargs)
    except Exception as error:
        return error
    return [np.asarray(x) for x in (out if isinstance(out, tuple) else (out,))]


@pytest.mark.parametrize("i", range(len(CALLS)))
def test_vectorize(i):
    ours, theirs = (run(np_, *CALLS[i]) for np_ in (xnp, jnp))
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), (ours, theirs)
        return
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-6)


def test_the_last_rows_are_errors():
    assert [isinstance(run(xnp, *c), Exception) for c in CALLS] == [False] * 10 + [True] * 11


def test_spaces_in_signatures():
    f = xnp.vectorize(lambda a, b: xnp.sum(a * b), signature=" (n), (n) -> () ")
    np.testing.assert_allclose(f(X, V), X @ V, rtol=1e-6)


def test_keywords_broadcast_as_in_numpy():
    f = xnp.vectorize(lambda a, b=1: a * b)
    np.testing.assert_array_equal(f(xnp.asarray(V), b=xnp.asarray(X)), V * X)


def test_vectorize_maps_only_what_varies():
    """An argument of size 1 is not repeated: the program has no larger product."""
    f = xnp.vectorize(lambda a, b: a @ b, signature="(n,m),(m)->(n)")
    shapes = str(xjax.make_jaxpr(f)(X[:, :3], np.ones((5, 3), np.float32)))
    assert "f32[5,3,3]" not in shapes
    g = xjax.grad(lambda w: xnp.sum(f(w, np.ones((5, 4), np.float32)) ** 2))(xnp.asarray(X))
    np.testing.assert_allclose(g, 10 * np.broadcast_to(X.sum(1, keepdims=True), X.shape), rtol=1e-5)


@pytest.mark.parametrize(("f", "axis", "x", "more"), [
    (lambda np_, x: x[::2], 0, X, ()), (lambda np_, x: np_.outer(x, x), 1, X3, ()),
    (lambda np_, x, y: np_.sum(x) * y, -1, X3, (2.0,)), (lambda np_, x: np_.sum(x), 0, 2.0, ())])
def test_apply_along_axis(f, axis, x, more):
    assert_same_outcome(*(outcome(lambda: np_.apply_along_axis(
        lambda v, *m: f(np_, v, *m), axis, np_.asarray(x), *more)) for np_ in (xnp, jnp)))


def test_apply_over_axes():
    for axes in ([0, 2], (1,), [-1, 0]):
        assert_same(*(np_.apply_over_axes(np_.sum, np_.asarray(X3), axes) for np_ in (xnp, jnp)))
    with pytest.raises(ValueError, match="turned 3 axes into 0"):
        xnp.apply_over_axes(lambda a, axis: xnp.sum(a), X3, [0])
    assert xnp.apply_over_axes(lambda a, axis: xnp.sum(a, axis, keepdims=True), I, [0]).shape == (1, 4)
