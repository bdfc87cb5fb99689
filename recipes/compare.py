"""Command line: ``python -m recipes.compare RUN RUN ...``: a table of results and differing keys, and one plot."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from rich.console import Console
from rich.table import Table

from recipes.errors import exit_code_of
from recipes.results.folder import find_run, read_json, saved_config, shown
from recipes.results.numbers import metric
from recipes.results.plots import comparison_figure
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
    parser.add_argument("--plot", type=Path, default=Path("comparison.png"), metavar="FILE", help="%(default)s")
    args = parser.parse_args(argv)
    return exit_code_of(lambda: _work(args.runs, args.plot))


def _work(names: list[str], plot: Path) -> None:
    runs = [_read(find_run(name)) for name in names]
    Console(soft_wrap=True).print(_table(runs))
    metrics = [name for name in ("val/accuracy", "val/loss", "train/accuracy", "train/loss")
               if any(name in record.values for run in runs for record in run.records)]
    comparison_figure({run.name: run.records for run in runs}, metrics[:2]).savefig(plot)
    print(f"curves in {shown(plot.absolute())}")


def _read(folder: Path) -> Compared:
    config = _flat(yaml.safe_load(saved_config(folder).to_yaml()))
    del config["run_dir"], config["schedule_steps"]           # set by the run itself, not by its user
    return Compared(shown(folder), config, read_json(folder / "result.json"), read_metrics(folder / "metrics.jsonl"))


def _table(runs: list[Compared]) -> Table:
    """A column for each run: the keys in which they differ, and the test metrics of last and best parameters."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", *(run.name for run in runs)):
        table.add_column(heading)
    for key in dict.fromkeys(key for run in runs for key in run.config):
        values = [str(run.config.get(key, "")) for run in runs]
        if len(set(values)) > 1:
            table.add_row(key, *values)
    for kind in ("last", "best"):
        results = [run.result.get(kind, {}).get("test", {}) for run in runs]
        for name in dict.fromkeys(name for metrics in results for name in metrics):
            numbers = (metric(name, metrics[name]) if name in metrics else "" for metrics in results)
            table.add_row(f"test {name.replace('_', ' ')}, {kind}", *numbers)
    return table


def _flat(tree: PyTree, path: str = "") -> dict[str, Any]:
    """Leaves by key path."""
    if not isinstance(tree, dict):
        return {path: tree}
    return {key: leaf for name, value in tree.items()
            for key, leaf in _flat(value, f"{path}.{name}" if path else str(name)).items()}


if __name__ == "__main__":
    sys.exit(main())
