"""Distributions against SciPy and JAX: values, derivatives, edges, dtypes, far tails."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.lax.oracle import float64
from tests.oracle import real_jax
from tests.refusals import assert_refused
from tests.scipy.stats_table import FAMILIES, INF, NAN, grid
from xjax.scipy import stats

oracle = pytest.importorskip("scipy.stats")


def values(lib, name, *args):
    module = importlib.import_module(f"{lib.__name__}.scipy.stats.{name}")
    return [getattr(module, f)(*args) for f in FAMILIES[name].functions.split()]


def expected(name, f, args):
    with np.errstate(all="ignore"):
        return getattr(getattr(oracle, name), f)(*args)


def test_functions_and_parameters_are_named_as_in_jax():
    theirs = real_jax("scipy.stats").scipy.stats
    assert {n for n in dir(theirs) if n[0] != "_"} == set(stats.__all__)
    for name in stats.__all__:
        ours, other = getattr(stats, name), getattr(theirs, name)
        if not inspect.ismodule(other):
            assert list(inspect.signature(ours).parameters) == list(inspect.signature(other).parameters)
            continue
        assert sorted(ours.__all__) == [f for f in dir(other) if f[0] != "_"]
        for f in ours.__all__:
            have, want = (inspect.signature(getattr(module, f)).parameters for module in (ours, other))
            assert [(p.name, p.default) for p in have.values()] == [(p.name, p.default) for p in want.values()]
            assert getattr(ours, f).__name__ == f and getattr(ours, f).__doc__


# -- values -------------------------------------------------------------------------------------------------------

# Largest error, 100 by default: errors of lax.betainc, and sums of large lgammas.
TOLERANCE = {"beta": 5000, "betabinom": 300, "nbinom": 300}
# Logarithms that SciPy computes from underflowing values, and xjax does not.
UNDERFLOWING = {"pareto.logpdf", "pareto.logsf"}
# Densities that are 0 at infinity, and nan in SciPy, which subtracts two infinities.
NAN_AT_INFINITY = {f"{name}.{f}" for name in ("gamma", "chi2") for f in ("pdf", "logpdf")}
OURS_UNDERFLOW = {f"{name}.{f}" for name in ("gamma", "chi2", "beta") for f in ("logcdf", "logsf")}


def assert_as_scipy(name, f, args, got):
    """Assert that `got` is SciPy's result, except for logarithms of values that underflow there.

    The unit of errors is epsilon times ``v * (1 + abs(log(v)))``: the error in a value v from rounding its logarithm.
    For a logarithm the unit is at least epsilon, since it may belong to a value near 1.
    """
    info = np.finfo(got.dtype)
    want = expected(name, f, [np.asarray(x, float) for x in args])
    with np.errstate(all="ignore"):
        size = np.abs(want)
        special, smallest = ~np.isfinite(want), np.log(info.tiny)
        clear, unit = size < info.max / 100, np.where(want == 0, 0, size * (1 + np.abs(np.log(size))))
        if f"{name}.{f}" in NAN_AT_INFINITY:
            special &= (np.asarray(args[0]) != INF) | (got != (-INF if f == "logpdf" else 0))
        if f.startswith("log"):
            unit = np.maximum(unit, 1)
            special &= ~((want == -INF) & np.isfinite(got) & (got < smallest))
            if f"{name}.{f}" in UNDERFLOWING:
                clear &= want > -690
            if f"{name}.{f}" in OURS_UNDERFLOW:
                clear &= (want > smallest) | (got != -INF)
        else:
            special |= want == 0
            clear &= size > 100 * info.tiny
        error = np.where(clear & ~special, np.abs(got - want) / (info.eps * unit), 0)
    np.testing.assert_array_equal(got[special], want[special], err_msg=f"{name}.{f}")
    worst = np.argmax(error)
    limit = TOLERANCE.get(f"{name}.{f}", TOLERANCE.get(name, 100))
    assert error[worst] <= limit, (f"{name}.{f}", [x[worst] for x in args], got[worst], want[worst])


# Long to compile: loops of incomplete integrals, many lgammas.
HEAVY = {"gamma", "chi2", "beta", "betabinom", "nbinom", "poisson", "gennorm", "t", "truncnorm", "gumbel_l"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in HEAVY else n for n in FAMILIES])
def test_values_and_derivatives(name):
    """Every 7th point of the wide grid; derivatives in one direction, against differences of SciPy's values."""
    family, module = FAMILIES[name], importlib.import_module(f"xjax.scipy.stats.{name}")
    functions = family.functions.split()
    inner = [np.array(x) for x in family.inner]
    free = [i for i in range(family.counts, len(inner)) if i not in family.constant]
    step = [np.full(3, 0.3 + 0.2 * i) for i in free]
    edges = [[x[::7] for x in grid(family, f)] for f in functions]

    def moved(xs):
        return [xs[free.index(i)] if i in free else x for i, x in enumerate(inner)]

    def program(xs, step, edges):
        return (xjax.jvp(lambda *xs: values(xjax, name, *moved(xs)), xs, step),
                [getattr(module, f)(*x) for f, x in zip(functions, edges, strict=True)])

    with xjax.enable_x64(True):
        (result, slopes), at_edges = xjax.jit(program)([inner[i] for i in free], step, edges)
    for f, y, slope, x, at_edge in zip(functions, result, slopes, edges, at_edges, strict=True):
        assert_as_scipy(name, f, inner, np.asarray(y))
        assert_as_scipy(name, f, x, np.asarray(at_edge))
        ends = [moved([inner[i] + sign * 1e-6 * d for i, d in zip(free, step, strict=True)]) for sign in (1, -1)]
        difference = (expected(name, f, ends[0]) - expected(name, f, ends[1])) / 2e-6
        np.testing.assert_allclose(slope, difference, rtol=1e-6, atol=1e-7, err_msg=f"{name}.{f}")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FAMILIES)
