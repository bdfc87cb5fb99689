"""Facts about a table for a preview: the use and the kind of each column, and its first rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from recipes.data import tables
from recipes.data.cells import Column, Kind
from recipes.data.facts import Table, shortened
from recipes.results.numbers import number, quantity

ROWS = 4                                                      # that fit into a terminal of 60 columns
MOST = 40                                                     # characters of a cell


def columns_of(table: tables.Table, kinds: Mapping[str, Kind], uses: Mapping[str, str]) -> Table:
    """The columns.  Args: kinds: name -> kind where it is not the column's own; uses: name -> "feature", "target"."""
    rows = []
    for name in table:
        column, kind = table[name], kinds.get(name, table[name].kind)
        rows.append((name, uses.get(name, "not used"), "other" if column.is_other and name not in kinds else kind,
                     int(column.missing(kind).sum()), _values(column, kind)))
    return Table(("column", "use", "kind", "missing", "values"), rows)


def first_rows(table: tables.Table, kinds: Mapping[str, Kind]) -> Table:
    """The first rows, a line for each column, so that many columns fit; texts are in quotes."""
    count = min(ROWS, table.num_rows)
    rows = [(name, *_cells(table[name], kinds.get(name, table[name].kind), count)) for name in table]
    return Table(("column", *(f"row {i + 1}" for i in range(count))), rows)


def _cells(column: Column, kind: Kind, count: int) -> list[str]:
    texts, missing = column.texts()[:count], column.missing(kind)[:count]
    return ["(missing)" if gap or text is None else repr(shortened(text, MOST)) if kind == "category" else text
            for text, gap in zip(texts, missing, strict=True)]


def _values(column: Column, kind: Kind) -> str:
    """The range of numbers and dates, the most frequent texts of others."""
    if kind == "category":
        texts, ids = column.different()
        counts = np.bincount(ids[ids >= 0], minlength=len(texts))
        most = [shortened(texts[i], 16) for i in np.argsort(-counts, kind="stable")[:3]]
        return f"{number(len(texts))} different: {', '.join(most)}{', …' if len(texts) > 3 else ''}"
    values = column.days() if kind == "date" else column.numbers()
    values = values[np.isfinite(values)]
    if not len(values):
        return "none"
    if kind == "date":
        first, last = (str(np.datetime64(int(np.floor(day)), "D")) for day in (values.min(), values.max()))
        return f"{first} to {last}"
    return f"{quantity(values.min())} to {quantity(values.max())}, mean {quantity(values.mean())}"
