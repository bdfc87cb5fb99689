"""The training loop.

It runs steps without waiting for them and, at every report, reads the metrics of all steps since
the last one: nothing is lost and the devices are never kept waiting for a print.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from recipes.config import TrainConfig
from recipes.parallel import Placer
from recipes.step import TrainState, evaluate, make_eval_step, make_train_step, means
from recipes.tasks.base import Task


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
        fetch_state: reads the state as NumPy arrays.
        final: no step follows.
    """

    step: int
    records: list[Record]
    fetch_state: Callable[[], TrainState]
    final: bool


class Hook(Protocol):
    """Called at every report, in order; an exception ends the run."""

    def __call__(self, report: Report) -> None: ...


def fit(
    config: TrainConfig,
    task: Task,
    optimizer: Any,
    placer: Placer,
    state: TrainState,
    hooks: Sequence[Hook],
) -> dict[str, float]:
    """Trains from ``state`` (host arrays) to ``config.steps``; returns the test metrics there."""
    train_step = make_train_step(task, optimizer, placer)
    eval_step = make_eval_step(task, placer)
    start = int(state.step)
    state = placer.replicate(state)
    pending: list[tuple[int, Any]] = []
    for step in range(start + 1, config.steps + 1):
        state, sums = train_step(state, task.train_batch(step - 1))
        pending.append((step, sums))
        if _due(config, step):
            records = [Record(i, _named("train", means(Placer.fetch(s)))) for i, s in pending]
            pending.clear()
            if _at(config.eval_every, step, config.steps):
                val = evaluate(eval_step, state.params, task.eval_batches("val"))
                records[-1].values.update(_named("val", val))
            report = Report(step, records, _fetcher(state), final=step == config.steps)
            for hook in hooks:
                hook(report)
    return evaluate(eval_step, state.params, task.eval_batches("test"))


def _fetcher(state: TrainState) -> Callable[[], TrainState]:
    return lambda: Placer.fetch(state)


def _at(every: int, step: int, last: int) -> bool:
    return step % every == 0 or step == last


def _due(config: TrainConfig, step: int) -> bool:
    periods = (config.log_every, config.eval_every, config.checkpoint_every)
    return any(_at(every, step, config.steps) for every in periods)


def _named(split: str, metrics: dict[str, float]) -> dict[str, float]:
    return {f"{split}/{name}": value for name, value in metrics.items()}
