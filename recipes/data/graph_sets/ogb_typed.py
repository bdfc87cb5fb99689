"""Csv folders of the Open Graph Benchmark with several types of nodes and edges, such as ogbn-mag.

    raw/num-node-dict.csv.gz                  two lines: the types, and their numbers of nodes
    raw/triplet-type-list.csv.gz              "source,name,target" of each relation
    raw/relations/A___NAME___B/edge.csv.gz    "source,target", counted from 0 in each type
    raw/node-feat/TYPE/node-feat.csv.gz       features, of some types
    raw/node-label/TYPE/node-label.csv.gz     labels, of some types
    split/NAME/TYPE/train.csv.gz, valid, test
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import numpy as np

from recipes.data.graph_sets.files import check_rows, existing, maybe, numbers, pairs, wrong
from recipes.data.graph_sets.ogb import labels_in, split_in
from recipes.data.limits import check_file
from recipes.errors import DataError

Relation = tuple[str, str, str]


class TypedSet(NamedTuple):
    """A graph with types, as `xnn.graph.TypedSampler` takes it.

    Attributes:
      relations: (source type, name, target type) -> (senders, receivers), int64.
      n_nodes: type -> number of nodes.
      features: type -> f32[n, f], for types that have features.
      labels: type -> [n] or [n, tasks].
      split: type -> {"train", "val", "test": ids}.
    """

    relations: dict[Relation, tuple[np.ndarray, np.ndarray]]
    n_nodes: dict[str, int]
    features: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]
    split: dict[str, dict[str, np.ndarray]]


def read_ogb_typed(folder: Path, split: str | None = None) -> TypedSet:
    """Reads the set. Args: split: the folder of the split; None: the only one.  Raises: DataError."""
    folder, raw = Path(folder), Path(folder) / "raw"
    n_nodes = _counts(existing(raw, "num-node-dict.csv"))
    relations = {}
    for source, name, target in _words(existing(raw, "triplet-type-list.csv"), 3):
        file = existing(raw / "relations" / f"{source}___{name}___{target}", "edge.csv")
        ends = pairs(file)
        for kind, of in zip((source, target), ends, strict=True):
            if kind not in n_nodes or (of.size and not 0 <= of.min() <= of.max() < n_nodes[kind]):
                raise wrong(file, f"an edge ends at an unknown node of the type {kind!r}",
                            {"nodes": n_nodes.get(kind, "none"), "edges": len(of)},
                            "files of one set.")
        relations[source, name, target] = ends
    features, labels, parts = {}, {}, {}
    for kind, n in n_nodes.items():
        file = maybe(raw / "node-feat" / kind, "node-feat.csv")
        if file is not None:
            features[kind] = numbers(file)
            check_rows(len(features[kind]), n, file, "node")
        if maybe(raw / "node-label" / kind, "node-label.csv") is not None:
            labels[kind] = labels_in(raw / "node-label" / kind, "node-label", n, "node")
            parts[kind] = split_in(folder / "split", split, n, kind)
    return TypedSet(relations, n_nodes, features, labels, parts)


def _counts(file: Path) -> dict[str, int]:
    lines = _words(file)
    if len(lines) != 2 or len(lines[0]) != len(lines[1]) or not all(word.isdecimal() for word in lines[1]):
        raise wrong(file, "needs a line of types and a line of their numbers of nodes", {"lines": len(lines)},
                    "the file as it was published.")
    return dict(zip(lines[0], map(int, lines[1]), strict=True))


def _words(file: Path, columns: int | None = None) -> list[list[str]]:
    """The words of each line. Raises: DataError for a damaged file, a wrong number of words, or a word with a slash."""
    try:
        check_file(file)
        with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf-8") as lines:
            rows = [line.strip().split(",") for line in lines if line.strip()]
    except DataError:
        raise
    except Exception as err:                                      # gzip and zlib raise many types
        raise wrong(file, "the file cannot be read", {"why": f"{type(err).__name__}: {err}"},
                    "the file as it was published.") from None
    if any((columns and len(words) != columns) or "/" in "".join(words) for words in rows):
        raise wrong(file, "a line has a slash or a wrong number of words", {"words in a line": columns or "any"},
                    "names of types without a slash, between commas.")
    return rows
