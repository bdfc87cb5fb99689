"""Process supervision for `recipes.launch`: when one of the processes fails, all are ended.

XLA detects that a process has ended, but not that it hangs. When the coordinator has ended, XLA ends the other
processes from C++. So only the launcher can report which rank failed, after which step, and how to resume.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from recipes.errors import RecipeError
from recipes.process.interrupts import SIGNALS, Interrupts
from recipes.process.progress import VARIABLE, Phase, Progress, read_folder, read_progress

_LOOK = 0.05                                                  # seconds between two checks of the processes

# Limits, in seconds: for the first steps, which compile; for a failing process to write its error; the same if
# processes of other machines must notice the failure first; and for a process to end after all work is done.
_FIRST = 600.0
_GRACE = 1.0
_GRACE_OF_OTHERS = 10.0
_LEAVING = 60.0

_SLACK = 1.5                                                  # factor of the longest time between two signs of progress
_SHOWN = 15                                                   # lines shown of the output of a failed rank


class Failure(NamedTuple):
    """The rank that ends the job, and the reason."""

    rank: int
    why: str
    exit_code: int


class Job:
    """The processes of this machine that train together; every other machine has its own launcher."""

    def __init__(self, count: int, patience: float, scratch: Path, resume: str) -> None:
        """Args: scratch: an empty folder. resume: the command that resumes a run, without its folder."""
        self._count, self._patience, self._scratch, self._resume = count, patience, scratch, resume
        self._ranks: dict[int, _Rank] = {}

    def start(self, rank: int, command: Sequence[str], variables: Mapping[str, str]) -> None:
        """Starts one process. Rank 0 has this process's output streams; others write to files, shown on failure."""
        file, output = self._scratch / f"rank{rank}.progress", self._scratch / f"rank{rank}.output"
        env = os.environ | {VARIABLE: str(file)} | variables
        with output.open("w") as out:
            streams: dict[str, Any] = {} if rank == 0 else {"stdout": out, "stderr": subprocess.STDOUT}
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, start_new_session=True, **streams)
        self._ranks[rank] = _Rank(process, file, output)

    def watch(self, interrupts: Interrupts) -> int:
        """Waits until all processes have ended.  Returns: their exit code.

        A signal is passed to one rank, which stops all of them. No process is left when this returns or raises.

        Raises: RecipeError that names the failed rank.
        """
        passed_on = False
        try:
            while any(rank.is_running for rank in self._ranks.values()):
                for rank in self._ranks.values():
                    rank.look()
                if failure := self._failure():
                    raise self._error(failure)
                if interrupts.received and not passed_on:
                    passed_on = True
                    self._ranks[max(self._ranks)].process.send_signal(interrupts.received)
                time.sleep(_LOOK)
            if failure := self._failure():
                raise self._error(failure)
            return max(rank.process.returncode for rank in self._ranks.values())
        finally:
            self._end()

    def _failure(self) -> Failure | None:
        """The rank that failed first. The others may have failed since, as a consequence."""
        if not self._failures():
            return self._stalled()
        time.sleep(_GRACE / 2)                                # the first failure noticed may not be the first in time
        for rank in self._ranks.values():
            rank.look()
        return min(self._failures())[1]

    def _failures(self) -> list[tuple[tuple, Failure]]:
        """(Sort key, failure) of each failed rank. The order: ranks that were killed or stopped; ranks that wrote
        an error, by time; ranks that XLA ended because another rank sent no heartbeat."""
        failures = []
        for number, rank in self._ranks.items():
            code, phase = rank.process.poll(), rank.progress.phase
            if phase is Phase.FAILED:
                failures.append(((1, rank.progress.seconds), _ended(number, rank.progress.exit_code)))
            elif code is not None and not (phase is Phase.DONE and code in _GOOD):
                failures.append(((2 if code == -signal.SIGABRT else 0, 0.0), _ended(number, code)))
        if failures:
            failures += [((0, 0.0), Failure(number, "is stopped", 1)) for number, rank in self._ranks.items()
                      if rank.is_running and rank.state() == "T"]
        return failures

    def _stalled(self) -> Failure | None:
        """The rank for which the others wait, if none makes progress."""
        running = {number: rank for number, rank in self._ranks.items() if rank.is_running}
        if not running:
            return None
        quiet = time.monotonic() - max(rank.progress.seconds for rank in running.values())
        if all(rank.progress.phase is Phase.DONE for rank in running.values()):
            limit = _LEAVING
        elif any(rank.progress.phase is Phase.STARTING for rank in running.values()):
            limit = _FIRST
        else:
            longest = max(rank.longest for rank in running.values())
            limit = max(self._patience, _SLACK * longest) if all(r.is_warm for r in running.values()) else _FIRST
        if quiet <= limit:
            return None
        number = _slowest(running)
        state = "is stopped" if running[number].state() == "T" else "hangs"
        return Failure(number, f"{state}: no process made progress for {quiet:.0f} s", 1)

    def _error(self, failure: Failure) -> RecipeError:
        rank = self._ranks[failure.rank]
        with contextlib.suppress(subprocess.TimeoutExpired):  # until it has written its error
            rank.process.wait(_GRACE if len(self._ranks) == self._count else _GRACE_OF_OTHERS)
        lines = rank.output.read_text("utf-8", "replace").splitlines()[-_SHOWN:]
        if lines:                                             # rank 0 writes to the terminal
            print(f"the last lines of rank {failure.rank}:", *lines, sep="\n  ", file=sys.stderr)
        folder = next(filter(None, [read_folder(each.file) for each in self._ranks.values()]), None)
        given: dict[str, object] = {"last step": rank.progress.step, **({"folder": folder} if folder else {})}
        error = RecipeError("launch", f"rank {failure.rank} of {self._count} {failure.why}.", given,
                            f"{self._resume} {folder}" if folder else "see the error above: no run has begun.")
        error.exit_code = failure.exit_code
        return error

    def _end(self) -> None:
        for rank in self._ranks.values():
            if rank.is_running:
                rank.process.kill()
        for rank in self._ranks.values():
            rank.process.wait()


