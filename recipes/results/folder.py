"""The run folder, with files in readable formats.

    config.yaml         the resolved config; --config with it gives the same run
    environment.json    everything that the last bits depend on: devices, threads, jaxlib, CPU, code, sparse products
    data.json           the facts on the data that the run printed before training
    metrics.jsonl       one line per step; timing.jsonl: speed and memory, one line per report
    checkpoints/        see `recipes.results.checkpoint`
    result.json         test metrics of the last and of the best parameters
    learning_curve.png
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import yaml

from recipes.config import KernelConfig, RunConfig
from recipes.errors import ConfigError, RecipeError
from recipes.names import in_utf8
from recipes.results.numbers import decimal
from recipes.settings.config_file import load_config, load_kernel_config, task_module
from xnn.whole_files import named, whole_file

# Keys that may change on resume; none affects results.
FREE = ("devices", "log_every", "checkpoint_every", "keep_checkpoints", "trackers")
DATA = "data.json"
# Keys of tasks that earlier versions did not have: they split without regard to classes, and used own graphs as read.
LATER = ("stratify", "standardize", "edge_weights")
PRODUCTS = "products with the adjacency"                  # key of environment.json; a resumed run keeps the form


# ---- a new run ---------------------------------------------------------------------------------------------------


def new_folder(config: RunConfig | KernelConfig, name: str) -> Path:
    """The empty folder of a new run, with its ``config.yaml``: ``run_dir``, or the first free of runs/NAME, NAME-2, ...

    Raises: RecipeError if ``run_dir`` is not empty.
    """
    path = config.run_dir
    if path is None:
        names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
        path = next(path for path in (Path("runs").absolute() / each for each in names) if _is_made(path))
    elif _in_use(path):
        raise RecipeError("run", "the run folder is in use: it would be overwritten.", {"run_dir": path},
                          fix="another run_dir." if isinstance(config, KernelConfig) else
                          f"--resume {path} to continue that run, or another run_dir.")
    path.mkdir(parents=True, exist_ok=True)
    write_config(config, path)
    return path


def _is_made(path: Path) -> bool:
    """Makes a folder, unless it exists: another process that begins now may have made it."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        return False
    return True


def write_config(config: RunConfig | KernelConfig, folder: Path) -> None:
    """Writes ``config.yaml`` without the path of the folder, which may be moved."""
    write_text(folder / "config.yaml", config.model_copy(update={"run_dir": None}).to_yaml())


def _in_use(path: Path) -> bool:
    return path.exists() and (not path.is_dir() or any(path.iterdir()))


# ---- an earlier run ---------------------------------------------------------------------------------------------


def find_run(run: str | None = None, config_name: str | None = None) -> Path:
    """The folder of an earlier run.

    Args:
      run: its path, or its name in ./runs. None: the newest run, of ``config_name`` if given.
    Raises: RecipeError with the names of all runs, if there is none such.
    """
    if run:
        for path in (Path(run).expanduser(), Path("runs") / run):
            if (path / "config.yaml").is_file():
                return path.absolute()
    known = {path: _last_change(path) for path in Path("runs").glob("*") if (path / "config.yaml").is_file()}
    if not run:
        wanted = [path for path in known if config_name is None or _is_of(path.name, config_name)]
        if wanted:
            return max(wanted, key=lambda path: known[path]).absolute()
    names = ", ".join(sorted(path.name for path in known)) or "none"
    raise RecipeError("run", "there is no such run." if run else "there is no run to resume.",
                      {"looked for": run or f"runs/{config_name or '*'}", "runs": names},
                      fix="name the folder of a run that has a config.yaml, or start a new one.")


def is_kernel_run(folder: Path) -> bool:
    """Whether a folder has a kernel regression."""
    try:
        content = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        return False                                          # the reader of the config has an error for it
    return isinstance(content, dict) and "kernel" in content and "steps" not in content


def saved_kernel_config(folder: Path) -> KernelConfig:
    """The config of an earlier kernel regression.  Raises: ConfigError."""
    config = load_kernel_config(str(folder / "config.yaml"))
    return config.model_copy(update={"run_dir": folder})


def saved_config(folder: Path, overrides: Sequence[str] = (), extend: int | None = None) -> RunConfig:
    """The config of an earlier run, with changes that are allowed on resume.

    Args:
      overrides: of keys in ``FREE``, and of paths of the data.
      extend: the new last step. The schedule of the learning rate does not change.
    Raises: ConfigError, RecipeError.
    """
    file = folder / "config.yaml"
    saved = load_config(str(file))
    changed = [text for text in overrides if not _is_free(saved, text.partition("=")[0])]
    if changed:
        raise ConfigError("run", "these keys cannot be overridden on resume: they would change the results.",
                          {"run": folder, "given": " ".join(changed), "free": ", ".join(FREE)},
                          fix="--extend N for more steps, or a new run with this config and the overrides.")
    config = as_written(load_config(str(file), overrides) if overrides else saved, file)
    if extend is not None:
        if extend <= config.steps:
            raise ConfigError("run", f"--extend {extend} is not more than the steps of the run.",
                              {"run": folder, "steps": config.steps}, fix=f"a number above {config.steps}.")
        config = config.model_copy(update={"steps": extend, "schedule_steps": config.schedule_steps or config.steps})
    return config.model_copy(update={"run_dir": folder})


