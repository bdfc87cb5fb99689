"""Ctrl-C and other signals: when their handlers run, and the note of a KeyboardInterrupt on the interrupted work.

Python runs signal handlers in the main thread, between two bytecode instructions; jaxlib also runs them while it waits
for the compiler. An exception of such a handler unwinds C++ frames whose objects the compiler still uses in its own
threads. The process then crashes, immediately or in a later compilation. So a compilation runs in another thread
(`shielded`): the exception leaves the call immediately, and the compiler finishes undisturbed. For short work that must
not be interrupted, `deferred` postpones the handlers.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

Result = TypeVar("Result")

# The signals for which programs install handlers; a check of all 60 takes longer than loading a program from disk.
_SIGNALS = tuple(getattr(signal, name) for name in (
    "SIGHUP", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM", "SIGBREAK", "SIGXCPU", "SIGVTALRM", "SIGPROF")
    if hasattr(signal, name))
_NOTE = "xjax: "


class deferred:
    """`with deferred("LAPACK was loaded"):` handlers of signals that arrive in the block run at its end.

    A KeyboardInterrupt gets a note with this text; with an empty text there is no note. Only handlers written in Python
    are postponed; handlers in C and default actions are not. In other threads than the main thread it has no effect,
    because Python runs no handlers there.
    """

    __slots__ = ("_what", "_handlers", "_arrived", "_start")

    def __init__(self, what: str):
        self._what = what
        self._handlers: dict[int, Any] = {}
        self._arrived: dict[int, FrameType | None] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        self._start = time.monotonic()
        try:
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._note_arrival)
        except ValueError:                  # the main thread of a subinterpreter
            self._handlers.clear()
        except BaseException:
            self._restore()
            raise

    def __exit__(self, *exc: object) -> None:
        if not self._handlers:
            return
        handlers = dict(self._handlers)
        self._restore()
        if not self._arrived:
            return
        try:
            _deliver(handlers, [*self._arrived.items()])
        except KeyboardInterrupt as error:
            if self._what:
                note_interrupt(error, f"{self._what}; it was delivered {time.monotonic() - self._start:.1f} s later")
            raise

    def _note_arrival(self, number: int, frame: FrameType | None) -> None:
        self._arrived[number] = frame

    def _restore(self) -> None:
        """Restore the handlers; the handler of SIGINT, a low number, is last, because it may raise immediately."""
        try:
            self._put_back()
        except BaseException:
            self._put_back()
            raise

    def _put_back(self) -> None:
        while self._handlers:
            number = max(self._handlers)
            signal.signal(number, self._handlers[number])
            del self._handlers[number]


def _deliver(handlers: dict[int, Any], arrived: list[tuple[int, FrameType | None]]) -> None:
    """Run the handlers of the signals that arrived; all of them, even if one raises."""
    if arrived:
        (number, frame), *rest = arrived
        try:
            handlers[number](number, frame)
        finally:
            _deliver(handlers, rest)


_STACK = 16 << 20               # bytes of stack of the worker thread; the main thread may have more than the usual 8 MB
_unfinished: list[threading.Thread] = []


def shielded(work: Callable[[], Result]) -> Result:
    """The result of `work()`, which an exception of a signal handler cannot interrupt.

    If the caller is the main thread, the only thread in which handlers run, `work` runs in a thread of its own. An
    exception of a handler leaves this call, `work` continues to its end, and the interpreter waits for it at exit. The
    thread costs 0.1 ms.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome: list[tuple[Any, BaseException | None]] = []
    ended = threading.Lock()
    ended.acquire()

    def run() -> None:
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))
        finally:
            ended.release()

    thread = threading.Thread(target=run, name="xjax compiler", daemon=True)
    try:
        with deferred(""):                      # an exception inside Thread.start would break its condition variable
            _start(thread)
        while not ended.acquire(timeout=0.2):   # a signal in another thread does not end the wait
            pass
    except BaseException:
        _unfinished[:] = [thread, *[t for t in _unfinished if t.is_alive()]]
        raise
    result, error = outcome[0]
    if error is not None:
        raise error
    return result


def _start(thread: threading.Thread) -> None:
    usual = threading.stack_size(_STACK)
    try:
        thread.start()
    finally:
        threading.stack_size(usual)


@atexit.register
def _wait_for_unfinished() -> None:
    """Wait for the compiler at exit: the end of the process frees objects in use. Ctrl-C ends the wait."""
    try:
        for thread in _unfinished:
            thread.join(1)
            if thread.is_alive():
                print("xjax: waiting for XLA's compiler to finish; Ctrl-C exits at once", file=sys.stderr, flush=True)
                thread.join()
    except KeyboardInterrupt:
        os._exit(128 + signal.SIGINT)


def note_interrupt(error: BaseException, what: str) -> None:
    """Add a note on the interrupted work to a KeyboardInterrupt, unless inner work has already added one."""
    if not any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
        error.add_note(f"{_NOTE}interrupted while {what}.")
