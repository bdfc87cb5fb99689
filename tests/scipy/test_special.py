"""Special functions against SciPy, and their derivatives against differences in float64."""

import numpy as np
import pytest

import xjax
from xjax.scipy import special

oracle = pytest.importorskip("scipy.special")

X = {"erf": (-3, 3), "erfc": (-3, 9), "erfinv": (-0.99, 0.99), "expit": (-9, 9), "gammaln": (0.1, 20),
     "digamma": (0.1, 20), "logit": (0.01, 0.99), "entr": (0.01, 3)}


@pytest.mark.parametrize("name", X)
def test_of_one_argument(name):
    with xjax.enable_x64(True):
        x, f = np.linspace(*X[name], 23), getattr(special, name)
        np.testing.assert_allclose(f(x), getattr(oracle, name)(x), rtol=1e-10)
        slope = (np.asarray(f(x + 1e-6)) - np.asarray(f(x - 1e-6))) / 2e-6
        np.testing.assert_allclose(xjax.vmap(xjax.grad(f))(x), slope, rtol=1e-6, atol=1e-8)
    assert f(np.int32(1)).dtype == np.float32


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_of_two_arguments(name):
    x, y = np.array([0, 0, 1, 2, -1.5]), np.array([[0, -0.5, 2, 3, 1e-9], [np.nan] * 5])
    with xjax.enable_x64(True), np.errstate(all="ignore"):
        f = getattr(special, name)
        np.testing.assert_allclose(f(x, y), getattr(oracle, name)(x, y), rtol=1e-12)
        for i in (0, 1):
            args, step = [1.3, 0.7], 1e-6 * np.eye(2)[i]
            slope = (f(*(args + step)) - f(*(args - step))) / 2e-6
            assert float(xjax.grad(f, i)(*args)) == pytest.approx(float(slope), rel=1e-6)
        assert float(xjax.grad(f, 0)(0.0, 2.0)) == pytest.approx(np.log(2.0 + (name == "xlog1py")))


@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "poch"])
def test_derivatives_beside_an_integer(name):
    f, none = getattr(special, name), np.zeros((), xjax.float0)
    for x, y in ((1.5, 2), (2, 1.5)):
        floats = [isinstance(v, float) for v in (x, y)]
        dy = xjax.jvp(f, (x, y), tuple(1.0 if is_float else none for is_float in floats))[1]
        np.testing.assert_allclose(dy, xjax.grad(f, floats.index(True))(float(x), float(y)), rtol=1e-6)


def test_edges():
    np.testing.assert_array_equal(special.entr(np.float32([-1, 0])), [-np.inf, 0])
    with pytest.raises(ValueError, match=r"fix: use the real parts"):
        special.entr(1j)
    np.testing.assert_allclose(special.logsumexp(np.float32([1, 2])), oracle.logsumexp([1, 2]), rtol=1e-6)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_slopes_of_incomplete_gamma_functions_of_arrays_that_broadcast(name):
    a, x = np.array([[1.0], [2.5]]), np.array([0.5, 1.0, 3.0])
    f = getattr(special, name)
    _, slopes = xjax.jvp(lambda x: f(a, x), (x,), (np.ones(3),))
    density = x ** (a - 1) * np.exp(-x) / oracle.gamma(a)
    np.testing.assert_allclose(slopes, density if name == "gammainc" else -density, rtol=1e-5)


def test_logarithm_of_the_absolute_value_of_a_complex_sum_is_real():
    value, sign = special.logsumexp(np.array([1j, 2.0], np.complex64), return_sign=True)
    assert (value.dtype, sign.dtype) == (np.float32, np.complex64)
