"""Training on induced subgraphs: clusters (Cluster-GCN) and random walks (GraphSAINT).

Both return `Block`s with all edges between their nodes. All nodes have outputs; the caller masks the nodes that do not
count in the loss. For a loss over the training set, the mask is ``is_train[block.ids] & block.seed_mask``.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from xjax.errors import bad
from xjax.typing import PyTree
from xnn.checks import counted, type_text
from xnn.graph.samplers.blocks import (
    Block,
    Numbering,
    Sizes,
    Whole,
    assemble,
    checked_ids,
    counts_text,
    fitting,
    padded_ids,
    random_of,
    whole,
)
from xnn.graph.samplers.prefetching import prefetch
from xnn.graph.structure.graph import Graph

_OF_CLUSTERS, _OF_WALKS = 4, 5


def induced_block(graph: Graph, ids: Any, *, features: PyTree = None, sizes: Sizes | None = None) -> Block:
    """The block of the nodes `ids` and all edges between them.

    Args: features, sizes: as in `NeighbourSampler`; if sizes is None, there is one padding node and no padding edge.
    Raises: ValueError for an id out of range.

    >>> ring = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0])
    >>> block = induced_block(ring, [3, 2, 0])
    >>> block.graph.senders, block.graph.receivers
    (array([1, 0], dtype=int32), array([0, 2], dtype=int32))
    """
    whole_graph = whole("induced_block", graph, features)
    return _induced("subgraph", whole_graph, checked_ids("induced_block", "ids", ids, whole_graph.n_nodes), sizes)


class ClusterBatches:
    """Unions of clusters with the edges between them (Cluster-GCN, Chiang et al., 2019).

    Args:
      graph, features, sizes, seed: as in `NeighbourSampler`; sizes None: one upper bound, from the largest clusters.
      part: int[n], the cluster of each node, as from `partition`.
      clusters: number of clusters in a batch; each epoch draws new combinations.
      threads, ahead: as in `prefetch`.
    Raises: ValueError if `part` does not have one cluster for each node.

    >>> ClusterBatches(Graph.from_edges([0, 1, 2], [1, 2, 3]), [0, 0, 1, 1])
    <ClusterBatches of 4 nodes, 3 edges; 2 clusters, 1 a batch, 2 batches an epoch>
    """

    def __init__(self, graph: Graph, part: Any, *, clusters: int = 1, features: PyTree = None,
                 sizes: Sizes | None = None, seed: int = 0, threads: int = 1, ahead: int = 2) -> None:
        self._whole, part = whole("ClusterBatches", graph, features), np.asarray(part)
        fits = part.shape == (self._whole.n_nodes,) and part.dtype.kind in "iu" and part.min(initial=0) >= 0
        if not fits or clusters < 1:
            raise bad("ClusterBatches", "needs a cluster for each node, and at least one cluster in a batch",
                      {"part": type_text(part), "nodes": self._whole.n_nodes, "clusters": clusters},
                      "pass for example part=partition(graph, 50), clusters=2.", ValueError)
        self._nodes = np.argsort(part, kind="stable")             # grouped by cluster
        self._ends = np.cumsum(np.bincount(part))
        self._clusters, self._seed, self._options = clusters, seed, {"threads": threads, "ahead": ahead}
        self._sizes = sizes or [self._bound(part)]

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return -(-len(self._ends) // self._clusters)

    def __repr__(self) -> str:
        clusters = f"{counted(len(self._ends), 'cluster')}, {self._clusters} a batch"
        batches = counted(len(self), "batch", "batches")
        return f"<ClusterBatches of {counts_text(self._whole)}; {clusters}, {batches} an epoch>"

    def at(self, epoch: int, index: int) -> Block:
        """Batch `index` of an epoch; it depends only on (seed, epoch, index)."""
        return self._block(self._order(epoch), index)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Block]:
        """The batches of an epoch from index `start`, prepared ahead."""
        order = self._order(epoch)
        return prefetch(lambda index: self._block(order, index), range(start, len(self)), **self._options)

    def _order(self, epoch: int) -> np.ndarray:
        return random_of(self._seed, epoch, of=_OF_CLUSTERS).permutation(len(self._ends))

    def _block(self, order: np.ndarray, index: int) -> Block:
        chosen = order[index * self._clusters:(index + 1) * self._clusters]
        parts = [self._nodes[self._ends[i - 1] if i else 0:self._ends[i]] for i in chosen]
        return _induced("ClusterBatches", self._whole, np.concatenate(parts), self._sizes)

    def _bound(self, part: np.ndarray) -> tuple[int, int]:
        """Upper bound: the nodes of the largest clusters, one of padding, and the edges of the clusters with most."""
        nodes = np.bincount(part)
        edges = np.bincount(part, np.diff(self._whole.first), len(nodes)).astype(np.int64)
        n_nodes, n_edges = (int(np.sort(counts)[-self._clusters:].sum()) for counts in (nodes, edges))
        return n_nodes + 1, n_edges


class RandomWalkSampler:
    """Subgraphs of random walks, with weights that correct their bias (GraphSAINT-RW, Zeng et al., 2020).

    Walks reach some nodes more often than others. At construction C subgraphs are drawn; C_v of them have node v, and
    C_uv have the edge from u to v. The weight of an edge is multiplied by ``C_v / C_uv``: a sum over the edges that v
    receives then estimates the sum in the whole graph. `Block.loss_weight` is ``C / (n C_v)``:
    ``sum(loss_weight * loss)`` then estimates the mean loss over all nodes. For nodes and edges in none of the C
    subgraphs, the count is set to 1.

    Args:
      graph, features, sizes, seed: as in `NeighbourSampler`. A walk steps from a node to a random sender of its
        incoming edges; if it has none, the walk stays.
      roots: number of walks of a subgraph; each starts at a uniformly drawn node.
      length: number of steps of a walk.
      coverage: subgraphs are drawn for the estimates until the total number of their nodes is `coverage` times that of
        the graph. With 0 there are no weights.
      batches: number of subgraphs of an epoch; n / roots, rounded up, if None.
      threads, ahead: as in `prefetch`.

    >>> RandomWalkSampler(Graph.from_edges([0, 1, 2], [1, 2, 0]), roots=2, length=1)
    <RandomWalkSampler of 3 nodes, 3 edges; 2 walks of 1 step a batch, 2 batches an epoch>
    """

    def __init__(self, graph: Graph, roots: int, length: int, *, coverage: float = 50.0, batches: int | None = None,
                 features: PyTree = None, sizes: Sizes | None = None, seed: int = 0, threads: int = 1,
                 ahead: int = 2) -> None:
        if roots < 1 or length < 0 or coverage < 0:
            raise bad("RandomWalkSampler", "needs roots >= 1, length >= 0 and coverage >= 0",
                      {"roots": roots, "length": length, "coverage": coverage},
                      "pass for example roots=2000, length=2.", ValueError)
        self._whole = whole("RandomWalkSampler", graph, features)
        if not self._whole.n_nodes:
            raise bad("RandomWalkSampler", "the graph has no nodes", {"graph": repr(graph)}, "pass a graph with nodes.",
                      ValueError)
        self._roots, self._length, self._seed = roots, length, seed
        self._batches = batches if batches is not None else -(-self._whole.n_nodes // roots)
        self._options = {"threads": threads, "ahead": ahead}
        self._sizes = sizes or [self._bound()]
        self._edge_weight, self._loss_weight = self._estimated(coverage)

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return self._batches

    def __repr__(self) -> str:
        return (f"<RandomWalkSampler of {counts_text(self._whole)}; {counted(self._roots, 'walk')} of "
                f"{counted(self._length, 'step')} a batch, {counted(len(self), 'batch', 'batches')} an epoch>")

    def at(self, epoch: int, index: int) -> Block:
        """Subgraph `index` of an epoch; it depends only on (seed, epoch, index)."""
        return _induced("RandomWalkSampler", self._whole, self._walked(epoch, index), self._sizes, self._edge_weight,
                        self._loss_weight)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Block]:
        """The subgraphs of an epoch from index `start`, prepared ahead."""
        return prefetch(lambda index: self.at(epoch, index), range(start, len(self)), **self._options)

    def _walked(self, epoch: int, index: int) -> np.ndarray:
        """The nodes of the walks, without duplicates, ascending."""
        rng = random_of(self._seed, epoch, index, of=_OF_WALKS)
        at = rng.integers(self._whole.n_nodes, size=self._roots)
        seen = [at]
        for _ in range(self._length):
            degree = self._whole.degree(at)
            step = self._whole.first.take(at) + (rng.random(self._roots) * degree).astype(np.int64)
            moves, at = np.flatnonzero(degree), at.copy()
            at[moves] = self._whole.senders[step[moves]]
            seen.append(at)
        return np.unique(np.concatenate(seen))

    def _bound(self) -> tuple[int, int]:
        n = min(self._roots * (self._length + 1), self._whole.n_nodes)
        return n + 1, int(np.sort(np.diff(self._whole.first))[-n:].sum())

    def _estimated(self, coverage: float) -> tuple[np.ndarray | None, np.ndarray | None]:
        """float32 weights of all edges, by place, and of all nodes; (None, None) without coverage."""
        whole_graph = self._whole
        if not coverage:
            return None, None
        nodes, edges, count, numbers = (
            np.zeros(whole_graph.n_nodes), np.zeros(whole_graph.n_edges), 0, Numbering(whole_graph.n_nodes))
        while nodes.sum() < coverage * whole_graph.n_nodes:
            ids = self._walked(2 ** 31, count)
            nodes[ids] += 1
            edges[_edges_within(whole_graph, ids, numbers)[3]] += 1
            numbers.clear()
            count += 1
        nodes, edges = np.maximum(nodes, 1), np.maximum(edges, 1)
        return ((np.repeat(nodes, np.diff(whole_graph.first)) / edges).astype(np.float32),
                (count / (whole_graph.n_nodes * nodes)).astype(np.float32))


def _edges_within(whole_graph: Whole, ids: np.ndarray, numbers: Numbering) -> tuple[np.ndarray, ...]:
    """(distinct ids, senders, receivers, places) of the edges between the nodes; adds the nodes to `numbers`."""
    ids = numbers.add(ids)
    places, counts = whole_graph.edges_of(ids)
    senders = numbers.rows(whole_graph.senders.take(places))
    inside = np.flatnonzero(senders >= 0)
    return ids, senders[inside], np.repeat(np.arange(len(ids), dtype=np.int32), counts)[inside], places[inside]


def _induced(caller: str, whole_graph: Whole, ids: np.ndarray, sizes: Sizes | None,
             edge_weight: np.ndarray | None = None, loss_weight: np.ndarray | None = None) -> Block:
    ids, senders, receivers, places = _edges_within(whole_graph, ids, Numbering(whole_graph.n_nodes))
    size = fitting(caller, sizes or [(len(ids) + 1, len(places))], len(ids), len(places))
    graph = assemble(whole_graph, ids, senders, receivers, places, size)
    mask = np.arange(size[0]) < len(ids)
    weight = None
    if edge_weight is not None:
        factors = np.zeros(size[1], np.float32)
        factors[:len(places)] = edge_weight[places]
        graph = graph.replace(edges=_weighted(graph, factors))
    if loss_weight is not None:
        weight = np.where(mask, loss_weight[padded_ids(ids, size[0])], np.float32(0))
    return Block(graph, padded_ids(ids, size[0]), padded_ids(np.arange(len(ids)), size[0]), mask, weight)


def _weighted(graph: Graph, factor: np.ndarray) -> Any:
    """The field `edges` of the graph with the weights multiplied by `factor`."""
    weight, features = graph.weight, graph.edge_features
    weight = factor if weight is None else (weight * factor).astype(weight.dtype)
    if isinstance(graph.edges, Mapping):
        return {**graph.edges, "weight": weight}
    return weight if features is None else {"weight": weight, "features": features}
