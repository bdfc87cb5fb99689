"""`HeteroGraph`: one graph or a batch of graphs with nodes of several types and edges of several relations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import bad, did_you_mean
from xjax.typing import Array, ArrayLike
from xnn.checks import type_text
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.graph import Graph, as_arrays, host
from xnn.graph.structure.masked import mask_graph

RelationKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class HeteroGraph:
    """A graph whose nodes are of several types, such as users and items; a pytree, whose arrays may be traced.

    Attributes:
      nodes: type -> features: an array [n, ...] or a pytree of such arrays. It has an entry for every type.
      relations: ``(source type, relation, target type) -> Edges``. Senders index the nodes of the source type,
        receivers those of the target type; `Edges.n_nodes` is the number of target nodes.
      n_node: type -> int32[g], number of nodes of the type in each graph of a batch.
      mask: bool[g], False for padding graphs; None without padding.
    """

    nodes: Mapping[str, Any]
    relations: Mapping[RelationKey, Edges]
    n_node: Mapping[str, Any]
    mask: Any = None

    @classmethod
    def from_edges(cls, nodes: Mapping[str, Any], relations: Mapping[RelationKey, Any]) -> HeteroGraph:
        """Makes a graph from the edges of each relation, in any order; it sorts them as `Graph.from_edges` does.

        Args:
          nodes: type -> features [n, ...]; ``np.zeros((n, 0))`` for nodes without features.
          relations: ``(source, relation, target) -> (senders, receivers)`` or ``(senders, receivers, edges)``, with
            weights or features as in `Graph.edges`.
        Raises: ValueError for a type that is missing in `nodes`, an index out of range, and lengths that differ.

        >>> ones = np.ones((3, 2), np.float32)
        >>> relations = {("user", "buys", "item"): ([2, 0], [1, 1])}
        >>> graph = HeteroGraph.from_edges({"user": ones, "item": ones[:2]}, relations)
        >>> graph
        <HeteroGraph of user f32[3,2], item f32[2,2]; user-buys-item with 2 edges>
        >>> graph.relations["user", "buys", "item"].senders
        array([0, 2], dtype=int32)
        """
        caller, edges = "HeteroGraph.from_edges", {}
        nodes = {kind: as_arrays(tree) for kind, tree in nodes.items()}
        for key, parts in relations.items():
            if not (isinstance(key, tuple) and len(key) == 3):
                raise bad(caller, "the key of a relation must be a tuple of three strings", {"relation": repr(key)},
                          'use a key such as ("user", "buys", "item"): source, relation, target.', ValueError)
            n_sources, n_targets = (_count(caller, nodes, kind) for kind in (key[0], key[2]))
            edges[key] = _sorted(caller, key, parts, n_sources, n_targets)
        return cls(nodes, edges, {kind: np.array([_count(caller, nodes, kind)], np.int32) for kind in nodes})

    @classmethod
    def from_pyg(cls, data: Any) -> HeteroGraph:
        """Converts PyTorch Geometric's HeteroData: its ``x``, ``edge_index``, ``edge_weight`` and ``edge_attr``.

        The nodes of a type without ``x`` get features of size 0: [n, 0].
        """
        nodes = {kind: np.asarray(data[kind].x) if getattr(data[kind], "x", None) is not None
                 else np.zeros((data[kind].num_nodes, 0), np.float32) for kind in data.node_types}
        relations = {}
        for key in data.edge_types:
            edges = {name: np.asarray(data[key][theirs]) for name, theirs in
                     (("weight", "edge_weight"), ("features", "edge_attr")) if theirs in data[key]}
            relations[tuple(key)] = (*np.asarray(data[key].edge_index), edges or None)
        return cls.from_edges(nodes, relations)

    def to_pyg(self, data: Any, tensor: Callable[..., Any]) -> Any:
        """Fills an empty HeteroData and returns it: ``graph.to_pyg(HeteroData(), torch.tensor)``."""
        for kind, x in self.nodes.items():
            data[kind].x = tensor(np.array(x))
        for key, edges in self.relations.items():
            data[key].edge_index = tensor(np.stack([edges.senders, edges.receivers]).astype(np.int64))
            for name, value in (("edge_weight", edges.weight), ("edge_attr", edges.features)):
                if value is not None:
                    data[key][name] = tensor(np.array(value))
        return data

    @classmethod
    def batch(cls, graphs: Sequence[HeteroGraph]) -> HeteroGraph:
        """Joins graphs, or batches, that have the same types, relations and features, to one batch."""
        caller = "HeteroGraph.batch"
        graphs = [host(caller, graph) for graph in graphs]
        _check_alike(caller, graphs)
        nodes = tree_util.tree_map(lambda *parts: np.concatenate(parts), *(dict(graph.nodes) for graph in graphs))
        before = {kind: np.cumsum([0, *(graph.n_nodes(kind) for graph in graphs)]) for kind in nodes}
        relations = {key: _joined([graph.relations[key] for graph in graphs], before[key[0]], before[key[2]])
                     for key in graphs[0].relations}
        n_node = {kind: np.concatenate([graph.n_node[kind] for graph in graphs]) for kind in nodes}
        masks = [np.ones(graph.n_graphs, bool) if graph.mask is None else graph.mask for graph in graphs]
        return cls(nodes, relations, n_node, None if all(graph.mask is None for graph in graphs)
                   else np.concatenate(masks))

    def unbatch(self) -> list[HeteroGraph]:
        """The graphs of a batch, without padding graphs: the inverse of `batch`. Raises: TypeError if it is traced.

        >>> one = HeteroGraph.from_edges({"user": np.ones((2, 3))}, {("user", "knows", "user"): ([0], [1])})
        >>> HeteroGraph.batch([one, one]).unbatch()[1].relations["user", "knows", "user"].senders
        array([0], dtype=int32)
        """
        graph = host("HeteroGraph.unbatch", self)
        starts = {kind: np.cumsum([0, *counts]) for kind, counts in graph.n_node.items()}
        relations = {key: _parted(edges, starts[key[0]], starts[key[2]]) for key, edges in graph.relations.items()}
        real = range(graph.n_graphs) if graph.mask is None else np.flatnonzero(graph.mask)

        def rows(kind: str, i: int) -> np.ndarray:
            return tree_util.tree_map(lambda x: x[starts[kind][i]:starts[kind][i + 1]], graph.nodes[kind])

        return [HeteroGraph({kind: rows(kind, i) for kind in graph.nodes},
                            {key: parts[i] for key, parts in relations.items()},
                            {kind: counts[i:i + 1] for kind, counts in graph.n_node.items()}) for i in real]

    def pad(self, n_nodes: Mapping[str, int], n_edges: Mapping[RelationKey, int]) -> HeteroGraph:
        """Appends one padding graph, up to `n_nodes` of each type and `n_edges` of each relation in all.

        Features of padding are 0. Padding edges join the first padding nodes of their two types.
        Raises: ValueError if a size is too small: padding edges need padding nodes at both ends.
        """
        caller = "HeteroGraph.pad"
        graph = host(caller, self)
        n_new = {kind: n_nodes.get(kind, graph.n_nodes(kind)) - graph.n_nodes(kind) for kind in graph.nodes}
        relations = {}
        for key, edges in graph.relations.items():
            count = n_edges.get(key, len(edges)) - len(edges)
            if min(count, *n_new.values()) < 0 or (count and not (n_new[key[0]] and n_new[key[2]])):
                raise bad(caller, f"the sizes have no place for {'-'.join(key)} and its padding",
                          {"graph": repr(graph), "n_nodes": dict(n_nodes), "n_edges": dict(n_edges)},
                          "pass at least one node more than the graph has of each type.", ValueError)
            relations[key] = _padded(edges, count, graph.n_nodes(key[0]), n_new[key[2]])
        nodes = {kind: tree_util.tree_map(lambda x, n=n_new[kind]: _filled(x, n), tree)
                 for kind, tree in graph.nodes.items()}
        n_node = {kind: np.append(graph.n_node[kind], np.int32(n_new[kind])) for kind in graph.nodes}
        mask = np.ones(graph.n_graphs, bool) if graph.mask is None else graph.mask
        return HeteroGraph(nodes, relations, n_node, np.append(mask, False))

    def n_nodes(self, kind: str) -> int:
        """Number of nodes of a type."""
        return _count("HeteroGraph.n_nodes", self.nodes, kind)

    @property
    def n_graphs(self) -> int:
        """Number of graphs of the batch, padding included."""
        return next(iter(self.n_node.values())).shape[0]

    def node_graph(self, kind: str) -> Array:
        """int32[n]: index of the graph of each node of a type, ascending."""
        return jnp.repeat(jnp.arange(self.n_graphs, dtype=np.int32), jnp.asarray(self.n_node[kind]),
                          total_repeat_length=self.n_nodes(kind))

    def replace(self, **fields: Any) -> HeteroGraph:
        """A copy with other values of some fields."""
        return replace(self, **fields)

    def relation_graph(self, key: RelationKey) -> Graph:
        """One relation as a `Graph`. Its nodes are the target nodes; if the types differ, the source nodes follow.

        A batch becomes a single graph. Padding is masked in it: the result is then a `MaskedGraph`.
        Raises: ValueError for an unknown relation, or if its edges are for another number of target nodes.
        """
        caller = "HeteroGraph.relation_graph"
        if key not in self.relations:
            names = {"-".join(one): one for one in self.relations}
            raise bad(caller, f"there is no relation {key!r}", {"relations": ", ".join(map(repr, self.relations))},
                      did_you_mean("-".join(key), list(names)) or "pass one of these relations.", ValueError)
        edges, (source, _, target) = self.relations[key], key
        n_targets, n_all = self.n_nodes(target), self.n_nodes(target)
        if edges.n_nodes != n_targets:
            raise bad(caller, f"the edges are for {edges.n_nodes} nodes of {target!r}, but there are {n_targets}",
                      {"relation": "-".join(key)}, "pass one row of features for each node.", ValueError)
        nodes, senders = self.nodes[target], edges.senders
        if source != target:
            nodes = tree_util.tree_map(lambda *parts: jnp.concatenate(parts), nodes, self.nodes[source])
            senders, n_all = senders + np.int32(n_targets), n_all + self.n_nodes(source)
        parts = {"weight": edges.weight, "features": edges.features}
        parts = {name: value for name, value in parts.items() if value is not None} or None
        graph = Graph(nodes, parts, senders, edges.receivers, None, np.array([n_all], np.int32),
                      np.array([len(edges)], np.int32), None, edges.by_sender)
        if self.mask is None:
            return graph
        real = [jnp.asarray(self.mask)[self.node_graph(kind)] for kind in dict.fromkeys((target, source))]
        return mask_graph(graph, nodes=jnp.concatenate(real), edges=edges.mask)

    def joined(self) -> tuple[Graph, Any]:
        """All types and relations as one `Graph`, and the type of each node, int32[n]. The graph must not be traced.

        Types and relations are numbered in alphabetical order. All types must have features of the same size. Edges
        have ``{"relation": int32[e]}``, which `RGCN` reads, and weights and features if all relations have them.
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
                    (tree_util.GetAttrKey("relations"), dict(graph.relations)),
                    (tree_util.GetAttrKey("n_node"), dict(graph.n_node)),
                    (tree_util.GetAttrKey("mask"), graph.mask)], None),
    lambda _, children: HeteroGraph(*children),
)