def test_wide_grids(name, dtype):
    family, module = FAMILIES[name], importlib.import_module(f"xjax.scipy.stats.{name}")
    for f in family.functions.split():
        args = [x.astype(dtype) for x in grid(family, f)]
        with xjax.enable_x64(dtype == "float64"):
            got = np.asarray(getattr(module, f)(*args))
        assert got.dtype == dtype
        assert_as_scipy(name, f, args, got)


# -- derivatives ----------------------------------------------------------------------------------------------------

@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_values_and_gradients_are_those_of_jax(name):
    jax = real_jax()
    family = FAMILIES[name]
    args = [np.array(x) for x in family.inner]
    argnums = [i for i in range(len(args)) if i not in family.constant]

    def program(lib):
        def mixed(*xs):                                 # weighted, so that no two derivatives cancel
            return sum((k + 1) * lib.numpy.sum(y) for k, y in enumerate(values(lib, name, *xs)))
        # JAX's Gumbel distributions have no gradient: it fails on a float0.
        slopes = lib.grad(mixed, argnums) if name[:6] != "gumbel" else lambda *_: []
        return lambda *xs: (values(lib, name, *xs), slopes(*xs))

    with float64(jax):
        ours, theirs = (lib.tree_util.tree_leaves(lib.jit(program(lib))(*args)) for lib in (xjax, jax))
    for got, want in zip(ours, theirs, strict=True):
        assert got.dtype == want.dtype
        # Sums whose terms are up to 1000 times as large as the result.
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=LOST.get(name, 1e-11))


# JAX's betaln has an error of 4e-7 for arguments around 10; slopes of beta's density go up to 80 here.
LOST = {"betabinom": 1e-6, "beta": 1e-5}


# Outside of the support, and where two formulas meet, derivatives equal those of the better side, and are never nan.
SLOPES_AT_EDGES = [
    (lambda x: stats.expon.logpdf(x, 1.0), [0.0, -INF], 0.0), (lambda x: stats.gamma.logpdf(x, 0.5), [-1.0], 0.0),
    (lambda x: stats.gamma.cdf(x, 0.5) + stats.chi2.sf(x, 1.0), [0.0, -3.0], 0.0),
    (lambda x: stats.beta.logpdf(x, 2.0, 3.0), [-1.0, 2.0], 0.0), (lambda x: stats.pareto.logpdf(x, 2.0), [0.0], 0.0),
    (lambda x: stats.pareto.logcdf(x, 2.0) + stats.expon.logcdf(x, 1.0), [0.5, -1.0], 0.0),
    (lambda x: stats.uniform.cdf(x), [-1.0, 2.0], 0.0), (lambda x: stats.laplace.cdf(x), [0.0], 0.5),
    (lambda x: stats.truncnorm.logpdf(x, -1.0, 1.0), [-2.0, 2.0], 0.0),
    (lambda x: stats.truncnorm.logcdf(x, -INF, 1.0) + stats.truncnorm.sf(x, -3.0, INF), [-INF, 40.0], 0.0),
    (lambda p: stats.binom.logpmf(-1.0, 3.0, p), [0.3], 0.0), (lambda m: stats.poisson.pmf(0.5, m), [2.0], 0.0),
    (lambda x: stats.cauchy.logpdf(x), [0.0, INF], 0.0), (lambda x: xjax.grad(stats.cauchy.logpdf)(x), [0.0], -2.0),
    (lambda x: xjax.grad(stats.t.logpdf)(x, 3.0), [0.0], -4 / 3), (lambda x: stats.logistic.logpdf(x), [0.0], 0.0),
]


