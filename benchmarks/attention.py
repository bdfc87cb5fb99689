"""Attention with gradients against PyTorch's on CPUs; with --memory the peak memory instead, beyond the arguments.

The function of each library is its own: `nn.dot_product_attention`, `scaled_dot_product_attention`.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from pairs import load, main, shortest, wanted

SHAPES = {                                                        # batch, positions, heads, features of a head; causal
    "8 x 128, 8 heads of 32": ((8, 128, 8, 32), True),
    "8 x 256, 8 heads of 32": ((8, 256, 8, 32), True),
    "2 x 512, 8 heads of 64": ((2, 512, 8, 64), True),
    "2 x 512, not causal": ((2, 512, 8, 64), False),
    "1024, 8 heads of 64": ((1, 1024, 8, 64), True),
    "2048, 8 heads of 64": ((1, 2048, 8, 64), True),
    "4096, 8 heads of 64": ((1, 4096, 8, 64), True),
    "4096, not causal": ((1, 4096, 8, 64), False),
}
_PEAK = "--peak"


def work(library: str) -> dict[str, float]:
    return {name: shortest(gradient(library, name)) for name in SHAPES if wanted(name)}


def gradient(library: str, name: str) -> Callable[[], Any]:
    """A function that computes the means and the gradients of query, key and value."""
    (shape, causal), npr = SHAPES[name], np.random.default_rng(0)
    arrays = [npr.standard_normal(shape, dtype=np.float32) for _ in range(4)]
    return {"xjax": _in_xjax, "torch": _in_torch}[library](arrays, causal)


def _in_xjax(arrays: list[np.ndarray], causal: bool) -> Callable[[], Any]:
    jax, jnp = load("xjax")

    @jax.jit
    def run(*args: Any) -> Any:
        means, pull = jax.vjp(lambda *qkv: jax.nn.dot_product_attention(*qkv, is_causal=causal), *args[:3])
        return means, pull(args[3])

    args = [jnp.asarray(x) for x in arrays]
    return lambda: jax.block_until_ready(run(*args))


def _in_torch(arrays: list[np.ndarray], causal: bool) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    qkv, tangent = [torch.tensor(x).requires_grad_() for x in arrays[:3]], torch.tensor(arrays[3])

    def run() -> Any:
        heads_first = [x.transpose(1, 2) for x in qkv]
        means = torch.nn.functional.scaled_dot_product_attention(*heads_first, is_causal=causal).transpose(1, 2)
        return means, torch.autograd.grad(means, qkv, tangent)
    return run


def print_peaks() -> None:
    for name in SHAPES:
        peaks = {library: int(subprocess.run([sys.executable, __file__, _PEAK, library, name], check=True, text=True,
                                             stdout=subprocess.PIPE).stdout) for library in ("xjax", "torch")}
        print(f"{name:<30}" + "".join(f"{library:>8} {kib / 1024:6.0f} MiB" for library, kib in peaks.items()))


def print_peak(library: str, name: str) -> None:
    """Prints the KiB by which compiling and two calls raise the peak of the process."""
    small, call = gradient(library, "8 x 128, 8 heads of 32"), gradient(library, name)
    small()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = call(), call()                                                    # kept until the peak is read
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    del result


if __name__ == "__main__":
    if _PEAK in sys.argv:
        print_peak(*sys.argv[2:])
    elif "--memory" in sys.argv:
        print_peaks()
    else:
        main(work, peer="torch")
