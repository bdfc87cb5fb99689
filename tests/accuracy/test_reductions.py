"""Reductions and normalisations over the whole range of each dtype: values and derivatives beside exact ones."""

from __future__ import annotations

import math
import re

import mpmath
import numpy as np
import pytest
from mpmath import exp, fsum, log, mpf, sqrt

import xjax
from tests.accuracy.points import DTYPES
from tests.accuracy.row import Bound
from tests.accuracy.vector_row import VectorRow, errors, over_bound
from tests.sampling import one_in
from xjax import lax, nn
from xjax import numpy as jnp
from xjax.scipy import special

LINALG = jnp.linalg


# -- exact functions of the entries ---------------------------------------------------------------------------------

def _norm(ord):
    def norm(*x):
        sizes = [abs(v) for v in x]
        if ord in (np.inf, -np.inf):
            return max(sizes) if ord > 0 else min(sizes)
        total = fsum(v ** ord for v in sizes if v or ord > 0)
        return mpf(0) if not total or (ord < 0 and not all(sizes)) else total ** (mpf(1) / ord)
    return norm


def _mean(*x):
    return fsum(x) / len(x)


def _var(*x):
    return fsum((v - _mean(*x)) ** 2 for v in x) / len(x)


def _std(*x):
    return sqrt(_var(*x))


def _running(join):
    return lambda *x: [join(x[:i + 1]) for i in range(len(x))]


def _logsumexp(x):
    return max(x) + log(fsum(exp(v - max(x)) for v in x))


def _softmax(*x):
    return [exp(v - _logsumexp(x)) for v in x]


def _quantile(q):
    def quantile(*x):
        x, at = sorted(x), mpf(q) * (len(x) - 1)
        low = int(mpmath.floor(at))
        return x[low] if at == low else x[low] + (at - low) * (x[low + 1] - x[low])
    return quantile


