"""The rendezvous of the processes of a job before XLA connects them, so that missing processes can be named.

XLA's own connection aborts the process from C++ if another process is missing. Here process 0 listens on the
coordinator's port until all processes have announced themselves, then frees the port for XLA's service.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import selectors
import socket
import time

from xjax.runtime.devices.processes import describe
from xjax.runtime.process.clusters import split_address

_RETRY = 0.1                            # seconds between two attempts to reach process 0
_LONGEST = 4096                         # bytes of an announcement


class RendezvousError(Exception):
    """Not all processes connected: the reason, and the fix."""

    def __init__(self, reason: str, fix: str):
        super().__init__(reason)
        self.reason, self.fix = reason, fix


def meet(address: str, bind_address: str, count: int, rank: int, timeout: float) -> None:
    """Return when all `count` processes have called this.

    Raises: RendezvousError with the ranks that are missing after `timeout` seconds, in all processes that called this.
    """
    deadline = time.monotonic() + timeout
    if rank == 0:
        _gather(bind_address, count, deadline, timeout)
    else:
        _announce(address, count, rank, deadline, timeout)


def wait_until_listening(address: str, deadline: float) -> None:
    """Return when a server accepts connections at `address`, or silently at the deadline."""
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(split_address(address), timeout=1):
            return
        time.sleep(_RETRY)


def _gather(bind_address: str, count: int, deadline: float, timeout: float) -> None:
    """In process 0: wait for all others, then answer each of them."""
    try:
        host, port = split_address(bind_address)
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=max(count, 16),
                                        dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6())
    except OSError as error:
        raise RendezvousError(f"process 0 cannot listen on {bind_address}: {error.strerror or error}",
                              "choose a free port, or pass the address on which process 0 listens as "
                              'coordinator_bind_address="host:port".') from None
    here: set[int] = {0}
    connections: list[socket.socket] = []
    fault = ""
    with contextlib.ExitStack() as opened:
        with listener, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            while len(here) < count and not fault and time.monotonic() < deadline:
                for _ in selector.select(min(1.0, max(0.0, deadline - time.monotonic()))):
                    connections.append(opened.enter_context(listener.accept()[0]))
                    fault = _admit(connections[-1], count, here)
        missing = [rank for rank in range(1, count) if rank not in here]
        if missing and not fault:
            fault = f"{describe(missing)} of {count} did not connect within {timeout:g} s"
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps({"fault": fault}).encode() + b"\n")
    if fault:
        raise RendezvousError(fault, "start all processes with the same address and number of processes, each with "
                                     "its own process_id.")


def _admit(connection: socket.socket, count: int, here: set[int]) -> str:
    """Record the process that has connected; returns a description of its fault, or ""."""
    try:
        connection.settimeout(5)
        said = json.loads(_line(connection))
        rank, theirs, description = int(said["rank"]), int(said["count"]), str(said["who"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""                       # a port scanner, or a dead process, which the time-out reports
    if theirs != count:
        return f"process {rank} ({description}) counts {theirs} processes, process 0 counts {count}"
    if rank in here:
        return f"two processes have process_id {rank}, one of them {description}"
    here.add(rank)
    return ""


def _announce(address: str, count: int, rank: int, deadline: float, timeout: float) -> None:
    """In another process: announce it, and wait for the answer."""
    message = json.dumps({"rank": rank, "count": count, "who": f"pid {os.getpid()} on {platform.node()}"}).encode()
    reached = False
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(split_address(address), timeout=2) as connection:
                connection.sendall(message + b"\n")
                connection.settimeout(max(0.1, deadline + 5 - time.monotonic()))    # process 0 times out first
                answer = _line(connection)
                reached = True
                if answer:
                    fault = json.loads(answer)["fault"]
                    break
        except (OSError, ValueError):
            pass
        time.sleep(_RETRY)
    else:
        what = "exited before all processes had connected" if reached else f"did not answer within {timeout:g} s"
        raise RendezvousError(f"process 0 at {address} {what}",
                              "check that it was started, and that its port is open to this machine.")
    if fault:
        raise RendezvousError(fault, "start all processes with the same address and number of processes, each with "
                                     "its own process_id.")


def _line(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n") and len(data) < _LONGEST:
        part = connection.recv(_LONGEST)
        if not part:
            return b""
        data += part
    return data
