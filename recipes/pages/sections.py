"""The sections of a report: each is a function from a `Subject` to HTML, "" if the run has nothing to show.

A section raises RecipeError if a file that it shows is missing or damaged; the report then has the error in its place.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipes.config import KernelConfig, RunConfig
from recipes.errors import RecipeError
from recipes.pages import frame
from recipes.pages.drawings import drawn
from recipes.pages.figures import figures
from recipes.pages.frame import facts, folded, paragraph, preformatted, table
from recipes.process.memory import Peak, peaks_in_words
from recipes.results.folder import DATA, find_run, is_kernel_run, read_json, saved_config, saved_kernel_config
from recipes.results.layers import HEADINGS, layer_rows
from recipes.results.numbers import NOT_METRICS, duration, main_metric, metric, number, words
from recipes.results.plots import curve_figures
from recipes.trained import Trained, open_run
from recipes.training.hooks import read_metrics, read_timing
from recipes.training.loop import Record
from recipes.training.opened import Opened

NO_BREAK = "\u00a0"                                           # a space at which a line does not end
MANY_LAYERS = 30                                              # a longer table of the model is folded


@dataclass(frozen=True)
class Subject:
    """A run or an exported folder, as far as it can be read.

    Attributes:
      folder, config: those of the run.
      trained: its model; None if there is none, or it cannot be read.
      problem: why there is none.
    """

    folder: Path
    config: RunConfig | KernelConfig
    trained: Opened | None
    problem: RecipeError | None = None

    @functools.cached_property
    def result(self) -> dict[str, Any]:
        """The content of result.json, which a finished run has."""
        return read_json(self.folder / "result.json")

    @functools.cached_property
    def records(self) -> list[Record]:
        return read_metrics(self.folder / "metrics.jsonl")

    def score(self, names: list[str]) -> str:
        """The metric of these that says most; runs of earlier versions may lack the score of the task."""
        if self.trained is not None and self.trained.task.score in names:
            return self.trained.task.score
        return main_metric(name for name in names if f"train/{name}" not in NOT_METRICS)


def subject(run: str) -> Subject:
    """The readable parts of a run.  Raises: RecipeError if there is no such run, or its config is damaged."""
    try:
        trained = open_run(run)
    except RecipeError as problem:
        folder = find_run(run)
        config = saved_kernel_config(folder) if is_kernel_run(folder) else saved_config(folder)
        return Subject(folder, config, None, problem)
    return Subject(trained.folder, trained.config, trained)


def headline(of: Subject) -> str:
    """The score on the test split in large type, and its parameters."""
    splits = {split: metrics for split in ("test", "val") if (metrics := _entry(of).get(split))}
    if not splits:
        return _of_unfinished(of)
    split, metrics = next(iter(splits.items()))
    score = of.score(list(metrics))
    where = "on the test split" if split == "test" else "on the validation split; there are no test examples"
    remark = _entry(of).get("remark", "")                     # such as: it predicts one class for everything
    return (frame.headline(metric(score, metrics[score]), f"{words(score)} {where}")
            + paragraph(_which(of, split, score), "soft") + (paragraph(f"Note: {remark}.") if remark else ""))


def _entry(of: Subject) -> dict[str, Any]:
    """The metrics of the parameters that pictures and predictions are made with."""
    if isinstance(of.config, KernelConfig):
        return of.result.get("kernel") or {}
    kind = of.trained.kind if isinstance(of.trained, Trained) else "best"
    return of.result.get(kind) or of.result.get("last") or {}


def _which(of: Subject, split: str, score: str) -> str:
    """Of which parameters the large number is, and the score of the others."""
    if isinstance(of.config, KernelConfig):
        chosen = of.result["chosen"]
        return (f"by kernel regression with the {of.config.kernel.name} kernel and the ridge {chosen['diag_reg']:g}, "
                f"chosen by {words(chosen['by'])}; condition {chosen['condition']:.1e}")
    result, step = of.result, number(_entry(of)["step"])
    if _entry(of) is result.get("last"):
        return f"with the parameters of the last step, {step}"
    last = metric(score, result["last"][split][score])
    return (f"with the parameters that were best on the validation split, of step {step}; {last} with those of the "
            f"last step, {number(result['last']['step'])}")


def _of_unfinished(of: Subject) -> str:
    if of.trained is not None and of.trained.exported:
        return paragraph("An exported model. Its results and curves are in the folder of its run.")
    if isinstance(of.config, KernelConfig):
        return paragraph("The kernel regression has no result on a validation or a test split.")
    unfinished, records = "The run is not finished, so there is no result on the test split.", of.records
    for split, where in (("val", "the validation split"), ("train", "a training batch")):
        for record in reversed(records):
            values = {name.removeprefix(f"{split}/"): value for name, value in record.values.items()
                      if name.startswith(f"{split}/")}
            if values:
                score, step = of.score(list(values)), f"step {number(record.step)} of {number(of.config.steps)}"
                large = frame.headline(metric(score, values[score]), f"{words(score)} on {where}, {step}")
                return large + paragraph(unfinished, "soft")
    return paragraph("The run is not finished: no step is logged yet.")


def data(of: Subject) -> str:
    """The facts that the run printed before training; those of an older run are read from its data."""
    known = read_json(of.folder / DATA)
    if not known and of.trained is not None:
        known = of.trained.facts()
    return facts(known)


def results(of: Subject) -> str:
    """The metrics of the last and the best parameters; the score of the task is the first column."""
    entries = {kind: of.result[kind] for kind in ("last", "best", "kernel") if kind in of.result}
    rows = [(kind, number(entry["step"]) if "step" in entry else "", split, entry[split])
            for kind, entry in entries.items() for split in ("val", "test") if entry.get(split)]
    if not rows:
        return ""
    names = list(dict.fromkeys(name for *_, metrics in rows for name in metrics))
    score = of.score(names)
    names.sort(key=lambda name: name != score)
    cells = [(kind, step, split, *(metric(name, metrics[name]) if name in metrics else "" for name in names))
             for kind, step, split, metrics in rows]
    headings = ("parameters", "step", "split", *map(words, names))
    return table(headings, cells, range(3, len(headings))) + _privacy(of.result)


def _privacy(result: dict[str, Any]) -> str:
    spent = result.get("privacy")
    return paragraph(f"Privacy: epsilon {spent['epsilon']:.3g} for delta {spent['delta']:g}.") if spent else ""


def curves(of: Subject) -> str:
    records = of.records
    if not records:
        return ""
    names = list(dict.fromkeys(name.partition("/")[2] for record in records for name in record.values))
    test = of.result.get("last", {}).get("test", {})
    return figures(curve_figures(records, of.score(names), test), "learning curves")


def drawings(of: Subject) -> dict[str, str]:
    """The figures, tables and texts of the task, by title."""
    if of.trained is None:
        return {}
    return {title: drawn(each, title) for title, each in of.trained.draw().items()}


def model(of: Subject) -> str:
    """The layers with their shapes and numbers of parameters."""
    if of.trained is None:
        return ""
    rows = layer_rows(of.trained.task.model, of.trained.task.inputs)
    cells = [(name.replace(" ", NO_BREAK), shape.replace(" ", NO_BREAK), params, count)
             for name, shape, params, count in rows]
    content = table(HEADINGS, cells, numbers=(3,), details=(1, 2))
    total = f"{rows[0][-1]} parameters in {len(rows)} layers"
    return paragraph(total) + (folded("all layers", content) if len(rows) > MANY_LAYERS else content)


def timing(of: Subject) -> str:
    reports = read_timing(of.folder / "timing.jsonl")
    if not reports:
        return ""
    times, speeds = [each.seconds_per_step for each in reports], [each.speed for each in reports if each.speed]
    used = {where: max(each.peak_bytes.get(where, 0) for each in reports)
            for report in reports for where in report.peak_bytes}
    speed = {"examples": f"{number(statistics.median(speeds))} per second"} if speeds else {}
    memory = {"peak memory": peaks_in_words([Peak(*each) for each in used.items()])} if used else {}
    return facts({"time of training": duration(sum(each.seconds for each in reports)),
                  "median step": duration(statistics.median(times)), **speed,
                  "slowest report": f"{duration(max(times))} per step", **memory})


def environment(of: Subject) -> str:
    return facts({name: str(value) for name, value in read_json(of.folder / "environment.json").items()})


def config(of: Subject) -> str:
    return preformatted(of.config.to_yaml())


# Title -> section; a section of several parts returns them by their own titles.
SECTIONS: dict[str, Callable[[Subject], str | dict[str, str]]] = {
    "Data": data, "Results": results, "Predictions": drawings, "Curves": curves, "Model": model,
    "Timing and memory": timing, "Environment": environment, "Config": config}
