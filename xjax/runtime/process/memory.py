"""Settings of the C allocator for large arrays.

glibc maps fresh pages for each large block and returns them when it is freed. So each result of a large operation, and
the workspace of each training step, pays for page faults: a fifth of the step of a small transformer, half of an
elementwise operation on 1e7 numbers. With these settings freed pages are kept and used again, up to a sixteenth of the
machine's memory, at most 1 GiB. The settings apply to the whole process, and the peak memory of a loop over many sizes
grows; ``XJAX_MALLOC=default`` leaves the allocator unchanged.

On few processors all threads share one heap, since the additional heaps of glibc hold no block over 64 MiB; the single
heap makes a step of 6 ms of a small MLP about 2 % longer. On many processors XLA compiles in as many threads, which
would wait for the lock of a single heap. With 16 processors and one heap, compiling the step of an MLP for a GPU took
20 s, where real JAX took 3 s and a tenth of the processor time.
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
    """Return free pages to the system. Returns: whether there were any."""
    libc = _glibc()
    return libc is not None and bool(libc.malloc_trim(0))


tuned: bool = _tune()
"""Whether the settings are in force in this process."""
