"""Batches of pairs of nodes, with the whole graph, and the blocks of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.batches import Batches
from recipes.data.pairs import Links
from recipes.lazy import sp, xnn
from recipes.process.parallel import Placer

if TYPE_CHECKING:
    from xjax.typing import PyTree


def split_graph(placer: Placer, adjacency: sp.csr_matrix, features: sp.csr_matrix, norm: str | None,
                width: int, dense: bool) -> dict[str, Any]:
    """Blocks of a graph: "adj", a RowBlock, and "x", features [block, f] as CSR or dense.

    Args:
      norm: of the adjacency; None: it is not changed.
      width: number of columns of products with the adjacency.
      dense: whether "x" is dense, for models that multiply the adjacency by the features themselves.
    """
    if norm is not None:
        adjacency = xnn.normalized_adjacency(adjacency, norm).to_scipy()
    return {"adj": placer.row_block(adjacency, width),
            "x": placer.split(features.toarray()) if dense else placer.split_matrix(features)}


class PairBatches(Batches):
    """The whole graph, and pairs of nodes: in training, the edges and newly drawn pairs without an edge."""

    def __init__(self, links: Links, norm: str | None, placer: Placer, seed: int, width: int, dense: bool) -> None:
        n = links.adjacency.shape[0]
        self._links, self._placer, self._seed = links, placer, seed
        self._graph = xnn.graph.Graph.from_edges(*links.adjacency.nonzero(), n_nodes=n)
        self._fixed = placer.put({
            **split_graph(placer, links.adjacency, links.features, norm, width, dense),
            "is_node": placer.split(np.ones(n, np.float32)),
            "labels": placer.split((np.arange(len(links)) < links.edges).astype(np.float32)),
            "weight": placer.split(np.ones(len(links), np.float32))})

    def train(self, step: int) -> PyTree:
        rng = np.random.default_rng([self._seed, step])
        edges = self._links.pairs[:self._links.edges]
        others = xnn.graph.negative_edges(self._graph, len(self._links) - len(edges), rng, undirected=True)
        return self._with(np.concatenate([edges, others]))

    def all(self) -> Iterator[PyTree]:
        yield self._with(self._links.pairs)

    def _with(self, pairs: np.ndarray) -> PyTree:
        return {**self._fixed, "pairs": self._placer.put(self._placer.split(pairs))}
