"""Kinds of memory that a device can address: its own ("device"), and the host's ("pinned_host", "unpinned_host").

A sharding names one for its arrays, the devices' default without. An array stays in the memory it was put in; programs
compute in the default one, so that arguments elsewhere are copied there for each launch, and results lie there unless
`out_shardings` name another kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xjax.core.errors import bad

# Of all platforms: what may be named where no device is known.
KINDS = ("device", "pinned_host", "unpinned_host")


def other_memory(where: str, kind: Any, devices: Sequence[Any] | None) -> str | None:
    """The kind of memory that a user named; None if it is the default of the devices, or nothing was named.

    Args: devices: None for a sharding that has none.
    Raises: ValueError for a kind that the devices do not have.
    """
    if kind is None:
        return None
    known = KINDS if devices is None else [memory.kind for memory in devices[0].addressable_memories()]
    if kind not in known:
        raise bad(where, "no such kind of memory", {"memory_kind": repr(kind), "kinds": ", ".join(known)},
                  f"name one of these, such as memory_kind={known[0]!r}.", exc=ValueError)
    return None if kind == default_kind(devices) else kind


def default_kind(devices: Sequence[Any] | None) -> str | None:
    """The kind of memory of arrays for which none was named; None without devices."""
    return devices[0].default_memory().kind if devices else None
