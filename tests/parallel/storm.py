"""Thousands of calls without waiting for results: `main`.

Each thread calls every step `calls` times, one result into the next, in a random order. The results must be
NumPy's, bit for bit. The program prints the number of calls.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax import lax
from xjax.sharding import NamedSharding
from xjax.sharding import PartitionSpec as P


class Step(NamedTuple):
    """One step on whole arrays, in the library and in NumPy; integers wrap around in both."""

    call: Callable[[Any], Any]
    numpy: Callable[[np.ndarray], np.ndarray]
    start: Any


def steps(n: int) -> dict[str, Step]:
    mesh = xjax.make_mesh((n,), ("i",))
    rows = NamedSharding(mesh, P("i"))
    blocks = np.random.default_rng(n).integers(-9, 9, (n, n, 3), np.int32)
    weights = np.arange(n, dtype=np.int32)[:, None, None]
    ring = [(k, (k + 1) % n) for k in range(n)]
    data = n * np.arange(3 * n, dtype=np.float32).reshape(n, 3)         # its mean over the devices is exact

    def mapped(f):
        return xjax.pmap(f, axis_name="i")

    def sharded(f):
        """`f` on a device's block, without the axis of the devices."""
        return xjax.jit(xjax.shard_map(lambda x: f(x[0])[None], mesh=mesh, in_specs=P("i"), out_specs=P("i")))

    def descend(w, x):
        return w - lax.pmean(xjax.grad(lambda w: (w * x).sum())(w), "i")

    descent = xjax.pmap(descend, axis_name="i", donate_argnums=0)
    return {
        "psum": Step(mapped(lambda x: x + lax.psum(x, "i")), lambda x: x + x.sum(0, np.int32), blocks),
        "all_gather": Step(mapped(lambda x: x + (lax.all_gather(x, "i") * weights).sum(0)),
                           lambda x: x + (x * weights).sum(0, np.int32), blocks),
        "ppermute": Step(sharded(lambda x: lax.ppermute(x, "i", ring) * 3 + 1), lambda x: np.roll(x, 1, 0) * 3 + 1,
                         blocks),
        "psum_scatter": Step(sharded(lambda x: x + lax.psum_scatter(x, "i")), lambda x: x + x.sum(0, np.int32)[:, None],
                             blocks),
        "all_to_all": Step(sharded(lambda x: lax.all_to_all(x, "i", 0, 0) * 5 + x), lambda x: x.swapaxes(0, 1) * 5 + x,
                           blocks),
        "gradient": Step(lambda w: descent(w, data), lambda w: w - data.mean(0), np.zeros((n, 3), np.float32)),
        "sharded jit": Step(xjax.jit(lambda x: jnp.roll(x, 1, 0) + x.sum(0), donate_argnums=0, out_shardings=rows),
                            lambda x: np.roll(x, 1, 0) + x.sum(0, np.int32), blocks[0].repeat(2, 0)),
    }


def storm(every: dict[str, Step], calls: int, seed: int) -> None:
    """Call each step `calls` times; raises AssertionError if a result is not NumPy's."""
    for name in random.Random(seed).sample(list(every), len(every)):
        step = every[name]
        x, wanted = step.call(step.start), step.numpy(step.start)
        for _ in range(calls - 1):
            x = step.call(x)
        for _ in range(calls - 1):
            wanted = step.numpy(wanted)
        np.testing.assert_array_equal(x, wanted, err_msg=name)


def main(devices: int, threads: int, calls: int, seed: int) -> None:
    """Run storms in several threads at the same time."""
    every, errors = steps(devices), []

    def work(k: int) -> None:
        try:
            storm(every, calls, seed * threads + k)
        except BaseException as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]
    print(threads * calls * len(every))
