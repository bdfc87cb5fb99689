"""Special functions and distributions at the ends of their arguments: values, compared with SciPy, and slopes.

Each public function has a row in `special` or `stats`; the points are in `points`.
"""

import functools
import importlib
import inspect

import numpy as np
import pytest
import scipy.special
import scipy.stats

import xjax
from tests.sampling import one_in
from tests.scipy.ends import special as special_rows
from tests.scipy.ends import stats as stats_rows
from tests.scipy.ends.row import nan_slopes, wrong_values
from xjax.scipy import special, stats

ROWS = [*special_rows.ROWS, *stats_rows.ROWS]
CASES = [(row, dtype) for row in ROWS for dtype in ("float32", "float64")]


def _name(case):
    row, dtype = case
    return f"{row}-{dtype}"


@pytest.mark.parametrize("case", one_in(21, CASES, _name))
def test_values(case):
    assert not wrong_values(*case)


@pytest.mark.parametrize("case", one_in(29, [case for case in CASES if case[0].grads], _name))
def test_no_slope_is_nan_where_the_value_is_finite(case):
    assert not nan_slopes(*case)


def test_every_function_has_a_row():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    public = {*special.__all__, *(f"{name}.{f}" for name in stats.__all__ if inspect.ismodule(getattr(stats, name))
                                  for f in importlib.import_module(f"xjax.scipy.stats.{name}").__all__)}
    left_out = {**special_rows.WITHOUT_ENDS, **stats_rows.WITHOUT_ENDS}
    assert public == {*names, *left_out}
    assert not {*names} & {*left_out}


# The limits from inside where a share is 0 or a sum is off, with SciPy's result if it has one.
VECTORS = [
    ("dirichlet", ([0.0, 0.4, 0.6], [1.0, 2.0, 3.0]), None), ("dirichlet", ([0.0, 0.4, 0.6], [2.0, 2.0, 3.0]), 0.0),
    ("dirichlet", ([0.0, 0.4, 0.6], [0.5, 2.0, 3.0]), np.inf), ("dirichlet", ([1.0, 0.0, 0.0], [1.0, 1.0, 1.0]), None),
    ("dirichlet", ([-0.1, 0.5, 0.6], [1.0, 2.0, 3.0]), 0.0), ("dirichlet", ([0.1, 0.5, 0.6], [1.0, 2.0, 3.0]), 0.0),
    ("dirichlet", ([0.1, 0.3, 0.6], [0.0, 2.0, 3.0]), np.nan),
    ("dirichlet", ([np.nan, 0.3, 0.6], [1.0, 2.0, 3.0]), np.nan),
    ("multinomial", (np.array([0, 2, 1]), 3, [0.0, 0.5, 0.5]), None),
    ("multinomial", (np.array([1, 2, 0]), 3, [0.0, 0.5, 0.5]), 0.0),
    ("multinomial", (np.array([0, 0, 0]), 0, [0.2, 0.3, 0.5]), None),
    ("multinomial", (np.array([1, 1, 0]), 3, [0.2, 0.3, 0.5]), 0.0),
    ("multivariate_normal", ([1e30, 0.0], [0.0, 0.0], np.eye(2)), 0.0),
    ("multivariate_normal", ([np.nan, 0.0], [0.0, 0.0], np.eye(2)), np.nan),
    ("multivariate_normal", ([0.0, 0.0], [0.0, 0.0], -np.eye(2)), np.nan),
]


@pytest.mark.parametrize("name, args, wanted", VECTORS)
def test_distributions_of_vectors(name, args, wanted):
    f = "pmf" if name == "multinomial" else "pdf"
    if wanted is None:
        wanted = getattr(getattr(scipy.stats, name), f)(*args)
    ours = getattr(stats, name)
    args = [np.float32(x) if isinstance(x, list) else x for x in args]
    np.testing.assert_allclose(getattr(ours, f)(*args), wanted, rtol=1e-5)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(getattr(ours, f"log{f}")(*args), np.log(wanted), rtol=1e-5, atol=1e-6)


