"""Command line: ``python -m recipes.new_edges RUN --node ID``: the most likely further edges of a node."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence

import numpy as np

from recipes.errors import RecipeError, exit_code_of
from recipes.trained import Trained, open_run


def main(argv: Sequence[str] | None = None) -> int:
    """Prints pairs and their probabilities.  Returns: 0; 2 for wrong options; 1 if the run predicts no links."""
    parser = argparse.ArgumentParser(prog="recipes.new_edges", description="The most likely new edges of a node.",
                                     epilog="example: python -m recipes.new_edges gae_cora --node 17 --top 5")
    parser.add_argument("run", help="a run folder, a name in ./runs, or an exported folder")
    parser.add_argument("--node", required=True, metavar="ID", help="the id of the node in the graph's data")
    parser.add_argument("--top", type=int, default=10, metavar="K", help="number of edges; 10 by default")
    parser.add_argument("--last", action="store_true", help="use the last parameters, not the best on validation")
    args = parser.parse_args(argv)
    if args.top < 1:
        parser.error("--top must be at least 1")
    return exit_code_of(lambda: _work(args))


def _work(args: argparse.Namespace) -> None:
    columns = new_edges(open_run(args.run, args.last), args.node, args.top)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows((source, target, f"{probability:.4f}")
                     for source, target, probability in zip(*columns.values(), strict=True))


def new_edges(trained: Trained, node: str, top: int = 10) -> dict[str, np.ndarray]:
    """Columns source, target and probability of the node pairs without an edge, the most likely first.

    Raises: DataError for an unknown node; RecipeError if the run predicts no links.
    """
    if not hasattr(trained.task, "possible"):
        raise RecipeError("new_edges", "the run predicts no links.",
                          {"run": trained.folder, "task": trained.config.task.name},
                          fix="a run of the task link_prediction.")
    columns = trained.predict(trained.task.possible(node))
    order = np.argsort(-columns["probability"], kind="stable")[:top]
    return {name: values[order] for name, values in columns.items()}


if __name__ == "__main__":
    sys.exit(main())
