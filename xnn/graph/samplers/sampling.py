"""Neighbour sampling (GraphSAGE, Hamilton et al., 2017): training on graphs that are too large for one step.

A step needs the outputs of some nodes, the seeds. `NeighbourSampler` returns the subgraph of the seeds, at most
``fan_out[0]`` neighbours of each seed, at most ``fan_out[1]`` neighbours of each such neighbour, and so on, padded to a
static size::

    sampler = NeighbourSampler(graph, fan_out=(15, 10), batch_size=1024)
    for epoch in range(10):
        for block in SeedBatches(sampler, train_ids).epoch(epoch):
            params = step(params, block, labels[block.ids[block.seeds]])

The samples depend only on (seed, epoch, index of the batch), not on threads or restarts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xjax.errors import bad
from xjax.typing import ArrayLike, PyTree
from xnn.checks import counted
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
    ranges,
    seeds_text,
    whole,
)
from xnn.graph.samplers.prefetching import prefetch
from xnn.graph.structure.graph import Graph

_OF_ORDER, _OF_SAMPLES = 0, 1


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class _Settings:
    fan_out: tuple[int | None, ...]
    replace: bool
    batch_size: int | None
    sizes: Sizes | None
    seed: int


class NeighbourSampler:
    """Samples the neighbours that nodes receive messages from, as `Block`s whose first rows are the seeds.

    Every node is expanded once, at the first hop that reaches it; edges point from a sampled node to the node for which
    it was sampled. With fan-outs of None, the outputs of ``len(fan_out)`` layers at the seeds equal those on the whole
    graph, for layers that do not read the degree of the sender.

    Args:
      graph: one `Graph` on the host.
      fan_out: for each hop the largest number of neighbours of a node; None for all neighbours.
      replace: draw with replacement: a node with neighbours gets exactly `fan_out` edges, with possible repetitions.
      features: node features in place of ``graph.nodes``: arrays [n, ...], which may be stored in files
        (``np.memmap``), or a pytree of such arrays. Only rows of sampled nodes are read.
      batch_size: largest number of seeds of a block; None: the number of seeds of the call, so that each number of
        seeds has its own size.
      sizes: pairs (nodes, edges) to which blocks are padded; a block gets the smallest that is enough. None for one
        upper bound, see `bound`; `fitted` determines a smaller one.
      seed: seed of the random numbers.
    Raises: TypeError, ValueError for an invalid graph, features or fan-outs.

    >>> graph = Graph.from_edges([1, 2, 3, 0], [0, 0, 1, 3], nodes=np.arange(4.0))
    >>> sampler = NeighbourSampler(graph, fan_out=(None, 1))
    >>> sampler
    <NeighbourSampler of 4 nodes, 4 edges; fan-out all, 1; any number of seeds>
    >>> block = sampler.sample([0])
    >>> block.graph
    <Graph of 2 graphs, 5 nodes, 4 edges; nodes f64[5]>
    >>> block.graph.nodes, block.graph.senders[:3], block.graph.receivers[:3]
    (array([0., 1., 2., 3., 0.]), array([1, 2, 3], dtype=int32), array([0, 0, 1], dtype=int32))
    """

    def __init__(self, graph: Graph, fan_out: Sequence[int | None] = (15, 10), *, replace: bool = False,
                 features: PyTree = None, batch_size: int | None = None, sizes: Sizes | None = None,
                 seed: int = 0) -> None:
        caller = "NeighbourSampler"
        fan_out = checked_fan_out(caller, fan_out)
        if replace and None in fan_out:
            raise bad(caller, "sampling with replacement needs a number for each hop", {"fan_out": fan_out},
                      "pass numbers, such as fan_out=(15, 10).", ValueError)
        self._whole = whole(caller, graph, features)
        self._settings = _Settings(fan_out, replace, batch_size,
                                   sizes if sizes is None else tuple(map(tuple, sizes)), seed)
        self._free: list[Numbering] = []                          # reused; one for each concurrent call

    @property
    def seed(self) -> int:
        return self._settings.seed

    @property
    def batch_size(self) -> int | None:
        return self._settings.batch_size

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the whole graph."""
        return self._whole.n_nodes

    def bound(self, n_seeds: int) -> tuple[int, int]:
        """Upper bound of the numbers of nodes, one padding node included, and edges of a block with `n_seeds` seeds."""
        nodes, edges, last = n_seeds, 0, n_seeds
        for count in self._settings.fan_out:
            drawn = self._whole.n_edges if count is None else min(last, self._whole.n_nodes) * count
            last = min(drawn, self._whole.n_edges)                # new nodes: at most one per edge
            nodes, edges = nodes + last, edges + drawn
        most = edges if self._settings.replace else min(edges, self._whole.n_edges)
        return min(nodes, self._whole.n_nodes) + 1, most

    def fitted(self, seeds: ArrayLike, *, batches: int = 8, slack: float = 1.1) -> NeighbourSampler:
        """A copy of the sampler with a smaller size, measured on some batches of `seeds`, and the upper bound.

        Args:
          seeds: int[s], such as all training nodes.
          batches: largest number of batches that are sampled.
          slack: the size is this factor times the largest block sampled. A larger block gets the upper bound, which
            compiles a second program.
        """
        seeds = checked_ids("NeighbourSampler.fitted", "seeds", seeds, self.n_nodes)
        size = self._settings.batch_size or max(1, len(seeds))
        order = random_of(self._settings.seed, 2 ** 31, of=_OF_ORDER).permutation(seeds)
        parts = [order[i:i + size] for i in range(0, min(len(order), batches * size), size)]
        seen = [self.size_of(part, epoch=2 ** 31, index=i) for i, part in enumerate(parts)]
        bound = self.bound(size)
        learnt = tuple(min(rounded(slack * max(counts)), top)
                       for counts, top in zip(zip(*seen, strict=True), bound, strict=True)) if seen else bound
        return self._with(sizes=tuple(dict.fromkeys([learnt, bound])), batch_size=size)

    def sample(self, seeds: ArrayLike | Sequence[int], *, epoch: int = 0, index: int = 0) -> Block:
        """The block of `seeds`. Args: epoch, index: they select the random numbers.

        A node that occurs several times in `seeds` has one row. Raises: ValueError for a seed out of range, or more
        seeds than the batch size.
        """
        caller = "NeighbourSampler.sample"
        seeds = checked_ids(caller, "seeds", seeds, self.n_nodes)
        room = self._settings.batch_size if self._settings.batch_size is not None else len(seeds)
        if len(seeds) > room:
            raise bad(caller, "more seeds than the batch size", {"seeds": len(seeds), "batch_size": room},
                      "use SeedBatches(sampler, seeds), which splits them into batches.", ValueError)
        ids, senders, receivers, places, rows = self._drawn(seeds, epoch, index)
        size = fitting(caller, self._settings.sizes or [self.bound(room)], len(ids), len(places))
        mask = np.arange(room) < len(seeds)
        return Block(assemble(self._whole, ids, senders, receivers, places, size), padded_ids(ids, size[0]),
                     padded_ids(rows, room), mask)

    def size_of(self, seeds: ArrayLike, *, epoch: int = 0, index: int = 0) -> tuple[int, int]:
        """Numbers of nodes, one padding node included, and edges of a block; it reads no features."""
        seeds = checked_ids("NeighbourSampler.size_of", "seeds", seeds, self.n_nodes)
        ids, _, _, places, _ = self._drawn(seeds, epoch, index)
        return len(ids) + 1, len(places)

    def _drawn(self, seeds: np.ndarray, epoch: int, index: int) -> tuple[np.ndarray, ...]:
        """(ids, senders, receivers, places of the edges, rows of the seeds), without padding."""
        graph, rng = self._whole, random_of(self._settings.seed, epoch, index, of=_OF_SAMPLES)
        try:
            numbers = self._free.pop()
        except IndexError:
            numbers = Numbering(graph.n_nodes)
        frontier, first, edges = numbers.add(seeds), 0, []
        rows = numbers.rows(seeds)
        for count in self._settings.fan_out:
            places, counts = drawn_places(graph, frontier, count, self._settings.replace, rng)
            senders = graph.senders.take(places)
            receivers = np.repeat(np.arange(first, first + len(frontier), dtype=np.int32), counts)
            first += len(frontier)
            frontier = numbers.add(senders)
            edges.append((numbers.rows(senders), receivers, places))
        ids = numbers.clear()
        self._free.append(numbers)                                # skipped after an error, when it is not empty
        return (ids, *map(np.concatenate, zip(*edges, strict=True)), rows)

    def __repr__(self) -> str:
        return (f"<NeighbourSampler of {counts_text(self._whole)}; fan-out {fan_out_text(self._settings.fan_out)}"
                f"{' with replacement' * self._settings.replace}; {seeds_text(self.batch_size)}>")

    def _with(self, **settings: Any) -> NeighbourSampler:
        other = object.__new__(type(self))
        other._whole, other._settings, other._free = self._whole, replace(self._settings, **settings), []
        return other


