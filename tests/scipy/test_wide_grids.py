"""Special functions against SciPy on wide grids, in single and double precision, and their derivatives.

Every function is compared with SciPy in double precision at the arguments rounded to the dtype. The tolerance is
relative, in units of the dtype's epsilon. It covers the conditioning of a logarithm, lgamma or exponential in the
formula (gamma: ``abs(log(gamma(x)))``, about 150 here). For a function that is a difference from 1, the absolute error
counts.
"""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.quick_compiling import as_shipped
from tests.sampling import one_in
from xjax import lax
from xjax.scipy import special

oracle = pytest.importorskip("scipy.special")

POSITIVE = np.geomspace(1e-3, 60, 41)
REAL = np.concatenate([-POSITIVE[::-1], POSITIVE]) + 1e-3
UNIT = np.concatenate([np.geomspace(1e-6, 0.4, 9), np.linspace(0.45, 0.999, 9)])
SMALL = np.geomspace(0.01, 30, 12)


def mesh(*axes):
    return [x.ravel() for x in np.meshgrid(*axes)]


# name: (arguments, relative tolerance in epsilons, absolute tolerance, by default a thousandth of it)
GRIDS = {
    "i0": ([REAL], 100), "i0e": ([REAL * 50], 8), "i1": ([REAL], 120), "i1e": ([REAL * 50], 16),
    "gamma": ([np.linspace(0.05, 30, 60)], 300), "gammasgn": ([REAL], 0), "loggamma": ([np.geomspace(3, 1e6, 50)], 16),
    "factorial": ([np.arange(-2.0, 30)], 400),
    "beta": (mesh(SMALL, SMALL), 300), "betaln": (mesh(np.geomspace(0.5, 60, 15), np.geomspace(3, 60, 15)), 40, 300),
    "comb": (mesh(np.arange(0.0, 40, 3), [-1.0, 0, 1, 5, 12]), 300),
    "poch": (mesh(SMALL, np.linspace(0, 8, 5)), 600),
    "gammainc": (mesh(np.geomspace(1e-2, 1e4, 13), np.geomspace(1e-3, 1e4, 13)), 4000),
    "gammaincc": (mesh(np.geomspace(0.3, 1e4, 13), np.geomspace(1e-3, 1e4, 13)), 6000),
    "betainc": (mesh(SMALL, SMALL, UNIT), 5000),
    "zeta": (mesh(np.linspace(1.1, 12, 8), np.geomspace(0.1, 40, 8)), 200),
    "kl_div": (mesh(POSITIVE, [0.0, 0.3, 7.0]), 60, 60), "rel_entr": (mesh([-1.0, 0, 0.3, 5], [-1.0, 0, 0.4, 60]), 8),
    "boxcox": (mesh(POSITIVE, [-1.5, 0, 0.3, 2]), 60), "boxcox1p": (mesh(POSITIVE - 0.0009, [-1.5, 0, 0.3, 2]), 60),
    "ndtr": ([np.linspace(-12, 9, 80)], 400), "log_ndtr": ([np.linspace(-60, 9, 100)], 8),
    "ndtri": ([np.concatenate([np.geomspace(1e-30, 0.4, 50), [0.6, 0.9, 0.99]])], 32),
    "erfcx": ([np.concatenate([np.linspace(-4, 12, 60), [30, 1e4]])], 200),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", one_in(4, GRIDS))
def test_values(name, dtype):
    args, tol, *floor = GRIDS[name]
    with xjax.enable_x64(dtype == "float64"), np.errstate(all="ignore"):
        args = [np.asarray(x).astype(dtype) for x in args]
        got = np.asarray(xjax.jit(getattr(special, name))(*args))
        want = getattr(oracle, name)(*[x.astype(float) for x in args])
    assert got.dtype == dtype
    info = np.finfo(dtype)
    size = np.abs(want)
    inside = (want == 0) | (size > 100 * info.tiny) & (size < info.max / 100) | ~np.isfinite(want)
    assert inside.sum() > 0.6 * inside.size
    np.testing.assert_allclose(got[inside], want[inside], rtol=tol * info.eps, atol=(*floor, tol / 1000)[0] * info.eps)


def test_boxcox1p_of_small_numbers_in_a_program():
    """XLA of jaxlib 0.10 simplifies ``(1 + x) - 1`` to x, and half of the digits would be lost."""
    x = np.geomspace(1e-5, 1e-2, 20).astype(np.float32)
    want = oracle.boxcox1p(x.astype(float), 0.3)
    np.testing.assert_allclose(xjax.jit(special.boxcox1p)(x, np.float32(0.3)), want, rtol=2e-7)


def test_betaln_of_large_numbers():
    """``beta(a, 2) = 1 / (a (a + 1))``; SciPy's own loses seven digits here."""
    a = np.geomspace(10, 1e12, 30)
    with xjax.enable_x64(True):
        np.testing.assert_allclose(special.betaln(a, 2.0), -np.log(a) - np.log1p(a), rtol=1e-14)


@pytest.mark.parametrize("d", [1, 4])
def test_multigammaln(d):
    a = np.geomspace(2, 500, 20)
    with as_shipped(), xjax.enable_x64(True):           # otherwise lgamma(2) is about 1e-16
        np.testing.assert_allclose(special.multigammaln(a, d), oracle.multigammaln(a, d), rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 20, 61])
