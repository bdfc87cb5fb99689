"""Train in several processes: ``python -m recipes.launch --processes 2 --config gcn.yaml [key.path=value ...]``.

On one machine this command starts the processes and watches them; each has its own GPUs, if there are any. Slurm
(srun), Open MPI (mpirun) and torchrun start this command several times, without ``--processes``: each command then
starts one process, and `xjax.distributed.initialize` chooses its GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from recipes import STARTED
from recipes.arguments import add_run_arguments, chosen_run, parsed
from recipes.errors import ConfigError, Interrupted, exit_code_of
from recipes.lazy import xjax
from recipes.process.interrupts import Interrupts
from recipes.process.memory import DEFAULT_FRACTION, FRACTIONS, PREALLOCATE
from recipes.process.progress import VARIABLE, Phase, report_progress, tick
from recipes.process.watch import Job, resume_command
from recipes.training.ranks import Ranks, SharedInterrupts
from recipes.training.run import run

PARENT = "RECIPES_LAUNCHER"                                   # the variable with the launcher's process id


def main(argv: Sequence[str] | None = None) -> int:
    """Trains.  Returns: 0; 2 for a wrong config; 128 + n after signal n; another number if a process fails."""
    argv = sys.argv[1:] if argv is None else list(argv)
    args = parsed(_parser(), argv)
    return exit_code_of(lambda: _work_of_rank(args) if VARIABLE in os.environ else _launch(args, argv))


def _launch(args: argparse.Namespace, argv: list[str]) -> int:
    config = chosen_run(args).config                          # reports faults once, before processes start
    address, count, ranks = _places(args.processes)
    gpus = [{} for _ in ranks]
    if args.processes is not None and count > 1:
        gpus = gpus_of_processes(xjax.distributed.visible_gpus(), count, config.devices, args.share_gpus)
    with Interrupts() as interrupts, tempfile.TemporaryDirectory(prefix="recipes.launch.") as scratch:
        shared = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": str(count), PARENT: str(os.getpid())}
        job = Job(count, args.patience, Path(scratch), resume_command(args.processes))
        for rank, own in zip(ranks, gpus, strict=True):
            job.start(rank, [sys.executable, "-m", "recipes.launch", *argv],
                      shared | own | {"JAX_PROCESS_ID": str(rank)})
        return job.watch(interrupts)


def _places(processes: int | None) -> tuple[str, int, Sequence[int]]:
    """(Address of the coordinator, number of processes, the ranks to start here)."""
    if processes is not None:
        if processes < 1:
            raise ConfigError("launch", "the number of processes must be at least 1.", {"--processes": processes},
                              fix="a number from 1.")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return f"127.0.0.1:{free.getsockname()[1]}", processes, range(processes)
    cluster = xjax.distributed.detect()
    if cluster.coordinator_address is None or cluster.num_processes is None or cluster.process_id is None:
        raise ConfigError("launch", "the number of processes that train together is not known.", cluster._asdict(),
                          fix="--processes N for N on this machine, or start it with srun, mpirun or torchrun.")
    return cluster.coordinator_address, cluster.num_processes, [cluster.process_id]


def gpus_of_processes(seen: Sequence[str], count: int, devices: int | None, share: bool,
                      env: Mapping[str, str] = os.environ) -> list[dict[str, str]]:
    """Environment variables that assign GPUs to each of ``count`` processes on this machine; {} for each without GPUs.

    Args:
      seen: names of the visible GPUs.
      devices: number of devices of all processes together; None: one for each process.
      share: whether processes may share a GPU; its memory is then divided equally, unless ``env`` already sets it.
    Raises: ConfigError if there are too few.
    """
    if not seen:
        return [{} for _ in range(count)]
    each = max(1, (devices or count) // count)
    if each * count > len(seen) and not share:
        raise ConfigError("launch", "this machine has fewer GPUs than the processes need.",
                          {"processes": count, "GPUs of each": each, "GPUs": ", ".join(seen)},
                          fix=f"--processes {len(seen) // each}, --share-gpus, or JAX_PLATFORMS=cpu."
                          if each <= len(seen) else "a smaller `devices`, or JAX_PLATFORMS=cpu.")
    rows = [[seen[(rank * each + i) % len(seen)] for i in range(each)] for rank in range(count)]
    most = max(sum(name in row for row in rows) for name in seen)
    divided = most > 1 and not any(env.get(name) for name in (PREALLOCATE, *FRACTIONS))
    memory = {FRACTIONS[-1]: f"{DEFAULT_FRACTION / most:.3f}"} if divided else {}
    own = {"JAX_LOCAL_DEVICE_IDS": ",".join(map(str, range(each)))}           # not those of an enclosing job
    return [{"CUDA_VISIBLE_DEVICES": ",".join(row), **own, **memory} for row in rows]


def _work_of_rank(args: argparse.Namespace) -> None:
    """The work of one of the processes that a launcher started."""
    _end_with_parent()
    report_progress()
    cluster = xjax.distributed.detect()
    assert cluster.num_processes is not None and cluster.process_id is not None
    ranks = Ranks(cluster.process_id, cluster.num_processes)
    try:
        with SharedInterrupts(ranks, resume_command(args.processes)) as interrupts:
            _train(args, ranks, interrupts)
    except Interrupted:                                       # not a failure: all ranks stop after the same step
        raise
    except BaseException as error:
        tick(phase=Phase.FAILED, exit_code=_exit_code(error))
        raise


def _train(args: argparse.Namespace, ranks: Ranks, interrupts: SharedInterrupts) -> None:
    chosen = chosen_run(args)
    xjax.distributed.initialize(initialization_timeout=args.join)
    interrupts.agree()
    try:
        run(chosen.config, chosen.name, resume=chosen.resume, interrupts=interrupts, started=STARTED, ranks=ranks)
    except Interrupted:
        tick(phase=Phase.DONE)
        xjax.distributed.shutdown()
        raise
    tick(phase=Phase.DONE)
    xjax.distributed.shutdown()


def _exit_code(error: BaseException) -> int:
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return getattr(error, "exit_code", 1)


def _end_with_parent() -> None:
    """Makes the kernel end this process when the launcher ends for any reason."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)                # PR_SET_PDEATHSIG
    if os.getppid() != int(os.environ[PARENT]):
        os._exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recipes.launch", description="Trains in several processes.",
                                     epilog="example: python -m recipes.launch --processes 2 --config gcn.yaml")
    parser.add_argument("--processes", type=int, metavar="N",
                        help="number to start on this machine; by default, srun, mpirun or torchrun sets it")
    parser.add_argument("--share-gpus", action="store_true",
                        help="with --processes: let processes share a GPU if there are too few")
    parser.add_argument("--patience", type=float, default=15, metavar="SECONDS",
                        help="longest time without progress, if no earlier step took longer; 15 by default")
    parser.add_argument("--join", type=int, default=300, metavar="SECONDS",
                        help="longest time that processes wait for each other at the start; 300 by default")
    add_run_arguments(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
