"""Saves and runs exported programs in a process of its own: ``python -m tests.export.worker save jax FOLDER``.

Commands: ``save LIBRARY FOLDER`` exports all programs to files; ``run LIBRARY FOLDER RESULTS`` loads and runs them;
``direct LIBRARY RESULTS`` runs the functions themselves; ``copy LIBRARY FOLDER NEW`` loads the files and saves them
again. `LIBRARY` is jax or xjax; names of programs may follow.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.export.programs import programs, run, specs


def save(jax: Any, export: Any, names: list[str], folder: str) -> None:
    for name, program in selected(jax, names).items():
        args, kwargs = specs(jax, export, program)
        exported = export.export(jax.jit(program.function))(*args, **kwargs)
        Path(folder, f"{name}.bin").write_bytes(exported.serialize(vjp_order=int(program.grad)))


def run_files(jax: Any, export: Any, names: list[str], folder: str, results: str) -> None:
    store(results, {name: run(jax, export.deserialize(read(folder, name)).call, program)
                    for name, program in selected(jax, names).items()})


def direct(jax: Any, export: Any, names: list[str], results: str) -> None:
    store(results, {name: run(jax, jax.jit(program.function), program)
                    for name, program in selected(jax, names).items()})


def copy(jax: Any, export: Any, names: list[str], folder: str, new: str) -> None:
    for name, program in selected(jax, names).items():
        exported = export.deserialize(read(folder, name))
        Path(new, f"{name}.bin").write_bytes(exported.serialize(vjp_order=int(program.grad)))


def selected(jax: Any, names: list[str]) -> dict:
    table = programs(jax)
    return {name: table[name] for name in names or table}


def read(folder: str, name: str) -> bytearray:
    return bytearray(Path(folder, f"{name}.bin").read_bytes())


def store(path: str, results: dict[str, list[np.ndarray]]) -> None:
    np.savez(path, **{f"{name}/{i}": x for name, xs in results.items() for i, x in enumerate(xs)})


COMMANDS = {"save": (save, 1), "run": (run_files, 2), "direct": (direct, 1), "copy": (copy, 2)}


def main(command: str, library: str, *rest: str) -> None:
    function, count = COMMANDS[command]
    jax = importlib.import_module(library)
    export = importlib.import_module(f"{library}.export")
    function(jax, export, list(rest[count:]), *rest[:count])


if __name__ == "__main__":
    main(*sys.argv[1:])
