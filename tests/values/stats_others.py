"""Distributions of counts."""

from __future__ import annotations

from tests.values.stats import NONE, distribution

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
    *distribution("geom", MASS, *COUNTS, call=lambda f, k, p: (f(k, p), f(k, p, 2))),
    *distribution("nbinom", MASS, "i4[2,3]:-2..9 f4[3]:positive f4[3]:inner",
                  "i4[3]:-2..9 f8[2,1]:positive f8[]:inner"),
]
ROWS = [*OF_COUNTS]
