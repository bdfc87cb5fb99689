"""Neighbour sampling (GraphSAGE, Hamilton et al., 2017): training on graphs that are too large for one step.

A step needs the outputs of some nodes, the seeds. `NeighbourSampler` gives the subgraph of the seeds, at most
``fan_out[0]`` neighbours of each, at most ``fan_out[1]`` of each of those, and so on, padded to a static size::

    sampler = NeighbourSampler(graph, fan_out=(15, 10), batch_size=1024)
    for epoch in range(10):
        for block in SeedBatches(sampler, train_ids).epoch(epoch):
            params = step(params, block, labels[block.ids[block.seeds]])

What is sampled is a function of (seed, epoch, number of the batch) alone: neither threads nor a restart change it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xjax.errors import bad
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
    """Samples of the neighbours that nodes receive messages from, as `Block`s whose first rows are the seeds.

    Every node is expanded once, where it is first reached; edges go from a sampled node to the node that it was sampled
    for. With fan-outs of None the outputs of ``len(fan_out)`` layers at the seeds are those of the whole graph, for
    layers that do not read the degree of the sender.

    Args:
      graph: one `Graph` on the host.
      fan_out: for each hop the most neighbours of a node; None for all of them.
      replace: draw with replacement: a node with neighbours gets exactly `fan_out` edges, some of them equal.
      features: of nodes, in place of ``graph.nodes``: arrays [n, ...], which may lie in files (``np.memmap``), or a
        tree of them. Only rows of sampled nodes are read.
      batch_size: most seeds of a block; None: as many as a call has, so each number of seeds is a size of its own.
      sizes: pairs (nodes, edges) that blocks are padded to; a block gets the smallest with place for it. None: one
        upper bound, see `bound`; `fitted` finds a smaller one.
      seed: of the random numbers.
    Raises: TypeError, ValueError for a graph, features or fan-outs that are none.

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
                 features: Any = None, batch_size: int | None = None, sizes: Sizes | None = None, seed: int = 0):
        caller = "NeighbourSampler"
        fan_out = checked_fan_out(caller, fan_out)
        if replace and None in fan_out:
            raise bad(caller, "draws with replacement need a number", {"fan_out": fan_out}, "fan_out=(15, 10).",
                      ValueError)
        self._whole = whole(caller, graph, features)
        self._of = _Settings(fan_out, replace, batch_size, sizes if sizes is None else tuple(map(tuple, sizes)), seed)
        self._free: list[Numbering] = []                          # one for each thread that samples now

    @property
    def seed(self) -> int:
        return self._of.seed

    @property
    def batch_size(self) -> int | None:
        return self._of.batch_size

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the whole graph."""
        return self._whole.n_nodes

    def bound(self, n_seeds: int) -> tuple[int, int]:
        """Numbers of nodes and edges that no block of so many seeds exceeds, with one node of padding."""
        nodes, edges, last = n_seeds, 0, n_seeds
        for count in self._of.fan_out:
            drawn = self._whole.n_edges if count is None else min(last, self._whole.n_nodes) * count
            last = min(drawn, self._whole.n_edges)                # nodes that are reached: no more than there are edges
            nodes, edges = nodes + last, edges + drawn
        most = edges if self._of.replace else min(edges, self._whole.n_edges)
        return min(nodes, self._whole.n_nodes) + 1, most

    def fitted(self, seeds: Any, *, batches: int = 8, slack: float = 1.1) -> "NeighbourSampler":
        """The same sampler with a smaller size, learnt from some batches of these seeds, besides the upper bound.

        Args: slack: the size is so many times the largest block seen; a block that exceeds it gets the upper bound,
          which compiles a second program.
        """
        seeds = checked_ids("NeighbourSampler.fitted", "seeds", seeds, self.n_nodes)
        size = self._of.batch_size or max(1, len(seeds))
        order = random_of(self._of.seed, 2 ** 31, of=_OF_ORDER).permutation(seeds)
        parts = [order[i:i + size] for i in range(0, min(len(order), batches * size), size)]
        seen = [self.size_of(part, epoch=2 ** 31, index=i) for i, part in enumerate(parts)]
        bound = self.bound(size)
        learnt = tuple(min(rounded(slack * max(counts)), top)
                       for counts, top in zip(zip(*seen, strict=True), bound, strict=True)) if seen else bound
        return self._with(sizes=tuple(dict.fromkeys([learnt, bound])), batch_size=size)

    def sample(self, seeds: Any, *, epoch: int = 0, index: int = 0) -> Block:
        """The block of these seeds. Args: epoch, index: which random numbers.

        A node that is a seed several times has one row. Raises: ValueError for a seed that is no node, or too many.
        """
        caller = "NeighbourSampler.sample"
        seeds = checked_ids(caller, "seeds", seeds, self.n_nodes)
        room = self._of.batch_size if self._of.batch_size is not None else len(seeds)
        if len(seeds) > room:
            raise bad(caller, "more seeds than the batch size", {"seeds": len(seeds), "batch_size": room},
                      "SeedBatches(sampler, seeds), which divides them.", ValueError)
        ids, senders, receivers, places, rows = self._drawn(seeds, epoch, index)
        size = fitting(caller, self._of.sizes or [self.bound(room)], len(ids), len(places))
        mask = np.arange(room) < len(seeds)
        return Block(assemble(self._whole, ids, senders, receivers, places, size), padded_ids(ids, size[0]),
                     padded_ids(rows, room), mask)

    def size_of(self, seeds: Any, *, epoch: int = 0, index: int = 0) -> tuple[int, int]:
        """Numbers of nodes, with one of padding, and edges of a block, without its features."""
        seeds = checked_ids("NeighbourSampler.size_of", "seeds", seeds, self.n_nodes)
        ids, _, _, places, _ = self._drawn(seeds, epoch, index)
        return len(ids) + 1, len(places)

    def _drawn(self, seeds: np.ndarray, epoch: int, index: int) -> tuple[np.ndarray, ...]:
        """(ids, senders, receivers, places of the edges, rows of the seeds) without padding."""
        graph, rng = self._whole, random_of(self._of.seed, epoch, index, of=_OF_SAMPLES)
        try:
            numbers = self._free.pop()
        except IndexError:
            numbers = Numbering(graph.n_nodes)
        frontier, first, edges = numbers.add(seeds), 0, []
        rows = numbers.rows(seeds)
        for count in self._of.fan_out:
            places, counts = drawn_places(graph, frontier, count, self._of.replace, rng)
            found = graph.senders.take(places)
            receivers = np.repeat(np.arange(first, first + len(frontier), dtype=np.int32), counts)
            first += len(frontier)
            frontier = numbers.add(found)
            edges.append((numbers.rows(found), receivers, places))
        ids = numbers.clear()
        self._free.append(numbers)                                # not after an error: then it is not empty
        return (ids, *map(np.concatenate, zip(*edges, strict=True)), rows)

    def __repr__(self) -> str:
        return (f"<NeighbourSampler of {counts_text(self._whole)}; fan-out {fan_out_text(self._of.fan_out)}"
                f"{' with replacement' * self._of.replace}; {seeds_text(self.batch_size)}>")

    def _with(self, **settings: Any) -> "NeighbourSampler":
        other = object.__new__(type(self))
        other._whole, other._of, other._free = self._whole, replace(self._of, **settings), []
        return other


class SeedBatches:
    """The batches of seeds of each epoch, sampled by threads while the step runs.

    Args:
      sampler: made with a `batch_size`; of a `TypedSampler`, ``sampler.of(type)``.
      seeds: int[s] numbers of nodes.
      shuffle: another order in each epoch.
      drop_last: leave out the last batch of an epoch where it is not full.
      threads, ahead: as of `prefetch`.

    >>> sampler = NeighbourSampler(Graph.from_edges([1, 2], [0, 0]), fan_out=(1,), batch_size=2)
    >>> SeedBatches(sampler, [0, 1, 2])
    <SeedBatches of 3 seeds, 2 batches an epoch; <NeighbourSampler of 3 nodes, 2 edges; fan-out 1; 2 seeds a batch>>
    """

    def __init__(self, sampler: Any, seeds: Any, *, shuffle: bool = True, drop_last: bool = False,
                 threads: int = 1, ahead: int = 2):
        if sampler.batch_size is None:
            raise bad("SeedBatches", "the sampler has no batch size", {"batch_size": None},
                      "NeighbourSampler(graph, batch_size=1024).", ValueError)
        self._sampler, self._seeds = sampler, checked_ids("SeedBatches", "seeds", seeds, sampler.n_nodes)
        self._shuffle, self._drop_last, self._how = shuffle, drop_last, {"threads": threads, "ahead": ahead}

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
        """The batches of an epoch, from number `start` on, made ahead."""
        order = self._order(epoch)
        return prefetch(lambda index: self._block(order, epoch, index), range(start, len(self)), **self._how)

    def _order(self, epoch: int) -> np.ndarray:
        if not self._shuffle:
            return self._seeds
        return random_of(self._sampler.seed, epoch, of=_OF_ORDER).permutation(self._seeds)

    def _block(self, order: np.ndarray, epoch: int, index: int) -> Any:
        size = self._sampler.batch_size
        return self._sampler.sample(order[index * size:(index + 1) * size], epoch=epoch, index=index)


def drawn_places(graph: Whole, ids: np.ndarray, count: int | None, with_replacement: bool,
                 rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """At most `count` of the edges that each node receives: their places, and their number for each node."""
    if count is None:
        return graph.edges_of(ids)
    degree, start = graph.degree(ids), graph.first.take(ids)
    if with_replacement:
        some = degree > 0
        start, degree = start[some], degree[some]
        within = (rng.random((len(degree), count)) * degree[:, None]).astype(np.int64)
        return (start[:, None] + within).ravel(), np.where(some, count, 0)
    counts = np.minimum(degree, count)
    places = ranges(start, counts)
    many = np.flatnonzero(degree > count)
    if len(many):
        ends = np.cumsum(counts)[many]
        slots = ends - count + np.arange(count)[:, None]
        places[slots] = start[many] + subsets(degree[many], count, rng)
    return places, counts


def subsets(degree: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """``[count, r]``: in column i `count` different ones of ``0 .. degree[i] - 1``, all sets equally likely.

    Floyd's algorithm (Bentley and Floyd, 1987), a step for all columns at once. It takes count**2 comparisons for a
    column: for ten of 20 to 500 it is 300 times faster than a sort of random keys. A number below d is a double times
    d, rounded down, so probabilities are off by at most d / 2**53.
    """
    drawn = rng.random((count, len(degree)))
    degree = degree.astype(np.int32)
    chosen = np.empty(drawn.shape, np.int32)
    for i in range(count):
        last = degree - np.int32(count - i)
        one = (drawn[i] * (last + 1)).astype(np.int32)
        chosen[i] = np.where((chosen[:i] == one).any(0), last, one)
    return chosen


def checked_fan_out(caller: str, fan_out: Any) -> tuple[int | None, ...]:
    """Raises: ValueError if it does not have a positive number or None for each hop."""
    hops = tuple(fan_out) if isinstance(fan_out, Sequence) else ()
    fine = all(count is None or (isinstance(count, int | np.integer) and count > 0) for count in hops)
    if not hops or not fine:
        raise bad(caller, "fan_out needs a positive number for each hop", {"fan_out": repr(fan_out)},
                  "fan_out=(15, 10); None for all neighbours.", ValueError)
    return tuple(count if count is None else int(count) for count in hops)


def fan_out_text(fan_out: Sequence[int | None]) -> str:
    """``"15, all"`` for ``(15, None)``."""
    return ", ".join("all" if count is None else str(count) for count in fan_out)


def rounded(x: float) -> int:
    """Up to a multiple of 128, so that sizes learnt from other seeds tend to be equal."""
    return -(-int(np.ceil(x)) // 128) * 128
