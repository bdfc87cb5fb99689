"""Special functions and distributions at the ends of their arguments, beside SciPy's, and their slopes there.

Each public function has a row in `special` or `stats`; the points are in `points`.
"""

import importlib
import inspect

import numpy as np
import pytest
import scipy.special

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


@pytest.mark.parametrize("case", one_in(13, CASES, _name))
def test_values(case):
    assert not wrong_values(*case)


@pytest.mark.parametrize("case", one_in(17, [case for case in CASES if case[0].of], _name))
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
        found = float(getattr(special, name)(*args[:-1], np.asarray(args[-1], dtype)))
    assert found == wanted
    assert np.signbit(found) == np.signbit(wanted)


@pytest.mark.parametrize("name", ["i0", "i1"])
def test_bessel_functions_near_the_overflow(name):
    """They are finite where the exponential that they grow with is not."""
    for dtype, ends in (("float32", (85.0, 88.6, 89.5, 91.5)), ("float64", (700.0, 709.5, 712.0, 713.5))):
        x = np.array([*ends, *(-e for e in ends)], dtype)
        with xjax.enable_x64(True):
            found, slope = getattr(special, name)(x), xjax.vmap(xjax.grad(getattr(special, name)))(x)
        growth = np.exp(np.abs(x).astype(np.longdouble))                # SciPy's own i0 overflows with it
        wanted = {k: getattr(scipy.special, f"{k}e")(x.astype(np.float64)) * growth for k in ("i0", "i1")}
        np.testing.assert_allclose(found, wanted[name].astype(np.float64), rtol=10 * np.finfo(dtype).eps)
        if name == "i0":
            np.testing.assert_allclose(slope, wanted["i1"].astype(np.float64), rtol=10 * np.finfo(dtype).eps)