def _numbered(counts: Sequence[int]) -> np.ndarray:
    """``[2, 3] -> [0, 0, 1, 1, 1]``."""
    return np.repeat(np.arange(len(counts), dtype=np.int32), counts)


def _count(caller: str, nodes: Mapping[str, Any], kind: str) -> int:
    if kind not in nodes or not tree_util.tree_leaves(nodes[kind]):
        raise bad(caller, f"there are no nodes of the type {kind!r}", {"types": ", ".join(map(repr, nodes))},
                  did_you_mean(kind, list(nodes)) or "pass features of this type, np.zeros((n, 0)) if it has none.",
                  ValueError)
    return tree_util.tree_leaves(nodes[kind])[0].shape[0]


def _sorted(caller: str, key: RelationKey, parts: Any, n_sources: int, n_targets: int) -> Edges:
    senders, receivers, *edges = parts
    for name, ends, count in (("senders", senders, n_sources), ("receivers", receivers, n_targets)):
        ends = np.asarray(ends)
        if ends.size and (ends.min() < 0 or ends.max() >= count):
            raise bad(caller, f"an edge of {'-'.join(key)} has an end out of range",
                      {name: f"{ends.min()} to {ends.max()}", "nodes": count}, "pass more nodes, or other indices.",
                      ValueError)
    graph = Graph.from_edges(senders, receivers, None, *edges, n_nodes=max(n_sources, n_targets))
    return Edges(graph.senders, graph.receivers, graph.weight, graph.edge_features, None, graph.by_sender, n_targets)


