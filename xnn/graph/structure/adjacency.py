"""Conversion of the accepted forms of a graph to one of two.

`as_adjacency` returns an object with ``@``, for layers that only multiply by the adjacency. `as_edges` returns
`Edges`, for layers that compute messages. Both take a `Graph`, a dense array, a SciPy matrix, a `CSR`, or the edge form
``((rows, cols), values)`` of older programs. `as_adjacency` also takes any other object that has ``__matmul__``, for
example one whose product gathers rows from several devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import ops, tree_util
from xjax.errors import TracerArrayConversionError, bad, old_keywords
from xjax.typing import Array, ArrayLike, PyTree
from xnn.checks import type_text
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.graph import Graph
from xnn.graph.structure.row_block import RowBlock
from xnn.sparse import CSR, is_scipy_sparse


@dataclass(frozen=True, slots=True)
class EdgeList:
    """A square sparse matrix in coordinate form: ``values[k]`` at ``(rows[k], cols[k])``, in any order.

    Unlike `CSR` it needs no index tables, so rows and cols may be traced; its product and gradient are slower because
    the sums are unsorted. A column index out of range gives NaN and a row index out of range is ignored if traced; a
    concrete one raises IndexError.
    """

    rows: Any
    cols: Any
    values: Any

    def __matmul__(self, h: ArrayLike) -> Array:
        """[n, n] @ [n, f] -> [n, f]; n is taken from h."""
        h = jnp.asarray(h)
        _check_edges(self.rows, self.cols, h.shape[0])
        picked = jnp.take(h, jnp.asarray(self.cols), axis=0)  # out of range: NaN, never the row of another node
        values = jnp.asarray(self.values)
        weights = values.reshape(values.shape + (1,) * (h.ndim - 1))
        return ops.segment_sum(picked * weights, jnp.asarray(self.rows), num_segments=h.shape[0])


@old_keywords(where="caller")
def as_adjacency(adj: object, caller: str = "as_adjacency") -> Any:
    """Converts `adj` to an object whose ``adj @ h`` is the product with node features h: [n, f].

    A SciPy matrix is converted at every call: before a loop, convert it once with `CSR.from_scipy`.

    Args: adj: dense array [..., n, n], SciPy sparse matrix, `CSR`, `Graph`, ``((rows, cols), values)``,
      or any object with ``__matmul__``, which is returned unchanged.
    Raises: TypeError for anything else.
    """
    if isinstance(adj, CSR | EdgeList | Edges):
        return adj
    if isinstance(adj, Graph):
        return _of_graph(adj, adj.n_nodes)
    if is_scipy_sparse(adj):
        return CSR.from_scipy(adj)
    edges = edge_form(adj)
    if edges is not None:
        return EdgeList(*edges)
    if not is_array(adj) and hasattr(adj, "__matmul__"):
        return adj
    dense = _dense(adj, caller)
    if dense.ndim < 2 or dense.shape[-1] != dense.shape[-2]:
        is_of_indices = dense.shape[:-1] == (2,) and jnp.issubdtype(dense.dtype, np.integer)
        raise bad(caller, "the adjacency is not a square matrix", {"adj": type_text(dense)},
                  fix="pass Graph.from_edges(index[0], index[1], x), for indices of edges [2, e]." if is_of_indices
                  else "pass one row and one column for each node: [n, n].")
    return dense


@old_keywords(where="caller")
def as_edges(graph: object, x: PyTree, caller: str) -> Edges:
    """The edges of a graph whose nodes have the rows of x.

    Args:
      graph: `Graph`, `CSR`, SciPy sparse matrix, ``((rows, cols), values)``, or a dense square array, in which a zero
        means that there is no edge; within `pmap` a `RowBlock`. In a matrix, entry [i, j] is an edge from j to i, and
        the values are weights. `Edges` are returned unchanged.
      x: [n, ...] node features, or a pytree of arrays [n, ...]; only the number of rows is used.
      caller: name of the layer, for error messages.
    Raises: TypeError for anything else; ValueError if the graph does not have as many nodes as x has rows.
    """
    n_nodes = (x if hasattr(x, "shape") else tree_util.tree_leaves(x)[0]).shape[0]
    if isinstance(graph, Graph):
        edges = _of_graph(graph, graph.n_nodes if tree_util.tree_leaves(graph.nodes) else n_nodes)
    elif isinstance(graph, Edges):
        edges = graph
    elif isinstance(graph, RowBlock):
        edges = _of_block(graph)
    else:
        edges = _of_matrix(graph, n_nodes, caller)
    if edges.n_nodes != n_nodes:
        raise bad(caller, f"the graph has {edges.n_nodes} nodes, the features have {n_nodes} rows",
                  {"graph": _graph_text(graph), "x": type_text(x)}, "pass one row of features for each node.",
                  ValueError)
    return edges


def _of_graph(graph: Graph, n_nodes: int) -> Edges:
    received, sent = graph.rows or (None, None)
    return Edges(graph.senders, graph.receivers, graph.weight, graph.edge_features, graph.edge_mask, graph.by_sender,
                 n_nodes, received, sent)


def _of_block(block: RowBlock) -> Edges:
    if isinstance(block.local, CSR):
        edges, mask = _of_csr(block.local), np.arange(block.local.nnz) < block.n_stored
        return edges.replace(mask=mask, exchange=block)
    return _of_dense(block.local).replace(exchange=block)


def _of_matrix(graph: object, n_nodes: int, caller: str) -> Edges:
    adj = as_adjacency(graph, caller)
    if isinstance(adj, EdgeList):
        values = None if adj.values is None else jnp.asarray(adj.values)
        return Edges(jnp.asarray(adj.cols), jnp.asarray(adj.rows), values, None, None, None, n_nodes)
    if isinstance(adj, CSR):
        if adj.shape[0] != adj.shape[1]:
            raise bad(caller, "the adjacency is not square", {"graph": type_text(adj)},
                      "pass one row and one column for each node.", ValueError)
        return _of_csr(adj)
    if not hasattr(adj, "shape") or adj.ndim != 2:
        raise bad(caller, "messages need the edges of the graph", {"graph": _graph_text(graph)},
                  "pass a Graph, a CSR, a SciPy matrix, ((rows, cols), values) or a dense array [n, n].")
    return _of_dense(adj)


def _of_csr(adj: CSR) -> Edges:
    return Edges(adj.indices, adj.rows, adj.data, None, None, adj.by_col.order, adj.shape[0], adj.by_row.blocks,
                 adj.by_col.blocks)


def _of_dense(adj: Array) -> Edges:
    """Edges between all pairs of nodes, with zeros masked: the values may be traced, so they cannot be removed."""
    n_rows, n_cols = adj.shape
    senders, receivers = (each.astype(np.int32).reshape(-1) for each in np.indices((n_rows, n_cols))[::-1])
    by_sender = np.arange(n_rows * n_cols, dtype=np.int32).reshape(n_rows, n_cols).T.reshape(-1)
    weight = jnp.asarray(adj).reshape(-1)
    return Edges(senders, receivers, weight, None, weight != 0, by_sender, n_rows)


def edge_form(adj: object) -> tuple[Any, Any, Any] | None:
    """(rows, cols, values) if adj is ``((rows, cols), values)``, else None."""
    if not isinstance(adj, tuple | list) or len(adj) != 2:
        return None
    places, values = adj
    pair = isinstance(places, tuple | list) and len(places) == 2
    if pair and all(_ndim(part) == 1 for part in places):
        return (*places, values)
    if getattr(places, "ndim", None) == 2 and places.shape[0] == 2 and _ndim(values) == 1:
        return places[0], places[1], values
    return None


def is_array(x: object) -> bool:
    """Whether x is a dense array: of xjax, of NumPy, or convertible to NumPy by ``__array__``."""
    return isinstance(x, np.ndarray | xjax.Array) or hasattr(x, "__array__")


def _ndim(x: Any) -> int:
    return x.ndim if hasattr(x, "ndim") else np.ndim(x)


def _dense(adj: ArrayLike, caller: str) -> Array:
    try:
        return jnp.asarray(adj)
    except (TypeError, ValueError) as err:
        raise bad(
            caller,
            "this is not an adjacency",
            {"adj": type_text(adj)},
            fix="pass a square array, a SciPy sparse matrix, an xnn CSR, ((rows, cols), values), "
            "or an object with __matmul__.",
        ) from err


def _check_edges(rows: Any, cols: Any, n: int) -> None:
    for name, index in (("rows", rows), ("cols", cols)):
        try:
            index = np.asarray(index)
        except TracerArrayConversionError:
            continue
        if index.size and (index.min() < 0 or index.max() >= n):
            raise bad("adjacency", f"an index in {name} is out of range",
                      {name: f"from {index.min()} to {index.max()}", "nodes": str(n)},
                      fix=f"pass indices from 0 to {n - 1}, or features for every node.", exc=IndexError)


def _graph_text(graph: object) -> str:
    return repr(graph) if isinstance(graph, Graph) else type_text(graph)
