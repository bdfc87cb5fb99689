"""Special functions: over all numbers of a dtype, at the edges of their domains, and their derivatives."""

from __future__ import annotations

import numpy as np
import scipy.special as oracle

from tests.oracle import holds
from tests.values.row import rows, since

# "wide" draws from all the numbers of a dtype.
REAL = ("f4[2,3]:wide", "f8[3]:wide", "bf[3]:edges", "f2[3]:edges", "i4[3]")
DOUBLES = ("f4[2,3]:wide", "f8[3]:wide", "f4[]:edges", "f8[0,2]")               # where 16 bits are refused
PAIRS = ("f4[2,3]:wide f4[3]:wide", "f8[3]:edges f8[2,1]:edges", "bf[3]:edges bf[]:edges", "f2[2] f4[2]:edges",
         "i4[3]:count u1[]:count")
EDGE_PAIRS = ("f4[2,3]:edges f4[3]:edges", "f8[3]:edges f8[2,1]:edges", "bf[3]:edges bf[]:edges")
POSITIVE_PAIRS = ("f4[2,3]:positive f4[3]:positive", "f8[3]:positive f8[2,1]:positive", "i4[3]:1..8 u1[]:1..8")
D, P, U, S = ("f8[2,3]",), ("f8[2,3]:positive",), ("f8[2,3]:inner",), ("f8[2,3]:signed",)
PP = ("f8[2,3]:positive f8[3]:positive",)


def special(names, *signatures, **options):
    return rows("scipy.special", names, *signatures, **options)


def where_finite(f, x, *others):
    """f, for infinite x of nan: its limits are in tests/scipy/ends, while JAX and SciPy have nan themselves."""
    return f(x - x + x, *others)


ONE_ARGUMENT = [
    *special("erf erfc expit i0e i1e", *REAL, grad=D),
    *special("i0", *REAL, grad=D, call=where_finite,
             differs="" if holds(since="0.12") else "JAX has 1 as the derivative at 0 before 0.12"),
    *special("i1", *REAL, grad=D, call=where_finite),
    *special("erfinv", *REAL, grad=S),
    *since("0.12", special("erfcinv", *REAL, "f4[3]:0..2", "f8[3]:0..1e-9", grad=("f8[2,3]:0.125..1.875",))),
    *special("logit entr", *REAL, grad=U),
    # At -inf the gamma function has no limit, and at 0 it has two: SciPy chooses another one than JAX.
    *special("gammaln", *REAL, oracle=lambda x: np.where(np.isneginf(x), np.inf, oracle.gammaln(x)), grad=P),
    *special("digamma loggamma", *REAL, id="real", grad=P, differs="JAX has nan at 0"),
    *special("digamma", "f4[3]:positive", "f8[2]:0.5..60", id="positive"),
    *special("loggamma", "f4[3]:positive", "f8[2]:0.5..60", id="positive"),
    # An exponential of a logarithm up to 700 loses that many units in the last place.
    *special("gamma factorial", *REAL, grad=P, tol=16),
    *special("gammasgn", *REAL),
    *special("ndtr log_ndtr", *DOUBLES, grad=D),
    *special("ndtri", *DOUBLES, grad=U),
]

TWO_ARGUMENTS = [
    *special("xlogy xlog1py", *PAIRS, grad=PP),
    # SciPy's have limits at infinity.
    *special("rel_entr", "f4[2,3] f4[3]", "f8[3]:unit f8[2,1]:unit", "i4[3]:count u1[]:count", grad=PP),
    *special("kl_div", *EDGE_PAIRS, id="edges", call=where_finite,
             differs="" if holds(since="0.12") else "JAX has nan where q is -inf before 0.12"),
    *special("kl_div", "f4[2,3] f4[3]", "f8[3]:unit f8[2,1]:unit", "i4[3]:count u1[]:count", grad=PP),
    *special("boxcox boxcox1p", *(pair for pair in PAIRS if "bf" not in pair), grad=PP),
    *special("boxcox boxcox1p", "bf[3]:edges bf[]:edges", id="halves", differs="JAX rounds each step to 16 bits"),
    # At the poles SciPy has infinity, JAX nan: tests/scipy/ends has the values of these and of zeta there.
    *special("beta betaln", *POSITIVE_PAIRS, "f4[3]:0.5..60 f4[3]:0.5..60", "f8[3]:0.5..7 f8[3]:10..90",
             "f8[3]:-0.9375..-0.0625 f8[3]:10..90", grad=("f8[2,3]:0.5..7 f8[3]:0.5..7",),
             differs="JAX's series for large numbers has nine digits"),
    *special("poch", *POSITIVE_PAIRS, "f4[3]:0.5..60 f4[3]:small", grad=PP, tol=16, differs="JAX loses large numbers"),
    *special("comb", *POSITIVE_PAIRS, "f8[3]:-8..8 f8[3]:-8..8", "f4[3]:0..100 f4[2,1]:count", tol=16,
             grad=("f8[3]:8..12 f8[2,1]:0.5..7",)),
    *special("gammainc gammaincc", *EDGE_PAIRS, "f4[3]:0..100 f4[3]:0..100", "i4[3]:count u1[]:count", grad=PP,
             differs="JAX has nan where a is 0 or infinite"),
    *special("zeta", "f4[2,3]:1.0625..8 f4[3]:positive", "f8[3]:1.0625..40 f8[2,1]:0.5..9", "i4[3]:2..9 f4[]:positive",
             grad=("f8[3]:2..8 f8[3]:positive",)),
]
ROWS = [*ONE_ARGUMENT, *TWO_ARGUMENTS]
