"""`Edges`: what a layer needs of a graph to pass messages, whatever form the graph comes in.

A layer computes a message for each edge from the rows at its two ends, and reduces the messages at each receiver::

    edges = as_edges(graph, x, "MyLayer")
    message = edges.at_senders(x @ params["w"])         # [e, f]
    return edges.mean(message)                          # [n, f]

Where the graph was made by `Graph.from_edges` or `CSR`, gathers and sums use its sorted order, in gradients too.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax, ops, tree_util
from xjax.custom_derivatives import linear_call
from xnn.graph import segment


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges of a graph; a pytree with the static field `n_nodes`.

    Attributes:
      senders, receivers: int32[e].
      weight: [e]; None if the graph has no weights.
      features: [e, d]; None if it has none.
      mask: bool[e], False for edges of padding; None without padding.
      by_sender: int32[e], as of `Graph`.
      n_nodes: number of nodes, those that send and those that receive alike.
    """

    senders: Any
    receivers: Any
    weight: Any
    features: Any
    mask: Any
    by_sender: Any
    n_nodes: int

    def __len__(self) -> int:
        return self.senders.shape[0]

    @property
    def is_sorted(self) -> bool:
        """Whether receivers ascend."""
        return self.by_sender is not None

    def replace(self, **fields: Any) -> "Edges":
        """The same edges with other weights, features or mask."""
        return replace(self, **fields)

    # -- from nodes to edges --------------------------------------------------------------------------------------

    def at_senders(self, x: Any) -> Any:
        """[n, ...] -> [e, ...]: the row of each edge's sender."""
        return _gather(x, self.senders, self.by_sender)

    def at_receivers(self, x: Any) -> Any:
        """[n, ...] -> [e, ...]: the row of each edge's receiver."""
        return _gather(x, self.receivers, None, is_sorted=self.is_sorted)

    # -- from edges to nodes: [e, ...] -> [n, ...]; a node without edges gets 0 --------------------------------------

    def sum(self, messages: Any) -> Any:
        """Sum of the messages that each node receives."""
        return segment.segment_sum(messages, self.receivers, self.n_nodes, **self._how)

    def mean(self, messages: Any) -> Any:
        """Mean of the messages that each node receives."""
        return segment.segment_mean(messages, self.receivers, self.n_nodes, **self._how)

    def max(self, messages: Any) -> Any:
        """Largest message that each node receives, column by column."""
        return segment.segment_max(messages, self.receivers, self.n_nodes, **self._how)

    def min(self, messages: Any) -> Any:
        """Smallest message that each node receives, column by column."""
        return segment.segment_min(messages, self.receivers, self.n_nodes, **self._how)

    def std(self, messages: Any) -> Any:
        """Standard deviation of the messages that each node receives, as `segment_std`."""
        return segment.segment_std(messages, self.receivers, self.n_nodes, **self._how)

    def softmax(self, scores: Any, own: Any = None) -> Any:
        """Softmax over the edges that a node receives: [e, ...] -> [e, ...].

        Args: own: [n, ...] scores of one more edge from each node to itself, which is not among the edges.
        Returns: weights of the edges; with `own` the pair ``(weights [e, ...], own weights [n, ...])``.
        """
        if own is None:
            return segment.segment_softmax(scores, self.receivers, self.n_nodes, **self._how)
        kept = segment.kept(scores, self.mask, -np.inf)
        still, own_still = lax.stop_gradient((kept, own))
        largest = ops.segment_max(still, self.receivers, self.n_nodes, indices_are_sorted=self.is_sorted)
        largest = jnp.maximum(largest, own_still)
        grown, own = jnp.exp(kept - self.at_receivers(largest)), jnp.exp(own - largest)
        total = self.sum(grown) + own
        return grown / self.at_receivers(total), own / total

    def product(self, x: Any, weight: Any = None) -> Any:
        """Weighted sum of the rows of senders: [n, ...] -> [n, ...].

        Args: weight: [e], or [e, heads] for x [n, heads, f]; the graph's own weights if None, or 1 where it has none.
        """
        weight = self.weight if weight is None else weight
        picked = self.at_senders(x)
        return self.sum(picked if weight is None else picked * _like(weight, picked))

    def __matmul__(self, x: Any) -> Any:
        """`product` with the graph's own weights: the edges as a sparse matrix."""
        return self.product(x)

    def degree(self, *, weighted: bool = False) -> Any:
        """[n]: number of edges that each node receives, float32, or with `weighted` the sum of their weights."""
        weight = self.weight if weighted else None
        return self.sum(jnp.ones(len(self), np.float32) if weight is None else weight)

    @property
    def _how(self) -> dict:
        return {"mask": self.mask, "is_sorted": self.is_sorted}


tree_util.register_pytree_node(
    Edges,
    lambda edges: ((edges.senders, edges.receivers, edges.weight, edges.features, edges.mask, edges.by_sender),
                   edges.n_nodes),
    lambda n_nodes, children: Edges(*children, n_nodes),
)


def _gather(x: Any, index: Any, order: Any, is_sorted: bool = False) -> Any:
    """``x[index]``; its transpose sums in the sorted order, which is several times faster than unordered.

    Args: order: such that ``index[order]`` ascends; None: index ascends itself if `is_sorted`.
    """
    n = x.shape[0]

    def scatter(residuals, ct):
        index, order = residuals
        if order is not None:
            ct, index = _at(ct, order), _at(index, order)
        return ops.segment_sum(ct, index, n, indices_are_sorted=is_sorted or order is not None)

    return linear_call(lambda residuals, x: _at(x, residuals[0]), scatter, (index, order), x)


def _at(x: Any, index: Any) -> Any:
    # The indices were checked where the graph was made; a second check here costs a select.
    return jnp.asarray(x).at[index].get(mode="promise_in_bounds")


def _like(weight: Any, x: Any) -> Any:
    """Weights with as many axes as x."""
    return weight.reshape(weight.shape + (1,) * (x.ndim - weight.ndim))
