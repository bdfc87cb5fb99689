"""Long tables of tests: all rows run in the slow set, some also in the fast one, which has a time limit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(every: int, rows: Iterable[Any]) -> list[Any]:
    """The rows of a `parametrize` with one argument; each but the first of `every` is marked slow."""
    return [row if i % every == 0 else pytest.param(row, marks=pytest.mark.slow) for i, row in enumerate(rows)]
