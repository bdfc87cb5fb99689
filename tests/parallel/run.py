"""Runs programs for several devices in this process: `python -m tests.parallel.run LIBRARY DEVICES FILE`.

The names of the programs come from standard input, one a line. FILE gets a pickled dict: name -> the fields of an
`Outcome`.
"""

from __future__ import annotations

import importlib
import os
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from tests.quick_compiling import flags


class Outcome(NamedTuple):
    """The leaves of a result, as (type, value on the host, index of each device's part), or the error."""

    leaves: list[tuple[str, Any, Any]]
    error: str = ""                         # the built-in class of the error
    message: str = ""


def run(program: Any, library: Any, devices: int) -> Outcome:
    from tests.compare import builtin_class
    try:
        result = program(library, devices)
        return Outcome([described(leaf) for leaf in library.tree.leaves(result)])
    except Exception as error:
        return Outcome([], builtin_class(error).__name__, f"{type(error).__name__}: {error}")


def described(leaf: Any) -> tuple[str, Any, Any]:
    from tests.compare import is_inexact, type_text
    if not hasattr(leaf, "dtype") and not isinstance(leaf, (bool, int, float, complex)):
        return "", repr(leaf).replace("xjax", "jax"), None
    parts = None
    if hasattr(leaf, "sharding"):
        parts = {d.id: tuple(s.indices(n)[:2] for s, n in zip(index, leaf.shape, strict=True))
                 for d, index in leaf.sharding.devices_indices_map(leaf.shape).items()}
    value = importlib.import_module("numpy").asarray(leaf)
    return type_text(leaf), value.astype(float) if is_inexact(leaf) and value.dtype.name == "bfloat16" else value, parts


def main(library: str, devices: int, path: str) -> None:
    os.environ["XLA_FLAGS"] = flags(devices)
    from tests.parallel.programs import PROGRAMS
    warnings.simplefilter("ignore")
    jax = importlib.import_module(library)
    names = sys.stdin.read().splitlines()
    Path(path).write_bytes(pickle.dumps({name: tuple(run(PROGRAMS[name], jax, devices)) for name in names}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
