"""Functions of parameters: pytrees of arrays whose leaves have readable paths.

Parameters are any pytree of arrays. A path is a string: dict keys, sequence indices and field names joined with "/",
such as "encoder/0/w". The path of a tree that is a single leaf is "". A pattern selects leaves:

- a path in which `*`, `?` and `[...]` match within one part and the part `**` matches any number of parts:
  "encoder/**/w", "**/b"; a path always matches itself, and "**" matches all leaves;
- a function ``(path, leaf) -> bool``;
- a list of patterns: the leaves that match any of them (`[]`: no leaf).

A pattern that matches no leaf is an error, because a misspelt pattern would otherwise be silently ignored; only "**"
and `[]` may match no leaf. Patterns depend on paths only (except functions that read the leaf), so all functions here
work under `jit`, `grad` and `vmap`. Functions that need only shapes and dtypes also take trees of `ShapeDtypeStruct`.
"""

from xnn.params.adapters import adapted, low_rank
from xnn.params.merging import Report, merge
from xnn.params.patterns import Pattern, count, labels, mask, paths, select, size_in_bytes
from xnn.params.values import cast, ema, freeze, reinitialize, update
from xnn.params.versions import upgrade, versions
from xnn.public import public_names

__all__ = ["Pattern", "Report", "adapted", "cast", "count", "ema", "freeze", "labels", "low_rank", "mask", "merge",
           "paths", "reinitialize", "select", "size_in_bytes", "update", "upgrade", "versions"]

public_names(__name__)
