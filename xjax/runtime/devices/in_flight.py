"""`InFlight`: a bound on the number of programs with collectives that run at the same time.

The devices of a CPU client share one pool of threads. A collective holds one thread per device
until all devices have arrived, so many queued programs can take all threads while none of them is
complete; XLA aborts the process after 40 seconds. With at most 4 programs in flight that does not
happen, and a step costs less than when each program is awaited.
"""

import atexit
import os
import threading
from collections import deque

from xjax.core.once import once
from xjax.runtime import xla
from xjax.runtime.devices import backend, host_errors
from xjax.runtime.xla import Client, Waitable, XlaRuntimeError


class InFlight:
    """The last launches on one client; `push` after each launch of a program with collectives.

    Push the *token* of a launch (`xla.execute_with_token`), not its buffers: a training loop donates each result to the
    next step, and waiting for a donated buffer fails immediately.
    """

    def __init__(self, limit: int = 4) -> None:
        self._limit = limit
        self._pending: deque[Waitable] = deque()
        self._lock = threading.Lock()
        self._error: XlaRuntimeError | None = None

    def push(self, launch: Waitable) -> None:
        """Record a launch; if more than `limit` are pending, wait for the oldest."""
        with self._lock:
            self._pending.append(launch)
            oldest = self._pending.popleft() if len(self._pending) > self._limit else None
        if oldest is not None:
            # Outside the lock: a callback of a running program may launch programs itself.
            error = _wait(oldest)
            self._error = self._error or error

    def drain(self) -> XlaRuntimeError | None:
        """Wait for all pending launches; returns the first error since the last call."""
        with self._lock:
            pending = list(self._pending)
            self._pending.clear()
        errors = [self._error, *map(_wait, pending)]
        self._error = None
        return next((error for error in errors if error is not None), None)

    def forget(self) -> None:
        """Drop pending launches, without waiting."""
        self._pending.clear()
        self._lock = threading.Lock()


def _wait(launch: Waitable) -> XlaRuntimeError | None:
    # The error is raised when the results are read; this caller has launched another program.
    try:
        xla.wait_for(launch)
    except XlaRuntimeError as error:
        return error
    return None


# Programs with unordered effects on devices other than CPUs; all others with effects are awaited immediately. Callbacks
# need the interpreter, so none may be pending when it exits.
effects = InFlight(limit=16)
atexit.register(effects.drain)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=effects.forget)      # the launches belong to the parent


def effects_barrier() -> None:
    """Wait until all side effects of launched programs, such as printing, are complete.

    Raises: the exception of a function that one of them called, unless it was already raised.

    >>> xjax.effects_barrier()
    """
    if (error := effects.drain()) is not None:
        host_errors.raise_original(error)


wait = host_errors.wait_for


@once
def of_client(client: Client) -> InFlight:
    """The limiter of a client."""
    return InFlight()


backend.on_clear(of_client.cache_clear)
