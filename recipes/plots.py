"""The learning curve of a run as a PNG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure  # not pyplot: no display, no global state, half the import
from matplotlib.ticker import MaxNLocator, PercentFormatter

from recipes.loop import Record

COLOURS = {"train": "#4477aa", "val": "#cc6677", "test": "#228833"}
MANY = 300  # steps: from here on a train curve is drawn as a running mean over the raw values


def learning_curve(
    records: Sequence[Record], score: str, test: dict[str, float], title: str, file: Path
) -> None:
    """Two panels over the step, loss and ``score``, a line for each split; test is a final dot."""
    figure = Figure(figsize=(9.6, 3.6), dpi=150, layout="constrained")
    for axis, metric in zip(figure.subplots(1, 2), ("loss", score), strict=True):
        for split in ("train", "val"):
            _curve(axis, records, split, metric)
        _final(axis, records[-1].step, metric, test.get(metric))
        _dress(axis, metric)
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    figure.savefig(file)


def _curve(axis: Axes, records: Sequence[Record], split: str, metric: str) -> None:
    name = f"{split}/{metric}"
    points = [(record.step, record.values[name]) for record in records if name in record.values]
    if not points:
        return
    steps, values = np.array(points).T
    if len(points) > MANY:
        axis.plot(steps, values, color=COLOURS[split], linewidth=0.6, alpha=0.3)
        values = _running_mean(values, len(points) // 50)
    marker = {"marker": "o", "markersize": 3} if len(points) <= 30 else {}
    axis.plot(steps, values, color=COLOURS[split], linewidth=1.4, label=split, **marker)


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Mean over the ``window`` values around each; fewer at the ends."""
    ones = np.ones(window)
    return np.convolve(values, ones, "same") / np.convolve(np.ones_like(values), ones, "same")


def _final(axis: Axes, step: int, metric: str, value: float | None) -> None:
    if value is not None:
        text = f"{100 * value:.1f} %" if metric == "accuracy" else f"{value:.4g}"
        style = {"color": COLOURS["test"], "markersize": 6, "clip_on": False, "zorder": 5}
        axis.plot(step, value, "o", label=f"test, last step: {text}", **style)


def _dress(axis: Axes, metric: str) -> None:
    axis.set_xlabel("step")
    axis.set_title(metric.replace("_", " "), loc="left", fontsize=11)
    axis.set_xlim(left=0)
    axis.set_ylim(bottom=0)
    if metric == "accuracy":
        axis.set_ylim(0, 1.03)
        axis.yaxis.set_major_formatter(PercentFormatter(xmax=1))
    axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
