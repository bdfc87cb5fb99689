"""The C allocator, tuned for arrays.

glibc maps fresh pages for each large block and gives them back when it is freed, so that every
result of a large operation pays for page faults. With these thresholds freed pages are used again:
elementwise operations on 1e7 numbers take half the time. It acts on the whole process, and the peak
of a loop over many sizes grows; ``XJAX_MALLOC=default`` leaves the allocator alone.
"""

import ctypes
import os
import sys

_MB = 1 << 20
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3  # from malloc.h
_SETTINGS = (
    (_M_MMAP_THRESHOLD, 64 * _MB),
    (_M_TRIM_THRESHOLD, 128 * _MB),
    (_M_TOP_PAD, 16 * _MB),
)


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
    return all([libc.mallopt(name, value) for name, value in _SETTINGS])


def trim() -> bool:
    """Give free pages back to the system; whether any were."""
    libc = _glibc()
    return libc is not None and bool(libc.malloc_trim(0))


tuned: bool = _tune()
"""Whether the settings are in force in this process."""
