"""`Cache`: what was traced and compiled, remembered within one bound for the whole process.

These caches belong to functions and to the process; what is derived from one program is kept on it (`program_cache`)
and dies with it. Each cache has two generations of values. A value that is used moves from the old one to the young
one. When the programs that came to young generations, compiled or moved, weigh half of the bound, every cache drops
its old generation, and its young one becomes old. So all programs together weigh at most the bound, and a program
that was used since the last such step is kept. A hit is one dictionary lookup, without a lock: hot paths write
``cache.young.get(key)``, and call `get` where that gives None.

To forget a program that runs is safe: XLA holds it until it has ended.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Hashable, Iterator
from typing import Any, Generic, TypeVar

from xjax.core.config import config
from xjax.core.errors import bad, warn

Value = TypeVar("Value")
_FORGOTTEN_KEYS = 10_000                                    # maximum number of evicted keys remembered per cache


class Cache(Generic[Value]):
    """Key -> value.

    A value may have the attribute `weight`, its size in bytes; other values count as 0. The creator of such a value
    calls `count_compiled`, whichever caches it enters.
    """

    __slots__ = ("what", "young", "_old", "_last", "_forgotten", "__weakref__")

    def __init__(self, what: str = "") -> None:
        """Args: what: whose programs these are, for the warning about one that was forgotten too early; '': none."""
        self.what = what
        self.young: dict[Hashable, Value] = {}
        self._old: dict[Hashable, Value] = {}
        self._last: tuple[list, Value | None] = _NONE
        self._forgotten: set[int] = set()
        _generations.caches.add(self)

    def get(self, key: Hashable) -> Value | None:
        """The value of a key, or None.  Raises: TypeError if the key is not hashable."""
        found = self.young.get(key)
        if found is None and (found := self._old.pop(key, None)) is not None:
            self[key] = found
            _generations.enter(_weight(found))
        return found

    def of_parts(self, parts: list[Hashable]) -> Value | None:
        """``young.get(tuple(parts))``, for long keys: comparing parts with the last ones is faster than hashing them.

        The list is not to be changed afterwards.
        """
        last, found = self._last
        if parts == last:
            return found
        found = self.young.get(tuple(parts))
        if found is not None:
            self._last = parts, found
        return found

    def __setitem__(self, key: Hashable, value: Value) -> None:
        self.young[key] = value
        if self._forgotten and hash(key) in self._forgotten:
            self._forgotten.discard(hash(key))
            _warn_of_return(self.what)

    def __iter__(self) -> Iterator[Hashable]:
        """The keys, in no order."""
        return iter([*self.young, *self._old])

    def values(self) -> list[Value]:
        return [*self.young.values(), *self._old.values()]

    def clear(self) -> None:
        """Forget everything, and that it was there."""
        self.young.clear()
        self._old.clear()
        self._last = _NONE
        self._forgotten.clear()

    def drop_old(self) -> None:
        """Forget the old generation; the young one becomes old."""
        gone, self._old = self._old, dict(self.young)
        self.young.clear()
        self._last = _NONE
        if self.what and len(self._forgotten) < _FORGOTTEN_KEYS:
            self._forgotten.update(map(hash, gone))


class RecentCache(Cache[Value]):
    """A cache of at most `most` values: of those that were added or used last, at least half as many."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Hashable, value: Value) -> None:
        if 2 * len(self.young) >= self._most:
            self.drop_old()
        super().__setitem__(key, value)


class _Generations:
    """All caches, and the bytes that came to them since old generations were dropped last."""

    def __init__(self) -> None:
        self.caches: weakref.WeakSet[Cache] = weakref.WeakSet()
        self._entered = 0
        self._lock = threading.Lock()

    def enter(self, weight: int) -> None:
        """Count bytes that come to young generations; old ones are dropped before these exceed half of the bound."""
        with self._lock:
            self._entered += weight
            if not 0 <= config.compiled_memory_limit < 2 * self._entered:
                return
            self._entered = weight
        for cache in self.all():
            cache.drop_old()
        gc.collect()                                        # a program and what is remembered on it hold each other

    def all(self) -> list[Cache]:
        while True:
            try:
                return list(self.caches)
            except RuntimeError:                            # another thread made one meanwhile
                continue


_NONE: tuple[list, None] = ([], None)
_generations = _Generations()
_warned: set[str] = set()


def _weight(value: Any) -> int:
    return getattr(value, "weight", 0)


def _warn_of_return(what: str) -> None:
    if what not in _warned:
        _warned.add(what)
        warn(str(bad(what, "compiled again, since it was forgotten to keep compiled programs within their bound",
                     {"jax_compiled_memory_limit": config.compiled_memory_limit},
                     "raise the bound: xjax.config.update('jax_compiled_memory_limit', bytes).")))


count_compiled = _generations.enter


def forget_warnings() -> None:
    """Warn again of what was named before."""
    _warned.clear()


def held() -> dict[str, tuple[int, int]]:
    """What the caches hold: whose -> (values, bytes)."""
    found: dict[str, tuple[int, int]] = {}
    for cache in _generations.all():
        weights = [_weight(value) for value in cache.values()]
        if cache.what and weights:
            count, total = found.get(cache.what, (0, 0))
            found[cache.what] = count + len(weights), total + sum(weights)
    return found


def clear() -> None:
    """Forget everything in all caches."""
    for cache in _generations.all():
        cache.clear()
