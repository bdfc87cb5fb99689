"""The common part of models that are read from a run folder: predictions for files, results on the training data."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.config import KernelConfig, RunConfig
from recipes.results.drawing import Drawing
from recipes.task import Data, Inputs, Task
from recipes.training.run import check_artifacts, load_data

if TYPE_CHECKING:
    from xjax.typing import PyTree


class Opened:
    """A model of a run.

    Attributes:
      folder: the folder that was read.
      config, task: those of the run.
    """

    config: RunConfig | KernelConfig
    exported = False                                          # whether `recipes.export` wrote the folder

    def __init__(self, folder: Path, config: RunConfig | KernelConfig, task: Task) -> None:
        self.folder, self.config, self.task = folder, config, task

    def about(self) -> dict[str, str]:
        """The cells of a table in which this model differs from others of its run, by heading."""
        raise NotImplementedError(f"{type(self).__name__} has no `about`.")

    def origin(self) -> str:
        """How the predictions are made, in words after "by"."""
        raise NotImplementedError(f"{type(self).__name__} has no `origin`.")

    def predict(self, inputs: str | Path | Inputs) -> dict[str, np.ndarray]:
        """Columns of predictions for the rows of a file.  Raises: DataError if it lacks columns of the model.

        Args: inputs: a file, or `Inputs` that a method of the task returned.
        """
        if not isinstance(inputs, Inputs):
            inputs = self.task.read(Path(inputs).expanduser())
            for note in inputs.notes:
                warnings.warn(note, stacklevel=2)
        columns = self.columns(inputs.rows)
        return {f"input {name}" if name in columns else name: ids for name, ids in inputs.names.items()} | columns

    def columns(self, rows: PyTree) -> dict[str, np.ndarray]:
        """The columns of predictions for examples."""
        raise NotImplementedError(f"{type(self).__name__} has no `columns`.")

    def metrics(self, split: str) -> dict[str, float]:
        """Metrics on a split of the training data; {} if there is none.  Raises: RecipeError if the data changed."""
        totals = self.totals(split)
        return self.task.metrics(totals) if totals else {}

    def totals(self, split: str) -> dict[str, tuple[Any, Any]]:
        """Sums and weights of the metrics on a split."""
        raise NotImplementedError(f"{type(self).__name__} has no `totals`.")

    def outputs(self, split: str) -> PyTree:
        """The outputs of the model for each row of a split, as NumPy arrays; None if there is no such split."""
        raise NotImplementedError(f"{type(self).__name__} has no `outputs`.")

    def rows(self, split: str) -> PyTree:
        """The examples of a split."""
        return self._splits.get(split)

    def facts(self) -> dict[str, str]:
        """Facts on the training data, by name.  Raises: RecipeError if it is missing or changed."""
        return self._data.summary

    def draw(self) -> dict[str, Drawing]:
        """Parts of a report, by title."""
        return self.task.draw(self)

    @functools.cached_property
    def _data(self) -> Data:
        data = load_data(self.config, self.task.artifacts)
        check_artifacts(self.task.artifacts, data.artifacts, self.folder)
        return data

    @property
    def _splits(self) -> dict[str, Any]:
        return self._data.splits
