"""Command line: ``python -m recipes.kernel --config kernel_digits.yaml [key.path=value ...]``: kernel regression.

The model of the config is taken with infinitely many features in each layer (docs/kernels.md). It has no parameters and
no steps, so this is a command of its own, and its configs have no keys of training. The ridge is chosen among
candidates. `recipes.predict`, `recipes.evaluate` and `recipes.report` take its run folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from recipes import STARTED
from recipes.errors import exit_code_of
from recipes.settings.config_file import load_kernel_config
from recipes.settings.listing import list_kernel
from recipes.training.kernel_run import run_kernel

DEFAULT = "kernel_digits.yaml"


def main(argv: Sequence[str] | None = None) -> int:
    """Fits a kernel regression.  Returns: 0; 2 for a wrong config; 128 + n after signal n; 1 if the run fails."""
    parser = argparse.ArgumentParser(prog="recipes.kernel", description="Kernel regression with the model of a config, "
                                                                        "with infinitely many features.",
                                     epilog="example: python -m recipes.kernel --config kernel_digits.yaml "
                                            "kernel.name=ntk")
    parser.add_argument("--config", default=DEFAULT, help="a path, a name in ./configs, or a name of a config shipped "
                                                          f"with the package; {DEFAULT} by default")
    parser.add_argument("overrides", nargs="*", metavar="key.path=value", help="for example kernel.name=ntk")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--print-config", action="store_true", help="print the config with all defaults, and stop")
    instead.add_argument("--list", nargs="?", const="", metavar="TASK",
                         help="print the keys, or those of a task, and stop")
    args = parser.parse_intermixed_args(argv)
    return exit_code_of(lambda: _work(args))


def _work(args: argparse.Namespace) -> None:
    if args.list is not None:
        list_kernel(args.list)
        return
    config = load_kernel_config(args.config, args.overrides)
    if args.print_config:
        print(config.to_yaml(), end="")
    else:
        run_kernel(config, Path(args.config).stem, STARTED)


if __name__ == "__main__":
    sys.exit(main())
