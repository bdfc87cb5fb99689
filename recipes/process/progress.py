"""The progress of a rank, for the launcher that watches it: a small file, written after each launch.

A rank writes to the file that the environment variable ``RECIPES_PROGRESS`` names; without it, nothing is written.
"""

from __future__ import annotations

import enum
import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

VARIABLE = "RECIPES_PROGRESS"
_FORMAT = "<qdqq"                                             # step, CLOCK_MONOTONIC in seconds, phase, exit code


class Phase(enum.IntEnum):
    """The phase of a rank. A rank that is DONE computes nothing more with the others; one that FAILED will end."""

    STARTING, TRAINING, DONE, FAILED = range(4)


class Progress(NamedTuple):
    """The progress of a rank.

    Attributes:
      step: number of steps done.
      seconds: `time.monotonic()` of the last sign of progress; all processes have the same clock.
      exit_code: the exit code with which a rank that FAILED will end.
    """

    step: int
    seconds: float
    phase: Phase
    exit_code: int = 0


class ProgressFile:
    """The file of one rank, open for writing."""

    def __init__(self, file: Path) -> None:
        self._handle = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
        self._step, self._phase = 0, Phase.STARTING
        self.tick()

    def tick(self, step: int | None = None, phase: Phase | None = None, exit_code: int = 0) -> None:
        """Writes a sign of progress; the step and the phase do not change unless given."""
        self._step = self._step if step is None else step
        self._phase = self._phase if phase is None else phase
        os.pwrite(self._handle, struct.pack(_FORMAT, self._step, time.monotonic(), self._phase, exit_code), 0)


def read_progress(file: Path) -> Progress:
    """The last progress that a rank wrote; STARTING if it has not written yet."""
    try:
        step, seconds, phase, exit_code = struct.unpack(_FORMAT, file.read_bytes())
    except (OSError, struct.error):
        return Progress(0, time.monotonic(), Phase.STARTING)
    return Progress(step, seconds, Phase(phase), exit_code)


_file: ProgressFile | None = None


def report_progress() -> None:
    """Makes `tick` write to the file that the launcher has named, if there is a launcher."""
    global _file
    if VARIABLE in os.environ:
        _file = ProgressFile(Path(os.environ[VARIABLE]))


def tick(step: int | None = None, phase: Phase | None = None, exit_code: int = 0) -> None:
    """Writes a sign of progress of this process, see `ProgressFile.tick`."""
    if _file is not None:
        _file.tick(step, phase, exit_code)


def note_folder(folder: Path) -> None:
    """Writes the path of the run folder to a file that the launcher reads."""
    if VARIABLE in os.environ:
        _of_folder(Path(os.environ[VARIABLE])).write_bytes(os.fsencode(folder))


def read_folder(file: Path) -> str | None:
    """The run folder that a rank has written by `note_folder`; None if there is none yet."""
    noted = _of_folder(file)
    return os.fsdecode(noted.read_bytes()) if noted.exists() else None


def _of_folder(file: Path) -> Path:
    return file.with_suffix(".folder")