def test_slopes_at_edges():
    points = [np.float32(x) for _, x, _ in SLOPES_AT_EDGES]

    def slopes(points):
        return [xjax.vmap(xjax.grad(f))(x) for (f, *_), x in zip(SLOPES_AT_EDGES, points, strict=True)]

    run = xjax.jit(slopes)
    for row, ((_, x, want), got) in enumerate(zip(SLOPES_AT_EDGES, run(points), strict=True)):
        np.testing.assert_allclose(got, np.full(len(x), want), rtol=1e-6, atol=1e-7, err_msg=f"row {row}")


# -- edges, tails, dtypes ---------------------------------------------------------------------------------------------

def test_far_tails():
    """Single precision, where the usual formulas lose all digits; limits by hand."""
    def table(zero):                        # traced, so that the compiler folds nothing
        f = lambda x: np.float32(x) + zero
        return [
            (stats.cauchy.cdf(f(-1e20)), 1e-20 / np.pi),
            (stats.cauchy.logpdf(f(1e30)), -np.log(np.pi) - 60 * np.log(10)),
            (stats.cauchy.isf(f(1e-20)), 1e20 / np.pi), (stats.norm.logsf(f(1e4)), -5e7),
            (stats.norm.isf(f(1e-30)), 11.464),
            (stats.norm.pdf(f(1e-22), 0, f(1e-21)) * f(1e-21), np.exp(-0.005) / np.sqrt(2 * np.pi)),
            (stats.expon.logcdf(f(1e-20)), np.log(1e-20)), (stats.pareto.cdf(1 + f(2 ** -20), 0.1), 0.1 * 2 ** -20),
            (stats.pareto.logsf(f(1e30), 9.0), -270 * np.log(10)), (stats.gumbel_r.logsf(f(1e5)), -1e5),
            (stats.gumbel_r.sf(f(30)), np.exp(-30)), (stats.gumbel_l.cdf(f(-30)), np.exp(-30)),
            (stats.gennorm.cdf(f(-9), 1.0), 0.5 * np.exp(-9)),
            (stats.vonmises.logpdf(f(1e-3), 1e6), -0.5 + 6.907755 - 0.918939),
            (stats.wrapcauchy.pdf(f(0), 1 - f(2 ** -20)), 2 ** 20 / np.pi), (stats.beta.sf(f(1e-20), 0.1, 1.0), 0.99),
            (stats.truncnorm.logcdf(f(30), 20.0, 40.0), 0.0), (stats.truncnorm.logsf(f(30), 20.0, 40.0), -250.40407),
            (stats.t.logpdf(f(0), f(1e6)), -0.5 * np.log(2 * np.pi)), (stats.gumbel_r.logpdf(f(-INF)), -INF),
            (stats.binom.logpmf(1, 1000, f(1e-30)), np.log(1e-27)), (stats.nbinom.logpmf(0, 1e6, f(1)), 0.0),
        ]
    result = xjax.jit(table)(np.float32(0))
    for row, (got, want) in enumerate(result):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6, err_msg=f"row {row}")


@pytest.mark.slow
def test_jax_where_scipy_differs():
    """Counts between integers, and densities that depend on the square of the scale, are as in JAX."""
    jax = real_jax()

    def calls(s, x):
        return [s.bernoulli.logpmf(x, 0.2), s.binom.pmf(3 * x, 4, 0.3), s.geom.pmf(3 * x, 0.3), s.nbinom.pmf(x, 4, 0.3),
                s.betabinom.pmf(3 * x, 4, 2.0, 3.0), s.norm.pdf(x, 0, -2), s.t.pdf(x, 3.0, 0, -2),
                s.bernoulli.ppf(x - x, 0.5), s.norm.cdf(x, 1.0, 0.0)]
    ours, theirs = xjax.jit(lambda x: calls(stats, x))(0.5), jax.jit(lambda x: calls(jax.scipy.stats, x))(0.5)
    np.testing.assert_allclose(ours, theirs, rtol=4e-6)          # JAX's betabinom adds up five rounded lgammas


