"""Neighbour sampling on graphs with several types of nodes and edges.

A relation ``(source type, name, target type)`` has its own edges, from nodes of one type to nodes of another. The nodes
of each type are numbered from 0. Sampling is as in `xnn.graph.samplers.sampling`, with a fan-out for each relation.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax.errors import bad, did_you_mean
from xjax.typing import ArrayLike
from xnn.checks import counted
from xnn.graph.samplers.blocks import (
    Numbering,
    Whole,
    ascending,
    checked_ids,
    padded_ids,
    random_of,
    seeds_text,
    take_rows,
    whole_edges,
)
from xnn.graph.samplers.sampling import checked_fan_out, drawn_places, fan_out_text, rounded
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.hetero import HeteroGraph

Relation = tuple[str, str, str]
_OF_TYPED = 2


class TypedBlock(NamedTuple):
    """A sampled part of a typed graph, padded to static sizes; a pytree.

    Attributes:
      nodes: type -> features [n, ...] of its rows; types without features are not included.
      ids: type -> int32[n], the id of each row in the whole graph; 0 for padding.
      node_mask: type -> bool[n], False for padding.
      edges: relation -> ``(senders, receivers)``, int32[e], rows of the source and the target type; receivers ascend.
        Padding edges join padding rows.
      by_sender: relation -> int32[e], the edges in ascending order of senders, as in `Graph`.
      edge_mask: relation -> bool[e], False for padding.
      edge_ids: relation -> int32[e], the position of each edge in the arrays that were passed to the sampler.
      seeds, seed_mask: as in `Block`; seeds are rows of the seed type.
    """

    nodes: Any
    ids: Any
    node_mask: Any
    edges: Any
    by_sender: Any
    edge_mask: Any
    edge_ids: Any
    seeds: Any
    seed_mask: Any

    @property
    def graph(self) -> HeteroGraph:
        """The block as a batch of two graphs, rows and padding, for `HeteroConvolution`; the arrays may be traced.

        A type without features gets [n, 0]; set embeddings of its `ids` with ``graph.replace(nodes={...})``. To get
        the weights or features of the edges of a relation, index its arrays with `edge_ids`.

        >>> writes = {("author", "writes", "paper"): ([0, 1, 1], [0, 0, 2])}
        >>> sampler = TypedSampler(writes, {"author": 2, "paper": 3}, (5,), features={"paper": np.ones((3, 4))})
        >>> sampler.sample("paper", [2, 0]).graph
        <HeteroGraph of author f32[3,0], paper f64[3,4]; author-writes-paper with 3 edges>
        """
        nodes = {kind: self.nodes.get(kind, np.zeros((len(ids), 0), np.float32)) for kind, ids in self.ids.items()}
        relations = {key: Edges(*ends, None, None, self.edge_mask[key], self.by_sender[key], len(self.ids[key[2]]))
                     for key, ends in self.edges.items()}
        return HeteroGraph(nodes, relations, {kind: _counts(mask) for kind, mask in self.node_mask.items()},
                           np.array([True, False]))


class TypedSampler:
    """Samples the neighbours in each relation, as `TypedBlock`s in which the seeds are the first rows of their type.

    Args:
      relations: ``(source, name, target) -> (senders, receivers)``, concrete integers.
      n_nodes: type -> number of nodes.
      fan_out: for each hop the largest number of neighbours of a node in each relation, None for all; or a dict
        ``relation -> fan-outs``. Relations that are not in the dict are not sampled.
      replace, seed: as in `NeighbourSampler`.
      features: type -> arrays [n, ...] or pytrees of such arrays, which may be stored in files.
      batch_size: largest number of seeds of a block; None: the number of seeds of the call.
    Raises: ValueError for a type that is missing in `n_nodes`, and an edge with an end out of range.

    >>> writes = {("author", "writes", "paper"): ([0, 1, 1], [0, 0, 2])}
    >>> sampler = TypedSampler(writes, {"author": 2, "paper": 3}, fan_out=(5,))
    >>> sampler
    <TypedSampler of author 2 nodes, paper 3 nodes; author-writes-paper 3 edges, fan-out 5; any number of seeds>
    >>> block = sampler.sample("paper", [2, 0])
    >>> block.ids["author"], block.node_mask["author"]
    (array([1, 0, 0], dtype=int32), array([ True,  True, False]))
    >>> block.edges["author", "writes", "paper"]
    (array([0, 1, 0], dtype=int32), array([0, 1, 1], dtype=int32))
    """

    def __init__(self, relations: Mapping[Relation, tuple[Any, Any]], n_nodes: Mapping[str, int],
                 fan_out: Sequence[int | None] | Mapping[Relation, Sequence[int | None]] = (15, 10), *,
                 replace: bool = False, features: Mapping[str, Any] | None = None, batch_size: int | None = None,
                 seed: int = 0) -> None:
        caller = "TypedSampler"
        self._fan_out = _fan_outs(caller, fan_out, relations)
        if replace and any(None in hops for hops in self._fan_out.values()):
            raise bad(caller, "sampling with replacement needs a number for each hop", {"fan_out": repr(fan_out)},
                      "pass numbers, such as fan_out=(15, 10).", ValueError)
        self._n_nodes, self._features = dict(n_nodes), dict(features or {})
        self._whole = {relation: _relation(caller, relation, ends, self._n_nodes)
                       for relation, ends in sorted(relations.items()) if relation in self._fan_out}
        self._replace, self._batch_size, self._seed = replace, batch_size, seed
        self._learnt: dict[str, tuple[dict[str, int], dict[Relation, int]]] = {}
        self._free: list[dict[str, Numbering]] = []

    def bound(self, seed_type: str, n_seeds: int) -> tuple[dict[str, int], dict[Relation, int]]:
        """Upper bounds of a block: nodes of each type, one padding node included, and edges of each relation."""
        total = {kind: 0 for kind in self._n_nodes} | {seed_type: n_seeds}
        last, edges = dict(total), {relation: 0 for relation in self._whole}
        for hop in range(self._hops):
            reached = dict.fromkeys(total, 0)
            for relation, graph in self._whole.items():
                count = self._count(relation, hop)
                new = graph.n_edges if count is None else min(last[relation[2]], self._n_nodes[relation[2]]) * count
                edges[relation] += new
                reached[relation[0]] += new
            last = reached
            total = {kind: total[kind] + reached[kind] for kind in total}
        return ({kind: min(total[kind], n) + 1 for kind, n in self._n_nodes.items()},
                {relation: most if self._replace else min(most, self._whole[relation].n_edges)
                 for relation, most in edges.items()})

    def __repr__(self) -> str:
        kinds = ", ".join(f"{kind} {counted(n, 'node')}" for kind, n in self._n_nodes.items())
        relations = "".join(f"; {'-'.join(relation)} {counted(graph.n_edges, 'edge')}, fan-out "
                            f"{fan_out_text(self._fan_out[relation])}" for relation, graph in self._whole.items())
        drawn = " with replacement" * self._replace
        return f"<TypedSampler of {kinds}{relations}{drawn}; {seeds_text(self._batch_size)}>"

    def of(self, seed_type: str) -> OfType:
        """The sampler for seeds of one type, for `SeedBatches`."""
        return OfType(self, seed_type)

    def fitted(self, seed_type: str, seeds: Any, *, batches: int = 8, slack: float = 1.1) -> TypedSampler:
        """A copy of the sampler with smaller sizes for seeds of this type, measured on some batches of `seeds`.

        Args: slack: the sizes are this factor times the largest sizes sampled. A larger block gets the upper bounds,
          which compiles a second program.
        """
        seeds = checked_ids("TypedSampler.fitted", "seeds", seeds, self._n_nodes[seed_type])
        room = self._batch_size or max(1, len(seeds))
        order = random_of(self._seed, 2 ** 31, of=_OF_TYPED).permutation(seeds)
        nodes, edges = dict.fromkeys(self._n_nodes, 0), dict.fromkeys(self._whole, 0)
        for i in range(min(batches, -(-len(order) // room))):
            ids, drawn, _ = self._drawn(seed_type, order[i * room:(i + 1) * room], 2 ** 31, i)
            nodes = {kind: max(most, len(ids[kind]) + 1) for kind, most in nodes.items()}
            edges = {relation: max(most, len(drawn[relation][2])) for relation, most in edges.items()}
        bounds = self.bound(seed_type, room)
        learnt = tuple({key: min(rounded(slack * most), bound[key]) for key, most in seen.items()}
                       for seen, bound in zip((nodes, edges), bounds, strict=True))
        other = copy.copy(self)
        other._free, other._batch_size, other._learnt = [], room, {**self._learnt, seed_type: learnt}
        return other

    def sample(self, seed_type: str, seeds: Any, *, epoch: int = 0, index: int = 0) -> TypedBlock:
        """The block of `seeds`, nodes of one type. Raises: ValueError as `NeighbourSampler.sample`."""
        caller = "TypedSampler.sample"
        if seed_type not in self._n_nodes:
            raise bad(caller, f"there is no type {seed_type!r}", {"types": ", ".join(self._n_nodes)},
                      did_you_mean(seed_type, list(self._n_nodes)) or "pass one of these types.", ValueError)
        seeds = checked_ids(caller, "seeds", seeds, self._n_nodes[seed_type])
        room = self._batch_size if self._batch_size is not None else len(seeds)
        if len(seeds) > room:
            raise bad(caller, "more seeds than the batch size", {"seeds": len(seeds), "batch_size": room},
                      "split them into batches.", ValueError)
        ids, edges, rows = self._drawn(seed_type, seeds, epoch, index)
        n_rows, n_edges = self._learnt.get(seed_type) or self.bound(seed_type, room)
        fits = all(len(ids[kind]) < n for kind, n in n_rows.items())
        if not (fits and all(len(edges[relation][2]) <= n for relation, n in n_edges.items())):
            n_rows, n_edges = self.bound(seed_type, room)
        return self._padded(ids, edges, n_rows, n_edges, rows, room)

    def _drawn(self, seed_type: str, seeds: np.ndarray, epoch: int, index: int) -> tuple[dict, dict, np.ndarray]:
        rng = random_of(self._seed, epoch, index, of=_OF_TYPED)
        try:
            numbers = self._free.pop()
        except IndexError:
            numbers = {kind: Numbering(n) for kind, n in self._n_nodes.items()}
        nothing = np.zeros(0, np.int64)
        frontier = dict.fromkeys(numbers, nothing) | {seed_type: numbers[seed_type].add(seeds)}
        rows = numbers[seed_type].rows(seeds)
        drawn = {relation: [(nothing, nothing, nothing)] for relation in self._whole}
        for hop in range(self._hops):
            reached = {kind: [nothing] for kind in numbers}
            for relation, graph in self._whole.items():
                source, _, target = relation
                places, counts = drawn_places(graph, frontier[target], self._count(relation, hop), self._replace, rng)
                senders = graph.senders.take(places)
                receivers = np.repeat(numbers[target].rows(frontier[target]), counts)
                reached[source].append(numbers[source].add(senders))
                drawn[relation].append((numbers[source].rows(senders), receivers, places))
            frontier = {kind: np.concatenate(parts) for kind, parts in reached.items()}
        ids = {kind: of_kind.clear() for kind, of_kind in numbers.items()}
        self._free.append(numbers)
        return ids, {relation: tuple(map(np.concatenate, zip(*parts, strict=True)))
                     for relation, parts in drawn.items()}, rows

    def _padded(self, ids: dict, edges: dict, n_rows: dict, n_edges: dict, rows: np.ndarray, room: int) -> TypedBlock:
        by_sender, mask, places, ends = {}, {}, {}, {}
        for relation, (senders, receivers, at) in edges.items():
            (source, _, target), size = relation, n_edges[relation]
            more, order = size - len(at), self._whole[relation].order
            ends[relation] = (np.append(senders, np.full(more, len(ids[source]))).astype(np.int32),
                              np.append(receivers, np.full(more, len(ids[target]))).astype(np.int32))
            by_sender[relation] = np.append(ascending(senders, len(ids[source])),
                                            np.arange(len(at), size)).astype(np.int32)
            mask[relation] = np.arange(size) < len(at)
            places[relation] = padded_ids(at if order is None else order[at], size)
        nodes = {kind: take_rows(self._features[kind], ids[kind], n) for kind, n in n_rows.items()
                 if kind in self._features}
        return TypedBlock(
            nodes, {kind: padded_ids(ids[kind], n) for kind, n in n_rows.items()},
            {kind: np.arange(n) < len(ids[kind]) for kind, n in n_rows.items()}, ends, by_sender, mask, places,
            padded_ids(rows, room), np.arange(room) < len(rows))

    def n_nodes(self, kind: str) -> int:
        """Number of nodes of a type."""
        return self._n_nodes[kind]

    @property
    def batch_size(self) -> int | None:
        return self._batch_size

    @property
    def seed(self) -> int:
        return self._seed

    @property
    def _hops(self) -> int:
        return max(map(len, self._fan_out.values()), default=0)

    def _count(self, relation: Relation, hop: int) -> int | None:
        hops = self._fan_out[relation]
        return hops[hop] if hop < len(hops) else 0


@dataclass(frozen=True)
class OfType:
    """A `TypedSampler` for seeds of one type, with the interface that `SeedBatches` needs."""

    sampler: TypedSampler
    seed_type: str

    def __repr__(self) -> str:
        return f"{self.sampler!r}.of({self.seed_type!r})"

    @property
    def batch_size(self) -> int | None:
        return self.sampler.batch_size

    @property
    def seed(self) -> int:
        return self.sampler.seed

    @property
    def n_nodes(self) -> int:
        return self.sampler.n_nodes(self.seed_type)

    def sample(self, seeds: ArrayLike, *, epoch: int = 0, index: int = 0) -> TypedBlock:
        return self.sampler.sample(self.seed_type, seeds, epoch=epoch, index=index)


def _counts(mask: ArrayLike) -> ArrayLike:
    """int32[2]: number of real rows, number of padding rows."""
    stack = np.stack if isinstance(mask, np.ndarray) else jnp.stack
    real = mask.sum()
    return stack([real, len(mask) - real]).astype(np.int32)


def _fan_outs(caller: str, fan_out: Any, relations: Mapping[Relation, Any]) -> dict[Relation, tuple[int | None, ...]]:
    if not isinstance(fan_out, Mapping):
        return dict.fromkeys(relations, checked_fan_out(caller, fan_out))
    unknown = [relation for relation in fan_out if relation not in relations]
    if unknown:
        raise bad(caller, f"fan_out has an unknown relation {unknown[0]!r}",
                  {"relations": ", ".join(map(repr, relations))}, "use relations of the graph.", ValueError)
    return {relation: checked_fan_out(caller, hops) for relation, hops in fan_out.items()}


def _relation(caller: str, relation: Any, ends: Any, n_nodes: Mapping[str, int]) -> Whole:
    if not (isinstance(relation, tuple) and len(relation) == 3 and {relation[0], relation[2]} <= n_nodes.keys()):
        raise bad(caller, "a relation needs two types of nodes and a name", {"relation": repr(relation),
                  "types": ", ".join(n_nodes)},
                  'use a key such as ("author", "writes", "paper"), and give both types in n_nodes.', ValueError)
    senders = checked_ids(caller, f"senders of {relation}", ends[0], n_nodes[relation[0]])
    receivers = checked_ids(caller, f"receivers of {relation}", ends[1], n_nodes[relation[2]])
    if len(senders) != len(receivers):
        raise bad(caller, "every edge must have two ends", {"relation": repr(relation), "senders": len(senders),
                  "receivers": len(receivers)}, "pass as many receivers as senders.", ValueError)
    return whole_edges(senders, receivers, n_nodes[relation[2]])
