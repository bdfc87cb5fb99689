"""Rows of calls, (function name, arguments, keywords), made in both libraries and compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import xjax
from tests.compare import Outcome, assert_same_outcome, outcome
from tests.numpy.rows import Row
from tests.oracle import real_jax
from tests.values.row import find


def check_calls(rows: Iterable[Row], name: str, module: str = "numpy", other_class: bool = False) -> None:
    """Every row of a function of `module` has the outcome that it has in JAX: a value, or an error of its class.

    Args: other_class: the class of the error differs on purpose.
    """
    for row_name, args, keywords in rows:
        if row_name != name:
            continue
        what = f"{name} of {[getattr(x, 'dtype', x) for x in args]}, {keywords}"
        ours, theirs = (_call(library, f"{module}.{name}", args, keywords) for library in (xjax, real_jax()))
        if not (other_class and ours.error and theirs.error):
            assert_same_outcome(ours, theirs, what=what)


def _call(library: Any, name: str, args: tuple, keywords: dict) -> Outcome:
    return outcome(lambda: find(library, name)(*to_arrays(library.numpy, list(args)),
                                               **{k: to_arrays(library.numpy, v) for k, v in keywords.items()}))


def to_arrays(module: Any, x: Any) -> Any:
    """Arguments with NumPy arrays replaced by arrays of the library."""
    if isinstance(x, np.ndarray):
        return module.asarray(x)
    if isinstance(x, list) and any(isinstance(y, (np.ndarray, list)) for y in x):
        return [to_arrays(module, y) for y in x]
    return x
