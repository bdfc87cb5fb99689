"""The ends of the functions of distributions: where SciPy's result is not the wanted one, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.stats as oracle

from tests.scipy.ends.row import Apart, Ends
from xjax.scipy import stats

INF, NAN = np.inf, np.nan
ALL = "logpdf pdf cdf logcdf sf logsf"


def rows(name: str, functions: str, *axes: Any, apart: dict[str, tuple[Apart, ...]] | None = None,
         no_slope: tuple[Apart, ...] = (), of: tuple[int, ...] = (0,), tol: float = 1.0) -> Iterator[Ends]:
    """A row for each function; `axes` are those of all, in quantile functions with a share in place of x."""
    for f in functions.split():
        ours, theirs = (getattr(getattr(library, name), f) for library in (stats, oracle))
        at = ("share", *axes[1:]) if f in ("ppf", "isf") else axes
        exceptions = (*(apart or {}).get(f, ()), *(apart or {}).get("", ()))
        yield Ends(f"{name}.{f}", ours, theirs, at, exceptions, of, no_slope, tol, f.startswith("log"))


ROWS = [
    *(row for name, functions in (
        ("norm", f"{ALL} ppf isf"), ("expon", f"{ALL} ppf"), ("cauchy", f"{ALL} ppf isf"), ("laplace", "logpdf pdf cdf"),
        ("logistic", "logpdf pdf cdf sf ppf isf"), ("uniform", "logpdf pdf cdf ppf"), ("gumbel_r", f"{ALL} ppf"),
        ("gumbel_l", f"{ALL} ppf")) for row in rows(name, functions, "real", "loc", "scale")),
    *(row for name, functions in (("gamma", ALL), ("chi2", ALL), ("pareto", f"{ALL} ppf"), ("t", "logpdf pdf"))
      for row in rows(name, functions, "real", "shape", "loc", "scale")),
    *rows("beta", ALL, "share", "shape", "shape", "loc", "scale"),
    *rows("truncnorm", ALL, "real", [-INF, -30.0, -2.0, 0.0, 3.0, NAN], [-25.0, 0.0, 1.0, 5.0, 40.0, INF, NAN]),
    *rows("gennorm", "logpdf pdf cdf", "real", "shape"),
    *rows("vonmises", "logpdf pdf", [0.0, -0.0, 1.0, -1.0, 3.0, NAN], [-1.0, 0.0, 1e-3, 1.0, 50.0, 1e5, NAN]),
    *rows("wrapcauchy", "logpdf pdf", [0.0, -0.0, -1.0, 1.0, 3.0, 6.0, 7.0, INF, -INF, NAN], "share"),
    *rows("bernoulli", "logpmf pmf cdf", "count", "share"),
    *rows("bernoulli", "ppf", "share", "share"),
    *rows("binom", "logpmf pmf", "count", "trials", "share"),
    *rows("betabinom", "logpmf pmf", "count", "trials", "shape", "shape"),
    *rows("geom", "logpmf pmf", "count", "share"),
    *rows("nbinom", "logpmf pmf", "count", "shape", "share"),
    *rows("poisson", "logpmf pmf cdf", "count", [-1.0, 0.0, 1e-10, 0.5, 3.0, 50.0, 1e4, INF, NAN]),
]
WITHOUT_ENDS = {}
