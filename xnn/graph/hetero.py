"""`HeteroGraph`: nodes of several types and edges of several relations between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import bad, did_you_mean
from xnn.checks import type_text
from xnn.graph.edges import Edges
from xnn.graph.graph import Graph, as_arrays

RelationKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HeteroGraph:
    """A graph whose nodes are of several types, such as users and items; a pytree, whose arrays may be traced.

    Attributes:
      nodes: type -> features [n, ...], an array or a tree of such, of all types.
      relations: ``(source type, relation, target type) -> Edges``, with senders among the nodes of the source and
        receivers among those of the target; ``n_nodes`` counts the latter.
    """

    nodes: Mapping[str, Any]
    relations: Mapping[RelationKey, Edges]

    @classmethod
    def from_edges(cls, nodes: Mapping[str, Any], relations: Mapping[RelationKey, Any]) -> "HeteroGraph":
        """A graph from the edges of each relation, in any order; they are sorted as those of `Graph.from_edges`.

        Args:
          nodes: type -> features [n, ...]; ``np.zeros((n, 0))`` for nodes without features.
          relations: ``(source, relation, target) -> (senders, receivers)`` or ``(senders, receivers, edges)``, with
            weights or features as in `Graph.edges`.
        Raises: ValueError for a type without nodes, an index that names no node, lengths that differ.

        >>> ones = np.ones((3, 2), np.float32)
        >>> relations = {("user", "buys", "item"): ([2, 0], [1, 1])}
        >>> graph = HeteroGraph.from_edges({"user": ones, "item": ones[:2]}, relations)
        >>> graph
        <HeteroGraph of user f32[3,2], item f32[2,2]; user-buys-item with 2 edges>
        >>> graph.relations["user", "buys", "item"].senders
        array([0, 2], dtype=int32)
        """
        where, made = "HeteroGraph.from_edges", {}
        nodes = {kind: as_arrays(tree) for kind, tree in nodes.items()}
        for key, given in relations.items():
            if not (isinstance(key, tuple) and len(key) == 3):
                raise bad(where, "a relation is named by three words", {"relation": repr(key)},
                          'name it ("user", "buys", "item"): source, relation, target.', ValueError)
            n_sources, n_targets = (_count(where, nodes, kind) for kind in (key[0], key[2]))
            made[key] = _sorted(where, key, given, n_sources, n_targets)
        return cls(nodes, made)

    @classmethod
    def from_pyg(cls, data: Any) -> "HeteroGraph":
        """A graph from PyTorch Geometric's HeteroData, with its ``x``, ``edge_index``, ``edge_weight``, ``edge_attr``.

        A type without x has nodes without features: [n, 0].
        """
        nodes = {kind: np.asarray(data[kind].x) if getattr(data[kind], "x", None) is not None
                 else np.zeros((data[kind].num_nodes, 0), np.float32) for kind in data.node_types}
        relations = {}
        for key in data.edge_types:
            edges = {name: np.asarray(data[key][theirs]) for name, theirs in
                     (("weight", "edge_weight"), ("features", "edge_attr")) if theirs in data[key]}
            relations[tuple(key)] = (*np.asarray(data[key].edge_index), edges or None)
        return cls.from_edges(nodes, relations)

    def to_pyg(self, data: Any, tensor: Any) -> Any:
        """Fills an empty HeteroData and returns it: ``graph.to_pyg(HeteroData(), torch.tensor)``."""
        for kind, x in self.nodes.items():
            data[kind].x = tensor(np.array(x))
        for key, edges in self.relations.items():
            data[key].edge_index = tensor(np.stack([edges.senders, edges.receivers]).astype(np.int64))
            for name, value in (("edge_weight", edges.weight), ("edge_attr", edges.features)):
                if value is not None:
                    data[key][name] = tensor(np.array(value))
        return data

    def n_nodes(self, kind: str) -> int:
        """Number of nodes of a type."""
        return _count("HeteroGraph.n_nodes", self.nodes, kind)

    def replace(self, **fields: Any) -> "HeteroGraph":
        """The same graph with other nodes or relations."""
        return replace(self, **fields)

    def relation_graph(self, key: RelationKey) -> Graph:
        """One relation as a `Graph`, whose nodes are those of the target and, where it is another type, of the source.

        Raises: ValueError for an unknown relation, or if the edges are not for as many nodes as there are.
        """
        where = "HeteroGraph.relation_graph"
        if key not in self.relations:
            names = {"-".join(one): one for one in self.relations}
            raise bad(where, f"there is no relation {key!r}", {"relations": ", ".join(map(repr, self.relations))},
                      did_you_mean("-".join(key), list(names)) or "pass one of them.", ValueError)
        edges, (source, _, target) = self.relations[key], key
        n_targets, n_all = self.n_nodes(target), self.n_nodes(target)
        if edges.n_nodes != n_targets:
            raise bad(where, f"the edges are for {edges.n_nodes} nodes of {target!r}, and there are {n_targets}",
                      {"relation": "-".join(key)}, "pass one row of features for each node.", ValueError)
        nodes, senders = self.nodes[target], edges.senders
        if source != target:
            nodes = tree_util.tree_map(lambda *parts: jnp.concatenate(parts), nodes, self.nodes[source])
            senders, n_all = senders + np.int32(n_targets), n_all + self.n_nodes(source)
        parts = {"weight": edges.weight, "features": edges.features}
        parts = {name: value for name, value in parts.items() if value is not None} or None
        return Graph(nodes, parts, senders, edges.receivers, None, np.array([n_all], np.int32),
                     np.array([len(edges)], np.int32), None, edges.by_sender)

    def joined(self) -> tuple[Graph, Any]:
        """All types and relations as one `Graph`, and the type of each node, int32[n]; for a graph that is not traced.

        Types and relations are numbered in alphabetical order. The types need features of one size. Edges have
        ``{"relation": int32[e]}``, which `RGCN` reads, and weights and features where all relations have them.
        """
        types, relations = sorted(self.nodes), sorted(self.relations)
        counts = [self.n_nodes(kind) for kind in types]
        starts = dict(zip(types, np.cumsum([0, *counts]), strict=False))
        ends = [[np.zeros(0, np.int32)], [np.zeros(0, np.int32)]]
        for key in relations:
            ends[0].append(self.relations[key].senders + starts[key[0]])
            ends[1].append(self.relations[key].receivers + starts[key[2]])
        edges = {"relation": _numbered([len(self.relations[key]) for key in relations])}
        for name in ("weight", "features"):
            parts = [getattr(self.relations[key], name) for key in relations]
            if parts and all(part is not None for part in parts):
                edges[name] = np.concatenate(parts)
        senders, receivers = (np.concatenate(part).astype(np.int32) for part in ends)
        nodes = np.concatenate([self.nodes[kind] for kind in types])
        return Graph.from_edges(senders, receivers, nodes, edges), _numbered(counts)

    def __repr__(self) -> str:
        kinds = ", ".join(f"{kind} {type_text(x)}" for kind, x in self.nodes.items())
        edges = ", ".join(f"{'-'.join(key)} with {len(one)} edges" for key, one in self.relations.items())
        return f"<HeteroGraph of {kinds}; {edges or 'no relation'}>"


tree_util.register_pytree_with_keys(
    HeteroGraph,
    lambda graph: ([(tree_util.GetAttrKey("nodes"), dict(graph.nodes)),
                    (tree_util.GetAttrKey("relations"), dict(graph.relations))], None),
    lambda _, children: HeteroGraph(*children),
)


def _numbered(counts: Sequence[int]) -> np.ndarray:
    """``[2, 3] -> [0, 0, 1, 1, 1]``."""
    return np.repeat(np.arange(len(counts), dtype=np.int32), counts)


def _count(where: str, nodes: Mapping[str, Any], kind: str) -> int:
    if kind not in nodes or not tree_util.tree_leaves(nodes[kind]):
        raise bad(where, f"there are no nodes of the type {kind!r}", {"types": ", ".join(map(repr, nodes))},
                  did_you_mean(kind, list(nodes)) or "pass features of this type, np.zeros((n, 0)) if it has none.",
                  ValueError)
    return tree_util.tree_leaves(nodes[kind])[0].shape[0]


def _sorted(where: str, key: RelationKey, given: Any, n_sources: int, n_targets: int) -> Edges:
    senders, receivers, *edges = given
    for name, ends, count in (("senders", senders, n_sources), ("receivers", receivers, n_targets)):
        ends = np.asarray(ends)
        if ends.size and (ends.min() < 0 or ends.max() >= count):
            raise bad(where, f"an edge of {'-'.join(key)} ends at no node",
                      {name: f"{ends.min()} to {ends.max()}", "nodes": count}, "pass more nodes, or other indices.",
                      ValueError)
    graph = Graph.from_edges(senders, receivers, None, *edges, n_nodes=max(n_sources, n_targets))
    return Edges(graph.senders, graph.receivers, graph.weight, graph.edge_features, None, graph.by_sender, n_targets)
