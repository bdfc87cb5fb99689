"""Pairs of the nodes of a graph: those that are edges, and as many others; those of a csv file."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

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


def read_pairs(file: Path, ids: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Pairs of a csv file with the columns source and target; other columns are not read.

    Args: ids: what the nodes are called, texts.
    Returns: (int32[m, 2] numbers of nodes in the order of the file, the two columns).
    Raises: DataError for a file without these columns, or an id that no node has.
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
    names = {name: np.array([(row[name] or "").strip() for row in rows]) for name in ("source", "target")}
    places = {name: i for i, name in enumerate(ids.tolist())}
    unknown = sorted(set(np.concatenate(list(names.values())).tolist()) - places.keys())
    if unknown:
        raise DataError("pairs", f"a pair names the node {unknown[0]!r}, which the graph has not.", {"file": file},
                        fix="ids of nodes of the graph that was trained on.")
    pairs = np.array([[places[name] for name in column.tolist()] for column in names.values()], np.int32)
    return pairs.T, names
