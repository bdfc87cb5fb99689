"""`one_launch`: a function of several operations is one program at the root, and the plain function elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax.runtime.one_launch import one_launch

X = np.linspace(0.5, 2.0, 4, dtype=np.float32)


@pytest.fixture
def counted():
    """(a decorated function of two operands and static values, a list with an entry for each run of its Python)."""
    runs = []

    @one_launch(arrays=2)
    def f(x, y, scale=1.0, axis=None):
        runs.append(scale)
        return {"sum": jnp.sum(jnp.sin(x) * y, axis) / scale, "table": x + np.arange(4, dtype=np.float32)}

    return f, runs


def test_runs_python_once_for_each_type_and_static_value(counted):
    f, runs = counted
    x = jnp.asarray(X)
    for y in (2.0, 3.0, 0.5):                           # numbers among the operands are operands
        out = f(x, y)
        np.testing.assert_allclose(out["sum"], np.sum(np.sin(X) * y), rtol=1e-6)
        np.testing.assert_array_equal(out["table"], X + np.arange(4, dtype=np.float32))
    assert len(runs) == 1
    f(x, x), f(x, y=x), f(x, 2.0, axis=0)
    assert len(runs) == 4
    assert float(f(x, 2.0, 0.0)["sum"]) == np.inf and float(f(x, 2.0, -0.0)["sum"]) == -np.inf


def test_operands_without_names():
    f = one_launch(lambda *xs: jnp.stack([x * 2 for x in xs]), arrays=3)
    np.testing.assert_array_equal(f(jnp.asarray(1.0), 2.0, jnp.asarray(3.0)), [2, 4, 6])


def test_transformations_see_the_operations(counted):
    f, _ = counted
    x = jnp.asarray(X)
    np.testing.assert_allclose(xjax.grad(lambda x: f(x, 2.0)["sum"])(x), 2 * np.cos(X), rtol=1e-6)
    assert [str(e.primitive) for e in xjax.make_jaxpr(lambda x: f(x, 2.0)["sum"])(x).eqns][:2] == ["sin", "mul"]
    np.testing.assert_allclose(xjax.vmap(lambda y: f(x, y)["sum"])(x), [np.sum(np.sin(X) * y) for y in X], rtol=1e-6)


@pytest.mark.parametrize("call", [
    lambda f, x: f(x, [1.0, 2.0, 3.0, 4.0]),            # no array
    lambda f, x: f(x, 2**40)])                          # does not fit 32 bits
def test_other_calls_are_plain(counted, call):
    f, runs = counted
    for _ in range(2):
        with pytest.raises((TypeError, OverflowError)):
            call(f, jnp.asarray(X))
    assert len(runs) == 2


def test_a_static_value_that_is_not_hashable(counted):
    f, runs = counted
    x = jnp.asarray(X)
    for _ in range(2):
        np.testing.assert_allclose(f(x, x, axis=[0])["sum"], np.sum(np.sin(X) * X), rtol=1e-6)
    assert len(runs) == 2


def test_a_mask_of_numpy_is_an_operand():
    x, mask = jnp.asarray(X), np.arange(X.shape[-1]) % 2 == 0
    for function in (jnp.mean, jnp.var, jnp.sum):
        np.testing.assert_array_equal(function(x, -1, where=mask), function(x, -1, where=jnp.asarray(mask)))


def test_functions_that_ask_for_values_are_plain():
    @one_launch
    def f(x):
        return x * 2 if x[0] > 1 else x * 3
    np.testing.assert_array_equal(f(jnp.asarray(X)), X * 3)
    np.testing.assert_array_equal(f(jnp.asarray(X + 1)), (X + 1) * 2)


def test_options_that_look_at_operations(counted):
    f, runs = counted
    x = jnp.asarray(X)
    with xjax.disable_jit():
        f(x, x), f(x, x)
    assert len(runs) == 2
    with xjax.debug_nans(True), pytest.raises(FloatingPointError, match="log: made a NaN"):
        jnp.logaddexp2(jnp.log(-x), x)


def test_deleted_arguments_and_other_devices(counted):
    f, _ = counted
    x = jnp.asarray(X)
    f(x, x)
    there = xjax.device_put(X, xjax.devices()[1])
    assert f(there, there)["sum"].devices() == {xjax.devices()[1]}
    gone = jnp.asarray(X)
    gone.delete()
    with pytest.raises(RuntimeError, match="the array has been deleted"):
        f(gone, gone)
    with pytest.raises(RuntimeError, match="the array has been deleted"):
        jnp.mean(gone)
