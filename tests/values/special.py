"""Special functions: over all numbers of a dtype, at the edges of their domains, and their derivatives."""

from __future__ import annotations

import numpy as np
import scipy.special as oracle

from tests.values.row import rows

# "wide" draws from all the numbers of a dtype.
REAL = ("f4[2,3]:wide", "f8[3]:wide", "bf[3]:edges", "f2[3]:edges", "i4[3]")
DOUBLES = ("f4[2,3]:wide", "f8[3]:wide", "f4[]:edges", "f8[0,2]")               # where 16 bits are refused
PAIRS = ("f4[2,3]:wide f4[3]:wide", "f8[3]:edges f8[2,1]:edges", "bf[3]:edges bf[]:edges", "f2[2] f4[2]:edges",
         "i4[3]:count u1[]:count")
D, P, U, S = ("f8[2,3]",), ("f8[2,3]:positive",), ("f8[2,3]:inner",), ("f8[2,3]:signed",)
PP = ("f8[2,3]:positive f8[3]:positive",)


def special(names, *signatures, **options):
    return rows("scipy.special", names, *signatures, **options)


ONE_ARGUMENT = [
    *special("erf erfc expit i0e i1e", *REAL, grad=D),
    *special("i0 i1", *REAL, grad=D),
    *special("erfinv", *REAL, grad=S),
    *special("logit entr", *REAL, grad=U),
    # The gamma function of negative infinity has no limit, and that of 0 two: SciPy chooses another one than JAX.
    *special("gammaln", *REAL, oracle=lambda x: np.where(np.isneginf(x), np.inf, oracle.gammaln(x)), grad=P),
    *special("digamma loggamma", *REAL, id="real", grad=P, oracle=None),
    *special("digamma", "f4[3]:positive", "f8[2]:0.5..60", id="positive"),
    *special("loggamma", "f4[3]:positive", "f8[2]:0.5..60", id="positive"),
    # An exponential of a logarithm up to 700 loses that many units in the last place.
    *special("gamma factorial", *REAL, grad=P, tol=16),
    *special("gammasgn", *REAL),
    *special("ndtr log_ndtr", *DOUBLES, grad=D),
]

TWO_ARGUMENTS = [
    *special("xlogy xlog1py boxcox boxcox1p", *PAIRS, grad=PP),
]
ROWS = [*ONE_ARGUMENT, *TWO_ARGUMENTS]
