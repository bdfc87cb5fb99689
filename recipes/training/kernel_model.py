"""A kernel regression: its predictions, metrics and figures, and its files in a run folder.

    kernel.safetensors  training inputs, coefficients of the prediction, for numbers a factor of the inverse
    kernel.json         digest of that file, ridge, calibration, artifacts of the data
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recipes.config import KernelConfig
from recipes.data.facts import Table
from recipes.data.points import Limit, Points, points_from
from recipes.errors import CheckpointError, RecipeError
from recipes.lazy import safetensors_numpy, tensor_files, tree_util, xjax
from recipes.process.parallel import choose_devices
from recipes.results.drawing import Drawing
from recipes.results.folder import read_json, saved_kernel_config, write_json
from recipes.results.kernel_plots import coverage_figure, selection_figures
from recipes.results.numbers import metric, number, words
from recipes.settings.config_file import task_module
from recipes.task import Artifacts, Bound, Task
from recipes.training.opened import Opened
from recipes.training.ridge import coverage, negative_log_likelihood

if TYPE_CHECKING:
    from xjax.typing import PyTree

ARRAYS, ABOUT = "kernel.safetensors", "kernel.json"


class Fitted(NamedTuple):
    """The result of a kernel regression.

    Attributes:
      points: the training inputs.
      dual, mean: the prediction for a point is ``mean + kernel(point, points) @ dual``.
      ridge: the number that is added to the diagonal.
      calibration: of classes, the factor of predictions before the softmax; else that of variances.
      factor: see `Ridge.factor`; [0, 0] for classes.
      diag_reg: the ridge in units of the mean of the diagonal.
    """

    points: Points
    dual: np.ndarray
    mean: np.ndarray
    ridge: float
    calibration: float
    factor: np.ndarray
    diag_reg: float

    def values(self, across: np.ndarray, variances: np.ndarray | None) -> Values:
        """The predictions.  Args: across: the kernel of points with the training points; variances: its diagonal."""
        mean = self.mean + across @ self.dual
        if variances is None:
            return Values(self.calibration * mean, None)
        explained = np.sum((across @ self.factor)**2, axis=1)
        left = np.maximum(variances - explained, 0) + self.ridge
        return Values(mean[:, 0], np.sqrt(self.calibration * left))


class Values(NamedTuple):
    """Predictions: logits [n, classes], or means and deviations [n] as the model gives them."""

    mean: np.ndarray
    deviation: np.ndarray | None


def limit_of(config: KernelConfig, task: Task, progress: Any = None) -> Limit:
    """The kernel that a config describes."""
    section = config.kernel
    more = {} if progress is None else {"progress": progress}
    return Limit(task.limit, section.name, section.parameterization, section.dtype, section.memory_budget,
                 choose_devices(config.devices), **more)


class KernelModel(Opened):
    """A kernel regression, made by `recipes.trained.open_run`.  Attributes: fitted: its coefficients."""

    config: KernelConfig

    def __init__(self, folder: Path, config: KernelConfig, task: Task, fitted: Fitted) -> None:
        super().__init__(folder, config, task)
        self.fitted = fitted
        self._values: dict[str, Values] = {}

    @property
    def has_classes(self) -> bool:
        """Whether it predicts classes, not a number."""
        return "classes" in self.task.artifacts

    def about(self) -> dict[str, str]:
        return {"kernel": self.config.kernel.name, "diag_reg": f"{self.fitted.diag_reg:g}"}

    def origin(self) -> str:
        return f"kernel regression on {number(len(self.fitted.points))} examples"

    # -- predictions -----------------------------------------------------------------------------------------------

    def values_of(self, rows: PyTree) -> Values:
        """Predictions for examples."""
        points, limit = self.task.points(rows), limit_of(self.config, self.task)
        across = points.against(limit, self.fitted.points)
        return self.fitted.values(across, None if self.has_classes else points.variances(limit))

    def columns(self, rows: PyTree) -> dict[str, np.ndarray]:
        """The columns of the task; for a number also its deviation, in its unit."""
        values = self.values_of(rows)
        columns = self.task.columns(self.task.outputs_of(rows, values.mean))
        if values.deviation is None:
            return columns
        return columns | {f"deviation of {name}": self._in_unit(values.deviation) for name in columns}

    def _in_unit(self, deviations: np.ndarray) -> np.ndarray:
        """Deviations in the unit of the target, with 6 digits."""
        unit = self.task.artifacts["target_unit"]
        return np.round(unit * deviations, 6 - math.ceil(math.log10(unit)))

    # -- on the data of the run ------------------------------------------------------------------------------------

    def keep(self, split: str, values: Values) -> None:
        """Keeps predictions for a split that are known, with which its metrics are computed."""
        self._values[split] = values

    def values(self, split: str) -> Values:
        """Predictions for the examples of a split, computed once."""
        if split not in self._values:
            self._values[split] = self.values_of(self._splits[split])
        return self._values[split]

    def outputs(self, split: str) -> PyTree:
        rows = self._splits.get(split)
        return None if rows is None else self.task.outputs_of(rows, self.values(split).mean)

    def totals(self, split: str) -> dict[str, tuple[Any, Any]]:
        if split not in self._splits:
            return {}
        task: Any = self.task
        targets, outputs = task.targets(self._splits[split]), self.values(split).mean.astype(np.float32)
        sums = task.sums_of(Bound(task.model, (), ()), outputs, targets, np.ones(len(targets), np.float32))
        return tree_util.tree_map(np.asarray, xjax.device_get(sums))

    def metrics(self, split: str) -> dict[str, float]:
        """The metrics of the task, and the error of the calibration: of probabilities, or of intervals."""
        totals = self.totals(split)
        if not totals:
            return {}
        metrics = self.task.metrics(totals)
        if self.has_classes:
            _, confident, right = np.asarray(totals["calibration"][0], float)
            return metrics | {"calibration_error": float(np.abs(confident - right).sum() / totals["calibration"][1])}
        values, truth = self.values(split), self.task.targets(self._splits[split])
        assert values.deviation is not None                   # of a regression
        shares = coverage(truth, values.mean, values.deviation)
        unit = self.task.artifacts["target_unit"]
        return metrics | {f"coverage_{100 * level:.0f}": share for level, share in shares.items()} | {
            "negative_log_likelihood": math.log(unit) + negative_log_likelihood(truth, values.mean,
                                                                                values.deviation**2)}

    # -- report ----------------------------------------------------------------------------------------------------

    @functools.cached_property
    def result(self) -> dict[str, Any]:
        """The content of result.json."""
        return read_json(self.folder / "result.json")

    def draw(self) -> dict[str, Drawing]:
        """The parts of the task; for a number the coverage of intervals; and the choice of the ridge."""
        task: Any = self.task
        parts: dict[str, Drawing] = dict(task.draw(self))
        if not self.has_classes and "test" in self._splits:
            values, truth = self.values("test"), task.targets(self._splits["test"])
            parts["Intervals, test"] = coverage_figure(truth, values.mean, np.asarray(values.deviation))
        if self.result:
            parts["Choice of the ridge"] = candidates_table(self.result)
            parts["Kernel"] = selection_figures(self.result)
        return parts


def candidates_table(result: dict[str, Any], without: Sequence[str] = ()) -> Table:
    """The candidates of the ridge, with the scores by which one was chosen.  Args: without: columns to leave out."""
    rows = result["candidates"]
    names = [name for name in rows[0] if name not in ("diag_reg", *without)]
    chosen = result["chosen"]["diag_reg"]
    cells = [(f"{row['diag_reg']:g}", *(_cell(name, row.get(name)) for name in names),
              "chosen" if row["diag_reg"] == chosen else "") for row in rows]
    note = "left out: the prediction for each training example from all others."
    return Table(("diag_reg", *(words(name).replace("_", " ") for name in names), ""), cells, note)


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "singular"
    return f"{value:.1e}" if name == "condition" else metric(name, value)


# ---- files -------------------------------------------------------------------------------------------------------


def write_fitted(folder: Path, fitted: Fitted, artifacts: Artifacts) -> None:
    """Writes the two files of a kernel regression."""
    arrays = {"dual": fitted.dual, "mean": fitted.mean, "factor": fitted.factor}
    arrays |= {f"points/{name}": array for name, array in fitted.points.arrays().items()}
    tensor_files.write(folder / ARRAYS, {name: np.ascontiguousarray(array) for name, array in arrays.items()})
    write_json(folder / ABOUT, {"sha256": _digest(folder / ARRAYS), "ridge": fitted.ridge, "diag_reg": fitted.diag_reg,
                                "calibration": fitted.calibration, "artifacts": artifacts})


def open_kernel_run(folder: Path, last: bool = False) -> KernelModel:
    """The kernel regression of a run folder.

    Raises: RecipeError if it is not finished, or for `last`; CheckpointError if a file is damaged.
    """
    if last:
        raise RecipeError("run", "a kernel regression has no steps, so it has no last parameters.", {"run": folder},
                          fix="leave out --last.")
    config = saved_kernel_config(folder)
    file = folder / ABOUT
    if not file.is_file():
        raise RecipeError("run", "it is not finished.", {"run": folder},
                          fix=f"python -m recipes.kernel --config {folder / 'config.yaml'} run_dir=FOLDER.")
    try:
        about = json.loads(file.read_text("utf-8"))
        if about["sha256"] != _digest(folder / ARRAYS):
            raise ValueError(f"{ARRAYS} is not the file that was written with it")
        arrays = safetensors_numpy.load_file(folder / ARRAYS)
        points = points_from({name.removeprefix("points/"): array for name, array in arrays.items()
                              if name.startswith("points/")})
        fitted = Fitted(points, arrays["dual"], arrays["mean"], float(about["ridge"]), float(about["calibration"]),
                        arrays["factor"], float(about["diag_reg"]))
        artifacts = about["artifacts"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as err:
        raise CheckpointError("run", "the kernel regression is damaged.", {"run": folder, "why": err},
                              fix="a copy of the run, or the same kernel regression again.") from None
    return KernelModel(folder, config, task_module(config.task.name).make(config.task, artifacts), fitted)


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
