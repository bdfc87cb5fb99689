"""The common part of all tasks with classes: loss, metrics by name, weights of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from recipes.config import TaskConfig
from recipes.data.facts import Share, Table
from recipes.lazy import jnp, nn, xnn
from recipes.process.parallel import weighted
from recipes.results.drawing import Drawing
from recipes.results.plots import calibration_figure, confusion_figure
from recipes.task import Bound, Sums, Task, metrics_by_name

if TYPE_CHECKING:
    from recipes.trained import Trained
    from xjax.typing import Array, ArrayLike

Metric = Literal["balanced_accuracy", "f1", "precision", "recall"]
BINS = 10                                                 # of the highest probability, in a plot of the calibration
_OTHER_NAMES = {"balanced_accuracy": "recall"}            # of functions in xnn.metrics: it is the mean recall


class ClassesConfig(TaskConfig):
    """Keys of every classification task."""

    metrics: tuple[Metric, ...] = ()
    """Metrics of evaluations besides loss and accuracy; means over the classes."""
    class_weights: Literal["balanced"] | None = None
    """balanced: each class has the same weight in the loss, whatever its share of the training examples."""


class Classifier(Task):
    """A task whose model gives logits, or logarithms of probabilities, of ``artifacts["classes"]``."""

    score = "accuracy"
    higher_is_better = True

    def __init__(self, config: ClassesConfig, artifacts: dict[str, Any]) -> None:
        super().__init__(config, artifacts)
        self.reported = (self.score, *config.metrics)

    def sums_of(self, model: Bound, logits: ArrayLike, labels: ArrayLike, weight: ArrayLike) -> Sums:
        """`Task.sums` from logits [rows, classes], labels [rows] and weight [rows]."""
        losses = jnp.asarray(xnn.losses.cross_entropy(logits, labels, reduction=None))
        in_loss = weight * jnp.asarray(self.artifacts["class_weights"], float)[labels]
        guesses = jnp.argmax(logits, axis=-1)
        sums = {"loss": weighted(losses, in_loss), "accuracy": weighted(guesses == labels, weight)}
        if not model.train:
            n = len(self.artifacts["classes"])
            sums["confusion"] = xnn.metrics.confusion_matrix(guesses, labels, n, weights=weight), jnp.sum(weight)
            sums["calibration"] = _calibration(logits, guesses == labels, weight), jnp.sum(weight)
        return sums

    def metrics(self, totals: dict[str, tuple[Any, Any]]) -> dict[str, float]:
        result = super().metrics(totals)
        if "confusion" in totals:
            functions = {name: _OTHER_NAMES.get(name, name) for name in self.config.metrics}
            values = metrics_by_name(sorted(set(functions.values())), np.asarray(totals["confusion"][0], np.float32))
            result |= {name: values[function] for name, function in functions.items()}
        return result

    def remark(self, totals: dict[str, dict[str, tuple[Any, Any]]]) -> str:
        return one_class({split: np.asarray(sums["confusion"][0]) for split, sums in totals.items()},
                         self.artifacts["classes"])

    def outputs_of(self, split: Any, values: np.ndarray) -> Any:
        """Probabilities from logits."""
        powers = np.exp(values - values.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def columns(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        """The class with the highest probability, and the probabilities.  Args: outputs: probabilities [n, classes]."""
        classes = self.artifacts["classes"]
        labels = np.array(classes, object)[np.argmax(outputs, axis=1)]
        return {"label": labels, **{f"probability of {name}": outputs[:, i] for i, name in enumerate(classes)}}

    def draw(self, trained: Trained) -> dict[str, Drawing]:
        """For the test split: precision and recall of each class, the confusion matrix, the calibration."""
        totals, classes = trained.totals("test"), self.artifacts["classes"]
        if not totals:
            return {}
        confusion, calibration = (np.asarray(totals[name][0]) for name in ("confusion", "calibration"))
        return {"Classes, test": class_table(confusion, classes),
                "Confusion, test": confusion_figure(confusion, classes),
                "Calibration, test": calibration_figure(calibration)}


def class_table(confusion: np.ndarray, classes: Sequence[str]) -> Table:
    """Precision, recall, F1 and the number of examples of each class."""
    right, predicted, labelled = np.diag(confusion), confusion.sum(0), confusion.sum(1)
    columns = (right / np.maximum(predicted, 1), right / np.maximum(labelled, 1),
               2 * right / np.maximum(predicted + labelled, 1))
    rows = [(name, *(Share(column[i]) for column in columns), int(labelled[i]))
            for i, name in enumerate(classes)]
    return Table(("class", "precision", "recall", "F1", "examples"), rows)


def _calibration(logits: ArrayLike, right: ArrayLike, weight: ArrayLike) -> Array:
    """[3, BINS]: for bins of the highest probability, the number of examples, its sum, the number of right guesses."""
    confidence = jnp.max(nn.softmax(jnp.asarray(logits, float)), -1)
    bins = jnp.clip(jnp.ceil(confidence * BINS).astype(np.int32) - 1, 0, BINS - 1)
    rows = jnp.where(weight > 0, jnp.stack([jnp.ones_like(confidence), confidence, right]), 0) * weight
    return jnp.zeros((3, BINS), rows.dtype).at[:, bins].add(rows)


def one_class(confusions: Mapping[str, np.ndarray], classes: Sequence[str]) -> str:
    """A sentence if the model predicts the same class for all examples, though they have several classes; else "".

    Args: confusions: split -> [true class, predicted class].
    """
    whole = sum(confusions.values(), np.zeros((len(classes), len(classes))))
    predicted = np.flatnonzero(whole.sum(0))
    if len(predicted) != 1 or np.count_nonzero(whole.sum(1)) < 2:
        return ""
    return (f"the model predicts the class {str(classes[predicted[0]])!r} for all {whole.sum():.0f} examples of "
            f"{' and '.join(confusions)}; try more steps, another optim.lr, a smaller optim.weight_decay, or "
            "task.class_weights=balanced")


def class_artifacts(classes: list[str], labels: np.ndarray, config: ClassesConfig) -> dict[str, Any]:
    """The artifacts of a `Classifier`.  Args: labels: of the training examples, ids into ``classes``."""
    counts = np.bincount(labels, minlength=len(classes))
    even = len(labels) / (len(classes) * np.maximum(counts, 1))
    weights = even if config.class_weights == "balanced" else np.ones(len(classes))
    return {"classes": classes, "class_weights": [float(weight) for weight in weights]}