def _is_free(config: RunConfig, key: str) -> bool:
    """Whether a key may change on resume: it is one of ``FREE``, or says where the data are, which may have moved."""
    value: object = config
    for name in key.split("."):
        value = getattr(value, name, None)
    paths = value if isinstance(value, tuple) and value else (value,)
    return key in FREE or (key.startswith("task.") and all(isinstance(path, Path) for path in paths))


def as_written(config: RunConfig, file: Path) -> RunConfig:
    """A saved config that means what it meant when it was written: keys of `LATER` that it lacks are false."""
    written = yaml.safe_load(file.read_text("utf-8"))["task"]
    lacking = [key for key in LATER if key in type(config.task).model_fields and key not in written]
    return config.model_copy(update={"task": config.task.model_copy(update=dict.fromkeys(lacking, False))})


def _is_of(folder_name: str, config_name: str) -> bool:
    stem, _, number = folder_name.rpartition("-")
    return folder_name == config_name or (stem == config_name and number.isdecimal())


def _last_change(folder: Path) -> float:
    return max(file.stat().st_mtime for file in (folder / "config.yaml", folder / "metrics.jsonl") if file.exists())


# ---- the environment ---------------------------------------------------------------------------------------------


def note_environment(path: Path, environment: Mapping[str, Any]) -> list[str]:
    """Writes ``environment.json``.  Returns: its differences from the previous file, as lines.

    Raises: RecipeError if the previous file is damaged.
    """
    before = noted_environment(path) or environment
    changes = [f"{key}: {before.get(key)} before, {environment.get(key)} now"
               for key in sorted(before.keys() | environment.keys()) if before.get(key) != environment.get(key)]
    write_json(path / "environment.json", dict(environment))
    return changes


def noted_environment(path: Path) -> dict[str, Any]:
    """The content of ``environment.json``; {} without the file.  Raises: RecipeError if it is damaged."""
    file = path / "environment.json"
    try:
        content = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        if not isinstance(content, dict):
            raise ValueError(f"{type(content).__name__} instead of keys and values")
    except (ValueError, RecursionError) as err:
        raise RecipeError("run", "environment.json is damaged.", {"file": file, "why": err},
                          fix="delete this file: the run then cannot report changes of the environment.") from None
    return content


def environment(config: RunConfig | KernelConfig, devices: int, device_kind: str, processes: int = 1,
                form: str | None = None) -> dict[str, Any]:
    """Everything that the last bits of a result depend on: each entry may change the order of XLA's sums.

    Args: form: of products with the adjacency of a graph.
    """
    task_file = Path(str(task_module(config.task.name).__file__))
    package = Path(str(resources.files("recipes")))
    loop = sorted(file for file in package.rglob("*.py") if file.parent.name != "tasks")
    return {
        "devices": devices,
        **({"processes": processes} if processes > 1 else {}),
        **({PRODUCTS: form} if form else {}),
        "device_kind": device_kind,
        "threads": os.environ.get("XJAX_NUM_THREADS") or len(os.sched_getaffinity(0)),
        "cpu": _cpu_name(),
        "jaxlib": metadata.version("jaxlib"),
        "python": platform.python_version(),
        f"code of the task, {task_file.name}": _digest([task_file]),
        "code of the loop, recipes": _digest(loop),
        "code of the models, xnn": _digest(sorted((package.parent / "xnn").rglob("*.py"))),
    }


def _digest(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def read_json(file: Path) -> dict[str, Any]:
    """The content of a JSON file of the run; {} without the file.  Raises: RecipeError if it is damaged."""
    try:
        content = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as err:
        raise RecipeError("run", "a file of the run is damaged.", {"file": file, "why": err},
                          fix="--resume the run: it writes the file again.") from None
    return content if isinstance(content, dict) else {}


def shown(path: Path) -> str:
    """A path as text, relative if it is below the current folder."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def write_json(file: Path, value: object) -> None:
    write_text(file, json.dumps(value, indent=1) + "\n")


def write_csv(file: Path, header: Sequence[object], rows: Iterable[Sequence[object]]) -> None:
    """A table, with numbers in full precision."""
    out = io.StringIO(newline="")
    cells = ([decimal(cell) if isinstance(cell, float) else cell for cell in row] for row in rows)
    csv.writer(out).writerows([header, *cells])
    write_text(file, in_utf8(out.getvalue()))


def append_text(file: Path, text: str) -> None:
    """Adds text at the end of a file.  Raises: OSError with the name of the file, also if the disk is full."""
    with named(file), file.open("a", encoding="utf-8") as out:
        out.write(text)


def write_text(file: Path, text: str) -> None:
    """Writes a whole file or none, since a resumed run reads it."""
    with whole_file(file) as out:
        out.write(text.encode())
