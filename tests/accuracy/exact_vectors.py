"""Exact functions of the entries of a vector, as numbers of mpmath, and the domains of tested vectors."""

from __future__ import annotations

import numpy as np
from mpmath import exp, fsum, log, mpf

# -- exact functions ------------------------------------------------------------------------------------------------

def norm(ord):
    def norm(*x):
        sizes = [abs(v) for v in x]
        if ord in (np.inf, -np.inf):
            return max(sizes) if ord > 0 else min(sizes)
        total = fsum(v ** ord for v in sizes if v or ord > 0)
        return mpf(0) if not total or (ord < 0 and not all(sizes)) else total ** (mpf(1) / ord)
    return norm


def mean(*x):
    return fsum(x) / len(x)


def var(*x):
    return fsum((v - mean(*x)) ** 2 for v in x) / len(x)


def logsumexp(x):
    return max(x) + log(fsum(exp(v - max(x)) for v in x))


def softmax(*x):
    return [exp(v - logsumexp(x)) for v in x]


def halves(x):
    return x[:len(x) // 2], x[len(x) // 2:]


def dot(*x):
    return fsum(a * b for a, b in zip(*halves(x), strict=True))


# -- domains ----------------------------------------------------------------------------------------------------------

def terms(*x):
    return sum(map(abs, x))


def largest(*x):
    return max(map(abs, x))


def moderate(bits):
    """A domain: entries are 0, or of a size between 2 ** -bits and 2 ** bits."""
    return lambda *x: all(not v or 2.0 ** -bits <= abs(v) <= 2.0 ** bits for v in x)


def exponents(*x):
    """A domain for exponentials: outside, all results are 0, 1 or the largest entry."""
    return moderate(14)(*x)


def distinct(*x):
    return len({*x}) == len(x)
