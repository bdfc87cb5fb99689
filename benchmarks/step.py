"""A compiled training step of the same program: MLPs, LeNet, a transformer of 4 layers."""

import statistics
import time

import models
import numpy as np
from models import mlp_loss, mlp_params
from pairs import load, main


def programs(jax, jnp):
    """name -> (loss, parameters, batch)."""
    rng = np.random.default_rng(0)
    images, digits = rng.standard_normal((64, 28, 28, 1), dtype=np.float32), rng.integers(0, 10, 64, dtype=np.int32)
    tokens = rng.integers(0, models.VOCABULARY, (8, models.TOKENS + 1), dtype=np.int32)
    return {
        "MLP 5 x 128": (mlp_loss(jnp), mlp_params(5, 128), [rng.standard_normal((128, 128), dtype=np.float32)]),
        "MLP 3 x 512": (mlp_loss(jnp), mlp_params(3, 512), [rng.standard_normal((256, 512), dtype=np.float32)]),
        "LeNet": (models.lenet_loss(jax), models.lenet_params(), [images, digits]),
        "transformer": (models.transformer_loss(jax), models.transformer_params(), [tokens[:, :-1], tokens[:, 1:]]),
    }


def work(library: str) -> dict[str, float]:
    jax, jnp = load(library)
    out = {}
    for name, (loss, params, batch) in programs(jax, jnp).items():
        step, batch = jax.jit(models.sgd_step(jax, loss)), [jnp.asarray(x) for x in batch]
        times = []
        while len(times) < 15 or (sum(times) < 1 and len(times) < 60):
            start = time.perf_counter()
            params, value = step(params, *batch)
            value.block_until_ready()
            times.append(time.perf_counter() - start)
        out[name] = statistics.median(times[5:])
    return out


if __name__ == "__main__":
    main(work, pairs=31, limit={"LeNet": 0.8, "transformer": 0.62})
