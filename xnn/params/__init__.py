"""Working on parameters: trees of arrays with readable paths.

Parameters are any pytree of arrays. A path is text: dict keys, sequence indices and field names joined with "/", such
as "encoder/0/w"; the path of a tree that is a single leaf is "". A pattern selects leaves:

- a path in which `*`, `?` and `[...]` match within one part and the part `**` matches any number of parts:
  "encoder/**/w", "**/b"; a path always matches itself, and "**" is all leaves;
- a function ``(path, leaf) -> bool``;
- a list of patterns: the leaves that match any of them (`[]`: none).

A pattern that matches no leaf is an error, since a misspelt one would otherwise do nothing silently; only "**" and
`[]` may match none. Patterns read paths (a function may also read the leaf): everything here works under `jit`, `grad`
and `vmap`, and where only shapes and dtypes are needed also on trees of `ShapeDtypeStruct`.
"""

from xnn.params.adapters import adapted, low_rank
from xnn.params.merging import Report, merge
from xnn.params.patterns import Pattern, count, labels, mask, paths, select, size_in_bytes
from xnn.params.values import cast, ema, freeze, reinitialize, update
from xnn.params.versions import upgrade, versions

__all__ = ["Pattern", "Report", "adapted", "cast", "count", "ema", "freeze", "labels", "low_rank", "mask", "merge",
           "paths", "reinitialize", "select", "size_in_bytes", "update", "upgrade", "versions"]
