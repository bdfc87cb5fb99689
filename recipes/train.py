"""Command line: ``python -m recipes.train --config gcn.yaml [--resume] [key.path=value ...]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from recipes.config import load_config
from recipes.errors import RecipeError


def main(argv: Sequence[str] | None = None) -> int:
    """Parses, builds, trains.  Returns: 0, 2 for a wrong config, 1 if the run itself fails."""
    args = _parser().parse_intermixed_args(argv)
    try:
        config = load_config(args.config, args.overrides)
        # The one import inside a function: a config error must not pay for loading jaxlib.
        from recipes.run import run

        run(config, Path(args.config).stem, resume=args.resume)
    except RecipeError as err:
        print(err, file=sys.stderr)
        return err.exit_code
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recipes.train", description="Trains what a config says.")
    parser.add_argument(
        "--config",
        default="gcn.yaml",
        help="a path, a name in ./configs, or a name of a config shipped with the package",
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on from the newest checkpoint of the run folder"
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="key.path=value", help="for example optim.lr=3e-4"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
