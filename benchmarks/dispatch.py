"""Cost of calls: eager operations on small arrays, compiled functions of 1 and 100 arguments."""

import numpy as np
from pairs import best, load, main


def work(library: str) -> dict[str, float]:
    jax, jnp = load(library)
    a, b = jnp.ones(8), jnp.ones(8)
    one = jax.jit(lambda x: x + 1)
    hundred = jax.jit(lambda *xs: [x + 1 for x in xs])
    args = [jnp.asarray(np.full(8, i, np.float32)) for i in range(100)]
    cases = {
        "a + b": (lambda: a + b, 2000),
        "a * 2.0": (lambda: a * 2.0, 2000),
        "sin(a)": (lambda: jnp.sin(a), 2000),
        "jit, 1 argument": (lambda: one(a), 2000),
        "jit, 100 arguments": (lambda: hundred(*args), 100),
    }
    for f, _ in cases.values():
        f()
    return {name: best(f, calls) for name, (f, calls) in cases.items()}


if __name__ == "__main__":
    main(work, limit={"a + b": 1.0, "jit, 1 argument": 1.3, "jit, 100 arguments": 1.3})
