"""The run folder: what a run leaves behind, made so that a person can read it.

config.yaml         the resolved config; as --config it gives the same run
environment.json    devices, threads, jaxlib and CPU: what the last bits of a result depend on
metrics.jsonl       one line per step
checkpoints/        see `recipes.checkpoint`
result.json         test metrics at the last step
learning_curve.png
"""

from __future__ import annotations

import itertools
import json
import os
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from recipes.config import TrainConfig
from recipes.errors import RecipeError

# What may change when a run goes on: none of it touches the numbers of a step.
FREE = {"steps", "devices", "log_every", "eval_every", "checkpoint_every", "keep_checkpoints"}


def open_folder(config: TrainConfig, name: str, *, resume: bool) -> Path:
    """The folder of this run, with its ``config.yaml`` written.

    Without ``run_dir`` it is ``runs/<name>``, ``runs/<name>-2`` and so on: a new run takes the
    first free one, a resumed run the last one used.

    Raises: RecipeError if ``run_dir`` holds a run and resume is False, if there is nothing to
        resume, or if the config differs from the run's own.
    """
    if resume:
        path = config.run_dir or _last_used(name)
        if not (path / "config.yaml").is_file():
            raise RecipeError(
                "run",
                "there is no run to resume.",
                {"looked in": path},
                fix="run_dir=FOLDER of the run, or leave --resume out.",
            )
        _check_same(config, path / "config.yaml")
    else:
        path = config.run_dir or _first_free(name)
        if _in_use(path):
            raise RecipeError(
                "run",
                "the run folder is in use: it would be overwritten.",
                {"run_dir": path},
                fix="--resume to go on with that run, or another run_dir.",
            )
        path.mkdir(parents=True, exist_ok=True)
    _write(path / "config.yaml", config.to_yaml())
    return path


def note_environment(path: Path, environment: Mapping[str, Any]) -> list[str]:
    """Writes ``environment.json``; what differs from the one that was there, as lines."""
    file = path / "environment.json"
    before = json.loads(file.read_text("utf-8")) if file.is_file() else dict(environment)
    _write(file, json.dumps(dict(environment), indent=1) + "\n")
    keys = sorted(before.keys() | environment.keys())
    return [
        f"{key}: {before.get(key)} before, {environment.get(key)} now"
        for key in keys
        if before.get(key) != environment.get(key)
    ]


def environment(devices: int, device_kind: str) -> dict[str, Any]:
    """What a result's last bits depend on: XLA's sums change with each of these."""
    return {
        "devices": devices,
        "device_kind": device_kind,
        "threads": os.environ.get("XJAX_NUM_THREADS") or len(os.sched_getaffinity(0)),
        "cpu": _cpu_name(),
        "jaxlib": metadata.version("jaxlib"),
        "python": platform.python_version(),
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _folders(name: str) -> Any:
    yield Path("runs") / name
    for number in itertools.count(2):
        yield Path("runs") / f"{name}-{number}"


def _in_use(path: Path) -> bool:
    return path.exists() and (not path.is_dir() or any(path.iterdir()))


def _first_free(name: str) -> Path:
    return next(path for path in _folders(name) if not _in_use(path))


def _last_used(name: str) -> Path:
    used = list(itertools.takewhile(_in_use, _folders(name)))
    return used[-1] if used else next(_folders(name))


def _check_same(config: TrainConfig, saved: Path) -> None:
    now, before = (_flat(yaml.safe_load(text)) for text in (config.to_yaml(), saved.read_text()))
    faults = {
        key: f"{before.get(key)} in the run, {now.get(key)} now"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and key not in FREE | {"run_dir"}
    }
    if faults:
        raise RecipeError(
            "run",
            "the config differs from that of the run to resume.",
            {"run": saved.parent, **faults},
            fix=f"--config {saved} --resume run_dir={saved.parent}, or start a new run.",
        )


def _flat(tree: Any, path: str = "") -> dict[str, Any]:
    """Leaves by key path."""
    if not isinstance(tree, dict):
        return {path: tree}
    return {
        key: leaf
        for name, value in tree.items()
        for key, leaf in _flat(value, f"{path}.{name}" if path else str(name)).items()
    }


def _write(file: Path, text: str) -> None:
    """All of it or none of it: a resumed run reads these."""
    scratch = file.with_name(f".{file.name}.tmp")
    scratch.write_text(text, "utf-8")
    os.replace(scratch, file)
