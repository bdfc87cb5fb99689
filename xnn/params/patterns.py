"""Paths of leaves, patterns that select them, and functions that do not read values: mask, labels, count."""

import difflib
import fnmatch
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import bad, did_you_mean
from xjax.typing import PyTree
from xnn.layer import Params

Pattern = str | Callable[[str, Any], bool] | Sequence[Any]


def paths(params: Params) -> dict[str, Any]:
    """The leaves by path, in the order of `tree_leaves` (dict keys sorted).

    Raises: ValueError if two leaves have the same path, such as {"a/b": x, "a": {"b": y}}.

    >>> list(paths({"head": {"w": jnp.ones((3, 2)), "b": jnp.zeros(2)}, "body": (jnp.ones(3),)}))
    ['body/0', 'head/b', 'head/w']
    """
    return by_path("params.paths", params)


def select(params: Params, pattern: Pattern) -> dict[str, Any]:
    """The leaves that match a pattern, by path, in the order of `paths`.

    Raises: ValueError if the pattern matches no leaf, with the closest path; TypeError if it is not a pattern.

    >>> select({"body": {"w": 1, "b": 2}, "head": {"w": 3, "b": 4}}, "**/b")
    {'body/b': 2, 'head/b': 4}
    """
    return selected("params.select", params, pattern)


def mask(params: Params, pattern: Pattern) -> Params:
    """The same tree with True at the leaves that match and False elsewhere (Python bools).

    It is an argument of `optim.masked`, and the `mask` of `optim.adamw` (weight decay on matrices only).
    Raises: the errors of `select`.

    >>> mask({"w": jnp.ones((2, 2)), "b": jnp.ones(2)}, "w")
    {'b': False, 'w': True}
    """
    hits = selected("params.mask", params, pattern)
    return with_leaves(params, [path in hits for path in paths(params)])


def labels(params: Params, patterns: Mapping[Hashable, Pattern], default: Hashable = None) -> Params:
    """The same tree with one label at each leaf, for `optim.multi_transform`.

    Args:
      patterns: label -> pattern. A leaf that matches several patterns gets the first of their labels.
      default: label of the leaves that match no pattern; None: a leaf without a match is an error.
    Raises: ValueError if a leaf has no label; the errors of `select` for each pattern.

    >>> labels({"body": {"w": 1, "b": 2}, "head": {"w": 3}}, {"slow": "body/**"}, "fast")
    {'body': {'b': 'slow', 'w': 'slow'}, 'head': {'w': 'fast'}}
    """
    label_of = dict.fromkeys(by_path("params.labels", params), default)
    for label, pattern in reversed(patterns.items()):
        label_of |= dict.fromkeys(selected("params.labels", params, pattern), label)
    without = [path for path, label in label_of.items() if label is None]
    if without:
        raise bad("params.labels", f"{len(without)} leaves match no pattern", {"paths": listing(without)},
                  'pass default="...", or a last pattern "**".', ValueError)
    return with_leaves(params, label_of.values())


def count(params: Params, pattern: Pattern = "**") -> int:
    """Number of scalars in the leaves that match.  Raises: the errors of `select`.

    >>> count({"w": jnp.ones((3, 2)), "b": jnp.ones(2)}), count({"w": jnp.ones((3, 2)), "b": jnp.ones(2)}, "b")
    (8, 2)
    """
    return sum(math.prod(shape_of(leaf)) for leaf in selected("params.count", params, pattern).values())


def size_in_bytes(params: Params, pattern: Pattern = "**") -> int:
    """Size in bytes of the leaves that match, without padding or copies on devices.  Raises: the errors of `select`.

    >>> size_in_bytes({"w": jnp.ones((3, 2)), "b": jnp.ones(2, jnp.bfloat16)})
    28
    """
    leaves = selected("params.size_in_bytes", params, pattern).values()
    return sum(math.prod(shape_of(leaf)) * dtype_of(leaf).itemsize for leaf in leaves)


def by_path(caller: str, params: Params) -> dict[str, Any]:
    """The leaves by path; `caller` is the public function named in errors, here and below."""
    pairs, _ = tree_util.tree_flatten_with_path(params)
    leaves: dict[str, Any] = {}
    for keys, leaf in pairs:
        path = tree_util.keystr(keys, simple=True, separator="/")
        if path in leaves:
            raise bad(caller, "two leaves have the same path", {"path": repr(path)},
                      'rename a dict key: a key with "/" is read as several parts.', ValueError)
        leaves[path] = leaf
    return leaves


def with_leaves(params: Params, leaves: Iterable[PyTree]) -> Params:
    """A tree of the same structure with these leaves, in the order of `paths`."""
    return tree_util.tree_structure(params).unflatten(leaves)


def selected(caller: str, params: Params, pattern: Pattern) -> dict[str, Any]:
    """`select` with errors that name the public function `caller`."""
    leaves = by_path(caller, params)
    hits = _hits(caller, leaves, pattern)
    return {path: leaf for path, leaf in leaves.items() if path in hits}


def _hits(caller: str, leaves: Mapping[str, Any], pattern: Pattern) -> set[str]:
    if isinstance(pattern, tuple | list):
        return {path for each in pattern for path in _hits(caller, leaves, each)}
    if isinstance(pattern, str):
        hits = {path for path in leaves if _matches(pattern, path)}
    elif callable(pattern):
        hits = {path for path, leaf in leaves.items() if pattern(path, leaf)}
    else:
        raise bad(caller, "the argument is not a pattern", {"pattern": repr(pattern)},
                  'pass a path such as "encoder/**/w", a list of patterns, or a function (path, leaf) -> bool.')
    if not hits and pattern != "**":
        hint = _suggestion(pattern, leaves) if isinstance(pattern, str) else None
        raise bad(caller, "the pattern matches no leaf", {"pattern": repr(pattern), "paths": listing(leaves)},
                  hint or "pass a pattern that matches one of the paths, or [] for no leaf.", ValueError)
    return hits


def _suggestion(pattern: str, paths: Collection[str]) -> str | None:
    known = {part for path in paths for part in parts_of(path)}
    respelt = "/".join(next(iter(difflib.get_close_matches(part, known, 1)), part) for part in parts_of(pattern))
    for near in (f"{pattern}/**", f"**/{pattern}", respelt, f"{respelt}/**"):
        if any(_matches(near, path) for path in paths):
            return f"did you mean {near!r}?"
    return did_you_mean(pattern, paths)


def _matches(pattern: str, path: str) -> bool:
    return pattern == path or _match_parts(parts_of(pattern), parts_of(path))


def _match_parts(pattern: list[str], parts: list[str]) -> bool:
    if not pattern:
        return not parts
    head, *rest = pattern
    if head == "**":
        return any(_match_parts(rest, parts[i:]) for i in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], head) and _match_parts(rest, parts[1:])


def parts_of(path: str) -> list[str]:
    """The parts of a path or pattern; an empty list for the path ""."""
    return path.split("/") if path else []


def listing(known: Collection[str]) -> str:
    """The first eight strings, joined for a message."""
    shown = list(known)[:8]
    return ", ".join(shown) + (f", ... ({len(known)} in all)" if len(known) > 8 else "")


def shape_of(leaf: Any) -> tuple[int, ...]:
    """Shape of an array, a `ShapeDtypeStruct` or a Python number."""
    return tuple(leaf.shape) if hasattr(leaf, "shape") else np.shape(leaf)


def dtype_of(leaf: Any) -> Any:
    """Dtype of an array, a `ShapeDtypeStruct` or a Python number."""
    return leaf.dtype if hasattr(leaf, "dtype") else jnp.result_type(leaf)
