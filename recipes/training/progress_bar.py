"""The progress of training on the screen.

On a terminal there are two lines at the bottom: the bar with the step, the remaining time and the speed, and the newest
metrics. Evaluations stay above them as lines. In a file or a pipe there are only these lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from recipes.results.numbers import NOT_METRICS, duration, metric, number, words
from recipes.training.loop import Report

_GAP = "   "


class ProgressBar:
    """A hook that shows the step and the metrics of each report.

    Args:
      total, start: the last step of the run, and the step at which it begins.
      every: the number of steps between evaluations; without a terminal, between lines.
      score: the metric by which the task is judged, which is shown in any case.
    """

    def __init__(self, console: Console, total: int, start: int, every: int, score: str = "loss") -> None:
        self._console, self._every, self._total = console, every, total
        # The metrics from the most to the least important: narrow terminals show the first of them.
        self._order = tuple(dict.fromkeys((f"val/{score}", "train/loss", "val/loss", f"train/{score}")))
        self._bar = _TwoLines(console, disable=not console.is_terminal)
        self._task = self._bar.add_task("steps", total=total, completed=start, metrics="compiling", speed="")

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, report: Report) -> None:
        values = {name: value for name, value in report.records[-1].values.items() if name not in NOT_METRICS}
        speed = f"{duration(report.seconds_per_step)}/step"
        on_terminal = self._console.is_terminal
        width = self._console.width if on_terminal else None
        self._bar.update(self._task, completed=report.step, metrics=self._text(values, width), speed=speed)
        is_evaluation = any(name.startswith("val/") for name in values)
        if report.final or (is_evaluation if on_terminal else report.step % self._every == 0):
            step = f"step {number(report.step):>{len(number(self._total))}}{_GAP}"
            room = None if width is None else width - len(step)
            self._console.print(step + self._text(values, room) + ("" if on_terminal else _GAP + speed),
                                highlight=False, markup=False)

    def _text(self, values: Mapping[str, float], width: int | None) -> str:
        """The metrics by name; only the most important ones that fit in `width` columns, None: all."""
        texts = {name: f"{words(name)} {metric(name, value)}"
                 for name, value in values.items()}
        by_importance = [*(name for name in self._order if name in texts), *(n for n in texts if n not in self._order)]
        shown = texts if width is None else dict(_fitting(((name, texts[name]) for name in by_importance), width))
        return _GAP.join(texts[name] for name in texts if name in shown)


def _fitting(texts: Iterable[tuple[str, str]], width: int) -> Iterator[tuple[str, str]]:
    """The pairs whose texts fit in the width, each with a gap; at least the first one."""
    left = width + len(_GAP)
    for i, (name, text) in enumerate(texts):
        left -= len(text) + len(_GAP)
        if left < 0 and i:
            return
        yield name, text


class _TwoLines(Progress):
    """The bar, and the metrics below it."""

    def __init__(self, console: Console, disable: bool) -> None:
        bar = BarColumn(None, table_column=Column(ratio=1))             # it has the width that the others leave
        super().__init__(TextColumn("step"), _Steps(), bar, _Remaining(), console=console, disable=disable, expand=True)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        for task in self.tasks:
            yield Text(task.fields["metrics"], no_wrap=True, overflow="ellipsis")


class _Steps(ProgressColumn):
    """``1,200/20,000``, with a constant width."""

    def render(self, task: Task) -> Text:
        total = number(int(task.total or 0))
        return Text(f"{number(int(task.completed)):>{len(total)}}/{total}", no_wrap=True)


class _Remaining(ProgressColumn):
    """The remaining time, and the time of a step."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        remaining = "" if task.time_remaining is None else f"{duration(task.time_remaining)} left"
        if task.finished:
            remaining = "done"
        return Text(_GAP.join(filter(None, (remaining, task.fields["speed"]))), no_wrap=True)
