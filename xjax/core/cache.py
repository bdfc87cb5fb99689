"""`Cache`: a cache of traced and compiled programs; one bound on their size holds for all caches of the process.

These caches belong to functions and to the process. Results derived from one program are cached on that program
(`program_cache`) and are freed with it. Each cache has two generations of values. A value that is used moves from the
old generation to the young one. When the programs that entered young generations, newly compiled or moved, add up to
half of the bound, every cache drops its old generation, and its young generation becomes the old one. So all programs
together never exceed the bound, and a program that was used since the last such step is kept. A hit is one dictionary
lookup, without a lock: hot paths use ``cache.young.get(key)``, and call `get` if the result is None.

It is safe to drop a program that is running: XLA keeps it until it has finished.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from xjax.core.config import config
from xjax.core.errors import advise, bad

Value = TypeVar("Value")
_FORGOTTEN_KEYS = 10_000                                    # maximum number of evicted keys remembered per cache


class Cache(Generic[Value]):
    """A cache from hashable keys to values, with two generations.

    A value may have the attribute `weight`, its size in bytes; other values count as 0. The creator of such a value
    calls `count_compiled` once, even if the value enters several caches.
    """

    __slots__ = ("what", "young", "_old", "_last", "_forgotten", "__weakref__")

    def __init__(self, what: str = "") -> None:
        """
        Args:
          what: the owner of the programs, for the warning about a program that was dropped too early; '': no warning.
        """
        self.what = what
        self.young: dict[Hashable, Value] = {}
        self._old: dict[Hashable, Value] = {}
        self._last: tuple[list, Value | None] = _NONE
        self._forgotten: set[int] = set()
        _generations.caches.add(self)

    def get(self, key: Hashable) -> Value | None:
        """The value of a key, or None.  Raises: TypeError if the key is not hashable."""
        value = self.young.get(key)
        if value is None and (value := self._old.pop(key, None)) is not None:
            self[key] = value
            _generations.enter(_weight(value))
        return value

    def of_parts(self, parts: list[Hashable]) -> Value | None:
        """``young.get(tuple(parts))`` for long keys: a comparison with the last key is faster than hashing.

        The caller must not change the list afterwards.
        """
        last, value = self._last
        if parts == last:
            return value
        value = self.young.get(tuple(parts))
        if value is not None:
            self._last = parts, value
        return value

    def __setitem__(self, key: Hashable, value: Value) -> None:
        self.young[key] = value
        if self._forgotten and hash(key) in self._forgotten:
            self._forgotten.discard(hash(key))
            _warn_of_return(self.what)

    def __iter__(self) -> Iterator[Hashable]:
        """The keys, in arbitrary order."""
        return iter([*self.young, *self._old])

    def values(self) -> list[Value]:
        return [*self.young.values(), *self._old.values()]

    def clear(self) -> None:
        """Remove all values, and the record of dropped keys."""
        self.young.clear()
        self._old.clear()
        self._last = _NONE
        self._forgotten.clear()

    def drop_old(self) -> None:
        """Drop the old generation; the young generation becomes the old one."""
        dropped, self._old = self._old, dict(self.young)
        self.young.clear()
        self._last = _NONE
        if self.what and len(self._forgotten) < _FORGOTTEN_KEYS:
            self._forgotten.update(map(hash, dropped))


class RecentCache(Cache[Value]):
    """A cache of at most `most` values; it keeps at least the `most // 2` values that were added or used last."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Hashable, value: Value) -> None:
        if 2 * len(self.young) >= self._most:
            self.drop_old()
        super().__setitem__(key, value)


class _Generations:
    """All caches, and the bytes that entered them since old generations were last dropped."""

    def __init__(self) -> None:
        self.caches: weakref.WeakSet[Cache] = weakref.WeakSet()
        self._entered = 0
        self._lock = threading.Lock()

    def enter(self, weight: int) -> None:
        """Count bytes that enter young generations; drop old generations before these exceed half of the bound."""
        with self._lock:
            self._entered += weight
            if not 0 <= config.compiled_memory_limit < 2 * self._entered:
                return
            self._entered = weight
        for cache in self.all():
            cache.drop_old()
        gc.collect()                                        # programs and the values cached on them are cycles

    def all(self) -> list[Cache]:
        while True:
            try:
                return list(self.caches)
            except RuntimeError:                            # another thread created a cache meanwhile
                continue


_NONE: tuple[list, None] = ([], None)
_generations = _Generations()
_warned: set[str] = set()


def _weight(value: object) -> int:
    return getattr(value, "weight", 0)


def _warn_of_return(what: str) -> None:
    if what not in _warned:
        _warned.add(what)
        advise(str(bad(what, "compiled again, because it was dropped to keep compiled programs within their bound",
                       {"jax_compiled_memory_limit": config.compiled_memory_limit},
                       "raise the bound: xjax.config.update('jax_compiled_memory_limit', bytes).")))


count_compiled = _generations.enter


def forget_warnings() -> None:
    """Warn again about owners of programs that were named before."""
    _warned.clear()


def held() -> dict[str, tuple[int, int]]:
    """The contents of the caches: owner of the programs -> (number of values, bytes)."""
    totals: dict[str, tuple[int, int]] = {}
    for cache in _generations.all():
        weights = [_weight(value) for value in cache.values()]
        if cache.what and weights:
            count, size = totals.get(cache.what, (0, 0))
            totals[cache.what] = count + len(weights), size + sum(weights)
    return totals


def clear() -> None:
    """Empty all caches."""
    for cache in _generations.all():
        cache.clear()
