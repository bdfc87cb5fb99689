"""Command line: ``python -m recipes.compare RUN RUN ...``: a table of results and differing keys, and one plot."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from rich.console import Console
from rich.table import Table

from recipes.errors import exit_code_of
from recipes.names import on_terminal, printable
from recipes.results.folder import (
    find_run,
    is_kernel_run,
    read_json,
    saved_config,
    saved_kernel_config,
    shown,
    write_csv,
)
from recipes.results.numbers import NOT_METRICS, main_metric, metric, words
from recipes.results.plots import comparison_figure, save_figure
from recipes.training.hooks import read_metrics

if TYPE_CHECKING:
    from xjax.typing import PyTree


class Compared(NamedTuple):
    """One run: name, config by key path, result.json, and its records."""

    name: str
    config: dict[str, Any]
    result: dict[str, Any]
    records: list[Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Compares runs.  Returns: 0, or 1 if a run cannot be read."""
    parser = argparse.ArgumentParser(prog="recipes.compare", description="Compares runs: a table, and one plot.",
                                     epilog="example: python -m recipes.compare gcn gcn_cora")
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders, or names in ./runs")
    parser.add_argument("--plot", type=Path, metavar="FILE",
                        help="the plot, with the table next to it as .csv; comparison.png in the folder that has the "
                             "runs, by default")
    args = parser.parse_args(argv)
    return exit_code_of(lambda: _work(args.runs, args.plot))


def _work(names: list[str], plot: Path | None) -> None:
    folders = [find_run(name).absolute() for name in names]
    home = _home([folder.parent for folder in folders])
    runs = [_read(folder, home) for folder in folders]
    plot = plot or home / "comparison.png"
    rows = _rows(runs)
    Console(soft_wrap=True).print(_table(runs, rows))
    write_csv(plot.with_suffix(".csv"), ["", *(run.name for run in runs)], [[row.name, *row.cells] for row in rows])
    save_figure(comparison_figure({run.name: run.records for run in runs}, _curves(runs)), plot)
    print(printable(f"the table in {shown(plot.absolute().with_suffix('.csv'))}, the curves in {plot.name}"))


def _home(parents: list[Path]) -> Path:
    """The folder that contains the runs; the current one if they have none in common but a remote ancestor."""
    common = Path(os.path.commonpath(parents))
    return common if common in parents or common.is_relative_to(Path.cwd()) else Path.cwd()


def _read(folder: Path, home: Path) -> Compared:
    saved = saved_kernel_config(folder) if is_kernel_run(folder) else saved_config(folder)
    config = _flat(yaml.safe_load(saved.to_yaml()))
    for key in ("run_dir", "schedule_steps"):                 # set by the run itself, not by its user
        config.pop(key, None)
    name = str(folder.relative_to(home)) if folder.is_relative_to(home) else shown(folder)
    return Compared(name, config, read_json(folder / "result.json"), read_metrics(folder / "metrics.jsonl"))


class Row(NamedTuple):
    """A key in which the runs differ, or a metric, with a value for each run; ``metric`` is "" for a key."""

    name: str
    metric: str
    cells: list[Any]


def _rows(runs: list[Compared]) -> list[Row]:
    """The keys in which the runs differ, and the test metrics of last and best parameters."""
    rows = []
    for key in dict.fromkeys(key for run in runs for key in run.config):
        values = [str(run.config.get(key, "")) for run in runs]
        if len(set(values)) > 1:
            rows.append(Row(key, "", values))
    for kind in ("last", "best", "kernel"):
        results = [run.result.get(kind, {}).get("test", {}) for run in runs]
        rows += [Row(f"test {name}, {kind}", name, [metrics.get(name, "") for metrics in results])
                 for name in dict.fromkeys(name for metrics in results for name in metrics)]
    return rows


def _curves(runs: Sequence[Compared]) -> list[str]:
    """Two curves of the main metric and the loss, of the validation split where there is one."""
    logged = dict.fromkeys(name for run in runs for record in run.records for name in record.values)
    metrics = (name.partition("/")[2] for name in logged if name not in NOT_METRICS)
    names = dict.fromkeys([main_metric(metrics), "loss"])
    both = ([each for each in (f"val/{name}", f"train/{name}") if each in logged] for name in names)
    return [splits[0] for splits in both if splits]


def _table(runs: list[Compared], rows: list[Row]) -> Table:
    """A column for each run."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", *(run.name for run in runs)):
        table.add_column(on_terminal(heading), overflow="fold")
    for row in rows:
        texts = (metric(row.metric, cell) if isinstance(cell, float) else str(cell) for cell in row.cells)
        table.add_row(*map(on_terminal, (row.name.replace(row.metric, words(row.metric)) if row.metric else row.name,
                                         *texts)))
    return table


def _flat(tree: PyTree, path: str = "") -> dict[str, Any]:
    """Leaves by key path."""
    if not isinstance(tree, dict):
        return {path: tree}
    return {key: leaf for name, value in tree.items()
            for key, leaf in _flat(value, f"{path}.{name}" if path else str(name)).items()}


if __name__ == "__main__":
    sys.exit(main())
