"""Several processes that compute together: each calls `initialize` before it uses a device, then sees all devices."""

from __future__ import annotations

import atexit
import os
from typing import Any

from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.runtime import backend, xla

__all__ = ["initialize", "is_initialized", "shutdown"]

# (variable of the number of processes, of this one's rank) that launchers set: Slurm, Open MPI, MPICH, torchrun.
_LAUNCHERS = (("SLURM_NTASKS", "SLURM_PROCID"), ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
              ("PMI_SIZE", "PMI_RANK"), ("WORLD_SIZE", "RANK"))


class _State:
    """This process's connection, and the service if it runs here."""

    client: Any = None
    service: Any = None


def initialize(coordinator_address: str | None = None, num_processes: int | None = None,
               process_id: int | None = None, local_device_ids: int | list[int] | None = None,
               initialization_timeout: int = 300, heartbeat_timeout_seconds: int = 100,
               shutdown_timeout_seconds: int = 300, coordinator_bind_address: str | None = None) -> None:
    """Join the other processes; returns when all are there.

    Args:
      coordinator_address: "host:port" of process 0, the same in all; else the variable JAX_COORDINATOR_ADDRESS.
      num_processes, process_id: how many there are and which one this is, from 0; else JAX_NUM_PROCESSES and
        JAX_PROCESS_ID, or what Slurm, MPI or torchrun have set.
      local_device_ids: which GPUs this process uses; None: all it sees. On a CPU it has no effect.
      initialization_timeout, heartbeat_timeout_seconds, shutdown_timeout_seconds: how long to wait for the others, and
        after how long without a sign of life a process counts as dead, in seconds.
      coordinator_bind_address: where process 0 listens; None: on the port of `coordinator_address`, on all networks.

    Raises: RuntimeError if it was called before, a device was used before, or the others did not come in time;
      ValueError if something is not given and not found.
    """
    where = "distributed.initialize"
    if _State.client is not None:
        raise bad(where, "this process has joined already", fix="call it once, at the start.", exc=RuntimeError)
    address = coordinator_address or os.environ.get("JAX_COORDINATOR_ADDRESS")
    count = _number(num_processes, "JAX_NUM_PROCESSES", 0)
    rank = _number(process_id, "JAX_PROCESS_ID", 1)
    given = {"coordinator_address": address, "num_processes": count, "process_id": rank}
    if address is None or count is None or rank is None:
        raise bad(where, "the processes cannot find each other", given,
                  'give all three: initialize("10.0.0.1:1234", num_processes=2, process_id=0).', exc=ValueError)
    if not 0 <= rank < count:
        raise bad(where, "process_id counts from 0 to num_processes - 1", given, exc=ValueError)
    if local_device_ids is not None:
        ids = [local_device_ids] if isinstance(local_device_ids, int) else local_device_ids
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, ids))
    backend.refuse_if_started(where)
    if rank == 0:
        bind = coordinator_bind_address or "[::]:" + address.rsplit(":", 1)[1]
        _State.service = xla.serve_processes(bind, count, heartbeat_timeout_seconds, shutdown_timeout_seconds)
    try:
        _State.client = xla.join_processes(address, rank, initialization_timeout, heartbeat_timeout_seconds,
                                           shutdown_timeout_seconds)
    except xla.XlaRuntimeError as error:
        raise bad(where, f"not all processes came within {initialization_timeout} s",
                  given | {"XLA": str(error).splitlines()[0]},
                  "check that all were started with the same address, and that its port is open.",
                  exc=RuntimeError) from None
    backend.use_distributed(distributed_client=_State.client, node_id=rank, num_nodes=count)
    atexit.register(shutdown)


def _number(given: int | None, variable: str, column: int) -> int | None:
    if given is not None:
        return given
    for name in (variable, *[names[column] for names in _LAUNCHERS]):
        if name in os.environ:
            return int(os.environ[name])
    return None


def is_initialized() -> bool:
    """Whether this process has joined others."""
    return _State.client is not None


def shutdown() -> None:
    """Leave: waits until all other processes do so too. Without effect if this process has not joined any."""
    client, service = _State.client, _State.service
    _State.client = _State.service = None
    if client is not None:
        client.shutdown()
    if service is not None:
        service.shutdown()


__getattr__ = attributes_of(__name__)
