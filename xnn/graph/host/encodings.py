"""Encodings of the position of a node in its graph, as additional node features; computed once, on the host.

Each returns float32[n, k] for a graph or a batch, with each graph of a batch encoded independently; padding rows are 0.
Append them to the features: ``graph.replace(nodes=np.concatenate([graph.nodes, encoding], 1))``.
"""

from typing import Any, Literal

import numpy as np

from xjax.errors import bad
from xnn.graph.host.transforms import degree, is_undirected
from xnn.graph.structure.arrays import host, library
from xnn.graph.structure.graph import Graph

_DENSE = 1000                  # largest number of nodes for the dense solver; above, the sparse solver is faster
_COLUMNS = 256                 # number of columns of a matrix power per pass: bounds the memory


def degree_encoding(graph: Graph, max_degree: int, direction: Literal["in", "out"] = "in") -> np.ndarray:
    """The degree of each node, one-hot in ``max_degree + 1`` columns; larger degrees count as `max_degree`.

    >>> from xnn.graph import Graph
    >>> degree_encoding(Graph.from_edges([0, 1, 2], [1, 2, 1]), 1)
    array([[1., 0.],
           [0., 1.],
           [0., 1.]], dtype=float32)
    """
    _check_count("degree_encoding", "max_degree", max_degree, 0)
    graph = host("degree_encoding", graph)
    column = np.minimum(degree(graph, direction).astype(np.int64), max_degree)
    return _real((column[:, None] == np.arange(max_degree + 1)).astype(np.float32), graph)


def random_walk_encoding(graph: Graph, k: int) -> np.ndarray:
    """The probabilities that a random walk is at its first node again after 1, ..., k steps (Dwivedi et al., 2022).

    A walk follows the edges from senders to receivers, with probabilities in proportion to the weights, if there are
    any. It ends at a node without outgoing edges.

    Raises: ValueError for a negative weight.
    """
    caller = "random_walk_encoding"
    _check_count(caller, "k", k, 1)
    graph = host(caller, graph)
    step = _adjacency(graph, with_weights=True).T.tocsr()               # row: current node, column: next node
    if step.nnz and step.data.min() < 0:
        raise bad(caller, "a weight is negative", {"graph": repr(graph), "least weight": f"{step.data.min():g}"},
                  "remove the weights: graph.replace(edges=None).", ValueError)
    total = np.asarray(step.sum(1)).reshape(-1)
    step = step.multiply(1 / np.where(total > 0, total, 1)[:, None]).tocsr()
    # The graphs of a batch share no matrix entries, so column j of the powers serves node j of every graph.
    own = np.arange(graph.n_nodes) - np.repeat(np.cumsum(graph.n_node) - graph.n_node, graph.n_node)
    encoding = np.zeros((graph.n_nodes, k))
    for first in range(0, int(own.max(initial=-1)) + 1, _COLUMNS):
        nodes = np.flatnonzero((own >= first) & (own < first + _COLUMNS))
        power = np.zeros((graph.n_nodes, int(own[nodes].max()) + 1 - first))
        power[nodes, own[nodes] - first] = 1
        for i in range(k):
            power = step @ power
            encoding[nodes, i] = power[nodes, own[nodes] - first]
    return _real(encoding.astype(np.float32), graph)


