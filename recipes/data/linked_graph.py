"""Graphs for link prediction, without labels of nodes, by the names of datasets in `node_classification`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recipes.data.graphs import row_normalized
from recipes.data.karate import load_karate
from recipes.data.own_graph import adjacency_of, read_graph
from recipes.data.planetoid import load_planetoid, planetoid_folder
from recipes.errors import DataError
from recipes.lazy import sp, xnn


class LinkedGraph(NamedTuple):
    """Adjacency csr[n, n], symmetric; features csr[n, f]; ids, the names of the n nodes; left_out, as in `OwnGraph`."""

    adjacency: Any
    features: Any
    ids: xnn.graph.NodeNames
    left_out: dict[str, str]

    def numbers_of(self, names: Sequence[str]) -> np.ndarray:
        """int32[len(names)], the numbers of the nodes with these names.  Raises: DataError for an unknown name."""
        unknown = sorted(self.ids.unknown(names))
        if unknown:
            raise DataError("pairs", f"the graph has no node {str(unknown[0])!r}.",
                            {"unknown": f"{len(unknown)} of {len(set(names))} names",
                             "similar": ", ".join(self.ids.similar(unknown[0])) or "none"},
                            fix="ids of nodes of the graph that was trained on.")
        return self.ids.rows(names)

    def digest(self) -> str:
        """First digits of a SHA-256 of the edges, features and names of nodes."""
        digest = hashlib.sha256("\0".join(self.ids).encode())
        for matrix in (sp.csr_matrix(self.adjacency), sp.csr_matrix(self.features)):
            matrix.sort_indices()
            for part in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64),
                         matrix.data.astype(np.float32)):
                digest.update(part.tobytes())
        return digest.hexdigest()[:12]


def read_linked(dataset: str, folder: Path | None, root: Path | None) -> LinkedGraph:
    """Reads a graph.  Args: folder: of a user's own graph; root: of the files of Planetoid.  Raises: DataError."""
    if folder is not None:
        own = read_graph(folder)
        return LinkedGraph(adjacency_of(own), sp.csr_matrix(own.features), own.ids, own.left_out)
    if dataset == "karate":
        graph = load_karate((0, 33))
        features = graph.features
    else:
        graph = load_planetoid(dataset, planetoid_folder(root))
        features = row_normalized(graph.features)
    return LinkedGraph(graph.adjacency, features, xnn.graph.NodeNames(map(str, range(graph.labels.size))), {})
