"""Random removal of edges and nodes in training: `drop_edges`, `drop_nodes`, `with_drop_edge`."""

from __future__ import annotations

from xjax.errors import bad
from xjax.typing import PRNGKey
from xnn import rng as rng_lib
from xnn.checks import type_text
from xnn.combinators import only
from xnn.composites import combine
from xnn.graph.structure.adjacency import as_edges
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.graph import Graph
from xnn.graph.structure.masked import MaskedGraph, mask_graph
from xnn.layer import Layer, as_layer
from xnn.layers.dropout import check_rate
from xnn.rng import Rng


def drop_edges(rng: PRNGKey, graph: Graph, rate: float) -> MaskedGraph:
    """Drops each edge with probability `rate` (DropEdge, Rong et al., 2020); the other edges keep their weights.

    The two directions of an undirected edge are dropped independently. A layer that normalises its adjacency uses only
    the remaining edges, as in the paper.

    Args: rng: key; graph: a `Graph`, which may be traced; rate: 0 <= rate < 1.
    Returns: a `MaskedGraph` with the arrays of the graph.
    Raises: ValueError for a rate outside [0, 1); TypeError if `graph` is not a `Graph`.
    """
    _check("drop_edges", rate, graph)
    return mask_graph(graph, edges=rng_lib.bernoulli(rng, 1 - rate, (graph.n_edges,)))


def drop_nodes(rng: PRNGKey, graph: Graph, rate: float, n_nodes: int | None = None) -> MaskedGraph:
    """Drops each node, and the edges at it, with probability `rate`.

    Pools and norms ignore dropped nodes; their rows in x stay, and they send and receive no messages.

    Args: n_nodes: number of nodes, for a traced graph without node features; the others as in `drop_edges`.
    Returns, Raises: as `drop_edges`.
    """
    _check("drop_nodes", rate, graph)
    kept = rng_lib.bernoulli(rng, 1 - rate, (graph.n_nodes if n_nodes is None else n_nodes,))
    return mask_graph(graph, nodes=kept)


def with_drop_edge(layer: Layer, rate: float) -> Layer:
    """Wraps a layer so that in training edges of its graph are dropped, see `drop_edges`.

    For several layers, ``with_drop_edge(serial(...), rate)`` drops the same edges in all of them, and
    ``serial(with_drop_edge(...), with_drop_edge(...))`` draws for each layer, the paper's layer-wise DropEdge.

    Args: layer: a layer with the input `graph`; rate: probability of dropping an edge.
    Inputs, Params, State: as for the layer; the graph may have any form that `as_edges` takes.
    Raises: ValueError for a rate outside [0, 1); TypeError for a layer without `graph`, and from apply in training
      without rng.

    >>> from xnn import GraphConvolution
    >>> with_drop_edge(GraphConvolution(8), 0.2)
    with_drop_edge(rate=0.2) of (x, graph)
      GraphConvolution(n_out=8) of (x, graph)
    """
    child = as_layer(layer, "with_drop_edge")
    _check("with_drop_edge", rate)
    if "graph" not in child.extra_inputs:
        raise bad("with_drop_edge", f"{child.name} has no input `graph`",
                  {"inputs": ", ".join(child.extra_inputs) or "none"},
                  fix='wrap a layer on graphs; renamed(layer, adj="graph") renames an input.')

    def forward(call, x, values):
        if not call.train or rate == 0:
            return call(None, x)
        rng_lib.check_rng("with_drop_edge", call.rng, rate=rate)
        key, graph = rng_lib.fold_in(call.rng, _STREAM), values["graph"]
        if isinstance(graph, Graph):
            return call(None, x, graph=drop_edges(key, graph, rate))
        return call(None, x, graph=_dropped(key, as_edges(graph, x, "with_drop_edge"), rate))

    return combine("with_drop_edge", {None: child}, lambda visit, in_shape, shapes: visit(None, in_shape), forward,
                   only, rebuild=lambda some: with_drop_edge(some[None], rate), settings={"rate": rate})


_STREAM = 2**31 - 1                            # the child uses the key itself and its folds of 0, 1, ...


def _dropped(rng: Rng, edges: Edges, rate: float) -> Edges:
    kept = rng_lib.bernoulli(rng, 1 - rate, (len(edges),))
    return edges.replace(mask=kept if edges.mask is None else edges.mask & kept)


def _check(caller: str, rate: float, *graphs: object) -> None:
    check_rate(caller, rate)
    for graph in graphs:
        if not isinstance(graph, Graph):
            raise bad(caller, "this is not a Graph", {"graph": type_text(graph)}, "make one with Graph.from_edges.")
