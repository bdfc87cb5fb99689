"""Command line: ``python -m recipes.export RUN FOLDER``: a trained model as three files that load without the run.

    config.yaml         of the run
    exported.json       data that the model needs besides its parameters: class names, columns, a vocabulary
    model.safetensors   parameters and state, by path
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from recipes.errors import RecipeError, exit_code_of
from recipes.names import printable
from recipes.results.exported import ABOUT, ARRAYS, write_arrays
from recipes.results.folder import write_config, write_json
from recipes.task import Task
from recipes.trained import Trained, open_run


def main(argv: Sequence[str] | None = None) -> int:
    """Exports a model.  Returns: 0, or 1 if the run cannot be read or the folder cannot be written."""
    parser = argparse.ArgumentParser(prog="recipes.export", description="Writes a trained model into a folder.",
                                     epilog="example: python -m recipes.export gcn exported")
    parser.add_argument("run", help="a run folder, or a name in ./runs")
    parser.add_argument("folder", type=Path, help="a new or an empty folder")
    parser.add_argument("--last", action="store_true", help="export the last parameters, not the best on validation")
    args = parser.parse_args(argv)
    return exit_code_of(lambda: _work(args.run, args.folder, args.last))


def _work(run: str, folder: Path, last: bool) -> None:
    trained = open_run(run, last)
    if not isinstance(trained, Trained):
        raise RecipeError("export", "a kernel regression is used from its run folder.", {"run": trained.folder},
                          fix="copy this folder: `recipes.predict` and `open_run` need no other files.")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RecipeError("export", "the folder is not empty.", {"folder": folder}, fix="another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    about = {"step": trained.step, "kind": trained.kind, "artifacts": trained.task.artifacts}
    try:
        write_config(trained.config, folder)
        write_json(folder / ABOUT, about)
        write_arrays(folder / ARRAYS, (trained.params, trained.state))
    except BaseException:                                     # also a signal: the same command then works again
        for name in ("config.yaml", ABOUT, ARRAYS):
            (folder / name).unlink(missing_ok=True)
        raise
    print(f"the {trained.kind} parameters (step {trained.step}) in {printable(folder)}; to load them:\n"
          f"  from recipes.trained import open_run\n"
          f"  trained = open_run({str(folder)!r})\n"
          f"  {_use(trained.task)}")


def _use(task: Task) -> str:
    """The expression by which a loaded model of this task is used."""
    if type(task).read is not Task.read:
        return "trained.predict(FILE)"
    if hasattr(task, "generate"):
        return 'trained.task.generate(trained.params, "TEXT", 200)'
    return 'trained.metrics("test")'


if __name__ == "__main__":
    sys.exit(main())
