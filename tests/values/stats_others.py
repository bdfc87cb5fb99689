"""Distributions of counts, of angles, of vectors and on intervals, and statistics of samples."""

from __future__ import annotations

import numpy as np
import scipy.stats as oracle

from tests.values.row import rows
from tests.values.stats import ALL, NONE, distribution

MASS = "logpmf pmf"
COUNTS = ("i4[2,3]:-2..9 f4[3]:inner", "i4[3]:-2..9 f8[2,1]:inner", "i4[4]:-2..9 f4[]:inner")

OF_COUNTS = [
    *distribution("bernoulli", MASS, "i4[2,3]:-2..3 f4[3]:inner", "i4[3]:-2..3 f8[2,1]:inner",
                  grad=("i4[3]:1..1 f8[3]:inner",), call=lambda f, k, p: (f(k, p), f(k, p, 1))),
    *distribution("bernoulli", "cdf", "i4[2,3]:-2..3 f4[3]:inner", "f4[3]:edges f4[]:inner"),
    # At 0 SciPy has -1, which is below the support.
    *distribution("bernoulli", "ppf", "f4[2,3]:0.0625..1 f4[3]:inner", "f8[3]:0.0625..1 f8[]:inner"),
    *distribution("bernoulli", MASS, "i4[2,3]:-2..3 f4[3]:edges", differs=NONE, id="edges"),
    *distribution("binom", MASS, "i4[2,3]:-2..9 i4[3]:1..9 f4[3]:inner", "i4[3]:-2..9 i4[2,1]:1..9 f8[]:inner",
                  grad=("i4[3]:1..4 i4[3]:5..9 f8[3]:inner",), call=lambda f, k, n, p: (f(k, n, p), f(k, n, p, loc=1))),
    *distribution("binom", MASS, "i4[2,3]:-2..3 i4[3]:-2..3 f4[3]:edges", differs=NONE, id="edges"),
    *distribution("betabinom", MASS, "i4[2,3]:-2..9 i4[3]:1..9 f4[3]:0.5..8 f4[]:0.5..8",
                  "i4[3]:-2..9 i4[2,1]:1..9 f8[]:0.5..8 f8[]:0.5..8",
                  grad=("i4[3]:0..2 i4[3]:2..4 f8[3]:0.5..3 f8[3]:0.5..3",),
                  differs="JAX's logarithm of the beta function has nine digits"),
    *distribution("geom", MASS, *COUNTS, grad=("i4[3]:3..9 f8[3]:inner",), call=lambda f, k, p: (f(k, p), f(k, p, 2))),
    *distribution("nbinom", MASS, "i4[2,3]:-2..9 f4[3]:positive f4[3]:inner", "i4[3]:-2..9 f8[2,1]:positive f8[]:inner",
                  grad=("i4[3]:0..9 f8[3]:positive f8[3]:inner",)),
    *distribution("poisson", f"{MASS} cdf", "i4[2,3]:-2..9 f4[3]:positive", "i4[3]:-2..9 f8[2,1]:positive",
                  grad=("i4[3]:2..9 f8[3]:positive",), call=lambda f, k, mu: (f(k, mu), f(k, mu, 2))),
    *distribution("poisson", "entropy", "f4[3]:positive", "f8[3]:0.5..200", call=lambda f, mu: (f(mu), f(mu, 1)),
                  differs="JAX's series has three terms", tol=8,
                  grad=("f8[3]:positive",)),
    *distribution("geom", MASS, "i4[3]:-2..9 f4[2,1]:-0.5..0 f4[]:1..2", id="edges", differs=NONE,
                  call=lambda f, k, p, q: (f(k, p - 0.5), f(k, q + 0.5), f(k, np.nan * q))),
    *distribution("nbinom", MASS, "i4[3]:-2..9 f4[2,1]:-2..-1 f4[]:1.5..2", id="edges", differs=NONE,
                  call=lambda f, k, n, p: (f(k, n, 0.5), f(k, 2.0, p), f(k, 3.0, -p))),
    *distribution("poisson", f"{MASS} cdf", "i4[3]:-2..9 f4[3]:-2..-1", id="edges", differs=NONE,
                  call=lambda f, k, mu: (f(k, mu), f(k, np.nan * mu))),
]
OF_ANGLES = [
    *distribution("vonmises", "logpdf pdf", "f4[2,3]:-3..3 f4[3]:positive", "f8[3]:-3..3 f8[2,1]:0.5..60",
                  grad=("f8[3]:-3..3 f8[3]:positive",)),
    *distribution("wrapcauchy", "logpdf pdf", "f4[2,3]:0..6.25 f4[3]:inner", "f8[3]:0..6.25 f8[2,1]:inner",
                  grad=("f8[3]:0.5..6 f8[3]:inner",)),
    *distribution("wrapcauchy", "logpdf pdf", "f4[2,3] f4[3]:-2..3", id="edges", differs=NONE),
    *distribution("gennorm", "logpdf pdf cdf", "f4[2,3] f4[3]:0.5..8", "f8[3] f8[2,1]:0.5..4",
                  grad=("f8[3]:0.5..2 f8[3]:0.5..4",)),
]
INTERVAL = ("f4[2,3]:0.0625..0.9375 f4[3]:0.5..4 f4[]:0.5..4", "f8[3]:inner f8[2,1]:0.5..8 f8[]:0.5..8")
ON_INTERVALS = [
    *distribution("beta", "logpdf pdf", *INTERVAL, grad=("f8[3]:inner f8[3]:0.5..3 f8[3]:0.5..3",),
                  differs="JAX's logarithm of the beta function has nine digits"),
    *distribution("beta", "cdf logcdf sf logsf", *INTERVAL),
    *distribution("beta", ALL, "f4[3]:-1..2 f4[]:0.5..1", id="edges", differs=NONE,
                  call=lambda f, x, loc: (f(x, 1.5, 2.0), f(x, 2.0, 3.5, loc, 0.5), f(x, -1.0, 2.0),
                                          f(x, 2.0, 1.5, loc, -1.0))),
    *distribution("truncnorm", ALL, "f4[3] f4[3]:-3..-1 f4[]:1..3", "f8[3] f8[2,1]:-3..1 f8[]:1.5..3",
                  grad=("f8[3]:-0.5..0.5 f8[3]:-3..-1 f8[3]:1..3",)),
    *distribution("truncnorm", ALL, "f4[3]:edges f4[]", id="edges", differs=NONE,
                  call=lambda f, x, loc: (f(x, -1.0, 2.0), f(x, -2.0, 1.0, loc, 2.0), f(x, 2.0, 1.0),
                                          f(x, -1.0, 1.0, 0.0, -1.0))),
]