def _check_alike(caller: str, graphs: Sequence[HeteroGraph]) -> None:
    """Raises: ValueError for no graph, or graphs that differ in types, relations or features."""
    outlines = set()
    for graph in graphs:
        tree = dict(graph.nodes), {key: (edges.weight, edges.features) for key, edges in graph.relations.items()}
        leaves, outline = tree_util.tree_flatten(tree)
        outlines.add((outline, *((leaf.shape[1:], leaf.dtype) for leaf in leaves)))
    if len(outlines) != 1:
        raise bad(caller, "needs at least one graph, and all with the same types, relations and features",
                  {"graphs": ", ".join(dict.fromkeys(map(repr, graphs))) or "none"},
                  "give all graphs the same types, relations and features; a relation may have no edges.", ValueError)


def _joined(parts: Sequence[Edges], senders_before: np.ndarray, receivers_before: np.ndarray) -> Edges:
    """The edges of several graphs, joined. ``..._before[i]``: number of nodes in the graphs before graph i."""
    edges_before = np.cumsum([0, *map(len, parts)])

    def field(name: str, before: ArrayLike | None = None) -> np.ndarray | None:
        values = [getattr(part, name) for part in parts]
        if any(value is None for value in values):
            return None
        before = np.zeros(len(parts), np.int32) if before is None else before[:len(parts)].astype(np.int32)
        return np.concatenate([value + start if start else value for value, start in zip(values, before, strict=True)])

    masks = [np.ones(len(part), bool) if part.mask is None else part.mask for part in parts]
    return Edges(field("senders", senders_before), field("receivers", receivers_before), field("weight"),
                 field("features"), None if all(part.mask is None for part in parts) else np.concatenate(masks),
                 field("by_sender", edges_before), int(receivers_before[-1]))


