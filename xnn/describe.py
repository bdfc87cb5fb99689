"""`describe`: a model as a table of layers, shapes and parameters."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from xjax import tree_util
from xnn.checks import type_text
from xnn.layer import Layer, call_text, init_types


class Row(NamedTuple):
    """One line of the table: a layer, where it is, what goes in and out, how many numbers."""

    path: str
    depth: int
    layer: str
    in_shape: Any
    out_shape: Any
    params: str
    count: int


def describe(layer: Layer, in_shape: Any, **shapes: Any) -> str:
    """Table of a model: one line for each layer, children indented; the total at the end.

    Args:
      layer: a Layer.
      in_shape: shape of its input, as for `init` (a tuple of shapes for `parallel`).
      shapes: those of further inputs by name, where parameters depend on them.
    Returns: text; print it. No parameters are made, only their types.

    >>> from xnn import Dense, Relu, serial
    >>> print(describe(serial(Dense(32), Relu), (-1, 8)))
    layer                  in        out       parameters              count
    serial                 (-1, 8)   (-1, 32)                            288
      [0] Dense(n_out=32)  (-1, 8)   (-1, 32)  b f32[32], w f32[8,32]    288
      [1] Relu             (-1, 32)  (-1, 32)                              0
    total                                                                288
    """
    rows = table(layer, in_shape, **shapes)
    lines = [("layer", "in", "out", "parameters", "count")]
    lines += [
        (
            "  " * row.depth + f"{row.path} {row.layer}".strip(),
            str(row.in_shape),
            str(row.out_shape),
            row.params,
            f"{row.count:,}",
        )
        for row in rows
    ]
    return _aligned([*lines, ("total", "", "", "", f"{rows[0].count:,}")])


def table(layer: Layer, in_shape: Any, **shapes: Any) -> list[Row]:
    """The rows of `describe`, a layer before its children."""
    rows: list[Row] = []
    _add(rows, "", 0, layer, in_shape, shapes)
    return rows


def _add(rows: list[Row], path: str, depth: int, layer: Layer, in_shape: Any, shapes: Mapping[str, Any]) -> Any:
    """Append the rows of a layer and its children. Returns: the shape of its output."""
    taken = {name: shape for name, shape in shapes.items() if name in layer.sized_by}
    out_shape, params = init_types(layer, in_shape, **taken)
    count = sum(math.prod(leaf.shape) for leaf in tree_util.tree_leaves(params))
    own = "" if layer.parts else _params_text(params)
    rows.append(Row(path, depth, call_text(layer), in_shape, out_shape, own, count))
    if layer.parts:
        def visit(key, shape):
            return _add(rows, "" if key is None else f"[{key!r}]", depth + 1, layer.parts.children[key], shape, shapes)
        layer.parts.walk(visit, in_shape, shapes)
    return out_shape


def _params_text(params: Any) -> str:
    if isinstance(params, dict):
        return ", ".join(f"{name} {type_text(params[name])}" for name in sorted(params))
    return ", ".join(type_text(leaf) for leaf in tree_util.tree_leaves(params))


def _aligned(lines: list[tuple[str, ...]]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    texts = []
    for line in lines:
        *left, count = (
            cell.ljust(width) if i < len(widths) - 1 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        texts.append("  ".join([*left, count]).rstrip())
    return "\n".join(texts)
