"""A process made by `os.fork` while a backend runs can no longer use that backend.

It has the memory of its parent, but not XLA's threads: an operation that needs one of them (a compilation, most
launches, copies of large arrays) would wait forever. So every operation that starts work raises an error there. Arrays
that were ready can be read, and code that only uses NumPy is not affected. A fork before the first use of a device is
harmless.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any, NoReturn

from xjax.core.errors import bad

in_child = False            # whether this process was forked while a backend ran

_client_started = False
_launchers: weakref.WeakSet[Any] = weakref.WeakSet()


def starting_client() -> None:
    """Note that an XLA client starts in this process.  Raises: RuntimeError in a forked process."""
    global _client_started
    if in_child:
        raise error()
    _client_started = True


def track(launcher: Any) -> None:
    """Let a launcher raise in forked processes: hot paths call its attribute `execute` without any check."""
    _launchers.add(launcher)


def keep_for_ever(x: object) -> None:
    """Never free an object, not even at exit of the interpreter: XLA cannot free it without its threads."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))


def error() -> Exception:
    """The error for work that a forked process cannot do."""
    return bad("fork", "this process was forked while a backend was running, and does not have its threads",
               {"process": f"{os.getpid()}, forked from {os.getppid()}"},
               'start processes with multiprocessing.get_context("spawn"), or fork before the first use of a device.',
               exc=RuntimeError)


def _refuse(*args: object, **kwargs: object) -> NoReturn:
    raise error()


def _in_child() -> None:
    global in_child
    if not _client_started:
        return
    in_child = True
    for launcher in list(_launchers):
        launcher.refuse_with(_refuse)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
