"""Counts the results of a table that have a larger bound of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tests.accuracy.row import Bound

SHARE = 0.05                            # largest share of the results of a table


class _ScalarRow(Protocol):
    """A row of any of the tables."""

    @property
    def kinds(self) -> Sequence[str]: ...
    @property
    def dtypes(self) -> Sequence[str]: ...
    @property
    def bounds(self) -> Mapping[str, Bound]: ...


class Tally(NamedTuple):
    """The compared results of a table, and the results with a bound of their own, each as "function kind dtype"."""

    compared: list[str]
    own: list[str]


def tally(rows: Iterable[_ScalarRow]) -> Tally:
    """Count one result for each function, each kind (its value, each slope, each second derivative) and each dtype.

    A bound without a dtype counts for all dtypes of its row.
    """
    compared, own = [], []
    for row in rows:
        for kind in row.kinds:
            for dtype in row.dtypes:
                compared.append(f"{row} {kind} {dtype}")
                if f"{kind} {dtype}" in row.bounds or kind in row.bounds:
                    own.append(compared[-1])
    return Tally(compared, own)


def assert_few_own_bounds(rows: Sequence[_ScalarRow]) -> None:
    """At most `SHARE` of the results of a table have bounds of their own; each has a cause and an existing kind."""
    compared, own = tally(rows)
    assert len(own) <= SHARE * len(compared), (
        f"{len(own)} of {len(compared)} results ({len(own) / len(compared):.1%}) have a bound of their own, "
        f"more than {SHARE:.0%}: {own}")
    for row in rows:
        kinds = {*row.kinds, *(f"{kind} {dtype}" for kind in row.kinds for dtype in row.dtypes)}
        assert row.bounds.keys() <= kinds, f"{row}: bounds of no result: {row.bounds.keys() - kinds}"
        assert all(bound.cause for bound in row.bounds.values()), f"{row}: a bound without its cause"
