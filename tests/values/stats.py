"""Distributions inside of their domains, against JAX and SciPy, with derivatives.

At infinities, outside of the support, and for parameters without a distribution they are compared with SciPy.
"""

from __future__ import annotations

import numpy as np
import scipy.stats as oracle

from tests.oracle import holds
from tests.values.row import rows

ALL = "logpdf pdf cdf logcdf sf logsf"
NONE = "JAX has numbers for distributions that do not exist, and nan at infinities"
INNER = ("f4[2,3] f4[3] f4[]:positive", "f8[3] f8[2,1] f8[3]:positive", "i4[3] f4[] i4[3]:1..4")
SHARES = ("f4[2,3]:inner f4[3] f4[]:positive", "f8[3]:inner f8[2,1] f8[3]:positive")
SHAPES = ("f4[2,3]:0..9 f4[3]:positive f4[]:-0.5..0 f4[]:positive",
          "f8[3]:0..9 f8[2,1]:positive f8[]:-0.5..0 f8[3]:1..4", "i4[3]:1..9 f4[2,1]:positive f4[]:-0.5..0 i4[]:1..4")
# At kinks and ends of a density no derivatives are compared: x is inside of every support.
GRAD = ("f8[3]:0.5..2 f8[3]:-0.25..0.25 f8[3]:4..8",)
GRAD_OF_SHARES = ("f8[3]:inner f8[3] f8[3]:positive",)
GRAD_OF_SHAPES = ("f8[2]:1.5..2 f8[2]:0.5..4 f8[2]:-0.25..0.25 f8[2]:1.0625..1.1875",)


def distribution(names, functions, *signatures, **options):
    for name in names.split():
        for function in functions.split():
            yield from rows(f"scipy.stats.{name}", function, *signatures,
                            oracle=getattr(getattr(oracle, name), function), **options)


def at_edges(f, x, loc):
    """Without parameters, with some, and with a scale below 0."""
    return f(x), f(x, loc), f(x, loc, 2.0), f(x, loc, scale=-1.0)


def of_shape_at_edges(f, x, a, loc):
    return f(x, a), f(x, a, loc), f(x, a, loc, 2.0), f(x, a, scale=-1.0)


def shapes_below_0(f, x, loc):
    return f(x, -1.0), f(x, 0.5, loc), f(x, 2.5, loc, -1.0), f(x, np.nan)


OF_LOCATION = [
    *distribution("cauchy expon", ALL, *INNER, grad=GRAD),
    *distribution("gumbel_r", "cdf logcdf sf", *INNER, grad=GRAD),
    *distribution("gumbel_l", "cdf sf logsf", *INNER, grad=GRAD),
    *distribution("gumbel_r", "logsf", *INNER, grad=GRAD, differs="JAX takes logarithms of 0 in the tail"),
    *distribution("gumbel_l", "logcdf", *INNER, grad=GRAD, differs="JAX takes logarithms of 0 in the tail"),
    *distribution("gumbel_r gumbel_l", "logpdf pdf", *INNER),                        # JAX cannot differentiate these
    *distribution("norm", "logpdf pdf cdf sf", *INNER, grad=GRAD),
    *distribution("norm", "logcdf logsf", *INNER, grad=GRAD, differs="JAX's asymptotic series has three terms"),
    *distribution("laplace uniform", "logpdf pdf cdf", *INNER, grad=GRAD),
    *distribution("logistic", "logpdf pdf cdf sf", *INNER, grad=GRAD),
    *distribution("logistic", "ppf isf", *SHARES, grad=GRAD_OF_SHARES),
    *distribution("cauchy", "ppf isf", *SHARES, grad=GRAD_OF_SHARES,
                  differs="the derivative at the median is 0 in JAX 0.12" if holds(since="0.12") else ""),
    # Results are float64, as in JAX; for float32 arguments they have single precision.
    *distribution("norm", "ppf isf", SHARES[1], grad=GRAD_OF_SHARES),
    *distribution("norm", "ppf isf", SHARES[0], id="single", call=lambda f, q, *args: f(q, *args).astype(q.dtype)),
    *distribution("gumbel_r gumbel_l", "ppf", *SHARES),
    *distribution("expon uniform", "ppf", *SHARES, grad=GRAD_OF_SHARES),
]
EDGES = ("f4[2,3]:edges f4[3]", "f8[3]:edges f8[]")
OF_LOCATION_AT_EDGES = [
    *distribution("cauchy expon", ALL, *EDGES, call=at_edges, differs=NONE, id="edges"),
    *distribution("gumbel_r gumbel_l", "cdf logcdf sf logsf", *EDGES, call=at_edges, differs=NONE, id="edges"),
    # Their densities at infinity are nan in SciPy.
    *distribution("gumbel_r gumbel_l", "logpdf pdf", "f4[2,3]:-30..30 f4[3]", "f8[3]:-30..30 f8[]", call=at_edges,
                  differs=NONE, id="edges"),
    *distribution("laplace uniform", "logpdf pdf cdf", *EDGES, call=at_edges, differs=NONE, id="edges"),
    *distribution("logistic", "logpdf pdf cdf sf", *EDGES, call=at_edges, differs=NONE, id="edges"),
    *distribution("norm", ALL, *EDGES, call=lambda f, x, loc: (f(x), f(x, loc), f(x, loc, 2.0)), id="edges"),
    *distribution("cauchy logistic", "ppf isf", "f4[2,3]:-0.5..1.5 f4[3]", "f8[3]:edges f8[]", call=at_edges,
                  differs=NONE, id="edges"),
    *distribution("gumbel_r gumbel_l expon uniform", "ppf", "f4[2,3]:-0.5..1.5 f4[3]", "f8[3]:edges f8[]",
                  call=at_edges, differs=NONE, id="edges"),
]
OF_SHAPE = [
    *distribution("gamma chi2", ALL.removesuffix(" logsf"), *SHAPES, grad=GRAD_OF_SHAPES),
    *distribution("gamma chi2", "logsf", *SHAPES, grad=GRAD_OF_SHAPES,
                  differs="" if holds(since="0.12") else "JAX's lgamma lacks the last 4 bits before 0.12"),
    *distribution("t", "logpdf pdf", *SHAPES, grad=GRAD_OF_SHAPES),
    *distribution("pareto", ALL, *SHAPES, grad=GRAD_OF_SHAPES),
    *distribution("pareto", "ppf", "f4[3]:inner f4[3]:0.5..8 f4[] f4[]:positive",
                  "f8[3]:inner f8[3]:0.5..8 f8[] f8[]:1..4", grad=("f8[3]:inner f8[3]:0.5..8 f8[3] f8[3]:1..4",)),
    *distribution("gamma chi2 pareto", ALL, "f4[3]:edges f4[]", "f8[2]:edges f8[]", call=shapes_below_0, differs=NONE,
                  id="edges"),
    *distribution("t", "logpdf pdf", "f4[3]:edges f4[]", "f8[2]:edges f8[]", differs=NONE, id="edges",
                  call=lambda f, x, loc: (f(x, -1.0), f(x, 0.5, loc), f(x, 2.5, loc, 2.0), f(x, np.nan))),
]
ROWS = [*OF_LOCATION, *OF_LOCATION_AT_EDGES, *OF_SHAPE]
