"""Worker processes for programs that may crash or hang: a failure costs only the process of that program."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from tests.compilers.check import Verdict
from tests.compilers.program import Program, Source

_ROOT = Path(__file__).resolve().parents[2]
_START, _PER_WORKER = 120, 200
# Limits of processor time for one program, in seconds. Elapsed time counts where the system does not report processor
# time, and after _PATIENCE times the limit: the machine may have other work.
LIMITS = {"numbers": 20, "draws": 10, "chains": 10}
_PATIENCE = 4


class Worker:
    """A process that runs one program at a time; it is started on demand and replaced when it dies.

    library: "xjax" or "jax". eager: also run programs of the kind "numbers" eagerly.
    """

    def __init__(self, library: str = "xjax", eager: bool = True):
        self.library, self.eager, self.process, self.count = library, eager, None, 0

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def run(self, program: Program | Source, limit: float, options: dict[str, Any] | None = None) -> Verdict:
        """The verdict; its kind is "time-out" or "crash" if there is none within `limit` seconds."""
        if self.process is None or self.count == _PER_WORKER:
            self.end()
            self._start()
        self.count += 1
        try:
            self.connection.send((program, options, self.eager, 0.8 * limit))
            if self._wait(limit):
                return self.connection.recv()
            kind = "time-out"
        except (EOFError, ConnectionError):
            kind = f"crash, exit code {self.process.wait()}"
        self.end()
        return Verdict(kind, self._last_words())

    def _wait(self, limit: float) -> bool:
        """Whether an answer arrives within `limit` seconds of the worker's processor time."""
        begin, used = time.monotonic(), self._used()
        while not self.connection.poll(0.25):
            elapsed = time.monotonic() - begin
            if self._used() - used > limit or elapsed > _PATIENCE * limit or (elapsed > limit and not used):
                return False
        return True

    def _used(self) -> float:
        """Processor time that the worker has used, in seconds; 0 if the system has no /proc."""
        path = Path(f"/proc/{self.process.pid}/stat")
        if not path.exists():
            return 0.0
        fields = path.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _start(self) -> None:
        self.connection, theirs = Pipe()
        self.errors = tempfile.TemporaryFile("w+")       # noqa: SIM115, read when the process has died
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.compilers.worker", str(theirs.fileno()), self.library], cwd=_ROOT,
            env=_environment(), stdout=self.errors, stderr=self.errors, pass_fds=[theirs.fileno()])
        theirs.close()
        self.count = 0
        if not self.connection.poll(_START):
            self.end()
            raise TimeoutError(f"a worker did not start:\n{self._last_words()}")
        self.connection.recv()

    def end(self) -> None:
        """Kill the process, which may hang in the compiler."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.connection.close()
            self.process = None

    def _last_words(self) -> str:
        self.errors.seek(0)
        return self.errors.read()[-2500:]


def _environment() -> dict[str, str]:
    """One CPU device, quiet logs, XLA as for users, and no disk cache: all programs are really compiled."""
    return {**os.environ, "PYTHONPATH": str(_ROOT), "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "",
            "XJAX_ENABLE_COMPILATION_CACHE": "0", "XJAX_LOG_LEVEL": "3", "TF_CPP_MIN_LOG_LEVEL": "3"}
