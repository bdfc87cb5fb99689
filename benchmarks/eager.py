"""Eager mode: single functions on small arrays, and transformations called without jit."""

import numpy as np
from pairs import best, load, main


def work(library: str) -> dict[str, float]:
    jax, jnp = load(library)
    x, y = jnp.asarray(np.linspace(0.1, 1, 8, dtype=np.float32)), jnp.ones(8)
    m = jnp.asarray(np.linspace(0.1, 1, 64, dtype=np.float32).reshape(8, 8))
    s, key = jnp.float32(0.5), jax.random.PRNGKey(0)
    jitted = jax.jit(lambda x: jnp.sin(x) * 2)
    scalar = jax.jit(lambda x: jnp.sum(jnp.sin(x) * 2))

    def hundred(x):
        for _ in range(50):
            x = jnp.sin(x) * 1.5
        return x

    cases = {
        "a + b": (lambda: x + y, 2000),
        "sin": (lambda: jnp.sin(x), 2000),
        "ravel": (lambda: jnp.ravel(m), 2000),
        "x[0]": (lambda: x[0], 1000),
        "x.at[0].set(1.)": (lambda: x.at[0].set(1.), 500),
        "ones(8)": (lambda: jnp.ones(8), 1000),
        "concatenate": (lambda: jnp.concatenate([x, y]), 1000),
        "reshape": (lambda: jnp.reshape(m, (4, 16)), 1000),
        "random.split": (lambda: jax.random.split(key), 500),
        "vmap of a jitted function": (lambda: jax.vmap(jitted)(m), 200),
        "grad of a jitted function": (lambda: jax.grad(scalar)(x), 200),
        "grad of 100 scalar operations": (lambda: jax.grad(hundred)(s), 5),
        "sum": (lambda: jnp.sum(m), 1000),
        "mean": (lambda: jnp.mean(m), 1000),
        "where": (lambda: jnp.where(x > 0, x, y), 1000),
        "var": (lambda: jnp.var(m), 500),
        "m @ x": (lambda: m @ x, 1000),
        "x < y": (lambda: x < y, 1000),
        "random.normal": (lambda: jax.random.normal(key, (8,)), 500),
    }
    for f, _ in cases.values():
        f()
    return {name: best(f, calls) for name, (f, calls) in cases.items()}


if __name__ == "__main__":
    fast = ["x[0]", "x.at[0].set(1.)", "ones(8)", "concatenate", "reshape", "random.split", "vmap of a jitted function",
            "grad of a jitted function"]
    main(work, limit={"a + b": 0.9, "sin": 1.1, "ravel": 1.1, **dict.fromkeys(fast, 0.5),
                      "grad of 100 scalar operations": 0.3})
