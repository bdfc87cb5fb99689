"""Batches of graphs at a few static sizes: a program is compiled once for each size.

`GraphBatches` shuffles a data set, joins its graphs and pads the batches. For batches from another source, `buckets`
chooses the sizes and `pad_to_bucket` pads a batch::

    batches = GraphBatches(graphs, batch_size=32, seed=0)
    for epoch in range(100):
        for graph in batches.epoch(epoch):
            params = step(params, graph)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from xjax.errors import bad
from xnn.checks import counted, type_text
from xnn.graph.structure.arrays import without_padding
from xnn.graph.structure.batching import batch, pad, take_graphs
from xnn.graph.structure.graph import Graph

_GROUPS = 256                       # largest number of groups of batches of similar size: bounds the exact search.
_EPOCHS = 8                         # number of epochs whose batches determine the sizes.
_WORTH = 0.02                       # fraction of all nodes and edges that a further size must save to justify a compile


class Bucket(NamedTuple):
    """A static size, which includes at least one node and one graph of padding."""

    n_nodes: int
    n_edges: int
    n_graphs: int


def buckets(sizes: Any, count: int = 4) -> tuple[Bucket, ...]:
    """Chooses at most `count` static sizes for batches, with the least padding when batches are sorted by size.

    It returns fewer sizes if more would save less than 2 % of the nodes and edges.

    Args: sizes: int[m, 3], the numbers of nodes, edges and graphs of each batch; [m, 2] if each batch is one graph.
    Returns: the sizes, in ascending order.

    >>> buckets([(10, 20), (12, 20), (100, 300)], count=2)
    (Bucket(n_nodes=13, n_edges=20, n_graphs=2), Bucket(n_nodes=101, n_edges=300, n_graphs=2))
    """
    sizes = np.asarray(sizes)
    if sizes.ndim != 2 or sizes.shape[1] not in (2, 3) or not len(sizes) or sizes.dtype.kind not in "iu" or count < 1:
        raise bad("graph.buckets", "needs the sizes of at least one batch", {"sizes": type_text(sizes), "count": count},
                  "pass (n_nodes, n_edges, n_graphs) of each batch, and count >= 1.", ValueError)
    if sizes.shape[1] == 2:
        sizes = np.concatenate([sizes, np.ones((len(sizes), 1), sizes.dtype)], 1)
    sizes = sizes[np.argsort(_scores(sizes), kind="stable")].astype(np.int64)
    starts = np.unique(np.linspace(0, len(sizes), min(len(sizes), _GROUPS), endpoint=False).astype(int))
    largest, weight = np.maximum.reduceat(sizes, starts), np.diff(starts, append=len(sizes))
    ends = _run_ends(largest[:, :2] / np.maximum(sizes[:, :2].mean(0), 1e-9), weight, count)
    maxima = np.maximum.reduceat(largest, [0, *ends[:-1]])
    return tuple(Bucket(int(n) + 1, int(e), int(g) + 1) for n, e, g in maxima)


def pad_to_bucket(graph: Graph, buckets: Sequence[Bucket]) -> Graph:
    """`pad` to the smallest bucket that is large enough. Raises: ValueError if there is none."""
    room = [size for size in buckets
            if size.n_nodes > graph.n_nodes and size.n_edges >= graph.n_edges and size.n_graphs > graph.n_graphs]
    if not room:
        raise bad("graph.pad_to_bucket", "no bucket has room for the graph",
                  {"graph": repr(graph), "buckets": ", ".join(map(str, map(tuple, buckets)))},
                  "choose the buckets with all batches, and leave one node and one graph for padding.", ValueError)
    return pad(graph, *min(room, key=lambda size: size.n_nodes + size.n_edges))


@dataclass(frozen=True, slots=True)
class GraphBatches:
    """The batches of each epoch, padded to at most `count` static sizes; an epoch has every graph once.

    An epoch depends only on the seed and its number. Each batch has small and large graphs in proportion: the graphs
    are sorted by size and split into as many groups as a batch has graphs, and a batch gets one graph of each group.
    So the size of a batch varies little more than the size of a single graph. With 32 graphs in a batch, padding is
    below 11 % if sizes are uniform, and below 30 % if some graphs are 70 times larger than the mean. With such sizes
    and few graphs in a batch, padding takes up to half of a batch: raise `count`. The batches of an epoch differ by at
    most one graph.

    Attributes:
      graphs: the data set, as one batch; a list of graphs is joined. Labels may be in `globals`.
      batch_size: largest number of graphs in a batch.
      seed: seed of the shuffling.
      count: largest number of static sizes.
      buckets: the sizes, computed from `graphs`; no batch of any epoch is larger than the last.

    >>> GraphBatches([Graph.from_edges([0, 1], [1, 2]), Graph.from_edges([0], [1])], batch_size=1)
    <GraphBatches of 2 graphs, at most 1 a batch, 2 batches an epoch; 2 sizes up to 4 nodes, 2 edges, 2 graphs>
    """

    graphs: Any
    batch_size: int
    seed: int = 0
    count: int = 4
    buckets: tuple[Bucket, ...] = field(init=False)

    def __post_init__(self) -> None:
        graphs = self.graphs if isinstance(self.graphs, Graph) else batch(self.graphs)
        object.__setattr__(self, "graphs", without_padding("GraphBatches", graphs))
        if not self.graphs.n_graphs or self.batch_size < 1:
            raise bad("GraphBatches", "there is nothing to batch",
                      {"graphs": self.graphs.n_graphs, "batch_size": self.batch_size},
                      "pass graphs, and batch_size >= 1.", ValueError)
        sizes = self._sizes()
        seen = [[sizes[ids].sum(0) for ids in self.order(epoch)] for epoch in range(_EPOCHS)]
        # A batch has at most the largest graph of each group.
        first, groups = self._groups()
        bound = sizes[groups].max(1).sum(0) + (sizes[first].max(0) if len(first) else 0)
        object.__setattr__(self, "buckets", buckets(np.concatenate([*seen, bound[None]]), self.count))

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        return -(-self.graphs.n_graphs // self.batch_size)

    def __repr__(self) -> str:
        largest = ", ".join(f"{count} {name.removeprefix('n_')}" for name, count in self.buckets[-1]._asdict().items())
        sizes = f"{counted(len(self.buckets), 'size')} up to {largest}"
        return (f"<GraphBatches of {counted(self.graphs.n_graphs, 'graph')}, at most {self.batch_size} a batch, "
                f"{counted(len(self), 'batch', 'batches')} an epoch; {sizes}>")

    def order(self, epoch: int) -> list[np.ndarray]:
        """The indices of the graphs in each batch of an epoch."""
        rng = np.random.default_rng([self.seed, epoch])
        first, groups = self._groups()
        drawn = rng.permuted(groups, axis=1)
        with_first = rng.permutation(len(self))[:len(first)]
        batches = list(drawn.T)
        for i, one in zip(with_first, rng.permutation(first), strict=True):
            batches[i] = np.append(batches[i], one)
        return [rng.permutation(ids) for ids in batches]

    def epoch(self, epoch: int) -> Iterator[Graph]:
        """The padded batches of an epoch."""
        for ids in self.order(epoch):
            yield pad_to_bucket(take_graphs(self.graphs, ids), self.buckets)

    def _sizes(self) -> np.ndarray:
        return np.stack([self.graphs.n_node, self.graphs.n_edge, np.ones_like(self.graphs.n_node)], 1)

    def _groups(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices of graphs from small to large: the remainder, then full groups [k, number of batches]."""
        by_size = np.argsort(_scores(self._sizes()), kind="stable")
        left = len(by_size) % len(self)
        return by_size[:left], by_size[left:].reshape(-1, len(self))


