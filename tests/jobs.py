"""Jobs of several processes on this machine: each runs the same Python program with its own rank.

A process that is still running at the time-out is killed, and its status is None.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.quick_compiling import flags

ROOT = Path(__file__).resolve().parents[1]

# The first lines of each process: they set `rank`, `count` and `address`, and two devices.
HEADER = """
import os, sys, time
import numpy as np
import xjax
rank, count, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
xjax.config.update("jax_num_cpu_devices", 2)
"""

JOIN = HEADER + """
xjax.distributed.initialize(address, count, rank, initialization_timeout=60, shutdown_timeout_seconds=60)
"""


class Ended(NamedTuple):
    """Exit status of a process (None if it was killed at the time-out), its output, and its running time in seconds."""

    status: int | None
    output: str
    seconds: float


def free_address() -> str:
    """A loopback address with a free port."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{s.getsockname()[1]}"


def clean_environment(**more: str) -> dict[str, str]:
    """The environment without variables by which launchers and tests set processes and devices."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "SLURM_", "OMPI_", "PMI"))}
    return {**env, "PYTHONPATH": str(ROOT), "XLA_FLAGS": flags(), **more}


def run_job(program: str, count: int = 2, *, header: str = JOIN, timeout: float = 120,
            ranks: Sequence[int] | None = None, env: Mapping[str, str] | None = None, tmp_path: Path) -> list[Ended]:
    """Run a program in `count` processes, or only in those of `ranks`; returns one `Ended` for each."""
    ranks, address = range(count) if ranks is None else ranks, free_address()
    file = tmp_path / "program.py"
    file.write_text(header + program)
    began, running, ended = time.monotonic(), {}, {}
    with contextlib.ExitStack() as stack:
        for rank in ranks:
            out = stack.enter_context((tmp_path / f"output{rank}").open("w"))
            running[rank] = subprocess.Popen([sys.executable, str(file), str(rank), str(count), address], stdout=out,
                                             stderr=subprocess.STDOUT, env=env or clean_environment(), cwd=tmp_path)
            stack.callback(running[rank].kill)
        processes = dict(running)
        while running and time.monotonic() - began < timeout:
            for rank, process in list(running.items()):
                if process.poll() is not None:
                    ended[rank] = time.monotonic() - began
                    del running[rank]
            time.sleep(0.02)
        return [Ended(processes[rank].poll(), (tmp_path / f"output{rank}").read_text(), ended.get(rank, timeout))
                for rank in ranks]


def assert_all_ended_well(job: Sequence[Ended]) -> None:
    for rank, process in enumerate(job):
        assert process.status == 0, f"process {rank} of {len(job)}, status {process.status}:\n{process.output[-4000:]}"
