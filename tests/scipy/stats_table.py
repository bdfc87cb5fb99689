"""The distributions of one number: their functions, and arguments inside and outside of their domains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

INF, NAN = np.inf, np.nan
ALL = "logpdf pdf cdf logcdf sf logsf"
REAL = np.array([-INF, -1e30, -300, -40, -5, -1, -0.3, -1e-6, 0, 1e-6, 0.5, 1, 2, 7, 37, 150, 1e30, INF, NAN])
POSITIVE = np.array([-INF, -1, 0, 1e-30, 1e-9, 1e-3, 0.3, 1, 2, 5, 19, 200, 1e5, 1e30, INF, NAN])
SHARE = np.array([-1, 0, 1e-30, 1e-6, 0.01, 0.3, 0.5, 0.75, 0.99, 1 - 2.0 ** -20, 1, 1.5, NAN])
COUNT = np.array([-1, 0, 1, 2, 3, 7, 20, 50, NAN])
SHAPE = np.array([-1, 0.1, 0.5, 1, 2.5, 9, 10, 60, NAN])
LOC, SCALE = np.array([0, -1.5]), np.array([-1, 0.5, 3, NAN])


class Family(NamedTuple):
    """Functions of one distribution.

    inner: for each argument, values inside of its domain, at which values and derivatives are compared with JAX.
    wide: axes of the grid that is compared with SciPy; quantile functions take SHARE as the first.
    constant: arguments without a derivative; counts: the number of leading arguments that are integers in SciPy.
    """

    functions: str
    inner: tuple
    wide: tuple
    constant: tuple[int, ...] = ()
    counts: int = 0


FAMILIES = {
    "norm": Family(f"{ALL} ppf isf", ([0.3, 0.6, 0.9], [0.1, -0.2, 0.4], [2.0, 0.5, 1.3]), (REAL, LOC, SCALE[1:])),
    "expon": Family(f"{ALL} ppf", ([0.3, 0.6, 0.9], [0.1, -0.2, 0.4], [2.0, 0.5, 1.3]), (REAL, LOC, SCALE)),
    "cauchy": Family(f"{ALL} ppf isf", ([0.3, 0.6, 0.9], [0.1, -0.2, 0.4], [2.0, 0.5, 1.3]), (REAL, LOC, SCALE)),
    "gamma": Family(ALL, ([0.5, 3.0, 9.0], [0.7, 3.0, 12.0], [0.1, -0.2, 0.4], [2.0, 0.5, 1.3]),
                    (POSITIVE, SHAPE, LOC, SCALE)),
    "chi2": Family(ALL, ([0.5, 3.0, 9.0], [0.7, 3.0, 12.0], [0.1, -0.2, 0.4], [2.0, 0.5, 1.3]),
                   (POSITIVE, SHAPE, LOC, SCALE)),
    "beta": Family(ALL, ([0.3, 0.2, 1.0], [0.7, 3.0, 12.0], [2.0, 0.6, 5.0], [0.1, -0.2, 0.4], [2.0, 0.5, 1.3]),
                   (SHARE, SHAPE, SHAPE), constant=(1, 2)),
    "pareto": Family(f"{ALL} ppf", ([0.9, 0.6, 0.8], [0.7, 3.0, 12.0], [0.1, -0.2, 0.4], [0.7, 0.5, 0.3]),
                     (POSITIVE, SHAPE, LOC, SCALE)),
    "laplace": Family("logpdf pdf cdf", ([0.3, -0.6, 0.9], [0.1, -0.2, 0.4], [2.0, 0.5, 1.3]), (REAL, LOC, SCALE)),
    "logistic": Family("logpdf pdf cdf sf ppf isf", ([0.3, 0.6, 0.9], [0.1, -0.2, 0.4], [2.0, 0.5, 1.3]),
                       (REAL, LOC, SCALE)),
    "uniform": Family("logpdf pdf cdf ppf", ([0.3, 0.2, 0.9], [0.1, -0.2, 0.4], [2.0, 0.5, 1.3]), (SHARE, LOC, SCALE)),
    # SciPy's densities of these are nan at infinity.
    "gumbel_r": Family(f"{ALL} ppf", ([0.3, 0.6, 0.9], [0.1, -0.2, 0.4], [2.0, 0.5, 1.3]), (REAL[1:], LOC, SCALE)),
    "gumbel_l": Family(f"{ALL} ppf", ([0.3, 0.6, 0.9], [0.1, -0.2, 0.4], [2.0, 0.5, 1.3]), (-REAL[1:], LOC, SCALE)),
    "gennorm": Family("logpdf pdf cdf", ([0.3, -0.6, 1.9], [0.7, 2.0, 5.0]), (REAL, SHAPE)),
    "t": Family("logpdf pdf", ([0.3, -0.6, 9.0], [0.7, 3.0, 70.0], [0.1, -0.2, 0.4], [2.0, 0.5, 1.3]),
                (REAL, SHAPE, LOC, SCALE[1:])),
    "truncnorm": Family(ALL, ([0.3, 0.6, -2.2], [-1.0, 0.3, -9.0], [0.5, 2.0, -1.0], [0.1, -0.2, 0.4],
                              [2.0, 0.5, 1.3]),
                        (REAL[np.abs(REAL) != 1e-6], [-INF, -30, -2, 0, 3, NAN], [-25, -1, 1, 5, 40, INF])),
    "vonmises": Family("logpdf pdf", ([0.3, -0.6, 2.0], [0.7, 3.0, 70.0]),
                       (np.linspace(-3.1, 3.1, 15), [-1, 0, 1e-3, 1, 50, 1e5, NAN])),
    "wrapcauchy": Family("logpdf pdf", ([0.3, 1.6, 4.0], [0.2, 0.6, 0.9]),
                         ([-1, 0, 1e-5, 0.3, 3, 6, 6.28, 7, NAN], [-1, 0, 1e-5, 0.3, 0.9, 1, 2, NAN])),
    "bernoulli": Family("logpmf pmf", ([0.0, 1.0, 1.0], [0.2, 0.6, 0.9]), (COUNT, SHARE), counts=1),
    "binom": Family("logpmf pmf", ([0.0, 3.0, 2.0], [4.0, 3.0, 30.0], [0.2, 0.6, 0.9]), (COUNT, COUNT, SHARE),
                    counts=2),
    "betabinom": Family("logpmf pmf", ([0.0, 3.0, 2.0], [4.0, 3.0, 30.0], [0.7, 3.0, 12.0], [2.0, 0.6, 5.0]),
                        (COUNT, COUNT, SHAPE, SHAPE), counts=2),
    "geom": Family("logpmf pmf", ([1.0, 3.0, 12.0], [0.2, 0.6, 0.9]), (COUNT, np.delete(SHARE, 1)), counts=1),
    "nbinom": Family("logpmf pmf", ([0.0, 3.0, 12.0], [0.7, 3.0, 12.0], [0.2, 0.6, 0.9]),
                     (COUNT, SHAPE, np.delete(SHARE, 1)), counts=1),
    "poisson": Family("logpmf pmf cdf", ([0.0, 3.0, 12.0], [0.7, 3.0, 12.0]),
                      (np.append(COUNT, [0.5, -0.5]), [-1, 0, 0.1, 3, 50, 1e4, NAN]), counts=1),
}
QUANTILES = ("ppf", "isf")


def grid(family: Family, name: str) -> list[np.ndarray]:
    """The wide grid for one function, flattened."""
    axes = (SHARE, *family.wide[1:]) if name in QUANTILES else family.wide
    return [x.ravel() for x in np.meshgrid(*(np.asarray(x, float) for x in axes))]
