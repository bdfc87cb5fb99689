"""Reductions and normalisations over the whole range of each dtype: values and derivatives against exact ones."""

from __future__ import annotations

import math
import re

import mpmath
import numpy as np
import pytest
from mpmath import fsum, log, mpf, sqrt

import xjax
from tests.accuracy.exact_vectors import (
    distinct,
    dot,
    exponents,
    halves,
    largest,
    logsumexp,
    mean,
    moderate,
    norm,
    softmax,
    terms,
    var,
)
from tests.accuracy.points import DTYPES
from tests.accuracy.row import Bound
from tests.accuracy.tally import assert_few_own_bounds
from tests.accuracy.vector_row import VectorRow, errors, over_bound
from tests.sampling import one_in
from xjax import lax, nn
from xjax import numpy as jnp
from xjax.scipy import special

LINALG = jnp.linalg


# -- exact functions of the entries ---------------------------------------------------------------------------------

def _std(*x):
    return sqrt(var(*x))


def _running(join):
    return lambda *x: [join(x[:i + 1]) for i in range(len(x))]


def _quantile(q):
    def quantile(*x):
        x, at = sorted(x), mpf(q) * (len(x) - 1)
        low = int(mpmath.floor(at))
        return x[low] if at == low else x[low] + (at - low) * (x[low + 1] - x[low])
    return quantile


def _corrcoef(*x):
    one, other = ([v - mean(*half) for v in half] for half in halves(x))
    return fsum(a * b for a, b in zip(one, other, strict=True)) / (norm(2)(*one) * norm(2)(*other))


def _matrix(*x):
    """(Frobenius norm squared, size of the determinant) of the 2 x 2 matrix of these entries."""
    return fsum(v * v for v in x), abs(x[0] * x[3] - x[1] * x[2])


def _singular_values(*x):
    squares, det = _matrix(*x)
    largest = sqrt((squares + sqrt(squares ** 2 - 4 * det ** 2)) / 2)
    return largest, det / largest


def _columns(*x):
    return [abs(x[0]) + abs(x[2]), abs(x[1]) + abs(x[3])]


def _rows(*x):
    return [abs(x[0]) + abs(x[1]), abs(x[2]) + abs(x[3])]


# -- domains ----------------------------------------------------------------------------------------------------------

def _products_in_range(*x):
    """No product of entries is near the ends of the range of float16, nor of the dtype of the vector."""
    sizes = [math.log2(abs(v)) for v in x if v]
    return sum(s for s in sizes if s > 0) < 15 and sum(s for s in sizes if s < 0) > -13


def _not_zero(*x):
    return any(x)


def _no_zero(*x):
    return all(x)


def _moderate_no_zero(*x):
    return all(x) and moderate(60)(*x)


def _regular(*x):
    """Matrices whose singular values are neither equal nor very different in size."""
    a, b, c, d = (v / (largest(*x) or 1.0) for v in x)
    return abs(a * d - b * c) > 0.01 and (a - d, b + c) != (0, 0) != (a + d, b - c)


def _sizes_differ(*x):
    return len(set(map(abs, x))) == len(x)


def _matrix_of(f):
    return lambda x: f(x.reshape(2, 2))


