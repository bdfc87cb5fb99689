"""Memory use of arrays and compiled programs; the out-of-memory error of a device reports both."""

from __future__ import annotations

import gc
import re
from collections import Counter
from typing import NamedTuple

from xjax.core import cache
from xjax.core.config import config
from xjax.core.errors import bad
from xjax.runtime.arrays.array import Array
from xjax.runtime.devices import backend, host_errors
from xjax.runtime.xla import XlaRuntimeError


def live_arrays(platform: str | None = None) -> list[Array]:
    """The arrays in this process that are referenced and not deleted, on one platform or on all.

    It scans all objects of Python's garbage collector, which is slow: use it to look for leaks.
    """
    alive = [x for x in gc.get_objects() if type(x) is Array and not x.is_deleted()]
    return [x for x in alive if platform is None or x.sharding.devices[0].platform == backend.client(platform).platform]


class MemoryReport(NamedTuple):
    """Arrays and programs that this process holds; printed, a table.

    Attributes:
      arrays: (number, bytes on the devices) of the arrays that are alive.
      programs: name of the owner -> (number of compiled programs, estimated bytes).
      limit: maximum of the total bytes of programs; -1: no limit.
    """

    arrays: tuple[int, int]
    programs: dict[str, tuple[int, int]]
    limit: int

    def __str__(self) -> str:
        rows = [("arrays", *self.arrays), *((name, *held) for name, held in sorted(
            self.programs.items(), key=lambda item: -item[1][1]))]
        width = max(len(name) for name, _, _ in rows)
        lines = [f"{name:<{width}} {count:>8,} {size / 2**20:>10,.1f} MiB" for name, count, size in rows]
        total, bound = sum(size for _, size in self.programs.values()), f"of at most {self.limit / 2**20:,.0f}"
        return "\n".join([*lines, f"programs: {total / 2**20:,.1f} MiB {bound * (self.limit >= 0)}".rstrip()])


def memory_report() -> MemoryReport:
    """Memory use of arrays and compiled programs; `clear_caches` frees the programs.

    >>> report = xjax.memory_report()
    >>> report.programs.get("eager operations", (0, 0))[0] >= 0
    True
    """
    arrays = live_arrays()
    return MemoryReport((len(arrays), sum(x.nbytes for x in arrays)), cache.held(), config.compiled_memory_limit)


# -- out of memory ------------------------------------------------------------------------------------------------

_SHOWN = 4                              # number of array types listed, largest first


def explained(error: XlaRuntimeError) -> XlaRuntimeError:
    """The error to raise for one of XLA's: for an out-of-memory error, a new one that adds what uses the memory."""
    text = str(error)
    if not text.startswith("RESOURCE_EXHAUSTED: Out of memory"):
        return error
    wanted = re.search(r"(\d+) ?bytes", text)
    given = {"wanted": size_text(int(wanted[1]))} if wanted else {}
    explanation = bad("", text.splitlines()[0], {**given, **_holders()},
                "delete arrays that are not needed, donate arguments to results (jit(donate_argnums=...)), compute "
                "parts one after another (lax.map(batch_size=...)), or keep fewer values for derivatives "
                "(xjax.checkpoint).",
                XlaRuntimeError)
    return explanation.with_traceback(error.__traceback__)


host_errors.explain_with(explained)


def _holders() -> dict[str, str]:
    """Memory use of arrays, programs and devices, as names and texts."""
    arrays = [x for x in live_arrays() if not x.sharding.other_memory and not _failed(x)]
    count, size = Counter(x.aval.str_short() for x in arrays), Counter()
    for x in arrays:
        size[x.aval.str_short()] += x.nbytes
    largest = [f"{count[kind]} of {kind}: {size_text(n)}" for kind, n in size.most_common(_SHOWN) if n]
    programs = sum(n for _, n in cache.held().values())
    lines = {"arrays": f"{len(arrays)}, {size_text(sum(size.values()))}", "largest": "; ".join(largest) or "none",
             "compiled programs": size_text(programs)}
    for device in backend.local_devices():
        stats = device.memory_stats() or {}
        if "bytes_in_use" in stats and "bytes_limit" in stats:
            lines[f"{device.platform} device {device.id}"] = (
                f"{size_text(stats['bytes_in_use'])} of {size_text(stats['bytes_limit'])} in use")
    return lines


def _failed(x: Array) -> bool:
    """Whether the computation of an array failed: such an array (one that is too large, for instance) has no memory."""
    try:
        if x.is_ready():
            x._buf.block_until_ready()
    except XlaRuntimeError:
        return True
    return False


def size_text(size: float) -> str:
    """A number of bytes in readable form: ``12 bytes``, ``3.5 MiB``."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
