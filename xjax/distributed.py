"""Several processes that compute together: each calls `initialize` before it uses a device, then sees all devices."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.runtime import xla
from xjax.runtime.devices import backend, processes, rendezvous
from xjax.runtime.process import clusters, local_gpus

__all__ = ["detect", "initialize", "is_initialized", "publish", "published", "shutdown", "visible_gpus"]

_logger = logging.getLogger("xjax.distributed")


def initialize(coordinator_address: str | None = None, num_processes: int | None = None,
               process_id: int | None = None, local_device_ids: int | Sequence[int] | None = None,
               initialization_timeout: int = 300, heartbeat_timeout_seconds: int = 10,
               shutdown_timeout_seconds: int = 300, coordinator_bind_address: str | None = None) -> None:
    """Join the other processes; returns when all are there.

    Args:
      coordinator_address: "host:port" of process 0, the same in all; else the variable JAX_COORDINATOR_ADDRESS, or what
        Slurm, Open MPI or torchrun have set.
      num_processes, process_id: how many there are and which one this is, from 0; else JAX_NUM_PROCESSES and
        JAX_PROCESS_ID, or what Slurm, MPI or torchrun have set.
      local_device_ids: which of the GPUs that it sees this process uses; else JAX_LOCAL_DEVICE_IDS, or the one with
        the number of the process on its machine, from Slurm, MPI or torchrun; else all. It has no effect on CPUs.
      initialization_timeout, shutdown_timeout_seconds: how long to wait for the others at the start, and at barriers
        and the end, in seconds.
      heartbeat_timeout_seconds: after how long without a sign of life a process counts as dead. XLA then ends all
        others, from C++. A process that computes or compiles gives signs of life.
      coordinator_bind_address: "host:port" where process 0 listens; None: at `coordinator_address`. Any
        host that can connect to this port can join the job; "[::]:port" is all networks.

    A process that ends normally waits for the others, as `shutdown` does. One that ends by an exception, or by
    `sys.exit` with an error, does not: it reports, and the others end some seconds later.

    Raises: RuntimeError if it was called before, a device was used before, or the others did not come in time: it
      names them; ValueError if something is not given and not found.
    """
    caller = "distributed.initialize"
    if is_initialized():
        raise bad(caller, "this process has joined already", fix="call it once, at the start.", exc=RuntimeError)
    found = detect()
    address = coordinator_address or found.coordinator_address
    count = found.num_processes if num_processes is None else num_processes
    rank = found.process_id if process_id is None else process_id
    given = {"coordinator_address": address, "num_processes": count, "process_id": rank}
    if address is None or count is None or rank is None:
        raise bad(caller, "the processes cannot find each other", given,
                  'give all three: initialize("10.0.0.1:1234", num_processes=2, process_id=0).', exc=ValueError)
    if not 0 <= rank < count:
        raise bad(caller, "process_id counts from 0 to num_processes - 1", given, exc=ValueError)
    bind = coordinator_bind_address or os.environ.get("JAX_COORDINATOR_BIND_ADDRESS") or address
    try:
        for each in (address, bind):
            clusters.split_address(each)
    except ValueError as error:
        raise bad(caller, str(error), given, 'write addresses as "10.0.0.1:1234".', exc=ValueError) from None
    backend.refuse_if_started(caller)
    if local_device_ids is not None or backend.visible_gpus():
        shown = local_gpus.choice(caller, local_device_ids)
        os.environ.update({} if shown is None else {local_gpus.VISIBLE: shown})
    deadline = time.monotonic() + initialization_timeout
    try:
        rendezvous.meet(address, bind, count, rank, initialization_timeout)
    except rendezvous.RendezvousError as error:
        raise bad(caller, error.reason, given, error.fix, exc=RuntimeError) from None
    service = None
    if rank == 0:
        service = xla.serve_processes(bind, count, heartbeat_timeout_seconds, shutdown_timeout_seconds)
        _logger.info("process 0 of %d listens on %s", count, bind)
    else:
        rendezvous.wait_until_listening(address, deadline)
    client = xla.join_processes(address, rank, max(30, initialization_timeout), heartbeat_timeout_seconds,
                                shutdown_timeout_seconds)
    connection = processes.Connection(client, service, rank, count, shutdown_timeout_seconds)
    processes.connect(connection)
    backend.use_distributed(distributed_client=client, node_id=rank, num_nodes=count)
    _leave_at_exit(connection)


class Detected(NamedTuple):
    """What environment variables say about the processes of a job; None where none does."""

    coordinator_address: str | None
    num_processes: int | None
    process_id: int | None


def detect() -> Detected:
    """What `initialize` takes for the arguments that it is not given, from JAX, Slurm, MPI or torchrun."""
    return Detected(*clusters.detect())


visible_gpus = backend.visible_gpus


def is_initialized() -> bool:
    """Whether this process has joined others."""
    return processes.connection is not None


def shutdown() -> None:
    """Leave: waits until all other processes do so too. Without effect if this process has not joined any.

    Raises: RuntimeError that names the processes which failed, or did not come within `shutdown_timeout_seconds`.
    """
    global _abandoned
    connection = processes.connection
    if connection is not None:
        processes.connect(None)
        _abandoned = connection         # until all have left
        connection.leave()
        _abandoned = None


def publish(key: str, value: str) -> None:
    """Set a key of the store that all processes read, `folder/name`; a second time overwrites it.

    For what processes agree on between programs: no other process takes part in the call, which takes some 0.1 ms.
    """
    _joined("publish").publish(f"user/{key}", value)


def published(folder: str) -> dict[str, str]:
    """The keys that processes have set below a folder, without it, and their values."""
    return _joined("published").published(f"user/{folder}")


def _joined(name: str) -> processes.Connection:
    if processes.connection is None:
        raise bad(f"distributed.{name}", "this process has not joined others",
                  fix="call xjax.distributed.initialize(...) first.", exc=RuntimeError)
    return processes.connection


# -- the end of the process ---------------------------------------------------------------------------------------

_LOOK = 1.0                             # seconds between two looks for failures of other processes
_GRACE = 5.0                            # seconds that a process goes on after one was seen, to save what it can
_PATIENCE = 3 * _LOOK + _GRACE          # seconds that process 0 waits for the others to report its failure

_exit_status: Any = None                # what the main thread has last called sys.exit with
_abandoned: processes.Connection | None = None      # a connection to others that have not left


def _leave_at_exit(connection: processes.Connection) -> None:
    if not getattr(sys.exit, "noted_by_xjax", False):
        sys.exit = _noting_status(sys.exit)
    atexit.register(_at_exit)
    threading.Thread(target=_watch, args=(connection,), name="xjax.distributed", daemon=True).start()


def _noting_status(exit_: Callable) -> Callable:
    """`sys.exit` that keeps its status: Python does not say to functions of `atexit` how the process ends."""
    def exit(status: Any = None, /) -> NoReturn:
        global _exit_status
        if threading.current_thread() is threading.main_thread():
            _exit_status = status
        exit_(status)

    exit.noted_by_xjax = True
    return exit


def _at_exit() -> None:
    """Leave with the others, or at once if this process failed: they cannot go on, and would wait for each other."""
    connection = processes.connection
    error = getattr(sys, "last_value", None)
    status = _exit_status if isinstance(_exit_status, int) else int(_exit_status is not None)
    status = status if error is None else 1
    if connection is None:
        if _abandoned is not None:
            _end("", status)
        return
    if status == 0:
        try:
            return shutdown()
        except RuntimeError as fault:
            _end(f"{fault}\n", 1)
    reason = f"sys.exit({_exit_status!r})" if error is None else f"{type(error).__name__}: {error}".splitlines()[0]
    processes.connect(None)             # `_watch` has nothing to do any more
    connection.fail(reason, _PATIENCE)
    _end(f"distributed: process {connection.rank} of {connection.count} ends without waiting for the others.\n"
         f"  reason  {reason}\n", status)


def _watch(connection: processes.Connection) -> None:
    """End this process if another one has failed: a collective with it would wait for ever."""
    try:
        while not (failures := connection.failures()):
            time.sleep(_LOOK)
            if processes.connection is not connection:
                return
    except xla.XlaRuntimeError:         # process 0 is gone: XLA ends this process
        return
    time.sleep(_GRACE)
    if processes.connection is connection:
        rank, reason = next(iter(failures.items()))
        connection.fail(f"process {rank} failed", _PATIENCE)
        _end(f"distributed: process {connection.rank} of {connection.count} ends, since process {rank} has failed.\n"
             f"  process {rank}  {reason}\n", 1)


def _end(message: str, status: int) -> NoReturn:
    """Report and end at once: XLA's destructors would wait for collectives that the other processes do not join."""
    global _abandoned
    _abandoned = None
    processes.connect(None)
    sys.stderr.write(message)
    if threading.current_thread() is threading.main_thread():
        atexit._run_exitfuncs()         # what others have registered
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)


__getattr__ = attributes_of(__name__)