_GOOD = {0, *(128 + number for number in SIGNALS)}            # exit codes of a rank that is done


class _Rank:
    """One process and its progress.

    Attributes: longest: the longest time between two signs of progress during training, in seconds.
    """

    def __init__(self, process: subprocess.Popen, file: Path, output: Path) -> None:
        self.process, self.file, self.output = process, file, output
        self.progress = Progress(0, time.monotonic(), Phase.STARTING)
        self.longest, self._first = 0.0, -1

    def look(self) -> None:
        """Reads the progress file."""
        before, self.progress = self.progress, read_progress(self.file)
        if before.phase is Phase.TRAINING:
            self.longest = max(self.longest, self.progress.seconds - before.seconds)
        elif self.progress.phase is Phase.TRAINING:
            self._first = self.progress.step

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def is_warm(self) -> bool:
        """Whether its first two steps, which compile, are done."""
        return self.progress.phase is Phase.DONE or (self._first >= 0 and self.progress.step >= self._first + 2)

    def state(self) -> str:
        """The letter of the process's state: R runs, S sleeps, T stopped; ? unknown."""
        return self._stat()[0] if self._stat() else "?"

    def cpu(self) -> int:
        """Processor time used, in clock ticks."""
        return sum(map(int, self._stat()[11:13])) if self._stat() else 0

    def _stat(self) -> list[str]:
        try:
            return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return []


def _ended(rank: int, code: int) -> Failure:
    if code < 0:
        return Failure(rank, f"was ended by {signal.Signals(-code).name}", 1)
    return Failure(rank, f"ended with exit code {code}" if code else "ended before the training did", code or 1)


def _slowest(ranks: Mapping[int, _Rank]) -> int:
    """The rank that delays the others: a stopped one, else the one with the least progress, else the busiest."""
    before = {number: rank.cpu() for number, rank in ranks.items()}
    time.sleep(_GRACE)

    def order(number: int) -> tuple:
        rank = ranks[number]
        return rank.state() != "T", rank.progress.phase, rank.progress.step, before[number] - rank.cpu()

    return min(ranks, key=order)


def resume_command(processes: int | None) -> str:
    """The command that resumes a run, without its folder; under srun and others, each process must run it."""
    return "python -m recipes.launch" + (f" --processes {processes}" if processes else "") + " --resume"
