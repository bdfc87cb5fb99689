"""`minimize` against known minima, SciPy and real JAX; the ends of a search; and `integrate`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same, tolerance
from tests.lax.oracle import float64
from tests.oracle import real_jax
from xjax.scipy import integrate
from xjax.scipy.optimize import minimize

LBFGS = "l-bfgs-experimental-do-not-rely-on-this"
METHODS = ["BFGS", LBFGS]


def rosenbrock(np):
    return lambda x, a: (a * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def himmelblau(np):
    return lambda x, a: (x[0] ** 2 + x[1] - a) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def with_wall(np):
    """NaN for numbers that are not positive, which the first steps reach."""
    return lambda x, a: (a * x - np.log(x)).sum()


# name -> (function, argument, start, minimum)
PROBLEMS = {
    "rosenbrock": (rosenbrock, 100.0, np.zeros(4), np.ones(4)),
    "himmelblau": (himmelblau, 11.0, np.ones(2), np.array([3.0, 2.0])),
    "with a wall": (with_wall, 0.5, np.array([5.0, 0.05]), np.full(2, 2.0)),
    "at the minimum": (himmelblau, 11.0, np.array([3.0, 2.0]), np.array([3.0, 2.0])),
}


@pytest.mark.parametrize("method", METHODS)
def test_minima(method):
    @xjax.jit
    def run():
        options = {"gtol": 1e-7} if method == "BFGS" else {"gtol": 1e-7, "ftol": 0.0}
        return {name: minimize(f(jnp), x0, (a,), method=method, options=options)
                for name, (f, a, x0, _) in PROBLEMS.items()}

    with xjax.enable_x64(True):
        for name, result in run().items():
            f, a, x0, expected = PROBLEMS[name]
            assert result.success and result.status == 0, name
            np.testing.assert_allclose(result.x, expected, rtol=1e-6, err_msg=name)
            np.testing.assert_allclose(result.fun, f(np)(np.asarray(result.x), a), atol=1e-14)
            assert np.abs(result.jac).max() < 1e-7
            assert result.nit == 0 if name == "at the minimum" else result.nfev == result.njev > result.nit > 2
            with np.errstate(invalid="ignore"):
                theirs = scipy.optimize.minimize(f(np), x0, (a,), method="BFGS")
            assert result.nfev <= max(theirs.nfev, 4) + 4        # SciPy needs n more for each gradient


def test_inverse_hessian():
    a = np.array([[3.0, 1.0], [1.0, 2.0]])
    with xjax.enable_x64(True):
        result = xjax.jit(lambda x: minimize(lambda x: 0.5 * x @ a @ x - x.sum(), x, method="bfgs", tol=1e-10))(
            np.array([5.0, -2.0]))
        np.testing.assert_allclose(result.hess_inv, np.linalg.inv(a), rtol=5e-3)
        np.testing.assert_allclose(result.x, np.linalg.solve(a, np.ones(2)), rtol=1e-8)


def test_float32_under_vmap():
    """Each element ends when it has converged; the tolerance is the resolution of the values in float32."""
    starts = np.array([[1.0, 1.0], [-3.0, 3.0], [3.5, -1.5]], np.float32)
    expected = [[3.0, 2.0], [-2.805118, 3.131312], [3.584428, -1.848126]]
    result = xjax.jit(xjax.vmap(lambda x0: minimize(himmelblau(jnp), x0, (11.0,), method="BFGS", tol=1e-3)))(starts)
    np.testing.assert_allclose(result.x, expected, rtol=1e-4)
    assert result.success.all() and len(set(result.nit.tolist())) > 1


@pytest.mark.parametrize("method", METHODS)
def test_ends_without_success(method):
    f = xjax.jit(lambda steps: minimize(rosenbrock(jnp), np.zeros(4), (100.0,), method=method,
                                        options={"maxiter": steps}))
    result = f(3)
    assert (int(result.nit), int(result.status), bool(result.success)) == (3, 1, False)
    assert float(result.fun) < 3.0                                # it was 3 at the start
    # An endless slope: no step is long enough. The result is the best point of the search.
    result = xjax.jit(lambda x0: minimize(lambda x: x.sum(), x0, method=method))(np.zeros(2))
    assert int(result.status) == 5 and not result.success and float(result.fun) < -100


def test_limits_of_lbfgs():
    @xjax.jit
    def end(maxfun, maxgrad, ftol):
        return minimize(rosenbrock(jnp), np.zeros(4), (100.0,), method=LBFGS, tol=1e-2,
                        options={"maxfun": maxfun, "maxgrad": maxgrad, "ftol": ftol}).status
    assert [int(end(5, 99, 0.0)), int(end(99, 5, 0.0)), int(end(99, 99, 10.0)), int(end(99, 99, 0.0))] == [2, 3, 4, 0]


def test_complex_numbers_and_a_short_memory():
    target = np.array([1 + 2j, -3j, 0.5], np.complex64)
    result = xjax.jit(lambda z: minimize(lambda z: (jnp.abs(z - target) ** 4 + jnp.abs(z - target) ** 2).sum(), z,
                                         method=LBFGS, options={"maxcor": 2}))(np.zeros(3, np.complex64))
    np.testing.assert_allclose(result.x, target, atol=1e-4)
    assert result.hess_inv is None and result.jac.dtype == np.complex64


@pytest.mark.slow
def test_steps_are_those_of_jax():
    jax = real_jax()
    theirs_of = real_jax("scipy.optimize").scipy.optimize.minimize
    with float64(jax):
        ours = xjax.jit(lambda x0: minimize(himmelblau(jnp), x0, (11.0,), method="BFGS"))(np.ones(2))
        theirs = jax.jit(lambda x0: theirs_of(himmelblau(jax.numpy), x0, (11.0,), method="BFGS"))(np.ones(2))
    assert ours._fields == theirs._fields
    for name in ("nit", "nfev", "njev", "status", "success"):
        assert int(getattr(ours, name)) == int(getattr(theirs, name)), name
    for name in ("x", "jac", "hess_inv"):                       # after some 20 steps, each with a line search
        assert_same(getattr(ours, name), getattr(theirs, name), tol=1e-9 / tolerance("float64"), what=name)


def test_bfgs_minimizes_functions_of_every_scale():
    run = xjax.jit(lambda scale: minimize(lambda x: scale * ((x - 1) ** 2).sum(), jnp.array([2.0, 3.0]), method="BFGS"))
    for scale in (1e-4, 1.0, 1e4, 1e6):
        result = run(scale)
        assert bool(result.success), scale
        np.testing.assert_allclose(result.x, [1.0, 1.0], rtol=1e-4)


@pytest.mark.parametrize("change, exc, words", [
    ({"method": "newton"}, ValueError, "unknown method"), ({"x0": np.zeros((2, 2))}, ValueError, "must be an array"),
    ({"args": 3.0}, TypeError, "must be a tuple"), ({"options": {"gtoll": 1}}, TypeError, "unknown option"),
    ({"x0": np.zeros(2, complex)}, TypeError, "real numbers"),
])
def test_misuse(change, exc, words):
    given = {"x0": np.zeros(2), "args": (), "method": "BFGS", **change}
    with pytest.raises(exc, match=f"(?s)minimize.*{words}.*fix:"):
        minimize(lambda x: (x ** 2).sum(), **given)


def test_trapezoid():
    x = np.linspace(0.0, 1.0, 5, dtype=np.float32)
    np.testing.assert_allclose(integrate.trapezoid(x ** 2, x), 0.34375)
    np.testing.assert_allclose(integrate.trapezoid(np.ones((2, 3), np.float32), dx=2.0, axis=0), [2, 2, 2])
