"""The parts of a file in `recipes.tasks`: a section of the config, the reading of data, and a `Task`.

    class Config(TaskConfig): ...                         # the keys of the section, with their defaults
    def load(config: Config) -> Data: ...                 # reads the training data
    def make(config: Config, artifacts) -> Task: ...      # model, loss and metrics; needs no training data
    def preview(config: Config) -> Preview: ...           # optional: tables and pictures of `--preview`

A task whose artifacts depend on rules that versions change, such as the kinds of columns, also has ``load_again(config,
artifacts)``. It is `load` for a run that has begun, and keeps to the artifacts that the run recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from recipes.batches import Batches, RowBatches
from recipes.data.points import Points
from recipes.errors import DataError
from recipes.lazy import xjax, xnn
from recipes.process.parallel import Placer
from recipes.results.drawing import Drawing

if TYPE_CHECKING:
    from recipes.config import TaskConfig
    from recipes.trained import Trained
    from xjax.typing import Params, PRNGKey, PyTree

Artifacts = dict[str, Any]                                # see `Data`
Sums = dict[str, tuple[Any, Any]]                         # name -> (sum, weight) over this device's rows


class Data(NamedTuple):
    """The training data of a task.

    Attributes:
      splits: "train", and "val" and "test" where they have examples. The values are arguments of `Task.batches`, mostly
        `Rows`.
      artifacts: data that the model needs besides its parameters, such as class names or the means of columns: dicts,
        lists, texts and numbers. They are saved with every checkpoint, so a trained model is read without its data.
      summary: facts that a run prints at its start, by name.
    """

    splits: dict[str, Any]
    artifacts: Artifacts
    summary: dict[str, str]


class Preview(NamedTuple):
    """The data that ``--preview`` shows: their summary, and parts by title. Pictures are on a page only."""

    data: Data
    parts: Mapping[str, Drawing]


@dataclass(frozen=True)
class Inputs:
    """The content of a file of inputs; ``rows, names = inputs`` works too.

    Attributes:
      rows: a split, as `Task.batches` takes it.
      names: columns that identify the rows, such as names of files; they are copied to the output.
      notes: remarks on the file for the user, such as columns that are not used.
    """

    rows: Any
    names: dict[str, np.ndarray]
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter((self.rows, self.names))


class Bound:
    """A model with its parameters, state and key, called as ``model(x, mask=mask)``.

    Attributes:
      rng: key of this step, a `RowKey`: random numbers of a row do not depend on the number of devices. None in
        evaluation.
      state: of the model; each call replaces it by the new state.
    """

    def __init__(self, layer: xnn.Layer, params: Params, state: PyTree, rng: xnn.RowKey | None = None,
                 train: bool = False) -> None:
        self._layer, self.params, self.state, self.rng, self.train = layer, params, state, rng, train

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        y, self.state = self._layer.apply_with_state(self.params, self.state, *inputs, rng=self.rng, train=self.train,
                                                     **named)
        return y


class Task:
    """Model, loss and metrics of one problem. A subclass sets the attributes in its constructor.

    Attributes:
      model: a Layer.
      inputs: shapes or example arrays for ``model.init``.
      score: the metric by which the best parameters are chosen.
      reported: the metrics that a run prints at its end; only the score if there are none.
      higher_is_better: whether a higher score is better.
      independent_examples: whether examples are independent of each other, as `Privacy` requires.
      divisible: whether the arrays of a batch can be split into equal parts, for `accumulate`.
      artifacts: those of its `Data`.
    """

    config: Any                           # the `Config` of the file of the task
    model: xnn.Layer
    inputs: tuple[Any, ...]
    score = "loss"
    reported: tuple[str, ...] = ()
    higher_is_better = False
    independent_examples = False
    divisible = True

    def __init__(self, config: TaskConfig, artifacts: dict[str, Any]) -> None:
        self.config, self.artifacts = config, artifacts

    def sums(self, model: Bound, batch: PyTree) -> Sums:
        """Sums and weights over the rows of ``batch``, inside pmap; ``"loss"`` is minimised.

        A sum may be an array, such as a confusion matrix, for the method `metrics`; its weight is then ignored.
        """
        raise NotImplementedError(f"{type(self).__name__} has no `sums`: docs/new_task.md shows what a task needs.")

    def metrics(self, totals: dict[str, tuple[Any, Any]]) -> dict[str, float]:
        """Metrics from the sums over a whole split: the quotient sum / weight of each pair of numbers."""
        return {name: float(total) / float(weight) if float(weight) else float("nan")
                for name, (total, weight) in totals.items() if np.ndim(total) == 0}

    def remark(self, totals: dict[str, dict[str, tuple[Any, Any]]]) -> str:
        """A sentence about results that a user should know of, such as a model that predicts one class; or "".

        Args: totals: split -> sums over the whole split, for splits with examples.
        """
        return ""

    def batches(self, split: Any, placer: Placer, seed: int) -> Batches:
        """The batches of a split of `Data.splits`."""
        return RowBatches(split, placer, self.config.batch_size, seed)

    def init(self, rng: PRNGKey) -> tuple[Any, Any]:
        """(params, state) before the first step."""
        _, params = self.model.init(rng, *self.inputs)
        return params, self.model.init_state(*self.inputs)

    # -- kernel regression -----------------------------------------------------------------------------------------

    @property
    def limit(self) -> xnn.Layer:
        """The layer whose kernel of infinite width is used: the model, without a softmax at its end."""
        return self.model

    def points(self, split: Any) -> Points:
        """The inputs of a split, for a kernel."""
        raise NotImplementedError(f"{type(self).__name__} has no `points`, which kernel regression needs.")

    def targets(self, split: Any) -> np.ndarray:
        """Ids of classes, or numbers as the model gives them, for each of the points."""
        raise NotImplementedError(f"{type(self).__name__} has no `targets`, which kernel regression needs.")

    def outputs_of(self, split: Any, values: np.ndarray) -> PyTree:
        """The tree of `outputs` for a split.  Args: values: of the kernel regression, logits [n, classes] or [n]."""
        return values

    # -- after training --------------------------------------------------------------------------------------------

    def read(self, file: Path) -> Inputs:
        """The rows of a file of inputs without labels.

        Raises: DataError if the columns or features of the file are not those of the training data.
        """
        raise DataError("predict", f"the task {self.config.name!r} cannot predict from a file.", {"file": file},
                        fix="evaluate or generate.")

    def outputs(self, model: Bound, batch: PyTree) -> PyTree:
        """The outputs of the model for each row of ``batch``, inside pmap: a tree of arrays [rows, ...]."""
        raise NotImplementedError(f"{type(self).__name__} has no `outputs`, which predictions and figures need.")

    def columns(self, outputs: PyTree) -> dict[str, np.ndarray]:
        """Columns of a table from the outputs of a whole file, as NumPy arrays: labels, probabilities, values."""
        raise NotImplementedError(f"{type(self).__name__} has no `columns`, which `recipes.predict` needs.")

    def draw(self, trained: Trained) -> dict[str, Drawing]:
        """Parts of the report, by title: a matplotlib Figure or several, a `Table`, or text such as samples.

        Args: trained: a `recipes.trained.Trained`, with ``outputs(split)`` and ``totals(split)``.
        """
        return {}


def metrics_by_name(names: Sequence[str], *args: Any, **named: Any) -> dict[str, float]:
    """Values of functions of `xnn.metrics` on the same arguments, computed in one program."""
    return {name: float(value) for name, value in _metrics(tuple(names))(args, named).items()} if names else {}


@functools.cache
def _metrics(names: tuple[str, ...]) -> Callable[..., Any]:
    return xjax.jit(lambda args, named: {name: getattr(xnn.metrics, name)(*args, **named) for name in names})
