"""Layers for edges of several relations: `RGCN` on a `Graph`, `HeteroConvolution` on a `HeteroGraph`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import random
from xjax.errors import TracerArrayConversionError, bad, check_choice, did_you_mean
from xjax.nn import initializers
from xjax.typing import Array, ArrayLike
from xnn.checks import check_float, check_params, check_shape, type_text
from xnn.graph.layers.composed import graph_composite
from xnn.graph.structure.adjacency import as_edges
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.graph import Graph
from xnn.graph.structure.hetero import HeteroGraph, RelationKey
from xnn.graph.structure.masked import call_on_rows
from xnn.inputs import Input
from xnn.layer import Layer, recorded


@recorded()
def RGCN(n_out: int, relations: int, *, bases: int | None = None, blocks: int | None = None, aggregate: str = "mean",
         root: bool = True, bias: bool = True) -> Layer:
    """``y_i = x_i W_0 + sum_r mean_j x_j W_r + b`` over the senders j of relation r (Schlichtkrull et al., 2018).

    Edge weights are ignored. An edge with a negative relation, such as -1, is ignored.

    Shape: x [n, n_in] -> [n, n_out].

    Args:
      n_out: number of output features.
      relations: R, number of relations.
      bases: B: each ``W_r`` is a linear combination of B matrices (the paper's basis decomposition).
      blocks: ``W_r`` has this many blocks on its diagonal (block-diagonal decomposition); None for a full matrix.
      aggregate: "mean" or "sum" of the messages of one relation.
      root: whether ``x_i W_0`` is added.
      bias: whether b is added.
    Inputs:
      graph: in any form that `as_edges` takes.
      relation: int[e], from 0 to R - 1, in the order of the graph's edges; None uses ``graph.edges["relation"]``.
    Params: ``{"w": [R, n_in, n_out], "root": [n_in, n_out], "b": [n_out]}``; with bases, w is [B, n_in, n_out] and
      there are ``"coefficients": [R, B]``; with blocks, w is [R, blocks, n_in / blocks, n_out / blocks]. Initialised
      Glorot uniform, b with zeros.
    Raises: ValueError for bases with blocks, blocks that do not divide the features, an unknown relation.
    """
    check_choice("RGCN", "aggregate", aggregate, ("mean", "sum"))
    if bases is not None and blocks is not None:
        raise bad("RGCN", "takes only one of the two decompositions", {"bases": bases, "blocks": blocks},
                  "leave one of them out.", ValueError)

    def shapes(n_in: int) -> dict:
        if blocks is not None and (n_in % blocks or n_out % blocks):
            raise bad("RGCN", "the numbers of features are not divisible by the number of blocks",
                      {"n_in": n_in, "n_out": n_out, "blocks": blocks}, "pass a common divisor.", ValueError)
        w = (relations, n_in, n_out) if bases is None else (bases, n_in, n_out)
        return {"w": w if blocks is None else (relations, blocks, n_in // blocks, n_out // blocks),
                "coefficients": None if bases is None else (relations, bases),
                "root": (n_in, n_out) if root else None, "b": (n_out,) if bias else None}

    def init(rng, in_shape):
        in_shape = check_shape("RGCN", in_shape, 2)
        wanted = {key: shape for key, shape in shapes(in_shape[-1]).items() if shape is not None}
        glorot = initializers.glorot_uniform(batch_axis=(0, 1) if blocks else 0), initializers.glorot_uniform()
        params = {key: glorot[key != "w"](one, wanted[key]) for key, one in
                  zip([key for key in wanted if key != "b"], random.split(rng, len(wanted)), strict=False)}
        return (*in_shape[:-1], n_out), {**params, **({"b": jnp.zeros(n_out)} if bias else {})}

    def apply(params, x, graph, relation=None, *, rng=None, train=False):
        x = check_float("RGCN", x, 2)
        check_params("RGCN", params, x, **shapes(x.shape[-1]))
        edges, relation = as_edges(graph, x, "RGCN"), _relation(graph, relation, relations)
        is_of = (relation[:, None] == jnp.arange(relations, dtype=np.int32)[None]).astype(x.dtype)        # [e, R]
        if relation.shape[0] != len(edges):
            raise bad("RGCN", "every edge needs one relation", {"relation": type_text(relation), "edges": len(edges)},
                      "pass int[e], in the order of the graph's edges.", ValueError)
        known = is_of if aggregate == "sum" else is_of / edges.at_receivers(jnp.maximum(edges.sum(is_of), 1))
        y = edges.sum(_messages(params, x, edges, relation, bases, blocks) * jnp.sum(known * is_of, 1, keepdims=True))
        y = y + x @ params["root"] if root else y
        return y + jnp.broadcast_to(params["b"], y.shape) if bias else y

    return Layer(init, apply, "RGCN")


def _relation(graph: Any, relation: ArrayLike | None, relations: int) -> Array:
    if relation is None and isinstance(graph, Graph) and isinstance(graph.edges, Mapping):
        relation = graph.edges.get("relation")
    if relation is None:
        raise bad("RGCN", "the relations of the edges are missing", {"relation": "None"},
                  'pass relation=int[e], or a Graph with edges={"relation": int[e]}.')
    if relation.ndim != 1 or not jnp.issubdtype(relation.dtype, np.integer):
        raise bad("RGCN", "`relation` must be a vector of integers", {"relation": type_text(relation)}, "pass int[e].")
    try:
        largest = np.max(np.asarray(relation), initial=0)
    except TracerArrayConversionError:
        largest = 0
    if largest >= relations:
        raise bad("RGCN", "the graph has more relations than the layer",
                  {"largest relation": int(largest), "relations": relations},
                  f"pass relations={int(largest) + 1}.", ValueError)
    return jnp.asarray(relation).astype(np.int32)


def _messages(params: Mapping[str, Any], x: Array, edges: Edges, relation: Array, bases: int | None,
              blocks: int | None) -> Array:
    """[e, n_out]: ``x_j W_r`` for each edge; any finite values for an edge with a negative relation."""
    w = params["w"]
    relation = jnp.clip(relation, 0, None)
    if bases is not None:
        coefficients = jnp.take(params["coefficients"], relation, axis=0, mode="clip")
        return jnp.einsum("eb,ebo->eo", coefficients, edges.at_senders(jnp.einsum("ni,bio->nbo", x, w)))
    n, count = x.shape[0], w.shape[0]
    if blocks is None:
        table = jnp.einsum("ni,rio->nro", x, w)
    else:
        table = jnp.einsum("nbi,rbio->nrbo", x.reshape(n, blocks, -1), w).reshape(n, count, -1)
    # A lookup in [n * R, n_out], because at_senders(table) would store R messages for each edge.
    place = jnp.asarray(edges.senders) * count + relation
    return jnp.take(table.reshape(n * count, -1), place, axis=0, mode="clip")


@recorded("layers")
def HeteroConvolution(layers: Mapping[RelationKey, Layer], *, aggregate: str = "sum") -> Layer:
    """A layer for each relation; outputs for the same target type are reduced: PyTorch Geometric's HeteroConv.

    Any layer on a `Graph` can be used. A relation between two types runs on the graph of both types
    (`HeteroGraph.relation_graph`): the target nodes, then the source nodes, which receive no edges and whose outputs
    are dropped. So both types need the same number of features: put ``parallel(user=Dense(16), item=Dense(16))`` before
    the first layer. A `BatchNorm` in such a layer has common statistics for the nodes of both types, without padding.

    Shape: {type: [n, n_in]} -> {type: [n, n_out]} for the target types of the relations.

    Args:
      layers: ``(source type, relation, target type) -> layer``; other relations of the graph are ignored.
      aggregate: "sum", "mean", "max" or "min" over the relations with the same target type.
    Inputs:
      graph: a `HeteroGraph`.
    Params: ``{"source-relation-target": params of the layer}``.
    Raises: TypeError for another kind of graph; ValueError for a relation that the graph does not have, if the two
      types of a relation differ in their number of features, and from `init` if outputs for a type differ in shape.
    """
    name = "HeteroConvolution"
    check_choice(name, "aggregate", aggregate, ("sum", "mean", "max", "min"))
    keys = {"-".join(key): key for key in layers}
    reduce = {"sum": jnp.sum, "mean": jnp.mean, "max": jnp.max, "min": jnp.min}[aggregate]

    def walk(visit, in_shape, shapes):
        outs: dict = {}
        for place, (source, _, target) in keys.items():
            _check_types(name, in_shape, source, target)
            shape = visit(place, (-1, in_shape[target][-1]))
            outs.setdefault(target, []).append((*in_shape[target][:-1], shape[-1]))
        for target, out_shapes in outs.items():
            if len(set(out_shapes)) > 1:
                raise bad(name, f"the layers with the target type {target!r} have outputs of different sizes",
                          {"out_shapes": out_shapes}, "give these layers the same n_out.", ValueError)
        return {target: out_shapes[0] for target, out_shapes in outs.items()}

    def forward(call, x, values):
        graph, outs = values["graph"], {}
        if not isinstance(graph, HeteroGraph):
            raise bad(name, "the graph is not a HeteroGraph", {"graph": type_text(graph)},
                      "make one with HeteroGraph.from_edges.")
        for place, (source, relation, target) in keys.items():
            _check_types(name, {key: value.shape for key, value in x.items()}, source, target)
            one = graph.replace(nodes=x).relation_graph((source, relation, target))
            y = call_on_rows(call, place, one.nodes, one.node_mask, graph=one)
            outs.setdefault(target, []).append(y[:x[target].shape[0]])
        return {target: reduce(jnp.stack(outputs), axis=0) for target, outputs in outs.items()}

    graph = Input("graph", meaning="HeteroGraph")
    return graph_composite(name, dict(zip(keys, layers.values(), strict=True)), walk, forward, (graph,))


def _check_types(caller: str, shapes: Any, source: str, target: str) -> None:
    if not isinstance(shapes, Mapping):
        raise bad(caller, "x must be a dict with the features of each type", {"x": repr(shapes)},
                  'pass {"user": x, "item": z}.')
    for one in (source, target):
        if one not in shapes:
            raise bad(caller, f"there are no features of the type {one!r}", {"types": ", ".join(map(repr, shapes))},
                      did_you_mean(one, list(shapes)) or "pass features of all types.", ValueError)
    if shapes[source][-1] != shapes[target][-1]:
        raise bad(caller, "the two types of a relation have different numbers of features",
                  {source: repr(shapes[source]), target: repr(shapes[target])},
                  f"map them to one size first: parallel({source}=Dense(n), {target}=Dense(n)).", ValueError)
