"""Facts of a summary, which a run prints before it trains."""

from __future__ import annotations

from collections.abc import Mapping

from recipes.names import printable

MOST_LINES = 40                                               # of one fact


def by_kind(kinds: Mapping[str, str]) -> str:
    """The names of columns, a line for each kind: ``numbers: size, age``."""
    plural = {"number": "numbers", "category": "categories", "date": "dates"}
    names = {kind: [name for name, each in kinds.items() if each == kind] for kind in plural}
    return "\n".join(f"{plural[kind]}: {', '.join(names[kind])}" for kind in plural if names[kind])


def listed(fact: str, reasons: Mapping[str, str]) -> dict[str, str]:
    """A fact of a summary with a line for each name: ``{"left out": "a: why\\nb: why"}``; {} without names."""
    lines = [f"{printable(name)}: {why}" for name, why in reasons.items()]
    more = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return {fact: "\n".join(lines[:MOST_LINES] + more)} if lines else {}
