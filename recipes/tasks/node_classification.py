"""Classify the nodes of one graph, full batch: by a two-layer GCN (Kipf & Welling, ICLR 2017), or another model.

Each device owns a block of nodes: it transforms the features of these nodes only, and the product with the adjacency
reads the transformed rows of other devices (`xnn.graph.RowBlock`). The models are those of xnn. Dropout masks depend on
global node ids (`xnn.RowKey`); masks of attention depend on the edges of a device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import model_validator

from recipes.batches import Batches
from recipes.classification import ClassesConfig, Classifier, class_artifacts
from recipes.config import AbsolutePath, Count, Fraction, Index, StratifiedSplit, check_owners, fault
from recipes.data.graphs import LabelledGraph, row_normalized
from recipes.data.karate import load_karate
from recipes.data.node_features import OwnGraphConfig, encoding_from, encoding_of, seen_in_training
from recipes.data.own_graph import OwnGraph, adjacency_of, class_ids, class_names, read_graph, split_nodes
from recipes.data.pair_batches import split_graph
from recipes.data.planetoid import DATASETS as PLANETOID
from recipes.data.planetoid import changed_files, load_planetoid, planetoid_folder
from recipes.data.points import NodePoints
from recipes.data.recorded import classes_as_recorded
from recipes.data.splits import class_counts, class_facts, sizes_of
from recipes.errors import DataError
from recipes.lazy import jnp, sp, xnn
from recipes.models.graphs import (
    Network,
    check_network,
    check_norm,
    make_network,
    takes_edge_features,
    takes_normalized,
    unused_weights,
    width_of,
)
from recipes.process.parallel import Placer
from recipes.results.drawing import Drawing
from recipes.results.graph_facts import FIRST_NODES, first_nodes, structure
from recipes.results.graph_plots import graph_figure
from recipes.results.numbers import number
from recipes.results.table_facts import columns_of
from recipes.task import Artifacts, Bound, Data, Inputs, Preview, Sums

if TYPE_CHECKING:
    from xjax.typing import Array, PyTree

# The use of a column of nodes that is not a feature.
USES = {"id": "ids", "label": "target", "split": "split"}


class Config(ClassesConfig, StratifiedSplit, OwnGraphConfig):
    """A two-layer GCN on one graph, or another model."""

    training_only: ClassVar = ("class_weights", "dropout")

    dataset: Literal["karate", "cora", "citeseer", "pubmed", "folder"] = "karate"
    """The graph."""
    root: AbsolutePath | None = None
    """Folder of the ind.* files of Planetoid; none: $PLANETOID_DIR, or data/planetoid."""
    labelled: tuple[Index, ...] | None = None
    """The training nodes of karate; none: 0 and 33, the leaders."""
    split_seed: Index | None = None
    """Seed of the split of a folder without a column split; none: 0."""
    val_fraction: Fraction | None = None
    """Share of the labelled nodes for validation, in a folder without a column split; none: 0.2."""
    test_fraction: Fraction | None = None
    """As val_fraction, for the test."""
    norm: Literal["symmetric", "row"] = "symmetric"
    """Normalisation of the adjacency with self-loops, for gcn, appnp, sgc and gcnii."""
    hidden: Count = 16
    """Hidden units of the two-layer GCN; only without model."""
    dropout: Fraction = 0.5
    """Dropout rate of features and hidden units; only without model."""
    model: Network | None = None
    """Another model; none: the two-layer GCN, with hidden and dropout."""

    @model_validator(mode="after")
    def _check_dataset(self) -> Config:
        check_owners(self, {"root": PLANETOID, "labelled": ("karate",)} | dict.fromkeys(
            ("folder", "split_seed", "val_fraction", "test_fraction"), ("folder",)))
        if self.model is not None:
            for key in ("hidden", "dropout"):
                if self.is_changed(key):
                    raise fault(f"task.{key}", f"is for the two-layer GCN, not for task.model: set task.model.{key}")
            check_norm(self)
            check_network(self.model)
        return self


class Read(NamedTuple):
    """A graph as read.

    Attributes:
      features: of the nodes, as the model gets them.
      facts: for the summary.
      artifacts: those of the features.
      own: the user's graph of which it was made.
    """

    graph: LabelledGraph
    features: sp.spmatrix
    classes: list[str]
    facts: dict[str, str]
    artifacts: Artifacts
    own: OwnGraph | None = None

    @property
    def labels_of_splits(self) -> dict[str, np.ndarray]:
        return {split: self.graph.labels[ids] for split, ids in self.graph.split.items()}


def load(config: Config) -> Data:
    return load_again(config, None)


def load_again(config: Config, recorded: Artifacts | None) -> Data:
    """The data of a run that has begun, with its classes.  Args: recorded: its artifacts; None: a new run."""
    return _data(config, _read(config, recorded))


def preview(config: Config) -> Preview:
    read = _read(config)
    graph, own, classes = read.graph, read.own, read.classes
    ids = range(len(graph.labels)) if own is None else own.ids
    split = np.full(len(graph.labels), "none", object)
    for name, nodes in graph.split.items():
        split[nodes] = name
    known = np.ones(len(graph.labels), bool) if own is None or own.labels is None else own.labels != ""
    labels = np.where(known, graph.labels, len(classes))
    words = {"class": np.array([*classes, ""], object)[labels], "split": split}
    parts: dict[str, Drawing] = {
        "Structure": structure(graph.adjacency), "Classes": class_counts(read.labels_of_splits, classes),
        FIRST_NODES: first_nodes([*map(str, ids)], graph.adjacency, words)}
    if own is not None:
        features = {each["name"]: each["kind"] for each in read.artifacts["columns"]}
        uses = USES | dict.fromkeys(features, "feature")
        parts["Columns of nodes"] = columns_of(own.nodes, dict.fromkeys(USES, "category") | features, uses)
    groups = {name: np.flatnonzero(labels == i) for i, name in enumerate(classes)}
    return Preview(_data(config, read), parts | {"Graph": graph_figure(graph.adjacency, groups, [*map(str, ids)])})


def _read(config: Config, recorded: Artifacts | None = None) -> Read:
    if config.dataset == "karate":
        graph = load_karate((0, 33) if config.labelled is None else config.labelled)
        return Read(graph, graph.features, ["Mr. Hi", "Officer"], {}, {})
    if config.folder is not None:
        return _own(config, config.folder, recorded)
    root = planetoid_folder(config.root)
    graph = load_planetoid(config.dataset, root)
    changed = changed_files(config.dataset, root)
    facts = {"warning": f"not the published files, perhaps damaged: {', '.join(changed)}"} if changed else {}
    return Read(graph, row_normalized(graph.features), [str(i) for i in range(graph.n_classes)], facts, {})


def _own(config: Config, folder: Path, recorded: Artifacts | None) -> Read:
    own = read_graph(folder, unused_weights(config))
    own = own._replace(left_out=own.left_out | _unlabelled(own))
    classes = class_names(own, folder)
    split = split_nodes(own, config.split_seed or 0, config.fractions, config.stratify, folder)
    encoding, facts = encoding_of(own, config, seen_in_training(split, len(own.ids)))
    labels = class_ids(own, classes)
    if recorded is not None:
        classes, labels = classes_as_recorded(classes, labels, recorded["classes"])
    graph = LabelledGraph(adjacency_of(own, own.mean_weight), encoding.matrix(own), labels, len(classes), split)
    artifacts = {"names": encoding.names, **encoding._asdict(), "mean_weight": own.mean_weight}
    return Read(graph, graph.features, classes, facts, artifacts, own)


def _data(config: Config, read: Read) -> Data:
    graph, features, classes = read.graph, read.features, read.classes
    splits = {split: Nodes(graph, features, ids) for split, ids in graph.split.items() if len(ids)}
    artifacts = read.artifacts | class_artifacts(classes, graph.labels[graph.split["train"]], config)
    artifacts |= {"features": int(features.shape[1])}
    summary = _summary(str(config.folder or config.dataset), graph, artifacts["features"])
    return Data(splits, artifacts, summary | class_facts(read.labels_of_splits, classes) | read.facts)


def _unlabelled(own: OwnGraph) -> dict[str, str]:
    """Nodes that are in the graph and in no split."""
    known = np.zeros(len(own.ids), bool) if own.labels is None else own.labels != ""
    reasons = {"nodes without a label": f"{(~known).sum()}, in the graph and in no split" if not known.all() else ""}
    if own.split is not None and (apart := int((known & (own.split == "")).sum())):
        reasons["labelled nodes without a split"] = f"{apart}, in the graph and in no split"
    return {name: why for name, why in reasons.items() if why}


@dataclass(frozen=True)
class Nodes:
    """A graph with the nodes ``ids`` of one split; its length is the number of all nodes."""

    graph: LabelledGraph
    features: sp.csr_matrix
    ids: np.ndarray

    def __len__(self) -> int:
        return len(self.graph.labels)


class NodeClassification(Classifier):
    """See `recipes.task.Task`."""

    def __init__(self, config: Config, artifacts: dict[str, Any]) -> None:
        super().__init__(config, artifacts)
        classes, model = len(artifacts["classes"]), config.model
        self.one_hot = bool(artifacts.get("ids"))
        if model is None:
            self.model = xnn.GCN(config.hidden, classes, dropout=config.dropout)
        else:
            weighted = artifacts.get("mean_weight") is not None and takes_edge_features(model)
            network = make_network(model, classes, edge_features=1 if weighted else None, one_hot=self.one_hot)
            self.model = xnn.serial(network, xnn.LogSoftmax)
        self.inputs = ((-1, artifacts["features"]),)

    @property
    def norm(self) -> str | None:
        """How the adjacency is normalised for the model; None: the model takes it unchanged."""
        return self.config.norm if self.config.model is None or takes_normalized(self.config.model) else None

    def sums(self, model: Bound, batch: PyTree) -> Sums:
        log_probs = model(batch["x"], batch["adj"])
        return self.sums_of(model, log_probs, batch["labels"], batch["weight"])

    def batches(self, split: Nodes, placer: Placer, seed: int) -> Batches:
        model = self.config.model
        width = self.config.hidden if model is None else width_of(model, len(self.artifacts["classes"]))
        return WholeGraph(split, self.norm, placer, width, dense=model is not None and not self.one_hot)

    # -- kernel regression -----------------------------------------------------------------------------------------

    @property
    def limit(self) -> xnn.Layer:
        """The model without its log-softmax, with which the function GCN computes its kernel."""
        return self.model if self.config.model is None else self.model.layers[0]

    def points(self, split: Nodes) -> NodePoints:
        adjacency = split.graph.adjacency
        if self.norm is not None:
            adjacency = xnn.normalized_adjacency(adjacency, self.norm).to_scipy()
        return NodePoints(split.features, adjacency, split.ids)

    def targets(self, split: Nodes) -> np.ndarray:
        return split.graph.labels[split.ids]

    # -- after training --------------------------------------------------------------------------------------------

    def outputs(self, model: Bound, batch: PyTree) -> Array:
        return jnp.exp(model(batch["x"], batch["adj"]))

    def read(self, file: Path) -> Inputs:
        """All nodes of a user's own graph, in the order of its file."""
        mean_weight = self.artifacts.get("mean_weight")
        graph = read_graph(file, unused_weights(self.config, mean_weight is not None), self.artifacts.get("names"))
        if mean_weight is not None and graph.weights is None:
            raise DataError("predict", "the edges have no weights, and those of the training data had.", {"file": file},
                            fix="a graph whose edges have weights.")
        encoding = encoding_from(self.artifacts, graph)
        features = encoding.matrix(graph)
        n, here = np.shape(features)
        if here != self.artifacts["features"]:
            raise DataError("predict", "the features are not those of the training data.",
                            {"file": file, "features": here, "trained on": self.artifacts["features"]},
                            fix="a graph whose nodes have these features.")
        whole = LabelledGraph(adjacency_of(graph, mean_weight), features, np.zeros(n, np.int32),
                              len(self.artifacts["classes"]), {})
        return Inputs(Nodes(whole, features, np.arange(n)), {"id": np.array(list(graph.ids))},
                      tuple(encoding.notes(graph)))


make = NodeClassification


class WholeGraph(Batches):
    """The one batch of a full-batch task: all nodes; the nodes of the split have weight 1, others 0.

    On each device it has the blocks of `split_graph`, "labels" i32[block] and "weight" f32[block].
    """

    full_batch, steps_per_launch = True, 64

    def __init__(self, nodes: Nodes, norm: str | None, placer: Placer, width: int, dense: bool) -> None:
        weight = np.zeros(len(nodes), np.float32)
        weight[nodes.ids] = 1
        self._batch = placer.put({**split_graph(placer, nodes.graph.adjacency, nodes.features, norm, width, dense),
                                  "labels": placer.split(nodes.graph.labels), "weight": placer.split(weight)})

    def train(self, step: int) -> PyTree:
        return self._batch

    def all(self) -> Iterator[PyTree]:
        yield self._batch


def _summary(name: str, graph: LabelledGraph, features: int) -> dict[str, str]:
    nodes, edges = len(graph.labels), graph.adjacency.nnz // 2
    return {"dataset": name,
            "graph": f"{number(nodes)} nodes, {number(edges)} edges, {number(features)} features, "
                     f"{graph.n_classes} classes",
            "split": sizes_of(graph.split)}
