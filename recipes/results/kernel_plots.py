"""Figures of a kernel regression: the choice of the ridge, the eigenvalues of the kernel, intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from recipes.lazy import mpl_figure, mpl_ticker
from recipes.results import numbers
from recipes.results.plots import COLOURS, PANEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEVELS = np.linspace(0.05, 0.95, 19)                          # probabilities of intervals


def selection_figure(result: Mapping[str, Any], title: str) -> mpl_figure.Figure:
    """The panels of `selection_figures`, with a title."""
    figure = mpl_figure.Figure(figsize=(14.4, 3.6), dpi=150, layout="constrained")
    for axis, draw in zip(figure.subplots(1, len(_PANELS)), _PANELS, strict=True):
        draw(axis, result)
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    return figure


def selection_figures(result: Mapping[str, Any]) -> list[mpl_figure.Figure]:
    """The scores and the marginal likelihood over the ridge, and the eigenvalues of the kernel of training inputs."""
    figures = []
    for draw in _PANELS:
        figure = mpl_figure.Figure(figsize=PANEL, dpi=150, layout="constrained")
        draw(figure.subplots(), result)
        figures.append(figure)
    return figures


def _scores(axis: Axes, result: Mapping[str, Any]) -> None:
    score = result["score"]
    for name, label, colour in ((f"val/{score}", "validation", "val"), (f"left_out/{score}", "left out", "train")):
        _over_ridge(axis, result, name, label, COLOURS[colour])
    if numbers.is_share(score):
        axis.yaxis.set_major_formatter(mpl_ticker.FuncFormatter(lambda value, _: f"{100 * value:.4g}%"))
    axis.set_title(numbers.words(score), loc="left", fontsize=11)
    axis.legend(frameon=False, fontsize=9)


def _evidence(axis: Axes, result: Mapping[str, Any]) -> None:
    _over_ridge(axis, result, "log_evidence", "", COLOURS["train"])
    axis.set_title("log marginal likelihood of an example", loc="left", fontsize=11)


def _over_ridge(axis: Axes, result: Mapping[str, Any], name: str, label: str, colour: str) -> None:
    rows = sorted((row["diag_reg"], row[name]) for row in result["candidates"]
                  if row["diag_reg"] > 0 and row.get(name) is not None and math.isfinite(row[name]))
    if rows:
        ridges, values = np.array(rows).T
        axis.plot(ridges, values, "o-", markersize=3, linewidth=1.4, color=colour, label=label)
    chosen = result["chosen"]["diag_reg"]
    axis.set_xscale("log")                                    # a ridge of 0 is in the table only
    if chosen > 0:
        axis.axvline(chosen, color="#999999", linewidth=0.8)
    axis.set_xlabel(f"diag_reg (chosen: {chosen:g})")
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)


def _eigenvalues(axis: Axes, result: Mapping[str, Any]) -> None:
    values = np.array(result["eigenvalues"])
    floor = np.finfo(float).eps * values.max()                # smaller ones are rounding
    axis.plot(np.array(result["eigenvalue_numbers"]), np.maximum(values, floor), color=COLOURS["train"], linewidth=1.4)
    if ridge := result["chosen"]["ridge"]:
        axis.axhline(ridge, color="#999999", linewidth=0.8)
        axis.text(1, ridge, " ridge", fontsize=8, va="bottom")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("number")
    axis.set_title("eigenvalues of the kernel", loc="left", fontsize=11)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)


_PANELS = (_scores, _evidence, _eigenvalues)


def coverage_figure(truth: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> mpl_figure.Figure:
    """The share of values in intervals of the predictive distribution, over the probability of the interval."""
    widths = np.array([NormalDist().inv_cdf((1 + level) / 2) for level in LEVELS])
    shares = np.mean(np.abs(truth - mean)[:, None] <= deviation[:, None] * widths, axis=0)
    figure = mpl_figure.Figure(figsize=PANEL, dpi=150, layout="constrained")
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
    axis.plot(LEVELS, shares, "o-", color=COLOURS["train"], markersize=4)
    axis.set_xlabel("probability of the interval")
    axis.set_ylabel("values in the interval")
    axis.set_title(f"mean gap to the diagonal: {numbers.share(np.mean(np.abs(shares - LEVELS)))}", loc="left",
                   fontsize=10)
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1.03)
    for each in (axis.xaxis, axis.yaxis):
        each.set_major_formatter(mpl_ticker.PercentFormatter(xmax=1))
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
