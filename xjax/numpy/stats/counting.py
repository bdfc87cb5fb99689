"""Counts of values: `bincount`, and histograms along one dimension."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import constrained
from xjax.core.errors import ConcretizationTypeError, bad
from xjax.core.trace import Tracer
from xjax.core.types import number_of
from xjax.numpy.creation import asarray, linspace, zeros
from xjax.numpy.manipulate import ravel
from xjax.numpy.promote import cast, default_int, expand_to, promote, promote_inexact
from xjax.numpy.reductions import max as amax
from xjax.numpy.reductions import min as amin
from xjax.numpy.reductions import sum as total
from xjax.numpy.searching import searchsorted
from xjax.numpy.selection import choose
from xjax.numpy.stats.increments import diff
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.checks import static_int
from xjax.ops.compare import eq
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, div, sub
from xjax.ops.index_numbers import ScatterDimensionNumbers
from xjax.ops.piecewise import max as lax_max
from xjax.ops.scatter import scatter_add
from xjax.ops.shape import expand_dims
from xjax.ops.slice import index_in_dim, slice_in_dim
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike


@one_launch
def bincount(x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, *, length: int | None = None,
             out_sharding: object = None) -> Array:
    """Number of occurrences of each of 0, 1, ... in an integer vector, or the sum of their weights.

    Args: x: int[n]; negative numbers count as 0. length: of the result, needed under jit; larger numbers are ignored.
    Raises: ConcretizationTypeError for a traced `x` without `length`.
    """
    if out_sharding is not None:
        return constrained("numpy.bincount", bincount(x, weights, minlength, length=length), out_sharding)
    caller = "numpy.bincount"
    x = to_array_like(caller, x)
    if not dtypes.is_int(x.dtype) and not dtypes.is_bool(x.dtype) or x.ndim != 1:
        raise bad(caller, "takes an integer vector", given={"x": x.aval}, fix="convert with x.ravel().astype(int).")
    minlength = static_int(minlength, "minlength", caller)
    if length is None:
        if isinstance(x, Tracer):
            raise bad(caller, "the size of the result depends on traced values", given={"x": x.aval},
                      fix="pass length=n.", exc=ConcretizationTypeError)
        length = max(minlength, int(np.asarray(x).max()) + 1 if x.size else 0)
    counts = np.ones((), default_int())[()] if weights is None else to_array_like(caller, weights)
    return _add_at(length, convert_element_type(x, np.int32), counts)


def _add_at(length: int, index: Array, values: ArrayLike) -> Array:
    """Sums of values[i] over the i with index[i] = k, for each k below `length`; larger indices are dropped."""
    index = lax_max(index, np.int32(0))
    values = convert_element_type(expand_to("numpy.bincount", values, index.shape), dtypes.explicit_dtype(values.dtype))
    numbers = ScatterDimensionNumbers((), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
    return scatter_add(zeros((length,), values.dtype), expand_dims(index, (1,)), values, numbers)


def histogram_bin_edges(a: ArrayLike, bins: ArrayLike | Sequence[float] | str = 10,
                        range: Sequence[ArrayLike] | None = None, weights: ArrayLike | None = None) -> Array:
    """Edges of the bins of `histogram`."""
    caller = "numpy.histogram_bin_edges"
    if isinstance(bins, str):
        raise bad(caller, "bins chosen by a rule are not supported", given={"bins": bins}, fix="pass their number.",
                  exc=NotImplementedError)
    a = ravel(to_array_like(caller, a))
    dtype = dtypes.explicit_dtype(dtypes.to_inexact_dtype(a.dtype))
    if np.ndim(bins):
        return asarray(bins, dtype)
    low, high = (amin(a), amax(a)) if range is None and a.size else ((0, 1) if range is None else range)
    low, high = asarray(low, dtype), asarray(high, dtype)
    same = eq(low, high)                                # only one value: bins of total width 1 around it
    half = number_of(dtype, 0.5)
    return linspace(choose(same, sub(low, half), low), choose(same, add(high, half), high),
                    static_int(bins, "bins", caller) + 1, dtype=dtype)


def histogram(a: ArrayLike, bins: ArrayLike | Sequence[ArrayLike] | str = 10, range: Sequence[ArrayLike] | None = None,
              weights: ArrayLike | None = None, density: bool | None = None,
              out_sharding: object = None) -> tuple[Array, Array]:
    """(counts, edges): how many elements fall into each bin; the last bin includes its right end.

    Args: bins: their number, or their edges; range: (lowest, highest) edge; weights: of the elements;
      density: whether to scale so that the integral is 1; out_sharding: the sharding of the counts.
    """
    if out_sharding is not None:
        counts, edges = histogram(a, bins, range, weights, density)
        return constrained("numpy.histogram", counts, out_sharding), edges
    caller = "numpy.histogram"
    if weights is None:
        a, = promote_inexact(caller, a)
        weights = np.ones((), dtypes.explicit_dtype(a.dtype))[()]
    else:
        a, weights = promote_inexact(caller, a, weights)
        weights = ravel(to_array_like(caller, weights))
    a = ravel(to_array_like(caller, a))
    edges = histogram_bin_edges(a, bins, range)
    values, edges_ = promote(caller, a, edges)
    n = edges_.shape[0]
    index = convert_element_type(searchsorted(edges_, values, "right"), np.int32)
    last = index_in_dim(edges_, n - 1, 0, keepdims=False)
    index = choose(eq(values, last), np.int32(n - 1), index)
    counts = slice_in_dim(_add_at(n, index, weights), 1, n)
    if density:
        widths = diff(edges)
        counts = div(div(counts, cast(caller, widths, counts.dtype)), total(counts))
    return counts, edges


__all__ = ["bincount", "histogram", "histogram_bin_edges"]
