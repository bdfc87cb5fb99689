"""Signals that stop a run: reported immediately, and obeyed after the current launch.

The signals are SIGINT (Ctrl-C), SIGTERM, SIGHUP, and SIGUSR1, which clusters send before the time limit. A second
Ctrl-C ends the process immediately.

Python runs a signal handler between two of its own instructions, so not before a compilation returns. Python's C
handler writes the signal's number to a pipe without delay, and a thread reads it from there.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import TracebackType

Signal = signal.Signals
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class Interrupts:
    """A context in which the first of these signals is stored in ``received``; outside it, no signal is received.

    Attributes: resume: the command that resumes a run, without its folder.
    """

    def __init__(self, resume: str = "python -m recipes.train --resume") -> None:
        self.received: signal.Signals | None = None
        self.resume = resume

    def stop_after(self, step: int) -> bool:
        """Whether the run stops after this step; called once after each launch."""
        return self.received is not None

    def __enter__(self) -> Interrupts:
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._old_fd = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        heard = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]    # as under nohup
        self._old = {number: signal.signal(number, lambda *_: None) for number in heard}
        self._thread = threading.Thread(target=self._listen, name="signals", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_fd)
        os.close(self._write)                                 # the thread reads the end of the pipe
        self._thread.join()
        os.close(self._read)

    def _listen(self) -> None:
        while numbers := os.read(self._read, 64):
            for number in numbers:
                self._note(number)

    def _note(self, number: int) -> None:
        if number not in SIGNALS:
            return
        if self.received and number == signal.SIGINT:
            show_cursor = "\x1b[?25h" if sys.stdout.isatty() else ""
            os.write(2, f"{show_cursor}\nstopped at once, nothing more is saved\n".encode())
            os._exit(128 + number)
        if not self.received:
            self.received = signal.Signals(number)
            os.write(2, f"\n{self.received.name}: stopping at the next step; Ctrl-C ends the run at once\n".encode())
