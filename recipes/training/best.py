"""The best model so far on the validation split, and when early stopping ends a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from recipes.config import RunConfig
from recipes.task import Task


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


def no_best(model: Any) -> Best:
    """Before the first evaluation.  Args: model: any, for the shapes of its arrays."""
    unknown, never = np.float32(np.nan), np.int32(0)
    return Best(model, unknown, unknown, never, unknown, never)


def judged(best: Best, val: dict[str, float], step: int, task: Task, config: RunConfig,
           model: Callable[[], Any]) -> Best:
    """``best`` after an evaluation that gave the metrics ``val``; one without a number changes nothing.

    Args: model: gives a copy of the model that was evaluated.
    """
    score, loss = np.float32(val[task.score]), np.float32(val["loss"])
    sign, stopping = 1 if task.higher_is_better else -1, config.early_stopping
    if np.isnan(score):
        return best
    if best.step == 0 or (sign * score, -loss) > (sign * best.score, -best.loss):
        best = best._replace(model=model(), score=score, loss=loss, step=np.int32(step))
    if best.since == 0 or sign * (score - best.reference) > (stopping.min_change if stopping else 0):
        best = best._replace(reference=score, since=np.int32(step))
    return best


def stagnant(best: Best | None, step: int, config: RunConfig) -> bool:
    """Whether early stopping ends the run after ``step``."""
    stopping = config.early_stopping
    if stopping is None or best is None or best.since == 0:
        return False
    return step // config.eval_every - int(best.since) // config.eval_every >= stopping.patience
