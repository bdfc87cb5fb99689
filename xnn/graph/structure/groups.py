"""`Groups`: the nodes of a batch, grouped by graph, for layers that reduce over whole graphs.

Pools and norms use `Groups` as message passing uses `Edges`::

    groups = as_groups(graph, x, "MyLayer")
    mean = groups.mean(x)                               # [g, f]
    return x - groups.at_nodes(mean)                    # [n, f]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import bad, old_keywords
from xjax.typing import Array, ArrayLike, DTypeLike
from xnn.checks import type_text
from xnn.graph.structure.adjacency import as_edges
from xnn.graph.structure.graph import Graph
from xnn.precision import at_least_float32
from xnn.sparse import segment


@dataclass(frozen=True, slots=True)
class Groups:
    """The index of the graph that each node belongs to.

    Attributes:
      ids: int32[n], ascending.
      mask: bool[n], False for nodes of padding; None without padding.
      n: number of graphs, padding included.
    """

    ids: Any
    mask: Any
    n: int

    def sum(self, x: ArrayLike) -> Array:
        """[n, ...] -> [g, ...]: sum over the nodes of each graph; as in all reductions, 0 for a graph without nodes."""
        return self._wide(segment.segment_sum, x)

    def mean(self, x: ArrayLike) -> Array:
        """[n, ...] -> [g, ...]: mean over the nodes of each graph."""
        return self._wide(segment.segment_mean, x)

    def max(self, x: ArrayLike) -> Array:
        """[n, ...] -> [g, ...]: largest value of each feature over the nodes of each graph."""
        return segment.segment_max(x, self.ids, self.n, **self._options)

    def min(self, x: ArrayLike) -> Array:
        """[n, ...] -> [g, ...]: smallest value of each feature over the nodes of each graph."""
        return segment.segment_min(x, self.ids, self.n, **self._options)

    def std(self, x: ArrayLike) -> Array:
        """[n, ...] -> [g, ...]: standard deviation over the nodes of each graph, computed as in `segment_std`."""
        return self._wide(segment.segment_std, x)

    def softmax(self, scores: ArrayLike) -> Array:
        """[n, ...] -> [n, ...]: softmax over the nodes of each graph; 0 for nodes of padding."""
        return self._wide(segment.segment_softmax, scores)

    def rank(self, scores: ArrayLike) -> Array:
        """int32[n]: number of nodes of the same graph with a higher score [n]; of equal scores the first is higher."""
        ids = jnp.asarray(self.ids) if self.mask is None else jnp.where(self.mask, self.ids, self.n)
        order = jnp.lexsort((-scores, ids))
        counts = segment.segment_count(ids, self.n + 1)
        places = jnp.arange(ids.shape[0], dtype=np.int32) - (jnp.cumsum(counts) - counts)[ids[order]]
        return jnp.zeros(ids.shape[0], np.int32).at[order].set(places.astype(np.int32), unique_indices=True)

    def count(self, dtype: DTypeLike = np.int32) -> Array:
        """[g]: number of nodes of each graph."""
        return segment.segment_count(self.ids, self.n, **self._options).astype(dtype)

    def at_nodes(self, per_graph: ArrayLike) -> Array:
        """[g, ...] -> [n, ...]: for each node the row of its graph."""
        return jnp.asarray(per_graph).at[self.ids].get(mode="promise_in_bounds", indices_are_sorted=True)

    def _wide(self, reduce: Callable, x: Array) -> Array:
        """The reduction in at least float32: a bfloat16 sum stops growing after about 256 terms of equal size."""
        return reduce(x.astype(at_least_float32(x.dtype)), self.ids, self.n, **self._options).astype(x.dtype)

    @property
    def _options(self) -> dict:
        return {"mask": self.mask, "is_sorted": True}


@old_keywords(where="caller")
def as_groups(graph: object, x: Array | np.ndarray, caller: str) -> Groups:
    """The nodes of a graph, or of a batch, grouped by graph.

    Args:
      graph: a `Graph`; any other form that `as_edges` takes counts as a single graph.
      x: [n, ...] node features; only the number of rows is used.
      caller: name of the layer, for error messages.
    Raises: ValueError if the graph does not have as many nodes as x has rows; TypeError if `graph` is not a graph.
    """
    n_nodes = x.shape[0]
    if not isinstance(graph, Graph):
        as_edges(graph, x, caller)                          # only to check the form and the number of nodes
        return Groups(np.zeros(n_nodes, np.int32), None, 1)
    if not tree_util.tree_leaves(graph.nodes):
        graph = graph.replace(nodes=x)                     # a traced graph takes its static node count from x
    ids = graph.node_graph
    if ids.shape[0] != n_nodes or graph.n_nodes != n_nodes:
        raise bad(caller, f"the graph has {graph.n_nodes} nodes, the features have {n_nodes} rows",
                  {"graph": repr(graph), "x": type_text(x)}, "pass one row of features for each node.", ValueError)
    return Groups(ids, graph.node_mask, graph.n_graphs)


def graphs_shape(in_shape: tuple[int, ...], *features: int) -> tuple[int, ...]:
    """Shape [g, features] of one row per graph. `init` does not have g, so the number of rows of x replaces it."""
    return (in_shape[0], *features)
