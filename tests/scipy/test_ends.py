"""Special functions at infinity, against their limits."""

import numpy as np
import pytest

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


def test_nan_stays():
    for args in ((np.nan, INF), (INF, np.nan)):
        assert np.isnan(float(special.zeta(*np.float32(args))))
    assert np.isnan(float(special.polygamma(1, np.float32(np.nan))))
