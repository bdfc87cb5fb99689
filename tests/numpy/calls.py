"""Rows of calls, (function name, arguments, keywords), made in both libraries and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
    calls = [row[1:] for row in rows if row[0] == name]
    wants = outcomes_in_jax(
        [lambda args=args, keywords=keywords: _called(real_jax(), f"{module}.{name}", args, keywords)
         for args, keywords in calls])
    for (args, keywords), theirs in zip(calls, wants, strict=True):
        what = f"{name} of {[getattr(x, 'dtype', x) for x in args]}, {keywords}"
        ours = outcome(_called, xjax, f"{module}.{name}", args, keywords)
        if not (other_class and ours.error and theirs.error):
            assert_same_outcome(ours, theirs, what=what)


def outcomes_in_jax(calls: Sequence[Callable[[], Any]]) -> list[Outcome]:
    """What calls of JAX's functions give. Those that give arrays are one program, which compiles sooner than their
    operations; others, and those that raise within it, perhaps for they need values, are made again one by one."""
    jax, staged = real_jax(), []

    def is_staged(found: Outcome) -> bool:
        leaves = jax.tree.leaves(found.value)
        return not found.error and bool(leaves) and all(isinstance(x, jax.core.Tracer) for x in leaves)

    @jax.jit
    def program() -> list[Any]:
        staged[:] = map(outcome, calls)
        return [found.value for found in staged if is_staged(found)]

    values = iter(program())
    return [Outcome(next(values)) if is_staged(found) else outcome(call)
            for found, call in zip(staged, calls, strict=True)]


def _called(library: Any, name: str, args: tuple, keywords: dict) -> Any:
    return find(library, name)(*to_arrays(library.numpy, list(args)),
                               **{k: to_arrays(library.numpy, v) for k, v in keywords.items()})


def to_arrays(module: Any, x: Any) -> Any:
    """Arguments with NumPy arrays replaced by arrays of the library."""
    if isinstance(x, np.ndarray):
        return module.asarray(x)
    if isinstance(x, list) and any(isinstance(y, (np.ndarray, list)) for y in x):
        return [to_arrays(module, y) for y in x]
    return x
