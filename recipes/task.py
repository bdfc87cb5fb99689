"""What a file in `recipes.tasks` has: a section of the config, the reading of data, and a `Task`.

    class Config(TaskConfig): ...                         # the keys of the section, with their defaults
    def load(config: Config) -> Data: ...                 # reads the training data
    def make(config: Config, artifacts) -> Task: ...      # model, loss and metrics; needs no training data
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recipes.batches import Batches, RowBatches
from recipes.errors import DataError
from recipes.lazy import xjax, xnn
from recipes.process.parallel import Placer

Sums = dict[str, tuple[Any, Any]]                         # name -> (sum, weight) over this device's rows


class Data(NamedTuple):
    """What a task learns from.

    Attributes:
      splits: "train", and "val" and "test" where they have examples: what `Task.batches` takes, mostly `Rows`.
      artifacts: what the model needs besides its parameters, such as class names or the means of columns: dicts, lists,
        texts and numbers. They are saved with every checkpoint; a trained model is read without data.
      summary: lines for a person.
    """

    splits: dict[str, Any]
    artifacts: dict[str, Any]
    summary: dict[str, str]


class Inputs(NamedTuple):
    """What a file of inputs holds.

    Attributes:
      rows: what `Task.batches` takes.
      names: columns that tell the rows apart, copied to the output, such as names of files.
    """

    rows: Any
    names: dict[str, np.ndarray]


class Bound:
    """A model with its parameters, state and key, called as ``model(x, mask=mask)``.

    Attributes:
      rng: key of this step, a `RowKey`: draws of a row do not depend on the number of devices. None in evaluation.
      state: after a call, the state that the call left.
    """

    def __init__(self, layer: Any, params: Any, state: Any, rng: Any = None, train: bool = False) -> None:
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
      score: the metric by which the best parameters are chosen and the run is judged.
      higher_is_better: whether more of it is better.
      independent_examples: whether an example is a person's own, of which `Privacy` may speak.
      divisible: whether the arrays of a batch can be cut into equal parts, for `accumulate`.
      artifacts: of its `Data`.
    """

    model: Any
    inputs: tuple[Any, ...]
    score = "loss"
    higher_is_better = False
    independent_examples = False
    divisible = True

    def __init__(self, config: Any, artifacts: dict[str, Any]) -> None:
        self.config, self.artifacts = config, artifacts

    def sums(self, model: Bound, batch: Any) -> Sums:
        """Sums and weights over the rows of ``batch``, inside pmap; ``"loss"`` is what is minimised.

        A sum may be an array, such as a confusion matrix, which `metrics` reads; its weight is ignored then.
        """
        raise NotImplementedError(f"{type(self).__name__} has no `sums`: docs/new_task.md shows what a task needs.")

    def metrics(self, totals: dict[str, tuple[Any, Any]]) -> dict[str, float]:
        """Numbers from the sums over a whole split: the quotient of each pair of numbers."""
        return {name: float(total) / float(weight) if float(weight) else float("nan")
                for name, (total, weight) in totals.items() if np.ndim(total) == 0}

    def batches(self, split: Any, placer: Placer, seed: int) -> Batches:
        """The batches of a split of `Data.splits`."""
        return RowBatches(split, placer, self.config.batch_size, seed)

    def init(self, rng: Any) -> tuple[Any, Any]:
        """(params, state) before the first step."""
        _, params = self.model.init(rng, *self.inputs)
        return params, self.model.init_state(*self.inputs)

    # -- after training --------------------------------------------------------------------------------------------

    def read(self, file: Path) -> Inputs:
        """The rows of a file of inputs without answers.

        Raises: DataError if the file does not hold what the model was trained on, by name.
        """
        raise DataError("predict", f"the task {self.config.name!r} predicts no files.", {"file": file},
                        fix="evaluate or generate.")

    def outputs(self, model: Bound, batch: Any) -> Any:
        """What the model says of each row of ``batch``, inside pmap: a tree of arrays [rows, ...]."""
        raise NotImplementedError(f"{type(self).__name__} has no `outputs`, which predictions and pictures need.")

    def columns(self, outputs: Any) -> dict[str, np.ndarray]:
        """The outputs of a whole file, as NumPy arrays, as columns of a table: labels, probabilities, values."""
        raise NotImplementedError(f"{type(self).__name__} has no `columns`, which `recipes.predict` writes.")

    def draw(self, trained: Any) -> dict[str, Any]:
        """Title -> what the report shows: a matplotlib Figure, or text such as samples.

        Args: trained: a `recipes.trained.Trained`, with ``outputs(split)`` and ``totals(split)``.
        """
        return {}


def metrics_by_name(names: Sequence[str], *args: Any, **named: Any) -> dict[str, float]:
    """Functions of `xnn.metrics` of the same arguments, computed in one program."""
    return {name: float(value) for name, value in _metrics(tuple(names))(args, named).items()} if names else {}


@functools.cache
def _metrics(names: tuple[str, ...]) -> Any:
    return xjax.jit(lambda args, named: {name: getattr(xnn.metrics, name)(*args, **named) for name in names})
