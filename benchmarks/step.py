"""A compiled training step of the same program: what xjax hands to XLA should run as fast as what JAX does."""

import statistics
import time

from models import mlp_params, sgd_step
from pairs import load, main


def work(library: str) -> dict[str, float]:
    jax, jnp = load(library)
    out = {}
    for name, layers, width, batch in (("MLP 5 x 128", 5, 128, 128), ("MLP 3 x 512", 3, 512, 256)):
        step = jax.jit(sgd_step(jax, jnp))
        params = mlp_params(layers, width)
        x = jnp.asarray(mlp_params(1, max(width, batch))[0][0][:batch, :width])
        times = []
        for i in range(60):
            start = time.perf_counter()
            params, value = step(params, x)
            value.block_until_ready()
            if i >= 10:
                times.append(time.perf_counter() - start)
        out[name] = statistics.median(times)
    return out


if __name__ == "__main__":
    main(work, pairs=31)
