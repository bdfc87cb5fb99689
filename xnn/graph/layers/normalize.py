"""Normalised adjacency matrices, computed once on the host.

`normalized_adjacency` scales the values of the edges and returns a `CSR`. `GraphConvolution(norm=...)` does the same in
the layer, for an adjacency that is traced or has no stored values.
"""

from typing import Literal

import numpy as np

from xjax.errors import bad, check_choice
from xnn.checks import type_text
from xnn.graph.structure.adjacency import edge_form
from xnn.graph.structure.graph import Graph
from xnn.sparse import CSR, is_scipy_sparse

Norm = Literal["symmetric", "row"]


def normalized_adjacency(
    adj: object, norm: Norm = "symmetric", self_loops: bool = True, *, n_nodes: int | None = None
) -> CSR:
    """``D^-1/2 (A + I) D^-1/2`` or ``D^-1 (A + I)``, with D the diagonal matrix of the row sums of ``A + I``.

    The symmetric form is that of Kipf and Welling (2017); the row form computes a mean over the neighbours. A row whose
    sum is 0 (a node without edges and self loop) stays 0.

    Args:
      adj: SciPy sparse matrix, `CSR`, `Graph`, edge form ``((rows, cols), values)`` (values None: ones), or a dense
        square array; concrete, not traced. Repeated edges are summed. The matrix is not made symmetric.
      norm: "symmetric" or "row".
      self_loops: whether to add the identity. The weight of an existing self loop increases by 1.
      n_nodes: number of nodes of an edge form; its largest index plus one if None.
    Returns: CSR [n, n], float32 (float64 in x64 mode).
    Raises: ValueError for an unknown norm, a matrix that is not square, a negative row sum.
    """
    caller = "normalized_adjacency"
    check_choice(caller, "norm", norm, ("symmetric", "row"))
    csr = _as_csr(adj, n_nodes)
    n, n_cols = csr.shape
    if n != n_cols:
        fix = "pass one row and one column for each node."
        raise bad(caller, "adj is not square", {"adj": type_text(csr)}, fix, ValueError)
    rows, cols = np.asarray(csr.rows), np.asarray(csr.indices)
    values = np.asarray(csr.data).astype(np.float64)
    if self_loops:
        loops = np.arange(n)
        rows, cols = np.concatenate([rows, loops]), np.concatenate([cols, loops])
        values = np.concatenate([values, np.ones(n)])
    rows, cols, values = _merged(rows, cols, values, n)
    degree = np.bincount(rows, weights=values, minlength=n)
    if np.any(degree < 0):
        worst = int(np.argmin(degree))
        raise bad(caller, "a row of the adjacency has a negative sum", {"row": str(worst), "sum": f"{degree[worst]:g}"},
                  fix="use weights >= 0: the row sums of a signed graph are not degrees.", exc=ValueError)
    values = values * _scale(norm, degree, rows, cols)
    return CSR.from_edges(rows, cols, values, shape=(n, n))


def _scale(norm: Norm, degree: np.ndarray, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    safe = np.where(degree > 0, degree, 1.0)
    if norm == "row":
        return np.where(degree > 0, 1.0 / safe, 0.0)[rows]
    root = np.where(degree > 0, safe**-0.5, 0.0)
    return root[rows] * root[cols]


def _merged(rows: np.ndarray, cols: np.ndarray, values: np.ndarray,
            n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries with duplicates summed, sorted by row and column."""
    places, group = np.unique(rows.astype(np.int64) * n + cols, return_inverse=True)
    values = np.bincount(group, weights=values, minlength=len(places))
    return *np.divmod(places, max(n, 1)), values


def _as_csr(adj: object, n_nodes: int | None) -> CSR:
    if isinstance(adj, CSR):
        return adj
    if isinstance(adj, Graph):
        return CSR.from_edges(adj.receivers, adj.senders, adj.weight, shape=(adj.n_nodes,) * 2)
    if is_scipy_sparse(adj):
        return CSR.from_scipy(adj)
    edges = edge_form(adj)
    if edges is None:
        return CSR.from_dense(adj)
    rows, cols, values = edges
    if n_nodes is None:
        n_nodes = 1 + max((int(np.max(part)) for part in (rows, cols) if np.size(part)), default=-1)
    return CSR.from_edges(rows, cols, values, shape=(n_nodes, n_nodes))
