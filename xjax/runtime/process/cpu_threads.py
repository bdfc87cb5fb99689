"""Number of threads that XLA may use on this machine.

XLA counts the processors on which the process may be scheduled, but ignores the quota of a container: with 2 of 64
processors it would start 64 threads for 2 processors.
"""

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from xjax.core.errors import bad

_VARIABLE = "XJAX_NUM_THREADS"
_XLA_VARIABLES = ("PJRT_NPROC", "NPROC")  # read when a client starts its thread pools
_CGROUP_ROOT = Path("/sys/fs/cgroup")


def num_threads(environ: Mapping[str, str] = os.environ) -> int | None:
    """Threads to give to XLA: ``XJAX_NUM_THREADS``, else the quota; None leaves it to XLA.

    Raises: ValueError if the variable is not a positive number.
    """
    if any(name in environ for name in _XLA_VARIABLES):
        return None  # the user configures XLA directly
    if (text := environ.get(_VARIABLE)) is not None:
        if not text.strip().isdecimal() or int(text) < 1:
            raise bad(
                f"environment variable {_VARIABLE}",
                f"{text!r} is not a number of threads",
                fix="set it to 1 or more, or unset it.",
                exc=ValueError,
            )
        return int(text)
    quota = cgroup_quota()
    if quota is None or quota >= schedulable():
        return None
    return max(1, math.ceil(quota))


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Clients made in this block use `num_threads` threads."""
    count = num_threads()
    if count is None:
        yield
        return
    os.environ[_XLA_VARIABLES[0]] = str(count)
    try:
        yield
    finally:
        del os.environ[_XLA_VARIABLES[0]]  # not inherited: child processes decide for themselves


def cgroup_quota(root: Path = _CGROUP_ROOT, own: Path = Path("/proc/self/cgroup")) -> float | None:
    """Number of processors that the control groups (version 1 or 2) allow; None if there is no limit."""
    quotas = [q for folder in _groups(root, own) if (q := _quota_of(folder)) is not None]
    return min(quotas, default=None)


def _groups(root: Path, own: Path) -> Iterator[Path]:
    """The group of this process and its parents: each may set a limit."""
    yield root
    yield root / "cpu"
    for line in _read(own).splitlines():
        _, controllers, path = line.split(":", 2)
        base = (
            root if not controllers else root / "cpu" if "cpu" in controllers.split(",") else None
        )
        if base is not None:
            group = base / path.lstrip("/")
            yield from (group, *(p for p in group.parents if base in p.parents))


def _quota_of(folder: Path) -> float | None:
    quota, _, period = _read(folder / "cpu.max").strip().partition(" ")
    if not quota:
        quota, period = (_read(folder / f"cpu.cfs_{x}_us").strip() for x in ("quota", "period"))
    if quota.isdecimal() and period.isdecimal() and int(period) > 0:  # not "max", not -1
        return int(quota) / int(period)
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def schedulable() -> int:
    """Number of processors on which this process may be scheduled."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
