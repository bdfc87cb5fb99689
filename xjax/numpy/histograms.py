"""Histograms of points in several dimensions."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy.joining import stack
from xjax.numpy.manipulate import reshape
from xjax.numpy.promote import promote_inexact, shape_of
from xjax.numpy.reductions import sum as total
from xjax.numpy.searching import searchsorted
from xjax.numpy.selection import choose, operand
from xjax.numpy.stats.counting import bincount, histogram_bin_edges
from xjax.numpy.stats.increments import diff
from xjax.numpy.ufuncs import add, divide, multiply, to_array_like
from xjax.ops.compare import eq
from xjax.ops.convert import convert_element_type
from xjax.ops.shape import expand_dims
from xjax.ops.slice import index_in_dim, slice
from xjax.typing import Array, ArrayLike


def histogram2d(x: ArrayLike, y: ArrayLike, bins: int | Sequence[Any] | Array | np.ndarray = 10,
                range: Sequence[Any] | None = None, weights: ArrayLike | None = None,
                density: bool | None = None) -> tuple[Array, Array, Array]:
    """(counts, edges of x, edges of y): how many of the points (x, y) fall into each bin.

    Args: x, y: real[n]; bins: as for `histogramdd`, or one vector of edges for both.
    """
    x, y = (to_array_like("numpy.histogram2d", v) for v in (x, y))
    if x.ndim != 1 or x.shape != y.shape:
        raise bad("numpy.histogram2d", "`x` and `y` must be vectors of one size", given={"x": x.aval, "y": y.aval},
                  fix="use x.ravel().")
    if np.ndim(bins) and len(bins) not in (1, 2):
        bins = [bins, bins]
    counts, edges = histogramdd(stack(promote_inexact("numpy.histogram2d", x, y), 1), bins, range, weights, density)
    edges_x, edges_y = edges
    return counts, edges_x, edges_y


def histogramdd(sample: ArrayLike, bins: int | Sequence[Any] | Array | np.ndarray = 10,
                range: Sequence[Any] | None = None, weights: ArrayLike | None = None,
                density: bool | None = None) -> tuple[Array, list[Array]]:
    """(counts, edges): how many points fall into each bin; the last bins include their right ends.

    Args:
      sample: real[n, d], a point in each row.
      bins: their number, or for each dimension a number or a vector of edges.
      range: for each dimension (lowest, highest) edge, or None for the range of the points.
      weights: number[n], of the points; density: whether to scale the counts so that their integral is 1.
    Returns: counts: int[bins 0, bins 1, ...], float with `weights` or `density`; edges: a list of d vectors.
    Raises: ValueError if the arguments do not fit the number of dimensions.
    """
    caller = "numpy.histogramdd"
    sample = operand(caller, promote_inexact(caller, sample)[0])
    if sample.ndim != 2:
        raise bad(caller, "`sample` must have a point in each row", given={"sample": typeof(sample)},
                  fix="pass an array [points, dimensions].", exc=ValueError)
    d = sample.shape[1]
    bins = [bins] * d if not np.ndim(bins) and not isinstance(bins, (list, tuple)) else list(bins)
    range = [None] * d if range is None else list(range)
    if len(bins) != d or len(range) != d:
        raise bad(caller, f"the points have {d} dimensions", given={"bins": len(bins), "ranges": len(range)},
                  fix="pass one for each dimension.", exc=ValueError)
    columns = [index_in_dim(sample, i, 1, keepdims=False) for i in builtins.range(d)]
    edges = [histogram_bin_edges(x, b, r, weights) for x, b, r in zip(columns, bins, range, strict=True)]
    counts = _counts(columns, edges, weights)
    if density:
        counts = convert_element_type(counts, sample.dtype) if weights is None else counts
        counts = divide(counts, total(counts))
        for i, e in enumerate(edges):
            counts = divide(counts, expand_dims(diff(e), [a for a in builtins.range(d) if a != i]))
    return counts, edges


def _counts(columns: Sequence[Any], edges: Sequence[Any], weights: ArrayLike | None) -> Array:
    """Points in each bin; an extra bin on either side of each dimension collects the points outside, and is dropped."""
    sizes = [shape_of(e)[0] + 1 for e in edges]
    flat = np.int32(0)
    for x, e, n in zip(columns, edges, sizes, strict=True):
        position = convert_element_type(searchsorted(e, x, "right"), np.int32)
        last = eq(x, convert_element_type(index_in_dim(e, n - 2, 0, keepdims=False), x.dtype))
        flat = add(multiply(flat, np.int32(n)), choose(last, np.int32(n - 2), position))
    counts = reshape(bincount(flat, weights, length=math.prod(sizes)), sizes)
    return slice(counts, [1] * len(sizes), [n - 1 for n in sizes])


__all__ = ["histogram2d", "histogramdd"]
