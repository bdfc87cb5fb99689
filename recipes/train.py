"""Command line: ``python -m recipes.train --config gcn.yaml [key.path=value ...]``, ``--resume [RUN]`` to go on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from recipes import STARTED
from recipes.config import RunConfig
from recipes.config_file import load_config
from recipes.dry_run import dry_run
from recipes.errors import ConfigError, exit_code_of
from recipes.folder import find_run, saved_config, shown
from recipes.interrupts import Interrupts
from recipes.listing import list_tasks
from recipes.run import run
from recipes.sweep import sweep

DEFAULT = "gcn.yaml"


def main(argv: Sequence[str] | None = None) -> int:
    """Trains.  Returns: 0; 2 for a wrong config; 128 + n after signal n; 1 if the run itself fails."""
    args = parsed(_parser(), argv)
    with Interrupts() as interrupts:
        return exit_code_of(lambda: _work(args, interrupts))


def _work(args: argparse.Namespace, interrupts: Interrupts) -> None:
    if args.list:
        list_tasks()
    elif args.sweep and args.resume is None:
        sweep(args.config or DEFAULT, args.overrides, args.sweep, interrupts)
    else:
        chosen = chosen_run(args)
        if args.print_config:
            print(chosen.config.to_yaml(), end="")
        elif args.dry_run:
            dry_run(chosen.config)
        else:
            if chosen.resume:
                print(f"run     {shown(chosen.folder)}", flush=True)
            run(chosen.config, chosen.name, resume=chosen.resume, interrupts=interrupts, started=STARTED)


class Chosen(NamedTuple):
    """The run that the arguments of a command name; ``folder`` is where an earlier one is."""

    config: RunConfig
    name: str
    folder: Path = Path()
    resume: bool = False


def chosen_run(args: argparse.Namespace) -> Chosen:
    """Reads what `add_run_arguments` added.  Raises: ConfigError, RecipeError."""
    if args.resume is None:
        if args.extend is not None:
            raise ConfigError("run", "--extend is for --resume.", {"--extend": args.extend},
                              fix=f"--resume [RUN] --extend {args.extend}, or steps={args.extend} for a new run.")
        name = args.config or DEFAULT
        return Chosen(load_config(name, args.overrides), Path(name).stem)
    folder = find_run(args.resume, Path(args.config).stem if args.config else None)
    return Chosen(saved_config(folder, args.overrides, args.extend), folder.name, folder, True)


def parsed(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments of a command that has those of `add_run_arguments`."""
    args = parser.parse_intermixed_args(argv)
    if args.resume and "=" in args.resume and not Path(args.resume).exists():
        args.overrides.insert(0, args.resume)                 # `--resume devices=2`: no run has such a name
        args.resume = ""
    return args


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that name a run, for all commands that train."""
    parser.add_argument("--config", help="a path, a name in ./configs, or a name of a config shipped with the package; "
                                         f"{DEFAULT} by default")
    parser.add_argument("--resume", nargs="?", const="", metavar="RUN",
                        help="go on with a run from its newest checkpoint: a folder, a name in ./runs, or, without a "
                             "name, the newest run (of --config, if given)")
    parser.add_argument("--extend", type=int, metavar="N", help="with --resume: train to step N; the schedule of the "
                                                                "learning rate stays what it was")
    parser.add_argument("overrides", nargs="*", metavar="key.path=value", help="for example optim.lr=3e-4")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recipes.train", description="Trains what a config says.")
    add_run_arguments(parser)
    parser.add_argument("--sweep", nargs="+", metavar="key=values",
                        help="a run for each combination: optim.lr=1e-3,1e-2 seed=0..4")
    parser.add_argument("--dry-run", action="store_true", help="print the model, its memory and one step, and stop")
    parser.add_argument("--print-config", action="store_true", help="print the config with all defaults, and stop")
    parser.add_argument("--list", action="store_true", help="print all tasks and keys, and stop")
    return parser


if __name__ == "__main__":
    sys.exit(main())
