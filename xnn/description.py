"""`describe`: a model as a table of layers, shapes, parameters and costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax
from xjax import random, tree_util
from xjax.typing import Params, PyTree
from xnn.checks import type_text
from xnn.composites import taken_by
from xnn.cost import Cost, closed, cost_of
from xnn.inputs import bind, is_slot, shape_of
from xnn.layer import Layer, call_text, init_types
from xnn.sharing import shared_slot, slots_of


class Row(NamedTuple):
    """One line of the table: a layer with its place in the model, shapes, parameters, state and cost."""

    path: str
    depth: int
    layer: str
    in_shape: Any
    out_shape: Any
    params: str
    count: int
    state_count: int
    cost: Cost | None


def describe(layer: Layer, in_shape: PyTree, *shapes: PyTree, **named: PyTree) -> str:
    """Table of a model: one line for each layer, with children indented, and a total at the end.

    Args:
      layer: a Layer.
      in_shape: shape of its input, as for `init` (a tuple of shapes for `parallel`). Unknown sizes (-1) count as 1.
      shapes: shapes of extra inputs by position or name, as for `init`, if parameters or costs depend on them. For a
        layer on graphs pass the graph itself: ``graph=graph``.
    Returns: text to print. The columns are the input and output shapes; the parameters with their types; the number of
      elements of the parameters, and of the state if there is one; the FLOPs of products, convolutions and sums over
      edges (`xnn.cost.Cost`); the bytes of the output, for a composite the sum over its children. The cost is "?" if
      the shape of a required input is missing, or if inputs of several dtypes have shapes only: pass types or arrays
      instead. The types of the parameters are computed, but not their values.

    >>> from xnn import Dense, Relu, serial
    >>> print(describe(serial(Dense(32), Relu), (-1, 8)))
    layer                  in        out       parameters              count  FLOPs  bytes
    serial                 (-1, 8)   (-1, 32)                            288    512    256
      [0] Dense(n_out=32)  (-1, 8)   (-1, 32)  b f32[32], w f32[8,32]    288    512    128
      [1] Relu             (-1, 32)  (-1, 32)                              0      0    128
    total                                                                288    512    256
    """
    rows = table(layer, in_shape, *shapes, **named)
    has_state = rows[0].state_count > 0

    def numbers(row):
        cost = ("?", "?") if row.cost is None else (f"{row.cost.flops:,}", f"{row.cost.out_bytes:,}")
        return (f"{row.count:,}", *([f"{row.state_count:,}"] if has_state else []), *cost)

    lines = [("layer", "in", "out", "parameters", "count", *(["state"] if has_state else []), "FLOPs", "bytes")]
    for row in rows:
        name = "  " * row.depth + f"{row.path} {row.layer}".strip()
        lines.append((name, str(row.in_shape), str(row.out_shape), row.params, *numbers(row)))
    return _aligned([*lines, ("total", "", "", "", *numbers(rows[0]))], left=4)


def table(layer: Layer, in_shape: PyTree, *shapes: PyTree, **named: PyTree) -> list[Row]:
    """The rows of `describe`; each layer precedes its children."""
    inputs = [one._replace(default=None) for one in layer.inputs if not is_slot(one.name)]
    bound = bind("describe", inputs, shapes, named)
    rows: list[Row] = []
    _add(rows, "", 0, layer, shape_of(in_shape),
         {name: _without_values(spec) for name, spec in bound.items() if spec is not None})
    return rows


def _without_values(spec: PyTree) -> PyTree:
    """The shapes of the arrays in a tree; a graph or a sparse matrix stays, because its sums depend on its edges."""
    if isinstance(spec, Mapping):
        return {key: _without_values(part) for key, part in spec.items()}
    return shape_of(spec) if isinstance(spec, tuple | list | np.ndarray | xjax.Array | xjax.ShapeDtypeStruct) else spec


def _add(rows: list[Row], path: str, depth: int, layer: Layer, in_shape: PyTree, shapes: Mapping[str, PyTree]) -> Row:
    """Append the rows of a layer and its children to `rows`; returns the row of the layer."""
    taken = taken_by(layer, shapes)
    out_shape, params = init_types(layer, in_shape, **taken)
    state = xjax.eval_shape(lambda: layer.init_state(closed(in_shape), random.PRNGKey(0), **taken))
    slot = shared_slot(layer)
    own = f"those of {slot!r}" if slot else "" if layer.parts else _params_text(params)
    at = len(rows)
    rows.append(Row(path, depth, call_text(layer), in_shape, out_shape, own, _count(params), _count(state), None))
    children: list[Row] = []
    parts = layer.parts
    if parts is not None and not slot:
        def visit(key, shape, /, **sizes):
            place, child = "" if key is None else f"[{key!r}]", parts.children[key]
            children.append(_add(rows, place, depth + 1, child, shape, {**shapes, **sizes}))
            return children[-1].out_shape
        for name, child in slots_of(layer).items():
            text, n = _params_text(params["shared"][name]), _count(params["shared"][name])
            rows.append(Row(f"[{name!r}]", depth + 1, call_text(child), "", "", text, n, 0, Cost(0, 0)))
        parts.walk(visit, in_shape, shapes)
    rows[at] = rows[at]._replace(cost=_total(layer, cost_of(layer, in_shape, **shapes), children))
    return rows[at]


def _total(layer: Layer, cost: Cost | None, children: Sequence[Row]) -> Cost | None:
    """The cost of a composite, with the bytes that all of its children write."""
    costs = [child.cost for child in children if child.cost is not None]
    if cost is None or layer.parts is None or not children or len(costs) < len(children):
        return cost
    return cost._replace(out_bytes=layer.parts.times * sum(each.out_bytes for each in costs))


def _count(tree: PyTree) -> int:
    return sum(math.prod(leaf.shape) for leaf in tree_util.tree_leaves(tree))


def _params_text(params: Params) -> str:
    if isinstance(params, dict):
        return ", ".join(f"{name} {type_text(params[name])}" for name in sorted(params))
    return ", ".join(type_text(leaf) for leaf in tree_util.tree_leaves(params))


def _aligned(lines: Sequence[tuple[str, ...]], left: int) -> str:
    """The lines with aligned columns: the first `left` columns flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def text(line):
        cells = zip(line, widths, strict=True)
        return "  ".join(c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(cells)).rstrip()

    return "\n".join(map(text, lines))
