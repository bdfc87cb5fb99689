"""The parts of a report that `Task.draw` returns: figures, tables, texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from recipes.lazy import mpl_figure


class Table(NamedTuple):
    """A table with a row for each name in its first column; the other columns are numbers.

    Attributes:
      headings: of the columns.
      rows: texts for people; they may have any characters.
      note: a sentence above the table, or "".
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


# Several figures are side by side where the page is wide enough.
Drawing: TypeAlias = "mpl_figure.Figure | list[mpl_figure.Figure] | Table | str"
