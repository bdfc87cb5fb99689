"""`Edges`: the edges of a graph in the form that message passing uses, whichever form the graph was passed in.

A layer computes a message for each edge from the rows at its two ends, and reduces the messages at each receiver::

    edges = as_edges(graph, x, "MyLayer")
    message = edges.at_senders(x @ params["w"])         # [e, f]
    return edges.mean(message)                          # [n, f]

If the graph was made by `Graph.from_edges` or `CSR`, gathers and sums use its sorted order, also in gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import ops, tree_util
from xjax.custom_derivatives import linear_call
from xjax.typing import Array, ArrayLike
from xnn.sparse import segment
from xnn.sparse.neighbours import neighbour_max
from xnn.sparse.product import Side, other_values, product
from xnn.sparse.rows import SlicedEll, at, over_columns, spread, widened


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges of a graph; a pytree with the static field `n_nodes`.

    Attributes:
      senders, receivers: int32[e].
      weight: [e]; None if the graph has no weights.
      features: [e, d]; None if it has none.
      mask: bool[e], False for edges of padding; None without padding.
      by_sender: int32[e], as in `Graph`.
      n_nodes: number of receiving nodes.
      received, sent: `SlicedEll` of the edges in their own order, and in the order of `by_sender`, if the graph is
        tuned (`CSR.tune`); otherwise None.
      exchange: the `RowBlock` that fetches rows from other devices: `senders` are then row indices of
        ``exchange.seen(x)``. None if they are row indices of x.
    """

    senders: Any
    receivers: Any
    weight: Any
    features: Any
    mask: Any
    by_sender: Any
    n_nodes: int
    received: Any = None
    sent: Any = None
    exchange: Any = None

    def __len__(self) -> int:
        return self.senders.shape[0]

    @property
    def is_sorted(self) -> bool:
        """Whether receivers are in ascending order."""
        return self.by_sender is not None

    @property
    def is_loop(self) -> Array:
        """bool[e]: whether an edge joins a node to itself."""
        receivers = self.receivers if self.exchange is None else self.exchange.place(self.receivers)
        return jnp.asarray(self.senders) == receivers

    def replace(self, **fields: object) -> Edges:
        """A copy with other weights, features or mask."""
        return replace(self, **fields)

    # -- from nodes to edges --------------------------------------------------------------------------------------

    def at_senders(self, x: ArrayLike) -> Array:
        """[n, ...] -> [e, ...]: the row of each edge's sender."""
        x = x if self.exchange is None else self.exchange.seen(x)
        return _gather(x, self.senders, self.by_sender, self.sent)

    def at_receivers(self, x: ArrayLike) -> Array:
        """[n, ...] -> [e, ...]: the row of each edge's receiver."""
        return segment.rows_of(x, self.receivers, is_sorted=self.is_sorted, rows=self.received)

    # -- from edges to nodes: [e, ...] -> [n, ...]; a node without edges gets 0 --------------------------------------

    def sum(self, messages: ArrayLike) -> Array:
        """Sum of the messages that each node receives."""
        return self._reduced(segment.segment_sum, messages)

    def mean(self, messages: ArrayLike) -> Array:
        """Mean of the messages that each node receives."""
        return self._reduced(segment.segment_mean, messages)

    def max(self, messages: ArrayLike) -> Array:
        """Largest message that each node receives, column by column."""
        return self._reduced(segment.segment_max, messages)

    def min(self, messages: ArrayLike) -> Array:
        """Smallest message that each node receives, column by column."""
        return self._reduced(segment.segment_min, messages)

    def std(self, messages: ArrayLike) -> Array:
        """Standard deviation of the messages that each node receives, computed as in `segment_std`."""
        return self._reduced(segment.segment_std, messages)

    def softmax(self, scores: ArrayLike, own: ArrayLike | None = None) -> Any:
        """Softmax over the edges that a node receives: [e, ...] -> [e, ...].

        Args: own: [n, ...] scores of an additional edge from each node to itself, which is not among the edges.
        Returns: weights of the edges; with `own` the pair ``(weights [e, ...], own weights [n, ...])``.
        """
        return self._reduced(segment.segment_softmax, scores, own)

    def exp(self, scores: ArrayLike, own: ArrayLike | None = None) -> tuple[Array, Array | None, Array]:
        """The softmax before its division, as in `segment_exp`: for the edges, for `own`, and their sums [n, ...]."""
        return self._reduced(segment.segment_exp, scores, own)

    def _reduced(self, reduce: Callable[..., Any], x: ArrayLike, *more: ArrayLike | None) -> Any:
        return reduce(x, self.receivers, self.n_nodes, *more, mask=self.mask, is_sorted=self.is_sorted,
                      rows=self.received)

    def product(self, x: ArrayLike, weight: ArrayLike | None = None) -> Array:
        """Weighted sum of the rows of senders: [n, ...] -> [n, ...].

        The gradient saves no array of messages [e, ...]; with a tuned graph (`Graph.tune`) none is computed.

        Args: weight: [e], or [e, heads] for x [n, heads, f]; if None, the graph's own weights, or 1 if it has none.
        """
        weight = self.weight if weight is None else weight
        return self._weighted(x, None if weight is None else jnp.asarray(weight).astype(x.dtype))

    def neighbour_sum(self, x: ArrayLike) -> Array:
        """Unweighted sum of the rows of senders: [n, ...] -> [n, ...]; uses as little memory as `product`."""
        return self._weighted(x, None)

    def neighbour_mean(self, x: ArrayLike) -> Array:
        """Unweighted mean of the rows of senders: [n, ...] -> [n, ...]; see `neighbour_sum`."""
        x = jnp.asarray(x)
        total = self._weighted(widened(x), None)
        counts = jnp.maximum(self.degree(), 1).astype(total.dtype)
        return (total / over_columns(counts, x)).astype(x.dtype)

    def neighbour_max(self, x: ArrayLike) -> Array:
        """Maximum of the rows of senders, column by column: [n, ...] -> [n, ...].

        With a tuned graph without a mask, and floating x, it uses as little memory as `product`.
        """
        x = jnp.asarray(x)
        if self.received is None or self.mask is not None or not jnp.issubdtype(x.dtype, np.floating):
            return self.max(self.at_senders(x))
        flat = x.reshape(x.shape[0], -1)
        return neighbour_max(flat, *self._sides(x.shape[0])).reshape(self.n_nodes, *x.shape[1:])

    def _weighted(self, rows: ArrayLike, weight: Array | None) -> Array:
        x: Array = jnp.asarray(rows) if self.exchange is None else self.exchange.seen(rows)
        if self.mask is not None:
            mask = jnp.asarray(self.mask)
            weight = mask.astype(x.dtype) if weight is None else jnp.where(over_columns(mask, weight), weight, 0)
        if self.by_sender is None:
            picked = at(x, jnp.asarray(self.senders))
            scale = None if weight is None else weight.reshape(weight.shape + (1,) * (x.ndim - weight.ndim))
            return self.sum(picked if scale is None else picked * scale)
        flat = x.reshape(*x.shape[:1 if weight is None else weight.ndim], -1)
        return product(weight, flat, *self._sides(x.shape[0])).reshape(self.n_nodes, *x.shape[1:])

    def _sides(self, n_senders: int) -> tuple[Side, Side]:
        """The edges as entries of a matrix, by row and by column. Only the length of `indptr` is used."""
        by_sender = jnp.asarray(self.by_sender)
        senders, receivers = (jnp.asarray(ends) for ends in (self.senders, self.receivers))
        row_starts, col_starts = (jnp.zeros(n + 1, np.int32) for n in (self.n_nodes, n_senders))
        by_row = Side(receivers, senders, row_starts, jnp.argsort(by_sender), self.received)
        by_col = Side(senders[by_sender], receivers[by_sender], col_starts, by_sender, self.sent)
        return other_values(by_row), other_values(by_col)

    def __matmul__(self, x: ArrayLike) -> Array:
        """The edges as a sparse matrix, times x: `product` with the graph's own weights."""
        return self.product(x)

    def degree(self, *, weighted: bool = False) -> Array:
        """float32[n]: number of edges that each node receives; with `weighted` the sum of their weights."""
        weight = self.weight if weighted else None
        return self.sum(jnp.ones(self.senders.shape[0], np.float32) if weight is None else weight)


tree_util.register_dataclass(Edges, [name for name in Edges.__dataclass_fields__ if name != "n_nodes"], ["n_nodes"])


def _gather(x: Array | np.ndarray, index: Array | np.ndarray, order: Array | np.ndarray | None,
            rows: SlicedEll | None) -> Array:
    """``x[index]``; its transpose sums in sorted order, which is several times faster than an unordered sum.

    Args:
      order: permutation that makes ``index[order]`` ascending; None if unknown.
      rows: `SlicedEll` of the edges in that order; None if unknown.
    """
    n = x.shape[0]

    def scatter(tables, ct):
        index, order, rows = tables
        if order is None:
            return ops.segment_sum(ct, index, n)
        return segment.segment_sum(at(ct, order), at(index, order), n, is_sorted=True, rows=rows)

    tables = jnp.asarray(index), order, rows
    return linear_call(lambda tables, x: spread(x, tables[0]), scatter, tables, jnp.asarray(x))
