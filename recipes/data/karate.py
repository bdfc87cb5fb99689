"""Zachary's karate club (1977): 34 members, 78 friendships, two factions; comes with networkx."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recipes.data.graphs import LabelledGraph
from recipes.errors import DataError
from recipes.lazy import nx, sp


def load_karate(labelled: Sequence[int] = (0, 33)) -> LabelledGraph:
    """The club with one-hot features; only ``labelled`` nodes may be trained on.

    The 34 nodes are too few for a validation set: all other nodes are the test set, and ``val`` is empty.

    Raises: DataError if a labelled node is not in the graph, or a faction has no labelled node.
    """
    club = nx.karate_club_graph()
    n = club.number_of_nodes()
    labels = np.array([club.nodes[i]["club"] != "Mr. Hi" for i in range(n)], np.int32)
    train = np.unique(np.asarray(labelled, dtype=np.int64))
    inside = train[(train >= 0) & (train < n)]
    if len(inside) < len(train) or len(np.unique(labels[inside])) < 2:
        n_hi, n_officer = np.bincount(labels)
        raise DataError("karate", "the labelled nodes must be nodes of the graph, at least one of each faction.",
                        {"task.labelled": train.tolist(), "nodes": f"0 .. {n - 1}",
                         "factions": f"Mr. Hi {n_hi} nodes, e.g. 0; Officer {n_officer} nodes, e.g. 33"},
                        fix="task.labelled='[0, 33]', the two leaders.")
    adjacency = nx.to_scipy_sparse_array(club, nodelist=range(n), weight=None, dtype=np.float32)
    return LabelledGraph(sp.csr_matrix(adjacency), sp.identity(n, dtype=np.float32, format="csr"), labels, n_classes=2,
                         split={"train": train, "val": train[:0], "test": np.setdiff1d(np.arange(n), train)})
