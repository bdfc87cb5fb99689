"""Staging and lowering: the gradient of a 50-layer MLP as a program, and that program as StableHLO."""

import time

from models import mlp_loss, mlp_params
from pairs import load, main

LAYERS, REPEATS = 50, 7


def work(library: str) -> dict[str, float]:
    jax, jnp = load(library)
    params, x = mlp_params(LAYERS, 32), mlp_params(1, 32)[0][0]
    staging, lowering = [], []
    for _ in range(REPEATS):
        loss = mlp_loss(jnp)                # a new function: nothing is cached
        grad = jax.grad(loss)
        start = time.perf_counter()
        jax.make_jaxpr(grad)(params, x)
        staging.append(time.perf_counter() - start)
        jitted = jax.jit(jax.grad(mlp_loss(jnp)))
        if library == "jax":
            traced = jitted.trace(params, x)
            start = time.perf_counter()
            traced.lower()
        else:
            lowered = jitted.lower(params, x)
            start = time.perf_counter()
            lowered.as_text()
        lowering.append(time.perf_counter() - start)
    return {"staging of the gradient": min(staging), "lowering": min(lowering)}


if __name__ == "__main__":
    main(work, limit={"staging of the gradient": 0.5, "lowering": 0.5})