DTYPES = [("norm.logpdf", 1), ("beta.cdf", 3), ("gamma.sf", 2), ("t.logpdf", 2), ("vonmises.pdf", 2),
          ("poisson.cdf", 2), ("gennorm.cdf", 2), ("uniform.ppf", 1), ("cauchy.ppf", 1),
          ("expon.logcdf", 1), ("pareto.logsf", 2), ("logistic.ppf", 1)]


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_half_precision(dtype):
    args = [jnp.asarray(x, dtype) for x in (0.75, 0.5, 0.25)]
    result = xjax.jit(lambda args: [attribute(stats, name)(*args[:n]) for name, n in DTYPES])(args)
    for (name, n), got in zip(DTYPES, result, strict=True):
        assert got.dtype == dtype
        want = attribute(oracle, name)(*[0.75, 0.5, 0.25][:n])
        np.testing.assert_allclose(np.asarray(got, float), want, rtol=8 * float(jnp.finfo(dtype).eps), err_msg=name)


def attribute(module, name):
    family, function = name.split(".")
    return getattr(getattr(module, family), function)


def test_arguments():
    """Numbers, integers and keywords, in any order; NumPy arrays; broadcasting."""
    x, scale = np.arange(3), np.array([[1.0], [2.0]])
    got = stats.norm.logpdf(x, scale=scale)
    assert got.shape == (2, 3) and got.dtype == np.float32
    np.testing.assert_allclose(got, oracle.norm.logpdf(x, scale=scale), rtol=1e-6)
    np.testing.assert_allclose(stats.binom.pmf(p=0.5, n=1000, k=500), oracle.binom.pmf(500, 1000, 0.5), rtol=1e-3)
    np.testing.assert_allclose(stats.norm.cdf(np.float64(0.5), -3), oracle.norm.cdf(0.5, -3), rtol=1e-6)
    np.testing.assert_allclose(xjax.jit(lambda: stats.norm.cdf(1.0, 2.0, 0.0))(), 0.0)        # a step, as in JAX
    np.testing.assert_allclose(xjax.vmap(stats.expon.cdf, (0, None))(x, 1), oracle.expon.cdf(x, 1), rtol=1e-6)
    assert stats.norm.pdf(1).weak_type and stats.norm.pdf(True) == stats.norm.pdf(1)
    with xjax.enable_x64(True):
        f = np.float32(0.3)
        assert stats.norm.pdf(f).dtype == np.float32 and stats.norm.ppf(f).dtype == np.float64       # as in JAX


REFUSED = {
    "list": (lambda: stats.norm.pdf([1.0]), TypeError, "numpy.array"),
    "complex": (lambda: stats.gamma.pdf(1j, 2.0), ValueError, "complex"),
    "missing": (lambda: stats.gamma.pdf(1.0), TypeError, "scipy.stats.gamma.pdf: missing a required argument: 'a'"),
    "surplus": (lambda: stats.norm.pdf(1, 2, 3, 4), TypeError, "its parameters are (x, loc, scale)"),
    "keyword": (lambda: stats.norm.pdf(1, sigma=3), TypeError, "sigma"),
    "shapes": (lambda: stats.norm.pdf(np.zeros(3), np.zeros(2)), TypeError, "(3,)"),
    "half": (lambda: stats.norm.cdf(jnp.float16(1)), TypeError, "single and double"),
    "beta": (lambda: xjax.grad(stats.beta.cdf, 1)(0.5, 2.0, 3.0), ValueError, "no derivative"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, exc, text = REFUSED[name]
    assert_refused(call, exc, text)


def test_entropy_of_poisson():
    mu = np.array([[0, 1e-3, 0.5], [3, 40, 99.9], [100, 300, NAN]])
    k = np.arange(600)[:, None, None]
    want = np.sum(-oracle.poisson.pmf(k, mu) * np.maximum(oracle.poisson.logpmf(k, mu), -1e4), 0)
    with xjax.enable_x64(True):
        got, slope = xjax.jit(lambda mu, ones: xjax.jvp(stats.poisson.entropy, (mu,), (ones,)))(mu, np.ones((3, 3)))
        np.testing.assert_allclose(got, want, rtol=1e-8)
        assert stats.poisson.entropy(3.0, np.zeros((2, 1))).shape == (2, 1)
    ends = oracle.poisson.entropy(mu + 1e-5) - oracle.poisson.entropy(mu - 1e-5)
    np.testing.assert_allclose(slope.ravel()[2:6], ends.ravel()[2:6] / 2e-5, rtol=1e-6)
    assert np.isnan(stats.poisson.entropy(-1.0))
    assert float(stats.poisson.entropy(1e30)) == pytest.approx(0.5 * np.log(2 * np.pi * np.e * 1e30))