def laplacian_encoding(graph: Graph, k: int) -> np.ndarray:
    """Eigenvectors of the symmetric normalised Laplacian for its smallest eigenvalues except the first.

    This is the encoding of Dwivedi et al., 2020. It has k columns; a graph with n < k + 1 nodes fills the first n - 1,
    and the others are 0. The sign of an eigenvector is arbitrary: here the entry of largest magnitude is positive. For
    equal eigenvalues the basis of eigenvectors is arbitrary too. Weights and self loops are ignored.

    Raises: ValueError for a directed graph.
    """
    caller = "laplacian_encoding"
    _check_count(caller, "k", k, 1)
    graph = host(caller, graph).replace(edges=None)
    if not is_undirected(graph):
        raise bad(caller, "the graph is directed", {"graph": repr(graph)}, "pass to_undirected(graph).", ValueError)
    adjacency = _adjacency(graph, with_weights=False)
    adjacency.setdiag(0)
    count = np.asarray(adjacency.sum(1)).reshape(-1)
    root = np.where(count > 0, 1 / np.sqrt(np.maximum(count, 1)), 0)
    adjacency = adjacency.multiply(root[:, None]).multiply(root[None]).tocsr()
    encoding, first = np.zeros((graph.n_nodes, k)), np.cumsum(graph.n_node) - graph.n_node
    real = np.ones(graph.n_graphs, bool) if graph.mask is None else graph.mask
    coo = adjacency.tocoo()
    for n in np.unique(graph.n_node[real]):                             # graphs of equal size are solved together
        starts = first[real & (graph.n_node == n)]
        width = min(k, n - 1)
        if width < 1:
            continue
        rows = starts[:, None] + np.arange(n)
        if n <= _DENSE:
            vectors = _dense_vectors(coo, graph, starts, n, width)
            encoding[rows, :width] = _signed(vectors)
        else:
            for start in starts:
                block = adjacency[start:start + n, start:start + n]
                encoding[start:start + n, :width] = _signed(_sparse_vectors(block, width)[None])[0]
    return encoding.astype(np.float32)


def _dense_vectors(coo: Any, graph: Graph, starts: np.ndarray, n: int, width: int) -> np.ndarray:
    """[graphs, n, width]: eigenvectors of graphs with n nodes each, which begin at the nodes `starts`."""
    place = np.full(graph.n_nodes, -1)
    rows = starts[:, None] + np.arange(n)
    place[rows] = np.arange(len(starts))[:, None]
    kept = place[coo.row] >= 0
    row, col, which = coo.row[kept], coo.col[kept], place[coo.row[kept]]
    laplacian = np.zeros((len(starts), n, n)) + np.eye(n)
    laplacian[which, row - starts[which], col - starts[which]] -= coo.data[kept]
    return np.linalg.eigh(laplacian)[1][:, :, 1:width + 1]


def _sparse_vectors(adjacency: Any, width: int) -> np.ndarray:
    """[n, width]: eigenvectors of the largest eigenvalues of A, which are the smallest eigenvalues of 1 - A."""
    n = adjacency.shape[0]
    start = np.random.default_rng(0).normal(size=n)                     # ARPACK's default start is random
    values, vectors = library("scipy.sparse.linalg").eigsh(adjacency, k=min(width + 1, n - 1), which="LA", v0=start)
    return vectors[:, np.argsort(-values)[1:width + 1]]


def _signed(vectors: np.ndarray) -> np.ndarray:
    """[graphs, n, k] with the largest entry of each column made positive; ties within rounding: the first entry."""
    size = np.abs(vectors)
    largest = np.argmax(size >= size.max(1, keepdims=True) * (1 - 1e-6), axis=1)
    return vectors * np.where(np.take_along_axis(vectors, largest[:, None], 1) < 0, -1, 1)


def _adjacency(graph: Graph, with_weights: bool) -> Any:
    """The sparse adjacency in float64, without padding edges; without weights all entries are 1, repeated edges too."""
    adjacency = (graph if with_weights else graph.replace(edges=None)).to_scipy().astype(np.float64)
    if not with_weights:
        adjacency.data[:] = 1
    return adjacency


def _real(encoding: np.ndarray, graph: Graph) -> np.ndarray:
    return encoding if graph.mask is None else np.where(graph.mask[graph.node_graph][:, None], encoding, 0)


def _check_count(caller: str, name: str, count: int, least: int) -> None:
    if not isinstance(count, int | np.integer) or count < least:
        raise bad(caller, f"`{name}` must be an integer of at least {least}", {name: repr(count)},
                  f"pass for example {name}=8.", ValueError)