INF = np.inf
# Signs of zeros, which the tables do not compare.
ZEROS = [
    *((name, (-0.0,), -0.0) for name in ("erf", "erfinv", "dawsn", "i1", "i1e")), ("entr", (0.0,), 0.0),
    ("polygamma", (2, INF), -0.0), ("polygamma", (3, INF), 0.0), ("polygamma", (40, INF), -0.0),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, args, wanted", ZEROS, ids=[f"{name}{args}" for name, args, _ in ZEROS])
def test_signs_of_zero(name, args, wanted, dtype):
    with xjax.enable_x64(True):
        result = float(getattr(special, name)(*args[:-1], np.asarray(args[-1], dtype)))
    assert result == wanted
    assert np.signbit(result) == np.signbit(wanted)


# Slopes, computed by hand, of probabilities at the ends of p or mu, the last argument.
SLOPES = [
    ("bernoulli.pmf", (1, 0), 1), ("bernoulli.pmf", (0, 0), -1), ("bernoulli.pmf", (0, 1), -1),
    ("binom.pmf", (1, 2, 0), 2), ("binom.pmf", (1, 2, 1), -2), ("binom.pmf", (0, 3, 0), -3),
    ("binom.pmf", (3, 3, 1), 3), ("binom.pmf", (2, 3, 0), 0), ("geom.pmf", (1, 0), 1), ("geom.pmf", (2, 1), -1),
    ("geom.pmf", (3, 1), 0), ("geom.pmf", (2, 0), 1), ("nbinom.pmf", (0, 1, 0), 1), ("nbinom.pmf", (1, 2, 1), -2),
    ("nbinom.pmf", (0, 2, 0), 0), ("nbinom.pmf", (1, 0.5, 0), INF), ("poisson.pmf", (1, 0), 1),
    ("poisson.pmf", (0, 0), -1), ("poisson.pmf", (2, 0), 0),
    pytest.param("poisson.entropy", (0,), INF, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("name, args, wanted", SLOPES)
def test_slopes_of_probabilities_at_ends(name, args, wanted):
    distribution, f = name.split(".")
    function = functools.partial(getattr(getattr(stats, distribution), f), *args[:-1])
    assert float(xjax.grad(function)(float(args[-1]))) == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_second_slopes_of_probabilities_at_ends():
    slope = xjax.grad(xjax.grad(lambda p, k: stats.binom.pmf(k, 3, p)))
    np.testing.assert_allclose([slope(0.0, k) for k in range(4)], [6, -12, 6, 0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["i0", "i1"])
def test_bessel_functions_near_the_overflow(name):
    """They are finite although the exponential that they grow with overflows."""
    for dtype, ends in (("float32", (85.0, 88.6, 89.5, 91.5)), ("float64", (700.0, 709.5, 712.0, 713.5))):
        x = np.array([*ends, *(-e for e in ends)], dtype)
        with xjax.enable_x64(True):
            result, slope = getattr(special, name)(x), xjax.vmap(xjax.grad(getattr(special, name)))(x)
        growth = np.exp(np.abs(x).astype(np.longdouble))                # SciPy's own i0 overflows with it
        wanted = {k: getattr(scipy.special, f"{k}e")(x.astype(np.float64)) * growth for k in ("i0", "i1")}
        np.testing.assert_allclose(result, wanted[name].astype(np.float64), rtol=10 * np.finfo(dtype).eps)
        if name == "i0":
            np.testing.assert_allclose(slope, wanted["i1"].astype(np.float64), rtol=10 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
def test_derivatives_of_bessel_functions_at_zero(dtype):
    """jax-ml/jax#40628. The derivatives of even order are 0 for i1, which is the derivative of i0."""
    f = special.i0
    x = np.array([-30, -9, -1, -0.3, -0.25, -0.01, -1e-20, 0, 1e-20, 5e-3, 0.02, 0.27, 0.29, 2, 60], dtype)
    with xjax.enable_x64(True):
        for wanted in (1, 0, 1 / 2, 0, 3 / 8):
            np.testing.assert_allclose(f(np.asarray(0, dtype)), wanted, rtol=10 * np.finfo(dtype).eps)
            f = xjax.grad(f)
        slopes = xjax.vmap(xjax.grad(special.i1))(x)
    np.testing.assert_allclose(slopes, scipy.special.ivp(1, x.astype(np.float64)), rtol=10 * np.finfo(dtype).eps)
