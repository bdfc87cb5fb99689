"""Compiled training steps of equal programs in both libraries: MLPs, LeNet, a transformer with 4 layers."""

import statistics
import time
from collections.abc import Callable

import models
import numpy as np
from pairs import load, main, wanted


def programs() -> dict[str, tuple]:
    """name -> (function that returns the loss function for a library, parameters, batch)."""
    rng = np.random.default_rng(0)
    images, digits = rng.standard_normal((64, 28, 28, 1), dtype=np.float32), rng.integers(0, 10, 64, dtype=np.int32)
    tokens = rng.integers(0, models.VOCABULARY, (8, models.TOKENS + 1), dtype=np.int32)
    narrow, wide = (rng.standard_normal(shape, dtype=np.float32) for shape in ((128, 128), (256, 512)))
    return {
        "MLP 5 x 128": (models.mlp_loss, models.mlp_params(5, 128), [narrow]),
        "MLP 3 x 512": (models.mlp_loss, models.mlp_params(3, 512), [wide]),
        "LeNet": (models.lenet_loss, models.lenet_params(), [images, digits]),
        "transformer": (models.transformer_loss, models.transformer_params(), [tokens[:, :-1], tokens[:, 1:]]),
    }


def work(library: str) -> dict[str, float]:
    jax, jnp = load(library)
    return {name: seconds_of(compiled(jax, loss(jax), params, [jnp.asarray(x) for x in batch]))
            for name, (loss, params, batch) in programs().items() if wanted(name)}


def compiled(jax, loss, params, batch) -> Callable[[], object]:
    """A function that runs one step, starting from the parameters of the previous call."""
    step = jax.jit(models.sgd_step(jax, loss))

    def call():
        nonlocal params
        params, value = step(params, *batch)
        value.block_until_ready()
    return call


def seconds_of(call: Callable[[], object]) -> float:
    times = []
    while len(times) < 15 or (sum(times) < 1 and len(times) < 60):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times[5:])


if __name__ == "__main__":
    main(work, pairs=31, limit={"LeNet": 0.8, "transformer": 0.62})
