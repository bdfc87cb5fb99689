"""`MaskedGraph`: a graph with some nodes or edges masked out, as pooling and dropping of edges return it.

A program is compiled for static sizes, so it cannot remove nodes that it selects at run time. `mask_graph` keeps them
in the arrays, and the layers treat them as padding: no message passes along a masked edge, and pools and norms ignore
masked nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.checks import type_text
from xnn.combinators import only
from xnn.composites import combine
from xnn.graph.structure.graph import Graph, host
from xnn.inputs import Input, joined
from xnn.layer import Layer, as_layer


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class MaskedGraph(Graph):
    """A `Graph` with masked nodes and edges; `n_node` and `n_edge` still count them.

    `batch`, `unbatch` and `pad` drop the masks: call `kept_part` first.

    Attributes:
      keep_nodes, keep_edges: bool[n] and bool[e], False for masked nodes and edges; None if none is masked. Both ends
        of an edge that is kept are kept.
    """

    keep_nodes: Any = None
    keep_edges: Any = None

    @property
    def node_mask(self) -> Array | None:
        """bool[n]: False for nodes that are masked or padding; None if there are no such nodes."""
        return _both(super(MaskedGraph, self).node_mask, self.keep_nodes)

    @property
    def edge_mask(self) -> Array | None:
        """bool[e]: False for edges that are masked or padding; None if there are no such edges."""
        return _both(super(MaskedGraph, self).edge_mask, self.keep_edges)


tree_util.register_dataclass(MaskedGraph)


def mask_graph(graph: Graph, *, nodes: ArrayLike | None = None, edges: ArrayLike | None = None) -> MaskedGraph:
    """Masks some nodes, the edges at them, and some other edges, in addition to those masked before.

    Args: nodes, edges: bool[n] and bool[e], False for nodes and edges to mask; None to keep all. They may be traced.
    Raises: TypeError for another shape or dtype, and if `graph` is not a `Graph`.

    >>> graph = mask_graph(Graph.from_edges([0, 1], [1, 2]), nodes=np.array([False, True, True]))
    >>> graph.edge_mask
    Array([False,  True], dtype=bool)
    """
    if not isinstance(graph, Graph):
        raise bad("mask_graph", "this is not a Graph", {"graph": type_text(graph)}, "make one with Graph.from_edges.")
    if nodes is not None:
        nodes = _mask("nodes", nodes, nodes.shape if graph.nodes is None else (graph.n_nodes,))
    if edges is not None:
        edges = _mask("edges", edges, (graph.n_edges,))
    if nodes is not None:
        edges = _both(edges, nodes[graph.senders] & nodes[graph.receivers])
    same = {name: getattr(graph, name) for name in Graph.__dataclass_fields__}
    return MaskedGraph(**same, keep_nodes=_both(getattr(graph, "keep_nodes", None), nodes),
                       keep_edges=_both(getattr(graph, "keep_edges", None), edges))


def call_on_rows(call: Callable, key: str | None, x: ArrayLike, mask: ArrayLike | None, values: Mapping[str, Any] = {},
                 **named: object) -> Array:
    """``call(key, x, **named)`` of a composite, with `mask` as the child's `row_mask`.

    Only a child with the input `row_mask`, such as `BatchNorm`, gets it, and only if the composite was not called with
    a `row_mask` of its own.

    Args:
      call: as in `xnn.composites.combine`.
      mask: one bool for each row of x, such as `Graph.node_mask`; None if all rows count.
      values: the further inputs of the composite, by name.
    """
    if mask is None or values.get("row_mask") is not None or "row_mask" not in call.children[key].extra_inputs:
        return call(key, x, **named)
    return call(key, x, row_mask=mask, **named)


def node_mask(graph: object, x: ArrayLike) -> Array | None:
    """`Graph.node_mask` of a graph in any form with node features x; None for forms without padding."""
    if not isinstance(graph, Graph) or tree_util.tree_leaves(graph.nodes):
        return graph.node_mask if isinstance(graph, Graph) else None
    return graph.replace(nodes=x).node_mask                # a traced graph takes its static node count from x


def with_node_mask(layer: Layer) -> Layer:
    """Wraps a layer with the input `row_mask`, such as `BatchNorm`, so that the graph provides it: padding is ignored.

    The layers and stacks of this package pass `row_mask` themselves. Use this in your own chains:
    ``serial(GraphConvolution(64), with_node_mask(BatchNorm()), Relu, GraphConvolution(7))``.

    Shape, params, state: as for the layer, with node features x [n, ...].
    Inputs: graph: a `Graph`, or another form, in which all nodes count; then the inputs of the layer except `row_mask`.
    Raises: TypeError for a layer without the input `row_mask`.

    >>> from xnn import BatchNorm
    >>> with_node_mask(BatchNorm())
    with_node_mask of (x, graph)
      BatchNorm of (x, row_mask)
    """
    child = as_layer(layer, "with_node_mask")
    if "row_mask" not in child.extra_inputs:
        raise bad("with_node_mask", f"{child.name} has no input `row_mask`",
                  {"inputs": ", ".join(child.extra_inputs) or "none"}, fix="wrap BatchNorm, or leave the wrapper out.")

    def forward(call, x, values):
        return call(None, x, row_mask=node_mask(values["graph"], x))

    inputs = joined("with_node_mask", [[Input("graph")], [one for one in child.inputs if one.name != "row_mask"]])
    return combine("with_node_mask", {None: child}, lambda visit, in_shape, shapes: visit(None, in_shape), forward,
                   only, inputs=inputs, passes=("row_mask",), rebuild=lambda some: with_node_mask(some[None]))


def kept_part(graph: Graph) -> Graph:
    """A `Graph` of the nodes and edges that are not masked, built on the host; padding graphs stay, without nodes.

    Raises: TypeError if the graph is traced.
    """
    graph = host("graph.kept_part", graph)
    nodes = np.ones(graph.n_nodes, bool) if graph.node_mask is None else np.asarray(graph.node_mask)
    edges = np.ones(graph.n_edges, bool) if graph.edge_mask is None else np.asarray(graph.edge_mask)
    place = (np.cumsum(nodes) - 1).astype(np.int32)
    senders, receivers = place[graph.senders[edges]], place[graph.receivers[edges]]
    counts = [np.bincount(owner[kept], minlength=graph.n_graphs).astype(np.int32)
              for owner, kept in ((graph.node_graph, nodes), (graph.edge_graph, edges))]
    order = None if graph.by_sender is None else np.argsort(senders, kind="stable").astype(np.int32)
    of_nodes, of_edges = (tree_util.tree_map(lambda x, kept=kept: x[kept], tree)
                          for tree, kept in ((graph.nodes, nodes), (graph.edges, edges)))
    return Graph(of_nodes, of_edges, senders, receivers, graph.globals, *counts, graph.mask, order)


def _both(one: Array | None, other: Array | None) -> Array | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _mask(name: str, mask: ArrayLike, shape: tuple[int, ...]) -> Array:
    mask = jnp.asarray(mask)
    if mask.dtype != np.bool_ or mask.shape != shape:
        raise bad("mask_graph", f"`{name}` must be a bool vector with one element per row", {name: type_text(mask)},
                  fix=f"pass bool[{shape[0]}].")
    return mask
