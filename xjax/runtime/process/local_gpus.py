"""Which of a machine's GPUs this process uses, if several processes run there; this module does not start CUDA.

A process sees the GPUs listed in ``CUDA_VISIBLE_DEVICES`` (all if it is not set), numbered from 0.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence

from xjax.core.errors import bad
from xjax.runtime.process import clusters, cuda_wheels

VISIBLE, LOCAL_IDS = "CUDA_VISIBLE_DEVICES", "JAX_LOCAL_DEVICE_IDS"


def visible(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The GPUs that a process sees, named as in `CUDA_VISIBLE_DEVICES`; [] if there is no driver."""
    if not cuda_wheels.gpu_visible(environ):
        return []
    listed = environ.get(VISIBLE)
    if listed is not None:
        return [name.strip() for name in listed.split(",")]
    return sorted([m[1] for path in glob.glob("/dev/nvidia*") if (m := re.fullmatch(r"/dev/nvidia(\d+)", path))],
                  key=int)


def choice(caller: str, given: int | Sequence[int] | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The value for `CUDA_VISIBLE_DEVICES` in this process; None: leave it unchanged.

    Args:
      given: numbers of GPUs that the process sees. None: the numbers in ``JAX_LOCAL_DEVICE_IDS``, else the local rank
        that Slurm, MPI or torchrun reports; a process that sees only one GPU uses that one.

    Raises: ValueError if the process does not see such a GPU.
    """
    named = environ.get(LOCAL_IDS) if given is None else None
    if named:
        given = [int(number) for number in named.split(",")]
    seen, rank = visible(environ), clusters.local_rank(environ)
    if given is not None:
        ids = [given] if isinstance(given, int) else list(given)
    elif rank is not None and len(seen) > 1:
        ids = [rank]
    else:                               # the launcher has assigned the visible GPU, if any
        ids = []
    if seen and not all(0 <= i < len(seen) for i in ids):
        raise bad(caller, "there is no such GPU" if given is not None else "this process does not see a GPU of its own",
                  {"local_device_ids": ids, "GPUs": ", ".join(seen)},
                  f"count from 0 to {len(seen) - 1}, in the order of {VISIBLE}." if given is not None else
                  "start at most one process per GPU of a machine, or list the GPUs to use: local_device_ids=[0].",
                  exc=ValueError)
    return ",".join([seen[i] if seen else str(i) for i in ids]) or None
