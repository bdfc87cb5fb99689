"""Batches of a split: the examples of each step, and their transfer to the devices."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.config import RunConfig
from recipes.errors import RecipeError
from recipes.process.parallel import Placer

if TYPE_CHECKING:
    from xjax.typing import Array, PyTree


class Batches:
    """Batches of one split, placed on the devices. Each has an array "weight": 0 for padding rows.

    Attributes:
      full_batch: whether all steps train on the same batch, the whole split.
      steps_per_launch: the greatest number of steps in one launch of the compiled program.
    """

    full_batch: bool = False
    steps_per_launch: int = 1

    def train(self, step: int) -> PyTree:
        """The batch of step ``step`` (from 0), a function of ``step`` and the config alone."""
        raise NotImplementedError(f"{type(self).__name__} has no `train`.")

    def stacked_batches(self, step: int, count: int) -> PyTree:
        """The batches of ``count`` steps, stacked on an axis of size `steps_per_launch` after the axis of devices."""
        raise NotImplementedError(f"{type(self).__name__} has no `stacked_batches`, which steps_per_launch needs.")

    def all(self) -> Iterator[PyTree]:
        """The batches of the whole split, in order."""
        raise NotImplementedError(f"{type(self).__name__} has no `all`.")


# A launch costs about as much as a small step. The 64 rows of mlp_table.yaml take 0.35 ms a step alone and 0.12 ms in
# launches of 16 (gcn.yaml, a full batch: 0.22 and 0.07 ms in launches of 10; two cores, fastest report of a run).
STEPS_PER_LAUNCH = 16                                         # at most
STACKED_BYTES = 4 << 20                                       # at most, for the batches of one launch together


class Rows:
    """Examples on the host: named arrays with one row for each example.

    >>> Rows(x=np.zeros((5, 3)), y=np.arange(5)).take(np.array([4, 0]))["y"]
    array([4, 0])
    """

    def __init__(self, **arrays: np.ndarray) -> None:
        self.arrays = arrays

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def take(self, ids: np.ndarray) -> dict[str, np.ndarray]:
        return {name: array[ids] for name, array in self.arrays.items()}


class RowBatches(Batches):
    """See `Batches`. Training reads the examples in one endless stream, each epoch in a different order.

    Example ``i`` of the stream, counted from the start of the run, is a function of (seed, epoch, i) alone, so neither
    the number of devices nor a resume changes the examples of a step.
    """

    def __init__(self, rows: Rows, placer: Placer, size: int, seed: int) -> None:
        self._rows, self._placer, self._size, self._seed = rows, placer, size, seed
        self._orders: dict[int, np.ndarray] = {}              # epoch -> order, of the last two epochs
        row = sum(array.nbytes for array in rows.take(np.arange(min(1, len(rows)))).values())
        self.steps_per_launch = max(1, min(STEPS_PER_LAUNCH, STACKED_BYTES // max(1, size * row)))

    def train(self, step: int) -> PyTree:
        return self._place(self._stream(step, 1))

    def stacked_batches(self, step: int, count: int) -> PyTree:
        ids = self._placer.own(self._stream(step, count).reshape(count, self._size), self._size)

        def stacked(rows: np.ndarray) -> np.ndarray:
            whole = np.zeros((self.steps_per_launch, ids.shape[1], *rows.shape[1:]), rows.dtype)
            whole[:count] = rows.reshape(count, *whole.shape[1:])
            return self._placer.split_own(whole, self._size, axis=1)

        taken = self._rows.take(ids.ravel())
        return {**self._placer.put_own({name: stacked(a) for name, a in taken.items()}), "weight": self._all_ones}

    def _stream(self, step: int, count: int) -> np.ndarray:
        """The examples of ``count`` steps, one batch after the other."""
        epoch, first = divmod(step * self._size, len(self._rows))
        parts, wanted = [], count * self._size
        while wanted:
            parts.append(self._order(epoch)[first:first + wanted])
            wanted -= len(parts[-1])
            epoch, first = epoch + 1, 0
        return np.concatenate(parts)

    @functools.cached_property
    def _ones(self) -> Array:
        """The weights of a full batch, placed once."""
        return self._placer.put(self._placer.split(np.ones(self._size, np.float32)))

    @functools.cached_property
    def _all_ones(self) -> Array:
        """The weights of the full batches of one launch, placed once."""
        ones = np.ones((self.steps_per_launch, self._size), np.float32)
        return self._placer.put(self._placer.split(ones, axis=1))

    def all(self) -> Iterator[PyTree]:
        for start in range(0, len(self._rows), self._size):
            yield self._place(np.arange(start, min(start + self._size, len(self._rows))))

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            self._orders = dict(list(self._orders.items())[-1:])
            self._orders[epoch] = np.random.default_rng([self._seed, epoch]).permutation(len(self._rows))
        return self._orders[epoch]

    def _place(self, ids: np.ndarray) -> PyTree:
        """These rows, padded to the batch size: one shape for all steps, one compilation."""
        full, ids = len(ids) == self._size, self._placer.own(ids, self._size)
        taken = {**self._rows.take(ids), **({} if full else {"weight": np.ones(len(ids), np.float32)})}
        placed = self._placer.put_own({name: self._placer.split_own(a, self._size) for name, a in taken.items()})
        return {**placed, "weight": self._ones} if full else placed


def check_batch(config: RunConfig, task: Any, placer: Placer) -> None:
    """Raises: RecipeError if a batch cannot be divided over the devices and its parts."""
    size = getattr(config.task, "batch_size", None)
    whole = ("private gradients are computed row by row: they have no parts." if config.privacy is not None else
             "the batches of this task have no parts." if not task.divisible else
             "this task has one batch, which has no parts." if size is None else None)
    if config.accumulate > 1 and whole:
        raise RecipeError("batch", whole, {"task.name": config.task.name, "accumulate": config.accumulate},
                          fix="accumulate=1.")
    if size is None or not (config.accumulate > 1 or task.model.state):
        return                                                # padding rows have weight 0 and change nothing
    if size % (placer.count * config.accumulate):
        why = "running statistics would include padding rows" if task.model.state else "its parts must be equal"
        raise RecipeError("batch", f"the batch cannot be divided: {why}.",
                          {"task.batch_size": size, "devices": placer.count, "accumulate": config.accumulate},
                          fix="a task.batch_size that is a multiple of devices * accumulate.")
