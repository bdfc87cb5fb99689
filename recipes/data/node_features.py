"""The features of the nodes of a user's own graph: columns encoded as those of a table, or one-hot vectors of nodes."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import model_validator

from recipes.config import AbsolutePath, TaskConfig, fault
from recipes.data.cells import StatedKind
from recipes.data.columns import Described, describe_columns, encoded, forms_in_words, unseen, usable_columns
from recipes.data.facts import listed
from recipes.data.forms import StatedForm
from recipes.data.own_graph import APART, OwnGraph, edge_facts, has_edges
from recipes.data.tables import gaps_in, is_index, refuse_gaps
from recipes.errors import DataError
from recipes.lazy import sp, xnn


class OwnGraphConfig(TaskConfig):
    """Keys of a task that reads a user's own graph, the dataset folder."""

    folder: AbsolutePath | None = None
    """A user's own graph: a folder with edges.csv and nodes.csv, a .graphml or an .npz file; see docs/training.md."""
    columns: dict[str, Literal[StatedKind, StatedForm]] = {}
    """Kinds of columns of nodes by name, such as {zip: category, since: date 31/12/2024}; else their cells decide."""
    missing: Literal["refuse", "fill"] = "refuse"
    """Gaps in features: an error, or filled by the mean (or no category), with an additional input that marks gaps."""
    standardize: bool = True
    """Whether features have mean 0 and deviation 1, and constant ones are left out; runs of earlier versions have
    false."""
    edge_weights: bool = True
    """Whether edges have their weights, for models that use them; runs of earlier versions have false."""

    @model_validator(mode="after")
    def _check_own_graph(self) -> OwnGraphConfig:
        for key in ("columns", "missing", "standardize", "edge_weights"):
            if self.is_changed(key) and getattr(self, "dataset", "folder") != "folder":
                raise fault(f"task.{key}", "is for the dataset folder")
        return self


class Encoding(NamedTuple):
    """How features of nodes become numbers, which is saved with a run.

    Attributes:
      columns: see `recipes.data.columns`; empty if there are no features.
      ids: without features, the names of the nodes that were trained on, each of which has a vector of its own.
    """

    columns: list[Described]
    ids: list[str]

    @property
    def names(self) -> list[str]:
        return [each["name"] for each in self.columns]

    def matrix(self, graph: OwnGraph) -> sp.csr_matrix:
        """csr f32[n, f].  Raises: DataError if a column is missing, or a node was not trained on."""
        if self.columns:
            missing = [name for name in self.names if name not in graph.nodes]
            if missing:
                raise DataError("predict", "the features are not those of the training data.",
                                {"file": graph.nodes.file, "missing": ", ".join(missing),
                                 "trained on": ", ".join(self.names[:9])},
                                fix="a graph whose nodes have these features.")
            return sp.csr_matrix(encoded(graph.nodes, self.columns))
        n = len(graph.ids)
        if not self.ids:                                      # an earlier version numbered the nodes
            return sp.csr_matrix(sp.identity(n, np.float32))
        places = xnn.graph.NodeNames(self.ids)
        unknown = places.unknown(graph.ids)
        if unknown:
            raise DataError("predict", "a node is not known from training, where nodes had no features.",
                            {"file": graph.nodes.file, "unknown": f"{len(unknown)} of {len(graph.ids)}",
                             "first": repr(unknown[0])},
                            fix="nodes of the training graph, or a model trained on features.")
        return sp.csr_matrix((np.ones(n, np.float32), places.rows(graph.ids), np.arange(n + 1)), (n, len(self.ids)))

    def notes(self, graph: OwnGraph) -> list[str]:
        """Texts that a prediction for the nodes of a graph prints: files and categories that the model does not use."""
        return [f"{name}: {why}" for name, why in graph.left_out.items()] + [
            f"not known from training: the column {name!r} in {rows}"
            for name, rows in unseen(graph.nodes, self.columns).items()]


def encoding_of(graph: OwnGraph, config: OwnGraphConfig, train: np.ndarray) -> tuple[Encoding, dict[str, str]]:
    """The encoding of the features of a graph, and rows of a summary: forms, gaps, and columns that are left out.

    Args: train: the nodes from which means, deviations and categories are computed.
    Raises: DataError for gaps, for unsuitable columns, and for nodes with neither edges nor features.
    """
    nodes = graph.nodes
    unknown = [name for name in config.columns if name not in nodes or name in APART]
    if unknown:
        raise DataError("graph", f"there is no feature {', '.join(map(repr, unknown))}.",
                        {"file": nodes.file, "columns": ", ".join(nodes)}, fix="names of features in task.columns.")
    stated = nodes.state(config.columns)
    if config.standardize:
        kinds, reasons = usable_columns(nodes, stated, None, APART, train)
    else:
        kinds = {name: nodes[name].kind for name in _features_in(graph)}
        reasons = {}
    gaps = gaps_in(nodes, kinds)
    if config.missing == "refuse":
        refuse_gaps(gaps, nodes.file, "task.missing=fill, fill these cells, or leave the column out: "
                                      "task.columns='{NAME: ignore}'.")
    left_out = graph.left_out | {f"column {name} {graph.of_nodes}": why for name, why in reasons.items()}
    columns = [_as_it_is(each) if _stays(each, graph, train, config) else each
               for each in describe_columns(nodes, kinds, train)]
    if not columns and not has_edges(graph):
        raise DataError("graph", "the nodes have neither edges nor features, so there is nothing to learn from.",
                        {"file": nodes.file, "nodes": len(graph.ids), **left_out}, fix="edges, or columns of features.")
    facts = edge_facts(graph) | listed("written as", forms_in_words(nodes, columns)) | listed("left out", left_out)
    facts |= listed("filled", gaps)
    if not columns:
        facts["features"] = "none: each node has a vector of its own, so other nodes cannot be predicted"
    return Encoding(columns, [] if columns else list(graph.ids)), facts


def encoding_from(artifacts: dict[str, Any], graph: OwnGraph) -> Encoding:
    """The encoding of a trained model for its predictions on a graph.

    Models of earlier versions and of other datasets have no columns, and take numbers as they are.
    """
    columns = artifacts.get("columns")
    if columns is None:
        names = artifacts.get("names") or _features_in(graph)
        columns = [_as_it_is({"name": name, "kind": "number", "gaps": False}) for name in names]
    return Encoding(columns, artifacts.get("ids", []))


def _features_in(graph: OwnGraph) -> list[str]:
    return [name for name in graph.nodes if name not in APART and not is_index(name)]


def _stays(described: Described, graph: OwnGraph, train: np.ndarray, config: OwnGraphConfig) -> bool:
    """Whether numbers are not standardised: 0 and 1, which may be a sparse bag of words, or by the config."""
    if described["kind"] != "number" or described["gaps"]:
        return False
    return not config.standardize or bool(np.isin(graph.nodes[described["name"]].numbers()[train], (0, 1)).all())


def _as_it_is(described: Described) -> Described:
    return described | {"mean": 0.0, "deviation": 1.0, "constant": False}


def seen_in_training(split: dict[str, np.ndarray], n: int) -> np.ndarray:
    """The nodes outside val and test; a node in no split has no label, but training sees its features."""
    return np.setdiff1d(np.arange(n), np.concatenate([split["val"], split["test"]]))
