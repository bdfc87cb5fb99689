"""Errors of the recipes, in one format, and the outermost function of every command.

The format is ``caller: what is wrong.``, one line for each given value, then a ``fix:`` that works. The command line
prints only this text, without a traceback; ``exit_code`` is the exit code of the process.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping

from recipes.names import printable


class RecipeError(Exception):
    """A run cannot start or continue, and the user can correct the cause."""

    exit_code = 1

    def __init__(self, caller: str, what: str, given: Mapping[str, object] | None = None, fix: str = "") -> None:
        given = given or {}
        width = max((len(name) for name in given), default=0)
        lines = [f"{caller}: {what}"]
        lines += [f"  {name:<{width}}  {value}" for name, value in given.items()]
        lines += [f"  fix: {fix}"] if fix else []
        super().__init__("\n".join(lines))


class ConfigError(RecipeError):
    """The config file or an override is wrong; the message lists all faults."""

    exit_code = 2


class DataError(RecipeError):
    """A data file is missing, damaged, or of another format than its name says."""


class CheckpointError(RecipeError):
    """A checkpoint could not be written, or its content has changed since."""


class DivergedError(RecipeError):
    """Training produced a NaN or an infinity."""


class Interrupted(RecipeError):
    """A signal stopped the run; ``exit_code`` is 128 plus the number of the signal, as in a shell."""

    def __init__(self, number: int, what: str, given: Mapping[str, object], fix: str) -> None:
        super().__init__("run", what, given, fix)
        self.exit_code = 128 + number


class _Stopped(KeyboardInterrupt):
    """A signal other than Ctrl-C, raised as Ctrl-C is, so that files are closed and temporary ones removed."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


def _on_dropped(event: sys.UnraisableHookArgs) -> None:
    """The hook for exceptions in callbacks, which Python drops.

    A signal that arrives during a callback of the garbage collector is sent again, after the callback. Threads of orbax
    report to an event loop that a failed save has closed, which is not printed.
    """
    if isinstance(event.exc_value, KeyboardInterrupt):
        number = event.exc_value.number if isinstance(event.exc_value, _Stopped) else signal.SIGINT
        threading.Timer(0.01, os.kill, (os.getpid(), number)).start()
    elif str(event.exc_value) != "Event loop is closed":
        sys.__unraisablehook__(event)


@contextlib.contextmanager
def _raising_signals() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP raise an exception, where they would end the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _: object) -> None:
        raise _Stopped(number)

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:     # see recipes/__init__.py
        signal.signal(signal.SIGINT, signal.default_int_handler)
    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def exit_code_of(work: Callable[[], int | None]) -> int:
    """Runs the work of a command.

    File errors that no caller has explained are printed in the format of `RecipeError`. Any other exception is a fault
    of this package, and keeps its traceback.

    Returns: the result of ``work``, 0 for None; or the exit code of the error, which is printed.
    """
    for stream in (sys.stdout, sys.stderr):                   # a name that the encoding lacks is not an error
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if sys.unraisablehook is sys.__unraisablehook__:
        sys.unraisablehook = _on_dropped
    try:
        with _raising_signals():
            return work() or 0
    except RecipeError as err:
        print(printable(err, keep="\n"), file=sys.stderr)
        return err.exit_code
    except BrokenPipeError:                                   # the reader of the output has ended, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as err:
        print(printable(_of_file(err), keep="\n"), file=sys.stderr)
        return 1
    except KeyboardInterrupt as err:                          # of a command without `Interrupts`, or before it
        number = err.number if isinstance(err, _Stopped) else signal.SIGINT
        print(RecipeError("run", f"stopped by {number.name}.", fix="start the command again; no file is incomplete."),
              file=sys.stderr)
        return 128 + number
    except MemoryError as err:
        print(RecipeError("memory", "there is too little memory.", {"why": err} if str(err) else {},
                          "a smaller model, batch or file, or a machine with more memory."), file=sys.stderr)
        return 1


_FIXES = {errno.ENOSPC: "free space, then try again.", errno.EDQUOT: "free space, then try again.",
          errno.EROFS: "another folder: this file system is read-only.", errno.ENAMETOOLONG: "a shorter path.",
          errno.EACCES: "correct the permissions, or another path.",
          errno.EPERM: "correct the permissions, or another path."}


def _of_file(err: OSError) -> RecipeError:
    where = {"path": err.filename} if err.filename is not None else {}
    reason = os.strerror(err.errno) if err.errno else str(err)
    return RecipeError("file", f"{reason[:1].lower()}{reason[1:]}.", where,
                       _FIXES.get(err.errno or 0, "another path, or a file or folder of the needed kind at this one."))
