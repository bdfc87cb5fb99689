"""The peak memory of a run: of its devices if they measure it, as GPUs do, else of the process."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# Environment variables that jaxlib reads when it starts a GPU; of the fractions, the first is the newer name.
ALLOCATOR, PREALLOCATE = "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE"
FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
DEFAULT_FRACTION = 0.75
PROCESS = "process"


class Peak(NamedTuple):
    """The most memory that was in use since the process started.

    Attributes:
      where: a device, ``gpu 0``; or ``process``, for the resident size of the process.
      size: bytes.
      limit: bytes that the device can use at most; None for a process.
    """

    where: str
    size: int
    limit: int | None = None


def peaks(devices: Sequence[Any], rank: int | None = None) -> list[Peak]:
    """The peak of each device; that of the process if no device measures memory, as on CPUs.

    Args:
      devices: those of this process.
      rank: of the process, if several train together.
    """
    stats = [(f"{device.platform} {device.id}", device.memory_stats() or {}) for device in devices]
    measured = [Peak(where, each["peak_bytes_in_use"], each.get("bytes_limit"))
             for where, each in stats if "peak_bytes_in_use" in each]
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return measured or [Peak(PROCESS if rank is None else f"{PROCESS} {rank}", resident)]


def peaks_in_words(measured: Sequence[Peak]) -> str:
    """``12.3 of 59.4 GiB on gpu 0``; ``412 MiB (resident size of the process)``."""
    if all(peak.where == PROCESS for peak in measured):
        return f"{size_text(measured[0].size)} (resident size of the process)"
    return ", ".join(f"{size_text(peak.size)}{'' if peak.limit is None else f' of {size_text(peak.limit)}'} "
                     f"{'resident in' if peak.where.startswith(PROCESS) else 'on'} {peak.where}" for peak in measured)


def preallocation(devices: Sequence[Any], env: Mapping[str, str] = os.environ) -> str | None:
    """The share of a GPU's memory allocated at the start, with the variable that sets it; None without a GPU."""
    gpus = [device for device in devices if device.platform == "gpu"]
    if not gpus:
        return None
    limit = (gpus[0].memory_stats() or {}).get("bytes_limit")
    pool = "" if limit is None else f", {size_text(limit)}"
    if env.get(ALLOCATOR, "").lower() == "platform":
        return f"not preallocated ({ALLOCATOR}={env[ALLOCATOR]})"
    name = next((name for name in FRACTIONS if env.get(name)), FRACTIONS[-1])
    fraction = float(env.get(name) or DEFAULT_FRACTION)
    share = f"{100 * fraction:g} % of each GPU{pool}"
    setting = f"{name}={env[name]}" if env.get(name) else f"{name} is not set"
    if env.get(PREALLOCATE) in ("false", "False", "0"):
        return f"not preallocated ({PREALLOCATE}={env[PREALLOCATE]}); at most {share} ({setting})"
    return f"preallocated {share} ({setting})"


def size_text(size: float) -> str:
    """A number of bytes as text: ``412 MiB``, ``12.3 GiB``."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