def _of_halves(f):
    return lambda x: f(x[:x.shape[0] // 2], x[x.shape[0] // 2:])


POWERS = {"slope": Bound(9, "a power of a rounded quotient, measured: 6")}
SIXTH_POWERS = {"slope": Bound(14, "roundings of the norm and of the quotient count six times; measured: 12.1")}
MATRIX = {"sizes": (4,)}
PAIR = {"sizes": (4, 6)}

ROWS = [
    # sums and means; a running sum in half precision rounds in each step, and the errors add up
    *[VectorRow(name, f, lambda *x: fsum(x), scale=terms)
      for name, f in (("numpy.sum", jnp.sum), ("numpy.nansum", jnp.nansum),
                      ("lax.reduce_sum", lambda x: lax.reduce_sum(x, (0,))))],
    *[VectorRow(name, f, mean, scale=terms) for name, f in (
        ("numpy.mean", jnp.mean), ("numpy.nanmean", jnp.nanmean), ("numpy.average", jnp.average))],
    VectorRow("numpy.average weights", lambda x: jnp.average(jnp.arange(1, 5).astype(x.dtype), weights=x),
              lambda *x: fsum(v * i for i, v in enumerate(x, 1)) / fsum(x), sums=True, sizes=(4,),
              domain=lambda *x: sum(x) > terms(*x) / 2 > 0 and moderate(6)(*x)),
    *[VectorRow(name, f, _running(fsum), scale=terms) for name, f in (
        ("numpy.cumsum", jnp.cumsum), ("numpy.nancumsum", jnp.nancumsum), ("numpy.cumulative_sum", jnp.cumulative_sum),
        ("lax.cumsum", lax.cumsum))],
    VectorRow("numpy.trapezoid", jnp.trapezoid, lambda *x: fsum(x) - (x[0] + x[-1]) / 2, scale=terms, sizes=(4,)),
    VectorRow("numpy.trace", _matrix_of(jnp.trace), lambda *x: x[0] + x[3], scale=terms, **MATRIX),
    # products
    *[VectorRow(name, f, lambda *x: mpmath.fprod(x), domain=_products_in_range) for name, f in (
        ("numpy.prod", jnp.prod), ("numpy.nanprod", jnp.nanprod),
        ("lax.reduce_prod", lambda x: lax.reduce_prod(x, (0,))))],
    *[VectorRow(name, f, _running(mpmath.fprod), domain=_products_in_range) for name, f in (
        ("numpy.cumprod", jnp.cumprod), ("numpy.nancumprod", jnp.nancumprod),
        ("numpy.cumulative_prod", jnp.cumulative_prod), ("lax.cumprod", lax.cumprod))],
    # moments
    *[VectorRow(name, f, var, scale=lambda *x: min(largest(*x) * largest(*x), 1e300), sums=True) for name, f in (
        ("numpy.var", jnp.var), ("numpy.nanvar", jnp.nanvar))],
    *[VectorRow(name, f, _std, scale=largest, sums=True, smooth=lambda *x: len({*x}) > 1) for name, f in (
        ("numpy.std", jnp.std), ("numpy.nanstd", jnp.nanstd))],
    VectorRow("numpy.cov", _of_halves(lambda x, y: jnp.cov(x, y)[0, 1]), lambda *x: dot(*[
        v - mean(*half) for half in halves(x) for v in half]) / (len(x) // 2 - 1),
        scale=lambda *x: largest(*x) ** 2, sums=True, domain=moderate(60), **PAIR),
    VectorRow("numpy.corrcoef", _of_halves(lambda x, y: jnp.corrcoef(x, y)[0, 1]), _corrcoef, scale=lambda *x: 1.0,
              sums=True, sizes=(6,), subtracts=True,
              domain=lambda *x: all(len({*half}) > 1 for half in halves(x)),
              smooth=lambda *x: moderate(60)(*x) and all(x) and largest(*x) < 1e4 * min(map(abs, x)),
              bounds={f"slope {dtype}": Bound(ulps, "roundings of a difference, times 14 where r is 0.997")
                      for dtype, ulps in (("float32", 56), ("float64", 24))}),
    # extrema and order statistics
    *[VectorRow(name, f, lambda *x: max(x), smooth=distinct) for name, f in (
        ("numpy.max", jnp.max), ("numpy.amax", jnp.amax), ("numpy.nanmax", jnp.nanmax),
        ("lax.reduce_max", lambda x: lax.reduce_max(x, (0,))))],
    *[VectorRow(name, f, lambda *x: min(x), smooth=distinct) for name, f in (
        ("numpy.min", jnp.min), ("numpy.amin", jnp.amin), ("numpy.nanmin", jnp.nanmin),
        ("lax.reduce_min", lambda x: lax.reduce_min(x, (0,))))],
    VectorRow("numpy.minmax", lambda x: jnp.stack(jnp.minmax(x)), lambda *x: [min(x), max(x)], smooth=distinct),
    VectorRow("lax.cummax", lax.cummax, _running(max), smooth=distinct),
    VectorRow("lax.cummin", lax.cummin, _running(min), smooth=distinct),
    VectorRow("numpy.ptp", jnp.ptp, lambda *x: max(x) - min(x), scale=largest, smooth=distinct),
    *[VectorRow(name, f, _quantile(0.5), scale=largest, smooth=distinct) for name, f in (
        ("numpy.median", jnp.median), ("numpy.nanmedian", jnp.nanmedian))],
    *[VectorRow(name, f, _quantile(0.25), scale=largest, smooth=distinct) for name, f in (
        ("numpy.quantile", lambda x: jnp.quantile(x, 0.25)), ("numpy.nanquantile", lambda x: jnp.nanquantile(x, 0.25)),
        ("numpy.percentile", lambda x: jnp.percentile(x, 25)),
        ("numpy.nanpercentile", lambda x: jnp.nanpercentile(x, 25)))],
    # products of two vectors
    *[VectorRow(f"numpy.{name}", _of_halves(f), dot, domain=moderate(60), **PAIR,
                scale=lambda *x: sum(abs(a * b) for a, b in zip(*halves(x), strict=True))) for name, f in (
        ("dot", jnp.dot), ("vdot", jnp.vdot), ("inner", jnp.inner), ("vecdot", jnp.vecdot), ("matmul", jnp.matmul),
        ("tensordot", lambda x, y: jnp.tensordot(x, y, 1)), ("einsum", lambda x, y: jnp.einsum("i,i", x, y)),
        ("linalg.vecdot", LINALG.vecdot), ("linalg.tensordot", lambda x, y: LINALG.tensordot(x, y, axes=1)))],
    # norms of vectors and matrices
    *[VectorRow(f"numpy.linalg.norm {ord}", lambda x, ord=ord: LINALG.norm(x, ord), norm(ord),
                smooth=_sizes_differ if abs(ord) == np.inf else _moderate_no_zero if ord < 2 else None,
                domain=_no_zero if ord < 0 else None,
                bounds=SIXTH_POWERS if ord == 7 else POWERS if ord in (3, -2, -3) else {})
      for ord in (1, 2, 3, 0.5, 7, -1, -2, -3, np.inf, -np.inf)],
    VectorRow("numpy.linalg.norm", LINALG.norm, norm(2)),
    VectorRow("numpy.linalg.vector_norm", LINALG.vector_norm, norm(2)),
    VectorRow("numpy.linalg.vector_norm 3", lambda x: LINALG.vector_norm(x, ord=3), norm(3), bounds=POWERS),
    VectorRow("numpy.linalg.matrix_norm", _matrix_of(LINALG.matrix_norm), norm(2), **MATRIX),
    *[VectorRow(f"numpy.linalg.norm of matrices {ord}", _matrix_of(lambda x, ord=ord: LINALG.norm(x, ord)), of,
                smooth=_sizes_differ, **MATRIX)
      for ord, of in (("fro", norm(2)), (1, lambda *x: max(_columns(*x))), (-1, lambda *x: min(_columns(*x))),
                      (np.inf, lambda *x: max(_rows(*x))), (-np.inf, lambda *x: min(_rows(*x))))],
    *[VectorRow(f"numpy.linalg.norm of matrices {ord}", _matrix_of(lambda x, ord=ord: LINALG.norm(x, ord)), of,
                sums=True, scale=largest, domain=_regular,
                bounds={f"slope {dtype}": Bound(ulps, "singular vectors of LAPACK") for dtype, ulps in (
                    ("float32", in_single), ("float64", in_double))}, **MATRIX)
      for ord, of, in_single, in_double in (
        ("nuc", lambda *x: fsum(_singular_values(*x)), 6, 5), (2, lambda *x: _singular_values(*x)[0], 14, 6.5),
        (-2, lambda *x: _singular_values(*x)[1], 14, 6.5))],
    # exponentials and their sums
    *[VectorRow(name, f, softmax, scale=lambda *x: 1.0, sums=1.0, domain=exponents) for name, f in (
        ("nn.softmax", nn.softmax), ("scipy.special.softmax", special.softmax))],
    *[VectorRow(name, f, lambda *x: [v - logsumexp(x) for v in x], scale=lambda *x: max(1.0, 2 * largest(*x)),
                sums=1.0, domain=exponents)
      for name, f in (("nn.log_softmax", nn.log_softmax), ("scipy.special.log_softmax", special.log_softmax))],
    *[VectorRow(name, f, lambda *x: logsumexp(x), scale=lambda *x: max(1.0, largest(*x)), sums=1.0, domain=exponents)
      for name, f in (("nn.logsumexp", nn.logsumexp), ("scipy.special.logsumexp", special.logsumexp))],
    VectorRow("nn.logmeanexp", nn.logmeanexp, lambda *x: logsumexp(x) - log(len(x)),
              scale=lambda *x: max(1.0, largest(*x)), sums=1.0, domain=exponents),
    VectorRow("lax.cumlogsumexp", lax.cumlogsumexp, _running(logsumexp), sums=1.0, domain=moderate(3),
              scale=lambda *x: max(1.0, largest(*x))),
    # normalisations
    VectorRow("x / sum", lambda x: x / x.sum(), lambda *x: [v / fsum(x) for v in x], sums=True, sizes=(4,),
              domain=lambda *x: abs(sum(x)) > terms(*x) / 2 > 0 and moderate(6)(*x)),
    VectorRow("x / norm", lambda x: x / LINALG.norm(x), lambda *x: [v / norm(2)(*x) for v in x], sums=True,
              # For a single entry the slope is 0, a difference of equal terms whose size the table does not contain.
              domain=lambda *x: sum(map(bool, x)) > 1 and moderate(6)(*x), sizes=(4,)),
    VectorRow("nn.standardize", lambda x: nn.standardize(x, algorithm="stable"),
              lambda *x: [(v - mean(*x)) / sqrt(var(*x) + mpf(1e-5)) for v in x], scale=lambda *x: 2.0, sums=True,
              domain=moderate(6), bounds={"slope float64": Bound(4.5, "roundings of mean, variance and root")}),
]


# Public functions that combine entries but are not reductions of this table, with the reason.
LEFT_OUT = {
    "numpy.convolve numpy.correlate numpy.polymul numpy.matvec numpy.vecmat numpy.linalg.matmul numpy.linalg.multi_dot "
    "numpy.linalg.trace lax.dot lax.dot_general lax.batch_matmul": "products as numpy.dot, sums as numpy.trace",
    "numpy.histogram numpy.histogram2d numpy.histogramdd numpy.histogram_bin_edges": "counts, which have no derivative",
    "numpy.sort numpy.sort_complex numpy.unwrap lax.sort lax.sort_key_val numpy.partition lax.top_k":
        "they move or shift entries",
    "numpy.linalg.inv numpy.linalg.pinv numpy.linalg.slogdet numpy.linalg.det":
        "decompositions: tests/numpy/test_linalg.py",
    "lax.random_gamma_grad": "elementwise",
}

_COMBINING = re.compile(r"\b(reduce_(sum|prod|max|min|and|or)|cum(sum|prod|max|min|logsumexp)|dot_general|sort|"
                        r"arg(max|min))\[")
_MODULES = {"numpy": jnp, "numpy.linalg": LINALG, "nn": nn, "scipy.special": special, "lax": lax}


def test_every_reduction_has_a_row():
    """Public functions whose programs combine entries of a vector, a matrix or two vectors to floats."""
    covered = {row.covers.split()[0] for row in ROWS} | {name for names in LEFT_OUT for name in names.split()}
    vector = np.ones(4, np.float32)
    calls = (vector,), (vector.reshape(2, 2),), (vector, vector)
    missing = []
    for prefix, module in _MODULES.items():
        for name in sorted(dir(module)):
            function = getattr(module, name)
            if name.startswith("_") or isinstance(function, type) or not callable(function):
                continue
            if f"{prefix}.{name}" in covered:
                continue
            if any(_combines(function, *args) for args in calls[:1 if module is lax else 3]):
                missing.append(f"{prefix}.{name}")
    assert not missing, "add a row, or a reason in LEFT_OUT"


def _combines(function, *args):
    try:
        program = xjax.make_jaxpr(function)(*args)
    except Exception:                                   # it has other arguments
        return False
    return any(aval.dtype.kind == "f" for aval in program.out_avals) and bool(_COMBINING.search(str(program)))


def test_few_results_have_bounds_of_their_own():
    assert_few_own_bounds(ROWS)


# The fast set has a few vectors of each dtype for every sixth row.
@pytest.mark.parametrize("row", one_in(6, ROWS, str))
def test_values_and_slopes_of_float32(row):
    assert not over_bound(row, "float32", errors(row, "float32", 6))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_values_and_slopes(row, dtype):
    assert not over_bound(row, dtype, errors(row, dtype, 16))


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_and_deviations(dtype):
    """The rows that have failed most often."""
    for row in ROWS:
        if row.covers in ("numpy.linalg.norm", "numpy.std"):
            assert not over_bound(row, dtype, errors(row, dtype, 6))
