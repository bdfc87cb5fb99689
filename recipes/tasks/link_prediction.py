"""Predict the edges of a graph: a graph autoencoder, full batch (Kipf & Welling, "Variational Graph Auto-Encoders").

An encoder computes a code of each node, from the graph without held-out edges; the logit of a pair is the inner
product of its codes. Each step has the training edges and the same number of pairs without an edge, drawn from the
seed and the step. Each device owns a block of nodes, as in `node_classification`, and a block of the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import model_validator

from recipes.config import AbsolutePath, Count, Index, SplitFractions, TestFraction, ValFraction, check_owners
from recipes.data.facts import Table
from recipes.data.linked_graph import LinkedGraph, read_linked
from recipes.data.node_features import OwnGraphConfig
from recipes.data.pair_batches import PairBatches
from recipes.data.pairs import Links, read_pairs, split_links
from recipes.data.planetoid import DATASETS as PLANETOID
from recipes.errors import DataError
from recipes.lazy import jnp, lax, nn, xnn
from recipes.models.graphs import (
    GCN,
    Network,
    check_network,
    check_norm,
    make_network,
    takes_edge_features,
    takes_normalized,
    unused_weights,
    width_of,
)
from recipes.process.parallel import AXIS, Placer, my_rows, weighted
from recipes.results.drawing import Drawing
from recipes.results.graph_facts import FIRST_NODES, first_nodes, structure
from recipes.results.graph_plots import graph_figure
from recipes.results.numbers import number
from recipes.results.plots import scores_figure
from recipes.task import Bound, Data, Inputs, Preview, Sums, Task, metrics_by_name

if TYPE_CHECKING:
    from recipes.trained import Trained
    from xjax.typing import Array, PyTree


class Config(SplitFractions, OwnGraphConfig):
    """A graph autoencoder."""

    dataset: Literal["karate", "cora", "citeseer", "pubmed", "folder"] = "karate"
    """The graph."""
    root: AbsolutePath | None = None
    """Folder of the ind.* files of Planetoid; none: $PLANETOID_DIR, or data/planetoid."""
    split_seed: Index = 0
    """Seed of the split of edges."""
    val_fraction: ValFraction = 0.05
    test_fraction: TestFraction = 0.1
    norm: Literal["symmetric", "row"] = "symmetric"
    """Normalisation of the adjacency with self-loops, for gcn, appnp, sgc and gcnii."""
    model: Network = GCN(hidden=(32,), dropout=0.0)
    """The encoder."""
    code: Count = 16
    """Number of features of a node's code."""
    variational: bool = False
    """Whether codes are normal distributions (a variational autoencoder)."""

    @model_validator(mode="after")
    def _check(self) -> Config:
        check_owners(self, {"root": PLANETOID, "folder": ("folder",)})
        check_norm(self)
        check_network(self.model)
        return self


def load(config: Config) -> Data:
    graph = _read(config)
    return _data(config, graph, _split(config, graph))


def preview(config: Config) -> Preview:
    graph = _read(config)
    links = _split(config, graph)
    pairs = [(split, each.edges, len(each) - each.edges) for split, each in links.items()]
    held_out = {f"edges for {split}": links[split].pairs[:links[split].edges] for split in ("val", "test")}
    return Preview(_data(config, graph, links), {
        "Structure": structure(graph.adjacency), FIRST_NODES: first_nodes(graph.ids, graph.adjacency, {}),
        "Pairs": Table(("split", "edges", "other pairs"), pairs), "Samples of pairs": _samples(graph, links),
        "Graph": graph_figure(graph.adjacency, {}, graph.ids, held_out)})


def _samples(graph: LinkedGraph, links: dict[str, Links], most: int = 2) -> Table:
    """The first edges and the first other pairs of each split."""
    rows = [(split, graph.ids[source], graph.ids[target], word) for split, each in links.items()
            for word, pairs in (("yes", each.pairs[:each.edges]), ("no", each.pairs[each.edges:]))
            for source, target in pairs[:most]]
    return Table(("split", "source", "target", "edge"), rows)


def _data(config: Config, graph: LinkedGraph, links: dict[str, Links]) -> Data:
    n, f = graph.features.shape
    artifacts = {"features": int(f), "nodes": int(n), "graph": graph.digest(), "one_hot": graph.one_hot,
                 "weighted": graph.weighted}
    edges = sum(each.edges for each in links.values())
    summary = {"dataset": str(config.folder or config.dataset),
               "graph": f"{number(int(n))} nodes, {number(edges)} edges, {number(int(f))} features",
               "split": ", ".join(f"{name} {each.edges}" for name, each in links.items()) + " edges",
               **graph.facts}
    return Data({name: each for name, each in links.items() if len(each)}, artifacts, summary)


