"""The C allocator, tuned for arrays.

glibc maps fresh pages for each large block and gives them back when it is freed, so that every result of a large
operation, and the workspace of every training step, pays for page faults: a fifth of the step of a small transformer,
half of an elementwise operation on 1e7 numbers. With these settings freed pages are used again, up to a sixteenth of
the machine's memory, 1 GiB at most. All this acts on the whole process, and the peak of a loop over many sizes grows;
``XJAX_MALLOC=default`` leaves the allocator alone.

On few processors threads share one heap, since the heaps that glibc makes for threads hold no block over 64 MiB; a step
of 6 ms of a small MLP takes some 2 % longer with one. On many processors XLA compiles in as many threads, which would
wait for each other at the lock of that heap: with 16 processors, the step of an MLP was compiled for a GPU in 20 s,
where real JAX took 3 s and a tenth of the processor time.
"""

import ctypes
import os
import sys

from xjax.runtime.process.cpu_threads import schedulable

_MB = 1 << 20
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -2, -3, -8     # from malloc.h
_FEW_PROCESSORS = 4


def _glibc() -> ctypes.CDLL | None:
    if sys.platform != "linux" or "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return None
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):  # another C library
        return None
    return ctypes.CDLL(None) if version.startswith("glibc") else None


def _tune() -> bool:
    libc = _glibc()
    if libc is None or os.environ.get("XJAX_MALLOC") == "default":
        return False
    kept = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 16
    kept = min(max(kept, 64 * _MB), 1024 * _MB)         # a container may have less than the machine
    settings = {_M_MMAP_THRESHOLD: kept, _M_TRIM_THRESHOLD: kept, _M_TOP_PAD: 16 * _MB}
    if schedulable() <= _FEW_PROCESSORS:
        settings[_M_ARENA_MAX] = 1
    return all([libc.mallopt(name, value) for name, value in settings.items()])


def trim() -> bool:
    """Give free pages back to the system; whether any were."""
    libc = _glibc()
    return libc is not None and bool(libc.malloc_trim(0))


tuned: bool = _tune()
"""Whether the settings are in force in this process."""
