"""Classify the nodes of one graph with a two-layer GCN (Kipf & Welling, ICLR 2017), full batch.

Each device owns a block of nodes: it transforms their features alone, and the product with the
adjacency gathers the transformed rows of all devices (`recipes.parallel.RowBlock`).  The model is
xnn's own `GCN`, unchanged; dropout draws its mask by global node id (`xnn.RowKey`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from recipes.config import NodeClassificationConfig
from recipes.data.graphs import LabelledGraph, row_normalized
from recipes.data.karate import load_karate
from recipes.data.planetoid import load_planetoid
from recipes.parallel import Placer, RowBlock, my_rows, weighted
from recipes.tasks.base import Sums
from xnn import CSR, GCN, RowKey, normalized_adjacency


class GraphBatch(NamedTuple):
    """The rows of one device (outside pmap: of all devices, on a leading axis).

    Attributes: adj: RowBlock; x: CSR [block, f]; labels: i32[block];
        weight: f32[block], 1 on the nodes of the split, 0 elsewhere and on padding.
    """

    adj: RowBlock
    x: CSR
    labels: Any
    weight: Any


class NodeClassification:
    """See `recipes.tasks.base.Task`."""

    score = "accuracy"

    def __init__(
        self,
        config: NodeClassificationConfig,
        placer: Placer,
        seed: int,
    ) -> None:
        del seed  # a full batch has no order
        graph = _load(config)
        self.n_nodes, self.n_features = graph.features.shape
        self.init_fun, self.predict = GCN(config.hidden, graph.n_classes, dropout=config.dropout)
        adj = normalized_adjacency(graph.adjacency, config.norm)
        features = graph.features if config.dataset == "karate" else row_normalized(graph.features)
        whole = placer.put(
            GraphBatch(
                adj=placer.row_block(adj.to_scipy()),
                x=placer.split_sparse(features),
                labels=placer.split(graph.labels),
                weight=placer.split(np.zeros(self.n_nodes, np.float32)),
            )
        )
        self.batches = {
            split: whole._replace(weight=placer.put(placer.split(_indicator(ids, self.n_nodes))))
            for split, ids in graph.split.items()
            if len(ids)
        }
        self.summary = _describe(config.dataset, graph)

    def init(self, rng: Any) -> Any:
        _, params = self.init_fun(rng, (self.n_nodes, self.n_features))
        return params

    def train_batch(self, step: int) -> GraphBatch:
        return self.batches["train"]

    def eval_batches(self, split: str) -> Iterable[GraphBatch]:
        return [self.batches[split]] if split in self.batches else []

    def sums(self, params: Any, batch: GraphBatch, *, rng: Any = None, train: bool = False) -> Sums:
        if train:
            rng = RowKey(rng, my_rows(batch.x.shape[0]))
        log_probs = self.predict(params, batch.x, batch.adj, rng=rng, train=train)
        own = jnp.take_along_axis(log_probs, batch.labels[:, None], axis=1)[:, 0]
        right = jnp.argmax(log_probs, axis=1) == batch.labels
        return {
            "loss": weighted(-own, batch.weight),
            "accuracy": weighted(right.astype(jnp.float32), batch.weight),
        }


def _load(config: NodeClassificationConfig) -> LabelledGraph:
    if config.dataset == "karate":
        return load_karate(config.labelled)
    return load_planetoid(config.dataset, config.root)


def _indicator(ids: np.ndarray, n: int) -> np.ndarray:
    out = np.zeros(n, np.float32)
    out[ids] = 1
    return out


def _describe(name: str, graph: LabelledGraph) -> dict[str, str]:
    nodes, features = graph.features.shape
    sizes = ", ".join(f"{split} {len(ids)}" for split, ids in graph.split.items())
    return {
        "dataset": name,
        "graph": f"{nodes} nodes, {graph.adjacency.nnz // 2} edges, "
        f"{features} features, {graph.n_classes} classes",
        "split": sizes,
    }
