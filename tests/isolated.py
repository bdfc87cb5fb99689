"""Programs that can crash, hang or be interrupted, run in separate processes."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.quick_compiling import flags

ROOT = Path(__file__).resolve().parent.parent


def environment(devices: int = 1) -> dict[str, str]:
    """Environment variables of a process with this number of CPU devices."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "XJAX_LOG_LEVEL": "3", "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": flags(devices)}


def run(code: str, *args: object, timeout: float = 120, devices: int = 1, stacks: bool = True) -> str:
    """Run a program, which must end with exit code 0 within `timeout` seconds; returns its output.

    Args: stacks: after half of `timeout`, print the stacks of all threads and exit. Python does so in an extra thread;
    a program that forks passes False, because its child would wait for that thread before exiting.
    """
    head = "import faulthandler; faulthandler.enable()\n"
    if stacks:
        head += f"faulthandler.dump_traceback_later({timeout / 2}, exit=True)\n"
    done = subprocess.run([sys.executable, "-c", head + textwrap.dedent(code), *map(str, args)], capture_output=True,
                          text=True, timeout=timeout, env=environment(devices), cwd=ROOT)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr[-6000:]}"
    return done.stdout


def done_together(programs: Mapping[str, str], run: Callable[[str], subprocess.CompletedProcess[str]]) -> set[str]:
    """Run programs one after the other in one process, because imports take most of the time of a process.

    Args: run: runs a source text in a process.
    Returns: the names of the programs that succeed; if one fails or hangs, of the programs before it.
    """
    lines = [f"{program}\nprint({name!r}, flush=True)\n" for name, program in programs.items()]
    try:
        return set(run("".join(lines)).stdout.splitlines())
    except subprocess.TimeoutExpired:
        return set()
