"""`vectorize`, `apply_along_axis` and `apply_over_axes` against JAX: values, shapes, classes of errors."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp
from tests.compare import assert_same, assert_same_outcome, outcome
from tests.numpy.rows import X3, I, V, X
from tests.oracle import real_jax
from tests.values.checks import called, check_calls
from tests.values.row import FunctionRow, calls, library_of

jnp = real_jax().numpy


def dot(np_: Any, a: Any, b: Any) -> Any:
    assert a.ndim == b.ndim == 1
    return np_.sum(a * b)


def mean_and_center(np_: Any, a: Any) -> Any:
    return np_.mean(a), a - np_.mean(a)


def scaled(np_: Any, a: Any, b: Any = 2, *, by: Any = 1) -> Any:
    return a if b is None else a * b * by


def of_vectorized(f: Callable, **options: Any) -> Callable:
    """The call of `vectorize(f, **options)`."""
    return lambda vectorize, *args, **keywords: vectorize(
        functools.partial(f, library_of(vectorize).numpy), **options)(*args, **keywords)


def vectorized(f: Callable, *arguments: Any, **options: Any) -> Iterator[FunctionRow]:
    """A row for each call, which is compiled separately; results are elements and sums of at most 4 numbers."""
    name = f"{f.__name__} {options.get('signature', '')}{options.get('excluded', '')}".strip()
    for k, one in enumerate(arguments):
        yield from calls("numpy", "vectorize", one, call=of_vectorized(f, **options), id=f"{name} {k}", tol=0.02)


VALUES = [
    *vectorized(scaled, (X, V), (X3, X[:2, :1].reshape(2, 1, 1)), (2.0, 3), (X[:1], None)),
    *vectorized(scaled, (X, 3), excluded={1}),
    *vectorized(scaled, (X, V, {"by": 3}), excluded={"by"}),
    *vectorized(dot, (X, V), (X3, X[:2, None]), (X3[:1], V), signature="(n),(n)->()"),
    *vectorized(mean_and_center, X3[:, :1], signature="(n)->(),(n)"),
]
ERRORS = [dataclasses.replace(row, id=f"{row.id}, refused") for row in (
    *vectorized(dot, (X, V[:3]), (X, 2.0), X, (X, None), signature="(n),(n)->()"),
    *vectorized(dot, (X, V), signature="(n),(n)->(n)"),
    *vectorized(dot, (X, V), signature="(n),(n)->(),()"),
    *vectorized(mean_and_center, X, signature="(n)->(),()"),
    *vectorized(dot, (X, V), signature="n,n->"),
    *vectorized(scaled, (X, V), excluded={-1}),
    *vectorized(scaled, (X, V), excluded={1.5}),
    *vectorized(scaled, (X, V[:3])),
)]


@pytest.mark.parametrize("row", VALUES + ERRORS, ids=str)
def test_vectorize(row):
    check_calls([row])


def test_the_rows_of_errors_raise():
    assert all(outcome(called, xjax, row, call).error for row in ERRORS for call in row.calls)


def test_spaces_in_signatures():
    f = xnp.vectorize(lambda a, b: xnp.sum(a * b), signature=" (n), (n) -> () ")
    np.testing.assert_allclose(f(X, V), X @ V, rtol=1e-6)


def test_keywords_broadcast_as_in_numpy():
    f = xnp.vectorize(lambda a, b=1: a * b)
    np.testing.assert_array_equal(f(xnp.asarray(V), b=xnp.asarray(X)), V * X)


def test_vectorize_maps_only_what_varies():
    """An argument of size 1 is not repeated: the program contains no larger product."""
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
