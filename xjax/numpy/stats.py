"""Statistics: averages, quantiles, differences, histograms, covariance, convolution, interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import name_function
from xjax.core.dtypes import accumulator_dtype
from xjax.core.errors import ConcretizationTypeError, bad, did_you_mean
from xjax.core.trace import Tracer
from xjax.core.types import number_of
from xjax.lax.cond import cond
from xjax.numpy.composed import conjugate, remainder
from xjax.numpy.contract import dot, matmul
from xjax.numpy.creation import array, asarray, linspace, zeros
from xjax.numpy.joining import concatenate
from xjax.numpy.lengths import all_near_one, root_of_squares
from xjax.numpy.manipulate import atleast_2d, moveaxis, ravel, reshape, take_slices
from xjax.numpy.promote import (
    as_dtype,
    broadcast_to,
    cast,
    default_int,
    expand_to,
    library_rules,
    promote,
    promote_inexact,
)
from xjax.numpy.reductions import max as amax
from xjax.numpy.reductions import mean
from xjax.numpy.reductions import min as amin
from xjax.numpy.reductions import sum as total
from xjax.numpy.rounding import isnan
from xjax.numpy.searching import searchsorted
from xjax.numpy.selection import choose, clip, refuse_complex, refuse_out
from xjax.numpy.ufuncs import add as plus
from xjax.numpy.ufuncs import multiply, subtract, to_array_like, true_divide
from xjax.ops.arrange import iota, rev
from xjax.ops.bitwise import bitwise_not
from xjax.ops.checks import canonical_axes, canonical_axis, static_int
from xjax.ops.compare import clamp, eq, gt, le, lt
from xjax.ops.convert import convert_element_type, reduce_precision
from xjax.ops.cumulative import cumsum
from xjax.ops.elementwise import add, ceil, div, floor, mul, sub
from xjax.ops.elementwise import round as lax_round
from xjax.ops.identity import stop_gradient
from xjax.ops.index_numbers import ScatterDimensionNumbers
from xjax.ops.makers import filled_like, scalar_like
from xjax.ops.piecewise import abs as lax_abs
from xjax.ops.piecewise import max as lax_max
from xjax.ops.piecewise import min as lax_min
from xjax.ops.scatter import scatter_add
from xjax.ops.shape import broadcast_in_dim, expand_dims, transpose
from xjax.ops.slice import index_in_dim, slice_in_dim
from xjax.ops.slice import pad as lax_pad
from xjax.ops.sort import sort as lax_sort
from xjax.ops.sort import sort_key_val
from xjax.ops.transcendental import sqrt
from xjax.runtime.one_launch import one_launch

# -- averages -----------------------------------------------------------------------------------------------------

@one_launch
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False) -> Any:
    """Weighted mean over `axis` (default: all axes).

    Args: weights: of the shape of `a`, or of that of the axes in `axis`, in their order; returned: whether to give
      (mean, sum of weights).
    Raises: ValueError if the weights do not fit.
    """
    where = "numpy.average"
    a = to_array_like(where, a)
    if weights is None:
        out = mean(a, axis, keepdims=keepdims)
        count = a.size // max(1, out.size) if a.size else 0
        return (out, broadcast_to(cast(where, count, out.dtype), out.shape)) if returned else out
    a, weights = (to_array_like(where, x) for x in promote_inexact(where, a, weights))
    if weights.shape != a.shape:
        weights = _weights_along(where, weights, a, axis)
    scale = total(weights, axis, keepdims=keepdims)
    out = div(total(mul(a, weights), axis, keepdims=keepdims), scale)
    return (out, scale) if returned else out


def _weights_along(where: str, weights: Any, a: Any, axis: Any) -> Any:
    """Weights whose axis k is along axis `axis[k]` of `a`, in the shape of `a`."""
    axes = () if axis is None else canonical_axes(axis, a.ndim, where)
    if axis is None or weights.shape != tuple(a.shape[d] for d in axes):
        raise bad(where, "the weights have neither the shape of `a` nor that of its averaged axes",
                  given={"a": a.aval, "weights": weights.aval, "axis": axis},
                  fix="pass `axis`, and weights of the sizes of these axes in this order.", exc=ValueError)
    order = sorted(range(len(axes)), key=axes.__getitem__)
    return broadcast_in_dim(transpose(weights, order), a.shape, sorted(axes))


# -- quantiles ----------------------------------------------------------------------------------------------------

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _quantile(name: str, scale: float, ignore_nan: bool, doc: str) -> Callable:
    where = f"numpy.{name}"

    @one_launch(arrays=2)
    def quantile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
                 method: str = "linear", keepdims: bool = False, *, weights: Any = None) -> Any:
        refuse_out(where, out)
        if method not in _METHODS:
            raise bad(where, f"unknown method {method!r}", given={"methods": ", ".join(_METHODS)},
                      fix=did_you_mean(method, _METHODS) or "pass one of the methods.", exc=ValueError)
        if weights is None:
            a, = (to_array_like(where, x) for x in promote_inexact(where, a))
        else:
            a, weights = (to_array_like(where, x) for x in promote_inexact(where, a, weights))
        q = _places(where, q)
        refuse_complex(where, a, q, exc=ValueError)
        q = div(q, scalar_like(q, scale)) if scale != 1 else q
        axes = tuple(sorted(canonical_axes(axis, a.ndim, where)))
        if weights is not None:
            weights = _weights(where, weights, a, axes, method)
        found = _quantiles(a, q, axes, method, ignore_nan, weights)
        if not keepdims:
            return found
        return expand_dims(found, tuple(q.ndim + d for d in axes or (0,)))     # of a number [1], as in JAX

    name_function(quantile, name)
    quantile.__doc__ = f"""{doc} over `axis` (default: all axes).

    Args: q: real[...], whose axes come first in the result;  method: what to do between two elements: "linear",
      "lower", "higher", "midpoint" or "nearest"; or "inverted_cdf": the first element at which the share of those up
      to it, counted with `weights`, reaches q;  weights: only with that method: of the shape of `a`, or of its `axis`.
    """
    return quantile


def _places(where: str, q: Any) -> Any:
    """`q` in a float dtype of its own, in which positions among many elements are exact: not one of 16 bits."""
    q = to_array_like(where, promote_inexact(where, q)[0])
    return convert_element_type(q, np.float32) if dtypes.itemsize_bits(q.dtype) < 32 else q


def _weights(where: str, weights: Any, a: Any, axes: tuple[int, ...], method: str) -> Any:
    """Weights of the shape of `a`; a negative one becomes NaN, as will the result."""
    refuse_complex(where, weights, exc=ValueError)
    if method != "inverted_cdf":
        raise bad(where, f"the method {method!r} takes no weights", fix="pass method='inverted_cdf'.",
                  exc=NotImplementedError)
    if weights.shape not in (a.shape, tuple(a.shape[d] for d in axes)):
        raise bad(where, "the weights must have the shape of `a`, or of the axes that are reduced",
                  given={"a": a.aval, "weights": weights.aval, "axis": str(axes)}, fix="broadcast them.",
                  exc=ValueError)
    weights = choose(lt(weights, number_of(a.dtype, 0)), number_of(a.dtype, math.nan), weights)
    return weights if weights.shape == a.shape else broadcast_in_dim(weights, a.shape, axes)


def _quantiles(a: Any, q: Any, axes: tuple[int, ...], method: str, ignore_nan: bool, weights: Any) -> Any:
    """float q[...] and a[...] to [*q.shape, *(shape of a without axes)], in the dtype of a."""
    kept = tuple(n for d, n in enumerate(a.shape) if d not in axes)
    rows, n = math.prod(kept), math.prod(a.shape[d] for d in axes)

    def as_rows(x: Any) -> Any:
        return reshape(moveaxis(x, axes, range(a.ndim - len(axes), a.ndim)), (rows, n))

    if weights is None:
        x, weights = lax_sort(as_rows(a), 1), filled_like(as_rows(a), 1)
    else:
        x, weights = sort_key_val(as_rows(a), as_rows(weights), 1)
    real = q.dtype.type
    valid = total(bitwise_not(isnan(x)), 1, dtype=q.dtype, keepdims=True)               # [rows, 1]
    last = sub(valid if ignore_nan else broadcast_in_dim(real(n), (rows, 1), ()), real(1))
    position = mul(reshape(q, (1, q.size)), last)                                       # [rows, q]
    low, high = floor(position), ceil(position)
    weight = convert_element_type(sub(position, low), a.dtype)
    if method == "nearest":
        low = high = lax_round(position, 1)
    limits = real(0), broadcast_in_dim(lax_max(last, real(0)), position.shape, (0, 1))
    below, above = (_elements(x, convert_element_type(lax_min(lax_max(i, limits[0]), limits[1]), np.int32))
                    for i in (low, high))
    def inverted_cdf() -> Any:
        counted = cumsum(choose(isnan(x), mul(weights, number_of(a.dtype, 0)), weights), 1)
        whole = index_in_dim(counted, n - 1, 1)
        target = mul(convert_element_type(reshape(q, (1, q.size)), a.dtype), whole)
        short = lt(expand_dims(counted, (1,)), expand_dims(target, (2,)))               # [rows, q, n]
        first = total(convert_element_type(short, q.dtype), 2)
        found = _elements(x, convert_element_type(lax_min(first, limits[1]), np.int32))
        return choose(isnan(whole), number_of(a.dtype, math.nan), found)

    out = {"inverted_cdf": inverted_cdf,
           "linear": lambda: add(mul(below, sub(number_of(a.dtype, 1), weight)), mul(above, weight)),
           "lower": lambda: below, "higher": lambda: above, "nearest": lambda: below,
           "midpoint": lambda: mul(add(below, above), number_of(a.dtype, 0.5))}[method]()
    undefined = le(valid, real(0)) if ignore_nan else lt(valid, real(n))
    out = choose(undefined, number_of(a.dtype, math.nan), out)
    return reshape(moveaxis(out, 1, 0), (*q.shape, *kept))


def _elements(x: Any, index: Any) -> Any:
    """x[r, index[r, k]] for each row r."""
    rows, n = x.shape
    start = mul(broadcast_in_dim(iota(np.int32, rows), index.shape, (0,)), np.int32(n))
    return reshape(take_slices(reshape(x, (rows * n,)), reshape(add(start, index), (index.size,)), 0), index.shape)


quantile = _quantile("quantile", 1, False, "Quantiles (q from 0 to 1)")
percentile = _quantile("percentile", 100, False, "Percentiles (q from 0 to 100)")
nanquantile = _quantile("nanquantile", 1, True, "Quantiles (q from 0 to 1) of the elements that are not nan")
nanpercentile = _quantile("nanpercentile", 100, True, "Percentiles (q from 0 to 100) of the elements that are not nan")


def median(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False) -> Any:
    """Median over `axis` (default: all axes): of an even number of elements the mean of the middle two."""
    return quantile(a, 0.5, axis, out, keepdims=keepdims, method="midpoint")


def nanmedian(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Any:
    """Median of the elements that are not nan; nan where there is none."""
    return nanquantile(a, 0.5, axis, out, keepdims=keepdims, method="midpoint")


# -- differences and integrals ------------------------------------------------------------------------------------

@one_launch
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis, n times; of bool, whether they differ."""
    where = "numpy.diff"
    a, n = to_array_like(where, a), static_int(n, "n", where)
    if n < 0:
        raise bad(where, "`n` must not be negative", given={"n": n}, fix="pass n >= 0.", exc=ValueError)
    if not a.ndim:
        raise bad(where, "a 0-d array has no neighbours", given={"a": a.aval}, fix="pass a vector.", exc=ValueError)
    axis = canonical_axis(axis, a.ndim, where)
    parts = []
    for x in (prepend, a, append):
        if x is not None:
            x = to_array_like(where, x)
            one_slice = [1 if d == axis else m for d, m in enumerate(a.shape)]
            parts.append(x if x.ndim else broadcast_in_dim(x, one_slice, ()))
    a = concatenate(parts, axis) if len(parts) > 1 else a
    for _ in range(n):
        after, before = _neighbours(a, axis)
        a = bitwise_not(eq(after, before)) if dtypes.is_bool(a.dtype) else sub(after, before)
    return a


