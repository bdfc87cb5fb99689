"""``--sweep optim.lr=1e-3,1e-2 seed=0..4``: a run for each combination; a table of mean and deviation over seeds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from recipes.config import RunConfig
from recipes.errors import ConfigError
from recipes.process.interrupts import Interrupts
from recipes.results.folder import read_json, saved_config
from recipes.results.numbers import spread
from recipes.settings.config_file import load_config
from recipes.training.run import Result, run

Choice = tuple[str, ...]                                      # "optim.lr=1e-3", "seed=0"


def sweep(name: str, overrides: Sequence[str], axes: Sequence[str], interrupts: Interrupts) -> None:
    """Trains all combinations, in folders below runs/NAME-sweep; finished runs there are not trained again.

    Args: axes: ``key=value,value``, or ``key=first..last`` with integers.
    Raises: ConfigError before the first run if any combination is wrong.
    """
    home = Path("runs") / f"{Path(name).stem}-sweep"
    choices = [tuple(choice) for choice in itertools.product(*map(values_of, axes))]
    configs = {choice: load_config(name, [*overrides, *choice, f"run_dir={home / '_'.join(choice)}"])
               for choice in choices}
    results: dict[Choice, Result] = {}
    for choice, config in configs.items():
        folder = config.run_dir
        assert folder is not None
        print(f"\n{' '.join(choice)}", flush=True)
        begun = (folder / "config.yaml").is_file()
        if begun and not _same(folder, config):
            raise ConfigError("sweep", "the folder has a run with another config.", {"folder": folder},
                              fix="move the sweep's folder away, or repeat the overrides with which that sweep began.")
        if begun and (folder / "result.json").is_file():
            print("finished before")
            results[choice] = read_json(folder / "result.json")
        elif begun:
            results[choice] = run(saved_config(folder), folder.name, resume=True, interrupts=interrupts)
        else:
            results[choice] = run(config, folder.name, interrupts=interrupts)
    Console(soft_wrap=True).print(_table(results))


def values_of(axis: str) -> list[str]:
    """``seed=0..2`` -> ["seed=0", "seed=1", "seed=2"]; ``a=x,[1,2]`` splits at commas outside brackets.

    Raises: ConfigError.
    """
    key, equals, text = axis.partition("=")
    first, dots, last = text.partition("..")
    if dots and first.lstrip("-").isdecimal() and last.lstrip("-").isdecimal() and int(first) <= int(last):
        return [f"{key}={number}" for number in range(int(first), int(last) + 1)]
    values, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0:
            values.append("")
        else:
            values[-1] += letter
    if not equals or not all(values):
        raise ConfigError("config", f"{axis!r} is not an axis of a sweep.", {"--sweep": axis},
                          fix="key.path=value,value or key.path=0..4.")
    return [f"{key}={value}" for value in values]


def _same(folder: Path, config: RunConfig) -> bool:
    """Whether the run in the folder has this config."""
    blank = {"run_dir": None, "schedule_steps": None}
    return saved_config(folder).model_copy(update=blank) == config.model_copy(update=blank)


def _table(results: dict[Choice, Result]) -> Table:
    """A row for each combination without its seed: mean and standard deviation of the test metrics."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    groups: dict[Choice, list[Result]] = {}
    for choice, result in results.items():
        groups.setdefault(tuple(text for text in choice if not text.startswith("seed=")), []).append(result)
    names = list(dict.fromkeys(name for result in results.values() for name in result["last"]["test"]))
    for heading in ("", "runs", *(f"test {name.replace('_', ' ')}" for name in names)):
        table.add_column(heading)
    for choice, group in groups.items():
        cells = []
        for name in names:
            cells.append(spread(name, [result["last"]["test"][name] for result in group]))
        table.add_row(" ".join(choice), str(len(group)), *cells)
    return table
