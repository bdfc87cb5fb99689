"""`once`: singletons of the process, created at the first use in any thread.

`functools.lru_cache` calls a function again in each thread that needs the result before the first call has returned.
This is a waste for plain values. It is an error for a function that starts a service, registers native code, or returns
an object that is compared by identity: a client of XLA, the bound on its programs in flight, MLIR's dialects, the
sharding object of a device.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from xjax.core.interrupts import deferred

Result = TypeVar("Result")
_ABSENT: Any = object()
_all: weakref.WeakSet[once] = weakref.WeakSet()


class once(Generic[Result]):
    """Decorator: the result for each combination of (hashable, positional) arguments is computed once, under a lock.

    Other threads wait for it. Signals are deferred too, because an interrupted native registration cannot be repeated.
    A call that raises stores nothing; the next call tries again.
    """

    def __init__(self, make: Callable[..., Result]):
        functools.update_wrapper(self, make)
        self._make = make
        self._made: dict[tuple[Hashable, ...], Result] = {}
        self.lock = threading.RLock()
        _all.add(self)

    def __call__(self, *key: Hashable) -> Result:
        result: Any = self._made.get(key, _ABSENT)
        return self._make_now(key) if result is _ABSENT else result

    def _make_now(self, key: tuple[Hashable, ...]) -> Result:
        with self.lock:
            if key not in self._made:
                with deferred(f"`{self._make.__name__.strip('_')}` of {self._make.__module__} ran for the first time"):
                    self._made[key] = self._make(*key)
            return self._made[key]

    def made(self) -> dict[tuple[Hashable, ...], Result]:
        """The results so far, by their arguments."""
        return dict(self._made)

    def cache_clear(self) -> None:
        """Remove the stored results."""
        with self.lock:
            self._made.clear()


def _renew_locks() -> None:
    """Replace the locks in a forked process: the thread that held a lock does not exist there."""
    for made in list(_all):
        made.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
