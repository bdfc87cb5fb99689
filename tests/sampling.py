"""The rows of a long table that the fast set runs; the rest are marked slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def one_in(every: int, rows: Iterable[Any], name: Callable[[Any], str] | None = None) -> list[Any]:
    """The rows of a `parametrize` with one argument; the first and each `every`-th after it are fast.

    Args: name: the id of a row, if pytest's own is unsuitable.
    """
    return [pytest.param(row, id=name and name(row), marks=[pytest.mark.slow] if i % every else [])
            for i, row in enumerate(rows)]


def each_once(rows: Iterable[Any], columns: Iterable[Any]) -> list[Any]:
    """All pairs, for a `parametrize` with two arguments; the fast ones together contain each row and each column."""
    rows, columns = list(rows), list(columns)
    every = min(len(rows), len(columns))
    slow = lambda i, k: [pytest.mark.slow] if (i - k) % every else []
    return [pytest.param(row, column, id=f"{_id(row, i)}-{_id(column, k)}", marks=slow(i, k))
            for i, row in enumerate(rows) for k, column in enumerate(columns)]


def _id(x: Any, place: int) -> str:
    """The name of a type; else the text of the value if it is short, else its position."""
    text = getattr(x, "__name__", None) or str(x)
    return text if len(text) <= 40 else str(place)
