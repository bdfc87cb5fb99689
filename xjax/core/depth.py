"""Raises Python's recursion limit for functions that recurse into nested programs.

A jitted function that calls a jitted function takes a dozen frames of Python to trace, and as many to transform or to
write; Python allows 1,000 in all. Python 3.12 also limits calls that pass through C, and nothing raises that limit:
some 200 levels of jit are possible there.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from xjax.core.errors import bad

Function = TypeVar("Function", bound=Callable)
_FRAMES = 30            # of Python for one function that is `deep`; a level of programs has up to four
_MOST = 1500            # of them in each other: each takes 2 to 3 kB of the stack of C, which has 8 MB


class _Levels(threading.local):
    count = 0           # of the functions by `deep` that run in this thread
    raised = False      # whether this thread asked for a higher limit


_levels = _Levels()
_lock = threading.Lock()
_threads = 0            # with a higher limit
_own_limit = 0          # the process's, while there are such threads


def deep(f: Function) -> Function:
    """A function that works on a program and comes to itself for the programs within, with room to do so.

    Raises: RecursionError for what seems to have no end.
    """
    @functools.wraps(f)
    def entered(*args, **kwargs):
        _levels.count += 1
        try:
            if _levels.count % 8 == 0:
                _make_room(_levels.count)
            return f(*args, **kwargs)
        finally:
            _levels.count -= 1
            if _levels.count == 0 and _levels.raised:
                _leave()

    return entered  # type: ignore[return-value]


def _make_room(levels: int) -> None:
    global _threads, _own_limit
    if levels > _MOST:
        raise bad("trace", f"{levels:,} traces and transformations in each other, which seems to have no end",
                  fix="look for a jitted or mapped function that calls itself; write a long chain as a loop.",
                  exc=RecursionError)
    with _lock:
        if not _levels.raised:
            _own_limit = sys.getrecursionlimit() if _threads == 0 else _own_limit
            _threads, _levels.raised = _threads + 1, True
        if sys.getrecursionlimit() < _own_limit + _FRAMES * levels:
            sys.setrecursionlimit(_own_limit + _FRAMES * levels)


def _leave() -> None:
    global _threads
    with _lock:
        _levels.raised = False
        _threads -= 1
        if _threads == 0:
            sys.setrecursionlimit(_own_limit)
