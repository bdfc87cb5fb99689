"""Figures of a run: learning curves, comparisons, confusion matrices, predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.errors import ConfigError
from recipes.lazy import mpl_cm, mpl_colors, mpl_figure, mpl_ticker  # not pyplot: no display, no global state
from recipes.names import on_plot
from recipes.results import numbers
from xnn.whole_files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

COLOURS = {"train": "#4477aa", "val": "#cc6677", "test": "#228833"}
PANEL = (4.8, 3.6)  # inches
MANY = 300  # points; a longer curve is drawn as a running mean, over its raw values in a thin line


def learning_curve(records: Sequence[Any], score: str, test: dict[str, float], title: str, file: Path) -> None:
    """Writes `curve_figure` as a PNG."""
    save_figure(curve_figure(records, score, test, title), file)


def save_figure(figure: mpl_figure.Figure, file: Path) -> None:
    """Writes a whole picture or none, in the format that the name of the file ends with; without an ending, a PNG.

    Raises: ConfigError for an unknown format.
    """
    kinds, kind = figure.canvas.get_supported_filetypes(), file.suffix[1:].lower() or "png"
    if kind not in kinds:
        raise ConfigError("plot", "the format of the picture is not known.", {"file": file},
                          fix=f"a name that ends with one of {', '.join(f'.{each}' for each in kinds)}.")
    with whole_file(file) as out:
        figure.savefig(out, format=kind)


def curve_figure(records: Sequence[Any], score: str, test: dict[str, float], title: str) -> mpl_figure.Figure:
    """A panel for the loss and one for ``score``, over the step; a line for each split, and a dot for the test."""
    figure = mpl_figure.Figure(figsize=(9.6, 3.6), dpi=150, layout="constrained")
    metrics = dict.fromkeys(["loss", score])
    for axis, metric in zip(np.atleast_1d(figure.subplots(1, len(metrics))), metrics, strict=True):
        _curves(axis, records, metric, test)
    figure.suptitle(on_plot(title, 100), fontsize=12, x=0.01, ha="left")
    return figure


def curve_figures(records: Sequence[Any], score: str, test: dict[str, float]) -> list[mpl_figure.Figure]:
    """The panels of `curve_figure`, each as a figure."""
    figures = []
    for metric in dict.fromkeys(["loss", score]):
        figure, axis = _panel()
        _curves(axis, records, metric, test)
        figures.append(figure)
    return figures


def comparison_figure(runs: dict[str, Sequence[Any]], metrics: Sequence[str]) -> mpl_figure.Figure:
    """A panel for each metric, such as "val/loss", with a line for each run, and the names of the runs below."""
    panels = max(1, len(metrics))
    figure = mpl_figure.Figure(figsize=(4.8 * panels, 3.6 + 0.2 * len(runs)), dpi=150, layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, panels))
    colours = mpl_cm.tab10.colors if len(runs) <= 10 else mpl_cm.turbo(np.linspace(0, 0.95, len(runs)))
    for axis, metric in zip(axes, metrics, strict=False):
        for (name, records), colour in zip(runs.items(), colours, strict=False):
            points = [(record.step, record.values[metric]) for record in records if metric in record.values]
            steps, values = np.array(points).T if points else ((), ())
            axis.plot(steps, values, linewidth=1.4, color=colour, label=on_plot(name), **_marker(points))
        _dress(axis, metric, of_one_run=False)
    handles = list(axes[0].lines)                             # named: matplotlib leaves out names that begin with _
    figure.legend(handles, [line.get_label() for line in handles], loc="outside lower left", frameon=False, fontsize=9)
    return figure


def sweep_figure(rows: Sequence[tuple[str, Sequence[float]]], metric: str) -> mpl_figure.Figure:
    """Mean and standard deviation of a metric, a row for each combination of a sweep, with the values as dots."""
    longest = max((len(name) for name, _ in rows), default=0)
    figure = mpl_figure.Figure(figsize=(4.6 + 0.08 * min(longest, 60), 1.3 + 0.32 * len(rows)), dpi=150,
                               layout="constrained")
    axis = figure.subplots()
    for i, (_, values) in enumerate(rows):
        finite = [value for value in values if np.isfinite(value)]
        axis.plot(finite, [i] * len(finite), "o", color=COLOURS["test"], alpha=0.35, markersize=4)
        if finite:
            axis.errorbar(np.mean(finite), i, xerr=np.std(finite, ddof=1) if len(finite) > 1 else None, fmt="|",
                          color=COLOURS["test"], markersize=12, capsize=3)
    axis.set_yticks(range(len(rows)), [on_plot(name, 60) for name, _ in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)                      # in the order of the table
    axis.set_title(f"test {numbers.words(metric)}", loc="left", fontsize=11)
    axis.margins(x=0.08)
    _label_ticks(axis.xaxis, metric)
    axis.grid(axis="x", alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def _panel() -> tuple[mpl_figure.Figure, Axes]:
    """A figure of one plot, of half a page."""
    figure = mpl_figure.Figure(figsize=PANEL, dpi=150, layout="constrained")
    return figure, figure.subplots()


def _curves(axis: Axes, records: Sequence[Any], metric: str, test: dict[str, float]) -> None:
    for split in ("train", "val"):
        _curve(axis, records, split, metric)
    _final(axis, records[-1].step, metric, test.get(metric))
    _dress(axis, metric)


def _curve(axis: Axes, records: Sequence[Any], split: str, metric: str) -> None:
    name = f"{split}/{metric}"
    points = [(record.step, record.values[name]) for record in records if name in record.values]
    if not points:
        return
    steps, values = np.array(points).T
    if len(points) > MANY:
        axis.plot(steps, values, color=COLOURS[split], linewidth=0.6, alpha=0.3)
        values = _running_mean(values, len(points) // 50)
    axis.plot(steps, values, color=COLOURS[split], linewidth=1.4, label=split, **_marker(points))


def _marker(points: Sequence[Any]) -> dict[str, Any]:
    """Draws dots if there are few points: a line of one point is not visible."""
    return {"marker": "o", "markersize": 3} if len(points) <= 30 else {}


def _running_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Mean over the ``window`` values around each value; over fewer at the ends."""
    ones = np.ones(window)
    return np.convolve(values, ones, "same") / np.convolve(np.ones_like(values), ones, "same")


