"""Distributions of vectors, statistics of samples and kernel density estimates, against JAX and SciPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.lax.oracle import LOOPS, float64
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax.scipy import stats

oracle = pytest.importorskip("scipy.stats")
RNG = np.random.default_rng(0)
NAN = np.nan


def covariance(*shape):
    x = RNG.normal(size=(*shape, shape[-1] + 2))
    return x @ np.swapaxes(x, -1, -2)


# -- distributions of vectors ---------------------------------------------------------------------------------------

X, COV = RNG.normal(size=(4, 3)), covariance(3)
SHARES = np.array([[0.2, 0.5, 0.6], [0.3, 0.25, 0.1], [0.5, 0.25, 0.3]])
VECTORS = {
    "one covariance": (lambda s, *a: s.multivariate_normal.logpdf(*a), (X, X[0], COV)),
    "a covariance each": (lambda s, *a: s.multivariate_normal.pdf(*a), (X, X[:, None], covariance(4, 1, 3))),
    "vectors and a number": (lambda s, *a: s.multivariate_normal.logpdf(*a), (X, X[0], 2.0)),
    "numbers": (lambda s, *a: s.multivariate_normal.logpdf(*a), (X, 0.5, 2.0)),
    "dirichlet": (lambda s, *a: s.dirichlet.logpdf(*a), (SHARES, np.array([0.7, 1.0, 3.0]))),
    "dirichlet without the last": (lambda s, *a: s.dirichlet.pdf(*a), (SHARES[:2, :2], np.array([0.7, 1.0, 3.0]))),
    "dirichlet of one": (lambda s, *a: s.dirichlet.logpdf(*a), (SHARES[:, 0], np.array([0.7, 1.0, 3.0]))),
    "multinomial": (lambda s, p: s.multinomial.logpmf(np.array([1, 0, 4]), 5, p), (np.array([0.3, 0.2, 0.5]),)),
    "multinomial of another sum": (lambda s, p: s.multinomial.pmf(np.array([1, 0, 4]), 6, p), (SHARES[:, 0],)),
}


@pytest.mark.slow
def test_vectors_are_as_in_jax():
    jax = real_jax()

    def program(lib):
        def results(args):
            return [f(lib.scipy.stats, *x) for (f, _), x in zip(VECTORS.values(), args, strict=True)]

        def total(args):
            return sum((k + 1) * lib.numpy.sum(lib.numpy.where(lib.numpy.isfinite(y), y, 0))
                       for k, y in enumerate(results(args)))
        return lambda args: (results(args), lib.grad(total)(args))

    args = [x for _, x in VECTORS.values()]
    with float64(jax):
        # The Dirichlet gradient outside of the simplex is 0 here, nan in JAX.
        assert_same(xjax.jit(program(xjax))(args), jax.jit(program(jax))(args), tol=LOOPS)


def test_vectors_against_scipy():
    with xjax.enable_x64(True):
        np.testing.assert_allclose(xjax.jit(stats.multivariate_normal.logpdf)(X, X[0], COV),
                                   oracle.multivariate_normal.logpdf(X, X[0], COV), rtol=1e-12)
        args = np.array([[1, 0, 4], [2, 2, 1], [1, 1, 1]]), 5, np.array([0.3, 0.2, 0.5])
        np.testing.assert_allclose(stats.multinomial.pmf(*args), oracle.multinomial.pmf(*args), rtol=1e-12)
    normal = xjax.jit(lambda *args: (stats.multivariate_normal.logpdf(*args), stats.multivariate_normal.pdf(*args)))
    singular, _ = normal(np.ones(2), np.zeros(2), np.ones((2, 2)))
    assert np.isnan(singular) or float(singular) < -10                  # rounding decides
    assert np.isnan(normal(np.ones(2), np.zeros(2), -np.eye(2))[1])
    assert np.isneginf(stats.dirichlet.logpdf(np.float32([0.5, 0.6]), np.float32([1, 1])))
    half = stats.dirichlet.logpdf(jnp.asarray([0.3, 0.7], "bfloat16"), jnp.asarray([2, 3], "bfloat16"))
    np.testing.assert_allclose(float(half), oracle.dirichlet.logpdf([0.3, 0.7], [2, 3]), rtol=0.05)


# -- statistics of samples --------------------------------------------------------------------------------------------

SAMPLE = np.array([[3, 1, 1, 2], [3, 2, 1, 2], [0, 2, 1, 3]])
WITH_NAN = np.array([[3, NAN, 1, 2], [3, NAN, 1, NAN], [0, 2, 1, 3]])


def sample_functions(stats):
    """A function of an array for every choice of options."""
    for axis, keepdims in itertools.product((0, 1, None), (False, True)):
        yield lambda x, a=axis, k=keepdims: tuple(stats.mode(x, a, keepdims=k))
        yield lambda x, a=axis, k=keepdims: stats.sem(x, a, keepdims=k)
        yield lambda x, a=axis, k=keepdims: stats.sem(x, a, 0, "omit", keepdims=k)
    for axis, method in itertools.product((0, -1, None), ("average", "min", "max", "dense", "ordinal")):
        yield lambda x, a=axis, m=method: stats.rankdata(x, m, axis=a)


@pytest.mark.slow
@pytest.mark.parametrize("sample", [SAMPLE, WITH_NAN, SAMPLE[:, :0]], ids=["integers", "nan", "empty"])
def test_samples_are_as_in_jax(sample):
    jax = real_jax()
    x = sample.astype(sample.dtype.name[:-2] + "32")
    slow = x.size == 0                                      # JAX fails on these without elements
    ours, theirs = (xjax.jit(lambda x, lib=lib: [f(x) for f in some(lib, slow)])(x) if lib is xjax else
                    jax.jit(lambda x, lib=lib: [f(x) for f in some(lib, slow)])(x) for lib in (xjax, jax))
    assert_same(ours, theirs)


def some(lib, without_ranks):
    functions = list(sample_functions(lib.scipy.stats))
    return functions[:18:3] if without_ranks else functions


def test_ranks_against_scipy():
    x = RNG.integers(0, 30, (5, 200))
    for method in ("average", "dense"):                     # comparison with JAX covers the others
        ranked = xjax.jit(lambda x, method=method: stats.rankdata(x, method, axis=1))
        np.testing.assert_array_equal(ranked(x), oracle.rankdata(x, method, axis=1))
    assert stats.rankdata(np.array([])).shape == (0,)
    got = stats.mode(x.astype(np.uint8), axis=None)
    assert type(got) is type(stats.mode(x)) and got.mode.dtype == np.uint8
    assert tuple(map(int, got)) == tuple(map(int, oracle.mode(x, axis=None)))
    slope = xjax.jit(xjax.grad(lambda x: stats.sem(x).sum()))(np.float32([1, 2, 4]))
    np.testing.assert_allclose(np.sum(slope), 0, atol=1e-6)


# -- kernel density estimates ---------------------------------------------------------------------------------------

POINTS, WEIGHTS = RNG.normal(size=(2, 12)), RNG.uniform(1, 2, 12)
AT = RNG.normal(size=(2, 5))
ESTIMATES = {"scott": (POINTS, None, None), "silverman": (POINTS, "silverman", WEIGHTS),
             "number": (POINTS[0], 0.4, None), "function": (POINTS, lambda kde: 0.3 * kde.d / kde.n, WEIGHTS)}


@pytest.mark.parametrize("name", ["number", "function", *(pytest.param(n, marks=pytest.mark.slow)
                                                          for n in ("scott", "silverman"))])
def test_estimates_are_those_of_scipy(name):
    data, method, weights = ESTIMATES[name]
    at = AT if data.ndim == 2 else AT[0]
    mean, cov = np.full(data.ndim, 0.2), np.eye(data.ndim) * 0.3
    theirs, other = oracle.gaussian_kde(data, method, weights), oracle.gaussian_kde(data[..., :7] + 0.3)

    def everything(data, at):
        kde, second = stats.gaussian_kde(data, method, weights), stats.gaussian_kde(data[..., :7] + 0.3)
        one = [kde.integrate_box_1d(-1.0, 0.5)] if kde.d == 1 else []
        return [kde.evaluate(at), kde(at), kde.pdf(at), kde.logpdf(at), kde.logpdf(at * 100),
                kde.covariance, kde.inv_cov, kde.neff, kde.integrate_gaussian(mean, cov), kde.integrate_kde(second),
                second.integrate_kde(kde), *one]

    with xjax.enable_x64(True):
        result = xjax.jit(everything)(data, at)
    one = [theirs.integrate_box_1d(-1.0, 0.5)] if data.ndim == 1 else []
    want = [theirs(at), theirs(at), theirs(at), theirs.logpdf(at), theirs.logpdf(at * 100), theirs.covariance,
            theirs.inv_cov, theirs.neff, theirs.integrate_gaussian(mean, cov), theirs.integrate_kde(other),
            other.integrate_kde(theirs), *one]
    for k, (x, y) in enumerate(zip(result, want, strict=True)):
        np.testing.assert_allclose(x, y, rtol=1e-9, err_msg=f"result {k}")


@pytest.mark.slow
def test_estimates_and_draws_are_those_of_jax():
    jax = real_jax()
    data, weights = POINTS.astype(np.float32), WEIGHTS.astype(np.float32)

    def program(lib):
        def density(data, at):
            return lib.scipy.stats.gaussian_kde(data, "silverman", weights).logpdf(at).sum()

        def results(data, at):
            kde = lib.scipy.stats.gaussian_kde(data, "silverman", weights)
            again = lib.tree_util.tree_map(lambda x: x, kde)
            key = lib.random.PRNGKey(3)
            return [lib.grad(density, (0, 1))(data, at), again(at[:, 0]), kde.resample(key), again.resample(key, (4,)),
                    lib.tree_util.tree_leaves(kde)]
        return results

    ours, theirs = (lib.jit(program(lib))(data, AT.astype(np.float32)) for lib in (xjax, jax))
    assert_same(ours, theirs, tol=16)                       # gradients of logarithms of sums of exponentials
    assert stats.gaussian_kde(data).resample(xjax.random.PRNGKey(0), (3, 4)).shape == (2, 3, 4)


REFUSED = {
    "cov": (lambda: stats.multivariate_normal.pdf(X, X[0], np.eye(2)), ValueError, "f32[2,2]"),
    "singular": (lambda: stats.multivariate_normal.logpdf(X, X[0], COV, True), NotImplementedError, "True"),
    "alpha": (lambda: stats.dirichlet.pdf(SHARES, SHARES), ValueError, "one axis"),
    "shares": (lambda: stats.dirichlet.pdf(SHARES, np.ones(5)), ValueError, "f32[5]"),
    "counts": (lambda: stats.multinomial.pmf(np.ones(2), 2, np.ones(2)), ValueError, "integers"),
    "method": (lambda: stats.rankdata(SAMPLE, "mean"), ValueError, "'mean'"),
    "policy": (lambda: stats.mode(SAMPLE, nan_policy="omit"), NotImplementedError, "omit"),
    "unknown policy": (lambda: stats.rankdata(SAMPLE, nan_policy="drop"), ValueError, "drop"),
    "policy of sem": (lambda: stats.sem(SAMPLE, nan_policy="raise"), ValueError, "raise"),
    "axis": (lambda: stats.mode(SAMPLE, 2), ValueError, "2"),
    "one element": (lambda: stats.gaussian_kde(np.ones(1)), ValueError, "several"),
    "complex": (lambda: stats.gaussian_kde(np.ones(3, complex)), NotImplementedError, "complex"),
    "bandwidth": (lambda: stats.gaussian_kde(POINTS, "wide"), ValueError, "wide"),
    "bandwidths": (lambda: stats.gaussian_kde(POINTS, np.ones(2)), ValueError, "bw_method"),
    "weights": (lambda: stats.gaussian_kde(POINTS, weights=WEIGHTS[:3]), ValueError, "f32[3]"),
    "points": (lambda: stats.gaussian_kde(POINTS)(np.ones((3, 4))), ValueError, "f32[3,4]"),
    "complex points": (lambda: stats.gaussian_kde(POINTS)(np.ones((2, 4), complex)), NotImplementedError, "complex"),
    "mean": (lambda: stats.gaussian_kde(POINTS).integrate_gaussian(np.ones(3), np.eye(3)), ValueError, "dimension 2"),
    "box": (lambda: stats.gaussian_kde(POINTS).integrate_box_1d(0.0, 1.0), ValueError, "dimension 2"),
    "limits": (lambda: stats.gaussian_kde(POINTS[0]).integrate_box_1d(np.zeros(2), 1.0), ValueError, "f32[2]"),
    "two": (lambda: stats.gaussian_kde(POINTS).integrate_kde(stats.gaussian_kde(POINTS[0])), ValueError, "dimension 1"),
    "boxes": (lambda: stats.gaussian_kde(POINTS).integrate_box([0, 0], [1, 1]), NotImplementedError, "dimension 1"),
    "width": (lambda: stats.gaussian_kde(POINTS).set_bandwidth(0.1), NotImplementedError, "immutable"),
    "attribute": (lambda: setattr(stats.gaussian_kde(POINTS), "neff", 1), AttributeError, "immutable"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, exc, text = REFUSED[name]
    assert_refused(call, exc, text)
