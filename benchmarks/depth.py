"""Deep models of xnn: `init` of 100 blocks, and compilation of `repeat` of 96 blocks against 12.

It compares no libraries and runs in one process.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import xjax
import xjax.numpy as jnp
import xnn
from xjax import random

FEATURES, HEADS, TIME = 64, 4, 16
PAIRS = 5


def block() -> xnn.Layer:
    return xnn.EncoderBlock(xnn.MultiHeadAttention(FEATURES, HEADS), xnn.FeedForward(FEATURES, 4 * FEATURES))


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    xjax.block_until_ready(call())
    return time.perf_counter() - started


def init_of_a_hundred(model: xnn.Layer) -> float:
    return seconds(lambda: model.init(random.key(0), (-1, TIME, FEATURES))[1])


def compile_step(depth: int) -> float:
    """Seconds to compile a training step with its gradient, without running it."""
    model = xnn.repeat(block(), depth)
    params = model.init(random.key(0), (-1, TIME, FEATURES))[1]
    x = jnp.ones((2, TIME, FEATURES))
    step = xjax.jit(xjax.grad(lambda params: jnp.sum(model.apply(params, x))))
    return seconds(lambda: step.lower(params).compile() and 0)


def main() -> None:
    xjax.config.update("enable_compilation_cache", False)
    first = init_of_a_hundred(xnn.repeat(block(), 100))
    print(f"init of 100 blocks, one loop (`repeat`)            {first:.2f} s, compilation included")
    print(f"init of 100 blocks one after the other (`serial`)  {init_of_a_hundred(xnn.serial(*[block()] * 100)):.2f} s")
    ratios = [compile_step(96) / compile_step(12) for _ in range(PAIRS)]
    print(f"compiling repeat of 96 blocks / of 12              {statistics.median(ratios):.2f} "
          f"({min(ratios):.2f}-{max(ratios):.2f}, {PAIRS} pairs)")


if __name__ == "__main__":
    main()