def _neighbours(a: Any, axis: int) -> tuple[Any, Any]:
    """All elements along an axis but the first, and all but the last."""
    size = a.shape[axis]
    return slice_in_dim(a, min(1, size), size, axis=axis), slice_in_dim(a, 0, max(size - 1, 0), axis=axis)


@one_launch
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours in the flattened array, with further elements before and after."""
    ary = ravel(ary)
    parts = [None if x is None else ravel(asarray(x, ary.dtype)) for x in (to_begin, to_end)]
    return concatenate([x for x in (parts[0], diff(ary), parts[1]) if x is not None])


@one_launch(arrays=2)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integral of samples by the trapezoidal rule.

    Args: y: number[..., n, ...]; x: where the samples lie (a vector, or of the shape of y); dx: else their distance, or
      an array of distances that broadcasts against y with n - 1 along the axis.
    """
    where = "numpy.trapezoid"
    y, = promote_inexact(where, y) if x is None else promote_inexact(where, y, x)[:1]
    y, dx = to_array_like(where, y), to_array_like(where, dx)
    if dx.ndim:
        dx = moveaxis(expand_dims(dx, tuple(range(y.ndim - dx.ndim))), axis, -1)
    y = moveaxis(y, axis, -1)
    size = y.shape[-1]
    if x is None and not dx.ndim and size > 1:
        # One pass over the samples; all of them less half the ends would be one too, but inf - inf at an infinite end.
        first, last = (index_in_dim(y, i, axis=y.ndim - 1, keepdims=False) for i in (0, -1))
        ends = multiply(true_divide(plus(first, last), 2), dx)
        return plus(ends, multiply(total(slice_in_dim(y, 1, size - 1, axis=y.ndim - 1), -1), dx))
    after, before = _neighbours(y, y.ndim - 1)
    if x is not None:
        x = cast(where, asarray(x), y.dtype)
        dx = expand_dims(diff(x), range(y.ndim - 1)) if x.ndim == 1 else moveaxis(diff(x, axis=axis), axis, -1)
    area = total(multiply(dx, add(after, before)), -1)
    return mul(area, scalar_like(area, 0.5))


