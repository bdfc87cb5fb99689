"""The k largest or smallest elements, with JAX's interface for accelerators, which find most of them faster than all.

CPUs and GPUs have no such unit. There the answer is exact, as in JAX, and `recall_target` only changes the number of
results of ``aggregate_to_topk=False``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray, Zero, typeof
from xjax.ops.checks import FLOAT, NOT_LINEAR, canonical_axis, check_kinds, static_int
from xjax.ops.gather import take_along
from xjax.ops.shape import after_batch, reshape
from xjax.ops.sort import top_k_p
from xjax.typing import ArrayLike


def approx_max_k(operand: ArrayLike, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1, aggregate_to_topk: bool = True) -> list[Any]:
    """The k largest elements along an axis in descending order, and their positions as int32. The search is exact.

    Args:
      operand: float[..., n, ...].
      recall_target: fraction of the true k elements that an approximate search should find, between 0 and 1.
      reduction_input_size_override: size of the whole axis if `operand` is a part of it; -1: n.
      aggregate_to_topk: reduce the candidates of the search to k; else return all candidates, k or more.
    Raises: ValueError if k is not from 1 to n.

    >>> [x.tolist() for x in approx_max_k(jnp.array([1.0, 4.0, 2.0]), 2)]
    [[4.0, 2.0], [1, 2]]
    """
    return _approx_top_k("lax.approx_max_k", operand, k, reduction_dimension, recall_target, True,
                         reduction_input_size_override, aggregate_to_topk)


def approx_min_k(operand: ArrayLike, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1, aggregate_to_topk: bool = True) -> list[Any]:
    """The k smallest elements along an axis in ascending order, and their positions; see `approx_max_k`."""
    return _approx_top_k("lax.approx_min_k", operand, k, reduction_dimension, recall_target, False,
                         reduction_input_size_override, aggregate_to_topk)


def _approx_top_k(caller: str, operand: ArrayLike, k: int, reduction_dimension: int, recall_target: float,
                  is_max_k: bool, override: int, aggregate_to_topk: bool) -> list[Any]:
    aval = typeof(operand)
    k, axis = static_int(k, "k", caller), canonical_axis(reduction_dimension, aval.ndim, caller, "reduction_dimension")
    n = aval.shape[axis]
    if not 1 <= k <= n:
        raise bad(caller, f"`k` {k} is not in the range of axis {axis}, which has size {n}", given={"operand": aval},
                  fix=f"pass k from 1 to {n}.", exc=ValueError)
    if not 0 < recall_target <= 1 or 0 <= override < n:
        raise bad(caller, "`recall_target` must be in (0, 1], and the override of the size -1 or at least the size",
                  given={"recall_target": str(recall_target), "reduction_input_size_override": str(override),
                         "size": str(n)}, fix="use the defaults.", exc=ValueError)
    return approx_top_k_p.bind(operand, k=k, reduction_dimension=reduction_dimension, recall_target=recall_target,
                               is_max_k=is_max_k, reduction_input_size_override=override,
                               aggregate_to_topk=bool(aggregate_to_topk))


def _candidates(n: int, rank: int, k: int, recall_target: float, override: int) -> int:
    """Number of elements, of n, that XLA's search keeps: the best of each bin, of enough bins (arXiv 2206.14286)."""
    tiling = 1024 if rank == 1 else 128
    if n <= tiling:
        return n
    if k == 1:
        return tiling
    bins = math.inf if recall_target == 1 else max(int((1.0 - k) / math.log(recall_target)), tiling)
    whole = n if override < 0 else override
    halvings = math.floor(math.log2(whole // bins)) if whole >= bins else 0
    if halvings == 0:
        return n
    tiles = math.ceil(n / tiling)
    return math.ceil(tiles / 2 ** min(halvings, (n // tiling - 1).bit_length())) * tiling


def _type(x, *, k, reduction_dimension, recall_target, is_max_k, reduction_input_size_override, aggregate_to_topk):
    check_kinds("approx_max_k" if is_max_k else "approx_min_k", FLOAT, x)
    shape, axis = list(x.shape), reduction_dimension % x.ndim
    shape[axis] = k if aggregate_to_topk else _candidates(shape[axis], x.ndim, k, recall_target,
                                                          reduction_input_size_override)
    values = x.update(shape=tuple(shape))
    return values, values.update(dtype=np.dtype(np.int32))


def _lower(b: Builder, outs: Sequence[ShapedArray], x: Value, *, reduction_dimension, is_max_k, **_) -> list[Value]:
    axis = reduction_dimension % x.aval.ndim
    x = x if is_max_k else b.unary("stablehlo.negate", x)
    values, indices = top_k_p.lower(b, outs, x, k=outs[0].shape[axis], axis=axis)
    return [values if is_max_k else b.unary("stablehlo.negate", values), indices]


def _jvp(primals, tangents, *, reduction_dimension, **params):
    values, indices = approx_top_k_p.bind(*primals, reduction_dimension=reduction_dimension, **params)
    d_indices = Zero(indices.aval.tangent())
    if type(tangents[0]) is Zero:
        return [values, indices], [Zero(values.aval.tangent()), d_indices]
    vectors = reshape(indices, (*indices.aval.shape, 1))
    return [values, indices], [take_along(tangents[0], vectors, reduction_dimension % values.aval.ndim), d_indices]


def _batch(axis, args, bdims, *, reduction_dimension, **params):
    (x,), (bdim,) = args, bdims
    (inner,) = after_batch(bdim, (reduction_dimension % (typeof(x).ndim - 1),))
    return approx_top_k_p.bind(x, reduction_dimension=inner, **params), [bdim, bdim]


approx_top_k_p = Primitive("approx_top_k", type_rule=_type, lower=_lower, multiple_results=True, jvp=_jvp,
                           transpose=NOT_LINEAR, batch=_batch)