def _final(axis: Axes, step: int, metric: str, value: float | None) -> None:
    if value is not None:
        text = numbers.metric(metric, value)
        style = {"color": COLOURS["test"], "markersize": 6, "clip_on": False, "zorder": 5}
        axis.plot(step, value, "o", label=f"test, last step: {text}", **style)


def _dress(axis: Axes, metric: str, of_one_run: bool = True) -> None:
    """Labels and a grid. The curves of one run have a legend, values from 0, and shares up to 1."""
    axis.set_xlabel("step")
    axis.set_title(on_plot(numbers.words(metric)), loc="left", fontsize=11)
    axis.set_xlim(left=0)
    if of_one_run and (not axis.lines or min(np.min(line.get_ydata(), initial=0) for line in axis.lines) >= 0):
        axis.set_ylim(bottom=0)
    if of_one_run and metric.endswith(("accuracy", "roc_auc", "average_precision")):
        axis.set_ylim(0, 1.03)
    _label_ticks(axis.yaxis, metric)
    axis.xaxis.set_major_locator(mpl_ticker.MaxNLocator(6, integer=True))
    _grid(axis)
    lines = [line for line in axis.lines if not line.get_label().startswith("_child")]
    if lines and of_one_run:                                  # named: matplotlib leaves out names that begin with _
        axis.legend(lines, [line.get_label() for line in lines], frameon=False, fontsize=9)


