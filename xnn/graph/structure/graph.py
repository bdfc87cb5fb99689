"""`Graph`: one graph or a batch of graphs, as arrays of static shapes.

The graphs of a batch are stored one after another: the first ``n_node[0]`` rows of `nodes` belong to the first graph,
and so on. `xnn.graph.batch` joins graphs; `pad` pads them to a common size, for which a program is compiled once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import TracerArrayConversionError, bad, check_choice
from xjax.typing import Array, ArrayLike, PyTree
from xnn.graph.structure.arrays import as_arrays, edge_order, host, host_indices, row_count, stable_order, tree_text
from xnn.graph.structure.convert import Conversions
from xnn.sparse.product import Form, best_form
from xnn.sparse.rows import make_rows
from xnn.sparse.segment import segment_sum

__all__ = ["Graph", "as_arrays", "host"]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Graph(Conversions):
    """A directed graph, or a batch of directed graphs; a pytree, whose fields may be traced.

    Make one with `from_edges`, which checks the indices and sorts the edges, or from another library's object:
    `from_dense`, `from_scipy`, `from_csr`, `from_networkx`, `from_pyg`, `from_jraph`, each with its inverse `to_...`.
    The arrays are NumPy arrays until a program takes them. Edge k goes from ``senders[k]`` to ``receivers[k]``: in a
    matrix it is the entry ``[receivers[k], senders[k]]``. An undirected graph has each edge in both directions, see
    `to_undirected`.

    Attributes:
      nodes: node features: an array [n, ...] or a pytree of such arrays; None if there are none.
      edges: edge features: an array [e, ...] or a pytree of such arrays. Layers read a vector [e] as weights, a matrix
        [e, d] as features, and a dict ``{"weight": [e], "features": [e, d]}`` as both.
      senders, receivers: int32[e].
      globals: features of whole graphs: an array [g, ...] or a pytree of such arrays.
      n_node, n_edge: int32[g], number of nodes and edges of each graph.
      mask: bool[g], False for padding graphs; None without padding.
      by_sender: int32[e]: the edges in ascending order of senders. If it is set, `receivers` is sorted, and sums over
        edges are faster, forward and backward. None if the edges may be unsorted.
      rows: result of `tune`: `xnn.sparse.rows.SlicedEll` of the edges by receivers and by senders. None if not tuned.
    """

    nodes: Any
    edges: Any
    senders: Any
    receivers: Any
    globals: Any
    n_node: Any
    n_edge: Any
    mask: Any = None
    by_sender: Any = None
    rows: Any = None

    @classmethod
    def from_edges(cls, senders: Any, receivers: Any, nodes: PyTree = None, edges: PyTree = None, *,
                   globals: ArrayLike | None = None, n_nodes: int | None = None) -> Graph:
        """Makes a graph from the two ends of its edges, in any order; it sorts edges by receiver, then by sender.

        Args:
          senders, receivers: int[e], concrete (not traced).
          nodes, edges: arrays or pytrees of arrays [n, ...] and [e, ...].
          globals: array or pytree with the features of the graph, without an axis of graphs.
          n_nodes: number of nodes if `nodes` is None; if both are None, the largest index plus one.
        Raises: ValueError if lengths differ or an index is out of range; TypeError if senders or receivers are traced
          or not integers.

        >>> graph = Graph.from_edges([0, 1, 0], [1, 2, 2], nodes=np.eye(3, dtype=np.float32))
        >>> graph
        <Graph of 3 nodes, 3 edges; nodes f32[3,3]>
        >>> graph.receivers
        array([1, 2, 2], dtype=int32)
        """
        caller = "Graph.from_edges"
        senders, receivers = host_indices(caller, "senders", senders), host_indices(caller, "receivers", receivers)
        if len(senders) != len(receivers):
            raise bad(caller, "every edge must have two ends", {"senders": len(senders), "receivers": len(receivers)},
                      "pass as many receivers as senders.", ValueError)
        largest = max(senders.max(initial=-1), receivers.max(initial=-1))
        count = row_count(caller, "nodes", nodes)
        count = count if count is not None else n_nodes if n_nodes is not None else int(largest) + 1
        if n_nodes is not None and n_nodes != count:
            raise bad(caller, "n_nodes is not the number of rows of `nodes`", {"n_nodes": n_nodes, "rows": count},
                      "leave n_nodes out.", ValueError)
        smallest = min(senders.min(initial=0), receivers.min(initial=0))
        if smallest < 0 or largest >= count:
            raise bad(caller, "an edge has an end out of range",
                      {"indices": f"{smallest} to {largest}", "nodes": count},
                      f"pass indices from 0 to {count - 1}, or more nodes.", ValueError)
        length = row_count(caller, "edges", edges)
        if length is not None and length != len(senders):
            raise bad(caller, "`edges` needs one row for each edge", {"rows": length, "edges": len(senders)},
                      "pass features [e, ...] in the order of senders.", ValueError)
        order = edge_order(senders, receivers, count)
        senders, receivers = senders[order].astype(np.int32), receivers[order].astype(np.int32)
        edges = tree_util.tree_map(lambda x: x[order], as_arrays(edges))
        return cls(as_arrays(nodes), edges, senders, receivers,
                   tree_util.tree_map(lambda x: x[None], as_arrays(globals)), np.array([count], np.int32),
                   np.array([len(senders)], np.int32), by_sender=stable_order(senders, count).astype(np.int32))

    @property
    def n_nodes(self) -> int:
        """Number of nodes, padding included. Raises: TypeError if `nodes` is None and `n_node` is traced."""
        leaves = tree_util.tree_leaves(self.nodes)
        if leaves:
            return leaves[0].shape[0]
        try:
            return int(np.sum(np.asarray(self.n_node)))
        except TracerArrayConversionError as err:
            raise bad("Graph.n_nodes", "the number of nodes is not known while tracing", {"nodes": "None"},
                      "give the graph node features, such as np.zeros((n, 0)).") from err

    @property
    def n_edges(self) -> int:
        """Number of edges, padding included."""
        return self.senders.shape[0]

    @property
    def n_graphs(self) -> int:
        """Number of graphs, padding included."""
        return self.n_node.shape[0]

    @property
    def node_graph(self) -> Array | np.ndarray:
        """int32[n]: index of the graph of each node, ascending."""
        return _owner(self.n_node, self.n_nodes)

    @property
    def edge_graph(self) -> Array | np.ndarray:
        """int32[e]: index of the graph of each edge, ascending."""
        return _owner(self.n_edge, self.n_edges)

    @property
    def node_mask(self) -> Array | None:
        """bool[n]: False for nodes of padding; None without padding."""
        return None if self.mask is None else jnp.asarray(self.mask)[self.node_graph]

    @property
    def edge_mask(self) -> Array | None:
        """bool[e]: False for edges of padding; None without padding."""
        return None if self.mask is None else jnp.asarray(self.mask)[self.edge_graph]

    @property
    def weight(self) -> ArrayLike | None:
        """[e]: the weights of the edges, see `edges`; None if they have none."""
        return self._of_edges("weight", 1)

    @property
    def edge_features(self) -> ArrayLike | None:
        """[e, d]: the features of the edges, see `edges`; None if they have none."""
        return self._of_edges("features", 2)

    def _of_edges(self, key: str, ndim: int) -> ArrayLike | None:
        if isinstance(self.edges, Mapping):
            return self.edges.get(key)
        return self.edges if getattr(self.edges, "ndim", None) == ndim else None

    def replace(self, **fields: PyTree) -> Graph:
        """A copy with other values of some fields; new senders or receivers drop `by_sender` and `rows`."""
        moved = {"senders", "receivers"} & fields.keys()
        return replace(self, **({"by_sender": None, "rows": None} if moved else {}) | fields)

    def tune(self, *, columns: int = 32, steps: int = 200, form: Form | None = None) -> Graph:
        """A copy with the form of sums over edges that takes the least total time, compilation included: `CSR.tune`.

        Use it for one large graph whose structure does not change: each structure needs a program of its own.

        Raises: TypeError if the graph is traced; ValueError if the edges are not sorted (`by_sender` is None).
        """
        check_choice("Graph.tune", "form", form, ("unrolled", "segments", None))
        form = form or best_form(self.n_edges, columns, steps)
        if form == "segments":
            return self.replace(rows=None)
        graph = host("Graph.tune", self)
        if graph.by_sender is None:
            raise bad("Graph.tune", "the edges are not sorted", {"graph": repr(self)}, "make it with Graph.from_edges.",
                      ValueError)
        by_sender = graph.senders[graph.by_sender]
        pair = [make_rows(np.searchsorted(ends, np.arange(graph.n_nodes + 1)), others)
                for ends, others in ((graph.receivers, graph.senders), (by_sender, graph.receivers[graph.by_sender]))]
        return self.replace(rows=tuple(pair))

    def degree(self, *, weighted: bool = False) -> Array:
        """float32[n]: number of edges that each node receives; with `weighted` the sum of their weights."""
        weight = self.weight if weighted else None
        weight = np.ones(self.n_edges, np.float32) if weight is None else weight
        return segment_sum(weight, self.receivers, self.n_nodes, mask=self.edge_mask,
                           is_sorted=self.by_sender is not None)

    def __repr__(self) -> str:
        parts = [f"{name} {tree_text(value)}" for name, value in
                 (("nodes", self.nodes), ("edges", self.edges), ("globals", self.globals)) if value is not None]
        graphs = f"{self.n_graphs} graphs, " if self.n_graphs != 1 else ""
        try:
            nodes = f"{self.n_nodes} nodes"
        except TypeError:
            nodes = "unknown nodes"
        return f"<Graph of {graphs}{nodes}, {self.n_edges} edges{'; ' if parts else ''}{', '.join(parts)}>"


tree_util.register_dataclass(Graph)


def _owner(counts: Array | np.ndarray, total: int) -> Array | np.ndarray:
    """int32[total]: the group of each row, where group i has ``counts[i]`` rows."""
    if isinstance(counts, np.ndarray):
        return np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return jnp.repeat(jnp.arange(counts.shape[0], dtype=np.int32), counts, total_repeat_length=total)
