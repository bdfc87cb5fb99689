"""Ranks, the processes of one run: how they exchange values and stop after the same step.

Rank 0 owns the run folder. All ranks compute the same numbers, so they make the same decisions. Values of one rank only
(the folder, a signal) are exchanged through the store of `xjax.distributed`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from recipes.lazy import xjax
from recipes.process.interrupts import Interrupts, Signal
from recipes.results.checkpoint import Checkpoints, Saver

if TYPE_CHECKING:
    from xjax.typing import PyTree

_LOOK = 0.1                                                   # seconds between two reads of the store

T = TypeVar("T")


class Ranks(NamedTuple):
    """The rank of this process, and the number of processes."""

    rank: int = 0
    count: int = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def from_first(self, name: str, value: Callable[[], T]) -> T:
        """The result of ``value()`` on rank 0, returned on all ranks; JSON must be able to hold it."""
        if self.count == 1:
            return value()
        if self.is_first:
            result = value()
            xjax.distributed.publish(f"first/{name}", json.dumps(result))
            return result
        while (text := xjax.distributed.published("first").get(name)) is None:
            time.sleep(_LOOK)                                 # if rank 0 fails, xjax.distributed ends this process
        return json.loads(text)

    def gathered(self, name: str, value: object) -> list[Any]:
        """On rank 0, the values of all ranks in order, after a conversion to JSON and back; [] on the others."""
        if self.count == 1:
            return [value]
        xjax.distributed.publish(f"gathered/{name}/{self.rank}", json.dumps(value))
        while self.is_first and len(published := xjax.distributed.published(f"gathered/{name}")) < self.count:
            time.sleep(_LOOK)                                 # if a rank fails, xjax.distributed ends this process
        return [json.loads(published[str(rank)]) for rank in range(self.count)] if self.is_first else []


ALONE = Ranks()


class NoSaver(Saver):
    """The `Saver` of the ranks that save nothing."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        super().__init__(checkpoints, {})

    def save(self, step: int, state: PyTree, best: PyTree) -> None:
        pass


class SharedInterrupts(Interrupts):
    """Interrupts for several ranks: a signal that any rank receives stops all of them after the same step.

    The rank with the signal puts a notice into the store. A thread of each rank polls the store; when it reads the
    notice, it publishes the step that this rank is committed to, and the rank starts no later step until all ranks have
    published theirs. The greatest of these steps is the last one: no rank has started a later step, and each can still
    reach it. So no step waits for the agreement unless there is a signal.
    """

    def __init__(self, ranks: Ranks, resume: str) -> None:
        super().__init__(resume)
        self._ranks = ranks
        self._lock = threading.Lock()
        self._committed = 0                                   # the step that this rank will reach in any case
        self._frozen, self._agreed = False, threading.Event()
        self._number, self._last = 0, 0

    def agree(self) -> None:
        """Starts the polling thread; call it after `xjax.distributed.initialize`."""
        threading.Thread(target=self._look, name="agreement", daemon=True).start()

    def stop_after(self, step: int) -> bool:
        with self._lock:
            if not self._frozen:
                self._committed = step + 1
                return False
        self._agreed.wait()
        if step >= self._last:
            self.received = self.received or Signal(self._number)
            return True
        return False

    def _look(self) -> None:
        noticed = False
        while xjax.distributed.is_initialized():
            if self.received and not noticed:
                xjax.distributed.publish("stop/notice", str(int(self.received)))
                noticed = True
            entries = xjax.distributed.published("stop")
            with self._lock:
                if "notice" in entries and self._committed and not self._frozen:
                    self._frozen, self._number = True, int(entries["notice"])
                    xjax.distributed.publish(f"stop/{self._ranks.rank}", str(self._committed))
            steps = [int(step) for name, step in entries.items() if name != "notice"]
            if len(steps) == self._ranks.count:
                self._last = max(steps)
                self._agreed.set()
                return
            time.sleep(_LOOK)
