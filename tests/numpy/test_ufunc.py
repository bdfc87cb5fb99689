"""`ufunc` objects and the methods of the library's functions, against JAX."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp
from tests.compare import assert_same_outcome, outcome
from tests.numpy.calls import outcomes_in_jax, to_arrays
from tests.numpy.rows import B, I, U, V, X
from tests.oracle import real_jax

jnp = real_jax().numpy

NAMES = ["add", "bitwise_and", "bitwise_or", "bitwise_xor", "logaddexp", "logaddexp2", "logical_and", "logical_or",
         "logical_xor", "maximum", "minimum", "multiply", "negative", "subtract"]


def horner(x: Any, y: Any) -> Any:
    return x * 2 + y


def made(np_: Any, name: str) -> Any:
    return np_.frompyfunc(horner, 2, 1) if name == "made" else getattr(np_, name)


# name, method, arguments, keywords
CALLS = [
    *[("made", "__call__", args, {}) for args in ((1, 2), (X, V), (I, 2.5), (1,))],
    *[("made", "reduce", (X,), more) for more in (
        {}, {"axis": 1, "keepdims": True}, {"axis": None}, {"initial": 1.0}, {"where": B, "initial": 0},
        {"where": B}, {"axis": 5}, {"dtype": "int32"}, {"out": 1})],
    ("made", "reduce", (X[:0],), {}), ("made", "reduce", (I,), {}), ("made", "reduce", (2.0,), {}),
    ("made", "accumulate", (X,), {"axis": 1}), ("made", "accumulate", (I,), {}), ("made", "accumulate", (2.0,), {}),
    ("made", "outer", (V, I[0]), {}), ("made", "outer", (X, 2.0), {}),
    ("made", "at", (X, 0, 1.0), {"inplace": False}),
    ("made", "at", (V, np.array([0, 2, 0]), V[:3]), {"inplace": False}),
    ("made", "at", (V, 0, 1.0), {}), ("made", "reduceat", (V, np.array([0, 2, 1])), {}),
    ("add", "reduce", (I,), {}), ("add", "reduce", (X, (0, 1)), {}), ("add", "reduce", (X,), {"where": B}),
    ("add", "accumulate", (X, 1), {}), ("add", "reduceat", (X, np.array([0, 2, 1, 3]), 1), {}),
    ("add", "at", (V, np.array([1, 1, -1]), 5.0), {"inplace": False}), ("negative", "at", (V, 1), {"inplace": False}),
    ("multiply", "reduce", (U, 0), {}), ("maximum", "reduce", (X, 1), {"initial": 0.5}),
    ("minimum", "reduce", (X,), {}),
    ("maximum", "accumulate", (V,), {}), ("logical_and", "reduce", (B,), {}), ("logical_or", "reduce", (I, 1), {}),
    ("logical_xor", "reduce", (B,), {}), ("bitwise_and", "reduce", (I,), {}), ("bitwise_or", "reduce", (U[:0],), {}),
    ("subtract", "accumulate", (X,), {}), ("logaddexp", "reduce", (X,), {"where": B}),
    ("subtract", "outer", (V, V), {}),
]


def run(np_: Any, name: str, method: str, args: tuple, keywords: dict) -> Any:
    return getattr(made(np_, name), method)(*(to_arrays(np_, x) for x in args),
                                            **{k: to_arrays(np_, v) for k, v in keywords.items()})


@pytest.mark.parametrize("name", sorted({c[0] for c in CALLS}))
def test_methods(name):
    calls = [call for call in CALLS if call[0] == name]
    wants = outcomes_in_jax([functools.partial(run, jnp, *call) for call in calls])
    for call, theirs in zip(calls, wants, strict=True):
        assert_same_outcome(outcome(run, xnp, *call), theirs, what=str(call))


def test_the_librarys_functions_are_ufuncs():
    for name in NAMES:
        ours, theirs = getattr(xnp, name), getattr(jnp, name)
        assert isinstance(ours, xnp.ufunc) and not isinstance(xnp.sin, xnp.ufunc)
        for attribute in ("nin", "nout", "nargs", "identity"):
            assert getattr(ours, attribute) == getattr(theirs, attribute), (name, attribute)


def test_several_results():
    f = xnp.frompyfunc(lambda x, y: (x + y, x * y), 2, 2)
    total, product = f(X, V)
    np.testing.assert_allclose(total, X + V)
    np.testing.assert_allclose(product, X * V)
    with pytest.raises(ValueError, match="1 result"):
        f.reduce(X)


def test_reduce_over_two_axes():
    """JAX does not; here their elements follow one another row by row."""
    f = xnp.frompyfunc(horner, 2, 1)
    np.testing.assert_array_equal(f.reduce(I, (0, 1)), f.reduce(I.ravel()))
    assert f.reduce(I, (0, 1), keepdims=True).shape == (1, 1)


def test_under_transformations():
    f = xnp.frompyfunc(horner, 2, 1)
    slope = xjax.jit(xjax.grad(lambda v: f.reduce(v)))(V)
    np.testing.assert_allclose(slope, [8, 4, 2, 1])
    rows = xjax.vmap(lambda v, i: xnp.add.reduceat(v, i))(X, np.array([[0, 2], [1, 3], [0, 0]]))
    want = [np.add.reduceat(v, i) for v, i in zip(X, [[0, 2], [1, 3], [0, 0]], strict=True)]
    np.testing.assert_allclose(rows, want, rtol=1e-6, atol=1e-6)


def test_bad_arguments():
    with pytest.raises(TypeError, match="is no function"):
        xnp.frompyfunc(3, 1, 1)
    with pytest.raises(NotImplementedError, match="`where` is not supported"):
        xnp.frompyfunc(horner, 2, 1)(V, V, where=B)
