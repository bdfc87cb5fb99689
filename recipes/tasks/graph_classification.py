"""Classify graphs: a stack of layers on a padded batch of graphs, a pool over the nodes of each, and a linear map.

Each device has its own padded batch. All batches of a step have one of a few static sizes, and the step is compiled
once for each size. Padding does not change the results. Dropout masks depend on the positions of nodes in a device's
batch: with dropout, another number of devices gives other results, of the same distribution.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import model_validator

from recipes.classification import ClassesConfig, Classifier, class_artifacts
from recipes.config import AbsolutePath, Count, Index, StratifiedSplit, TestFraction, ValFraction, check_owners, fault
from recipes.data.facts import Table, ranges
from recipes.data.graph_batches import Graphs, PaddedGraphs
from recipes.data.graph_sets import read_tu, split_at_random
from recipes.data.graphs import undirected
from recipes.data.points import GraphPoints
from recipes.data.splits import class_counts, class_facts, sizes_of
from recipes.errors import DataError
from recipes.lazy import mpl_figure, nn, xnn
from recipes.models.graphs import GIN, Pooled, check_network, make_network, takes_edge_features
from recipes.process.parallel import Placer, my_rows
from recipes.results.graph_plots import MOST_NODES, small_graph_figure
from recipes.task import Bound, Data, Inputs, Preview, Sums

if TYPE_CHECKING:
    from xjax.typing import Array, PyTree

MOLECULES = ("apart", "together")                             # the classes: positions of oxygen and nitrogen


class Config(ClassesConfig, StratifiedSplit):
    """A stack of layers on graphs, and a pool."""

    training_only: ClassVar = ("class_weights", "batch_size")

    dataset: Literal["molecules", "folder"] = "molecules"
    """molecules: generated ones, see `xnn.graph.molecules`."""
    count: Count | None = None
    """Number of molecules; none: 1000."""
    folder: AbsolutePath | None = None
    """A set in the form of the TU collection: a folder NAME with NAME_A.txt and others; see recipes/data/graph_sets."""
    split_seed: Index = 0
    """Seed of the split, and of the generated molecules."""
    val_fraction: ValFraction = 0.1
    test_fraction: TestFraction = 0.2
    batch_size: Count = 64
    """Number of graphs in a batch, of all devices together."""
    model: Pooled = GIN(dropout=0.0)
    """The layers."""
    pool: Literal["sum", "mean", "max"] = "sum"
    """Reduction over the nodes of each graph."""
    edge_features: bool = True
    """Whether gin, gat and gatv2 use the features of edges, if the set has them."""

    @model_validator(mode="after")
    def _check(self) -> Config:
        check_owners(self, {"folder": ("folder",), "count": ("molecules",)})
        if not self.edge_features and not takes_edge_features(self.model):
            raise fault("task.edge_features", f"is for gin, gat and gatv2; {self.model.name} never uses them")
        check_network(self.model, pooled=True)
        return self


class Read(NamedTuple):
    """Graphs with a class each, and their splits.  Attributes: labels: i[n], ids into ``classes``."""

    graphs: list[Any]
    labels: np.ndarray
    classes: list[str]
    split: dict[str, np.ndarray]

    @property
    def labels_of_splits(self) -> dict[str, np.ndarray]:
        return {name: self.labels[ids] for name, ids in self.split.items()}


def load(config: Config) -> Data:
    return _data(config, _read(config))


def preview(config: Config) -> Preview:
    read = _read(config)

    def sizes(field: str) -> Table:
        numbers = np.array([getattr(graph, field) for graph in read.graphs])
        return ranges({name: numbers[read.labels == i] for i, name in enumerate(read.classes)})

    return Preview(_data(config, read), {
        "Classes": class_counts(read.labels_of_splits, read.classes),
        "Nodes of a graph": sizes("n_nodes"), "Edges of a graph, in both directions": sizes("n_edges"),
        "Samples": _samples(read)})


def _samples(read: Read, most: int = 12) -> list[mpl_figure.Figure]:
    """Drawings of some small graphs of each class."""
    figures, of_class = [], max(1, most // len(read.classes))
    for label, name in enumerate(read.classes[:most]):
        ids = [i for i in np.flatnonzero(read.labels == label) if read.graphs[i].n_nodes <= MOST_NODES][:of_class]
        for i in ids:
            ends = (np.asarray(each) for each in (read.graphs[i].senders, read.graphs[i].receivers))
            figures.append(small_graph_figure(undirected(*ends, read.graphs[i].n_nodes), f"{name}, graph {i + 1}"))
    return figures


def _read(config: Config) -> Read:
    if config.folder is None:
        graphs, labels = xnn.graph.molecules(config.count or 1000, config.split_seed)
        classes = list(MOLECULES)
    else:
        loaded = read_tu(config.folder)
        graphs, labels = loaded.graphs, np.asarray(loaded.labels)
        classes = [] if loaded.classes is None else [str(name) for name in loaded.classes]
        if len(classes) < 2:
            raise DataError("graphs", "needs graphs of at least two classes.",
                            {"folder": config.folder, "classes": len(classes)},
                            fix="a set with NAME_graph_labels.txt.")
    stratify = config.stratify and config.folder is not None
    return Read(graphs, labels, classes,
                split_at_random(labels, config.split_seed, fractions=config.fractions, stratify=stratify))


def _data(config: Config, read: Read) -> Data:
    raw_graphs, labels, classes, split = read
    all_graphs, sizes = with_features(raw_graphs), _sizes(raw_graphs, config)
    splits = {name: Graphs([all_graphs[i] for i in ids], labels[ids]) for name, ids in split.items() if len(ids)}
    artifacts = class_artifacts(classes, labels[split["train"]], config) | sizes
    nodes = [graph.n_nodes for graph in all_graphs]
    summary = {"dataset": config.dataset if config.folder is None else config.folder.name,
               "graphs": f"{len(nodes)}, of {min(nodes)} to {max(nodes)} nodes, {len(classes)} classes",
               "split": sizes_of(split),
               **class_facts(read.labels_of_splits, classes)}
    return Data(splits, artifacts, summary)


class GraphClassification(Classifier):
    """See `recipes.task.Task`."""

    divisible = False

    def __init__(self, config: Config, artifacts: dict[str, Any]) -> None:
        super().__init__(config, artifacts)
        self.model = make_network(config.model, len(artifacts["classes"]), adjacency="symmetric", pool=config.pool,
                                  edge_features=artifacts["edge_features"] or None)
        self.inputs = ((-1, artifacts["node_features"]),)

    def sums(self, model: Bound, batch: PyTree) -> Sums:
        graph = batch["graph"]
        if model.rng is not None:                             # a row of the layers is a node, not a graph
            model.rng = xnn.RowKey(model.rng.key, my_rows(graph.n_nodes))
        return self.sums_of(model, model(graph.nodes, graph=graph), batch["labels"], batch["weight"])

    def batches(self, split: Graphs, placer: Placer, seed: int) -> PaddedGraphs:
        return PaddedGraphs(split, placer, self.config.batch_size, seed)

    # -- kernel regression -----------------------------------------------------------------------------------------

    def points(self, split: Graphs) -> GraphPoints:
        return GraphPoints(split.whole)

    def targets(self, split: Graphs) -> np.ndarray:
        return split.labels

    # -- after training --------------------------------------------------------------------------------------------

    def outputs(self, model: Bound, batch: PyTree) -> Array:
        """Probabilities of all graphs but the last, which is always padding."""
        return nn.softmax(model(batch["graph"].nodes, graph=batch["graph"]))[:-1]

    def read(self, file: Path) -> Inputs:
        """The graphs of a folder in the form of the TU collection; labels are not read."""
        graphs = read_tu(file, labels=False)
        here = _sizes(graphs.graphs, self.config)
        trained = {key: self.artifacts[key] for key in here}
        if here != trained:
            raise DataError("predict", "the features are not those of the training data.",
                            {"folder": file, "it has": here, "trained on": trained},
                            fix="graphs with these features.")
        n = len(graphs.graphs)
        return Inputs(Graphs(with_features(graphs.graphs), np.zeros(n, np.int32)), {"graph": np.arange(1, n + 1)})


make = GraphClassification


def with_features(graphs: list[Any]) -> list[Any]:
    """The graphs with features of nodes; if they have none, these are 1 and log(1 + degree)."""
    if graphs[0].nodes is not None:
        return graphs
    degrees = [np.bincount(graph.receivers, minlength=graph.n_nodes) for graph in graphs]
    return [graph.replace(nodes=np.stack([np.ones(len(degree)), np.log1p(degree)], 1).astype(np.float32))
            for graph, degree in zip(graphs, degrees, strict=True)]


def _sizes(graphs: list[Any], config: Config) -> dict[str, int]:
    """Numbers of features; 0 edge features if there are none, or the model does not use them."""
    nodes, edges = graphs[0].nodes, graphs[0].edge_features
    if not (config.edge_features and takes_edge_features(config.model)):
        edges = None
    return {"node_features": 2 if nodes is None else int(nodes.shape[1]),
            "edge_features": 0 if edges is None else int(edges.shape[1])}
