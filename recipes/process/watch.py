"""Process supervision for `recipes.launch`: when one of the processes fails, all are ended.

XLA notices that a process is gone, not that it hangs; and when the coordinator is gone it ends the other processes
from C++, so that only the launcher can say which rank failed, after which step, and how to go on.
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

_LOOK = 0.05                                                  # seconds between two looks at the processes
_FIRST = 600.0                                                # seconds that the first steps may take: they compile
_GRACE = 1.0                                                  # seconds to write what is to be read, before the end
_GRACE_OF_OTHERS = 10.0                                       # seconds in which other machines hear of a failure
_LEAVING = 60.0                                               # seconds to end after everything is done
_SLACK = 1.5                                                  # times the longest time between two signs of progress
_SHOWN = 15                                                   # lines of the output of a rank that failed


class Failure(NamedTuple):
    """Which rank ends the job, and why."""

    rank: int
    why: str
    exit_code: int


class Job:
    """Processes that train together, started here; those of other machines have a launcher of their own."""

    def __init__(self, count: int, patience: float, scratch: Path, resume: str) -> None:
        """Args: scratch: an empty folder. resume: the command that goes on with a run, without its folder."""
        self._count, self._patience, self._scratch, self._resume = count, patience, scratch, resume
        self._ranks: dict[int, _Rank] = {}

    def start(self, rank: int, command: Sequence[str], variables: Mapping[str, str]) -> None:
        """Starts one process. Rank 0 writes where this process does, the others to files, read if they fail."""
        file, output = self._scratch / f"rank{rank}.progress", self._scratch / f"rank{rank}.output"
        env = os.environ | {VARIABLE: str(file)} | variables
        with output.open("w") as out:
            streams: dict[str, Any] = {} if rank == 0 else {"stdout": out, "stderr": subprocess.STDOUT}
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, start_new_session=True, **streams)
        self._ranks[rank] = _Rank(process, file, output)

    def watch(self, interrupts: Interrupts) -> int:
        """Waits for the end of all.  Returns: their exit code.

        A signal is passed on to one rank, which stops all of them. No process is left when this returns or raises.

        Raises: RecipeError that names the rank which failed.
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
        """The rank that failed first; the others may have failed since, for they cannot go on without it."""
        if not self._failures():
            return self._stalled()
        time.sleep(_GRACE / 2)                                # the first to be seen need not be the first to fail
        for rank in self._ranks.values():
            rank.look()
        return min(self._failures())[1]

    def _failures(self) -> list[tuple[tuple, Failure]]:
        """(What orders them, failure) of each rank that failed: those that died or are stopped come first, then those
        that noted an error, by time, then those that XLA ended because another one gave no sign of life."""
        found = []
        for number, rank in self._ranks.items():
            code, phase = rank.process.poll(), rank.progress.phase
            if phase is Phase.FAILED:
                found.append(((1, rank.progress.seconds), _ended(number, rank.progress.exit_code)))
            elif code is not None and not (phase is Phase.DONE and code in _GOOD):
                found.append(((2 if code == -signal.SIGABRT else 0, 0.0), _ended(number, code)))
        if found:
            found += [((0, 0.0), Failure(number, "is stopped", 1)) for number, rank in self._ranks.items()
                      if rank.is_running and rank.state() == "T"]
        return found

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
        number = _guilty(running)
        state = "is stopped" if running[number].state() == "T" else "hangs"
        return Failure(number, f"{state}: no process made progress for {quiet:.0f} s", 1)

    def _error(self, failure: Failure) -> RecipeError:
        rank = self._ranks[failure.rank]
        with contextlib.suppress(subprocess.TimeoutExpired):  # until it has written why it failed
            rank.process.wait(_GRACE if len(self._ranks) == self._count else _GRACE_OF_OTHERS)
        lines = rank.output.read_text("utf-8", "replace").splitlines()[-_SHOWN:]
        if lines:                                             # of rank 0 all was seen
            print(f"the last lines of rank {failure.rank}:", *lines, sep="\n  ", file=sys.stderr)
        folder = next(filter(None, [read_folder(each.file) for each in self._ranks.values()]), None)
        given: dict[str, object] = {"last step": rank.progress.step} | ({"folder": folder} if folder else {})
        error = RecipeError("launch", f"rank {failure.rank} of {self._count} {failure.why}.", given,
                            f"{self._resume} {folder}" if folder else "see above: no run was begun.")
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
    """One process, and what is known of its progress.

    Attributes: longest: the longest time between two signs of progress while it trained, in seconds.
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
        """The letter of the process's state: R runs, S sleeps, T is stopped."""
        return self._stat()[0] if self._stat() else "?"

    def cpu(self) -> int:
        """Processor time used, in ticks of the clock."""
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


def _guilty(ranks: Mapping[int, _Rank]) -> int:
    """The stopped rank, else the one that is behind, else the one that computes while others wait."""
    before = {number: rank.cpu() for number, rank in ranks.items()}
    time.sleep(_GRACE)

    def order(number: int) -> tuple:
        rank = ranks[number]
        return rank.state() != "T", rank.progress.phase, rank.progress.step, before[number] - rank.cpu()

    return min(ranks, key=order)


def resume_command(processes: int | None) -> str:
    """The command that goes on with a run, without its folder; under srun and others, what each process is to run."""
    return "python -m recipes.launch" + (f" --processes {processes}" if processes else "") + " --resume"
