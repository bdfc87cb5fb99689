"""Command line: ``python -m recipes.evaluate RUN``: the metrics of a trained model on the splits of its data."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from recipes.errors import exit_code_of
from recipes.names import on_terminal
from recipes.results.folder import shown
from recipes.results.numbers import metric, words
from recipes.trained import Trained, open_run
from recipes.training.opened import Opened


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a table of metrics.  Returns: 0, or 1 if the run or its data cannot be read."""
    parser = argparse.ArgumentParser(prog="recipes.evaluate", description="Evaluates a trained model on its data.",
                                     epilog="example: python -m recipes.evaluate gcn --split test")
    parser.add_argument("run", help="a run folder, or a name in ./runs")
    parser.add_argument("--split", choices=("train", "val", "test"), action="append",
                        help="val and test by default; may be given several times")
    args = parser.parse_args(argv)
    return exit_code_of(lambda: _work(args.run, args.split or ["val", "test"]))


def _work(run: str, splits: list[str]) -> None:
    models = [open_run(run)]
    if isinstance(models[0], Trained) and models[0].kind == "best" and not models[0].exported:
        models.append(open_run(run, last=True))
    Console(soft_wrap=True).print(_table(models, splits))


def _table(models: list[Opened], splits: list[str]) -> Table:
    table = Table(title=on_terminal(shown(models[0].folder)), title_justify="left", box=None, padding=(0, 2, 0, 0))
    results = {(i, split): model.metrics(split) for i, model in enumerate(models) for split in splits}
    names = list(dict.fromkeys(name for metrics in results.values() for name in metrics))
    for heading in (*models[0].about(), "split", *(words(name) for name in names)):
        table.add_column(on_terminal(heading))
    for i, model in enumerate(models):
        for split in splits:
            metrics = results[i, split]
            numbers = [metric(name, metrics[name]) if name in metrics else "" for name in names]
            table.add_row(*model.about().values(), split, *(numbers if metrics else ["no rows"]))
    return table


if __name__ == "__main__":
    sys.exit(main())
