"""The table of values: the rows of all modules, and the functions that other tests look at."""

from __future__ import annotations

from tests.values import numpy_elementwise
from tests.values.row import Row

ROWS: list[Row] = [*numpy_elementwise.ROWS]

# Functions without values of their own to compare: transformations, the state of the process, files, printing.
# Where they are tested -> their names.
_ELSEWHERE: dict[str, str] = {
}
ELSEWHERE = {name for names in _ELSEWHERE.values() for name in names.split()}
