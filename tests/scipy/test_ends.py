"""Special functions at infinity, against their limits, and near the overflow, against SciPy's scaled ones."""

import numpy as np
import pytest
import scipy.special

import xjax
from xjax.scipy import special

INF = np.inf
# (function, arguments, result): where SciPy has another result, the reason stands beside it
ROWS = [
    ("zeta", (INF, 1), 1), ("zeta", (INF, 0.5), INF), ("zeta", (2, INF), 0), ("zeta", (1.5, INF), 0),
    ("zeta", (1, INF), INF), ("zeta", (INF, INF), 0), ("zeta", (2, 0), INF), ("zeta", (2, -1), INF),
    ("zeta", (INF, 2), 0),              # SciPy: nan; 2**-x goes to 0
    ("polygamma", (0, INF), INF), ("polygamma", (1, INF), 0), ("polygamma", (2, INF), -0.0),
    ("polygamma", (3, INF), 0), ("polygamma", (40, INF), -0.0), ("polygamma", (1, 0), INF),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name, args, wanted", ROWS, ids=[f"{name}{args}" for name, args, _ in ROWS])
def test_limits(name, args, wanted, dtype):
    with xjax.enable_x64(True):
        first = int(args[0]) if name == "polygamma" else np.asarray(args[0], dtype)
        found = float(getattr(special, name)(first, np.asarray(args[1], dtype)))
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
        assert float(getattr(special, name)(np.asarray(INF, dtype))) == INF
        assert float(getattr(special, name)(np.asarray(-INF, dtype))) == (INF if name == "i0" else -INF)


def test_nan_stays():
    for args in ((np.nan, INF), (INF, np.nan)):
        assert np.isnan(float(special.zeta(*np.float32(args))))
    assert np.isnan(float(special.polygamma(1, np.float32(np.nan))))
