"""Polynomials, the highest power first."""

from __future__ import annotations

import functools

import numpy as np

from tests.oracle import holds
from tests.values.row import rows

ONE = ("f4[4]", "i4[3]", "c8[3]", "f8[1]", "bf[3]")
TWO = ("f4[4] f4[2]", "i4[3] i4[3]", "c8[2] f4[3]", "f8[1] f8[2]", "bf[2] bf[3]")
# Divisors whose first coefficient is far from 0, so that quotients do not grow.
DIVIDED = ("f4[4] f4[2]:1..2", "i4[3] i4[3]:1..4", "c8[3] f4[2]:1..2", "f8[1] f8[2]:1..2")
TRIMMED = ("f4[4]:0..0.125 f4[2]:0..0.125", "i4[3]:0..1 i4[3]:0..1")
# The coefficient of the first power dominates: simple roots, with gaps between them.
SIMPLE = ("f8[4]:positive", "f4[3]:positive", "c16[3]:positive")
# Nodes with distances between them; their powers are still nearly dependent, by a factor of about 100.
FITTED = ("f8[6]:increasing f8[6]", "f8[4]:increasing f8[4,2]", "f8[5]:increasing i4[5]")


def _ordered(x):
    """Sums of powers of the roots, which do not depend on their order."""
    return [(x ** k).sum() for k in range(1, 3)]


ROWS = [
    *rows("numpy", "polyval", "f4[4] f4[3]:small", "i4[3] i4[2]", "c8[3] f4[]", "f8[0] f8[2]", "bf[2] bf[3]",
          "u1[2] f4[2,2]", grad=("f8[4] f8[3]", "f8[2] f8[]")),
    # NumPy starts with 0 x, which is nan at infinity.
    *rows("numpy", "polyval", "f8[3]:edges f8[]:edges", id="edges",
          oracle=lambda p, x: functools.reduce(lambda y, c: y * x + c, p),
          differs="" if holds(since="0.12") else "JAX starts with 0 x before 0.12"),
    *rows("numpy", "polyval", "f4[3,2] f4[2]", "f4[2,1,3] f4[2,3]", id="of several polynomials"),
    *rows("numpy", "polyadd polysub", *TWO, "b1[2] u1[3]", grad=("f8[3] f8[2]",)),
    # NumPy's omits leading zeros.
    *rows("numpy", "polymul", *TWO, grad=("f8[3] f8[2]",), oracle=np.convolve),
    *rows("numpy", "polymul", *TRIMMED, id="trimmed", jit=False,
          call=lambda f, x, y: (f(x, y) if f.__module__.startswith("numpy") else f(x, y, trim_leading_zeros=True))),
    # NumPy's remainder is shorter.
    *rows("numpy", "polydiv", *DIVIDED, oracle=None, grad=("f8[4] f8[2]:1..2",)),
    # NumPy keeps one 0 of an empty remainder, and trims at another size.
    *rows("numpy", "polydiv", "f8[4] f8[2]:1..2", "i4[3] i4[3]:1..4", id="trimmed", oracle=None, jit=False,
          call=lambda f, x, y: f(x, y, trim_leading_zeros=True)),
    *rows("numpy", "polyder", *ONE, grad=("f8[4]",), call=lambda f, p: (f(p), f(p, 2), f(p, m=0), f(p, 3))),
    *rows("numpy", "polyint", *ONE, grad=("f8[4]",),
          call=lambda f, p: (f(p), f(p, 2), f(p, m=0), f(p, 3, k=2), f(p, 2, np.array([3, -1])), f(p, 1, k=0.5))),
    *rows("numpy", "poly", "f4[3]", "i4[4]:-3..3", "c8[2]", "bf[2]", "f8[1]", "f8[0]", grad=("f8[3]",)),
    # The order of the eigenvalues is the order of the factors, so rounding differs. JAX's coefficients of a real matrix
    # are # complex, and NumPy's are real.
    *rows("numpy", "poly", "f8[2,2]", "f4[3,3]:symmetric", id="of a matrix", oracle=None, tol=8),
    *rows("numpy", "roots", *SIMPLE, jit=False, call=lambda f, p: _ordered(f(p)), tol=64),
    *rows("numpy", "roots", *SIMPLE, "f4[4]:0..0.125", id="traced", oracle=None,
          call=lambda f, p: _ordered(f(p, strip_zeros=False)), tol=64),
    *rows("numpy", "polyfit", *FITTED, tol=256, call=lambda f, x, y: (f(x, y, 1), f(x, y, 2), f(x, y, deg=0))),
    *rows("numpy", "polyfit", "f8[5]:increasing f8[5] f8[5]:positive", "f4[4]:increasing f4[4,2] f4[4]:positive",
          id="of weights", tol=256, call=lambda f, x, y, w: f(x, y, 1, w=w)),
]
