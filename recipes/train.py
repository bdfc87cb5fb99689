"""Command line: ``python -m recipes.train --config gcn.yaml [key.path=value ...]``, or ``--resume [RUN]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from recipes import STARTED
from recipes.arguments import DEFAULT, add_run_arguments, chosen_run, parsed
from recipes.errors import exit_code_of
from recipes.names import printable
from recipes.pages.preview import show_preview
from recipes.process.interrupts import Interrupts
from recipes.results.folder import shown
from recipes.settings.listing import list_tasks
from recipes.sweep import sweep
from recipes.training.dry_run import dry_run
from recipes.training.run import run


def main(argv: Sequence[str] | None = None) -> int:
    """Trains.  Returns: 0; 2 for a wrong config; 128 + n after signal n; 1 if the run itself fails."""
    args = parsed(_parser(), argv)
    with Interrupts() as interrupts:
        return exit_code_of(lambda: _work(args, interrupts))


def _work(args: argparse.Namespace, interrupts: Interrupts) -> None:
    if args.list is not None:
        list_tasks(args.list)
    elif args.sweep and args.resume is None:
        sweep(args.config or DEFAULT, args.overrides, args.sweep, interrupts)
    else:
        chosen = chosen_run(args)
        if args.print_config:
            print(chosen.config.to_yaml(), end="")
        elif args.dry_run:
            dry_run(chosen.config)
        elif args.preview:
            show_preview(chosen.config, chosen.name)
        else:
            if chosen.resume:
                print(f"run     {printable(shown(chosen.folder))}", flush=True)
            run(chosen.config, chosen.name, resume=chosen.resume, interrupts=interrupts, started=STARTED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recipes.train", description="Trains a model as a config describes.",
                                     epilog="example: python -m recipes.train --config gcn.yaml optim.lr=0.02")
    add_run_arguments(parser)
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--sweep", nargs="+", metavar="key=values",
                        help="a run for each combination: optim.lr=1e-3,1e-2 seed=0..4")
    instead.add_argument("--preview", action="store_true",
                         help="print what was read of the data, write a page with its pictures, and stop")
    instead.add_argument("--dry-run", action="store_true", help="print the model, its memory and one step, and stop")
    instead.add_argument("--print-config", action="store_true", help="print the config with all defaults, and stop")
    instead.add_argument("--list", nargs="?", const="", metavar="TASK",
                        help="print the keys of a task, or without TASK of everything, and stop")
    return parser


if __name__ == "__main__":
    sys.exit(main())
