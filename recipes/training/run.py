"""One run from a checked config: devices, data, folder, loop, results."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from recipes.batches import Batches, check_batch
from recipes.config import KernelConfig, RunConfig
from recipes.errors import CheckpointError, Interrupted
from recipes.lazy import xjax, xnn
from recipes.names import on_terminal, printable
from recipes.process.interrupts import Interrupts
from recipes.process.lock import locked
from recipes.process.memory import Peak, peaks, peaks_in_words, preallocation
from recipes.process.parallel import Placer, choose_devices
from recipes.process.progress import note_folder
from recipes.results import folder as run_folder
from recipes.results.checkpoint import Checkpoints, Saver
from recipes.results.numbers import duration, in_float32, metric, number, words
from recipes.results.plots import learning_curve
from recipes.settings.config_file import task_module
from recipes.settings.optim import update_factors
from recipes.task import Artifacts, Data, Task
from recipes.training.best import as_now
from recipes.training.hooks import MetricsLog, StopOnNaN
from recipes.training.loop import Loop, Progress, begin
from recipes.training.privacy import PoissonBatches, check_privacy, epsilon
from recipes.training.progress_bar import ProgressBar
from recipes.training.ranks import ALONE, NoSaver, Ranks
from recipes.training.step import init_state
from recipes.training.trackers import check_trackers, make_trackers

if TYPE_CHECKING:
    from xjax.typing import PyTree

Result = dict[str, Any]                         # {"last": {"step", "test", "val", and "remark" if any}, "best": ...}


class Prepared(NamedTuple):
    """The parts of a run before its folder exists: a checked config, the data, the model, the devices."""

    config: RunConfig
    data: Data
    task: Task
    placer: Placer

    def batches(self) -> dict[str, Batches]:
        """The batches of each split; with privacy, each training example is drawn independently."""
        config, data, task, placer = self
        made = {split: task.batches(rows, placer, config.seed) for split, rows in data.splits.items()}
        if config.privacy is not None:
            made["train"] = PoissonBatches(data.splits["train"], placer, config.task.batch_size, config.seed)
        return made


def prepare(config: RunConfig, processes: int = 1, form: str | None = None,
            recorded: Artifacts | None = None) -> Prepared:
    """Reads the data and builds the model.  Raises: RecipeError; no file is written.

    Args:
      form: of sparse products before a resume.
      recorded: the artifacts of the run before a resume.
    """
    check_trackers(config)
    xjax.config.update("cache_compiled_functions", True)        # a repeated run does not compile again
    placer = Placer(choose_devices(config.devices, processes), steps=config.schedule_steps or config.steps, noted=form)
    data = load_data(config, recorded)
    task = make_task(config, data.artifacts)
    check_batch(config, task, placer)
    check_privacy(config, task)
    if config.freeze or config.lr_multipliers:
        update_factors(config, xjax.eval_shape(task.init, xjax.random.PRNGKey(0))[0])      # checks its patterns
    return Prepared(config, data, task, placer)


def load_data(config: RunConfig | KernelConfig, recorded: Artifacts | None = None) -> Data:
    """The training data.  Args: recorded: the artifacts of the run that has begun, if it is not a new one."""
    module = task_module(config.task.name)
    if recorded is None or not hasattr(module, "load_again"):
        return module.load(config.task)
    return module.load_again(config.task, recorded)


def make_task(config: RunConfig, artifacts: Artifacts) -> Task:
    """The task of a config, with its model in the precision of the config."""
    task = task_module(config.task.name).make(config.task, artifacts)
    if config.precision != "float32":
        task.model = xnn.with_precision(task.model, config.precision)
    return task


def run(config: RunConfig, name: str, *, resume: bool = False, interrupts: Interrupts | None = None,
        started: float | None = None, ranks: Ranks = ALONE) -> Result:
    """Trains, evaluates, and writes a run folder.

    Args:
      name: of the config; the run folder is ``runs/<name>`` unless the config names one.
      resume: whether to continue from the newest checkpoint of ``config.run_dir``.
      started: ``time.perf_counter()`` at which the printed time begins; None: now.
      ranks: the rank of this process if several train together; the first rank writes and prints.
    Returns: metrics of the last parameters, and of the best ones if there is a validation split.
    Raises: RecipeError.
    """
    started = time.perf_counter() if started is None else started
    interrupts = interrupts or Interrupts()
    console = Console(soft_wrap=True, quiet=not ranks.is_first)
    if not resume and config.schedule_steps is None:
        config = config.model_copy(update={"schedule_steps": config.steps})
    before = config.run_dir if resume else None
    form = run_folder.noted_environment(before).get(run_folder.PRODUCTS) if before else None
    prepared = prepare(config, ranks.count, form, newest_artifacts(before) if before else None)
    if interrupts.received and ranks.count == 1:              # with several ranks, they agree after their first step
        raise Interrupted(interrupts.received, f"stopped by {interrupts.received.name} before the first step.", {},
                          "start it again: no step was done.")
    with contextlib.ExitStack() as stack:
        def own() -> str:
            folder = config.run_dir if resume else run_folder.new_folder(config, name)
            assert folder is not None
            stack.enter_context(locked(folder))
            note_folder(folder)
            return str(folder)

        folder = Path(ranks.from_first("folder", own))
        result = _train(prepared, folder, resume, console, interrupts, ranks)
    took = duration(time.perf_counter() - started)
    console.print(on_terminal(f"{took}; all of it in {run_folder.shown(folder)}", "dim"))
    return result


def _train(prepared: Prepared, folder: Path, resume: bool, console: Console, interrupts: Interrupts,
           ranks: Ranks) -> Result:
    config, data, task, placer = prepared
    batches = prepared.batches()
    if ranks.is_first:
        run_folder.write_config(config, folder)
        run_folder.write_json(folder / run_folder.DATA, data.summary)
        now = run_folder.environment(config, placer.count, placer.devices[0].device_kind, placer.processes, placer.form)
        for change in run_folder.note_environment(folder, now):
            console.print(on_terminal("results may differ in the last bits from an uninterrupted run: ", "yellow"),
                          on_terminal(change), sep="")
    checkpoints = Checkpoints(folder / "checkpoints", config.keep_checkpoints)

    def fresh() -> Progress:
        return begin(init_state(task, config), data.splits)

    if saved := ranks.from_first("checkpoints", checkpoints.steps):
        template = xjax.eval_shape(lambda: fresh()._asdict())
        progress = restored(checkpoints, saved[-1], template, data.artifacts)
    else:
        progress = fresh()
    start = int(progress.state.step)
    taken = preallocation(placer.own_devices)
    devices = str(placer.count) + (f" in {placer.processes} processes" if placer.processes > 1 else "")
    announce(console, {**data.summary, "devices": devices, **({"memory": taken} if taken else {}),
                        "folder": run_folder.shown(folder)})
    if resume:
        console.print(f"resumed at step {number(start)} of {number(config.steps)}", highlight=False)

    def memory() -> list[Peak]:
        return peaks(placer.own_devices, ranks.rank if ranks.count > 1 else None)

    loop = Loop(config, task, placer, batches)
    if not ranks.is_first:
        saver = NoSaver(checkpoints)
        result = results(loop, loop.fit(progress, [StopOnNaN(saver)], saver, interrupts))
        ranks.gathered("memory", memory())
        return result
    log = MetricsLog(folder / "metrics.jsonl", start, getattr(config.task, "batch_size", None), memory)
    with ProgressBar(console, config.steps, start, config.eval_every, task.score) as bar:
        saver = Saver(checkpoints, data.artifacts)
        hooks = [log, bar, *make_trackers(config, folder, start), StopOnNaN(saver)]
        progress = loop.fit(progress, hooks, saver, interrupts)
    result = results(loop, progress)
    used = [Peak(*peak) for of_rank in ranks.gathered("memory", memory()) for peak in of_rank]
    if config.privacy is not None:
        spent = epsilon(config.privacy, result["last"]["step"], config.task.batch_size, len(data.splits["train"]))
        result["privacy"] = {"epsilon": spent, "delta": config.privacy.delta}
        console.print(f"epsilon {spent:.3g} for delta {config.privacy.delta:g}", highlight=False)
    run_folder.write_json(folder / "result.json", result)
    title = f"{folder.name}, seed {config.seed}"
    learning_curve(log.records, task.score, result["last"]["test"], title, folder / "learning_curve.png")
    _conclude(console, task, result)
    console.print(f"peak memory {peaks_in_words(used)}", style="dim", highlight=False)
    return result


def newest_artifacts(folder: Path) -> Artifacts | None:
    """The artifacts in the newest checkpoint of a run; None if it has no checkpoint.  Raises: CheckpointError."""
    checkpoints = Checkpoints(folder / "checkpoints")
    saved = checkpoints.steps()
    return checkpoints.artifacts(saved[-1]) if saved else None


def restored(checkpoints: Checkpoints, step: int, template: PyTree, artifacts: Artifacts) -> Progress:
    """The progress saved at ``step``.  Raises: CheckpointError, also if the run was trained on other data."""
    saved = checkpoints.artifacts(step)
    check_artifacts(saved, artifacts, checkpoints.folder / str(step))
    progress = Progress(**checkpoints.restore(step, template))
    return progress._replace(best=as_now(progress.best, saved, artifacts))


def check_artifacts(saved: Artifacts, now: Artifacts, folder: Path) -> None:
    """Raises: CheckpointError with the names of artifacts that differ from the saved ones: the data have changed."""
    now = json.loads(json.dumps(now))                         # as JSON saves them, with lists for tuples
    changed = [name for name in sorted(saved) if not _same(saved[name], now.get(name))]
    if changed:
        raise CheckpointError("checkpoint", "it was trained on other data.",
                              {"folder": folder, "changed": ", ".join(changed)},
                              fix="give the run the data that it began with, or start a new one.")


def _same(saved: Any, now: Any) -> bool:
    """Whether two artifacts are equal up to rounding. Keys that a newer version added do not count."""
    if isinstance(saved, dict) and isinstance(now, dict):
        return all(key in now and _same(value, now[key]) for key, value in saved.items())
    if isinstance(saved, list) and isinstance(now, list):
        return len(saved) == len(now) and all(map(_same, saved, now))
    if isinstance(saved, float) and isinstance(now, float):
        return math.isclose(saved, now, rel_tol=1e-6, abs_tol=1e-12)
    return saved == now


def results(loop: Loop, progress: Progress) -> Result:
    """Metrics on the validation and test splits, of the last parameters and of the best ones."""
    last = {"step": int(Placer.host(progress.state.step)), **_on_both(loop, progress.state.model)}
    if progress.best is None or int(progress.best.step) == 0:
        return {"last": last}
    return {"last": last, "best": {"step": int(progress.best.step), **_on_both(loop, progress.best.model)}}


def _on_both(loop: Loop, model: PyTree) -> dict[str, Any]:
    totals = {split: loop.totals(model, split) for split in ("val", "test")}
    remark = loop.task.remark({split: sums for split, sums in totals.items() if sums})
    metrics = {split: {name: in_float32(value) for name, value in loop.task.metrics(sums).items()}
               for split, sums in totals.items()}
    return metrics | ({"remark": remark} if remark else {})


def announce(console: Console, facts: dict[str, str]) -> None:
    """Prints the facts of a summary. A value may have several lines; long ones are broken between words in a terminal.

    In a pipe each line stays whole.
    """
    indent = max(map(len, facts)) + 2
    room = max(20, console.width - indent) if console.is_terminal else sys.maxsize
    for fact, value in facts.items():
        lines = [part for line in value.split("\n") for part in _broken(printable(line), room)]
        text = on_terminal(("\n" + " " * indent).join(lines), keep="\n")
        console.print(on_terminal(f"{fact:<{indent}}", "bold"), text, sep="")


def _broken(line: str, room: int) -> list[str]:
    """A line in parts of at most ``room`` characters. Words stay whole, so that paths and names can be copied."""
    if len(line) <= room:
        return [line]
    return textwrap.wrap(line, room, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _conclude(console: Console, task: Task, result: Result) -> None:
    """Prints the metrics on the test split, a line for the last parameters and one for the best."""
    last, best = result["last"], result.get("best")
    if remark := (best or last).get("remark"):
        console.print(on_terminal(f"warning: {remark}", "yellow"))
    if task.score not in last["test"]:
        console.print("there are no test rows, so there is no test score", highlight=False)
        return
    _print_scores(console, task, last, "last step, ")
    if best is not None:
        _print_scores(console, task, best, "best on validation, step ")


def _print_scores(console: Console, task: Task, of: Mapping[str, Any], which: str) -> None:
    names = task.reported or (task.score,)
    scores = ", ".join(f"{words(name)} {metric(name, of['test'][name])}" for name in names)
    console.print(f"[bold]test {scores}[/] ({which}{number(of['step'])})", highlight=False)
