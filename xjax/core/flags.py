"""Selection of list items by one flag for each item: has a tangent, is linear, is mapped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xjax.core.types import Zero

Flags = tuple[bool, ...]


def flagged(items: Iterable[Any], flags: Iterable[bool]) -> list[Any]:
    """The items whose flag is set."""
    return [x for x, flag in zip(items, flags, strict=True) if flag]


def unflagged(items: Iterable[Any], flags: Iterable[bool]) -> list[Any]:
    """The items whose flag is not set."""
    return [x for x, flag in zip(items, flags, strict=True) if not flag]


def merge(flags: Iterable[bool], on_true: Iterable[Any], on_false: Iterable[Any]) -> list[Any]:
    """Inverse of (`flagged`, `unflagged`)."""
    yes, no = iter(on_true), iter(on_false)
    return [next(yes) if flag else next(no) for flag in flags]


def nonzero_flags(tangents: Iterable[Any]) -> Flags:
    """For each tangent or cotangent, whether it is not a symbolic zero."""
    return tuple(type(t) is not Zero for t in tangents)
