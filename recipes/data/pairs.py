"""Pairs of the nodes of a graph: those that are edges, and as many others; those of a csv file."""

from __future__ import annotations

import csv
import difflib
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recipes.data.graphs import row_normalized
from recipes.data.karate import load_karate
from recipes.data.own_graph import adjacency_of, read_graph
from recipes.data.planetoid import load_planetoid
from recipes.errors import DataError
from recipes.lazy import sp, xnn


@dataclass(frozen=True)
class Links:
    """Pairs of nodes, the first `edges` of which are edges, and the graph that codes are computed from."""

    adjacency: Any
    features: Any
    pairs: np.ndarray
    edges: int

    def __len__(self) -> int:
        return len(self.pairs)


def split_links(adjacency: Any, features: Any, fractions: tuple[float, float], seed: int) -> dict[str, Links]:
    """Train, val and test, whose codes are all computed from the edges of train.

    Args: adjacency: csr[n, n], symmetric; fractions: of the edges for val and test.
    """
    n = adjacency.shape[0]
    whole = xnn.graph.Graph.from_edges(*adjacency.nonzero(), n_nodes=n)
    found = xnn.graph.split_edges(whole, *fractions, seed=seed)
    ends = found.graph.receivers, found.graph.senders
    seen = sp.csr_matrix((np.ones(len(ends[0]), np.float32), ends), shape=(n, n))
    return {name: Links(seen, features, np.concatenate(pairs), len(pairs.positive))
            for name, pairs in (("train", found.train), ("val", found.val), ("test", found.test))}


def read_linked(dataset: str, folder: Path | None, root: Path | None) -> tuple[Any, Any, np.ndarray]:
    """(adjacency, features, what the nodes are called) of a graph that `node_classification` knows.

    Args: folder: of a graph of one's own; root: of the files of Planetoid.
    """
    if folder is not None:
        own = read_graph(folder)
        return adjacency_of(own), sp.csr_matrix(own.features), own.ids
    if dataset == "karate":
        graph = load_karate((0, 33))
        features = graph.features
    else:
        graph = load_planetoid(dataset, root or Path(os.environ.get("PLANETOID_DIR", "data/planetoid")))
        features = row_normalized(graph.features)
    return graph.adjacency, features, np.arange(graph.labels.size).astype(str)


def digest_of(adjacency: Any, features: Any, ids: np.ndarray) -> str:
    """Another one for another graph: edges, features or names of nodes."""
    digest = hashlib.sha256("\0".join(ids.tolist()).encode())
    for matrix in (sp.csr_matrix(adjacency), sp.csr_matrix(features)):
        matrix.sort_indices()
        for part in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data.astype(np.float32)):
            digest.update(part.tobytes())
    return digest.hexdigest()[:12]


def read_pairs(file: Path) -> dict[str, list[str]]:
    """The columns source and target of a csv file; others are not read.

    Raises: DataError for a file without these columns.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as err:
        raise DataError("pairs", "the file cannot be read.", {"file": file, "why": err},
                        fix="a csv file with the columns source and target.") from None
    if not rows or not {"source", "target"} <= rows[0].keys():
        raise DataError("pairs", "there are no pairs.", {"file": file, "columns": ", ".join(rows[0] if rows else ())},
                        fix="a csv file with the columns source and target, and a line for each pair.")
    return {name: [(row[name] or "").strip() for row in rows] for name in ("source", "target")}


def numbers_of(names: list[str], ids: np.ndarray) -> np.ndarray:
    """int32[len(names)], places of names in ids.  Raises: DataError for a name that no node has."""
    places = {name: i for i, name in enumerate(ids.tolist())}
    unknown = sorted(set(names) - places.keys())
    if unknown:
        near = difflib.get_close_matches(unknown[0], list(places), 3)
        raise DataError("pairs", f"the graph has no node {unknown[0]!r}.",
                        {"unknown": f"{len(unknown)} of {len(set(names))} names", "similar": ", ".join(near) or "none"},
                        fix="ids of nodes of the graph that was trained on.")
    return np.array([places[name] for name in names], np.int32)
