"""What happens beside the training, at every report of the loop: small callables, in this order.

The stop on NaN comes first, so a diverged state is neither logged as progress nor saved.
"""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from recipes.checkpoint import Checkpoints
from recipes.errors import DivergedError
from recipes.loop import Record, Report
from xjax import tree_util


class StopOnNaN:
    """Raises DivergedError naming the first step and metric that is NaN or infinite."""

    def __call__(self, report: Report) -> None:
        for record in report.records:
            for name, value in record.values.items():
                if not math.isfinite(value):
                    raise _diverged(f"{name} is {value} at step {record.step}.")


def _diverged(what: str) -> DivergedError:
    fix = "a smaller optim.lr, or optim.clip_norm=1.0 (the checkpoints saved so far are sound)."
    return DivergedError("training", what, fix=fix)


class MetricsLog:
    """Appends one JSON line per step to ``metrics.jsonl`` and keeps the records for the plot.

    A resumed run drops the lines after the step it starts from: the steps are done again.
    """

    def __init__(self, file: Path, start: int) -> None:
        self.records = [r for r in read_metrics(file) if r.step <= start] if start else []
        self._file = file
        self._started = time.perf_counter()
        scratch = file.with_suffix(".tmp")
        scratch.write_text("".join(_line(r) for r in self.records), "utf-8")
        os.replace(scratch, file)

    def __call__(self, report: Report) -> None:
        self.records += report.records
        with self._file.open("a", encoding="utf-8") as out:
            out.writelines(_line(record) for record in report.records)


def _line(record: Record) -> str:
    return json.dumps({"step": record.step, **record.values}) + "\n"


def read_metrics(file: Path) -> list[Record]:
    """The records of a ``metrics.jsonl``; a last line cut short by a crash is left out."""
    if not file.exists():
        return []
    records = []
    for line in file.read_text("utf-8").splitlines():
        try:
            values = json.loads(line)
        except json.JSONDecodeError:
            break
        records.append(Record(values.pop("step"), values))
    return records


class SaveCheckpoint:
    """Saves the state every ``every`` steps and at the end; a failing save ends the run.

    A state with a NaN or an infinity is not saved: the loss shows it one step later only.
    """

    def __init__(self, checkpoints: Checkpoints, every: int) -> None:
        self._checkpoints, self._every = checkpoints, every

    def __call__(self, report: Report) -> None:
        if report.step % self._every == 0 or report.final:
            state = report.fetch_state()
            for path, leaf in tree_util.tree_flatten_with_path(state.params)[0]:
                if not np.isfinite(leaf).all():
                    name = f"params{tree_util.keystr(path)}"
                    raise _diverged(f"{name} is not finite after step {report.step}.")
            self._checkpoints.save(report.step, state)


class ProgressBar:
    """A rich bar on a terminal; elsewhere a line every ``every`` steps."""

    def __init__(self, console: Console, total: int, start: int, every: int) -> None:
        self._console, self._every = console, every
        self._bar = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("{task.fields[metrics]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("steps", total=total, completed=start, metrics="compiling")

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, report: Report) -> None:
        last = report.records[-1]
        text = "  ".join(f"{name} {value:.4f}" for name, value in last.values.items())
        self._bar.update(self._task, completed=report.step, metrics=text)
        if not self._console.is_terminal and (report.step % self._every == 0 or report.final):
            self._console.print(f"step {report.step:>6}  {text}", highlight=False)
