"""Hooks: small callables that the loop calls at every report, in the order of this file.

The log comes first, so it also has the metrics that stopped the run.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from recipes.errors import RecipeError
from recipes.process.memory import Peak
from recipes.results.checkpoint import Saver, diverged, first_not_finite
from recipes.results.folder import append_text, write_text
from recipes.training.loop import Record, Report


class MetricsLog:
    """Appends one JSON line per step to ``metrics.jsonl``, and keeps the records for the plot.

    A resumed run drops the lines after its first step, since these steps are done again. ``timing.jsonl`` in the same
    folder has a line for each report, with numbers that differ from run to run: seconds since the last report, seconds
    per step, examples per second if the task has a batch size, and the peak memory of each device in bytes.
    """

    def __init__(self, file: Path, start: int, batch_size: int | None = None,
                 memory: Callable[[], Sequence[Peak]] = tuple) -> None:
        self.records = [r for r in read_metrics(file) if r.step <= start] if start else []
        self._file, self._timing, self._batch_size = file, file.with_name("timing.jsonl"), batch_size
        self._memory = memory
        write_text(file, "".join(map(_line, self.records)))

    def __call__(self, report: Report) -> None:
        self.records += report.records
        append_text(self._file, "".join(map(_line, report.records)))
        timing: dict[str, Any] = {"step": report.step, "seconds": round(report.seconds, 6),
                                  "seconds_per_step": round(report.seconds_per_step, 6)}
        if self._batch_size is not None:
            timing["examples_per_second"] = round(self._batch_size / report.seconds_per_step, 1)
        if used := self._memory():
            timing["peak_bytes"] = {peak.where: peak.size for peak in used}
        append_text(self._timing, json.dumps(timing) + "\n")


def _line(record: Record) -> str:
    """A record as JSON. JSON has no NaN: numbers that are not finite are written as texts, which float() reads."""
    values = {name: value if math.isfinite(value) else str(value) for name, value in record.values.items()}
    return json.dumps({"step": record.step, **values}) + "\n"


def read_metrics(file: Path) -> list[Record]:
    """The records of a ``metrics.jsonl``; a last line that a crash has truncated is left out.

    Raises: RecipeError for any other line that is not a record.
    """
    if not file.exists():
        return []
    lines = file.read_bytes().decode("utf-8", "replace").splitlines(keepends=True)
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        try:
            values = json.loads(line)
            records.append(Record(int(values.pop("step")), {name: float(value) for name, value in values.items()}))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            if number == len(lines) and not line.endswith("\n"):
                break
            raise RecipeError("run", "the metrics of the run are damaged.", {"file": file, f"line {number}": line[:60]},
                              fix="delete this line.") from None
    return records


class Timing(NamedTuple):
    """A line of ``timing.jsonl``; speed: examples per second, None without a batch size."""

    seconds: float
    seconds_per_step: float
    speed: float | None
    peak_bytes: dict[str, int]


def read_timing(file: Path) -> list[Timing]:
    """The lines of a ``timing.jsonl``. Lines that are not whole are left out, since no result depends on them."""
    if not file.is_file():
        return []
    timings, before = [], 0
    for line in file.read_bytes().decode("utf-8", "replace").splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            values = json.loads(line)
            step, each = int(values["step"]), float(values["seconds_per_step"])
            steps = step - before if step > before else 0     # earlier versions did not write the seconds
            speed = values.get("examples_per_second")
            peaks = {str(where): int(size) for where, size in values.get("peak_bytes", {}).items()}
            timings.append(Timing(float(values.get("seconds", each * steps)), each,
                                  None if speed is None else float(speed), peaks))
            before = step
    return timings


class StopOnNaN:
    """Raises DivergedError with the first step and metric that is NaN or infinite, and the first bad parameter."""

    def __init__(self, saver: Saver) -> None:
        self._saver = saver

    def __call__(self, report: Report) -> None:
        for record in report.records:
            bad = [name for name, value in record.values.items() if not math.isfinite(value)]
            if any(name.startswith("train/") for name in bad):
                name = "train/loss" if "train/loss" in bad else bad[0]
                self._saver.wait()                            # it may still write the last valid checkpoint
                raise diverged(f"{name} is {record.values[name]} at step {record.step}.", self._saver.checkpoints,
                               {"bad parameter": first_not_finite(report.fetch_params()) or "none"})
