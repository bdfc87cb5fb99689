"""Exceptions of host functions: how they get from the thread in which XLA calls the function to the user's thread.

XLA keeps only the text of an exception. So `relayed` stores the exception and raises another one to XLA, whose text
ends with a number, by which `original` finds the stored one.

In a program over several devices no exception may reach XLA: the device would leave the program, and the others would
wait for it in their next collective, forever. There a failed call returns substitute values, the program runs to its
end, and the launch raises the exception (`SharedCalls`).
"""

from __future__ import annotations

import itertools
import re
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad, drop_internal_frames
from xjax.runtime import xla
from xjax.runtime.xla import XlaRuntimeError
from xjax.runtime.xla.names import Waitable
from xjax.typing import DTypeLike

Results = TypeVar("Results")

_MOST = 16                          # exceptions that are kept until a caller reads them
_kept: OrderedDict[int, BaseException] = OrderedDict()
_numbers = itertools.count(1)
_lock = threading.Lock()


class HostFunctionError(Exception):
    """The exception raised to XLA for one of a host function: its text, and the number of the stored exception."""


_TEXT = re.compile(HostFunctionError.__name__ + r": (.*)\[exception (\d+) of a function on the host\]", re.DOTALL)


def noted(error: BaseException, caller: str) -> BaseException:
    """The exception, with a note that names the caller of the function."""
    note = f"raised in {caller}, called by a compiled program"
    if not getattr(error, "explained", False) and note not in getattr(error, "__notes__", ()):
        error.add_note(note)                # messages of xjax already name the function
    return error


def relayed(error: BaseException) -> HostFunctionError:
    """The exception to raise to XLA for one of a host function."""
    with _lock:
        number = next(_numbers)
        _kept[number] = error
        if len(_kept) > _MOST:
            _kept.popitem(last=False)
    text = "".join(traceback.format_exception_only(error))
    return HostFunctionError(f"{text}[exception {number} of a function on the host]")


def original(error: BaseException) -> BaseException | None:
    """The exception of a host function that caused an error of XLA; None if there is none.

    The first call returns the exception itself, later calls return a JaxRuntimeError with its text.
    """
    match = _TEXT.search(str(error))
    if match is None:
        return None
    text, number = match.groups()
    with _lock:
        kept = _kept.pop(int(number), None)
    if kept is not None:
        return kept
    return bad("", "a function on the host, called by a compiled program, raised an exception", text.splitlines(),
               "call the function with NumPy arrays to find the fault.", XlaRuntimeError)


def raise_again(error: BaseException) -> NoReturn:
    """Raise an exception with its own causes: the exception being handled is not one of them."""
    context = error.__context__
    drop_internal_frames(error)
    try:
        raise error
    except BaseException:
        error.__context__ = context
        raise


def wait_for(launch: Waitable) -> None:
    """Wait for a launch and its side effects; raises its error, or that of a host function."""
    try:
        xla.wait_for(launch)
    except XlaRuntimeError as error:
        raise_original(error)


def raise_original(error: XlaRuntimeError) -> NoReturn:
    """Raise the exception of a host function that caused an error of XLA, or that error, explained."""
    raise_again(original(error) or _explained(error))


def _unchanged(error: XlaRuntimeError) -> XlaRuntimeError:
    return error


_explained: Callable[[XlaRuntimeError], XlaRuntimeError] = _unchanged


def explain_with(explained: Callable[[XlaRuntimeError], XlaRuntimeError]) -> None:
    """From now on, raise `explained(error)` for an error of XLA; a hook, since `explained` uses modules above this."""
    global _explained
    _explained = explained


# -- programs over several devices --------------------------------------------------------------------------------

class SharedCalls:
    """The host calls of one program over several devices, of which only one launch runs at a time.

    XLA does not identify the launch of a call, so launches from several threads wait for each other.
    """

    __slots__ = ("error", "_failed_at", "_turn", "_running")

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._failed_at = 0.0
        self._turn = threading.Lock()
        self._running: Any = None               # token of a launch whose wait was interrupted

    def launch(self, start: Callable[[], tuple[Results, Any]]) -> Results:
        """The results of ``start() -> (results, token)``, after the program has ended.

        Raises: the first exception of a host function.
        """
        with self._turn:
            if self._running is not None:
                self._running.block_until_ready()
            self.error = None
            results, self._running = start()
            xla.wait_for(self._running)
            self._running, error, self.error = None, self.error, None
        if error is not None:
            raise_again(error)
        return results

    def run(self, call: Callable[[], Any], caller: str) -> Any:
        """The result of a host call; None if this or an earlier call of the launch has failed."""
        if self.error is None:
            try:
                with _inside:
                    return call()
            except BaseException as error:
                if self.error is None:
                    self.error, self._failed_at = noted(error, caller), time.monotonic()
        return None

    def filler(self, dtype: DTypeLike) -> Any:
        """The value of all elements that a failed call returns: 0 at first.

        The value may keep a loop of the program running, so every second it changes to another extreme.
        """
        if dtype == np.bool_:
            choices: tuple = (False, True)
        elif dtypes.is_int(dtype):
            choices = (0, dtypes.iinfo(dtype).max, dtypes.iinfo(dtype).min)
        else:
            choices = (0, np.inf, -np.inf)      # NaN in dtypes without infinity
        return choices[int(time.monotonic() - self._failed_at) % len(choices)]


def shared_calls(callbacks: Sequence[Callable]) -> SharedCalls | None:
    """The `SharedCalls` of a program over several devices; None if it does not call the host."""
    return next((call.shared for call in callbacks), None)


class _Inside(threading.local):
    """Whether this thread runs a host function that a program over several devices calls."""

    depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *exc: object) -> None:
        self.depth -= 1


_inside = _Inside()


def _launched_inside() -> Exception:
    return bad("callback", "a function called by a program over several devices cannot launch another such program: it "
               "would wait for devices that wait for the function",
               fix="use one device in the function, or call it outside of pmap, shard_map and sharded jit.",
               exc=RuntimeError)


def outside_of_calls(execute: Callable[..., Any]) -> Callable[..., Any]:
    """`execute` of a program over several devices, which raises an error where it would never return.

    It raises RuntimeError inside a host function called by a program over several devices.
    """
    def checked(bufs: Sequence[xla.Buffer], **options: object) -> Any:
        if _inside.depth:
            raise _launched_inside()
        return execute(bufs, **options)

    return checked
