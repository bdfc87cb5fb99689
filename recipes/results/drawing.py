"""The parts of a report or a preview: figures, tables, images, texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from recipes.data.facts import Share, Table
from recipes.results.numbers import quantity, share

if TYPE_CHECKING:
    from recipes.lazy import mpl_figure


class Gallery(NamedTuple):
    """Small images.  Attributes: groups: name, such as a class -> u8[n, height, width, channels]."""

    groups: Mapping[str, np.ndarray]


# Several figures are side by side where the page is wide enough.
Drawing: TypeAlias = "mpl_figure.Figure | list[mpl_figure.Figure] | Table | Gallery | str"


def cell_text(cell: str | float) -> str:
    """A cell of a table as text."""
    if isinstance(cell, Share):
        return share(cell)
    return cell if isinstance(cell, str) else quantity(cell)


def number_columns(table: Table) -> list[int]:
    """The columns of a table whose cells are all numbers."""
    return [i for i in range(len(table.headings)) if not any(isinstance(row[i], str) for row in table.rows)]
