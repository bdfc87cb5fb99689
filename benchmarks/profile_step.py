"""A small training step in five forms, and the profile of a larger one: the figures of docs/guides/performance.md.

    python benchmarks/profile_step.py

The small network has dense layers 8 -> 16 -> 1 and 32 rows; the larger one 784 -> 512 -> 512 -> 10 and 256 rows.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable
from typing import Any

import xjax
import xjax.numpy as jnp
import xnn
from xjax import lax, profiler, random
from xnn.losses import mse

STEPS, REPEATS = 20, 15


def network(sizes: tuple[int, ...], rows: int) -> tuple[Any, Any, Any, Any]:
    """(Function of one step, parameters, inputs, targets)."""
    layers = [part for size in sizes[1:] for part in (xnn.Dense(size), xnn.Relu)][:-1]
    model = xnn.serial(*layers)
    _, params = model.init(random.key(0), (-1, sizes[0]))
    x = random.normal(random.key(1), (rows, sizes[0]))

    def step(params: Any, x: Any, y: Any) -> tuple[Any, Any]:
        loss, grads = xjax.value_and_grad(lambda params: mse(model.apply(params, x), y))(params)
        return xjax.tree.map(lambda w, g: w - 0.1 * g, params, grads), loss

    return step, params, x, jnp.tanh(x[:, :sizes[-1]])


def milliseconds(step: Callable[..., Any], params: Any, *data: Any, each: int = 1) -> float:
    """Milliseconds of one step, the least of `REPEATS` blocks; `each`: the number of steps in one call.

    The parameters are copied, since `step` may donate them.
    """
    times = []
    for repeat in range(REPEATS + 1):                       # the first block compiles
        current, start = xjax.tree.map(jnp.copy, params), time.perf_counter()
        for _ in range(STEPS // each):
            current, loss = step(current, *data)
        loss.block_until_ready()
        times += [(time.perf_counter() - start) * 1e3 / STEPS] * (repeat > 0)
    return min(times)


def forms(sizes: tuple[int, ...], rows: int) -> dict[str, float]:
    """Milliseconds of a step in each form."""
    step, params, *data = network(sizes, rows)
    jitted = xjax.jit(step)

    def read(params: Any, *data: Any) -> tuple[Any, Any]:
        params, loss = jitted(params, *data)
        float(loss)
        return params, loss

    @xjax.jit
    def many(params: Any, *data: Any) -> tuple[Any, Any]:
        params, losses = lax.scan(lambda params, _: step(params, *data), params, length=STEPS)
        return params, losses[-1]

    return {"operation by operation": milliseconds(step, params, *data),
            "jit, the loss is read in each step": milliseconds(read, params, *data),
            "jit": milliseconds(jitted, params, *data),
            "jit with donated parameters": milliseconds(xjax.jit(step, donate_argnums=0), params, *data),
            f"{STEPS} steps in one scan": milliseconds(many, params, *data, each=STEPS)}


def operations(sizes: tuple[int, ...], rows: int) -> list[tuple[str, int, float]]:
    """(Operation of the compiled program, calls, milliseconds) of `STEPS` steps, the costliest first."""
    step, params, *data = network(sizes, rows)
    step = xjax.jit(step)
    xjax.block_until_ready(step(params, *data))
    with profiler.ProfileSession() as session:
        for _ in range(STEPS):
            params, loss = step(params, *data)
        loss.block_until_ready()
    calls: collections.Counter[str] = collections.Counter()
    total: collections.Counter[str] = collections.Counter()
    for event in (event for plane in session.profile_data.planes for line in plane.lines for event in line.events):
        if "hlo_op" in dict(event.stats):
            calls[event.name] += 1
            total[event.name] += event.duration_ns
    return [(name, calls[name], nanoseconds / 1e6) for name, nanoseconds in total.most_common()]


def main() -> None:
    """Print the times of the small network, and the operations of the larger one."""
    print("| form of a step | time |\n|---|---|")
    for name, time_ in forms((8, 16, 1), 32).items():
        print(f"| {name} | {time_:.3f} ms |")
    rows = operations((784, 512, 512, 10), 256)
    whole = sum(time_ for _, _, time_ in rows)
    print("\n| operation | calls | share of the time |\n|---|---|---|")
    for name, calls, time_ in rows[:8]:
        print(f"| `{name}` | {calls} | {100 * time_ / whole:.0f} % |")
    products = sum(time_ for name, _, time_ in rows if name.startswith(("dot", "ynn_fusion")))
    print(f"\nproducts and sums of rows: {100 * products / whole:.0f} %")


if __name__ == "__main__":
    main()