def _scores(sizes: np.ndarray) -> np.ndarray:
    """One number for each size: its nodes and edges, in units of their means."""
    return (sizes[:, :2] / np.maximum(sizes[:, :2].mean(0), 1e-9)).sum(1)


def _run_ends(largest: np.ndarray, weight: np.ndarray, count: int) -> list[int]:
    """Ends of at most `count` runs of sizes, chosen for the least total size when batches are padded to run maxima.

    Args: largest: [m, 2] sizes in ascending order; weight: [m] number of batches of each size.
    """
    m = len(largest)
    run = np.where(np.arange(m)[None, :, None] >= np.arange(m)[:, None, None], largest[None], 0)
    total = np.cumsum(weight)
    number = total[None] - (total - weight)[:, None]
    cost = np.where(number > 0, np.maximum.accumulate(run, 1).sum(2) * number, np.inf)     # [from, to]
    bests, starts = [cost[0]], []
    for _ in range(count - 1):                                   # bests[c][j]: least cost of 0..j in c + 1 runs
        with_last = np.concatenate([[0], bests[-1][:-1]])[:, None] + cost
        starts.append(with_last.argmin(0))
        bests.append(with_last.min(0))
    limit = bests[-1][-1] + _WORTH * (largest * weight[:, None]).sum()
    enough = next(c for c, best in enumerate(bests) if best[-1] <= limit)
    ends, j = [m], m
    for start in reversed(starts[:enough]):
        j = int(start[j - 1])
        if j == 0:
            break
        ends.append(j)
    return ends[::-1]
