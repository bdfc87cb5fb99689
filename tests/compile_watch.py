"""Prints each compilation that takes longer than 30 s, with its test and program, while it is still running.

Compilers have bugs that make them run for hours. The text is written to the terminal past pytest's capture, so that it
is visible even if the test never ends.
"""

import functools
import os
import threading
import time

LIMIT = 30.0                    # seconds
_SHOWN = 4000                   # characters of a program


class CompileWatch:
    """Watches compilations that run through `watched` functions, in a thread that starts with the first compilation."""

    def __init__(self, fd: int, limit: float = LIMIT):
        self.fd, self.limit = fd, limit
        self._running: dict[object, tuple[float, str]] = {}
        self._start = functools.cache(self._start_thread)

    def watched(self, compile_):
        """`compile_(client, text, ...)`, watched."""
        @functools.wraps(compile_)
        def run(client, text, *args, **kwargs):
            self._start()
            call = object()
            self._running[call] = time.monotonic(), text
            try:
                return compile_(client, text, *args, **kwargs)
            finally:
                self._running.pop(call, None)

        return run

    def _start_thread(self) -> None:
        threading.Thread(target=self._watch, name="compile watch", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(self.limit / 10)
            for call, (start, text) in list(self._running.items()):
                if time.monotonic() - start > self.limit and self._running.pop(call, None):
                    self._print(text)

    def _print(self, text: str) -> None:
        rest = f"\n... {len(text) - _SHOWN} more characters" if len(text) > _SHOWN else ""
        test = os.environ.get("PYTEST_CURRENT_TEST", "")
        os.write(self.fd, f"\n== {test}: compiling for more than {self.limit:g} s:\n{text[:_SHOWN]}{rest}\n".encode())
