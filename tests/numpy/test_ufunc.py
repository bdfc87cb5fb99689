"""`ufunc` objects and the methods of the library's functions, against JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp
from tests.numpy.rows import B, I, U, V, X
from tests.oracle import real_jax
from tests.values.checks import check_calls
from tests.values.row import calls

jnp = real_jax().numpy

NAMES = ["add", "bitwise_and", "bitwise_or", "bitwise_xor", "logaddexp", "logaddexp2", "logical_and", "logical_or",
         "logical_xor", "maximum", "minimum", "multiply", "negative", "subtract"]


def horner(x: Any, y: Any) -> Any:
    return x * 2 + y


def of_method(method: str) -> Callable:
    """The call of a method of a ufunc."""
    return lambda ufunc, *args, **keywords: getattr(ufunc, method)(*args, **keywords)


def of_made(method: str) -> Callable:
    """The call of a method of the ufunc that `frompyfunc` makes from `horner`."""
    return lambda frompyfunc, *args, **keywords: getattr(frompyfunc(horner, 2, 1), method)(*args, **keywords)


ROWS = [row for method, arguments in (
    ("__call__", ((1, 2), (X, V), (I, 2.5), (1,))),
    ("reduce", (X, (X, {"axis": 1, "keepdims": True}), (X, {"axis": None}), (X, {"initial": 1.0}),
                (X, {"where": B, "initial": 0}), (X, {"where": B}), (X, {"axis": 5}), (X, {"dtype": "int32"}),
                (X, {"out": 1}), X[:0], I, 2.0)),
    ("accumulate", ((X, {"axis": 1}), I, 2.0)),
    ("outer", ((V, I[0]), (X, 2.0))),
    ("at", ((X, 0, 1.0, {"inplace": False}), (V, np.array([0, 2, 0]), V[:3], {"inplace": False}), (V, 0, 1.0))),
    ("reduceat", ((V, np.array([0, 2, 1])),)),
) for row in calls("numpy", "frompyfunc", *arguments, call=of_made(method), id=method)]
ROWS += [row for name, method, arguments in (
    ("add", "reduce", (I, (X, (0, 1)), (X, {"where": B}))), ("add", "accumulate", ((X, 1),)),
    ("add", "reduceat", ((X, np.array([0, 2, 1, 3]), 1),)),
    ("add", "at", ((V, np.array([1, 1, -1]), 5.0, {"inplace": False}),)),
    ("negative", "at", ((V, 1, {"inplace": False}),)), ("multiply", "reduce", ((U, 0),)),
    ("maximum", "reduce", ((X, 1, {"initial": 0.5}),)), ("minimum", "reduce", (X,)), ("maximum", "accumulate", (V,)),
    ("logical_and", "reduce", (B,)), ("logical_or", "reduce", ((I, 1),)), ("logical_xor", "reduce", (B,)),
    ("bitwise_and", "reduce", (I,)), ("bitwise_or", "reduce", (U[:0],)), ("subtract", "accumulate", (X,)),
    ("logaddexp", "reduce", ((X, {"where": B}),)), ("subtract", "outer", ((V, V),)),
) for row in calls("numpy", name, *arguments, call=of_method(method), id=method)]


@pytest.mark.parametrize("name", sorted({row.name.removeprefix("numpy.") for row in ROWS}))
def test_methods(name):
    check_calls([row for row in ROWS if row.name == f"numpy.{name}"])


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
    """JAX refuses this; here the elements of both axes are combined row by row."""
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
    with pytest.raises(TypeError, match="is not callable"):
        xnp.frompyfunc(3, 1, 1)
    with pytest.raises(NotImplementedError, match="`where` is not supported"):
        xnp.frompyfunc(horner, 2, 1)(V, V, where=B)
