"""Kinds of memory that a device can address: its own ("device"), and the host's ("pinned_host", "unpinned_host").

A sharding names the kind for its arrays; without one, it is the default of the devices. An array remains in the memory
where it was placed. Programs compute in the default memory: arguments in other memory are copied there for each launch,
and results are there unless `out_shardings` name another kind. Inside a program for GPUs, `in_memory` moves a value; on
CPUs all kinds are the same memory.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Stored, Value

# The kinds of all platforms: these names are valid where no device is known.
KINDS = ("device", "pinned_host", "unpinned_host")
_OF_PROGRAMS = "device"                 # where GPUs compute


class Space(enum.Enum):
    """Names of memory for use without a sharding: `device_put(x, Space.Host)` inside a program."""

    Device = enum.auto()
    Host = enum.auto()
    Any = enum.auto()

    def __repr__(self) -> str:
        return f"MemorySpace.{self.name}"

    __str__ = __repr__

    @property
    def other_memory(self) -> str | None:
        """The kind of memory; None for the memory of the device."""
        return "pinned_host" if self is Space.Host else None


def other_memory(caller: str, kind: str | None, devices: Sequence[Any] | None) -> str | None:
    """The kind of memory that the user named; None if it is the default of the devices, or no kind was named.

    Args: devices: the devices of the sharding; None for a sharding without devices.
    Raises: ValueError for a kind that the devices do not have.
    """
    if kind is None:
        return None
    known = KINDS if devices is None else [memory.kind for memory in devices[0].addressable_memories()]
    if kind not in known:
        raise bad(caller, "no such kind of memory", {"memory_kind": repr(kind), "kinds": ", ".join(known)},
                  f"use one of these kinds, such as memory_kind={known[0]!r}.", exc=ValueError)
    return None if kind == default_kind(devices) else kind


def default_kind(devices: Sequence[Any] | None) -> str | None:
    """The kind of memory of arrays for which no kind was named; None without devices."""
    return devices[0].default_memory().kind if devices else None


def in_memory(b: Builder, x: Value, kind: str | None) -> Value:
    """A value of a program, moved to a kind of memory; None: the memory in which the program computes."""
    if b.module.platform == "cpu" or (kind in (None, _OF_PROGRAMS) and not b.module.uses_other_memory):
        return x
    if kind in (None, _OF_PROGRAMS):
        return annotated(b, x, _OF_PROGRAMS)
    b.module.uses_other_memory = True
    return Stored(annotated(b, x, kind).name, x.aval, kind)


def annotated(b: Builder, x: Value, kind: str) -> Value:
    """The value, moved by a custom call to this kind of memory."""
    return b.op(f"stablehlo.custom_call @annotate_device_placement({x}) {{has_side_effect = true, "
                f'mhlo.frontend_attributes = {{_xla_buffer_placement = "{kind}"}}}} : ({x.type}) -> {x.type}', x.aval)
