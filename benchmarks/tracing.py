"""Tracing and lowering: a long function and the gradient of a 50-layer MLP, to programs and to StableHLO."""

import time
from collections.abc import Callable

from models import mlp_loss, mlp_params
from pairs import load, main

LAYERS, REPEATS = 50, 7


def work(library: str) -> dict[str, float]:
    jax, jnp = load(library)
    params, x = mlp_params(LAYERS, 32), mlp_params(1, 32)[0][0]

    def thousand():
        def f(x, y):
            for _ in range(250):
                x = jnp.sin(x) * y + x[0] - 1.0
            return x
        return f

    def loss():                             # a new function each time: nothing is cached
        return jax.grad(mlp_loss(jax))

    return {"staging of 1,000 operations": _staging(jax, thousand, x[0], x[1]),
            "staging of the gradient": _staging(jax, loss, params, x),
            "lowering": _lowering(jax, library, loss, params, x)}


def _staging(jax, new_function: Callable, *args) -> float:
    times = []
    for _ in range(REPEATS):
        f = new_function()
        start = time.perf_counter()
        jax.make_jaxpr(f)(*args)
        times.append(time.perf_counter() - start)
    return min(times)


def _lowering(jax, library: str, new_function: Callable, *args) -> float:
    times = []
    for _ in range(REPEATS):
        jitted = jax.jit(new_function())
        ready = jitted.trace(*args).lower if library == "jax" else jitted.lower(*args).as_text
        start = time.perf_counter()
        ready()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main(work, limit={"staging of 1,000 operations": 0.4, "staging of the gradient": 0.3, "lowering": 0.5})
