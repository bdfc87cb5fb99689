"""Batches of many small graphs: each device gets a padded part, and all parts of a step have one static size."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.batches import Batches
from recipes.lazy import tree_util, xnn
from recipes.process.parallel import Placer

if TYPE_CHECKING:
    from xjax.typing import PyTree

_EPOCHS = 4                                                   # the static sizes are chosen for the parts of these


class Graphs:
    """Graphs on the host: one batch of `xnn.graph` with features of nodes, and a label for each graph.

    >>> graphs, labels = xnn.graph.molecules(5)
    >>> len(Graphs(graphs, labels))
    5
    """

    def __init__(self, graphs: list[xnn.graph.Graph], labels: np.ndarray) -> None:
        self.whole, self.labels = xnn.graph.batch([graph.replace(globals=None) for graph in graphs]), labels

    def __len__(self) -> int:
        return len(self.labels)


class PaddedGraphs(Batches):
    """See `Batches`. Epoch e has every graph once, in an order that depends on the seed and e alone.

    On each device "graph" is a padded batch, whose last graph is always padding; "labels" i32[graphs] and
    "weight" f32[graphs] are those of its graphs. Device d has the d-th part of the graphs of a step, in order. So the
    outputs of all devices, each without its last row, are those of the graphs in order, and then of padding.
    """

    def __init__(self, graphs: Graphs, placer: Placer, size: int, seed: int) -> None:
        self._graphs, self._placer, self._size, self._seed = graphs, placer, size, seed
        self._part = placer.block(size)
        self._epoch, self._of_epoch = -1, []

    def train(self, step: int) -> PyTree:
        epoch, i = divmod(step, -(-len(self._graphs) // self._size))
        return self._place(self._order(epoch)[i])

    def all(self) -> Iterator[PyTree]:
        for start in range(0, len(self._graphs), self._size):
            yield self._place(np.arange(start, min(start + self._size, len(self._graphs))))

    @functools.cached_property
    def _ordered(self) -> xnn.graph.GraphBatches:
        return xnn.graph.GraphBatches(self._graphs.whole, self._size, self._seed)

    def _order(self, epoch: int) -> list[np.ndarray]:
        if epoch != self._epoch:
            self._epoch, self._of_epoch = epoch, self._ordered.order(epoch)
        return self._of_epoch

    @functools.cached_property
    def _buckets(self) -> tuple[xnn.graph.Bucket, ...]:
        """Static sizes of parts; the greatest has room for the largest graphs together."""
        whole = self._graphs.whole
        sizes = np.stack([whole.n_node, whole.n_edge], 1).astype(np.int64)
        seen = [self._largest(sizes, ids) for epoch in range(_EPOCHS) for ids in self._ordered.order(epoch)]
        most = np.sort(sizes, axis=0)[::-1][:self._part].sum(0)
        rows = np.array([*seen, most])
        return xnn.graph.buckets(np.concatenate([rows, np.full((len(rows), 1), self._part)], 1))

    def _largest(self, sizes: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """(nodes, edges) that the parts of a batch need."""
        return np.max([sizes[part].sum(0) for part in self._parts(ids)], axis=0)

    def _parts(self, ids: np.ndarray) -> list[np.ndarray]:
        return [ids[d * self._part:(d + 1) * self._part] for d in range(self._placer.count)]

    def _place(self, ids: np.ndarray) -> PyTree:
        parts = [xnn.graph.take_graphs(self._graphs.whole, part) for part in self._parts(ids)]
        n, e = max(part.n_nodes for part in parts), max(part.n_edges for part in parts)
        size = min((size for size in self._buckets if size.n_nodes > n and size.n_edges >= e),
                   key=lambda size: size.n_nodes + size.n_edges)
        padded = [self._padded(part, size, ids) for part, ids in zip(parts, self._parts(ids), strict=True)]
        return self._placer.put(tree_util.tree_map(lambda *leaves: np.stack(leaves), *padded))

    def _padded(self, part: xnn.graph.Graph, size: xnn.graph.Bucket, ids: np.ndarray) -> dict[str, Any]:
        graph = xnn.graph.pad(part, size.n_nodes, size.n_edges, self._part + 1)
        labels, weight = np.zeros(self._part + 1, np.int32), np.zeros(self._part + 1, np.float32)
        labels[:len(ids)], weight[:len(ids)] = self._graphs.labels[ids], 1
        return {"graph": graph, "labels": labels, "weight": weight}