def test_bernoulli(n):
    with xjax.enable_x64(True):
        np.testing.assert_allclose(special.bernoulli(n), oracle.bernoulli(n)[:n + 1], rtol=3e-12)   # SciPy's B(4)


def test_polygamma_and_comb_with_repetition():
    x = np.geomspace(0.1, 50, 30)
    with xjax.enable_x64(True):
        for n in (0, 1, 3):
            np.testing.assert_allclose(special.polygamma(n, x), oracle.polygamma(n, x), rtol=1e-11, atol=1e-12)
        n, k = mesh(np.arange(0.0, 9), np.arange(0.0, 6))
        np.testing.assert_allclose(special.comb(n, k, repetition=True),
                                   [oracle.comb(a, b, repetition=True) for a, b in zip(n, k, strict=True)], rtol=1e-12)
        np.testing.assert_allclose(special.zeta(3.0), oracle.zeta(3.0), rtol=1e-14)


# name: (function of one number, points): first derivatives are compared with central differences.
SLOPES = {
    "gamma": (special.gamma, [0.3, 2.5, -1.5]), "beta": (lambda x: special.beta(x, 2 * x), [0.3, 4.0, 30.0]),
    "betaln": (lambda x: special.betaln(x, 3 * x), [0.3, 5.0, 30.0]), "comb": (lambda x: special.comb(x, 2.5), [4.2]),
    "poch": (lambda x: special.poch(x, 3 * x), [0.7, 3.0]), "zeta": (lambda q: special.zeta(2.5, q), [0.7, 3.0]),
    "polygamma": (lambda x: special.polygamma(2, x), [0.7, 3.0]), "gammainc": (
        lambda x: special.gammainc(x, x + 0.5) + special.gammaincc(2 * x, x), [0.3, 4.0, 40.0]),
    "betainc": (lambda x: special.betainc(2.0, 0.7, x), [0.1, 0.9]), "i0": (special.i0, [-2.0, 0.3, 9.0]),
    "i0e": (special.i0e, [-2.0, 0.3, 9.0]), "i1": (special.i1, [-2.0, 0.3, 9.0]), "i1e": (special.i1e, [-9.0, 2.0]),
    "kl_div": (lambda x: special.kl_div(x, 2.0) + special.rel_entr(2.0, x), [0.3, 4.0]),
    "boxcox": (lambda x: special.boxcox(x, x) + special.boxcox1p(x, 0.0), [0.3, 4.0]),
    "ndtr": (special.ndtr, [-3.0, 0.5]), "log_ndtr": (special.log_ndtr, [-40.0, -5.0, 3.0]),
    "ndtri": (special.ndtri, [0.01, 0.5, 0.98]), "erfcx": (special.erfcx, [-1.0, 2.0, 12.0]),
    "multigammaln": (lambda x: special.multigammaln(x, 3), [2.0, 9.0]), "loggamma": (special.loggamma, [0.3, 4.0]),
    "factorial": (special.factorial, [0.3, 4.0]),
}


@pytest.mark.parametrize("name", one_in(4, SLOPES))
def test_derivatives(name):
    f, where = SLOPES[name]
    with xjax.enable_x64(True):
        x = np.array(where)
        h = 1e-5 * np.abs(x)
        f = xjax.vmap(f)
        above, below, exact = xjax.jit(lambda x, h, one: (f(x + h), f(x - h), xjax.jvp(f, (x,), (one,))[1]))(
            x, h, np.ones_like(x))
        np.testing.assert_allclose(exact, (np.asarray(above) - np.asarray(below)) / (2 * h), rtol=2e-7, atol=1e-9)


