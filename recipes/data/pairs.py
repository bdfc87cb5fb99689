"""Pairs of nodes of a graph: edges, and the same number of other pairs; and pairs in a csv file."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from recipes.data.encodings import encoding_of
from recipes.data.linked_graph import LinkedGraph
from recipes.errors import DataError
from recipes.lazy import sp, xnn


@dataclass(frozen=True)
class Links:
    """Pairs of nodes, the first `edges` of which are edges, and the graph from which codes are computed."""

    adjacency: Any
    features: Any
    pairs: np.ndarray
    edges: int

    def __len__(self) -> int:
        return len(self.pairs)


def split_links(graph: LinkedGraph, fractions: tuple[float, float], seed: int) -> dict[str, Links]:
    """The splits train, val and test; all codes are computed from the edges of train.

    Args: fractions: of the edges for val and test.
    """
    n = len(graph.ids)
    whole = xnn.graph.Graph.from_edges(*graph.adjacency.nonzero(), n_nodes=n)
    split = xnn.graph.split_edges(whole, *fractions, seed=seed)
    ends = split.graph.receivers, split.graph.senders
    seen = sp.csr_matrix((np.asarray(graph.adjacency[ends]).ravel(), ends), shape=(n, n), dtype=np.float32)
    return {name: Links(seen, graph.features, np.concatenate(pairs), len(pairs.positive))
            for name, pairs in (("train", split.train), ("val", split.val), ("test", split.test))}


def read_pairs(file: Path) -> dict[str, list[str]]:
    """The columns source and target of a csv file; others are not read.

    Raises: DataError for a file without these columns.
    """
    try:
        with file.open(encoding=encoding_of(file), newline="") as lines:
            rows = list(csv.DictReader(lines))
    except (OSError, UnicodeDecodeError, csv.Error) as err:
        raise DataError("pairs", "the file cannot be read.", {"file": file, "why": err},
                        fix="a csv file with the columns source and target.") from None
    if not rows or not {"source", "target"} <= rows[0].keys():
        raise DataError("pairs", "there are no pairs.", {"file": file, "columns": ", ".join(rows[0] if rows else ())},
                        fix="a csv file with the columns source and target, and a line for each pair.")
    return {name: [(row[name] or "").strip() for row in rows] for name in ("source", "target")}
