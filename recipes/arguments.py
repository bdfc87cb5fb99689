"""The arguments of all commands that train: a config or a run to resume, and overrides of keys."""

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
    """The run that the arguments of a command name; ``folder`` is that of a run to resume."""

    config: RunConfig
    name: str
    folder: Path = Path()
    resume: bool = False


def chosen_run(args: argparse.Namespace) -> Chosen:
    """The run named by the arguments that `add_run_arguments` defines.  Raises: ConfigError, RecipeError."""
    if args.resume is None:
        if args.extend is not None:
            raise ConfigError("run", "--extend needs --resume.", {"--extend": args.extend},
                              fix=f"--resume [RUN] --extend {args.extend}, or steps={args.extend} for a new run.")
        name = args.config or DEFAULT
        return Chosen(load_config(name, args.overrides), Path(name).stem)
    folder = find_run(args.resume, Path(args.config).stem if args.config else None)
    return Chosen(saved_config(folder, args.overrides, args.extend), folder.name, folder, True)


def parsed(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    """The parsed arguments of a command whose parser was given to `add_run_arguments`."""
    args = parser.parse_intermixed_args(argv)
    if args.resume and "=" in args.resume and not Path(args.resume).exists():
        args.overrides.insert(0, args.resume)                 # `--resume devices=2`: an override, not the name of a run
        args.resume = ""
    return args


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that name a run, for all commands that train."""
    parser.add_argument("--config", help="a path, a name in ./configs, or a name of a config shipped with the package; "
                                         f"{DEFAULT} by default")
    parser.add_argument("--resume", nargs="?", const="", metavar="RUN",
                        help="continue a run from its newest checkpoint: a folder, a name in ./runs, or, without a "
                             "name, the newest run (of --config, if given)")
    parser.add_argument("--extend", type=int, metavar="N", help="with --resume: train to step N; the schedule of the "
                                                                "learning rate does not change")
    parser.add_argument("overrides", nargs="*", metavar="key.path=value", help="for example optim.lr=3e-4")
