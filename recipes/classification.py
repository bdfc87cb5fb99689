"""The common part of all tasks with classes: loss, metrics by name, weights of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from recipes.config import TaskConfig
from recipes.lazy import jnp, xnn
from recipes.process.parallel import weighted
from recipes.results.plots import confusion_figure
from recipes.task import Bound, Sums, Task, metrics_by_name

if TYPE_CHECKING:
    from recipes.trained import Trained
    from xjax.typing import ArrayLike

Metric = Literal["balanced_accuracy", "f1", "precision", "recall"]
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

    def sums_of(self, model: Bound, logits: ArrayLike, labels: ArrayLike, weight: ArrayLike) -> Sums:
        """`Task.sums` from logits [rows, classes], labels [rows] and weight [rows]."""
        losses = jnp.asarray(xnn.losses.cross_entropy(logits, labels, reduction=None))
        share = weight * jnp.asarray(self.artifacts["class_weights"], float)[labels]
        guesses = jnp.argmax(logits, axis=-1)
        sums = {"loss": weighted(losses, share), "accuracy": weighted(guesses == labels, weight)}
        if not model.train:
            n = len(self.artifacts["classes"])
            sums["confusion"] = xnn.metrics.confusion_matrix(guesses, labels, n, weights=weight), jnp.sum(weight)
        return sums

    def metrics(self, totals: dict[str, tuple[Any, Any]]) -> dict[str, float]:
        result = super().metrics(totals)
        if "confusion" in totals:
            functions = {name: _OTHER_NAMES.get(name, name) for name in self.config.metrics}
            values = metrics_by_name(sorted(set(functions.values())), np.asarray(totals["confusion"][0], np.float32))
            result |= {name: values[function] for name, function in functions.items()}
        return result

    def columns(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        """The class with the highest probability, and the probabilities.  Args: outputs: probabilities [n, classes]."""
        classes = self.artifacts["classes"]
        labels = np.array(classes, object)[np.argmax(outputs, axis=1)]
        return {"label": labels, **{f"probability of {name}": outputs[:, i] for i, name in enumerate(classes)}}

    def draw(self, trained: Trained) -> dict[str, Any]:
        """The confusion matrix of the test split."""
        totals = trained.totals("test")
        if not totals:
            return {}
        return {"Confusion, test": confusion_figure(totals["confusion"][0], self.artifacts["classes"])}


def class_artifacts(classes: list[str], labels: np.ndarray, config: ClassesConfig) -> dict[str, Any]:
    """The artifacts of a `Classifier`.  Args: labels: of the training examples, ids into ``classes``."""
    counts = np.bincount(labels, minlength=len(classes))
    even = len(labels) / (len(classes) * np.maximum(counts, 1))
    weights = even if config.class_weights == "balanced" else np.ones(len(classes))
    return {"classes": classes, "class_weights": [float(weight) for weight in weights]}
