"""Hooks of other modules in transfers of values: a transfer guard, and moves between processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from xjax.runtime.placement.sharding import Sharding

if TYPE_CHECKING:
    from xjax.runtime.arrays.array import Array

TO_DEVICE, TO_HOST, BETWEEN = "host-to-device", "device-to-host", "device-to-device"


class Guard(Protocol):
    """Checks each value before it moves between Python and devices; may raise."""

    def check(self, direction: str, x: object) -> None: ...

    def explicitly(self, move: Callable, *args: object) -> Any:
        """`move(*args)`, an explicitly requested transfer."""


guard: Guard | None = None


def guard_with(watcher: Guard) -> None:
    """From now on, `watcher` checks each transfer."""
    global guard
    guard = watcher


def check_move(direction: str, x: object) -> None:
    """Check a transfer with the guard, if there is one; called before the transfer."""
    if guard is not None:
        guard.check(direction, x)


class BetweenProcesses(NamedTuple):
    """Functions for values that span processes; see `xjax.runtime.reshard`.

    Attributes:
      reshard: (array, sharding) -> the same array with that sharding.
      check: (value, sharding): raises if `device_put` cannot put it there, or processes pass different values.
    """

    reshard: Callable[[Array, Sharding], Array]
    check: Callable[[Any, Sharding], None]


between_processes: Any = None


def move_between_processes_with(functions: BetweenProcesses) -> None:
    """From now on, these functions move values that span processes: they launch programs, which this module cannot."""
    global between_processes
    between_processes = functions
