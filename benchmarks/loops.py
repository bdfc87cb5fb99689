"""Gradients of scans that write one row of their carry: 500 and 4,000 rows of 100 numbers, and the ratio of the two.

The cost of a step should be that of one row, so 8 times the rows should take at most 10 times the time. The table has
the ratios xjax / JAX; each process prints its own times and the ratio of 4,000 to 500 rows.
"""

import sys
from collections.abc import Callable

from pairs import load, main, shortest, wanted

ROWS = 500, 4000


def bodies(jnp) -> dict[str, Callable]:
    return {
        "set": lambda c, i: c.at[i].set(jnp.sin(c[i - 1])),
        "add": lambda c, i: c.at[i].add(jnp.sin(c[i - 1])),
        "mul": lambda c, i: c.at[i].mul(jnp.cos(c[i - 1])),
        "max": lambda c, i: c.at[i].max(jnp.sin(c[i - 1])),
        "min": lambda c, i: c.at[i].min(jnp.sin(c[i - 1])),
        "two rows": lambda c, i: c.at[i].set(jnp.sin(c[i - 1]) * c[i - 2]).at[i + 1].set(c[i - 1] + c[i]),
    }


def work(library: str) -> dict[str, float]:
    jax, jnp = load(library)
    times = {}
    for name, body in bodies(jnp).items():
        if not wanted(name):
            continue
        few, many = (shortest(gradient(jax, jnp, body, rows)) for rows in ROWS)
        times |= {f"{name}, {ROWS[0]} rows": few, f"{name}, {ROWS[1]} rows": many}
        print(f"{library}: {name}: {few * 1e3:.2f} ms and {many * 1e3:.2f} ms, {many / few:.1f} times", file=sys.stderr)
    return times


def gradient(jax, jnp, body: Callable, rows: int) -> Callable[[], object]:
    def loss(first):
        start = jnp.concatenate([first[None], jnp.zeros((rows - 1, 10, 10))])
        return jnp.sum(jax.lax.scan(lambda c, i: (body(c, i), None), start, jnp.arange(2, rows - 1))[0])
    f, first = jax.jit(jax.grad(loss)), jnp.ones((10, 10))
    return lambda: f(first).block_until_ready()


if __name__ == "__main__":
    main(work, pairs=1)        # JAX takes minutes: its loops are quadratic
