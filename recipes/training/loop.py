"""The training loop.

It launches steps without waiting for them, and makes the next batch meanwhile. At every report it reads the metrics of
all steps since the last report, so no step is missing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from recipes.batches import Batches
from recipes.config import RunConfig
from recipes.errors import Interrupted
from recipes.process.interrupts import Interrupts
from recipes.process.parallel import Placer
from recipes.process.progress import Phase, tick
from recipes.results.checkpoint import Saver
from recipes.results.numbers import in_float32
from recipes.task import Task
from recipes.training.best import Best, judged, no_best, stagnant
from recipes.training.step import TrainState, TrainStep, make_eval_step, totals_over

if TYPE_CHECKING:
    from xjax.typing import PyTree

SECONDS_PER_LAUNCH = 0.1                                      # at most: a signal waits for the end of a launch


class Record(NamedTuple):
    """Metrics of one step; ``values`` has "train/loss", and at an evaluation also "val/loss"."""

    step: int
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class Report:
    """The argument of a hook.

    Attributes:
      step: number of updates done.
      records: one for each step since the last report.
      fetch_params: returns the parameters as NumPy arrays.
      final: whether no step follows.
      seconds: time since the last report, including evaluation and compilation.
    """

    step: int
    records: list[Record]
    fetch_params: Callable[[], Any]
    final: bool
    seconds: float

    @property
    def seconds_per_step(self) -> float:
        return self.seconds / len(self.records)


Hook = Callable[[Report], None]                               # called in order; an exception ends the run


class Progress(NamedTuple):
    """The content of a checkpoint: the last state, and the best model so far, None without a validation split."""

    state: TrainState
    best: Best | None


def begin(state: TrainState, splits: Mapping[str, Any]) -> Progress:
    """The progress before the first step."""
    return Progress(state, no_best(state.model) if "val" in splits else None)


class Loop:
    """One run's task, config and devices, compiled once for training and once for evaluation."""

    def __init__(self, config: RunConfig, task: Task, placer: Placer, splits: Mapping[str, Batches]) -> None:
        self.config, self.task, self.placer, self.splits = config, task, placer, splits
        self._train_step = TrainStep(task, config, placer, splits["train"].steps_per_launch, splits["train"].full_batch)
        self._eval_step = make_eval_step(task, placer)

    def totals(self, model: PyTree, split: str) -> dict[str, tuple[Any, Any]]:
        """Sums and weights of the metrics over a split; {} if there is no such split.  Args: model: placed."""
        return totals_over(self._eval_step, model, self.splits[split].all()) if split in self.splits else {}

    def fit(self, progress: Progress, hooks: Sequence[Hook], saver: Saver, interrupts: Interrupts) -> Progress:
        """Trains from ``progress`` (host arrays) to the end of the run; returns the final progress, placed.

        Raises: Interrupted after a signal, when the progress is saved.
        """
        config, train, step = self.config, self.splits["train"], int(progress.state.step)
        tick(step, Phase.TRAINING)
        state, best = self.placer.replicate(progress.state), progress.best
        if best is not None:
            best = best._replace(model=self.placer.replicate(best.model))
        pending: list[tuple[int, Any]] = []
        reported, seconds_per_step = time.perf_counter(), math.inf
        done = step >= config.steps or stagnant(best, step, config)
        while not done:
            to_report = min(config.steps - step, *(every - step % every for every in self._periods))
            count = min(to_report, train.steps_per_launch, max(1, int(SECONDS_PER_LAUNCH / seconds_per_step)))
            stacked = train.steps_per_launch > 1 and not train.full_batch
            batches = train.stacked_batches(step, count) if stacked else train.train(step)
            state, sums = self._train_step(state, batches, count)
            step += count
            pending.append((count, sums))
            saver.check()
            tick(step)
            stopping = interrupts.stop_after(step)
            if not (stopping or any(self._due(every, step) for every in self._periods)):
                continue
            records = self._records(step, pending)
            pending.clear()
            if best is not None and self._due(config.eval_every, step):
                val = self.task.metrics(self.totals(state.model, "val"))
                records[-1].values.update(_named("val", val))
                best = judged(best, val, step, self.task, config, lambda state=state: self.placer.copy(state.model))
            done = step == config.steps or stagnant(best, step, config)
            seconds, reported = time.perf_counter() - reported, time.perf_counter()
            report = Report(step, records, lambda state=state: Placer.host(state.params), done, seconds)
            if self.placer.processes == 1:                    # ranks measure different times, but must launch equally
                seconds_per_step = report.seconds_per_step
            for hook in hooks:
                hook(report)
            if done or stopping or step % config.checkpoint_every == 0:
                saver.save(step, self.placer.copy(state), best)
            if stopping:
                saver.wait()
                raise _interrupted(interrupts, saver, step)
        saver.wait()
        return Progress(state, best)

    def _records(self, last: int, pending: Sequence[tuple[int, Any]]) -> list[Record]:
        sums = self._train_step.sums_of(pending)
        return [Record(last - len(sums) + i, _named("train", self.task.metrics(each)))
                for i, each in enumerate(sums, start=1)]

    @property
    def _periods(self) -> tuple[int, int, int]:
        return self.config.log_every, self.config.eval_every, self.config.checkpoint_every

    def _due(self, every: int, step: int) -> bool:
        return step % every == 0 or step == self.config.steps


def _named(split: str, metrics: dict[str, float]) -> dict[str, float]:
    return {f"{split}/{name}": in_float32(value) for name, value in metrics.items()}


def _interrupted(interrupts: Interrupts, saver: Saver, step: int) -> Interrupted:
    number, folder = interrupts.received, saver.checkpoints.folder.parent
    assert number is not None
    return Interrupted(number, f"stopped by {number.name} after step {step}; everything is saved.", {"folder": folder},
                       f"{interrupts.resume} {folder}")
