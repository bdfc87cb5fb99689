"""How much memory a run takes: of its devices, which say so on GPUs, else of the process."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# What jaxlib reads when it starts a GPU; the first of the fractions is the newer name.
ALLOCATOR, PREALLOCATE = "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE"
FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
DEFAULT_FRACTION = 0.75
PROCESS = "process"


class Peak(NamedTuple):
    """The most memory that was in use since the process has started.

    Attributes:
      where: a device, ``gpu 0``, or ``process``: its resident size.
      limit: bytes that the device may use; None for a process.
    """

    where: str
    size: int
    limit: int | None = None


def peaks(devices: Sequence[Any], rank: int | None = None) -> list[Peak]:
    """One for each device; of the process if none of them counts, as on CPUs.

    Args:
      devices: those of this process.
      rank: of the process, where there are several.
    """
    stats = [(f"{device.platform} {device.id}", device.memory_stats() or {}) for device in devices]
    found = [Peak(where, each["peak_bytes_in_use"], each.get("bytes_limit"))
             for where, each in stats if "peak_bytes_in_use" in each]
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return found or [Peak(PROCESS if rank is None else f"{PROCESS} {rank}", resident)]


def peaks_in_words(found: Sequence[Peak]) -> str:
    """``12.3 of 59.4 GiB on gpu 0``; ``412 MiB (resident size of the process)``."""
    if all(peak.where == PROCESS for peak in found):
        return f"{size_text(found[0].size)} (resident size of the process)"
    return ", ".join(f"{size_text(peak.size)}{'' if peak.limit is None else f' of {size_text(peak.limit)}'} "
                     f"{'resident in' if peak.where.startswith(PROCESS) else 'on'} {peak.where}" for peak in found)


def preallocation(devices: Sequence[Any], env: Mapping[str, str] = os.environ) -> str | None:
    """What JAX and xjax take of a GPU's memory at the start, and the variable that says so; None without a GPU."""
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
    said = f"{name}={env[name]}" if env.get(name) else f"{name} is not set"
    if env.get(PREALLOCATE) in ("false", "False", "0"):
        return f"not preallocated ({PREALLOCATE}={env[PREALLOCATE]}); at most {share} ({said})"
    return f"preallocated {share} ({said})"


def size_text(size: float) -> str:
    """Bytes for a person: ``412 MiB``, ``12.3 GiB``."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
