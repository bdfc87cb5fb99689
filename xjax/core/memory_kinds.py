"""Kinds of memory that a device can address: its own ("device"), and the host's ("pinned_host", "unpinned_host").

A sharding names one for its arrays, the devices' default without. An array stays in the memory it was put in; programs
compute in the default one, so that arguments elsewhere are copied there for each launch, and results are there unless
`out_shardings` name another kind. Inside of a program for GPUs, `in_memory` moves a value; on CPUs all kinds are one.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Stored, Value

# Of all platforms: what may be named where no device is known.
KINDS = ("device", "pinned_host", "unpinned_host")
_OF_PROGRAMS = "device"                 # where GPUs compute


class Space(enum.Enum):
    """What a place is called where no sharding is known: `device_put(x, Space.Host)` inside of a program."""

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"

    __str__ = __repr__

    @property
    def other_memory(self) -> str | None:
        """The kind of memory, None for that of the device."""
        return "pinned_host" if self is Space.Host else None


def other_memory(caller: str, kind: Any, devices: Sequence[Any] | None) -> str | None:
    """The kind of memory that a user named; None if it is the default of the devices, or nothing was named.

    Args: devices: None for a sharding that has none.
    Raises: ValueError for a kind that the devices do not have.
    """
    if kind is None:
        return None
    known = KINDS if devices is None else [memory.kind for memory in devices[0].addressable_memories()]
    if kind not in known:
        raise bad(caller, "no such kind of memory", {"memory_kind": repr(kind), "kinds": ", ".join(known)},
                  f"name one of these, such as memory_kind={known[0]!r}.", exc=ValueError)
    return None if kind == default_kind(devices) else kind


def default_kind(devices: Sequence[Any] | None) -> str | None:
    """The kind of memory of arrays for which none was named; None without devices."""
    return devices[0].default_memory().kind if devices else None


def in_memory(b: Builder, x: Value, kind: str | None) -> Value:
    """A value of a program moved to a kind of memory; None: where the program computes."""
    if b.module.platform == "cpu" or (kind in (None, _OF_PROGRAMS) and not b.module.uses_other_memory):
        return x
    if kind in (None, _OF_PROGRAMS):
        return annotated(b, x, _OF_PROGRAMS)
    b.module.uses_other_memory = True
    return Stored(annotated(b, x, kind).name, x.aval, kind)


def annotated(b: Builder, x: Value, kind: str) -> Value:
    """The text that moves a value."""
    return b.op(f"stablehlo.custom_call @annotate_device_placement({x}) {{has_side_effect = true, "
                f'mhlo.frontend_attributes = {{_xla_buffer_placement = "{kind}"}}}} : ({x.type}) -> {x.type}', x.aval)