class LinkPrediction(Task):
    """See `recipes.task.Task`."""

    score = "roc_auc"
    higher_is_better = True

    def __init__(self, config: Config, artifacts: dict[str, Any]) -> None:
        super().__init__(config, artifacts)
        weighted = artifacts.get("weighted") and takes_edge_features(config.model)
        self.model = make_network(config.model, config.code * (2 if config.variational else 1),
                                  edge_features=1 if weighted else None, one_hot=artifacts.get("one_hot", False))
        self.inputs = ((-1, artifacts["features"]),)

    def sums(self, model: Bound, batch: PyTree) -> Sums:
        logits, divergence = self._logits(model, batch)
        losses = jnp.asarray(xnn.losses.binary_cross_entropy(logits, batch["labels"], reduction=None))
        total, weight = weighted(losses, batch["weight"])
        # Half of the paper's loss for each pair: the paper adds the means over edges and over other pairs, and the mean
        # divergence of a node divided by the number of nodes.
        share = lax.psum(weight, AXIS) / (2 * self.artifacts["nodes"]**2)
        sums = {"loss": (total + share * divergence, weight)}
        if not model.train:
            block, rows = len(logits), [nn.sigmoid(logits), batch["labels"], batch["weight"]]
            whole = jnp.zeros((3, block * lax.axis_size(AXIS)), jnp.float32)
            sums["pairs"] = lax.dynamic_update_slice(whole, jnp.stack(rows), (0, my_rows(block))), weight
        return sums

    def metrics(self, totals: dict[str, tuple[Any, Any]]) -> dict[str, float]:
        result = super().metrics(totals)
        if "pairs" in totals:
            scores, labels, weights = np.asarray(totals["pairs"][0], np.float32)
            result |= metrics_by_name(("roc_auc", "average_precision"), scores, labels, weights=weights)
        return result

    def batches(self, split: Links, placer: Placer, seed: int) -> PairBatches:
        model = self.config.model
        norm = self.config.norm if takes_normalized(model) else None
        width = width_of(model, self.config.code)
        dense = not isinstance(model, GCN) and not self.artifacts.get("one_hot")
        return PairBatches(split, norm, placer, seed, width, dense)

    def outputs(self, model: Bound, batch: PyTree) -> Array:
        return nn.sigmoid(self._logits(model, batch)[0])

    def read(self, file: Path) -> Inputs:
        """Pairs of nodes in a csv file. The training graph is read again."""
        return self.pairs(**read_pairs(file))

    def pairs(self, source: Sequence[str], target: Sequence[str]) -> Inputs:
        """Pairs of nodes by their names, ``source[i]`` with ``target[i]``, for `Trained.predict`.

        Raises: DataError for an unknown name.
        """
        return self._inputs(self._graph(), [*map(str, source)], [*map(str, target)])

    def possible(self, node: str) -> Inputs:
        """All pairs of a node with nodes to which it has no edge; held-out edges count as edges.

        Raises: DataError if there is no such node, or no such pair.
        """
        graph = self._graph()
        (number,) = graph.numbers_of([str(node)])
        others = np.setdiff1d(np.arange(len(graph.ids)), [number, *graph.adjacency[[number]].indices])
        if not len(others):
            raise DataError("pairs", f"the node {node!r} has an edge with every other node.",
                            {"nodes": len(graph.ids)}, fix="another node.")
        return self._inputs(graph, [str(node)] * len(others), graph.ids[others])

    def _graph(self) -> LinkedGraph:
        """The training graph, read again.  Raises: DataError if it has changed."""
        graph = _read(self.config)
        if graph.digest() != self.artifacts["graph"]:
            raise DataError("predict", "the graph is not the training graph.",
                            {"graph": self.config.folder or self.config.dataset}, fix="restore the data.")
        return graph

    def _inputs(self, graph: LinkedGraph, source: list[str], target: list[str]) -> Inputs:
        pairs = np.stack([graph.numbers_of(source), graph.numbers_of(target)], 1)
        train = _split(self.config, graph)["train"]
        return Inputs(replace(train, pairs=pairs, edges=0), {"source": np.array(source), "target": np.array(target)})

    def columns(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        return {"probability": outputs}

    def draw(self, trained: Trained) -> dict[str, Drawing]:
        totals = trained.totals("test")
        if not totals:
            return {}
        scores, labels, weights = np.asarray(totals["pairs"][0])
        parts = {name: scores[(weights > 0) & (labels == label)] for label, name in ((1, "edges"), (0, "other pairs"))}
        return {"Probabilities of pairs, test": scores_figure(parts)}

    def _logits(self, model: Bound, batch: PyTree) -> tuple[Any, Any]:
        """(logits [pairs], sum of the divergences of this device's nodes)."""
        x, divergence = batch["x"], 0.0
        if model.rng is not None:                             # a row of the layers is a node, not a pair
            model.rng = xnn.RowKey(model.rng.key, my_rows(x.shape[0]))
        code = model(x, graph=batch["adj"])
        if self.config.variational:
            code, log_variance = jnp.split(code, 2, axis=-1)
            each = (code**2 + jnp.exp(log_variance) - 1 - log_variance).sum(-1) / 2
            divergence = jnp.sum(each * batch["is_node"])
            if model.train:
                noise = xnn.rng.normal(xnn.rng.fold_in(model.rng, 1 << 20), code.shape, code.dtype)
                code = code + jnp.exp(log_variance / 2) * noise
        code = lax.all_gather(code, AXIS, tiled=True)
        one, other = (code[batch["pairs"][:, end]] for end in (0, 1))
        return jnp.sum(one * other, -1), divergence


make = LinkPrediction


def _read(config: Config) -> LinkedGraph:
    return read_linked(config.dataset, config, config.root, unused_weights(config))


def _split(config: Config, graph: LinkedGraph) -> dict[str, Links]:
    return split_links(graph, config.fractions, config.split_seed)
