"""`merge`: parameters with leaves replaced from a whole or partial checkpoint, and a report of differences."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from xjax.errors import bad, did_you_mean
from xnn.checks import type_text
from xnn.layer import Params
from xnn.params.patterns import by_path, listing, parts_of
from xnn.params.values import fits, updated

Rename = Mapping[str, str] | Callable[[str], str | None] | None


class Report(NamedTuple):
    """Differences between a part and the parameters; ``any(report)`` is False if there are none.

    Attributes:
      missing: paths of the parameters (under the prefix) that are not in the part.
      extra: paths of the part, renamed and prefixed, that are not in the parameters.
      mismatched: path -> the different shapes or dtypes, as text.
    """

    missing: tuple[str, ...]
    extra: tuple[str, ...]
    mismatched: dict[str, str]


def merge(params: Params, part: Params, *, prefix: str = "", rename: Rename = None,
          strict: bool = False) -> tuple[Params, Report]:
    """The parameters with leaves replaced by those of a whole or partial checkpoint, where paths and shapes agree.

    Args:
      part: a tree, or a dict path -> array. Dtypes are converted as by `update`.
      prefix: path in `params` at which the part begins, such as "encoder".
      rename: applied to the paths of the part, before the prefix: a dict of leading paths, {"backbone": "encoder"}
        (the first match is used), or a function ``path -> new path``, which returns None to leave the leaf out.
      strict: raise one error with all differences instead of returning a report.
    Returns: (the new tree, Report). Leaves that are missing or mismatched keep the value of `params`.
    Raises: ValueError if two leaves are renamed to one path, if no path of the part is in `params`, or, if `strict`,
      for all missing, extra and mismatched paths at once.

    >>> weights = {"encoder": {"w": jnp.zeros(2)}, "head": jnp.zeros(3)}
    >>> new, report = merge(weights, {"w": jnp.ones(2), "step": 7}, prefix="encoder")
    >>> new["encoder"], report
    ({'w': Array([1., 1.], dtype=float32)}, Report(missing=(), extra=('encoder/step',), mismatched={}))
    """
    caller = "params.merge"
    old, new = by_path(caller, params), _renamed(caller, part, prefix, rename)
    report = Report(
        missing=tuple(path for path in old if path not in new and _is_under(path, prefix)),
        extra=tuple(path for path in new if path not in old),
        mismatched={path: f"{type_text(leaf)} in params, {type_text(new[path])} in part"
                    for path, leaf in old.items() if path in new and not fits(leaf, new[path])})
    if not strict and new and len(report.extra) == len(new):
        raise bad(caller, "no path of the part is in the parameters", {"part": listing(new), "params": listing(old)},
                  did_you_mean(report.extra[0], old) or "pass prefix= or rename=.", ValueError)
    if strict and any(report):
        lines = [f"{kind:<10}  {path}" for kind in ("missing", "extra") for path in getattr(report, kind)]
        lines += [f"mismatched  {path}  {text}" for path, text in report.mismatched.items()]
        raise bad(caller, "the part does not match the parameters", lines,
                  "pass prefix= or rename= if names differ, or strict=False to take the matching leaves.", ValueError)
    usable = {path: leaf for path, leaf in new.items() if path in old and path not in report.mismatched}
    return updated(caller, params, usable), report


def _renamed(caller: str, part: Params, prefix: str, rename: Rename) -> dict[str, Any]:
    """The leaves of a part by their paths in the parameters."""
    leaves: dict[str, Any] = {}
    for path, leaf in by_path(caller, part).items():
        new = rename(path) if callable(rename) else _with_new_start(path, rename or {})
        if new is None:
            continue
        new = "/".join([*parts_of(prefix), *parts_of(new)])
        if new in leaves:
            raise bad(caller, "two leaves are renamed to one path", {"path": repr(new), "second": repr(path)},
                      "change `rename`; a function can leave a leaf out (return None).", ValueError)
        leaves[new] = leaf
    return leaves


def _with_new_start(path: str, rename: Mapping[str, str]) -> str:
    """The path with its leading parts replaced by the first matching entry of `rename`."""
    for old, new in rename.items():
        if _is_under(path, old):
            return "/".join([*parts_of(new), *parts_of(path)[len(parts_of(old)):]])
    return path


def _is_under(path: str, prefix: str) -> bool:
    return parts_of(path)[:len(parts_of(prefix))] == parts_of(prefix)
