"""The training loop.

It runs steps without waiting for them and, at every report, reads the metrics of all steps since the last one: nothing
is lost, and the devices are never kept waiting for a print.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from recipes.batches import Batches, prefetched
from recipes.checkpoint import Saver
from recipes.config import RunConfig
from recipes.errors import Interrupted
from recipes.interrupts import Interrupts
from recipes.parallel import Placer
from recipes.step import TrainState, TrainStep, make_eval_step, totals_over
from recipes.task import Task


class Record(NamedTuple):
    """Metrics of one step; ``values`` has "train/loss", and at an evaluation "val/loss" too."""

    step: int
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class Report:
    """What a hook is given.

    Attributes:
      step: updates done.
      records: one for each step since the last report.
      fetch_params: reads the parameters as NumPy arrays.
      final: no step follows.
      seconds: since the last report, evaluation and compilation included.
    """

    step: int
    records: list[Record]
    fetch_params: Callable[[], Any]
    final: bool
    seconds: float

    @property
    def seconds_per_step(self) -> float:
        return self.seconds / len(self.records)


class Hook(Protocol):
    """Called at every report, in order; an exception ends the run."""

    def __call__(self, report: Report) -> None: ...


class Best(NamedTuple):
    """The model that was best on the validation split: by its score, among equal scores by its loss.

    Attributes:
      step: when; 0: no evaluation yet.
      reference, since: the last score that early stopping took for an improvement, and its step.
    """

    model: Any
    score: Any
    loss: Any
    step: Any
    reference: Any
    since: Any


class Progress(NamedTuple):
    """What a checkpoint holds: the last state, and the best model so far, None without a validation split."""

    state: TrainState
    best: Best | None


def begin(state: TrainState, splits: Mapping[str, Any]) -> Progress:
    """The progress before the first step."""
    unknown, never = np.float32(np.nan), np.int32(0)
    return Progress(state, Best(state.model, unknown, unknown, never, unknown, never) if "val" in splits else None)


class Loop:
    """One run's task, config and devices, compiled once for training and once for evaluation."""

    def __init__(self, config: RunConfig, task: Task, placer: Placer, splits: Mapping[str, Batches]) -> None:
        self.config, self.task, self.placer, self.splits = config, task, placer, splits
        self._train_step = TrainStep(task, config, placer)
        self._eval_step = make_eval_step(task, placer)

    def totals(self, model: Any, split: str) -> dict[str, tuple[Any, Any]]:
        """Sums and weights of the metrics over a split; {} if there is none.  Args: model: placed."""
        return totals_over(self._eval_step, model, self.splits[split].all()) if split in self.splits else {}

    def fit(self, progress: Progress, hooks: Sequence[Hook], saver: Saver, interrupts: Interrupts) -> Progress:
        """Trains from ``progress`` (host arrays) to the end of the run; returns where it ended, placed.

        Raises: Interrupted after a save, when a signal asked for it.
        """
        config, start = self.config, int(progress.state.step)
        state, best = self.placer.replicate(progress.state), progress.best
        if best is not None:
            best = best._replace(model=self.placer.replicate(best.model))
        pending: list[tuple[int, Any]] = []
        reported = time.perf_counter()
        stop = start if self._stagnant(best, start) else config.steps
        for index, batch in prefetched(self.splits["train"], start, stop):
            step = index + 1
            state, sums = self._train_step(state, batch)
            pending.append((step, sums))
            saver.check()
            if not (self._due(step) or interrupts.received):
                continue
            records = self._records(pending)
            pending.clear()
            if best is not None and self._at(config.eval_every, step):
                val = self.task.metrics(self.totals(state.model, "val"))
                records[-1].values.update(_named("val", val))
                best = self._judged(best, val, state, step)
            final = step == config.steps or self._stagnant(best, step)
            seconds, reported = time.perf_counter() - reported, time.perf_counter()
            report = Report(step, records, lambda state=state: Placer.host(state.params), final, seconds)
            for hook in hooks:
                hook(report)
            if final or interrupts.received or step % config.checkpoint_every == 0:
                saver.save(step, self.placer.copy(state), best)
            if interrupts.received:
                saver.wait()
                raise _interrupted(interrupts, saver, step)
            if final:
                break
        saver.wait()
        return Progress(state, best)

    def _records(self, pending: Sequence[tuple[int, Any]]) -> list[Record]:
        sums = self._train_step.sums_of([packed for _, packed in pending])
        return [Record(step, _named("train", self.task.metrics(each)))
                for (step, _), each in zip(pending, sums, strict=True)]

    def _due(self, step: int) -> bool:
        periods = (self.config.log_every, self.config.eval_every, self.config.checkpoint_every)
        return any(self._at(every, step) for every in periods)

    def _at(self, every: int, step: int) -> bool:
        return step % every == 0 or step == self.config.steps

    def _judged(self, best: Best, val: dict[str, float], state: TrainState, step: int) -> Best:
        """``best`` after an evaluation; one without a number changes nothing."""
        score, loss = np.float32(val[self.task.score]), np.float32(val["loss"])
        sign, stopping = 1 if self.task.higher_is_better else -1, self.config.early_stopping
        if np.isnan(score):
            return best
        if best.step == 0 or (sign * score, -loss) > (sign * best.score, -best.loss):
            best = best._replace(model=self.placer.copy(state.model), score=score, loss=loss, step=np.int32(step))
        if best.since == 0 or sign * (score - best.reference) > (stopping.min_change if stopping else 0):
            best = best._replace(reference=score, since=np.int32(step))
        return best

    def _stagnant(self, best: Best | None, step: int) -> bool:
        """Whether early stopping ends the run after ``step``."""
        stopping = self.config.early_stopping
        if stopping is None or best is None or best.since == 0:
            return False
        return math.ceil((step - int(best.since)) / self.config.eval_every) >= stopping.patience


def _named(split: str, metrics: dict[str, float]) -> dict[str, float]:
    return {f"{split}/{name}": value for name, value in metrics.items()}


def _interrupted(interrupts: Interrupts, saver: Saver, step: int) -> Interrupted:
    number, folder = interrupts.received, saver.checkpoints.folder.parent
    assert number is not None
    return Interrupted(number, f"stopped by {number.name} after step {step}; everything is saved.", {"folder": folder},
                       f"python -m recipes.train --resume {folder}")
