"""The ends of the functions of distributions, with the reason where SciPy's result is not the wanted one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
import scipy.special as functions
import scipy.stats as oracle

from tests.scipy.ends.row import Apart, EndsRow
from xjax.scipy import stats

INF, NAN = np.inf, np.nan
ALL = "logpdf pdf cdf logcdf sf logsf"
OVERFLOWING = {("beta", "pdf"), ("binom", "pmf"), ("nbinom", "pmf")}  # SciPy raises an error where these overflow

STEP = Apart("of scale 0 the limit, all mass in one point, as in JAX; SciPy has nan", lambda *args: args[-1] == 0, None)


def rows(name: str, functions: str, *axes: Any, apart: dict[str, tuple[Apart, ...]] | None = None,
         no_slope: tuple[Apart, ...] = (), grads: tuple[int, ...] = (0,), tol: float = 1.0) -> Iterator[EndsRow]:
    """A row for each function; `axes` are those of all functions; quantile functions have a share in place of x."""
    for f in functions.split():
        ours, theirs = (getattr(getattr(library, name), f) for library in (stats, oracle))
        if (name, f) in OVERFLOWING:
            theirs = _exp_of(getattr(getattr(oracle, name), f"log{f}"))
        at = ("share", *axes[1:]) if f in ("ppf", "isf") else axes
        steps = (STEP,) if axes[-1] == "scale" else ()
        exceptions = (*(apart or {}).get(f, ()), *(apart or {}).get("", ()), *steps)
        yield EndsRow(f"{name}.{f}", ours, theirs, at, exceptions, grads, (*no_slope, *steps), tol, f.startswith("log"))


def _exp_of(log: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: np.exp(log(*args))


def _sized(name: str, f: str, limit: float = 1e-36) -> Any:
    """The `where` of an entry for probabilities below the range of float32."""
    with_log = getattr(getattr(oracle, name), f.removeprefix("log"))

    def where(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return with_log(*args) < limit
    return where


ABSOLUTE = Apart("the density of abs(scale), as in JAX", lambda *args: args[-1] < 0, None)
# The quotient x / scale underflows below float32's normal numbers, or overflows.
RANGE = Apart("x / scale leaves the range of float32",
              lambda x, *_: (np.abs(x) > 1e37) | (x != 0) & (np.abs(x) < 1e-37), None)
FAR_SLOPE = Apart("not mended: the slope of a density is 0 times that of its logarithm, which is infinite",
                  lambda x, *_: (np.abs(x) > 1e18) | (np.abs(x) < 1e-37), None)
EDGE_SLOPE = Apart("not mended: the same at the end of the support", lambda x, *args: np.isin(x - args[-2], (
    0.0, *np.unique(args[-1]))), None)


def underflowing(name: str) -> dict[str, tuple[Apart, ...]]:
    log = Apart("not mended: the logarithm of a probability that underflows", lambda *args: False, None)
    return {"": (RANGE,), **{f: (log._replace(where=_sized(name, f)),) for f in ("logcdf", "logsf")}}


GUMBEL = {f: (Apart("SciPy has nan at infinity", lambda x, *a: np.isinf(x) & (a[-1] > 0) & (a[-2] == a[-2]),
                     limit),) for f, limit in (("logpdf", -INF), ("pdf", 0.0))}
UNDERFLOW = "SciPy takes the logarithm of a number that underflows"
BEYOND_600 = {f: (Apart(UNDERFLOW, lambda x, loc, scale, s=s: (scale > 0) & (s * (x - loc) / scale > 600),
                        lambda x, loc, scale, s=s: -s * (x - loc) / scale),)
              for f, s in (("logsf", 1), ("logcdf", -1))}


def of_mass(why: str, where: Callable[..., Any], log_mass: Callable[..., Any] | float) -> dict[str, tuple[Apart, ...]]:
    """Entries for the arguments whose wanted probability has this logarithm."""
    log = log_mass if callable(log_mass) else lambda *args: np.full(args[0].shape, log_mass)
    return {"logpmf": (Apart(why, where, log),), "pmf": (Apart(why, where, lambda *args: np.exp(log(*args))),)}


def both(*parts: dict[str, tuple[Apart, ...]]) -> dict[str, tuple[Apart, ...]]:
    return {f: tuple(apart for part in parts for apart in part[f]) for f in ("logpmf", "pmf")}


def log_choices(n: Any, k: Any) -> Any:
    return -np.log1p(n) - functions.betaln(n - k + 1, k + 1)


def exact_entropy(mu: np.ndarray) -> np.ndarray:
    """The entropy of Poisson's distribution; SciPy's own sum does not converge for large mu."""
    def one(mu: float) -> float:
        spread = 15 * int(np.sqrt(mu)) + 60
        with mpmath.workdps(30):
            logs = (k * mpmath.log(mu) - mu - mpmath.loggamma(k + 1)
                    for k in range(max(int(mu) - spread, 0), int(mu) + spread))
            return float(-sum(log * mpmath.exp(log) for log in logs)) if mu else 0.0
    return np.array([one(x) for x in mu.tolist()])


INTERPOLATED = "interpolated between integers, as in JAX; SciPy has 0"
NO_SUCCESS = "the limit, as in JAX; SciPy refuses p = 0"
ENDLESS = "infinitely many never happen; SciPy has nan"
SHORT = Apart("the probability of a short piece loses digits, as the module says",
              lambda x, a, b: np.minimum(np.abs(x - a), np.abs(x - b)) < 1e-6, None)
ROWS = [
    *rows("norm", f"{ALL} ppf isf", "real", "loc", "scale", apart={"logpdf": (ABSOLUTE,), "pdf": (ABSOLUTE,)},
          no_slope=(FAR_SLOPE,)),
    *rows("expon", f"{ALL} ppf", "real", "loc", "scale"),
    *rows("cauchy", f"{ALL} ppf isf", "real", "loc", "scale", no_slope=(FAR_SLOPE,)),
    *rows("laplace", "logpdf pdf cdf", "real", "loc", "scale", apart={"logpdf": (
        Apart(UNDERFLOW, lambda x, loc, scale: np.abs((x - loc) / scale) > 600,
              lambda x, loc, scale: -np.abs((x - loc) / scale) - np.log(2 * scale)),)}),
    *rows("logistic", "logpdf pdf cdf sf ppf isf", "real", "loc", "scale"),
    *rows("uniform", "logpdf pdf cdf ppf", "real", "loc", "scale"),
    *rows("gumbel_r", f"{ALL} ppf", "real", "loc", "scale", apart={**GUMBEL, "logsf": BEYOND_600["logsf"]},
          no_slope=(FAR_SLOPE,)),
    *rows("gumbel_l", f"{ALL} ppf", "real", "loc", "scale", apart={**GUMBEL, "logcdf": BEYOND_600["logcdf"]},
          no_slope=(FAR_SLOPE,)),
    *rows("gamma", ALL, "real", "shape", "loc", "scale", apart=underflowing("gamma"), no_slope=(FAR_SLOPE, EDGE_SLOPE)),
    *rows("chi2", ALL, "real", "shape", "loc", "scale", apart=underflowing("chi2"), no_slope=(FAR_SLOPE, EDGE_SLOPE)),
    *rows("pareto", f"{ALL} ppf", "real", "shape", "loc", "scale", no_slope=(FAR_SLOPE,), apart={
        "": (RANGE,), **{f: (Apart(UNDERFLOW, lambda x, b, loc, scale: (x == 1e8) & (b == 60) & (scale > 0), right),)
                         for f, right in (
            ("logsf", lambda x, b, loc, scale: -b * np.log((x - loc) / scale)),
            ("logpdf", lambda x, b, loc, scale: np.log(b / scale) - (b + 1) * np.log((x - loc) / scale)))}}),
    *rows("t", "logpdf pdf", "real", "shape", "loc", "scale", apart={"": (ABSOLUTE, RANGE)}, no_slope=(FAR_SLOPE,)),
    *rows("beta", ALL, "share", "shape", "shape", "loc", "scale", apart=underflowing("beta"), tol=100,
          no_slope=(EDGE_SLOPE, FAR_SLOPE)),
    *rows("truncnorm", ALL, "real", [-INF, -30.0, -2.0, 0.0, 3.0, NAN], [-25.0, 0.0, 1.0, 5.0, 40.0, INF, NAN],
          apart={"": (SHORT,)}, no_slope=(FAR_SLOPE, SHORT)),
    *rows("gennorm", "logpdf pdf cdf", "real", "shape", no_slope=(
        Apart("not mended: a pole or a zero of its factors", lambda x, beta: np.abs(x) < 1e-6, None), FAR_SLOPE),
          apart={"logpdf": (RANGE,)}),
    *rows("vonmises", "logpdf pdf", [0.0, -0.0, 1.0, -1.0, 3.0, NAN], [-1.0, 0.0, 1e-3, 1.0, 50.0, 1e5, NAN]),
    *rows("wrapcauchy", "logpdf pdf", [0.0, -0.0, -1.0, 1.0, 3.0, 6.0, 7.0, INF, -INF, NAN], "share", apart={f: (
        Apart("SciPy's 1 + c**2 - 2 c is 0", lambda x, c: (x == 0) & (c > 1 - 1e-15) & (c < 1), right),)
        for f, right in (("pdf", lambda x, c: (1 + c) / (1 - c) / (2 * np.pi)),
                         ("logpdf", lambda x, c: np.log((1 + c) / (1 - c) / (2 * np.pi))))}),
    *rows("bernoulli", "logpmf pmf cdf", "count", "share", grads=(1,), apart=of_mass(
        INTERPOLATED, lambda k, p: k == 0.5, lambda k, p: 0.5 * (np.log(p) + np.log1p(-p)))),
    *rows("bernoulli", "ppf", "share", "share", grads=(), apart={"": (
        Apart("the least of 0 and 1, as in JAX; SciPy has -1 at q = 0", lambda q, p: (q == 0) | (p == 0), None),)}),
    *rows("binom", "logpmf pmf", "count", "trials", "share", grads=(2,), apart=of_mass(
        INTERPOLATED, lambda k, n, p: ((k == 0.5) | (k == 2.5)) & (k < n),
        lambda k, n, p: log_choices(n, k) + functions.xlogy(k, p) + functions.xlog1py(n - k, -p))),
    *rows("betabinom", "logpmf pmf", "count", "trials", "shape", "shape", grads=(2, 3), apart=of_mass(
        "of the integer below k, as in JAX; SciPy has 0", lambda k, n, a, b: (k == 0.5) | (k == 2.5),
        lambda k, n, a, b: oracle.betabinom.logpmf(np.floor(k), n, a, b))),
    *rows("geom", "logpmf pmf", "count", "share", grads=(1,), apart=both(
        of_mass(INTERPOLATED, lambda k, p: k == 2.5, lambda k, p: np.log(p) + functions.xlog1py(k - 1, -p)),
        of_mass(NO_SUCCESS, lambda k, p: (p == 0) & (k == k), -INF))),
    *rows("nbinom", "logpmf pmf", "count", "shape", "share", grads=(2,), apart=both(
        of_mass(INTERPOLATED, lambda k, n, p: ((k == 0.5) | (k == 2.5)) & (n > 0),
                lambda k, n, p: (functions.gammaln(k + n) - functions.gammaln(n) - functions.gammaln(k + 1)
                                 + functions.xlogy(n, p) + functions.xlog1py(k, -p))),
        of_mass(NO_SUCCESS, lambda k, n, p: (p == 0) & (n > 0) & (k == k), -INF),
        of_mass(ENDLESS, lambda k, n, p: (k == INF) & (n > 0) & (p >= 0) & (p <= 1), -INF))),
    *rows("poisson", "logpmf pmf cdf", "count", [-1.0, 0.0, 1e-10, 0.5, 3.0, 50.0, 1e4, INF, NAN], grads=(1,),
          apart=of_mass(ENDLESS, lambda k, mu: (k == INF) & (mu >= 0), -INF)),
    # A sum of numbers with rounded logarithms of up to 360, a hundred times the result.
    *(row._replace(oracle=exact_entropy)
      for row in rows("poisson", "entropy", [0.0, 1e-3, 0.5, 3.0, 50.0, 99.5, 101.0, 1e4], tol=2)),
]
VECTORS = "of vectors: test_distributions_of_vectors"
WITHOUT_ENDS = {"dirichlet.logpdf": VECTORS, "dirichlet.pdf": VECTORS, "multinomial.logpmf": VECTORS,
                "multinomial.pmf": VECTORS, "multivariate_normal.logpdf": VECTORS, "multivariate_normal.pdf": VECTORS}
