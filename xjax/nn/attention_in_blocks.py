"""Attention in blocks of queries, for `nn.dot_product_attention` and the attention layers of xnn.

A block computes no products with keys that none of its queries attends to. For long sequences the weights of a block
are recomputed for the gradient, as in Rabe and Staats (2021), so the memory is linear in the number of queries.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import xjax.numpy as jnp
from xjax import lax
from xjax.core.forms import limits
from xjax.core.symbolic.dims import is_at_most, is_static
from xjax.core.tree import tree_flatten, tree_map
from xjax.runtime.devices import backend
from xjax.transforms.remat import checkpoint
from xjax.typing import Array, ArrayLike, PyTree

Rows = TypeVar("Rows")
Reach = tuple[int | None, int | None]
ALL: Reach = (None, None)


def in_blocks(attend: Callable[[slice, Rows, ArrayLike | None], PyTree], rows: Rows, pairs: tuple[int, int, int],
              reach: Reach = ALL) -> PyTree:
    """``attend(all keys, rows, None)``, computed in blocks of queries where that saves time or memory.

    Args:
      attend: ``(keys, rows, first query) -> arrays [..., queries, n]``: the result for some queries and the keys of a
        slice, which has all keys within reach and others, to be masked. The first query may be traced; it is None if
        the rows are all queries.
      rows: arrays [..., queries, n], or [..., 1, n] for all queries.
      pairs: (number of products for each query and key, queries, keys).
      reach: the number of positions before and after its own that a query attends to at most; None: all. Queries and
        keys are counted from the same position.
    """
    (products, queries, keys), (before, after) = pairs, reach
    measured = limits("attention in blocks", backend.default_backend())
    recomputes = measured is not None and is_at_most(int(measured["recomputed"]), products * queries * keys)
    if measured is None or not is_static((queries, keys)) or queries < measured["queries"] or not (
            recomputes or reach != ALL):
        return attend(slice(0, keys), rows, None)
    size, count = int(measured["block"]), int(measured["blocks_recomputed" if recomputes else "blocks"])
    length, parts = max(size, -(-queries // count)), []
    for start in range(0, queries, length):
        stop = min(start + length, queries)
        seen = slice(0 if before is None else max(0, start - before),
                     keys if after is None else min(keys, stop + after))
        of_queries, some = functools.partial(attend, seen), _some(rows, start, stop)
        parts.append(_recomputed(of_queries, some, start, stop, size) if recomputes else of_queries(some, start))
    return _joined(parts)


def _recomputed(of_queries: Callable[[Rows, ArrayLike], PyTree], rows: Rows, start: int, stop: int,
                size: int) -> PyTree:
    """The result for the queries from `start` to `stop`: a loop over blocks, which stores their inputs only."""
    blocks, rest = divmod(stop - start, size)
    whole = blocks * size
    leaves, tree = tree_flatten(_some(rows, 0, whole))
    varying = [x.shape[-2] > 1 for x in leaves]
    xs = [jnp.moveaxis(x.reshape(*x.shape[:-2], blocks, size, x.shape[-1]), -3, 0)
          for x, varies in zip(leaves, varying, strict=True) if varies]

    def of_block(block: tuple[Array, list[Array]]) -> PyTree:
        first, some = block[0], iter(block[1])
        rows = [next(some) if varies else x for x, varies in zip(leaves, varying, strict=True)]
        return of_queries(tree.unflatten(rows), first)

    parts = []
    if blocks:
        # No barrier is needed: the forward pass and the gradient are loops of their own.
        results = lax.map(checkpoint(of_block, prevent_cse=False), (start + size * jnp.arange(blocks), xs))
        parts.append(tree_map(lambda x: jnp.moveaxis(x, 0, -3).reshape(*x.shape[1:-2], whole, x.shape[-1]), results))
    if rest:
        parts.append(checkpoint(of_queries)(_some(rows, whole, whole + rest), start + whole))
    return _joined(parts)


def at_keys(x: Array, keys: slice) -> Array:
    """A mask or bias [..., keys or 1] for the keys of a slice."""
    return x if x.shape[-1] == 1 else x[..., keys]


def _some(rows: Rows, start: int, stop: int) -> Rows:
    return tree_map(lambda x: x[..., start:stop, :] if x.shape[-2] > 1 else x, rows)


def _joined(parts: list[PyTree]) -> PyTree:
    return tree_map(lambda *some: jnp.concatenate(some, -2), *parts)
