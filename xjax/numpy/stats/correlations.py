"""Covariances and correlations of variables."""

from __future__ import annotations

import numpy as np

from xjax.core import dtypes
from xjax.core.dtypes import accumulator_dtype
from xjax.core.errors import bad
from xjax.core.types import number_of
from xjax.numpy.composed import conjugate
from xjax.numpy.contract import dot, matmul
from xjax.numpy.creation import asarray
from xjax.numpy.joining import concatenate
from xjax.numpy.manipulate import atleast_2d, moveaxis, reshape, take_slices
from xjax.numpy.promote import as_dtype, cast, promote_inexact
from xjax.numpy.reductions import amax, mean
from xjax.numpy.reductions import sum as total
from xjax.numpy.selection import clip
from xjax.numpy.ufuncs import multiply, to_array_like, true_divide
from xjax.ops.convert import reduce_precision
from xjax.ops.elementwise import div, mul, sub
from xjax.ops.identity import stop_gradient
from xjax.ops.piecewise import abs as lax_abs
from xjax.ops.shape import expand_dims
from xjax.ops.transcendental import sqrt
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, DTypeLike


def _variables(caller: str, m: ArrayLike, y: ArrayLike | None, rowvar: bool, dtype: DTypeLike | None) -> Array:
    """The variables as the rows of one matrix."""
    if dtype is not None:
        dtype = as_dtype(dtype, caller)
        m = cast(caller, to_array_like(caller, m), dtype)
        y = None if y is None else cast(caller, to_array_like(caller, y), dtype)
    xs = [atleast_2d(to_array_like(caller, x)) for x in promote_inexact(caller, *(v for v in (m, y) if v is not None))]
    if any(x.ndim > 2 for x in xs):
        raise bad(caller, "takes vectors and matrices", given={f"argument {i}": x.aval for i, x in enumerate(xs)},
                  fix="reshape to (variables, observations).", exc=ValueError)
    xs = [x if rowvar or np.ndim(v) < 2 else moveaxis(x, 0, 1) for x, v in zip(xs, (m, y), strict=False)]
    return concatenate(xs, 0) if len(xs) > 1 else xs[0]


@one_launch
def cov(m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
        fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, dtype: DTypeLike | None = None) -> Array:
    """Covariance matrix of variables, which are the rows of `m` (columns with ``rowvar=False``), and those of `y`.

    Args: bias, ddof: the divisor is n - ddof, by default n - 1 (n with `bias`); fweights: number of occurrences of
      each observation; aweights: its relative weight; dtype: of the computation and the result.
    """
    caller = "numpy.cov"
    x = _variables(caller, m, y, rowvar, dtype)
    result, x = x.dtype, x.astype(accumulator_dtype(x.dtype))
    ddof = (0 if bias else 1) if ddof is None else ddof
    w = None
    for weights in (fweights, aweights):
        if weights is not None:
            weights = cast(caller, to_array_like(caller, weights), dtypes.finfo(x.dtype).dtype)
            w = weights if w is None else mul(w, weights)
    if w is None:
        count, center = number_of(x.dtype, x.shape[1]), mean(x, 1, keepdims=True)
        divisor = count - number_of(x.dtype, ddof)
    else:
        count = total(w)
        center = expand_dims(true_divide(matmul(x, w), count), (1,))
        scale = total(mul(w, cast(caller, to_array_like(caller, aweights), w.dtype))) if aweights is not None else None
        divisor = sub(count, mul(scale_of(ddof, w), div(scale, count)) if scale is not None else scale_of(ddof, w))
    x = sub(x, center)
    weighted = x if w is None else multiply(x, expand_dims(w, (0,)))
    out = true_divide(dot(weighted, conjugate(moveaxis(x, 0, 1))), divisor).astype(result)
    return reshape(out, ()) if out.size == 1 else out


def scale_of(value: float, like: Array) -> np.generic:
    return number_of(like.dtype, value)


@one_launch
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None) -> Array:
    """Correlation coefficients of variables, laid out as for `cov`; they may be of any magnitude."""
    x = _variables("numpy.corrcoef", x, y, rowvar, dtype)
    result, x = x.dtype, x.astype(accumulator_dtype(x.dtype))
    x = sub(x, mean(x, 1, keepdims=True))
    # Rows are divided by powers of two near their largest deviations, which keeps correlations and products in range.
    size = amax(lax_abs(stop_gradient(x)), 1, keepdims=True, initial=0)
    info = dtypes.finfo(size.dtype)
    unit = reduce_precision(clip(size, info.smallest_normal * 8, info.max / 8), info.nexp, 0)
    x = multiply(x, true_divide(1, unit).astype(x.dtype))
    n = x.shape[0]
    products = dot(x, conjugate(moveaxis(x, 0, 1)))
    squares = take_slices(reshape(products, (n * n,)), asarray(np.arange(n, dtype=np.int32) * (n + 1)), 0)
    root = sqrt(squares.real).astype(products.dtype)
    out = true_divide(true_divide(products, expand_dims(root, (1,))), expand_dims(root, (0,))).astype(result)
    return reshape(out, ()) if out.size == 1 else out


__all__ = ["corrcoef", "cov"]
