"""Raises Python's recursion limit for functions that recurse into nested programs.

Each level of nested jitted functions needs about twelve Python frames to trace, and as many to transform or lower; the
default limit is 1,000 frames. Python 3.12 also limits calls that pass through C, and that limit cannot be raised:
about 200 levels of jit are possible there.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from xjax.core.errors import bad

Function = TypeVar("Function", bound=Callable)
_FRAMES = 30            # Python frames per call of a `deep` function; a level of programs has up to four such calls
_MOST = 1500            # nested calls of `deep` functions: each uses 2 to 3 kB of the C stack, which has 8 MB


class _Levels(threading.local):
    count = 0           # number of nested calls of `deep` functions in this thread
    raised = False      # whether this thread raised the limit


_levels = _Levels()
_lock = threading.Lock()
_threads = 0            # number of threads that raised the limit
_own_limit = 0          # the original limit of the process, while there are such threads


def deep(f: Function) -> Function:
    """Decorator of a function that recurses into nested programs: raises the recursion limit as needed.

    Raises: RecursionError if the nesting is so deep that the recursion seems to be infinite.
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
        raise bad("trace", f"{levels:,} nested traces and transformations: the recursion seems to be infinite",
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
