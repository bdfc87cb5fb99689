"""Graphs for link prediction, without labels of nodes, by the names of datasets in `node_classification`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recipes.data.graphs import row_normalized
from recipes.data.karate import load_karate
from recipes.data.node_features import OwnGraphConfig, encoding_of
from recipes.data.own_graph import adjacency_of, has_edges, read_graph
from recipes.data.planetoid import load_planetoid, planetoid_folder
from recipes.errors import DataError
from recipes.lazy import sp, xnn


class LinkedGraph(NamedTuple):
    """A graph whose edges are predicted.

    Attributes:
      adjacency: csr[n, n], symmetric, ones or weights of edges.
      features: csr[n, f].
      ids: the names of the n nodes.
      facts: rows of a summary.
      one_hot: whether the features are one-hot vectors of the nodes of a user's own graph.
      weighted: whether the edges have weights.
    """

    adjacency: Any
    features: Any
    ids: xnn.graph.NodeNames
    facts: dict[str, str] = {}
    one_hot: bool = False
    weighted: bool = False

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


def read_linked(dataset: str, config: OwnGraphConfig, root: Path | None, unused: str = "") -> LinkedGraph:
    """Reads a graph.  Raises: DataError.

    Args: config: of a user's own graph; root: of the files of Planetoid; unused: as in `read_graph`.
    """
    if config.folder is not None:
        own = read_graph(config.folder, unused)
        if not has_edges(own):
            raise DataError("graph", "there are no edges to learn from.",
                            {"file": own.nodes.file, "nodes": len(own.ids), **own.left_out},
                            fix="a line for each edge, with two nodes, in edges.csv.")
        encoding, facts = encoding_of(own, config, np.arange(len(own.ids)))
        return LinkedGraph(adjacency_of(own, own.mean_weight), encoding.matrix(own), own.ids, facts,
                           one_hot=bool(encoding.ids), weighted=own.weights is not None)
    if dataset == "karate":
        graph = load_karate((0, 33))
        features = graph.features
    else:
        graph = load_planetoid(dataset, planetoid_folder(root))
        features = row_normalized(graph.features)
    return LinkedGraph(graph.adjacency, features, xnn.graph.NodeNames(map(str, range(graph.labels.size))))
