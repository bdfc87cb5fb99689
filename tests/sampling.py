"""Long tables of tests: all rows run in the slow set, some also in the fast one, which has a time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def one_in(every: int, rows: Iterable[Any], name: Callable[[Any], str] | None = None) -> list[Any]:
    """The rows of a `parametrize` with one argument; each but the first of `every` is marked slow.

    Args: name: the id of a row, if pytest's own will not do.
    """
    return [pytest.param(row, id=name and name(row), marks=[pytest.mark.slow] if i % every else [])
            for i, row in enumerate(rows)]
