"""The layers of a model as a table that fits a page and a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from recipes.lazy import xnn
from recipes.results.numbers import number

if TYPE_CHECKING:
    from xnn import Layer

HEADINGS = ("layer", "output", "parameters", "count")
LONGEST = 52                                                  # characters of a layer, with those of its indentation


def layer_rows(model: Layer, inputs: Sequence[Any]) -> list[tuple[str, str, str, str]]:
    """A row for each layer, by `HEADINGS`; the first is the whole model. A long layer loses its last options."""
    rows = xnn.description.table(model, *inputs)
    names = ("   " * row.depth + " ".join(filter(None, (row.path.strip("[]'"), row.layer))) for row in rows)
    return [(name if len(name) <= LONGEST else f"{name[:LONGEST - 1]}…", str(row.out_shape), row.params,
             number(row.count)) for name, row in zip(names, rows, strict=True)]
