"""``--sweep optim.lr=1e-3,1e-2 seed=0..4``: a run for each combination; a table of mean and deviation over seeds."""

from __future__ import annotations

import hashlib
import itertools
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from recipes.config import RunConfig
from recipes.errors import ConfigError, DataError, DivergedError, RecipeError
from recipes.names import on_terminal, printable
from recipes.process.interrupts import Interrupts
from recipes.results.folder import read_json, saved_config, shown, write_csv
from recipes.results.numbers import main_metric, spread, words
from recipes.results.plots import save_figure, sweep_figure
from recipes.settings.config_file import load_config
from recipes.training.run import Result, run

LONGEST = 200                                                 # bytes of a file name; file systems take at most 255
Choice = tuple[str, ...]                                      # "optim.lr=1e-3", "seed=0"
Groups = Mapping[Choice, Mapping[str, Sequence[float]]]       # combination -> metric -> a value for each seed


def sweep(name: str, overrides: Sequence[str], axes: Sequence[str], interrupts: Interrupts) -> None:
    """Trains all combinations, in folders below ``run_dir`` or runs/NAME-sweep.

    Finished runs there are not trained again. A run that fails by its own data or by a NaN does not end the sweep.

    Args: axes: ``key=value,value``, or ``key=first..last`` with integers.
    Raises: ConfigError before the first run if any combination is wrong; RecipeError at the end if runs failed.
    """
    choices = [tuple(choice) for choice in itertools.product(*map(values_of, axes))]
    configs = {choice: load_config(name, [*overrides, *choice]) for choice in choices}
    home = configs[choices[0]].run_dir or Path("runs").absolute() / f"{Path(name).stem}-sweep"
    configs = {choice: config.model_copy(update={"run_dir": home / folder_name(choice)})
               for choice, config in configs.items()}
    results: dict[Choice, Result] = {}
    failed: dict[str, str] = {}
    for choice, config in configs.items():
        folder = config.run_dir
        assert folder is not None
        print(f"\n{printable(' '.join(choice))}", flush=True)
        try:
            results[choice] = _result(folder, config, interrupts)
        except (DataError, DivergedError) as err:
            print(printable(err, keep="\n"), file=sys.stderr, flush=True)
            failed[printable(" ".join(choice))] = str(err).partition("\n")[0]
    if results:
        groups = _groups(results)
        Console(soft_wrap=True).print(_table(groups))
        _save(home, groups)
    if failed:
        raise RecipeError("sweep", f"{len(failed)} of {len(choices)} runs failed.", failed,
                          fix="other values, or the same command again, which trains only the runs that failed.")


def _result(folder: Path, config: RunConfig, interrupts: Interrupts) -> Result:
    """The result of one run, which is read, continued or trained."""
    begun = (folder / "config.yaml").is_file()
    if begun and not _same(folder, config):
        raise ConfigError("sweep", "the folder has a run with another config.", {"folder": folder},
                          fix="move the sweep's folder away, or repeat the overrides with which that sweep began.")
    if begun and (folder / "result.json").is_file():
        print("finished before")
        return read_json(folder / "result.json")
    if begun:
        return run(saved_config(folder), folder.name, resume=True, interrupts=interrupts)
    return run(config, folder.name, interrupts=interrupts)


def folder_name(choice: Choice) -> str:
    """The name of a run folder: the choice itself where a file system takes it, else a short form with its digest."""
    name = "_".join(choice)
    if "/" not in name and len(os.fsencode(name)) <= LONGEST:
        return name
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
    short = "_".join(text.replace("/", "-") for text in choice)
    while len(os.fsencode(short)) > LONGEST - 9:
        short = short[:-1]
    return f"{short}-{digest}"


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


def _groups(results: Mapping[Choice, Result]) -> Groups:
    groups: dict[Choice, dict[str, list[float]]] = {}
    for choice, result in results.items():
        group = groups.setdefault(tuple(text for text in choice if not text.startswith("seed=")), {})
        for name, value in result["last"]["test"].items():
            group.setdefault(name, []).append(value)
    return groups


def _metrics(groups: Groups) -> list[str]:
    return list(dict.fromkeys(name for group in groups.values() for name in group))


def _table(groups: Groups) -> Table:
    """A row for each combination: mean and standard deviation of the test metrics."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    names = _metrics(groups)
    for heading in ("", "runs", *(f"test {words(name)}" for name in names)):
        table.add_column(on_terminal(heading))
    for choice, group in groups.items():
        runs = max(map(len, group.values()), default=0)
        cells = (spread(name, group[name]) if name in group else "" for name in names)
        table.add_row(on_terminal(" ".join(choice)), str(runs), *cells)
    return table


def _save(home: Path, groups: Groups) -> None:
    """Writes the table with full precision, and a plot of the score: files next to the folder, which has only runs."""
    table, plot = (home.with_name(f"{home.name}{suffix}") for suffix in (".csv", ".png"))
    names, keys = _metrics(groups), [text.partition("=")[0] for text in next(iter(groups))]
    header = [*keys, "runs", *(f"test {name}{suffix}" for name in names for suffix in ("", " deviation"))]
    rows = []
    for choice, group in groups.items():
        cells = [cell for name in names for cell in _mean_and_deviation(group.get(name, ()))]
        runs = max(map(len, group.values()), default=0)
        rows.append([*(text.partition("=")[2] for text in choice), runs, *cells])
    write_csv(table, header, rows)
    if names:
        score = main_metric(names)
        rows = [(" ".join(choice) or "all runs", group.get(score, ())) for choice, group in groups.items()]
        save_figure(sweep_figure(rows, score), plot)
    print(printable(f"the table in {shown(table)}" + (f", a plot in {plot.name}" if names else "")))


def _mean_and_deviation(values: Sequence[float]) -> tuple[object, object]:
    return statistics.fmean(values) if values else "", statistics.stdev(values) if len(values) > 1 else ""