def _halves(x):
    return x[:len(x) // 2], x[len(x) // 2:]


def _dot(*x):
    return fsum(a * b for a, b in zip(*_halves(x), strict=True))


def _corrcoef(*x):
    one, other = ([v - _mean(*half) for v in half] for half in _halves(x))
    return fsum(a * b for a, b in zip(one, other, strict=True)) / (_norm(2)(*one) * _norm(2)(*other))


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


# -- which vectors ----------------------------------------------------------------------------------------------------

def _terms(*x):
    return sum(map(abs, x))


def _largest(*x):
    return max(map(abs, x))


def _moderate(bits):
    """Entries that are 0 or in size between 2 ** -bits and 2 ** bits."""
    return lambda *x: all(not v or 2.0 ** -bits <= abs(v) <= 2.0 ** bits for v in x)


def _exponents(*x):
    """Beyond, all is 0, 1 or the largest entry."""
    return _moderate(14)(*x)


def _products_in_range(*x):
    """No product of some of the entries is near the ends of float16's range, nor of the tested vector's own."""
    sizes = [math.log2(abs(v)) for v in x if v]
    return sum(s for s in sizes if s > 0) < 15 and sum(s for s in sizes if s < 0) > -13


def _not_zero(*x):
    return any(x)


def _no_zero(*x):
    return all(x)


def _moderate_no_zero(*x):
    return all(x) and _moderate(60)(*x)


def _regular(*x):
    """Matrices whose singular values are neither equal nor of very different size."""
    a, b, c, d = (v / (_largest(*x) or 1.0) for v in x)
    return abs(a * d - b * c) > 0.01 and (a - d, b + c) != (0, 0) != (a + d, b - c)


def _distinct(*x):
    return len({*x}) == len(x)


def _sizes_differ(*x):
    return len(set(map(abs, x))) == len(x)


def _matrix_of(f):
    return lambda x: f(x.reshape(2, 2))


def _of_halves(f):
    return lambda x: f(x[:x.shape[0] // 2], x[x.shape[0] // 2:])


POWERS = {"slope": Bound(9, "a power of a rounded quotient, measured: 6")}
SIXTH_POWERS = {"slope": Bound(14, "of a quotient rounded like the norm in it, which counts six times; measured: 12.1")}
MATRIX = {"sizes": (4,)}
PAIR = {"sizes": (4, 6)}

ROWS = [
    # sums and means; a running sum in half precision rounds each step, which adds up
    *[VectorRow(name, f, lambda *x: fsum(x), scale=_terms)
      for name, f in (("numpy.sum", jnp.sum), ("numpy.nansum", jnp.nansum),
                      ("lax.reduce_sum", lambda x: lax.reduce_sum(x, (0,))))],
    *[VectorRow(name, f, _mean, scale=_terms) for name, f in (
        ("numpy.mean", jnp.mean), ("numpy.nanmean", jnp.nanmean), ("numpy.average", jnp.average))],
    VectorRow("numpy.average weights", lambda x: jnp.average(jnp.arange(1, 5).astype(x.dtype), weights=x),
              lambda *x: fsum(v * i for i, v in enumerate(x, 1)) / fsum(x), sums=True, sizes=(4,),
              domain=lambda *x: sum(x) > _terms(*x) / 2 > 0 and _moderate(6)(*x)),
    *[VectorRow(name, f, _running(fsum), scale=_terms) for name, f in (
        ("numpy.cumsum", jnp.cumsum), ("numpy.nancumsum", jnp.nancumsum), ("numpy.cumulative_sum", jnp.cumulative_sum),
        ("lax.cumsum", lax.cumsum))],
    VectorRow("numpy.trapezoid", jnp.trapezoid, lambda *x: fsum(x) - (x[0] + x[-1]) / 2, scale=_terms, sizes=(4,)),
    VectorRow("numpy.trace", _matrix_of(jnp.trace), lambda *x: x[0] + x[3], scale=_terms, **MATRIX),
    # products
    *[VectorRow(name, f, lambda *x: mpmath.fprod(x), domain=_products_in_range) for name, f in (
        ("numpy.prod", jnp.prod), ("numpy.nanprod", jnp.nanprod),
        ("lax.reduce_prod", lambda x: lax.reduce_prod(x, (0,))))],
    *[VectorRow(name, f, _running(mpmath.fprod), domain=_products_in_range) for name, f in (
        ("numpy.cumprod", jnp.cumprod), ("numpy.nancumprod", jnp.nancumprod),
        ("numpy.cumulative_prod", jnp.cumulative_prod), ("lax.cumprod", lax.cumprod))],
    # moments
    *[VectorRow(name, f, _var, scale=lambda *x: min(_largest(*x) * _largest(*x), 1e300), sums=True) for name, f in (
        ("numpy.var", jnp.var), ("numpy.nanvar", jnp.nanvar))],
    *[VectorRow(name, f, _std, scale=_largest, sums=True, smooth=lambda *x: len({*x}) > 1) for name, f in (
        ("numpy.std", jnp.std), ("numpy.nanstd", jnp.nanstd))],
    VectorRow("numpy.cov", _of_halves(lambda x, y: jnp.cov(x, y)[0, 1]), lambda *x: _dot(*[
        v - _mean(*half) for half in _halves(x) for v in half]) / (len(x) // 2 - 1),
        scale=lambda *x: _largest(*x) ** 2, sums=True, domain=_moderate(60), **PAIR),
    VectorRow("numpy.corrcoef", _of_halves(lambda x, y: jnp.corrcoef(x, y)[0, 1]), _corrcoef, scale=lambda *x: 1.0,
              sums=True, sizes=(6,), subtracts=True,
              domain=lambda *x: all(len({*half}) > 1 for half in _halves(x)),
              smooth=lambda *x: _moderate(60)(*x) and all(x) and _largest(*x) < 1e4 * min(map(abs, x)),
              bounds={"slope": Bound(40, "small differences where the correlation is near 1 or -1, measured: 38")}),
    # extrema and order statistics
    *[VectorRow(name, f, lambda *x: max(x), smooth=_distinct) for name, f in (
        ("numpy.max", jnp.max), ("numpy.amax", jnp.amax), ("numpy.nanmax", jnp.nanmax),
        ("lax.reduce_max", lambda x: lax.reduce_max(x, (0,))))],
    *[VectorRow(name, f, lambda *x: min(x), smooth=_distinct) for name, f in (
        ("numpy.min", jnp.min), ("numpy.amin", jnp.amin), ("numpy.nanmin", jnp.nanmin),
        ("lax.reduce_min", lambda x: lax.reduce_min(x, (0,))))],
    VectorRow("numpy.minmax", lambda x: jnp.stack(jnp.minmax(x)), lambda *x: [min(x), max(x)], smooth=_distinct),
    VectorRow("lax.cummax", lax.cummax, _running(max), smooth=_distinct),
    VectorRow("lax.cummin", lax.cummin, _running(min), smooth=_distinct),
    VectorRow("numpy.ptp", jnp.ptp, lambda *x: max(x) - min(x), scale=_largest, smooth=_distinct),
    *[VectorRow(name, f, _quantile(0.5), scale=_largest, smooth=_distinct) for name, f in (
        ("numpy.median", jnp.median), ("numpy.nanmedian", jnp.nanmedian))],
    *[VectorRow(name, f, _quantile(0.25), scale=_largest, smooth=_distinct) for name, f in (
        ("numpy.quantile", lambda x: jnp.quantile(x, 0.25)), ("numpy.nanquantile", lambda x: jnp.nanquantile(x, 0.25)),
        ("numpy.percentile", lambda x: jnp.percentile(x, 25)),
        ("numpy.nanpercentile", lambda x: jnp.nanpercentile(x, 25)))],
    # products of two vectors
    *[VectorRow(f"numpy.{name}", _of_halves(f), _dot, domain=_moderate(60), **PAIR,
                scale=lambda *x: sum(abs(a * b) for a, b in zip(*_halves(x), strict=True))) for name, f in (
        ("dot", jnp.dot), ("vdot", jnp.vdot), ("inner", jnp.inner), ("vecdot", jnp.vecdot), ("matmul", jnp.matmul),
        ("tensordot", lambda x, y: jnp.tensordot(x, y, 1)), ("einsum", lambda x, y: jnp.einsum("i,i", x, y)),
        ("linalg.vecdot", LINALG.vecdot), ("linalg.tensordot", lambda x, y: LINALG.tensordot(x, y, axes=1)))],
    # norms of vectors and matrices
    *[VectorRow(f"numpy.linalg.norm {ord}", lambda x, ord=ord: LINALG.norm(x, ord), _norm(ord),
                smooth=_sizes_differ if abs(ord) == np.inf else _moderate_no_zero if ord < 2 else None,
                domain=_no_zero if ord < 0 else None,
                bounds=SIXTH_POWERS if ord == 7 else POWERS if ord in (3, -2, -3) else {})
      for ord in (1, 2, 3, 0.5, 7, -1, -2, -3, np.inf, -np.inf)],
    VectorRow("numpy.linalg.norm", LINALG.norm, _norm(2)),
    VectorRow("numpy.linalg.vector_norm", LINALG.vector_norm, _norm(2)),
    VectorRow("numpy.linalg.vector_norm 3", lambda x: LINALG.vector_norm(x, ord=3), _norm(3), bounds=POWERS),
    VectorRow("numpy.linalg.matrix_norm", _matrix_of(LINALG.matrix_norm), _norm(2), **MATRIX),
    *[VectorRow(f"numpy.linalg.norm of matrices {ord}", _matrix_of(lambda x, ord=ord: LINALG.norm(x, ord)), of,
                smooth=_sizes_differ, **MATRIX)
      for ord, of in (("fro", _norm(2)), (1, lambda *x: max(_columns(*x))), (-1, lambda *x: min(_columns(*x))),
                      (np.inf, lambda *x: max(_rows(*x))), (-np.inf, lambda *x: min(_rows(*x))))],
    *[VectorRow(f"numpy.linalg.norm of matrices {ord}", _matrix_of(lambda x, ord=ord: LINALG.norm(x, ord)), of,
                sums=True, scale=_largest, domain=_regular,
                bounds={"slope": Bound(16, "singular vectors of LAPACK, measured: 8")}, **MATRIX) for ord, of in (
        ("nuc", lambda *x: fsum(_singular_values(*x))), (2, lambda *x: _singular_values(*x)[0]),
        (-2, lambda *x: _singular_values(*x)[1]))],
    # exponentials and their sums
    *[VectorRow(name, f, _softmax, scale=lambda *x: 1.0, sums=1.0, domain=_exponents) for name, f in (
        ("nn.softmax", nn.softmax), ("scipy.special.softmax", special.softmax))],
    *[VectorRow(name, f, lambda *x: [v - _logsumexp(x) for v in x], scale=lambda *x: max(1.0, 2 * _largest(*x)),
                sums=1.0, domain=_exponents)
      for name, f in (("nn.log_softmax", nn.log_softmax), ("scipy.special.log_softmax", special.log_softmax))],
    *[VectorRow(name, f, lambda *x: _logsumexp(x), scale=lambda *x: max(1.0, _largest(*x)), sums=1.0, domain=_exponents)
      for name, f in (("nn.logsumexp", nn.logsumexp), ("scipy.special.logsumexp", special.logsumexp))],
    VectorRow("nn.logmeanexp", nn.logmeanexp, lambda *x: _logsumexp(x) - log(len(x)),
              scale=lambda *x: max(1.0, _largest(*x)), sums=1.0, domain=_exponents),
    VectorRow("lax.cumlogsumexp", lax.cumlogsumexp, _running(_logsumexp), sums=1.0, domain=_moderate(3),
              scale=lambda *x: max(1.0, _largest(*x)),
              bounds={"slope": Bound(16, "exponentials of running values, which are rounded; measured: 8")}),
    # normalisations
    VectorRow("x / sum", lambda x: x / x.sum(), lambda *x: [v / fsum(x) for v in x], sums=True, sizes=(4,),
              domain=lambda *x: abs(sum(x)) > _terms(*x) / 2 > 0 and _moderate(6)(*x)),
    VectorRow("x / norm", lambda x: x / LINALG.norm(x), lambda *x: [v / _norm(2)(*x) for v in x], sums=True,
              # Of one entry alone the slope is 0, a difference of equal terms whose size the table does not know.
              domain=lambda *x: sum(map(bool, x)) > 1 and _moderate(6)(*x), sizes=(4,)),
    VectorRow("nn.standardize", lambda x: nn.standardize(x, algorithm="stable"),
              lambda *x: [(v - _mean(*x)) / sqrt(_var(*x) + mpf(1e-5)) for v in x], scale=lambda *x: 2.0, sums=True,
              domain=_moderate(6), bounds={"slope float64": Bound(5, "roundings of mean, variance and root")}),
]


# Public functions that combine entries, but are no reductions of this table: why.
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
    """Public functions whose programs, for a vector, a matrix or two vectors, combine entries to floats."""
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
    assert not missing, "give them a row, or a reason in LEFT_OUT"


def _combines(function, *args):
    try:
        program = xjax.make_jaxpr(function)(*args)
    except Exception:                                   # it takes other arguments
        return False
    return any(aval.dtype.kind == "f" for aval in program.out_avals) and bool(_COMBINING.search(str(program)))


def test_few_rows_have_bounds_of_their_own():
    assert len([row for row in ROWS if row.bounds]) <= len(ROWS) / 7


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
    """The rows that were wrong most often."""
    for row in ROWS:
        if row.covers in ("numpy.linalg.norm", "numpy.std"):
            assert not over_bound(row, dtype, errors(row, dtype, 6))