@one_launch(arrays=5)
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """Piecewise linear function through the points (xp, fp), evaluated at `x`.

    Args: xp: real[n], increasing (with `period`, in any order); fp: number[n]; left, right: values outside (default:
      those at the ends), or "extrapolate": the outermost pieces go on; period: of x, if the function is periodic, in
      which case nothing is outside.
    """
    where = "numpy.interp"
    for name, side in (("left", left), ("right", right)):
        if isinstance(side, str) and side != "extrapolate":
            raise bad(where, f"`{name}` is {side!r}", fix="pass a number or 'extrapolate'.", exc=ValueError)
    x, xp = (to_array_like(where, v) for v in promote_inexact(where, x, xp))
    fp = to_array_like(where, library_rules(promote_inexact)(where, fp, xp)[0])
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise bad(where, "`xp` and `fp` must be vectors of one size, at least 1", given={"xp": xp.aval, "fp": fp.aval},
                  fix="pass the points as two vectors.", exc=ValueError)
    if period is not None:
        left = right = "extrapolate"
        x, xp, fp = _around_period(x, xp, fp, cast(where, period, xp.dtype))
    n = xp.size
    flat = ravel(x)
    i = clamp(np.int32(min(1, n - 1)), convert_element_type(searchsorted(xp, flat, "right"), np.int32), np.int32(n - 1))
    before = lax_max(sub(i, np.int32(1)), np.int32(0))
    x0, x1, f0, f1 = (take_slices(v, k, 0) for v in (xp, fp) for k in (before, i))
    width = sub(x1, x0)
    flat_piece = le(lax_abs(width), number_of(width.dtype, np.spacing(dtypes.finfo(width.dtype).eps)))
    slope = div(sub(flat, x0), choose(flat_piece, scalar_like(width, 1), width))
    out = choose(flat_piece, f0, add(f0, multiply(slope, sub(f1, f0))))
    ends = [index_in_dim(v, k, 0, keepdims=False) for v in (xp, fp) for k in (0, n - 1)]
    if not isinstance(left, str):
        out = choose(lt(flat, ends[0]), ends[2] if left is None else cast(where, left, fp.dtype), out)
    if not isinstance(right, str):
        out = choose(gt(flat, ends[1]), ends[3] if right is None else cast(where, right, fp.dtype), out)
    return reshape(out, x.shape)


