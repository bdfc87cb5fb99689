"""Command line: ``python -m recipes.train --config gcn.yaml [key.path=value ...]``, ``--resume [RUN]`` to go on."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from recipes import STARTED
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
    args = _parser().parse_intermixed_args(argv)
    if args.resume and "=" in args.resume and not Path(args.resume).exists():
        args.overrides.insert(0, args.resume)                 # `--resume devices=2`: no run has such a name
        args.resume = ""
    with Interrupts() as interrupts:
        return exit_code_of(lambda: _work(args, interrupts))


def _work(args: argparse.Namespace, interrupts: Interrupts) -> None:
    if args.extend is not None and args.resume is None:
        raise ConfigError("run", "--extend is for --resume.", {"--extend": args.extend},
                          fix=f"--resume [RUN] --extend {args.extend}, or steps={args.extend} for a new run.")
    if args.list:
        list_tasks()
    elif args.resume is None:
        name = args.config or DEFAULT
        if args.sweep:
            sweep(name, args.overrides, args.sweep, interrupts)
            return
        config = load_config(name, args.overrides)
        if args.print_config:
            print(config.to_yaml(), end="")
        elif args.dry_run:
            dry_run(config)
        else:
            run(config, Path(name).stem, interrupts=interrupts, started=STARTED)
    else:
        folder = find_run(args.resume, Path(args.config).stem if args.config else None)
        config = saved_config(folder, args.overrides, args.extend)
        print(f"run     {shown(folder)}", flush=True)
        run(config, folder.name, resume=True, interrupts=interrupts, started=STARTED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recipes.train", description="Trains what a config says.")
    parser.add_argument("--config", help="a path, a name in ./configs, or a name of a config shipped with the package; "
                                         f"{DEFAULT} by default")
    parser.add_argument("--resume", nargs="?", const="", metavar="RUN",
                        help="go on with a run from its newest checkpoint: a folder, a name in ./runs, or, without a "
                             "name, the newest run (of --config, if given)")
    parser.add_argument("--extend", type=int, metavar="N", help="with --resume: train to step N; the schedule of the "
                                                                "learning rate stays what it was")
    parser.add_argument("--sweep", nargs="+", metavar="key=values",
                        help="a run for each combination: optim.lr=1e-3,1e-2 seed=0..4")
    parser.add_argument("--dry-run", action="store_true", help="print the model, its memory and one step, and stop")
    parser.add_argument("--print-config", action="store_true", help="print the config with all defaults, and stop")
    parser.add_argument("--list", action="store_true", help="print all tasks and keys, and stop")
    parser.add_argument("overrides", nargs="*", metavar="key.path=value", help="for example optim.lr=3e-4")
    return parser


if __name__ == "__main__":
    sys.exit(main())