def confusion_figure(counts: np.ndarray, classes: Sequence[str]) -> mpl_figure.Figure:
    """Counts [classes, classes] as a coloured table: a row for each true class, a column for each predicted class."""
    n, classes = len(classes), [on_plot(name) for name in classes]
    longest = max(map(len, classes))
    side = max(3.2, 0.42 * n + 1.6) + 0.08 * max(0, longest - 12)         # inches, with room for long names
    figure = mpl_figure.Figure(figsize=(side, side), dpi=150, layout="constrained")
    axis = figure.subplots()
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    colours = [COLOURS["train"] + opacity for opacity in ("00", "ff")]    # 0 is transparent, on any background
    axis.imshow(share, cmap=mpl_colors.LinearSegmentedColormap.from_list("counts", colours), vmin=0, vmax=1)
    if n <= 20:
        for i, j in np.ndindex(n, n):
            if counts[i, j]:
                axis.text(j, i, f"{counts[i, j]:.0f}", ha="center", va="center", fontsize=8,
                          color="white" if share[i, j] > 0.5 else "black")
    ticks = range(n) if n <= 20 else range(0, n, n // 10)
    crowded = longest * len(ticks) > 2.5 * max(n, 7)       # characters that fit below the columns
    axis.set_xticks(ticks, [classes[i] for i in ticks], rotation=45 if crowded else 0)
    axis.set_yticks(ticks, [classes[i] for i in ticks])
    axis.set_xlabel("predicted")
    axis.set_ylabel("true class")
    return figure


def calibration_figure(sums: np.ndarray) -> mpl_figure.Figure:
    """The share of right predictions over their probability, for bins of it, and the number of examples in each.

    Args: sums: [3, bins], number of examples, sum of the highest probability, number of right predictions.
    """
    counts, confident, right = sums
    edges, some = np.linspace(0, 1, len(counts) + 1), counts > 0
    figure = mpl_figure.Figure(figsize=PANEL, dpi=150, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    error = np.abs(confident - right).sum() / max(counts.sum(), 1)
    above.plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
    above.plot(confident[some] / counts[some], right[some] / counts[some], "o-", color=COLOURS["train"], markersize=4)
    above.set_title(f"mean gap to the diagonal: {numbers.share(error)}", loc="left", fontsize=10)
    above.set_ylabel("right predictions")
    below.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=COLOURS["train"], alpha=0.6)
    below.set_ylabel("examples")
    below.set_xlabel("probability of the predicted class")
    above.set_ylim(0, 1.03)
    below.set_xlim(0, 1)
    for axis in (above.yaxis, below.xaxis):
        axis.set_major_formatter(mpl_ticker.PercentFormatter(xmax=1))
    below.yaxis.set_major_locator(mpl_ticker.MaxNLocator(3, integer=True))
    for axis in (above, below):
        _grid(axis)
    return figure


def residual_figures(truth: np.ndarray, predicted: np.ndarray, name: str) -> list[mpl_figure.Figure]:
    """Predictions over true values, and residuals (true - predicted) over predictions."""
    (left, fit), (right, rest) = _panel(), _panel()
    low, high = float(min(truth.min(), predicted.min())), float(max(truth.max(), predicted.max()))
    fit.plot([low, high], [low, high], color="#999999", linewidth=0.8)
    rest.axhline(0, color="#999999", linewidth=0.8)
    style = {"marker": ".", "linestyle": "", "markersize": 4, "alpha": 0.6, "color": COLOURS["train"]}
    fit.plot(truth, predicted, **style)
    rest.plot(predicted, truth - predicted, **style)
    for axis, x, y in ((fit, f"true {on_plot(name)}", "predicted"), (rest, "predicted", "true - predicted")):
        axis.set_xlabel(x)
        axis.set_ylabel(y)
        for values in (axis.xaxis, axis.yaxis):
            values.set_major_locator(mpl_ticker.MaxNLocator(5))
            _label_ticks(values)
        _grid(axis)
    return [left, right]


def _label_ticks(axis: Axis, metric: str = "") -> None:
    """Shares in percent, and separated thousands; matplotlib alone writes 0.2 with a distant 1e6.

    Args: metric: whose values the axis has.
    """
    low, high = axis.get_view_interval()
    if numbers.is_share(metric):
        axis.set_major_formatter(mpl_ticker.FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))
    elif 1e4 <= max(-low, high) < 1e9:
        axis.set_major_formatter(mpl_ticker.StrMethodFormatter("{x:,.10g}"))


def _grid(axis: Axes) -> None:
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)


def scores_figure(scores: dict[str, np.ndarray]) -> mpl_figure.Figure:
    """Histograms of probabilities.  Args: scores: kind of pair -> its probabilities."""
    figure, axis = _panel()
    for (name, values), colour in zip(scores.items(), COLOURS.values(), strict=False):
        axis.hist(values, bins=np.linspace(0, 1, 31), alpha=0.5, label=on_plot(f"{name} ({len(values)})"), color=colour)
    axis.set_xlim(0, 1)
    axis.set_xlabel("probability")
    axis.set_ylabel("number of pairs")
    axis.yaxis.set_major_locator(mpl_ticker.MaxNLocator(6, integer=True))
    _grid(axis)
    axis.legend(frameon=False, fontsize=9)
    return figure
