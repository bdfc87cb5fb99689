"""Checks of the buffers of a launch, and the warning about donated arguments that no result can reuse.

A launch must not take a deleted buffer, nor a donated buffer that is passed a second time. On one device XLA refuses
such a launch. On several devices it ends the process (jaxlib launches on the devices although the arguments were
refused), so `checked` raises first.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from xjax.core.errors import bad, warn
from xjax.core.jaxpr import ClosedJaxpr, Var
from xjax.core.tree import leaf_paths, skeleton, tree_structure
from xjax.runtime import xla
from xjax.typing import PyTree

_own_state = xla.Buffer.is_deleted       # only of the first part, if there are several

# Messages of XLA for a launch on one device, which `checked` raises too.
_DELETED, _TWICE = "Buffer has been deleted or donated", "Attempt to donate the same buffer twice"

# Held from the check of a launch until XLA has the buffers: meanwhile no other thread may donate or delete one of them.
# Re-entrant, since Python's collector and signal handlers can run code at any point.
_launching = threading.RLock()


def checked(execute: Callable[..., Any], donated: Sequence[bool], calls_host: bool = False) -> Callable[..., Any]:
    """`execute` of a program over several devices, with checks of its buffers.

    Args:
      donated: for each argument, whether its memory may be reused for a result; () if none is.
      calls_host: whether the launch waits for functions on the host. These may launch programs themselves, so other
        threads are not locked out.

    Raises: XlaRuntimeError, before the launch, if a buffer is deleted, or donated and passed twice.
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
    """Free the memory of a buffer over several devices, but not while another thread launches."""
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

    The deleted array is a captured one: `launch_error` has checked the arguments.
    """
    if any(part in text for part in ("Attempt to donate", "previously donated in the same call")):
        return bad("donation", "an array is donated and passed a second time in the same call",
                   fix="pass x.copy() as one of the two arguments (a captured array counts as an argument), or do not "
                       "donate it.", exc=xla.XlaRuntimeError)
    if any(part in text for part in (_DELETED, "Expected args to execute_sharded_on_local_devices to have")):
        return bad("Array", "an array that a compiled function captured has been deleted",
                   fix="pass it as an argument instead of capturing it, and do not use an array after it was donated "
                       "(donate_argnums) or after x.delete().", exc=RuntimeError)
    return None


# -- useless donations --------------------------------------------------------------------------------------------

def warn_of_useless(caller: str, program: ClosedJaxpr, donated: Sequence[bool], names: Callable[[], list[str]]) -> None:
    """Warn of donated arguments whose memory no result can reuse.

    A result reuses the memory of one argument of its own type, or else of one with as many elements. Arguments that the
    program does not read are ignored, as in JAX.

    Args: donated: a flag for each input of the program; names: the names of its last inputs.
    """
    read = {v for vs in (*(e.invars for e in program.jaxpr.eqns), program.jaxpr.outvars) for v in vs if type(v) is Var}
    given = [i for i, (v, flag) in enumerate(zip(program.jaxpr.invars, donated, strict=True)) if flag and v in read]
    results = Counter(a.plain.strong() for a in program.out_avals)
    useless = [i for i in given if not _take(results, program.in_avals[i].plain.strong())]
    sizes: Counter[int] = Counter()
    for aval, n in results.items():
        sizes[aval.size] += n
    useless = [i for i in useless if not _take(sizes, program.in_avals[i].size)]
    if useless:
        argument_names = names()
        first = len(donated) - len(argument_names)
        warn(str(bad(caller, "no result can reuse the memory of donated arguments",
                     given={argument_names[i - first]: program.in_avals[i].str_short() for i in useless},
                     fix="donate arguments that have a result of the same shape and dtype.")))


def _take(free: Counter, key: Hashable) -> bool:
    available = free[key] > 0
    free[key] -= available
    return available


def names_by_position(tree: PyTree) -> list[str]:
    """A name for each leaf of (args, kwargs)."""
    args, kwargs = skeleton(tree)
    return [path for name, part in (*enumerate(args), *((f"`{k}`", kwargs[k]) for k in sorted(kwargs)))
            for path in leaf_paths(f"argument {name}", tree_structure(part))]
