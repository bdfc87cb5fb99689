"""Cost of calls with other arguments than device arrays: NumPy arrays, numbers, static arguments, many arrays.

It also measures the first pass of a loop, and compilation of many `custom_jvp` calls.
"""

import numpy as np
from pairs import best, clock, load, main


def work(library: str) -> dict[str, float]:
    jax, jnp = load(library)
    a, b = np.ones(8, np.float32), np.ones((4, 8), np.float32)
    wide, counts, scalar = np.ones(8), np.arange(8), np.float32(1.5)
    x = jnp.ones(8)
    two = jax.jit(lambda x, y: x + y)
    tree = jax.jit(lambda p: p["w"] @ p["x"] + p["b"])
    named = jax.jit(lambda x, n: x * n, static_argnames="n")
    keyword = jax.jit(lambda x, *, scale, n: x * scale + n, static_argnames="n")
    hundred = jax.jit(lambda xs: [x + 1 for x in xs])
    nested = {f"layer {i}": {"w": jnp.full((8, 8), i * 0.1), "b": jnp.full(8, i * 0.1)} for i in range(100)}
    scaled = jax.jit(lambda tree, x: jax.tree_util.tree_map(lambda leaf: leaf * x[0], tree))
    arrays, many = [jnp.full(8, i * 1.0) for i in range(100)], [jnp.full(8, i * 1.0) for i in range(500)]
    numbers = [jnp.float32(i) for i in range(500)]
    fresh = iter(range(1, 10_000_000))
    cases = {
        "jit, 2 NumPy arrays": (lambda: two(a, a), 2000),
        "jit, dict of 3 NumPy arrays": (lambda: tree({"w": b, "x": a, "b": b[:, 0]}), 1000),
        "jit, array and NumPy array": (lambda: two(x, a), 2000),
        "jit, array and NumPy float64 array": (lambda: two(x, wide), 2000),
        "jit, array and NumPy int64 array": (lambda: two(x, counts), 2000),
        "jit, array and NumPy scalar": (lambda: two(x, scalar), 2000),
        "jit, array and number": (lambda: two(x, 2.0), 2000),
        "jit, array and new number": (lambda: two(x, next(fresh) + 0.5), 2000),
        "jit, 2 numbers": (lambda: two(1.0, 2.0), 2000),
        "jit, static by name": (lambda: named(x, n=3), 2000),
        "jit, static by position": (lambda: named(x, 3), 2000),
        "jit, static and traced by name": (lambda: keyword(x, scale=x, n=3), 2000),
        "jit, array by name": (lambda: two(x=x, y=x), 2000),
        "jit, list of 100 arrays": (lambda: hundred(arrays), 200),
        "jit, nested dicts of 200 arrays": (lambda: scaled(nested, x), 100),
        "jit, nested dicts and a NumPy array": (lambda: scaled(nested, a), 100),
        "array of 500 arrays": (lambda: jnp.array(many), 5),
        "array of 500 0-d arrays": (lambda: jnp.array(numbers), 5),
    }
    for f, _ in cases.values():
        f()
    times = {name: best(f, calls) for name, (f, calls) in cases.items()}
    return {**times, "first pass, 2,000 operations": _first_pass(jnp, x),
            "compile 300 custom_jvp calls": _customs(jax, x)}


def _first_pass(jnp, x) -> float:
    """Seconds of a loop in which each number occurs for the first time."""
    jnp.sin(x) * 0.5
    start = clock()
    for i in range(1000):
        x = jnp.sin(x) * (i + 1.5)
    x.block_until_ready()
    return clock() - start


def _customs(jax, x) -> float:
    @jax.custom_jvp
    def f(x, w):
        return x * w + 1

    f.defjvp(lambda primals, tangents: (f(*primals), primals[1] * tangents[0]))

    def chain(x):
        for i in range(300):
            x = f(x, i * 1.0)
        return x

    start = clock()
    jax.jit(chain).lower(x).compile()
    return clock() - start


if __name__ == "__main__":
    jit = ["jit, 2 NumPy arrays", "jit, dict of 3 NumPy arrays", "jit, array and NumPy array",
           "jit, array and NumPy float64 array", "jit, array and NumPy int64 array", "jit, array and NumPy scalar",
           "jit, array and number", "jit, array and new number", "jit, 2 numbers", "jit, static by name",
           "jit, static by position", "jit, static and traced by name"]
    main(work, limit={**dict.fromkeys(jit, 1.2), "jit, list of 100 arrays": 1.1, "jit, nested dicts of 200 arrays": 1.1,
                      "jit, nested dicts and a NumPy array": 1.1, "array of 500 arrays": 1.0,
                      "array of 500 0-d arrays": 1.0, "first pass, 2,000 operations": 1.5,
                      "compile 300 custom_jvp calls": 1.05})
