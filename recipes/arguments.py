"""The arguments of all commands that train: which config, or which run to go on with, and overrides of keys."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from recipes.config import RunConfig
from recipes.errors import ConfigError
from recipes.results.folder import find_run, saved_config
from recipes.settings.config_file import load_config

DEFAULT = "gcn.yaml"


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