def _parted(edges: Edges, sources: np.ndarray, targets: np.ndarray) -> list[Edges]:
    """The edges of each graph of a batch. The source nodes of graph i begin at ``sources[i]``, its targets likewise."""
    owner = np.searchsorted(targets, edges.receivers, "right") - 1
    order = np.argsort(owner, kind="stable")
    places = np.split(order, np.searchsorted(owner[order], np.arange(1, len(targets) - 1)))

    def part(i: int, rows: np.ndarray) -> Edges:
        weight, features, mask = (None if value is None else value[rows]
                                  for value in (edges.weight, edges.features, edges.mask))
        senders = (edges.senders[rows] - sources[i]).astype(np.int32)
        by_sender = None if edges.by_sender is None else np.argsort(senders, kind="stable").astype(np.int32)
        return Edges(senders, (edges.receivers[rows] - targets[i]).astype(np.int32), weight, features,
                     None if mask is None or mask.all() else mask, by_sender, int(targets[i + 1] - targets[i]))

    return [part(i, rows) for i, rows in enumerate(places)]


def _padded(edges: Edges, count: int, n_sources: int, more_targets: int) -> Edges:
    """Appends `count` padding edges, from node `n_sources` to the first new target."""
    new, to = len(edges) + np.arange(count, dtype=np.int32), np.full(count, edges.n_nodes, np.int32)
    mask = np.ones(len(edges), bool) if edges.mask is None else edges.mask
    weight, features = (None if value is None else _filled(value, count) for value in (edges.weight, edges.features))
    by_sender = None if edges.by_sender is None else np.append(edges.by_sender, new)
    return Edges(np.append(edges.senders, np.full_like(to, n_sources)), np.append(edges.receivers, to), weight,
                 features, np.append(mask, np.zeros(count, bool)), by_sender, edges.n_nodes + more_targets)


def _filled(x: np.ndarray, count: int) -> np.ndarray:
    return np.concatenate([x, np.zeros((count, *x.shape[1:]), x.dtype)])
