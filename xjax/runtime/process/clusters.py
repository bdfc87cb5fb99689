"""The number of processes, the rank of this one and the address of process 0, as a launcher reports them.

They are read from environment variables: of JAX's own names first, then of Slurm, Open MPI, MPICH and torchrun.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

LOOPBACK = "127.0.0.1"
_PORTS = 61440, 4096                    # range of ports derived from the number of a job, as in JAX


class Cluster(NamedTuple):
    """One launcher: its variables of the number of processes and of the rank, a function that gives the address of
    the coordinator, and the variable of the rank among the processes of a machine."""

    name: str
    count: str
    rank: str
    address: Callable[[Mapping[str, str]], str | None]
    local_rank: str | None = None


def _of_jax(env: Mapping[str, str]) -> str | None:
    return env.get("JAX_COORDINATOR_ADDRESS")


def _of_slurm(env: Mapping[str, str]) -> str | None:
    """The first node of the list, `gpu[07-09,12],x1` or `gpu07,x1`; loopback if there is only one node."""
    nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST")
    if nodes is None or "SLURM_JOB_ID" not in env:
        return None
    match = re.match(r"([^,\[]+)(?:\[([^,\-\]]+))?", nodes)
    if match is None:
        return None
    alone = env.get("SLURM_STEP_NUM_NODES", env.get("SLURM_NNODES")) == "1"
    host = LOOPBACK if alone else match[1] + (match[2] or "")
    return f"{host}:{_port(int(env['SLURM_JOB_ID']))}"


def _of_open_mpi(env: Mapping[str, str]) -> str | None:
    """The address of mpirun (Open MPI 4), or loopback if all processes run on one machine."""
    alone = env.get("OMPI_COMM_WORLD_LOCAL_SIZE") == env.get("OMPI_COMM_WORLD_SIZE")
    if (uri := env.get("OMPI_MCA_orte_hnp_uri")) is not None:
        match = re.search(r"tcp://([^,:]+)|tcp6://\[([^,\]]+)", uri)
        host = LOOPBACK if alone else match and (match[1] or f"[{match[2]}]")
        return host and f"{host}:{_port(int(uri.split('.', 1)[0]) >> 12)}"
    job = env.get("PMIX_NAMESPACE")
    return f"{LOOPBACK}:{_port(zlib.crc32(job.encode()))}" if alone and job is not None else None


def _of_torchrun(env: Mapping[str, str]) -> str | None:
    """MASTER_ADDR and MASTER_PORT; the next port if torchrun itself listens on MASTER_PORT."""
    if "MASTER_ADDR" not in env or "MASTER_PORT" not in env:
        return None
    taken = env.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return f"{env['MASTER_ADDR']}:{int(env['MASTER_PORT']) + taken}"


def _port(number: int) -> int:
    return _PORTS[0] + number % _PORTS[1]


CLUSTERS = (
    Cluster("JAX", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID", _of_jax),
    Cluster("Slurm", "SLURM_NTASKS", "SLURM_PROCID", _of_slurm, "SLURM_LOCALID"),
    Cluster("Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", _of_open_mpi,
            "OMPI_COMM_WORLD_LOCAL_RANK"),
    Cluster("MPICH", "PMI_SIZE", "PMI_RANK", lambda env: None, "MPI_LOCALRANKID"),
    Cluster("torchrun", "WORLD_SIZE", "RANK", _of_torchrun, "LOCAL_RANK"),
)


def detect(env: Mapping[str, str] = os.environ) -> tuple[str | None, int | None, int | None]:
    """(Address of the coordinator, number of processes, rank of this one); None for each that no variable gives."""
    def first(values: list[str | None]) -> str | None:
        return next((value for value in values if value is not None), None)

    count, rank = (first([env.get(name) for name in names]) for names in zip(*[c[1:3] for c in CLUSTERS], strict=True))
    present = [c.address(env) for c in CLUSTERS if c.name == "JAX" or (c.count in env and c.rank in env)]
    return first(present), None if count is None else int(count), None if rank is None else int(rank)


def local_rank(env: Mapping[str, str] = os.environ) -> int | None:
    """The rank of this process among the launched processes on this machine; None if no variable gives it.

    A shell started by Slurm has the variables too, so a job of one process does not count.
    """
    ranks = [env[c.local_rank] for c in CLUSTERS if c.local_rank in env and int(env.get(c.count, 1)) > 1]
    return int(ranks[0]) if ranks else None


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[ipv6]:port`.  Raises: ValueError."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{address!r} is not host:port")
    return host.strip("[]"), int(port)
