"""Ctrl-C and other signals: when their handlers run, and what a KeyboardInterrupt says about the work it stopped.

Python runs signal handlers in the main thread, between two of its own instructions; jaxlib also runs them while it
waits for the compiler. An exception that leaves a handler there unwinds the C++ frames whose objects the compiler still
uses in its own threads, which is a crash now or at a later compilation. `deferred` postpones the handlers until such a
call has returned.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

_SIGNALS = tuple(sorted(signal.valid_signals() - {getattr(signal, "SIGKILL", None), getattr(signal, "SIGSTOP", None)}))
_NOTE = "xjax: "


class deferred:
    """`with deferred("XLA compiled jit `f`"):` handlers of signals that arrive in the block run at its end.

    Handlers written in Python are meant: those of C, and the default actions, keep their effect. It has none in other
    threads than the main one, where Python runs no handlers.
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
            with contextlib.ExitStack() as stack:           # each of them runs, even if one raises
                for number, frame in reversed(self._arrived.items()):
                    stack.callback(handlers[number], number, frame)
        except KeyboardInterrupt as error:
            note_interrupt(error, f"{self._what}, for {time.monotonic() - self._start:.1f} s; "
                                  "the interrupt was delivered when that had ended")
            raise

    def _note_arrival(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and not self._arrived and self._handlers[number] is signal.default_int_handler \
                and os.isatty(2):
            os.write(2, f"\nSIGINT: stopping as soon as this has ended: {self._what}\n".encode())
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


def note_interrupt(error: BaseException, what: str) -> None:
    """Add to a KeyboardInterrupt what was going on; the innermost work that it stopped is named."""
    if not any(note.startswith(_NOTE) for note in getattr(error, "__notes__", ())):
        error.add_note(f"{_NOTE}interrupted while {what}.")
