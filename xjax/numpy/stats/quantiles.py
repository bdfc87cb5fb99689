"""Quantiles, percentiles and medians, and versions that ignore NaN."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import constrained, name_function
from xjax.core.errors import bad, check_choice
from xjax.core.types import number_of
from xjax.numpy.manipulate import moveaxis, reshape, take_slices
from xjax.numpy.promote import promote_inexact
from xjax.numpy.reductions import sum as total
from xjax.numpy.rounding import isnan
from xjax.numpy.selection import choose, refuse_complex, refuse_out
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.arrange import iota
from xjax.ops.bitwise import bitwise_not
from xjax.ops.checks import canonical_axes
from xjax.ops.compare import le, lt
from xjax.ops.convert import convert_element_type
from xjax.ops.cumulative import cumsum
from xjax.ops.elementwise import add, ceil, div, floor, mul, sub
from xjax.ops.elementwise import round as lax_round
from xjax.ops.makers import filled_like, scalar_like
from xjax.ops.piecewise import max as lax_max
from xjax.ops.piecewise import min as lax_min
from xjax.ops.shape import broadcast_in_dim, expand_dims
from xjax.ops.slice import index_in_dim
from xjax.ops.sort import sort as lax_sort
from xjax.ops.sort import sort_key_val
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, Axis

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _quantile(name: str, scale: float, ignore_nan: bool, doc: str) -> Callable[..., Array]:
    caller = f"numpy.{name}"

    @one_launch(arrays=2)
    def quantile(a: ArrayLike, q: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
                 method: str = "linear", keepdims: bool = False, *, weights: ArrayLike | None = None,
                 out_sharding: object = None) -> Array:
        if out_sharding is not None:
            y = quantile(a, q, axis, out, overwrite_input, method, keepdims, weights=weights)
            return constrained(f"numpy.{name}", y, out_sharding)
        refuse_out(caller, out)
        check_choice(caller, "method", method, _METHODS)
        if weights is None:
            a, = (to_array_like(caller, x) for x in promote_inexact(caller, a))
        else:
            a, weights = (to_array_like(caller, x) for x in promote_inexact(caller, a, weights))
        q = _places(caller, q)
        refuse_complex(caller, a, q, exc=ValueError)
        q = div(q, scalar_like(q, scale)) if scale != 1 else q
        axes = tuple(sorted(canonical_axes(axis, a.ndim, caller)))
        if weights is not None:
            weights = _weights(caller, weights, a, axes, method)
        result = _quantiles(a, q, axes, method, ignore_nan, weights)
        if not keepdims:
            return result
        return expand_dims(result, tuple(q.ndim + d for d in axes or (0,)))     # a 0-d array gives [1], as in JAX

    name_function(quantile, name)
    quantile.__doc__ = f"""{doc} over `axis` (default: all axes).

    Args: q: real[...], whose axes come first in the result;  method: the result between two elements: "linear",
      "lower", "higher", "midpoint" or "nearest"; or "inverted_cdf": the first element for which the share of the
      elements up to it, weighted by `weights`, reaches q;  weights: for this method only: of the shape of `a`, or of
      its `axis`.
    """
    return quantile


def _places(caller: str, q: ArrayLike) -> Array:
    """`q` in its own float dtype, of at least 32 bits, so that positions among many elements are exact."""
    q = to_array_like(caller, promote_inexact(caller, q)[0])
    return convert_element_type(q, np.float32) if dtypes.itemsize_bits(q.dtype) < 32 else q


def _weights(caller: str, weights: Array, a: Array, axes: tuple[int, ...], method: str) -> Array:
    """Weights of the shape of `a`; a negative weight becomes NaN, and makes the result NaN."""
    refuse_complex(caller, weights, exc=ValueError)
    if method != "inverted_cdf":
        raise bad(caller, f"the method {method!r} takes no weights", fix="pass method='inverted_cdf'.",
                  exc=NotImplementedError)
    if weights.shape not in (a.shape, tuple(a.shape[d] for d in axes)):
        raise bad(caller, "the weights must have the shape of `a`, or of the axes that are reduced",
                  given={"a": a.aval, "weights": weights.aval, "axis": str(axes)}, fix="broadcast them.",
                  exc=ValueError)
    weights = choose(lt(weights, number_of(a.dtype, 0)), number_of(a.dtype, math.nan), weights)
    return weights if weights.shape == a.shape else broadcast_in_dim(weights, a.shape, axes)


def _quantiles(a: Array, q: Array, axes: tuple[int, ...], method: str, ignore_nan: bool,
               weights: ArrayLike | None) -> Array:
    """The quantiles q of `a`: [*q.shape, *(shape of a without axes)], in the dtype of a."""
    kept = tuple(n for d, n in enumerate(a.shape) if d not in axes)
    rows, n = math.prod(kept), math.prod(a.shape[d] for d in axes)

    def as_rows(x: Array) -> Array:
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
    def inverted_cdf() -> Array:
        counted = cumsum(choose(isnan(x), mul(weights, number_of(a.dtype, 0)), weights), 1)
        whole = index_in_dim(counted, n - 1, 1)
        target = mul(convert_element_type(reshape(q, (1, q.size)), a.dtype), whole)
        short = lt(expand_dims(counted, (1,)), expand_dims(target, (2,)))               # [rows, q, n]
        first = total(convert_element_type(short, q.dtype), 2)
        result = _elements(x, convert_element_type(lax_min(first, limits[1]), np.int32))
        return choose(isnan(whole), number_of(a.dtype, math.nan), result)

    out = {"inverted_cdf": inverted_cdf,
           "linear": lambda: add(mul(below, sub(number_of(a.dtype, 1), weight)), mul(above, weight)),
           "lower": lambda: below, "higher": lambda: above, "nearest": lambda: below,
           "midpoint": lambda: mul(add(below, above), number_of(a.dtype, 0.5))}[method]()
    undefined = le(valid, real(0)) if ignore_nan else lt(valid, real(n))
    out = choose(undefined, number_of(a.dtype, math.nan), out)
    return reshape(moveaxis(out, 1, 0), (*q.shape, *kept))


def _elements(x: Array, index: Array) -> Array:
    """x[r, index[r, k]] for each row r."""
    rows, n = x.shape
    start = mul(broadcast_in_dim(iota(np.int32, rows), index.shape, (0,)), np.int32(n))
    return reshape(take_slices(reshape(x, (rows * n,)), reshape(add(start, index), (index.size,)), 0), index.shape)


quantile = _quantile("quantile", 1, False, "Quantiles (q from 0 to 1)")
percentile = _quantile("percentile", 100, False, "Percentiles (q from 0 to 100)")
nanquantile = _quantile("nanquantile", 1, True, "Quantiles (q from 0 to 1) of the elements that are not nan")
nanpercentile = _quantile("nanpercentile", 100, True, "Percentiles (q from 0 to 100) of the elements that are not nan")


def median(a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
           keepdims: bool = False) -> Array:
    """Median over `axis` (default: all axes); for an even number of elements the mean of the middle two."""
    return quantile(a, 0.5, axis, out, keepdims=keepdims, method="midpoint")


def nanmedian(a: ArrayLike, axis: Axis = None, out: None = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Array:
    """Median of the elements that are not nan; nan where there is none."""
    return nanquantile(a, 0.5, axis, out, keepdims=keepdims, method="midpoint")


__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]
