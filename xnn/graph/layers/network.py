"""`GraphNetwork` and its special cases: layers from `Graph` to `Graph`, with the names that Jraph gives them.

An update is a layer on rows. Its input is the concatenation, along the features, of the parts that the docstring of the
network lists, in that order; parts that the graph does not have are omitted. Nodes, edges or globals without an update
stay unchanged. The update of nodes reads the updated edges, and the update of globals reads updated edges and nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax.errors import bad, check_choice
from xjax.typing import ArrayLike
from xnn.checks import type_text
from xnn.graph.layers.composed import REDUCTIONS, graph_composite, reduced
from xnn.graph.structure.adjacency import as_edges
from xnn.graph.structure.batching import at_edges, at_nodes
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.graph import Graph
from xnn.graph.structure.masked import call_on_rows
from xnn.layer import Layer, recorded
from xnn.sparse import segment

FIELDS = ("edges", "nodes", "globals")
Updates = Mapping[str, tuple[Layer | None, tuple[str, ...]]]


@recorded()
def GraphNetwork(update_edge: Layer | None = None, update_node: Layer | None = None,
                 update_global: Layer | None = None, *, edges_to_nodes: str = "sum", nodes_to_globals: str = "sum",
                 edges_to_globals: str = "sum") -> Layer:
    """The full block of Battaglia et al. (2018): updates edges, then nodes, then globals.

    Shape: x, a `Graph` whose nodes, edges and globals are arrays [n, f], [e, d], [g, h] or None -> a `Graph`.

    Args:
      update_edge: layer of (edge, its sender, its receiver, globals of its graph).
      update_node: layer of (node, reduced sent edges, reduced received edges, globals of its graph).
      update_global: layer of (nodes, edges, globals), with nodes and edges reduced over the graph.
      edges_to_nodes, nodes_to_globals, edges_to_globals: "sum", "mean", "max", "min" or "std".
    Params: ``{"edges": ..., "nodes": ..., "globals": ...}``, with an entry for each update that is not None. `init`
      takes a Graph of arrays, or of `ShapeDtypeStruct`s, in place of the shape of x.
    Raises: ValueError for an unknown reduction; TypeError if x is not a Graph of arrays.

    >>> from xnn import Dense
    >>> from xjax import random
    >>> graph = Graph.from_edges([0, 1], [1, 0], np.ones((2, 3), np.float32), np.ones((2, 4), np.float32))
    >>> network = GraphNetwork(Dense(5), Dense(6))
    >>> _, params = network.init(random.key(0), graph)
    >>> network.apply(params, graph)
    <Graph of 2 nodes, 2 edges; nodes f32[2,6], edges f32[2,5]>
    """
    updates = {"edges": (update_edge, ("edges", "senders", "receivers", "globals")),
               "nodes": (update_node, ("nodes", "sent", "received", "globals")),
               "globals": (update_global, ("nodes", "edges", "globals"))}
    return _network("GraphNetwork", updates, (edges_to_nodes, nodes_to_globals, edges_to_globals))


@recorded()
def InteractionNetwork(update_edge: Layer, update_node: Layer, *, edges_to_nodes: str = "sum",
                       sent: bool = False) -> Layer:
    """Interaction network (Battaglia et al., 2016): edges and nodes without globals.

    Args:
      update_edge: layer of (edge, its sender, its receiver).
      update_node: layer of (node, reduced received edges); with `sent`, of (node, reduced sent edges, reduced received
        edges).
      sent: whether the update of a node also reads the edges that it sends.
      edges_to_nodes, and the rest: as in `GraphNetwork`.
    """
    updates = {"edges": (update_edge, ("edges", "senders", "receivers")),
               "nodes": (update_node, ("nodes", "sent", "received") if sent else ("nodes", "received"))}
    return _network("InteractionNetwork", updates, (edges_to_nodes, "sum", "sum"))


@recorded()
def RelationNetwork(update_edge: Layer, update_global: Layer, *, edges_to_globals: str = "sum") -> Layer:
    """Relation network (Santoro et al., 2017): computes globals from the pairs of nodes that edges join.

    Args:
      update_edge: layer of (sender, receiver).
      update_global: layer of the edges, reduced over the graph.
      edges_to_globals, and the rest: as in `GraphNetwork`.
    """
    updates = {"edges": (update_edge, ("senders", "receivers")), "globals": (update_global, ("edges",))}
    return _network("RelationNetwork", updates, ("sum", "sum", edges_to_globals))


@recorded()
def DeepSets(update_node: Layer, update_global: Layer, *, nodes_to_globals: str = "sum") -> Layer:
    """Deep sets (Zaheer et al., 2017): a function of the set of nodes; edges are ignored.

    Args:
      update_node: layer of (node, globals of its graph).
      update_global: layer of the nodes, reduced over the graph.
      nodes_to_globals, and the rest: as in `GraphNetwork`.
    """
    updates = {"nodes": (update_node, ("nodes", "globals")), "globals": (update_global, ("nodes",))}
    return _network("DeepSets", updates, ("sum", nodes_to_globals, "sum"))


@recorded()
def GraphNetGAT(update_edge: Layer | None, attention: Layer, update_node: Layer | None = None,
                update_global: Layer | None = None, *, nodes_to_globals: str = "sum",
                edges_to_globals: str = "sum") -> Layer:
    """`GraphNetwork` with updated edges multiplied by attention: a softmax over the edges that a node receives.

    Args:
      attention: layer of (updated edge, its sender, its receiver, globals), with one output, or one for each feature.
      update_edge, update_node, update_global, and the rest: as in `GraphNetwork`; edges are summed at nodes.
    Params: as in `GraphNetwork`, and ``"attention"``.
    """
    at_ends = ("edges", "senders", "receivers", "globals")
    updates = {"edges": (update_edge, at_ends), "attention": (attention, at_ends),
               "nodes": (update_node, ("nodes", "sent", "received", "globals")),
               "globals": (update_global, ("nodes", "edges", "globals"))}
    return _network("GraphNetGAT", updates, ("sum", nodes_to_globals, edges_to_globals))


@recorded()
def GraphMapFeatures(embed_edge: Layer | None = None, embed_node: Layer | None = None,
                     embed_global: Layer | None = None) -> Layer:
    """Maps edges, nodes and globals with a layer each, as an encoder before or a decoder after other networks.

    Args: embed_edge, embed_node, embed_global: layers of edges, of nodes, of globals; the rest as in `GraphNetwork`.
    """
    updates = {"edges": (embed_edge, ("edges",)), "nodes": (embed_node, ("nodes",)),
               "globals": (embed_global, ("globals",))}
    return _network("GraphMapFeatures", updates, ("sum", "sum", "sum"))


def _network(name: str, updates: Updates, reductions: tuple[str, str, str]) -> Layer:
    """The network with these updates, run in the order of `updates`: ``field -> (layer, parts that it reads)``."""
    arguments_of = ("edges_to_nodes", "nodes_to_globals", "edges_to_globals")
    for argument, value in zip(arguments_of, reductions, strict=True):
        check_choice(name, argument, value, REDUCTIONS)
    children = {field: layer for field, (layer, _) in updates.items() if layer is not None}

    def walk(visit, in_shape, shapes):
        _check_graph(name, in_shape)
        sizes = {field: value.shape[1] for field in FIELDS if (value := getattr(in_shape, field)) is not None}
        for field in children:
            read = [sizes[_SOURCE[part]] for part in updates[field][1] if _SOURCE[part] in sizes]
            _check_read(name, field, read, "edges" in sizes)
            shape = visit(field, (-1, sum(read)))
            if field != "attention":
                sizes[field] = shape[-1]
        rows = {"edges": in_shape.n_edges, "nodes": in_shape.n_nodes, "globals": in_shape.n_graphs}
        return in_shape.replace(**{field: xjax.ShapeDtypeStruct((rows[field], n), np.float32)
                                   for field, n in sizes.items()})

    def forward(call, x, values):
        _check_graph(name, x)
        edges = as_edges(x, np.empty((x.n_nodes, 0), np.float32), name)
        for field in children:
            read = [_read(x, edges, field, part, reductions) for part in updates[field][1]
                    if getattr(x, _SOURCE[part]) is not None]
            _check_read(name, field, read, x.edges is not None)
            masks = {"nodes": x.node_mask, "globals": x.mask}
            y = call_on_rows(call, field, jnp.concatenate(read, -1), masks.get(field, edges.mask))
            x = x.replace(edges=x.edges * edges.softmax(y)) if field == "attention" else x.replace(**{field: y})
        return x

    return graph_composite(name, children, walk, forward, ())


# The field of the graph that has the features of a part.
_SOURCE = {"edges": "edges", "received": "edges", "sent": "edges", "nodes": "nodes", "senders": "nodes",
           "receivers": "nodes", "globals": "globals"}


def _read(graph: Graph, edges: Edges, field: str, part: str, reductions: tuple[str, str, str]) -> ArrayLike:
    """A part of the input of the update of a field: one row for each edge (also for attention), node, or graph."""
    if field == "globals":
        if part == "globals":
            return graph.globals
        rows, ids, reduction, mask = (
            (graph.nodes, graph.node_graph, reductions[1], graph.node_mask) if part == "nodes" else
            (graph.edges, graph.edge_graph, reductions[2], graph.edge_mask))
        return getattr(segment, f"segment_{reduction}")(rows, ids, graph.n_graphs, mask=mask, is_sorted=True)
    if part == "globals":
        return (at_nodes if field == "nodes" else at_edges)(graph, graph.globals)
    if part in ("senders", "receivers"):
        return (edges.at_senders if part == "senders" else edges.at_receivers)(graph.nodes)
    if part in ("received", "sent"):
        to = edges if part == "received" else edges.replace(senders=edges.receivers, receivers=edges.senders,
                                                            by_sender=None)
        return reduced(to, graph.edges, reductions[0])
    return getattr(graph, part)


def _check_graph(name: str, x: object) -> None:
    if not isinstance(x, Graph):
        raise bad(name, "x is not a Graph", {"x": type_text(x)}, "pass a Graph, to init and to apply.")
    for field in FIELDS:
        value = getattr(x, field)
        if value is not None and len(getattr(value, "shape", ())) != 2:
            raise bad(name, f"`{field}` of the graph is not an array of rows", {"graph": repr(x)},
                      f"join the features to one array [rows, features]: graph.replace({field}=array).")


def _check_read(name: str, field: str, read: Sequence[Any], has_edges: bool) -> None:
    if not read or (field == "attention" and not has_edges):
        raise bad(name, f"the graph does not have the features that the update of {field} reads",
                  {"features of edges": "given" if has_edges else "None"},
                  "give the graph these features, or leave out the update.", ValueError)