def density_of_shares(function):
    """SciPy requires shares that add up to 1 in double precision."""
    return lambda x, alpha: function(x / x.sum(0), alpha)


OF_VECTORS = [
    row for name in ("logpdf", "pdf") for row in (
        *rows("scipy.stats.dirichlet", name, "f4[3]:simplex f4[3]:0.5..8", "f8[2,3]:simplex f8[3]:0.5..8", grad=(),
              call=lambda f, x, alpha: f(x.T, alpha), oracle=density_of_shares(getattr(oracle.dirichlet, name)),
              differs="JAX's lgamma is off by 4e-6 at 14, ours by less than a unit in the last place"),
        *rows("scipy.stats.multivariate_normal", name, "f4[3] f4[3] f4[3,3]:definite", "f8[4,3] f8[3] f8[3,3]:definite",
              oracle=getattr(oracle.multivariate_normal, name), tol=16,           # of the condition of a matrix
              grad=("f8[2,3] f8[3] f8[3,3]:definite",)),
    )] + [
    *distribution("multinomial", MASS, "i4[3]:0..4 f4[3]:simplex", "i4[3]:0..4 f8[3]:simplex",
                  call=lambda f, x, p: (f(x, x.sum(), p / p.sum()), f(x, 5, p / p.sum()))),
]
METHODS = ("average", "min", "max", "dense", "ordinal")
SAMPLES = [
    *rows("scipy.stats", "mode", "i4[3,4]:0..3", "f4[3,4]:small", "u1[5]:0..3",
          call=lambda f, x: (tuple(f(x)), tuple(f(x, axis=-1, keepdims=True)), tuple(f(x, axis=None)))),
    *rows("scipy.stats", "mode", "f4[2,5]:edges", id="edges", oracle=None, call=lambda f, x: tuple(f(x, axis=-1))),
    *rows("scipy.stats", "rankdata", "i4[3,4]:0..3", "f4[3,4]:edges", "f8[5]:unit", "bf[2,3]",
          call=lambda f, x: (*[f(x, m) for m in METHODS], *[f(x, m, axis=-1) for m in METHODS], f(x, axis=0))),
    *rows("scipy.stats", "sem", "f4[3,4]", "f8[3,4]", "i4[3,4]", "bf[2,4]", grad=("f8[3,4]:distinct",),
          call=lambda f, x: (f(x), f(x, axis=-1, ddof=0), f(x, axis=None), f(x, axis=1, keepdims=True))),
    *rows("scipy.stats", "sem", "f4[3,6]:edges", id="edges", call=lambda f, x: (f(x), f(x, axis=-1, ddof=0))),
    *rows("scipy.stats", "gaussian_kde", "f4[6]:increasing f4[3]", "f8[6]:increasing f8[3]",
          grad=("f8[6]:increasing f8[3]",),
          call=lambda f, data, at: (f(data)(at), f(data, 0.5).logpdf(at), f(data, "silverman").evaluate(at),
                                    f(data).integrate_box_1d(-1.0, 0.5))),
]
ROWS = [*OF_COUNTS, *OF_ANGLES, *ON_INTERVALS, *OF_VECTORS, *SAMPLES]
