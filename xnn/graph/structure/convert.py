"""The methods of `Graph` that convert from and to the objects of other libraries.

The objects are recognised by their attributes; networkx, torch_geometric and jraph are imported only to create their
objects. Floating-point numbers and integers are converted to the dtypes that arrays have on a device (float32 and int32
without x64 mode).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from xjax import tree_util
from xjax.errors import bad
from xjax.typing import ArrayLike, PyTree
from xnn.checks import type_text
from xnn.graph.structure.arrays import canonical, host, library, without_padding
from xnn.sparse import CSR, is_scipy_sparse


class Conversions:
    """The base class of `Graph` with its conversion methods."""

    __slots__ = ()
    from_edges: Any                                        # defined in Graph, as the fields are

    # -- matrices: entry [i, j] is an edge from j to i ----------------------------------------------------------------

    @classmethod
    def from_dense(cls, adj: Any, nodes: ArrayLike | None = None, *, globals: Any = None) -> Self:
        """Makes edges of the non-zero entries of a square array, with the values as weights; bools give no weights.

        >>> from xnn.graph import Graph
        >>> graph = Graph.from_dense([[0, 0.5], [1, 0]])
        >>> graph.senders, graph.receivers, graph.weight
        (array([1, 0], dtype=int32), array([0, 1], dtype=int32), array([0.5, 1. ], dtype=float32))
        """
        adj = canonical(host("Graph.from_dense", adj))
        _check_square("Graph.from_dense", adj)
        receivers, senders = np.nonzero(adj)
        weight = None if adj.dtype == bool else adj[receivers, senders]
        return cls.from_edges(senders, receivers, nodes, weight, globals=globals, n_nodes=len(adj))

    def to_dense(self) -> np.ndarray:
        """[n, n]: the adjacency matrix of the weights, or of ones (float32); repeated edges are summed.

        This and the other matrices do not include padding edges; padding nodes keep their rows.
        """
        senders, receivers, weight, n = _entries("Graph.to_dense", self)
        dense = np.zeros((n, n), weight.dtype)
        np.add.at(dense, (receivers, senders), weight)
        return dense

    @classmethod
    def from_scipy(cls, matrix: Any, nodes: ArrayLike | None = None, *, globals: Any = None) -> Self:
        """Makes edges of the stored entries of a square SciPy sparse matrix; see `from_dense`. It sums duplicates."""
        if not is_scipy_sparse(matrix):
            raise bad("Graph.from_scipy", "this is not a SciPy sparse matrix", {"matrix": type_text(matrix)},
                      "use Graph.from_dense for an array, Graph.from_edges for lists of edges.")
        _check_square("Graph.from_scipy", matrix)
        matrix = matrix.tocsr(copy=True)
        matrix.sum_duplicates()
        matrix = matrix.tocoo()
        weight = None if matrix.dtype == bool else canonical(matrix.data)
        return cls.from_edges(matrix.col, matrix.row, nodes, weight, globals=globals, n_nodes=matrix.shape[0])

    def to_scipy(self) -> Any:
        """The adjacency matrix as `scipy.sparse.csr_array` [n, n]; see `to_dense`."""
        senders, receivers, weight, n = _entries("Graph.to_scipy", self)
        coo_array = library("scipy.sparse").coo_array
        return coo_array((weight, (receivers, senders)), shape=(n, n)).tocsr()

    @classmethod
    def from_csr(cls, csr: CSR, nodes: ArrayLike | None = None, *, globals: Any = None) -> Self:
        """Makes edges of the stored entries of a square `CSR`, with the values as weights."""
        _check_square("Graph.from_csr", csr)
        return cls.from_edges(csr.indices, csr.rows, nodes, csr.data, globals=globals, n_nodes=csr.shape[0])

    def to_csr(self) -> CSR:
        """The adjacency matrix as `CSR` [n, n], of the weights or ones; repeated edges are repeated entries."""
        senders, receivers, weight, n = _entries("Graph.to_csr", self)
        return CSR.from_edges(receivers, senders, weight, shape=(n, n))

    # -- networkx -------------------------------------------------------------------------------------------------

    @classmethod
    def from_networkx(cls, graph: Any, *, nodes: str | Sequence[str] | None = None,
                      edges: str | Sequence[str] | None = None, globals: ArrayLike | None = None) -> Self:
        """Converts a networkx graph of any class; node i is ``list(graph)[i]``. An undirected edge becomes two edges.

        Args:
          nodes, edges: the attributes that become features: one name gives an array, several names a dict of arrays.
            With ``edges=("weight", "features")`` layers read both.
          globals: features of the graph, as in `from_edges`.
        Raises: ValueError if a node or an edge lacks the attribute, or shapes differ.
        """
        caller = "Graph.from_networkx"
        if not (hasattr(graph, "is_directed") and hasattr(graph, "nodes")):
            raise bad(caller, "this is not a networkx graph", {"graph": type_text(graph)}, "pass a networkx.Graph.")
        number = {label: i for i, label in enumerate(graph)}
        listed = list(graph.edges(data=True))
        ends = np.array([(number[one], number[other]) for one, other, _ in listed], np.int64).reshape(-1, 2)
        features = _attributes(caller, "edge", edges, [(edge[:2], edge[2]) for edge in listed])
        if not graph.is_directed():
            back = np.flatnonzero(ends[:, 0] != ends[:, 1])                # a self loop is one edge
            ends = np.concatenate([ends, ends[back, ::-1]])
            features = tree_util.tree_map(lambda x: np.concatenate([x, x[back]]), features)
        return cls.from_edges(*ends.T, _attributes(caller, "node", nodes, list(graph.nodes(data=True))), features,
                              globals=globals, n_nodes=len(number))

    def to_networkx(self, labels: Sequence[Any] | None = None) -> Any:
        """Converts to `networkx.DiGraph`, or `MultiDiGraph` if an edge is repeated, with the features as attributes.

        An array of node features becomes the attribute "features". A vector of edges becomes "weight", a matrix
        "features". The arrays of a dict keep their keys as names.

        Args: labels: the label of each node; if None, 0, 1, ...
        Raises: ValueError for a graph with padding; ImportError without networkx.
        """
        graph = without_padding("Graph.to_networkx", self)
        networkx = library("networkx", "Graph.to_networkx")
        labels = range(graph.n_nodes) if labels is None else labels
        if len(labels) != graph.n_nodes:
            raise bad("Graph.to_networkx", "needs one label for each node",
                      {"labels": len(labels), "nodes": graph.n_nodes}, "pass one label for each node.", ValueError)
        places = graph.receivers.astype(np.int64) * graph.n_nodes + graph.senders
        result = networkx.MultiDiGraph() if len(np.unique(places)) < len(places) else networkx.DiGraph()
        node_features = _named(graph.nodes, {}, "features")
        edge_features = _named(graph.edges, {1: "weight"}, "features")
        result.add_nodes_from(zip(labels, _records(node_features, graph.n_nodes), strict=True))
        ends = ((labels[i], labels[j]) for i, j in zip(graph.senders.tolist(), graph.receivers.tolist(), strict=True))
        result.add_edges_from((*pair, record) for pair, record in
                            zip(ends, _records(edge_features, graph.n_edges), strict=True))
        return result

    # -- PyTorch Geometric ----------------------------------------------------------------------------------------

    @classmethod
    def from_pyg(cls, data: Any, *, nodes: str | Sequence[str] = "x",
                 globals: str | Sequence[str] | None = None) -> Self:
        """Converts a `torch_geometric.data.Data` or `Batch`.

        `edge_weight` becomes the weights and `edge_attr` the features of edges; without `edge_weight`, an `edge_attr`
        [e] of floating-point numbers becomes the weights. Labels are included only if they are named: ``globals="y"``
        for labels of graphs, ``nodes=("x", "y")`` for labels of nodes. They are then batched and padded with the graph.

        Args: nodes, globals: names of attributes with one row for each node or graph: one name gives an array, several
          names a dict.
        Raises: TypeError without `edge_index`; ValueError if the number of rows is wrong, or the nodes of a batch are
          not in the order of its graphs.
        """
        caller = "Graph.from_pyg"
        if getattr(data, "edge_index", None) is None:
            raise bad(caller, "there is no `edge_index`", {"data": type_text(data)}, "pass a Data with edges; for "
                      "data.adj_t, use Graph.from_scipy(data.adj_t.to_scipy()).")
        senders, receivers = canonical(data.edge_index)
        x = _picked(caller, data, nodes, missing_is_none=nodes == "x")
        count = int(data.num_nodes) if getattr(data, "num_nodes", None) is not None else None
        graph = cls.from_edges(senders, receivers, x, _pyg_edges(data), n_nodes=count)
        owner = getattr(data, "batch", None)
        if owner is not None:
            graph = _grouped(caller, graph, canonical(owner), getattr(data, "ptr", None))
        of_graphs = _picked(caller, data, globals)
        rows = tree_util.tree_map(lambda y: y.reshape(1) if y.ndim == 0 else y, of_graphs)
        if any(len(y) != graph.n_graphs for y in tree_util.tree_leaves(rows)):
            raise bad(caller, "`globals` needs one row for each graph", {"globals": type_text(of_graphs),
                      "graphs": graph.n_graphs}, "name attributes of graphs here, attributes of nodes in nodes=.",
                      ValueError)
        return graph.replace(globals=rows)

    def to_pyg(self) -> Any:
        """Converts to `torch_geometric.data.Data`: x, edge_index, edge_weight, edge_attr; batch and ptr for a batch.

        If `nodes` or `globals` is a dict, its keys are the names of the attributes; an array of globals becomes `u`.

        Raises: ValueError for a graph with padding; ImportError without PyTorch Geometric.
        """
        graph = without_padding("Graph.to_pyg", self)
        torch = library("torch", "Graph.to_pyg")
        parts = {**_named(graph.nodes, {}, "x"), **_named(graph.globals, {}, "u"),
                 "edge_index": np.stack([graph.senders, graph.receivers]).astype(np.int64)}
        edges = _named(graph.edges, {1: "weight"}, "features")
        parts |= {{"weight": "edge_weight", "features": "edge_attr"}.get(key, key): x for key, x in edges.items()}
        if graph.n_graphs != 1:
            parts["batch"] = graph.node_graph.astype(np.int64)
            parts["ptr"] = np.concatenate([[0], np.cumsum(graph.n_node)])
        tensors = {key: torch.from_numpy(np.array(x)) for key, x in parts.items()}
        data = library("torch_geometric.data", "Graph.to_pyg")
        return data.Data(num_nodes=graph.n_nodes, **tensors)

    # -- jraph ----------------------------------------------------------------------------------------------------

    @classmethod
    def from_jraph(cls, graphs: Any, mask: ArrayLike | None = None) -> Self:
        """Converts a `jraph.GraphsTuple`, and sorts its edges.

        Args: mask: bool[g], False for padding graphs, as `jraph.get_graph_padding_mask` returns; None without padding.
        """
        caller = "Graph.from_jraph"
        if not hasattr(graphs, "_asdict") or not hasattr(graphs, "n_node"):
            raise bad(caller, "this is not a GraphsTuple", {"graphs": type_text(graphs)}, "pass a jraph.GraphsTuple.")
        graphs = host(caller, graphs)
        joined = cls.from_edges(graphs.senders, graphs.receivers, graphs.nodes, graphs.edges,
                                n_nodes=int(np.sum(graphs.n_node)))
        owner = np.repeat(np.arange(len(graphs.n_node)), graphs.n_node)
        joined = _grouped(caller, joined, owner, np.cumsum([0, *graphs.n_node]))
        return joined.replace(globals=graphs.globals, mask=None if mask is None else np.asarray(mask))

    def to_jraph(self) -> Any:
        """Converts to `jraph.GraphsTuple`, with padding as jraph expects it. Raises: ImportError without jraph."""
        graph: Any = host("Graph.to_jraph", self)
        return library("jraph", "Graph.to_jraph").GraphsTuple(
            nodes=graph.nodes, edges=graph.edges, senders=graph.senders, receivers=graph.receivers,
            globals=graph.globals, n_node=graph.n_node, n_edge=graph.n_edge)


def _check_square(caller: str, matrix: Any) -> None:
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise bad(caller, "the adjacency is not square", {"adj": type_text(matrix)},
                  "pass one row and one column for each node.", ValueError)


def _entries(caller: str, graph: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """(senders, receivers, weight, number of nodes) without padding edges."""
    graph = host(caller, graph)
    weight = np.ones(graph.n_edges, np.float32) if graph.weight is None else graph.weight
    real = slice(None) if graph.mask is None else graph.mask[graph.edge_graph]
    return graph.senders[real], graph.receivers[real], weight[real], graph.n_nodes


def _attributes(caller: str, kind: str, names: str | Sequence[str] | None, records: Sequence[tuple[Any, Any]]) -> Any:
    """The named attributes, as an array or a dict of arrays."""
    if names is None:
        return None
    if not isinstance(names, str):
        return {name: _attributes(caller, kind, name, records) for name in names}
    for key, record in records:
        if names not in record:
            raise bad(caller, f"the {kind} {key!r} has no attribute {names!r}",
                      {"attributes": ", ".join(map(str, record)) or "none"},
                      f"name an attribute that every {kind} has.", ValueError)
    try:
        column = np.array([record[names] for _, record in records])
    except ValueError:                                     # the shapes differ
        column = np.array(None)
    if column.dtype.kind in "OUSMm":
        raise bad(caller, f"the attribute {names!r} cannot form an array", {names: repr(records[0][1][names])},
                  f"give every {kind} numbers of one shape.", ValueError)
    return canonical(column)


def _named(tree: PyTree, by_rank: dict[int, str], otherwise: str) -> dict[str, np.ndarray]:
    """Arrays by name: a dict is copied, a single array gets the name for its rank."""
    if tree is None:
        return {}
    return dict(tree) if isinstance(tree, dict) else {by_rank.get(np.ndim(tree), otherwise): tree}


def _records(columns: dict[str, np.ndarray], count: int) -> Any:
    """For each row a dict of its values; elements of vectors become Python numbers."""
    lists = [column.tolist() if column.ndim == 1 else list(column) for column in columns.values()]
    return (dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)) if lists else (
        {} for _ in range(count))


def _picked(caller: str, data: Any, names: str | Sequence[str] | None, missing_is_none: bool = False) -> Any:
    if names is None or (missing_is_none and getattr(data, str(names), None) is None):
        return None
    if not isinstance(names, str):
        return {name: _picked(caller, data, name) for name in names}
    if getattr(data, names, None) is None:
        raise bad(caller, f"the data has no attribute {names!r}", {"data": repr(data)},
                  "name an attribute of the data.", ValueError)
    return canonical(getattr(data, names))


def _pyg_edges(data: Any) -> Any:
    weight, features = getattr(data, "edge_weight", None), getattr(data, "edge_attr", None)
    if features is None:
        return None if weight is None else canonical(weight)
    features = canonical(features)
    if weight is not None:
        return {"weight": canonical(weight), "features": features}
    # A vector of integers may hold categories, such as types of bonds, so it must not be read as weights.
    return {"features": features} if features.ndim == 1 and features.dtype.kind in "iu" else features


def _grouped(caller: str, graph: Any, owner: np.ndarray, ends: ArrayLike | None) -> Any:
    """A single graph as a batch, in which node i belongs to graph ``owner[i]``."""
    if np.any(np.diff(owner) < 0) or np.any(owner[graph.senders] != owner[graph.receivers]):
        raise bad(caller, "the graphs of the batch are not stored one after another", {"batch": type_text(owner)},
                  "pass a batch whose nodes are in the order of the graphs, without edges between graphs.", ValueError)
    count = len(canonical(ends)) - 1 if ends is not None else int(owner.max(initial=-1)) + 1
    n_node, n_edge = np.bincount(owner, minlength=count), np.bincount(owner[graph.receivers], minlength=count)
    return graph.replace(n_node=n_node.astype(np.int32), n_edge=n_edge.astype(np.int32))