class SeedBatches:
    """The sampled blocks of each epoch, prepared in threads while the step runs.

    Args:
      sampler: a sampler with a `batch_size`; for a `TypedSampler`, ``sampler.of(type)``.
      seeds: int[s], ids of nodes.
      shuffle: whether to draw a new order for each epoch.
      drop_last: whether to omit the last batch of an epoch if it is not full.
      threads, ahead: as in `prefetch`.

    >>> sampler = NeighbourSampler(Graph.from_edges([1, 2], [0, 0]), fan_out=(1,), batch_size=2)
    >>> SeedBatches(sampler, [0, 1, 2])
    <SeedBatches of 3 seeds, 2 batches an epoch; <NeighbourSampler of 3 nodes, 2 edges; fan-out 1; 2 seeds a batch>>
    """

    def __init__(self, sampler: Any, seeds: Any, *, shuffle: bool = True, drop_last: bool = False,
                 threads: int = 1, ahead: int = 2) -> None:
        if sampler.batch_size is None:
            raise bad("SeedBatches", "the sampler has no batch size", {"batch_size": None},
                      "make it with a batch size: NeighbourSampler(graph, batch_size=1024).", ValueError)
        self._sampler, self._seeds = sampler, checked_ids("SeedBatches", "seeds", seeds, sampler.n_nodes)
        self._shuffle, self._drop_last, self._options = shuffle, drop_last, {"threads": threads, "ahead": ahead}

    def __len__(self) -> int:
        """Number of batches of an epoch."""
        whole_batches, rest = divmod(len(self._seeds), self._sampler.batch_size)
        return whole_batches + (rest > 0 and not self._drop_last)

    def __repr__(self) -> str:
        return (f"<SeedBatches of {counted(len(self._seeds), 'seed')}{'' if self._shuffle else ' in order'}, "
                f"{counted(len(self), 'batch', 'batches')} an epoch; {self._sampler!r}>")

    def at(self, epoch: int, index: int) -> Any:
        """Batch `index` of an epoch."""
        return self._block(self._order(epoch), epoch, index)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The batches of an epoch from index `start`, prepared ahead."""
        order = self._order(epoch)
        return prefetch(lambda index: self._block(order, epoch, index), range(start, len(self)), **self._options)

    def _order(self, epoch: int) -> np.ndarray:
        if not self._shuffle:
            return self._seeds
        return random_of(self._sampler.seed, epoch, of=_OF_ORDER).permutation(self._seeds)

    def _block(self, order: np.ndarray, epoch: int, index: int) -> Any:
        size = self._sampler.batch_size
        return self._sampler.sample(order[index * size:(index + 1) * size], epoch=epoch, index=index)


def drawn_places(graph: Whole, ids: np.ndarray, count: int | None, with_replacement: bool,
                 rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws at most `count` of the edges that each node receives: (places of the edges, their number for each node)."""
    if count is None:
        return graph.edges_of(ids)
    degree, start = graph.degree(ids), graph.first.take(ids)
    if with_replacement:
        has_edges = degree > 0
        start, degree = start[has_edges], degree[has_edges]
        within = (rng.random((len(degree), count)) * degree[:, None]).astype(np.int64)
        return (start[:, None] + within).ravel(), np.where(has_edges, count, 0)
    counts = np.minimum(degree, count)
    places = ranges(start, counts)
    many = np.flatnonzero(degree > count)
    if len(many):
        ends = np.cumsum(counts)[many]
        slots = ends - count + np.arange(count)[:, None]
        places[slots] = start[many] + subsets(degree[many], count, rng)
    return places, counts


