"""One kernel regression from config to result: kernel, choice of the ridge, calibration, metrics, run folder."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from recipes.config import KernelConfig
from recipes.errors import RecipeError
from recipes.lazy import xjax
from recipes.names import on_terminal
from recipes.process.lock import locked
from recipes.process.memory import peaks, peaks_in_words
from recipes.results import folder as run_folder
from recipes.results.kernel_plots import coverage_figure, selection_figure
from recipes.results.numbers import duration, metric, number, words
from recipes.results.plots import calibration_figure, save_figure
from recipes.settings.config_file import task_module
from recipes.task import Data, Task
from recipes.training.kernel_model import Fitted, KernelModel, candidates_table, limit_of, write_fitted
from recipes.training.ridge import Ridge, Solution, cross_entropy, negative_log_likelihood, scale_of, sharpness
from recipes.training.run import announce, load_data

Result = dict[str, Any]
MOST_EIGENVALUES = 300                                        # in result.json, evenly spaced on a logarithmic axis


def run_kernel(config: KernelConfig, name: str, started: float | None = None) -> Result:
    """Fits a kernel regression and writes a run folder.

    Args:
      name: of the config; the run folder is ``runs/<name>`` unless the config names one.
      started: ``time.perf_counter()`` at which the printed time begins; None: now.
    Returns: the content of result.json.  Raises: RecipeError.
    """
    started = time.perf_counter() if started is None else started
    console = Console(soft_wrap=True)
    xjax.config.update("cache_compiled_functions", True)
    data = load_data(config)
    task = task_module(config.task.name).make(config.task, data.artifacts)
    _check_validation(config, data)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(_new_folder(config, name))
        devices = choose_names(config)
        facts = {**data.summary, "devices": devices, "folder": run_folder.shown(folder)}
        announce(console, facts)
        result = fit(config, data, task, folder, console)
        run_folder.write_json(folder / "result.json", result)
        _conclude(console, task, result, facts)
        save_figure(selection_figure(result, folder.name), folder / "selection.png")
        console.print(f"peak memory {peaks_in_words(peaks(xjax.local_devices()[:1], None))}", style="dim",
                      highlight=False)
    took = duration(time.perf_counter() - started)
    console.print(on_terminal(f"{took}; all of it in {run_folder.shown(folder)}", "dim"))
    return result


def choose_names(config: KernelConfig) -> str:
    """The number of devices in words."""
    return number(len(xjax.local_devices()) if config.devices is None else config.devices)


def _check_validation(config: KernelConfig, data: Data) -> None:
    if config.kernel.choose_by == "validation" and "val" not in data.splits:
        raise RecipeError("kernel", "there are no validation examples to choose the ridge by.",
                          {"kernel.choose_by": "validation", "split": data.summary.get("split", "")},
                          fix="kernel.choose_by=leave_one_out, or a split with validation examples.")


@contextlib.contextmanager
def _new_folder(config: KernelConfig, name: str) -> Iterator[Path]:
    """The folder of a new run, which an error or a signal before its result removes."""
    folder = run_folder.new_folder(config, name)
    try:
        with locked(folder):
            yield folder
    except BaseException:
        if not (folder / "result.json").exists():
            for file in folder.iterdir():
                file.unlink(missing_ok=True)
            folder.rmdir()
        raise


def fit(config: KernelConfig, data: Data, task: Task, folder: Path, console: Console) -> Result:
    """Computes the kernel, chooses the ridge, writes the model and its pictures."""
    model, result = fitted_model(config, data, task, folder, console)
    write_fitted(folder, model.fitted, data.artifacts)
    run_folder.write_json(folder / run_folder.DATA, data.summary)
    kind = xjax.local_devices()[0].device_kind
    now = run_folder.environment(config, config.devices or len(xjax.local_devices()), kind)
    run_folder.write_json(folder / "environment.json", now)
    rows = result["candidates"]
    run_folder.write_csv(folder / "candidates.csv", list(rows[0]), [list(row.values()) for row in rows])
    if "test" in data.splits:
        if model.has_classes:
            save_figure(calibration_figure(np.asarray(model.totals("test")["calibration"][0])),
                        folder / "calibration.png")
        else:
            values = model.values("test")
            save_figure(coverage_figure(task.targets(data.splits["test"]), values.mean, np.asarray(values.deviation)),
                        folder / "calibration.png")
    return result


def fitted_model(config: KernelConfig, data: Data, task: Task, folder: Path,
                 console: Console | None = None) -> tuple[KernelModel, Result]:
    """The kernel regression of a task and its result, without files.  Raises: RecipeError."""
    began = time.perf_counter()
    console = console or Console(quiet=True)
    has_classes = "classes" in data.artifacts
    points = {split: task.points(rows) for split, rows in data.splits.items()}
    others = [split for split in ("val", "test") if split in points]
    with console.status("kernel") as status:
        limit = limit_of(config, task, lambda done, total: status.update(f"kernel: {done} of {total} parts"))
        train: Any = points["train"]
        with readable_errors():
            rest = type(train).joined([points[split] for split in others]) if others else None
            kernel, across = train.kernels(limit, train if rest is None else rest)
            variances = None if has_classes or rest is None else rest.variances(limit)
    seconds = time.perf_counter() - began
    y = np.asarray(task.targets(data.splits["train"]))
    columns = np.eye(len(data.artifacts["classes"]))[y] if has_classes else y[:, None].astype(float)
    ridge = Ridge(kernel, columns)
    bounds = np.cumsum([0, *(len(points[split]) for split in others)])
    parts = {split: slice(*bounds[i:i + 2]) for i, split in enumerate(others)}
    of_val = _Split(across[parts["val"]], None if variances is None else variances[parts["val"]],
                    task.targets(data.splits["val"])) if "val" in parts else None
    candidates = [_candidate(task, ridge, diag_reg, y, of_val) for diag_reg in sorted(set(config.kernel.diag_reg))]
    best = _chosen(config, task, candidates, ridge)
    solution = best.solution
    fitted = Fitted(points["train"], solution.dual, ridge.mean, solution.ridge, best.calibration,
                    np.zeros((0, 0)) if has_classes else ridge.factor(best.row["diag_reg"]), best.row["diag_reg"])
    model = KernelModel(folder, config, task, fitted)
    model._data = data
    for split in others:
        model.keep(split, fitted.values(across[parts[split]], None if variances is None else variances[parts[split]]))
    return model, _result(config, model, ridge, candidates, best, seconds)


class _Split(NamedTuple):
    """Kernels and targets of the validation split."""

    across: np.ndarray
    variances: np.ndarray | None
    targets: np.ndarray


class Candidate(NamedTuple):
    """A candidate of the ridge.

    Attributes:
      row: its scores, by name; None where the kernel with it is singular.
      solution: None if it is singular.
      calibration: see `Fitted.calibration`.
    """

    row: dict[str, Any]
    solution: Any
    calibration: float = 1.0


def _candidate(task: Task, ridge: Ridge, diag_reg: float, y: np.ndarray, val: _Split | None) -> Candidate:
    """The solution with one ridge, its calibration and its scores.

    The calibration is one number, which is fitted to all predictions that are not those of fitted examples: for the
    validation split, and for each training example from all others.
    """
    splits, score, loss = (["val"] if val else []) + ["left_out"], task.score, _loss_name(task)
    row: dict[str, Any] = {"diag_reg": diag_reg, **dict.fromkeys(
        f"{split}/{name}" for split in splits for name in (score, loss)), "log_evidence": None, "condition": None}
    if not ridge.is_solvable(diag_reg):
        return Candidate(row, None)
    solution = ridge.solution(diag_reg)
    row |= {"log_evidence": solution.log_evidence, "condition": solution.condition}
    judged = {"left_out": _Judged(solution.left_out, solution.left_out_variance, y)}
    if val is not None:
        judged["val"] = _Judged(ridge.mean + val.across @ solution.dual, _variance(ridge, solution, diag_reg, val),
                                val.targets)
    calibration = _calibration(task, _Judged(*map(np.concatenate, zip(*judged.values(), strict=True))))
    for split, predictions in judged.items():
        row[f"{split}/{score}"], row[f"{split}/{loss}"] = _scores(task, predictions, calibration)
    return Candidate(row, solution, calibration)


class _Judged(NamedTuple):
    """Predictions that are compared with targets.  Attributes: variance: [n]; unused for classes."""

    mean: np.ndarray
    variance: np.ndarray
    targets: np.ndarray


def _variance(ridge: Ridge, solution: Solution, diag_reg: float, val: _Split) -> np.ndarray:
    if val.variances is None:
        return np.zeros(len(val.targets))
    explained = np.sum((val.across @ ridge.factor(diag_reg))**2, axis=1)
    return np.maximum(val.variances - explained, 0) + solution.ridge


def _loss_name(task: Task) -> str:
    return "loss" if "classes" in task.artifacts else "negative_log_likelihood"


def _calibration(task: Task, of: _Judged) -> float:
    if "classes" in task.artifacts:
        return sharpness(of.mean, of.targets)
    return scale_of(of.targets, of.mean[:, 0], of.variance)


def _scores(task: Task, of: _Judged, calibration: float) -> tuple[float, float]:
    """The score of the task, and the mean of -log p, of calibrated predictions."""
    if "classes" in task.artifacts:
        return float(np.mean(of.mean.argmax(1) == of.targets)), cross_entropy(calibration * of.mean, of.targets)
    unit, mean = task.artifacts["target_unit"], of.mean[:, 0]
    return (unit * math.sqrt(np.mean((of.targets - mean)**2)),
            math.log(unit) + negative_log_likelihood(of.targets, mean, calibration * of.variance))


def _chosen(config: KernelConfig, task: Task, candidates: list[Candidate], ridge: Ridge) -> Candidate:
    """The candidate with the best score, and among equal ones the least loss; or with the greatest likelihood."""
    usable = [each for each in candidates if each.solution is not None]
    if not usable:
        low, high = ridge.values[[0, -1]]
        raise RecipeError("kernel", "the kernel matrix is singular with every candidate of the ridge.",
                          {"eigenvalues": f"{low:.3g} to {high:.3g}", "kernel.diag_reg": str(config.kernel.diag_reg)},
                          fix="larger candidates, such as kernel.diag_reg=[1e-6, 1e-4, 1e-2, 1].")
    if config.kernel.choose_by == "marginal_likelihood":
        return max(usable, key=lambda each: each.row["log_evidence"])
    split = "val" if config.kernel.choose_by == "validation" else "left_out"
    sign, names = -1 if task.higher_is_better else 1, [f"{split}/{name}" for name in (task.score, _loss_name(task))]
    return min(usable, key=lambda each: (sign * each.row[names[0]], each.row[names[1]]))


def _result(config: KernelConfig, model: KernelModel, ridge: Ridge, candidates: list[Candidate], best: Candidate,
            seconds: float) -> Result:
    totals = {split: model.totals(split) for split in ("val", "test")}
    remark = model.task.remark({split: sums for split, sums in totals.items() if sums}).partition("; try ")[0]
    remark += "; try kernel.name=ntk, other candidates of kernel.diag_reg, or another model" if remark else ""
    values = ridge.values[::-1]
    numbers = np.unique(np.geomspace(1, len(values), MOST_EIGENVALUES).astype(int))
    solution: Solution = best.solution
    metrics = {split: model.metrics(split) for split in ("val", "test")}
    return {
        "kernel": metrics | ({"remark": remark} if remark else {}),
        "chosen": {"diag_reg": best.row["diag_reg"], "ridge": solution.ridge, "by": config.kernel.choose_by,
                   "calibration": model.fitted.calibration, "condition": solution.condition,
                   "at_the_end": _at_the_end(candidates, best)},
        "score": model.task.score,
        "candidates": [each.row for each in candidates],
        "condition": float(values[0] / values[-1]) if values[-1] > 0 else None,
        "seconds": seconds,
        "eigenvalue_numbers": numbers.tolist(), "eigenvalues": values[numbers - 1].tolist()}


def _at_the_end(candidates: list[Candidate], best: Candidate) -> str:
    """"smallest" or "largest" if the chosen candidate is at an end, and the next one is not as good; else ""."""
    usable = [each for each in candidates if each.solution is not None]
    if len(usable) < 3 or not (best is usable[0] or best is usable[-1]):
        return ""
    end, following = ("smallest", usable[1]) if best is usable[0] else ("largest", usable[-2])
    scores = [[each.row[name] for name in each.row if "/" in name] for each in (best, following)]
    return "" if np.allclose(*scores, rtol=1e-2) else end


def _conclude(console: Console, task: Task, result: Result, facts: Mapping[str, str]) -> None:
    """Prints the candidates, the choice and the metrics on the test split, below facts of one indentation."""
    indent = max(map(len, facts)) + 2
    console.print(on_terminal(f"{'kernel':<{indent}}", "bold"), f"computed in {duration(result['seconds'])}", sep="",
                  highlight=False)
    table, chosen = candidates_table(result, without=["condition"]), result["chosen"]
    shown = RichTable(box=None, padding=(0, 2, 0, 0))
    for heading in table.headings:
        shown.add_column(on_terminal(str(heading)), justify="right" if heading else "left")
    for row in table.rows:
        shown.add_row(*(on_terminal(str(cell)) for cell in row))
    console.print(shown)
    console.print(on_terminal(f"{'chosen':<{indent}}", "bold"), f"diag_reg {chosen['diag_reg']:g}, by "
                  f"{words(chosen['by'])}; condition {chosen['condition']:.1e}", sep="", highlight=False)
    if chosen["at_the_end"]:
        more = "smaller" if chosen["at_the_end"] == "smallest" else "larger"
        console.print(on_terminal(f"{'note':<{indent}}", "yellow"), f"the {chosen['at_the_end']} candidate was chosen: "
                      f"{more} ones may be better", sep="", highlight=False)
    if remark := result["kernel"].get("remark"):
        console.print(on_terminal(f"warning: {remark}", "yellow"))
    test = result["kernel"]["test"]
    if not test:
        console.print("there are no test rows, so there is no test score", highlight=False)
        return
    names = dict.fromkeys([*(task.reported or (task.score,)), "calibration_error", "coverage_50", "coverage_90"])
    scores = ", ".join(f"{words(name)} {metric(name, test[name])}" for name in names if name in test)
    console.print(f"[bold]test {scores}[/]", highlight=False)


# ---- errors ------------------------------------------------------------------------------------------------------

# Part of the name of a layer -> what replaces it in a config.
_FIXES = {
    "MaxPool": "task.model.pool=avg, if the model has this key, or another task.model",
    "AdaptiveMaxPool": "task.model.pool=avg, if the model has this key, or another task.model",
    "GlobalMaxPool": "task.model.pool=avg, if the model has this key, or another task.model",
    "BatchNorm": "task.model.norm=layer or null, if the model has this key, or another task.model, such as mlp",
    "GraphPool": "task.pool=sum or task.pool=mean",
    "aggregate": "task.edge_features=false, or another task.model, such as gcn",
}


@contextlib.contextmanager
def readable_errors() -> Iterator[None]:
    """Errors of `Layer.kernel` in the format of the recipes, with the place of the layer in the model."""
    try:
        yield
    except (TypeError, ValueError, AttributeError, NotImplementedError) as err:
        notes = (re.match(r"in .*?(?:\[(.*)\])? -> ", note) for note in getattr(err, "__notes__", []))
        places = [match for match in notes if match is not None]
        if str(err).startswith("Layer.kernel: "):             # a function of arrays got covariances
            raise RecipeError("kernel", "the model has a layer without a kernel of infinite width.",
                              fix="another task.model: docs/kernels.md lists the layers with a kernel.") from err
        if not places and ".kernel:" not in str(err).partition("\n")[0]:
            raise                                             # a fault of this package keeps its traceback
        caller, _, what = str(err).partition("\n")[0].partition(".kernel: ")
        path = "/".join(place[1].strip("'\"") for place in reversed(places) if place[1])
        given = {"layer": f"{path} -> {caller}" if path else caller}
        fix = _FIXES.get(caller, "a layer with a kernel: docs/kernels.md lists them")
        raise RecipeError("kernel", what or str(err), given, fix=f"{fix}.") from err
