"""`odeint` against closed solutions and real JAX: trees, times, derivatives by the adjoint equation, limits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close, assert_same, tolerance
from tests.oracle import real_jax
from xjax.experimental.ode import odeint

TS = np.array([0.0, 0.3, 0.3, 1.5, 2.0])
MATRIX = np.array([[-0.5, 2.0], [-1.0, 0.1]])
TIGHT = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture(autouse=True)
def in_float64():
    with xjax.enable_x64(True):
        yield


def test_linear_systems_in_trees_and_under_vmap():
    """Real and complex parts of a tree, with an argument that is a tree too; each initial value has its own steps."""
    def field(y, t, p):
        return {"a": p["m"] @ y["a"], "b": [p["n"] * 1j * y["b"][0]]}

    @xjax.jit
    def run(scale):
        start = {"a": scale * np.array([1.0, 2.0]), "b": [scale * np.array([1.0 + 0j])]}
        return odeint(field, start, TS, {"m": MATRIX, "n": np.int32(3)}, **TIGHT)

    y = run(1.0)
    np.testing.assert_allclose(y["a"], [scipy.linalg.expm(MATRIX * t) @ [1.0, 2.0] for t in TS], rtol=1e-8)
    np.testing.assert_allclose(y["b"][0][:, 0], np.exp(3j * TS), rtol=1e-8)
    scales = np.array([1.0, -1e3, 0.0])
    many = xjax.jit(xjax.vmap(run))(scales)["a"]
    np.testing.assert_allclose(many, scales[:, None, None] * np.asarray(y["a"]), rtol=1e-7, atol=1e-9)


def closed(lib, y0, ts, k):
    """The solution of dy/dt = -k t y."""
    return y0 * lib.numpy.exp(-k * (ts[:, None] ** 2 - ts[0] ** 2) / 2)


def weighted(y):
    return (y ** 2 * np.arange(1.0, y.size + 1).reshape(y.shape)).sum()


def test_gradients_of_start_times_arguments_and_closures():
    y0, k, twice = np.array([1.0, -0.5, 2.0]), np.array([0.3, 1.0, 0.7]), 2.0

    def by_steps(y0, ts, k, c):
        return weighted(odeint(lambda y, t, k: -c * k * t * y, y0, ts, k, **TIGHT))

    def exactly(y0, ts, k, c):
        return weighted(closed(xjax, y0, ts, c * k))

    result, expected = xjax.jit(lambda *args: [xjax.value_and_grad(f, (0, 1, 2, 3))(*args)
                                               for f in (by_steps, exactly)])(y0, TS, k, twice)
    assert_close(result, expected, tol=1e-8 / tolerance("float64"))


@pytest.mark.slow
def test_second_derivatives_and_vmap_of_a_gradient():
    def by_steps(y0, k):
        return weighted(odeint(lambda y, t, k: -k * t * y, y0, TS, k, **TIGHT))

    def exactly(y0, k):
        return weighted(closed(xjax, y0, TS, k))

    def every(f):
        return lambda y, k: (xjax.grad(lambda k: xjax.grad(f, 1)(y, k).sum())(k),
                             xjax.vmap(xjax.grad(f), (None, 0))(y, jnp.stack([k, 3 * k])))
    y0, k = np.array([1.0, -0.5]), np.array([0.3, 1.0])
    assert_close(xjax.jit(every(by_steps))(y0, k), every(exactly)(y0, k), tol=1e-7 / tolerance("float64"))


@pytest.mark.slow
def test_as_jax():
    """A pendulum with the default tolerances, which equal JAX's."""
    jax = real_jax()
    theirs = real_jax("experimental.ode").experimental.ode.odeint

    def run(lib, odeint):
        def loss(y0, ts, m, g):
            y = odeint(lambda y, t, m, g: lib.numpy.array([y[1], -m * y[1] - g * lib.numpy.sin(y[0])]), y0, ts, m, g)
            return (y * np.arange(1.0, 11).reshape(5, 2)).sum(), y
        return lib.jit(lib.grad(loss, (0, 1, 2, 3), has_aux=True))(np.array([3.0, 0.0]), np.linspace(0, 1.0, 5), 0.25,
                                                                  9.8)
    with jax.enable_x64(True):
        assert_same(run(xjax, odeint), run(jax, theirs), tol=1e-7 / tolerance("float64"))


def test_ends():
    """Times that are not reached give NaN; the evaluations show the positions of the steps."""
    @xjax.jit
    def run(mxstep, hmax, end, bend):
        ts = jnp.stack([0.0, 1.0, end])
        return odeint(lambda y, t: -y + jnp.where(t > bend, jnp.nan, 0.0), 1.0, ts, mxstep=mxstep, hmax=hmax,
                      rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(run(1e9, 1e9, 2.0, 9.0), np.exp([0, -1.0, -2.0]), rtol=1e-6)
    np.testing.assert_allclose(run(1e9, 1e-2, 2.0, 9.0), np.exp([0, -1.0, -2.0]), rtol=1e-10)       # shorter steps
    assert np.isnan(run(3, 1e9, 2.0, 9.0)).tolist() == [False, True, True]
    assert np.isnan(run(1e9, 1e9, 0.5, 9.0)).tolist() == [False, False, True]                       # time goes back
    assert np.isnan(run(1e9, 1e9, 2.0, 1.5)).tolist() == [False, False, True]
    assert xjax.jit(lambda ts: odeint(lambda y, t: y, 2.0, ts))(np.array([3.0])).tolist() == [2.0]


@pytest.mark.parametrize("func, y0, t, exc, words", [
    (lambda y, t: (y, y), 1.0, TS, TypeError, "must return the structure"),
    (lambda y, t: y[:1], np.ones(2), TS, TypeError, "must return the shapes"),
    (lambda y, t: y, np.arange(2), TS, TypeError, "floating-point"),
    (lambda y, t: y, 1.0, 2.0, ValueError, "array .n. of times"), (3.0, 1.0, TS, TypeError, "must be a function"),
])
def test_misuse(func, y0, t, exc, words):
    with pytest.raises(exc, match=f"(?s)odeint.*{words}.*fix:"):
        odeint(func, y0, t)
