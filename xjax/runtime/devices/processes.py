"""The connection of this process with the others of a job: the key-value store, barriers, and leaving.

Barriers use the store, so that they can name missing processes: XLA's own barriers end the process from C++.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from xjax.core.errors import bad
from xjax.runtime import xla

_FASTEST, _SLOWEST = 0.002, 0.1         # seconds between two reads of the store
_PREFIX = "xjax"
DONE = "done"                           # the reason of a process that leaves without an error


class Connection:
    """The connection made by `xjax.distributed.initialize`.

    Attributes:
      client: XLA's connection to the service of process 0.
      service: that service, in process 0; None elsewhere.
      rank, count: rank of this process, and number of processes.
      timeout: seconds that barriers wait.
    """

    def __init__(self, client: Any, service: Any, rank: int, count: int, timeout: float):
        self.client, self.service, self.rank, self.count, self.timeout = client, service, rank, count, timeout
        self._meetings = 0
        self._lock = threading.Lock()

    # -- the store ------------------------------------------------------------------------------------------------

    def publish(self, key: str, value: str) -> None:
        """Set a key that all processes can read; an existing value is overwritten."""
        self.client.key_value_set(f"{_PREFIX}/{key}", value, True)

    def published(self, folder: str) -> dict[str, str]:
        """The keys under `folder`, without its name, and their values."""
        prefix = f"{_PREFIX}/{folder}/"
        return {key.removeprefix(prefix): value for key, value in self.client.key_value_dir_get(prefix)}

    # -- barriers -------------------------------------------------------------------------------------------------

    def barrier(self, caller: str, name: str, timeout: float | None = None) -> dict[int, str]:
        """Wait until all processes have reached their next barrier; returns the name that each gave it, by rank.

        Raises: RuntimeError naming the processes that are missing after `timeout` seconds, or that have left.
        """
        timeout = self.timeout if timeout is None else timeout
        with self._lock:                # the barriers of two threads follow one another
            self._meetings += 1
            folder = f"barrier/{self._meetings}"
            self.publish(f"{folder}/{self.rank}", name)
            arrived, gone = self._gather(folder, timeout)
            if self.rank == 0 and len(arrived) == self.count and self._meetings > 1:
                self.client.key_value_delete(f"{_PREFIX}/barrier/{self._meetings - 1}/")    # all have left that barrier
        missing = [rank for rank in range(self.count) if rank not in arrived]
        if missing:
            raise bad(caller, f"{describe(missing)} of {self.count} did not reach the barrier",
                      _reasons(missing, gone) | {"barrier": repr(name), "this process": self.rank,
                                                 "waited": f"{timeout:g} s"},
                      "all processes must make the same calls; check the output of the missing processes.",
                      exc=RuntimeError)
        return arrived

    def _gather(self, folder: str, timeout: float) -> tuple[dict[int, str], dict[int, str]]:
        """Wait for all processes, until one that has not arrived has left, or a time-out. Returns: arrived, left."""
        deadline, pause, looked = time.monotonic() + timeout, _FASTEST, time.monotonic()
        gone: dict[int, str] = {}
        while True:
            arrived = by_rank(self.published(folder))
            if len(arrived) == self.count or time.monotonic() >= deadline:
                return arrived, gone
            if time.monotonic() - looked > 1:
                gone, looked = by_rank(self.published("left")), time.monotonic()
                if any(rank not in arrived for rank in gone):
                    return by_rank(self.published(folder)), gone
            time.sleep(pause)
            pause = min(2 * pause, _SLOWEST)

    # -- leaving --------------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Leave the job, when all other processes leave too.

        Raises: RuntimeError with the processes that do not leave in time, or have failed. This process has then left.
        """
        try:
            self.publish(f"left/{self.rank}", DONE)
            left = self._wait_for_leaving()
        except xla.XlaRuntimeError:
            raise bad("distributed.shutdown", "process 0, which coordinates the others, has exited",
                      fix="check its output.", exc=RuntimeError) from None
        missing = [rank for rank in range(self.count) if left.get(rank) != DONE]
        if missing:
            raise bad("distributed.shutdown", f"{describe(missing)} of {self.count} did not finish",
                      _reasons(missing, left) | {"this process": self.rank, "waited": f"at most {self.timeout:g} s"},
                      "check the output of these processes.", exc=RuntimeError)
        self.client.shutdown()          # contains a barrier of XLA, which all processes have reached
        if self.service is not None:
            self.service.shutdown()

    def _wait_for_leaving(self) -> dict[int, str]:
        deadline, pause = time.monotonic() + self.timeout, _FASTEST
        while True:
            left = by_rank(self.published("left"))
            if len(left) == self.count or _failures(left) or time.monotonic() >= deadline:
                return left
            time.sleep(pause)
            pause = min(2 * pause, _SLOWEST)

    def fail(self, reason: str, patience: float) -> None:
        """Report to the others that this process leaves because of an error, without waiting for them.

        Only process 0 waits, up to `patience` seconds: when it exits, XLA ends the others before they can report.
        """
        with contextlib.suppress(xla.XlaRuntimeError):
            self.publish(f"left/{self.rank}", reason)
            deadline = time.monotonic() + patience
            while self.service is not None and time.monotonic() < deadline and len(self.published("left")) < self.count:
                time.sleep(_SLOWEST)

    def failures(self) -> dict[int, str]:
        """The processes that have left because of an error, with their errors."""
        return _failures(by_rank(self.published("left")))


connection: Connection | None = None


def connect(made: Connection | None) -> None:
    """Set this process's connection."""
    global connection
    connection = made


def by_rank(values: Mapping[str, str]) -> dict[int, str]:
    return {int(rank): value for rank, value in values.items()}


def _failures(left: Mapping[int, str]) -> dict[int, str]:
    return {rank: reason for rank, reason in left.items() if reason != DONE}


def describe(ranks: Sequence[int]) -> str:
    """`process 1`, or `processes 1, 2`."""
    shown = ", ".join(map(str, ranks[:16])) + (" ..." if len(ranks) > 16 else "")
    return f"process {shown}" if len(ranks) == 1 else f"processes {shown}"


def _reasons(missing: Sequence[int], left: Mapping[int, str]) -> dict[str, object]:
    return {f"process {rank}": f"left: {left[rank]}" for rank in missing[:4] if rank in left}
