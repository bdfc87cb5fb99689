"""``python -m xjax``: runs a program, a module (-m) or code (-c) with xjax as jax, as ``python`` would run it.

In a notebook, ``%load_ext xjax`` does it for the cells that follow.
Python processes that the program starts do the same, also those of `multiprocessing`: the folder `site` of this package
is put into PYTHONPATH, and its module `sitecustomize` installs xjax as jax where `VARIABLE` is set.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from xjax.compat.finder import install_as_jax

VARIABLE = "XJAX_AS_JAX"
_SITE = str(Path(__file__).parent / "site")


def main(arguments: Sequence[str]) -> None:
    """Run what the arguments name; returns when the program ends, or raises what it raises."""
    parser = argparse.ArgumentParser(
        prog="python -m xjax", description="Run a program that is written for JAX on xjax.",
        usage="python -m xjax [--version X] (program.py | -m module | -c code) [arguments of the program]")
    parser.add_argument("--version", metavar="X", help="the version of JAX that the program sees; default: jaxlib's")
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="module", help="run a module")
    parser.add_argument("-c", dest="code", nargs=argparse.REMAINDER, metavar="code", help="run code")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="run a file, or the package in a folder")
    args = parser.parse_args(arguments)
    _install(args.version)
    if args.module:
        sys.argv = args.module
        sys.path[0:1] = [os.getcwd()]
        runpy.run_module(args.module[0], run_name="__main__", alter_sys=True)
    elif args.code:
        sys.argv = ["-c", *args.code[1:]]
        sys.path[0:1] = [""]
        exec(compile(args.code[0], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
    elif args.program:
        sys.argv = args.program
        sys.path[0:1] = [str(Path(args.program[0]).resolve().parent)]
        runpy.run_path(args.program[0], run_name="__main__")
    else:
        parser.error("there is no program to run")


def load_ipython_extension(shell: object) -> None:
    """Install xjax as jax in a notebook, by the line ``%load_ext xjax``."""
    _install(None)


def _install(version: str | None) -> None:
    """In this process, and in Python processes that it starts."""
    install_as_jax(version)
    os.environ[VARIABLE] = version or "1"
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _SITE not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([_SITE, *filter(None, paths)])


def install_if_passed_on() -> None:
    """Install xjax as jax in a process that a program of ``python -m xjax`` started."""
    value = os.environ.get(VARIABLE)
    if value:
        install_as_jax(None if value == "1" else value)
