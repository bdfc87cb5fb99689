"""The best model so far on the validation split, and early stopping."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recipes.config import RunConfig
from recipes.task import Task

if TYPE_CHECKING:
    from xjax.typing import PyTree


JUDGED_BY = "judged_by"                                       # an artifact of regressions: the name of their score


class Best(NamedTuple):
    """The best model on the validation split so far: by its score; among equal scores, by its loss.

    Attributes:
      model: its parameters and state.
      score, loss: its metrics on the validation split.
      step: the step of its evaluation; 0: no evaluation yet.
      reference, since: the last score that counted as an improvement for early stopping, and its step.
    """

    model: PyTree
    score: Any
    loss: Any
    step: Any
    reference: Any
    since: Any


def no_best(model: PyTree) -> Best:
    """The `Best` before the first evaluation.  Args: model: any, for the shapes of its arrays."""
    unknown, never = np.float32(np.nan), np.int32(0)
    return Best(model, unknown, unknown, never, unknown, never)


def as_now(best: Best | None, saved: dict[str, Any], now: dict[str, Any]) -> Best | None:
    """A saved `Best` with the present score: earlier versions judged a regression by the squared error, not its root.

    Args: saved, now: the artifacts of the checkpoint and of the data.
    """
    if best is None or saved.get(JUDGED_BY) == now.get(JUDGED_BY):
        return best
    return best._replace(score=np.sqrt(best.score), reference=np.sqrt(best.reference))


def judged(best: Best, val: dict[str, float], step: int, task: Task, config: RunConfig,
           model: Callable[[], Any]) -> Best:
    """``best`` after an evaluation with the metrics ``val``; a score of NaN changes nothing.

    Args: model: returns a copy of the evaluated model.
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
