"""``python -m recipes`` prints the commands, the tasks and examples; ``python -m recipes COMMAND ...`` runs a command.

The console script ``xjax-recipes`` does the same.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

from recipes.config import close_to
from recipes.errors import ConfigError, exit_code_of
from recipes.settings.config_file import all_sections
from recipes.settings.listing import summary

COMMANDS = {
    "train": "Trains a model, resumes a run, or shows its data (--preview)",
    "launch": "Trains in several processes",
    "kernel": "Kernel regression with the infinitely wide version of a model",
    "evaluate": "Prints the metrics of a trained model on its data",
    "predict": "Predicts for a file: a table, images, texts or a graph",
    "new_edges": "Lists the most likely new edges of a node",
    "generate": "Continues a text with a language model",
    "report": "Writes a page about a run",
    "compare": "Compares runs: a table and a plot",
    "export": "Writes a trained model into a folder that needs no run",
}
EXAMPLES = """\
  python -m recipes train --config gcn.yaml
  python -m recipes train --config mlp_table.yaml task.file=shop.csv task.target=sold
  python -m recipes predict mlp_table --input new.csv --output predicted.csv"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command, or prints the overview.  Returns: the exit code of the command; 2 if there is no such command."""
    argv = sys.argv[1:] if argv is None else list(argv)
    if not argv or argv[0] in ("-h", "--help"):
        print(overview())
        return 0
    return exit_code_of(lambda: _command(argv[0]).main(argv[1:]))


def overview() -> str:
    """The commands and the tasks, with a line for each, and examples."""
    tasks = {name: summary(model) for name, model in all_sections()}
    return f"""\
usage: python -m recipes COMMAND ...      (also: xjax-recipes COMMAND ...)

commands; COMMAND --help prints the arguments of one:
{_lines(COMMANDS)}

tasks; train --list TASK prints the keys of one:
{_lines(tasks)}

examples:
{EXAMPLES}"""


def _lines(meanings: Mapping[str, str]) -> str:
    width = max(map(len, meanings))
    return "\n".join(f"  {name:<{width}}  {meaning}" for name, meaning in meanings.items())


def _command(name: str) -> ModuleType:
    if name.startswith("-"):
        raise ConfigError("recipes", f"a command is needed before {name!r}.", {"commands": ", ".join(COMMANDS)},
                          fix=f"python -m recipes train {name} ..., or another command.")
    if name not in COMMANDS:
        raise ConfigError("recipes", f"there is no command {name!r}{close_to(name, list(COMMANDS))}.",
                          {"commands": ", ".join(COMMANDS)}, fix="python -m recipes prints what each command does.")
    return importlib.import_module(f"recipes.{name}")


if __name__ == "__main__":
    sys.exit(main())
