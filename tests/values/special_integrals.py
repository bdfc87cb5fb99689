"""Special functions that are integrals, series or recurrences, of several arguments, or of axes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import scipy.special as oracle

from tests.values.row import rows

REAL = ("f4[2,3]", "f8[3]", "f4[3]:-40..40")
POSITIVE = ("f4[2,3]:positive", "f8[3]:positive", "f4[3]:0.5..40")
D, P = ("f8[3]",), ("f8[3]:positive",)
COMPLEX = ("c8[2,3]", "c16[3]")


def _bernoulli(n):
    """Computed with fractions."""
    numbers = [Fraction(1)]
    for m in range(1, n + 1):
        numbers.append(-sum(math.comb(m + 1, k) * b for k, b in enumerate(numbers)) / (m + 1))
    return np.array(numbers, float)


DEGREES, ORDERS = np.array([0, 1, 2, 3, 4]), np.array([0, 1, -1, 2, -4])


def special(names, *signatures, **options):
    return rows("scipy.special", names, *signatures, **options)


INTEGRALS = [
    *special("dawsn erfcx", *REAL, "f4[]:edges", grad=D, id="real"),
    *special("wofz", *COMPLEX, grad=("c16[3]",), tol=4),                # JAX's error is 4e-14
    *special("fresnel", *REAL, grad=("f8[3]:small",)),
    *special("sici", *POSITIVE, grad=P),
    *special("exp1 expi", *POSITIVE, grad=P),
    *special("expn", *POSITIVE, call=lambda f, x: (f(0, x), f(1, x), f(2, x), f(5, x)),
             grad=("f8[3]:1.0625..8",)),                                # for smaller x, JAX has nan for order 0
    *special("spence", "f4[2,3]", "f8[3]:0..60", grad=P, differs="JAX has slopes of nan in 1..1.5"),
    *special("owens_t", "f8[3] f8[2,1]", grad=("f8[3] f8[3]",)),      # JAX has no float32, and nan at infinity
]
SERIES = [
    *special("betainc", "f4[3]:positive f4[2,1]:positive f4[]:unit", "f8[2]:positive f8[2]:positive f8[2]:unit",
             "f4[2]:edges f4[2]:edges f4[2]:edges"),
    *special("betainc", "f8[2]:unit", call=lambda f, x: (f(1.5, 3.0, x), f(np.float64(0.5), 2, x)), id="x",
             grad=("f8[3]:inner",)),
    *special("hyp1f1", "f4[3]:positive f4[2,1]:positive f4[3]:small", "f8[3]:positive f8[3]:positive f8[3]",
             differs="JAX adds up terms that are larger than the sum",
             grad=("f8[2]:positive f8[2]:positive f8[2]:small",)),
    *special("hyp2f1", "f4[3]:0.5..3 f4[2,1]:0.5..3 f4[3]:1..8 f4[3]:-0.5..0.5",
             "f8[3]:0.5..3 f8[3]:0.5..3 f8[3]:1..8 f8[3]:-0.5..0.5"),
    *special("polygamma", "f4[2,3]:positive", "f8[3]:0.5..60", "i4[3]:1..9", grad=P,
             call=lambda f, x: tuple(f(n, x) for n in (0, 1, 2, 5))),
    *special("multigammaln", "f4[2,3]:2..60", "f8[3]:2..60", "i4[2]:2..9", grad=("f8[2]:2..9",),
             call=lambda f, x: (f(x, 1), f(x, 2), f(x, 4))),
    *special("bernoulli", "", call=lambda f: (f(5), f(20)), oracle=_bernoulli,
             differs="JAX and SciPy add up too few terms of the series"),
    *special("bessel_jn", "f4[3]:0.5..8", "f8[2]:0.5..8", call=lambda f, x: f(x, v=5, n_iter=40),
             grad=("f8[2]:0.5..8",), differs="JAX overflows in float32",
             oracle=lambda x, v, n_iter: np.stack([oracle.jv(k, x) for k in range(v + 1)])),
    *special("sph_harm_y", "f8[5]:0..3 f8[5]", grad=("f8[5]:0.5..3 f8[5]",),
             call=lambda f, theta, phi: f(DEGREES, ORDERS, theta, phi, n_max=4),
             oracle=lambda n, m, theta, phi, n_max: oracle.sph_harm_y(n, m, theta, phi)),
]
AXES = ("f4[2,3]:edges", "f8[2,3]:wide", "bf[2,2]", "f2[2,3]", "i4[2,3]")


def along_axes(f, x):
    return f(x), f(x, axis=0), f(x, axis=-1), f(x, axis=(0, 1))


ALONG = [
    *special("logsumexp", "c8[2,3]", grad=("c16[2,2]",), id="complex", call=lambda f, x: (f(x), f(x, axis=0))),
    *special("logsumexp", *AXES, "c8[2,3]", grad=("f8[2,3]",),
             call=lambda f, x: (f(x), f(x, axis=0), f(x, axis=(0, -1), keepdims=True),
                                f(x, axis=-1, return_sign=True))),
    *special("logsumexp", "f4[2,3] f4[3]:edges", "f8[2,3] f8[2,3]", id="weights", grad=("f8[2,3] f8[3]:positive",),
             call=lambda f, x, b: (f(x, b=b, axis=1, return_sign=True), f(x, b=abs(b)))),
    *special("softmax", *AXES, grad=("f8[2,3]",), call=along_axes),
    *special("log_softmax", *AXES[:2], id="edges", call=along_axes, oracle=None),    # with an infinite entry
    *special("log_softmax", "f4[2,3]", "f8[2,3]:-400..400", *AXES[2:], grad=("f8[2,3]",), call=along_axes),
]
ROWS = [*INTEGRALS, *SERIES, *ALONG]
