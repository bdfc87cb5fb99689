"""`once`: objects of which a process needs exactly one, made when they are first asked for, by any thread.

`functools.lru_cache` calls a function again for each thread that asks before the first call has returned. That is a
waste for values, and wrong for what starts a service, registers something natively, or is compared by identity: a
client of XLA, the bound on its programs in flight, MLIR's dialects, the sharding object of a device.
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
    """Decorator: the result for each combination of (hashable, positional) arguments is made once, under a lock.

    Other threads wait for it. Signals wait too: what native code has registered only in part cannot be made again. A
    call that raises stores nothing, and the next one tries again.
    """

    def __init__(self, make: Callable[..., Result]):
        functools.update_wrapper(self, make)
        self._make = make
        self._made: dict[tuple[Hashable, ...], Result] = {}
        self.lock = threading.RLock()
        _all.add(self)

    def __call__(self, *key: Hashable) -> Result:
        found = self._made.get(key, _ABSENT)
        return self._make_now(key) if found is _ABSENT else found

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
        """Forget the results."""
        with self.lock:
            self._made.clear()


def _renew_locks() -> None:
    """In a forked process: the thread that held a lock is not there to release it."""
    for made in list(_all):
        made.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
