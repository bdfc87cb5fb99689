"""Errors of the recipes: what a user may do wrong, told in the house format, and the border of every command.

``where: what is wrong.``, one line for each given value, then a ``fix:`` that works. The command line prints this text
alone, without a traceback; ``exit_code`` is what the process returns.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Mapping


class RecipeError(Exception):
    """A run cannot start or go on, and the user can do something about it."""

    exit_code = 1

    def __init__(self, caller: str, what: str, given: Mapping[str, object] | None = None, fix: str = "") -> None:
        given = given or {}
        width = max((len(name) for name in given), default=0)
        lines = [f"{caller}: {what}"]
        lines += [f"  {name:<{width}}  {value}" for name, value in given.items()]
        lines += [f"  fix: {fix}"] if fix else []
        super().__init__("\n".join(lines))


class ConfigError(RecipeError):
    """The config file or an override is wrong; every fault stands in the one message."""

    exit_code = 2


class DataError(RecipeError):
    """A data file is missing, damaged, or not what its name promises."""


class CheckpointError(RecipeError):
    """A checkpoint could not be written, or is not what was written."""


class DivergedError(RecipeError):
    """Training produced a NaN or an infinity."""


class Interrupted(RecipeError):
    """A signal stopped the run; ``exit_code`` is 128 and the number of the signal, as in a shell."""

    def __init__(self, number: int, what: str, given: Mapping[str, object], fix: str) -> None:
        super().__init__("run", what, given, fix)
        self.exit_code = 128 + number


def exit_code_of(work: Callable[[], int | None]) -> int:
    """Runs the work of a command.  Returns what it returns, 0 for None; or prints the error and returns its exit code.

    Errors of files that no caller explains get the house format here; any other exception is a fault of ours, and
    keeps its traceback.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:     # see recipes/__init__.py
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return work() or 0
    except RecipeError as err:
        print(err, file=sys.stderr)
        return err.exit_code
    except BrokenPipeError:                                   # the reader of our output has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as err:
        print(_of_file(err), file=sys.stderr)
        return 1
    except KeyboardInterrupt:                                 # before `Interrupts` listens
        print("run: stopped before it began.", file=sys.stderr)
        return 130


_FIXES = {errno.ENOSPC: "free space, then try again.", errno.EDQUOT: "free space, then try again.",
          errno.EROFS: "another folder: this file system is read-only.", errno.ENAMETOOLONG: "a shorter path.",
          errno.EACCES: "correct the permissions, or another path.",
          errno.EPERM: "correct the permissions, or another path."}


def _of_file(err: OSError) -> RecipeError:
    where = {"path": err.filename} if err.filename is not None else {}
    reason = os.strerror(err.errno) if err.errno else str(err)
    return RecipeError("file", f"{reason[:1].lower()}{reason[1:]}.", where,
                       _FIXES.get(err.errno or 0, "another path, or make this one what is needed."))
