"""Jobs of several processes: each process calls `initialize` before it uses a device, and can then use all devices."""

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
    """Join the other processes; returns when all have joined.

    Args:
      coordinator_address: "host:port" of process 0, the same in all processes; default: the environment variable
        JAX_COORDINATOR_ADDRESS, or the variables of Slurm, Open MPI or torchrun.
      num_processes, process_id: the number of processes and the index of this process, from 0; default:
        JAX_NUM_PROCESSES and JAX_PROCESS_ID, or the variables of Slurm, MPI or torchrun.
      local_device_ids: indices of the visible GPUs that this process uses; default: JAX_LOCAL_DEVICE_IDS, or the GPU
        with the index of the process on its machine, from Slurm, MPI or torchrun; else all. No effect on CPUs.
      initialization_timeout: seconds to wait for the other processes at the start.
      shutdown_timeout_seconds: seconds to wait for the other processes at barriers and at the end.
      heartbeat_timeout_seconds: seconds without a heartbeat after which a process counts as dead. XLA then ends all
        other processes, from C++. Processes send heartbeats also while they compute or compile.
      coordinator_bind_address: "host:port" where process 0 listens; None: `coordinator_address`. Any host that can
        connect to this port can join the job; "[::]:port" listens on all networks.

    A process that ends normally waits for the others, as in `shutdown`. A process that ends by an exception, or by
    `sys.exit` with an error, does not wait: it reports the failure, and the others end some seconds later.

    Raises: RuntimeError if it was called before, if a device was used before, or if other processes did not join in
      time, with their indices; ValueError if a value is neither passed nor found in the environment.
    """
    caller = "distributed.initialize"
    if is_initialized():
        raise bad(caller, "this process has already joined", fix="call it once, at the start.", exc=RuntimeError)
    detected = detect()
    address = coordinator_address or detected.coordinator_address
    count = detected.num_processes if num_processes is None else num_processes
    rank = detected.process_id if process_id is None else process_id
    given = {"coordinator_address": address, "num_processes": count, "process_id": rank}
    if address is None or count is None or rank is None:
        raise bad(caller, "the processes cannot find each other", given,
                  'give all three: initialize("10.0.0.1:1234", num_processes=2, process_id=0).', exc=ValueError)
    if not 0 <= rank < count:
        raise bad(caller, "process_id must be from 0 to num_processes - 1", given, exc=ValueError)
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
    """Values from environment variables about the processes of a job; None if no variable has the value."""

    coordinator_address: str | None
    num_processes: int | None
    process_id: int | None


def detect() -> Detected:
    """The defaults of `initialize`, from the environment variables of JAX, Slurm, MPI or torchrun."""
    return Detected(*clusters.detect())


visible_gpus = backend.visible_gpus


def is_initialized() -> bool:
    """Whether this process has joined others."""
    return processes.connection is not None


def shutdown() -> None:
    """Leave the job, after waiting until all other processes leave. No effect if this process has not joined a job.

    Raises: RuntimeError that names the processes that failed, or did not leave within `shutdown_timeout_seconds`.
    """
    global _abandoned
    connection = processes.connection
    if connection is not None:
        processes.connect(None)
        _abandoned = connection         # until all processes have left
        connection.leave()
        _abandoned = None


def publish(key: str, value: str) -> None:
    """Set a key, `folder/name`, in the store that all processes can read; a later call overwrites the value.

    It is for agreements between processes outside programs. Other processes need not call it; a call takes about
    0.1 ms.
    """
    _joined("publish").publish(f"user/{key}", value)


def published(folder: str) -> dict[str, str]:
    """The keys that processes have set in a folder, without the name of the folder, and their values."""
    return _joined("published").published(f"user/{folder}")


def _joined(name: str) -> processes.Connection:
    if processes.connection is None:
        raise bad(f"distributed.{name}", "this process has not joined others",
                  fix="call xjax.distributed.initialize(...) first.", exc=RuntimeError)
    return processes.connection


# -- the end of the process ---------------------------------------------------------------------------------------

_LOOK = 1.0                             # seconds between checks for failures of others
_GRACE = 5.0                            # seconds to save state after such a failure
_PATIENCE = 3 * _LOOK + _GRACE          # seconds that process 0 waits, after its own failure, for the others to leave

_exit_status: Any = None                # the last argument of sys.exit in the main thread
_abandoned: processes.Connection | None = None      # a connection to processes that have not left


def _leave_at_exit(connection: processes.Connection) -> None:
    if not getattr(sys.exit, "noted_by_xjax", False):
        sys.exit = _noting_status(sys.exit)
    atexit.register(_at_exit)
    threading.Thread(target=_watch, args=(connection,), name="xjax.distributed", daemon=True).start()


def _noting_status(exit_: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
    """`sys.exit` that records its status, because functions of `atexit` do not get it from Python."""
    def exit(status: object = None, /) -> NoReturn:
        global _exit_status
        if threading.current_thread() is threading.main_thread():
            _exit_status = status
        exit_(status)

    exit.noted_by_xjax = True
    return exit


def _at_exit() -> None:
    """Leave together with the others; immediately if this process failed, since waiting would be a deadlock."""
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
    processes.connect(None)             # this ends `_watch`
    connection.fail(reason, _PATIENCE)
    _end(f"distributed: process {connection.rank} of {connection.count} ends without waiting for the others.\n"
         f"  reason  {reason}\n", status)


def _watch(connection: processes.Connection) -> None:
    """End this process if another process has failed: a collective with it would wait forever."""
    try:
        while not (failures := connection.failures()):
            time.sleep(_LOOK)
            if processes.connection is not connection:
                return
    except xla.XlaRuntimeError:         # process 0 has ended: XLA ends this process
        return
    time.sleep(_GRACE)
    if processes.connection is connection:
        rank, reason = next(iter(failures.items()))
        connection.fail(f"process {rank} failed", _PATIENCE)
        _end(f"distributed: process {connection.rank} of {connection.count} ends, because process {rank} has failed.\n"
             f"  process {rank}  {reason}\n", 1)


def _end(message: str, status: int) -> NoReturn:
    """Report, and end immediately: XLA's destructors would wait for collectives that other processes do not join."""
    global _abandoned
    _abandoned = None
    processes.connect(None)
    sys.stderr.write(message)
    if threading.current_thread() is threading.main_thread():
        atexit._run_exitfuncs()         # functions of other libraries
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status & 0xFF)


__getattr__ = attributes_of(__name__)
