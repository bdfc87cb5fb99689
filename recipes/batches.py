"""Batches of a split: which examples each step sees, and getting them onto the devices beside the step."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from recipes.config import RunConfig
from recipes.errors import RecipeError
from recipes.parallel import Placer


class Batches(Protocol):
    """Batches of one split, placed on the devices. Each has an array "weight": 0 for rows that only fill it up.

    Attributes:
      ahead: how many a thread makes beside the step; 0: all steps have the same batch.
    """

    ahead: int

    def train(self, step: int) -> Any:
        """What step ``step`` (from 0) trains on: a function of ``step`` and the config alone."""

    def all(self) -> Iterator[Any]:
        """The whole split in order."""


class Rows:
    """Examples on the host: arrays with one row for each, by name.

    >>> Rows(x=np.zeros((5, 3)), y=np.arange(5)).take(np.array([4, 0]))["y"]
    array([4, 0])
    """

    def __init__(self, **arrays: np.ndarray) -> None:
        self.arrays = arrays

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def take(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        return {name: array[ids] for name, array in self.arrays.items()}


class RowBatches:
    """See `Batches`. Training goes through the examples in one endless stream, each epoch in an order of its own.

    Example ``i`` of the stream, counted from the start of the run, is a function of (seed, epoch, i) alone, so neither
    the number of devices nor a resume changes what a step sees.
    """

    ahead = 2

    def __init__(self, rows: Rows, placer: Placer, size: int, seed: int) -> None:
        self._rows, self._placer, self._size, self._seed = rows, placer, size, seed
        self._orders: dict[int, np.ndarray] = {}              # epoch -> order; the last two

    def train(self, step: int) -> Any:
        epoch, first = divmod(step * self._size, len(self._rows))
        parts, wanted = [], self._size
        while wanted:
            parts.append(self._order(epoch)[first:first + wanted])
            wanted -= len(parts[-1])
            epoch, first = epoch + 1, 0
        return self._place(np.concatenate(parts))

    def all(self) -> Iterator[Any]:
        for start in range(0, len(self._rows), self._size):
            yield self._place(np.arange(start, min(start + self._size, len(self._rows))))

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            self._orders = dict(list(self._orders.items())[-1:])
            self._orders[epoch] = np.random.default_rng([self._seed, epoch]).permutation(len(self._rows))
        return self._orders[epoch]

    def _place(self, ids: np.ndarray) -> Any:
        """These rows, padded to the batch size: one shape for all steps, one compilation."""
        taken = {**self._rows.take(ids), "weight": np.ones(len(ids), np.float32)}
        pad = self._size - len(ids)
        whole = {name: np.pad(a, [(0, pad)] + [(0, 0)] * (a.ndim - 1)) if pad else a for name, a in taken.items()}
        return self._placer.put({name: self._placer.split(a) for name, a in whole.items()})


def prefetched(batches: Batches, start: int, stop: int) -> Iterator[tuple[int, Any]]:
    """(step, its batch) from ``start`` up to ``stop``; a thread makes the next ones meanwhile.

    An error in making a batch is raised here, at its step.
    """
    made: queue.Queue[Any] = queue.Queue(batches.ahead)
    left = threading.Event()

    def put(item: Any) -> bool:
        while not left.is_set():
            try:
                made.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        for step in range(start, stop):
            try:
                item = (step, batches.train(step), None)
            except Exception as err:                          # raised by the reader of the queue
                item = (step, None, err)
            if not put(item) or item[2] is not None:
                return

    thread = threading.Thread(target=work, name="batches", daemon=True)
    thread.start()
    try:
        for _ in range(start, stop):
            step, batch, err = made.get()
            if err is not None:
                raise err
            yield step, batch
    finally:
        left.set()
        thread.join()


def check_batch(config: RunConfig, task: Any, placer: Placer) -> None:
    """Raises: RecipeError if a batch cannot be divided over the devices and its parts."""
    size = getattr(config.task, "batch_size", None)
    if config.accumulate > 1 and config.privacy is not None:
        raise RecipeError("batch", "private gradients are computed row by row: they have no parts.",
                          {"accumulate": config.accumulate}, fix="accumulate=1.")
    if size is None and config.accumulate > 1:
        raise RecipeError("batch", "this task has one batch, which has no parts.",
                          {"task.name": config.task.name, "accumulate": config.accumulate}, fix="accumulate=1.")
    if size is None or not (config.accumulate > 1 or task.model.state):
        return                                                # filling rows have weight 0 and change nothing
    if size % (placer.count * config.accumulate):
        why = "running statistics would see filling rows" if task.model.state else "its parts must be equal"
        raise RecipeError("batch", f"the batch cannot be divided: {why}.",
                          {"task.batch_size": size, "devices": placer.count, "accumulate": config.accumulate},
                          fix="a task.batch_size that is a multiple of devices * accumulate.")
