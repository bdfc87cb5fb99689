"""What the loop asks of a task."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

Sums = dict[str, tuple[Any, Any]]  # metric -> (sum, weight) of this device's rows


class Task(Protocol):
    """Data, model and metrics of one problem.

    Attributes:
        score: the metric that the run is judged by.
        summary: lines for a person: what the data are.
    """

    score: str
    summary: dict[str, str]

    def init(self, rng: Any) -> Any:
        """Fresh parameters."""

    def train_batch(self, step: int) -> Any:
        """What step ``step`` trains on, placed: a pure function of ``step`` and the config."""

    def eval_batches(self, split: str) -> Iterable[Any]:
        """All of split "val" or "test", placed; nothing if the split is empty."""

    def sums(self, params: Any, batch: Any, *, rng: Any = None, train: bool = False) -> Sums:
        """Metrics of this device's rows, inside pmap; ``sums["loss"]`` is what is minimised."""