def _around_period(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Arguments of `interp` in one period; the points are sorted, with a further one on either side."""
    n = xp.size
    x, xp = remainder(x, period), remainder(xp, period)
    xp, fp = lax_sort((xp, fp), 0, True, 1)
    first, last = [slice_in_dim(v, 0, 1) for v in (xp, fp)], [slice_in_dim(v, n - 1, n) for v in (xp, fp)]
    xp = concatenate([subtract(last[0], period), xp, plus(first[0], period)])
    return x, xp, concatenate([last[1], fp, first[1]])


# -- counting -----------------------------------------------------------------------------------------------------

@one_launch
def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
    """How often each of 0, 1, ... occurs in an integer vector, or the sum of the weights of its occurrences.

    Args: x: int[n]; negative numbers count as 0. length: of the result, needed under jit; larger numbers are left out.
    Raises: ConcretizationTypeError for a traced `x` without `length`.
    """
    where = "numpy.bincount"
    x = to_array_like(where, x)
    if not dtypes.is_int(x.dtype) and not dtypes.is_bool(x.dtype) or x.ndim != 1:
        raise bad(where, "takes an integer vector", given={"x": x.aval}, fix="convert with x.ravel().astype(int).")
    minlength = static_int(minlength, "minlength", where)
    if length is None:
        if isinstance(x, Tracer):
            raise bad(where, "the size of the result depends on traced values", given={"x": x.aval},
                      fix="pass length=n.", exc=ConcretizationTypeError)
        length = max(minlength, int(np.asarray(x).max()) + 1 if x.size else 0)
    counts = np.ones((), default_int())[()] if weights is None else to_array_like(where, weights)
    return _add_at(length, convert_element_type(x, np.int32), counts)


def _add_at(length: int, index: Any, values: Any) -> Any:
    """Sums of values[i] over the i with index[i] = k, for each k below `length`; larger indices are dropped."""
    index = lax_max(index, np.int32(0))
    values = convert_element_type(expand_to("numpy.bincount", values, index.shape), dtypes.explicit_dtype(values.dtype))
    numbers = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    return scatter_add(zeros((length,), values.dtype), expand_dims(index, (1,)), values, numbers)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """Edges of the bins of `histogram`."""
    where = "numpy.histogram_bin_edges"
    if isinstance(bins, str):
        raise bad(where, "bins chosen by a rule are not supported", given={"bins": bins}, fix="pass their number.",
                  exc=NotImplementedError)
    a = ravel(to_array_like(where, a))
    dtype = dtypes.explicit_dtype(dtypes.to_inexact_dtype(a.dtype))
    if np.ndim(bins):
        return asarray(bins, dtype)
    low, high = (amin(a), amax(a)) if range is None and a.size else ((0, 1) if range is None else range)
    low, high = asarray(low, dtype), asarray(high, dtype)
    same = eq(low, high)                                # one value only: bins of total width 1 around it
    half = number_of(dtype, 0.5)
    return linspace(choose(same, sub(low, half), low), choose(same, add(high, half), high),
                    static_int(bins, "bins", where) + 1, dtype=dtype)


def histogram(a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool | None = None) -> Any:
    """(counts, edges): how many elements fall into each bin; the last bin includes its right end.

    Args: bins: their number, or their edges; range: (lowest, highest) edge; weights: of the elements;
      density: whether to scale so that the integral is 1.
    """
    where = "numpy.histogram"
    if weights is None:
        a, = promote_inexact(where, a)
        weights = np.ones((), dtypes.explicit_dtype(a.dtype))[()]
    else:
        a, weights = promote_inexact(where, a, weights)
        weights = ravel(to_array_like(where, weights))
    a = ravel(to_array_like(where, a))
    edges = histogram_bin_edges(a, bins, range)
    values, edges_ = promote(where, a, edges)
    n = edges_.shape[0]
    index = convert_element_type(searchsorted(edges_, values, "right"), np.int32)
    last = index_in_dim(edges_, n - 1, 0, keepdims=False)
    index = choose(eq(values, last), np.int32(n - 1), index)
    counts = slice_in_dim(_add_at(n, index, weights), 1, n)
    if density:
        widths = diff(edges)
        counts = div(div(counts, cast(where, widths, counts.dtype)), total(counts))
    return counts, edges


# -- covariance ---------------------------------------------------------------------------------------------------

def _variables(where: str, m: Any, y: Any, rowvar: bool, dtype: Any) -> Any:
    """The variables in the rows of one matrix."""
    if dtype is not None:
        dtype = as_dtype(dtype, where)
        m, y = (None if v is None else cast(where, to_array_like(where, v), dtype) for v in (m, y))
    xs = [atleast_2d(to_array_like(where, x)) for x in promote_inexact(where, *(v for v in (m, y) if v is not None))]
    if any(x.ndim > 2 for x in xs):
        raise bad(where, "takes vectors and matrices", given={f"argument {i}": x.aval for i, x in enumerate(xs)},
                  fix="reshape to (variables, observations).", exc=ValueError)
    xs = [x if rowvar or np.ndim(v) < 2 else moveaxis(x, 0, 1) for x, v in zip(xs, (m, y), strict=False)]
    return concatenate(xs, 0) if len(xs) > 1 else xs[0]


@one_launch
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
        aweights: Any = None, dtype: Any = None) -> Any:
    """Covariance matrix of variables, which are the rows of `m` (columns with ``rowvar=False``), and those of `y`.

    Args: bias, ddof: the divisor is n - ddof, by default n - 1 (n with `bias`); fweights: how often each observation
      counts; aweights: how much; dtype: of the computation and the result.
    """
    where = "numpy.cov"
    x = _variables(where, m, y, rowvar, dtype)
    result, x = x.dtype, x.astype(accumulator_dtype(x.dtype))
    ddof = (0 if bias else 1) if ddof is None else ddof
    w = None
    for weights in (fweights, aweights):
        if weights is not None:
            weights = cast(where, to_array_like(where, weights), dtypes.finfo(x.dtype).dtype)
            w = weights if w is None else mul(w, weights)
    if w is None:
        count, center = number_of(x.dtype, x.shape[1]), mean(x, 1, keepdims=True)
        divisor = count - number_of(x.dtype, ddof)
    else:
        count = total(w)
        center = expand_dims(true_divide(matmul(x, w), count), (1,))
        scale = total(mul(w, cast(where, to_array_like(where, aweights), w.dtype))) if aweights is not None else None
        divisor = sub(count, mul(scale_of(ddof, w), div(scale, count)) if scale is not None else scale_of(ddof, w))
    x = sub(x, center)
    weighted = x if w is None else multiply(x, expand_dims(w, (0,)))
    out = true_divide(dot(weighted, conjugate(moveaxis(x, 0, 1))), divisor).astype(result)
    return reshape(out, ()) if out.size == 1 else out


def scale_of(value: float, like: Any) -> Any:
    return number_of(like.dtype, value)


@one_launch
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Any:
    """Correlation coefficients of variables, laid out as for `cov`; of variables of any size."""
    x = _variables("numpy.corrcoef", x, y, rowvar, dtype)
    result, x = x.dtype, x.astype(accumulator_dtype(x.dtype))
    x = sub(x, mean(x, 1, keepdims=True))
    products, squares = _products(x)

    def scaled(x: Any, products: Any, squares: Any) -> Any:
        """Of variables that are divided by a power of two near their deviation, which their correlations do not see."""
        length = stop_gradient(root_of_squares(x, (1,), flat_at_zero=False))
        info = dtypes.finfo(length.dtype)
        unit = reduce_precision(clip(length, info.smallest_normal * 8, info.max / 8), info.nexp, 0)
        return _correlations(None, *_products(true_divide(x, expand_dims(unit, (1,)).astype(x.dtype))))

    out = cond(all_near_one(squares, 60), _correlations, scaled, x, products, squares).astype(result)
    return reshape(out, ()) if out.size == 1 else out


def _products(x: Any) -> tuple[Any, Any]:
    """The products of the rows of `x`, and of each row with itself."""
    n = x.shape[0]
    products = dot(x, conjugate(moveaxis(x, 0, 1)))
    return products, take_slices(reshape(products, (n * n,)), asarray(np.arange(n, dtype=np.int32) * (n + 1)), 0).real


def _correlations(x: Any, products: Any, squares: Any) -> Any:
    root = sqrt(squares).astype(products.dtype)
    return true_divide(true_divide(products, expand_dims(root, (1,))), expand_dims(root, (0,)))


# -- convolution --------------------------------------------------------------------------------------------------

def _sliding(name: str, flip: bool, doc: str) -> Callable:
    where = f"numpy.{name}"

    @one_launch(arrays=2)
    def sliding(a: Any, v: Any, mode: str = "full" if flip else "valid", *, precision: Any = None,
                preferred_element_type: Any = None) -> Any:
        if mode not in ("full", "same", "valid"):
            raise bad(where, f"unknown mode {mode!r}", fix="pass 'full', 'same' or 'valid'.", exc=ValueError)
        a, v = (to_array_like(where, x) for x in promote_inexact(where, a, v))
        if a.ndim != 1 or v.ndim != 1 or not a.size or not v.size:
            raise bad(where, "takes two vectors that are not empty", given={"a": a.aval, "v": v.aval},
                      fix="use ravel().", exc=ValueError)
        if flip:
            a, v = (a, v) if a.size >= v.size else (v, a)
            return _slide(a, rev(v, (0,)), mode, precision, preferred_element_type)
        if a.size >= v.size:
            return _slide(a, conjugate(v), mode, precision, preferred_element_type)
        # The correlation of the longer with the shorter, from its end: so "same" keeps the part that NumPy keeps.
        return rev(conjugate(_slide(v, conjugate(a), mode, precision, preferred_element_type)), (0,))

    name_function(sliding, name)
    sliding.__doc__ = f"{doc} `mode`: \"full\", \"same\" or \"valid\" (only where they overlap wholly)."
    return sliding


def _slide(a: Any, kernel: Any, mode: str, precision: Any, preferred_element_type: Any) -> Any:
    """Sums of products of `kernel` with each window of `a`, the longer of the two."""
    n, m = a.size, kernel.size
    before, after = {"full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2), "valid": (0, 0)}[mode]
    padded = lax_pad(a, scalar_like(a, 0), [(before, after, 0)])
    size = n + before + after - m + 1
    index = (np.arange(size)[:, None] + np.arange(m)[None, :]).astype(np.int32)
    windows = reshape(take_slices(padded, array(index.ravel()), 0), (size, m))
    return matmul(windows, kernel, precision=precision, preferred_element_type=preferred_element_type)


convolve = _sliding("convolve", True, "Convolution of two vectors.")
correlate = _sliding("correlate", False, "Correlation of two vectors, the second one conjugated.")

__all__ = ["average", "bincount", "convolve", "corrcoef", "correlate", "cov", "diff", "ediff1d", "histogram",
           "histogram_bin_edges", "interp", "median", "nanmedian", "nanpercentile", "nanquantile", "percentile",
           "quantile", "trapezoid"]
