"""`JumpingKnowledge` combines the outputs of several layers; `virtual_node` adds a node joined to all nodes."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import xjax.numpy as jnp
from xjax import nn, random
from xjax.errors import bad, check_choice
from xnn.checks import check_float, check_shape, type_text
from xnn.combinators import serial
from xnn.composites import check_kept, combine, dict_of
from xnn.graph.structure.graph import Graph
from xnn.graph.structure.groups import as_groups, graphs_shape
from xnn.graph.structure.masked import call_on_rows
from xnn.inputs import Input, joined
from xnn.layer import Layer, as_layer, recorded
from xnn.layers import LSTM, Dense, Relu


@recorded()
def JumpingKnowledge(how: Literal["concat", "max", "lstm"] = "concat", *, hidden: int | None = None) -> Layer:
    """Combines the node features of several layers (Xu et al., 2018).

    Shape: a tuple of [n, f_i] -> [n, sum of f_i] for "concat"; a tuple of [n, f] -> [n, f] for "max" and "lstm".
    Args:
      how: "concat"; "max" of each feature over the layers; or "lstm", a weighted mean over the layers. For each node
        its weights are the softmax of scores from a bidirectional LSTM over the layers.
      hidden: features of each direction of the LSTM; if None, half of the total number of features of all layers, as in
        PyTorch Geometric.
    Params: ``()``; for "lstm" ``{"lstm": params of LSTM(hidden, bidirectional=True), "score": params of Dense(1)}``.
    Raises: ValueError for an unknown `how`; TypeError for an input that is not a sequence, or if features differ in
      shape where they must not.
    """
    check_choice("JumpingKnowledge", "how", how, ("concat", "max", "lstm"))

    def init(rng, in_shapes):
        shapes = [check_shape("JumpingKnowledge", shape) for shape in _several(in_shapes)]
        if how == "concat":
            return (*shapes[0][:-1], sum(shape[-1] for shape in shapes)), ()
        _check_equal(shapes, in_shapes)
        if how == "max":
            return shapes[0], ()
        rngs, layers = random.split(rng), _lstm_and_score(hidden, len(shapes), shapes[0][-1])
        (y, lstm), score = layers[0].init(rngs[0], (-1, *shapes[0][-1:] * 2)), layers[1]
        return shapes[0], {"lstm": lstm, "score": score.init(rngs[1], y)[1]}

    def apply(params, x, *, rng=None, train=False):
        xs = [check_float("JumpingKnowledge", one) for one in _several(x)]
        if how == "concat":
            return jnp.concatenate(xs, -1)
        _check_equal([one.shape for one in xs], x)
        if how == "max":
            return jnp.max(jnp.stack(xs), 0)
        lstm, score = _lstm_and_score(hidden, len(xs), xs[0].shape[-1])
        sequence = jnp.stack(xs, 1)
        scores = score.apply(params["score"], lstm.apply(params["lstm"], sequence))
        return jnp.sum(nn.softmax(scores, 1) * sequence, 1)

    return Layer(init, apply, "JumpingKnowledge", positionwise=True)


def _several(xs: object) -> Sequence[Any]:
    if not isinstance(xs, tuple | list) or not xs or isinstance(xs[0], int):
        raise bad("JumpingKnowledge", "takes the outputs of several layers", {"x": type_text(xs)},
                  fix="pass a tuple of arrays [n, features].")
    return xs


def _check_equal(shapes: Sequence[Any], xs: Any) -> None:
    if any(shape != shapes[0] for shape in shapes):
        raise bad("JumpingKnowledge", "the outputs of the layers differ in shape", {"x": type_text(xs)},
                  fix='give the layers the same size, or use how="concat".')


def _lstm_and_score(hidden: int | None, layers: int, features: int) -> tuple[Layer, Layer]:
    return LSTM(hidden or max(layers * features // 2, 1), bidirectional=True), Dense(1)


def virtual_node(features: int, *layers: Layer, update: Layer | None = None) -> Layer:
    """A chain of layers with a virtual node in each graph that is joined to all other nodes (Gilmer et al., 2017).

    Before each layer the row v of the virtual node is added to the nodes of its graph, ``x = x + v``. Then, except
    before the last layer, v is updated for the next layer: ``v' = update(v + sum of the nodes)``. This is the form of
    the OGB benchmark (Hu et al., 2020), whose `update` has a BatchNorm after each Dense. v starts as a learned row,
    initialised with 0.

    Shape: x [n, features] -> [n, features].
    Args:
      features: number of node features; no layer may change it.
      layers: layers of x, and usually `graph`.
      update: layer [g, features] -> [g, features], with separate parameters for each layer except the last; if None
        ``serial(Dense(2 * features), Relu, Dense(features), Relu)``.
    Inputs: graph; then the inputs of the layers.
    Params: ``{"start": {"row": [features]}, "layer_0", "update_0", "layer_1", ...}``.
    Raises: TypeError from `init` if a layer changes the number of features; ValueError without layers.
    """
    if not layers:
        raise bad("virtual_node", "there are no layers", {"features": features},
                  "pass at least one layer: virtual_node(64, GraphConvolution(64)).", ValueError)
    update = update or serial(Dense(2 * features), Relu, Dense(features), Relu)
    children = {"start": _Row()}
    for i, layer in enumerate(layers):
        children[f"layer_{i}"] = as_layer(layer, f"virtual_node[{i}]")
        if i < len(layers) - 1:
            children[f"update_{i}"] = as_layer(update, "virtual_node: update")
    return _virtual_node(children, {"features": features})


def _virtual_node(children: Mapping[str, Layer], settings: Mapping[str, Any]) -> Layer:
    last = max(i for i in range(len(children)) if f"layer_{i}" in children)

    def walk(visit, in_shape, shapes):
        in_shape = check_shape("virtual_node", in_shape, min_rank=2)
        if in_shape[-1] != settings["features"]:
            raise bad("virtual_node", "the nodes do not have the number of features that was declared",
                      {"in_shape": str(in_shape), **settings}, f"make it with virtual_node({in_shape[-1]}, ...).")
        row = graphs_shape(in_shape, in_shape[-1])
        visit("start", row)
        for i in range(last + 1):
            check_kept("virtual_node", children[f"layer_{i}"], in_shape, visit(f"layer_{i}", in_shape))
            if i < last:
                check_kept("virtual_node", children[f"update_{i}"], row, visit(f"update_{i}", row))
        return in_shape

    def forward(call, x, values):
        groups = as_groups(values["graph"], x, "virtual_node")
        graph_mask = values["graph"].mask if isinstance(values["graph"], Graph) else None
        row = call("start", groups.sum(x))
        for i in range(last + 1):
            x = x + groups.at_nodes(row)
            if i < last:
                row = call_on_rows(call, f"update_{i}", row + groups.sum(x), graph_mask)
            x = call_on_rows(call, f"layer_{i}", x, groups.mask, values)
        return x

    inputs = joined("virtual_node", [[Input("graph")], *(child.inputs for child in children.values())])
    return combine("virtual_node", children, walk, forward, dict_of(children), inputs=inputs, settings=settings,
                   rebuild=lambda some: _virtual_node(some, settings))


def _Row() -> Layer:
    """A learned row, initialised with 0 and broadcast to the shape of the input, whose values are not used."""

    def init(rng, in_shape):
        return in_shape, {"row": jnp.zeros(in_shape[-1:])}

    def apply(params, x, *, rng=None, train=False):
        return jnp.broadcast_to(params["row"].astype(x.dtype), x.shape)

    return Layer(init, apply, "Row")
