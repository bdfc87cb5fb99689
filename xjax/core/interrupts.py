"""Ctrl-C and other signals: when their handlers run, and what a KeyboardInterrupt says about the work it stopped.

Python runs signal handlers in the main thread, between two of its own instructions; jaxlib also runs them while it
waits for the compiler. An exception that leaves a handler there unwinds the C++ frames whose objects the compiler still
uses in its own threads, which is a crash now or at a later compilation. So a compilation runs in another thread
(`shielded`): the exception leaves the call at once, and the compiler ends undisturbed. For short work that must not be
left half done, `deferred` postpones the handlers.
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

# Those for which programs have handlers; to look at all 60 would take longer than to load a program from disk.
_SIGNALS = tuple(getattr(signal, name) for name in (
    "SIGHUP", "SIGINT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM", "SIGBREAK", "SIGXCPU", "SIGVTALRM", "SIGPROF")
    if hasattr(signal, name))
_NOTE = "xjax: "


class deferred:
    """`with deferred("LAPACK was loaded"):` handlers of signals that arrive in the block run at its end.

    A KeyboardInterrupt says what was going on; with an empty text it gets no note. Only handlers written in Python
    wait; those of C and the default actions keep their effect. In threads other than the main one, where Python runs
    no handlers, it does nothing.
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
        except ValueError:                  # the main thread of an interpreter that is not the main one
            self._handlers.clear()
        except BaseException:
            self._restore()
            raise

    def __exit__(self, *exc: Any) -> None:
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
        """Put the handlers back; that of SIGINT, a low number, comes last, since it may raise at once."""
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
    """Run the handlers of the signals that came; each of them, even if one raises."""
    if arrived:
        (number, frame), *rest = arrived
        try:
            handlers[number](number, frame)
        finally:
            _deliver(handlers, rest)


_STACK = 16 << 20               # of a thread that works for the main one, which may have more than the usual 8 MB
_unfinished: list[threading.Thread] = []


def shielded(work: Callable[[], Result]) -> Result:
    """`work()`, which no exception of a signal handler can leave half done.

    In the main thread, the only one in which handlers run, it runs in a thread of its own. An exception of a handler
    leaves this call, and the work goes on to its end, for which the interpreter waits at exit. The thread takes 0.1 ms.
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
        with deferred(""):                      # Thread.start waits on a condition, which an exception leaves broken
            _start(thread)
        while not ended.acquire(timeout=0.2):   # a signal that another thread got does not end the wait by itself
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
    """The end of a process frees what the compiler uses; another Ctrl-C ends it without."""
    try:
        for thread in _unfinished:
            thread.join(1)
            if thread.is_alive():
                print("xjax: waiting for XLA's compiler to end; Ctrl-C exits at once", file=sys.stderr, flush=True)
                thread.join()
    except KeyboardInterrupt:
        os._exit(128 + signal.SIGINT)


def note_interrupt(error: BaseException, what: str) -> None:
    """Add to a KeyboardInterrupt what was going on; the innermost work that it stopped is named."""
    if not any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
        error.add_note(f"{_NOTE}interrupted while {what}.")
