"""Folders of the TU collection (Morris et al., 2020; chrsmrrs.github.io/datasets): MUTAG, PROTEINS, ENZYMES, ...

    NAME_A.txt                 edges "i, j" between numbers of nodes, counted from 1 over all graphs
    NAME_graph_indicator.txt   for each node the number of its graph, from 1, ascending
    NAME_graph_labels.txt      a class for each graph; or NAME_graph_attributes.txt, targets
    NAME_node_labels.txt, NAME_node_attributes.txt, NAME_edge_labels.txt, NAME_edge_attributes.txt: optional
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recipes.data.graph_sets import files


def read_tu(folder: Path, name: str | None = None, *, labels: bool = True) -> files.GraphSet:
    """Reads the set. Features of nodes and of edges are their attributes, followed by their labels as one-hot vectors;
    None if the set has neither. Loops and repeated edges are kept (PyTorch Geometric drops them).

    Args: name: of the set; None: the name of the folder. labels: whether to read the labels of graphs.
    Raises: DataError.
    """
    folder = Path(folder)
    name = folder.name if name is None else name
    edge_file, indicator_file = (files.existing(folder, f"{name}_{part}.txt") for part in ("A", "graph_indicator"))
    graph_of = files.column(indicator_file) - 1
    if not len(graph_of) or graph_of[0] != 0 or not np.isin(np.diff(graph_of), (0, 1)).all():
        raise files.wrong(indicator_file, "the numbers of graphs must ascend from 1 by steps of 1",
                          {"nodes": len(graph_of)}, "the file as it was published.")
    n_graphs = int(graph_of[-1]) + 1
    one, other = files.pairs(edge_file)
    graphs = files.many_graphs(one - 1, other - 1, _features(folder, f"{name}_node", len(graph_of), "node"),
                               _features(folder, f"{name}_edge", len(one), "edge"), graph_of, n_graphs, edge_file)
    if not labels:
        return files.GraphSet(graphs, None, None, {})
    label_file = files.maybe(folder, f"{name}_graph_labels.txt")
    if label_file is not None:
        values = files.column(label_file)
        files.check_rows(len(values), n_graphs, label_file, "graph")
        classes, numbers_of_classes = files.classes_of(values)
        return files.GraphSet(graphs, numbers_of_classes, classes, {})
    target_file = files.existing(folder, f"{name}_graph_attributes.txt", f"{name}_graph_labels.txt")
    targets = files.numbers(target_file)
    files.check_rows(len(targets), n_graphs, target_file, "graph")
    return files.GraphSet(graphs, targets[:, 0] if targets.shape[1] == 1 else targets, None, {})


def _features(folder: Path, start: str, rows: int, of: str) -> np.ndarray | None:
    """f32[rows, f]: attributes and one-hot labels; None if the set has neither."""
    parts = []
    for part in ("attributes", "labels"):
        file = files.maybe(folder, f"{start}_{part}.txt")
        if file is None:
            continue
        values = files.numbers(file, np.float32 if part == "attributes" else np.int64)
        files.check_rows(len(values), rows, file, of)
        if part == "attributes":
            parts.append(values)
            continue
        for values_of_one in values.T:
            classes, labels = files.classes_of(values_of_one)
            if len(classes) > 10_000:
                raise files.wrong(file, "too many different labels for one-hot vectors", {"labels": len(classes)},
                                  "labels with few values; numbers belong in the attributes.")
            parts.append(np.eye(len(classes), dtype=np.float32)[labels])
    return np.concatenate(parts, 1) if parts else None