def subsets(degree: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """``[count, r]``: column i has `count` distinct integers of ``0 .. degree[i] - 1``; all sets are equally likely.

    It is Floyd's algorithm (Bentley and Floyd, 1987), with each step for all columns at once. It takes count**2
    comparisons for a column: for ten of 20 to 500 it is 300 times faster than a sort of random keys. An integer below d
    is a random double times d, rounded down, so probabilities are wrong by at most d / 2**53.
    """
    drawn = rng.random((count, len(degree)))
    degree = degree.astype(np.int32)
    chosen = np.empty(drawn.shape, np.int32)
    for i in range(count):
        last = degree - np.int32(count - i)
        one = (drawn[i] * (last + 1)).astype(np.int32)
        chosen[i] = np.where((chosen[:i] == one).any(0), last, one)
    return chosen


def checked_fan_out(caller: str, fan_out: object) -> tuple[int | None, ...]:
    """The fan-outs as a tuple. Raises: ValueError unless they are a positive integer or None for each hop."""
    hops = tuple(fan_out) if isinstance(fan_out, Sequence) else ()
    fine = all(count is None or (isinstance(count, int | np.integer) and count > 0) for count in hops)
    if not hops or not fine:
        raise bad(caller, "fan_out needs a positive number for each hop", {"fan_out": repr(fan_out)},
                  "pass for example fan_out=(15, 10), or None for all neighbours.", ValueError)
    return tuple(count if count is None else int(count) for count in hops)


def fan_out_text(fan_out: Sequence[int | None]) -> str:
    """``"15, all"`` for ``(15, None)``."""
    return ", ".join("all" if count is None else str(count) for count in fan_out)


def rounded(x: float) -> int:
    """x rounded up to a multiple of 128, so that sizes measured on other seeds tend to be equal."""
    return -(-int(np.ceil(x)) // 128) * 128
