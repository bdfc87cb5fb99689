"""The common part of tasks that predict a number: loss, metrics in the unit of the target, plots of residuals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.data.columns import mean_and_deviation
from recipes.lazy import jnp
from recipes.process.parallel import weighted
from recipes.results.drawing import Drawing
from recipes.results.plots import residual_figures
from recipes.task import Bound, Sums, Task
from recipes.training.best import JUDGED_BY

if TYPE_CHECKING:
    from recipes.trained import Trained
    from xjax.typing import Array

DIGITS = 8                                                    # of a prediction in units of the target: float32 has 7.2


class Regressor(Task):
    """A task whose model gives (y - ``artifacts["target_mean"]``) / ``artifacts["target_unit"]``; batches have "y" so.

    The root of the mean squared error (RMSE) and the mean absolute error (MAE) are in the unit of the target. R² is the
    share of the variance of the target that the predictions explain; only evaluations have it.
    """

    score, reported = "rmse", ("rmse", "mae", "r2")

    def sums_of(self, model: Bound, outputs: Array, targets: Array, weight: Array) -> Sums:
        """`Task.sums` from outputs, targets and weight [rows]."""
        error = outputs - targets
        sums = {"loss": weighted(error**2, weight), "absolute": weighted(jnp.abs(error), weight)}
        if not model.train:
            sums |= {"target": weighted(targets, weight), "target_square": weighted(targets**2, weight)}
        return sums

    def metrics(self, totals: dict[str, tuple[Any, Any]]) -> dict[str, float]:
        means, unit = super().metrics(totals), self.artifacts["target_unit"]
        loss = means["loss"]
        errors = {"rmse": unit * math.sqrt(loss), "mae": unit * means.pop("absolute")}
        if "target" in means:
            variance = means.pop("target_square") - means.pop("target")**2
            errors["r2"] = 1 - loss / variance if variance > 0 else math.nan
        return errors | means

    def columns(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        """The predictions, without the digits that are below the precision of the model's results."""
        mean, unit = self.artifacts["target_mean"], self.artifacts["target_unit"]
        decimals = DIGITS - math.ceil(math.log10(unit))
        return {self.artifacts["target"]: np.round(mean + unit * np.asarray(outputs, float), decimals)}

    def draw(self, trained: Trained) -> dict[str, Drawing]:
        """Predictions over true values of the test split, and their residuals."""
        rows, outputs = trained.rows("test"), trained.outputs("test")
        if rows is None:
            return {}
        name = self.artifacts["target"]
        truth, predicted = (self.columns(values)[name] for values in (rows.arrays["y"], outputs))
        return {"Predictions, test": residual_figures(truth, predicted, name)}


def standardised(y: np.ndarray, train: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """(f32[rows], the artifacts of a `Regressor`) from a target f64[rows].  Args: train: numbers of training rows."""
    mean, deviation = mean_and_deviation(y[train])
    unit = deviation or 1.0
    artifacts = {"target_mean": mean, "target_unit": unit, JUDGED_BY: Regressor.score}
    return ((y - mean) / unit).astype(np.float32), artifacts
