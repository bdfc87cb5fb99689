"""Distributions: inside of their domains against JAX and SciPy; at infinities, outside of the support, and with
parameters for which there is no distribution, against SciPy; and their derivatives."""

from __future__ import annotations

import scipy.stats as oracle

from tests.values.row import rows

ALL = "logpdf pdf cdf logcdf sf logsf"
NONE = "JAX has numbers for distributions that do not exist, and nan at infinities"
INNER = ("f4[2,3] f4[3] f4[]:positive", "f8[3] f8[2,1] f8[3]:positive", "i4[3] f4[] i4[3]:1..4")
SHARES = ("f4[2,3]:inner f4[3] f4[]:positive", "f8[3]:inner f8[2,1] f8[3]:positive")
# Where a density has kinks or ends there are no derivatives to compare: x is inside of every support.
GRAD = ("f8[3]:0.5..2 f8[3]:-0.25..0.25 f8[3]:4..8",)


def distribution(names, functions, *signatures, **options):
    for name in names.split():
        for function in functions.split():
            yield from rows(f"scipy.stats.{name}", function, *signatures,
                            oracle=getattr(getattr(oracle, name), function), **options)


def at_edges(f, x, loc):
    """Without parameters, with some, and with a scale below 0."""
    return f(x), f(x, loc), f(x, loc, 2.0), f(x, loc, scale=-1.0)


OF_LOCATION = [
    *distribution("cauchy expon", ALL, *INNER, grad=GRAD),
    *distribution("gumbel_r gumbel_l", "cdf logcdf sf logsf", *INNER, grad=GRAD),
    *distribution("gumbel_r gumbel_l", "logpdf pdf", *INNER),                        # JAX cannot differentiate them
    *distribution("norm", "logpdf pdf cdf sf", *INNER, grad=GRAD),
    *distribution("norm", "logcdf logsf", *INNER, differs="JAX's asymptotic series has three terms"),
    *distribution("laplace uniform", "logpdf pdf cdf", *INNER),
    *distribution("logistic", "logpdf pdf cdf sf", *INNER),
    *distribution("cauchy logistic", "ppf isf", *SHARES),
    # Results are float64, as in JAX; those of float32 have its precision.
    *distribution("norm", "ppf isf", SHARES[1]),
    *distribution("norm", "ppf isf", SHARES[0], id="single", call=lambda f, q, *args: f(q, *args).astype(q.dtype)),
    *distribution("gumbel_r gumbel_l expon uniform", "ppf", *SHARES),
]
EDGES = ("f4[2,3]:edges f4[3]", "f8[3]:edges f8[]")
OF_LOCATION_AT_EDGES = [
    *distribution("cauchy expon", ALL, *EDGES, call=at_edges, differs=NONE, id="edges"),
]
ROWS = [*OF_LOCATION, *OF_LOCATION_AT_EDGES]
