"""Facts about a graph for a preview: degrees, components, its first nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from recipes.data.facts import Table
from recipes.lazy import csgraph, sp

FIRST_NODES = "First nodes, and that with the most edges"      # title
FIRST = 8                                                     # nodes that are listed


def structure(adjacency: sp.csr_matrix) -> Table:
    """Numbers of nodes, edges and components, and the degrees.  Args: adjacency: symmetric, empty diagonal."""
    degrees = degrees_of(adjacency)
    least, median, mean, most = (degrees.min().item(), float(np.median(degrees)), float(degrees.mean()),
                                 degrees.max().item())
    components, of_node = csgraph.connected_components(adjacency, directed=False)
    largest = int(np.bincount(of_node).max())
    rows = [("nodes", len(degrees)), ("edges", int(degrees.sum()) // 2),
            ("nodes without an edge", int((degrees == 0).sum())), ("connected components", int(components)),
            ("nodes of the largest component", largest), ("edges of a node, least", least),
            ("edges of a node, median", median), ("edges of a node, mean", mean), ("edges of a node, most", most)]
    return Table(("", "number"), rows)


def first_nodes(ids: Sequence[str], adjacency: sp.csr_matrix, more: Mapping[str, Sequence[str]]) -> Table:
    """The first nodes and the one with the most edges.  Args: more: name of another column -> a cell for each node."""
    degrees = degrees_of(adjacency)
    shown = dict.fromkeys([*range(min(FIRST, len(ids))), int(degrees.argmax())])
    rows = [(ids[i], int(degrees[i]), *(cells[i] for cells in more.values())) for i in shown]
    return Table(("node", "edges", *more), rows)


def degrees_of(adjacency: sp.csr_matrix) -> np.ndarray:
    """i[n], the number of edges of each node."""
    return np.diff(sp.csr_matrix(adjacency).indptr)