EDGES = {
    "ndtri": ([0, 1, -0.1, 1.1, np.nan],), "log_ndtr": ([-np.inf, np.inf, np.nan],), "gammasgn": ([0.0, -0.0, -1.5],),
    "gammainc": ([0, 0, 1, 1, np.inf, np.inf, -1, np.nan, 2], [1, np.inf, 0, np.inf, 1, np.inf, 1, 1, -1]),
    "gammaincc": ([0, 0, 1, 1, np.inf, np.inf, -1, np.nan, 2], [1, np.inf, 0, np.inf, 1, np.inf, 1, 1, -1]),
    "betainc": ([1, 1, -1, 2, np.nan], [2, 2, 1, 2, 1], [0, 1, 0.5, 1.5, 0.5]), "factorial": ([-1, 0, 1],),
    "kl_div": ([0, 0, 1, -1, np.nan], [0, 1, 0, 1, 1]), "ndtr": ([-np.inf, np.inf, np.nan],), "i0e": ([0, 1e30],),
    "i1e": ([0, -0.0, 1e30],), "comb": ([3, 3, -1], [4, -1, 1]),
    **dict.fromkeys(("xlogy", "xlog1py", "rel_entr"), (                    # jax-ml/jax#38260, #38262
        [0, -0.0, np.nan, np.nan, np.inf, 1, 0, 0, -1], [np.nan, np.nan, 0, 1, np.nan, np.nan, np.inf, 0, 1])),
}


@pytest.mark.parametrize("name", EDGES)
def test_edges_are_those_of_scipy(name):
    args = [np.array(x, np.float32) for x in EDGES[name]]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(xjax.jit(getattr(special, name))(*args), getattr(oracle, name)(*args), rtol=1e-6)


REFUSED = {
    "gammasgn of complex": (lambda: special.gammasgn(1j), ValueError),
    "beta of complex": (lambda: special.beta(1j, 1), ValueError),
    "exact factorial": (lambda: special.factorial(3, exact=True), NotImplementedError),
    "order": (lambda: special.log_ndtr(1.0, 31), ValueError), "half": (lambda: special.ndtr(jnp.float16(1)), TypeError),
    "float order": (lambda: special.polygamma(1.0, 2.0), ValueError),
    "negative": (lambda: special.bernoulli(-1), ValueError),
    "slope in a": (lambda: xjax.grad(special.betainc)(1.0, 2.0, 0.5), ValueError),
    "curvature in a": (lambda: xjax.grad(xjax.grad(lax.igamma))(1.0, 2.0), NotImplementedError),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, exc = REFUSED[name]
    with pytest.raises(exc, match="fix:"):
        call()


def test_lgamma_in_single_precision_keeps_its_digits_near_its_zeros():
    x = np.concatenate([np.geomspace(1e-30, 0.5, 5000), np.linspace(0.5, 12, 100_001), np.geomspace(12, 1e36, 5000),
                        np.linspace(-0.499, -1e-3, 5000)]).astype(np.float32)
    want = oracle.gammaln(x.astype(np.float64))
    unit = np.spacing(np.maximum(np.abs(want), 1e-30).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(np.asarray(lax.lgamma(x), np.float64) - want) / unit) < 4


def test_lgamma_in_single_precision_of_negative_numbers():
    # The reflection has terms of the size of lgamma(-x); where they cancel, their rounding errors remain.
    x = np.linspace(-30, -0.5, 50001).astype(np.float32)
    want = oracle.gammaln(x.astype(np.float64))
    finite = np.isfinite(want)
    size = np.maximum(1, np.abs(oracle.gammaln(-x.astype(np.float64))))
    error = np.abs(np.asarray(lax.lgamma(x), np.float64) - want) / size
    assert np.max(error[finite]) < 8 * np.finfo(np.float32).eps
    whole = np.array([-1, -2, -7, -(2.0 ** 23), -(2.0 ** 30), -3e38, -np.inf, 0, np.inf], np.float32)
    assert np.all(np.asarray(lax.lgamma(whole)) == np.inf)
    assert np.isnan(lax.lgamma(np.float32(np.nan)))
    assert lax.lgamma(np.float32(1)) == 0 and lax.lgamma(np.float32(2)) == 0
