"""Common parts of message-passing layers: composites with children, edge features, reductions by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xjax.errors import bad
from xjax.typing import Array, ArrayLike
from xnn.checks import type_text
from xnn.composites import combine, dict_of
from xnn.graph.structure.edges import Edges
from xnn.inputs import Input
from xnn.layer import Layer, as_layer

REDUCTIONS = ("sum", "mean", "max", "min", "std")


def graph_composite(name: str, children: Mapping[str, Layer | None], walk: Callable, forward: Callable,
                    inputs: Sequence[Input] = (Input("graph"),), sized_by: Sequence[str] = (),
                    passes: Sequence[str] = ("row_mask",)) -> Layer:
    """A layer with children whose shapes do not depend on the graph: `xnn.composites.combine` with a dict of params.

    Args:
      children: layers by name; None values are skipped.
      walk: ``(visit, in_shape, shapes) -> out_shape``; it visits every child.
      forward: ``(call, x, values) -> y``, with the further inputs by name in `values`.
      inputs: the further inputs of the layer; children get only the inputs that `forward` passes to them.
      sized_by: names of the inputs whose shapes `walk` needs.
      passes: names of the inputs that `forward` passes to children.
    Raises: ValueError for a child with an input that is neither in `inputs` nor in `passes`.
    """
    layers = {key: as_layer(child, f"{name}[{key!r}]") for key, child in children.items() if child is not None}
    return combine(name, layers, walk, forward, dict_of(layers), inputs=inputs, sized_by=sized_by, passes=passes,
                   rebuild=lambda some: graph_composite(name, some, walk, forward, inputs, sized_by, passes))


def reduced(edges: Edges, messages: ArrayLike, reduction: str) -> Array:
    """The messages [e, ...] of each receiver, reduced to [n, ...] by one of REDUCTIONS."""
    return getattr(edges, reduction)(messages)


def features_of(caller: str, edges: Edges, size: int) -> ArrayLike:
    """The edge features [e, size]. Raises: TypeError if the graph has none, ValueError for another number."""
    if edges.features is None:
        raise bad(caller, "the layer needs edge features, but the graph has none", {"edge_features": size},
                  f"pass a Graph with edges [e, {size}], or edges={{'features': [e, {size}]}}.")
    if edges.features.shape[-1] != size:
        raise bad(caller, "the number of edge features is not that of the layer",
                  {"edge_features": size, "graph": type_text(edges.features)},
                  f"pass edge_features={edges.features.shape[-1]} to the layer.", ValueError)
    return edges.features
