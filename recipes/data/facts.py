"""Facts about data for people: those of a summary, which a run prints before it trains, and tables of a preview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from recipes.names import printable

MOST_LINES = 40                                               # of one fact
MOST_NAMES = 100                                              # of columns of one kind


class Share(float):
    """A share of a whole, which is shown in percent."""


class Table(NamedTuple):
    """A table for a terminal or a page.

    Attributes:
      headings: of the columns.
      rows: cells. A column of numbers is at the right side; texts may have any characters.
      note: a sentence above the table, or "".
      instead_of: facts of the summary that a preview with this table does not repeat.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str | float]]
    note: str = ""
    instead_of: Sequence[str] = ()


def ranges(values: Mapping[str, np.ndarray]) -> Table:
    """The least, the middle and the greatest of some numbers.  Args: values: name of a line, such as a split -> [n]."""
    rows = [(name, len(each), each.min().item(), float(np.median(each)), float(each.mean()), each.max().item())
            for name, each in values.items() if len(each)]
    return Table(("", "count", "least", "median", "mean", "greatest"), rows)


def shortened(text: str, most: int) -> str:
    """The beginning of a text, which ends with … if the text is longer."""
    return text if len(text) <= most else f"{text[:most - 1]}…"


def by_kind(kinds: Mapping[str, str]) -> str:
    """The names of columns by kind, on one line, which a search in a log can rely on.

    >>> by_kind({"size": "number", "born": "date", "age": "number"})
    'numbers: size, age; dates: born'
    """
    plural = {"number": "numbers", "category": "categories", "date": "dates"}
    names = {kind: [name for name, each in kinds.items() if each == kind] for kind in plural}
    return "; ".join(f"{plural[kind]}: {_some(names[kind])}" for kind in plural if names[kind])


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def listed(fact: str, reasons: Mapping[str, str]) -> dict[str, str]:
    """A fact of a summary with a line for each name: ``{"left out": "a: why\\nb: why"}``; {} without names."""
    lines = [f"{printable(name)}: {why}" for name, why in reasons.items()]
    more = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return {fact: "\n".join(lines[:MOST_LINES] + more)} if lines else {}
