"""Which buffers a launch may take: none that was deleted, and none that is donated and passed a second time.

On one device XLA refuses such a launch. On several devices it ends the process (jaxlib launches on the devices although
the arguments were refused), so `checked` refuses it before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from xjax.core.errors import bad
from xjax.runtime import xla

_own_state = xla.Buffer.is_deleted       # of the first part alone, if there are several

# What XLA says of a launch on one device, and `checked` for it.
_DELETED, _TWICE = "Buffer has been deleted or donated", "Attempt to donate the same buffer twice"

# Held from the check of a launch until XLA has the buffers: no other thread may donate or delete one of them meanwhile.
# Re-entrant, since Python's collector and signal handlers run code of their own at any point.
_launching = threading.RLock()


def checked(execute: Callable[..., Any], donated: Sequence[bool], calls_host: bool = False) -> Callable[..., Any]:
    """`execute` of a program over several devices, for buffers that it may take.

    Args:
      donated: for each argument, whether its memory may be taken for a result; () if none is.
      calls_host: the launch waits for functions on the host, which may launch programs themselves, so it keeps no other
        thread from launching.

    Raises: XlaRuntimeError, before anything is launched, if a buffer is deleted, or donated and passed twice.
    """
    positions = [i for i, flag in enumerate(donated) if flag]
    alone: AbstractContextManager = nullcontext() if calls_host else _launching

    def execute_checked(bufs: Sequence[xla.Buffer], with_tokens: bool = False) -> Any:
        with alone:
            if any(map(_own_state, bufs)):
                raise xla.XlaRuntimeError(_DELETED)
            if xla.with_shared_parts and not xla.with_shared_parts.keys().isdisjoint(map(id, bufs)):
                if any(map(xla.is_deleted, bufs)):
                    raise xla.XlaRuntimeError(_DELETED)
                _check_parts(bufs, positions)
            if positions and len({*map(id, bufs)}) < len(bufs):
                _check_wholes(bufs, positions)
            return execute(bufs, with_tokens=with_tokens)

    return execute_checked


def delete(buf: xla.Buffer) -> None:
    """Give back the memory of a buffer over several devices, after a launch that is about to take it."""
    with _launching:
        buf.delete()


def _check_wholes(bufs: Sequence[xla.Buffer], positions: Iterable[int]) -> None:
    for i in positions:
        if sum(buf is bufs[i] for buf in bufs) > 1:
            raise xla.XlaRuntimeError(_TWICE)


def _check_parts(bufs: Sequence[xla.Buffer], positions: Sequence[int]) -> None:
    shared = [i for i, buf in enumerate(bufs) if id(buf) in xla.with_shared_parts]
    donated = {i for i in positions if i in shared}
    if not donated or len(shared) < 2:
        return
    taken: dict[int, int] = {}
    for i in shared:
        for part in xla.shards(bufs[i]):
            empty = not part.on_device_size_in_bytes()
            first = i if empty else taken.setdefault(part.unsafe_buffer_pointer(), i)
            if first != i and not donated.isdisjoint((first, i)):
                raise xla.XlaRuntimeError(_TWICE)


def readable(text: str) -> Exception | None:
    """The error to raise for the text of a launch's error, if that is about donation.

    A deleted array is one that the function captured: `launch_error` looks for it among the arguments first.
    """
    if any(part in text for part in ("Attempt to donate", "previously donated in the same call")):
        return bad("donation", "an array is donated, and the same call takes it a second time",
                   fix="pass x.copy() as one of the two arguments (an array that the function captures is one too), or "
                       "do not donate it.", exc=xla.XlaRuntimeError)
    if any(part in text for part in (_DELETED, "Expected args to execute_sharded_on_local_devices to have")):
        return bad("Array", "an array that a compiled function captured has been deleted",
                   fix="pass it as an argument instead of capturing it, and do not use an array after it was donated "
                       "(donate_argnums) or after x.delete().", exc=RuntimeError)
    return None
