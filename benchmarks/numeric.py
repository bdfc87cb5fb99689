"""Compiled functions of large arrays: the gain of the CPU forms of sort, argmax, cumsum, random bits, convolutions."""

import numpy as np
from pairs import load, main, shortest, wanted

MILLION = 1_000_000


def cases(jax, jnp):
    """name -> (function, arguments as NumPy arrays)."""
    lax, rng = jax.lax, np.random.default_rng(0)
    key = np.array([0, 7], np.uint32)

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    long, short, wide, rows = normal(10 * MILLION), normal(MILLION), normal(4000, 2500), normal(10_000, 100)
    images, taps = normal(32, 32, 32, 32), normal(5, 5, 32, 32)
    layers = ("NHWC", "HWIO", "NHWC")
    maps, kernel = normal(16, 28, 28, 128), normal(3, 3, 128, 128)
    pictures, first = normal(16, 64, 64, 3), normal(3, 3, 3, 32)
    planes, depthwise = normal(8, 32, 32, 64), normal(3, 3, 1, 64)

    def convolve(x, w, groups=1):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layers, feature_group_count=groups)

    def weight_gradient(x, w):
        return jax.linear_transpose(lambda w: convolve(x, w), w)(x)

    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME").sum()

    def attention(x, w):
        q, k, v = (x @ w[i] for i in range(3))
        return (jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) / 8.0) @ v).sum()

    def layer_norm(x, gain):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return ((x - mean) * lax.rsqrt(var + 1e-5) * gain).sum()

    return {
        "x + c": (lambda x: x + 1.5, long), "exp": (jnp.exp, long),
        "chain": (lambda x: jnp.tanh(x * 2 + 1) * x, long), "where": (lambda x: jnp.where(x > 0, x, 0.1 * x), long),
        "sum": (jnp.sum, long), "sum axis 0": (lambda x: x.sum(0), wide), "sum axis 1": (lambda x: x.sum(1), wide),
        "sum of rows of 8": (lambda x: x.sum(1), normal(MILLION, 8)),
        "max": (jnp.max, short), "max axis 0": (lambda x: x.max(0), wide), "max axis 1": (lambda x: x.max(1), wide),
        "mean": (jnp.mean, long), "var": (jnp.var, long), "median": (jnp.median, short),
        "sort": (jnp.sort, short), "argsort": (jnp.argsort, short), "sort rows": (jnp.sort, rows),
        "argmax": (jnp.argmax, long), "argmax rows": (lambda x: x.argmax(1), wide),
        "cumsum": (jnp.cumsum, long), "cumsum axis 0": (lambda x: jnp.cumsum(x, 0), wide),
        "cumsum axis 1": (lambda x: jnp.cumsum(x, 1), wide),
        "top_k": (lambda x: lax.top_k(x, 10), short),
        "searchsorted": (lambda x, y: jnp.searchsorted(jnp.sort(x), y), rows.ravel(), short),
        "take": (lambda x, i: x[i], short, rng.integers(0, MILLION, MILLION)),
        "add at": (lambda x, i: x.at[i].add(1.0), short, rng.integers(0, MILLION, MILLION)),
        "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i, 1000), rows, rng.integers(0, 1000, len(rows))),
        "uniform": (lambda k: jax.random.uniform(k, (10 * MILLION,)), key),
        "normal": (lambda k: jax.random.normal(k, (10 * MILLION,)), key),
        "bernoulli": (lambda k: jax.random.bernoulli(k, 0.5, (10 * MILLION,)), key),
        "permutation": (lambda k: jax.random.permutation(k, MILLION), key),
        "matmul": (jnp.matmul, normal(1000, 1000), normal(1000, 1000)),
        "gradient of a narrow layer": (jax.grad(lambda w, x: ((x @ w) ** 2).sum()), normal(512, 10), normal(4000, 512)),
        "transpose": (lambda x: x.T + 0, wide), "fft": (jnp.fft.rfft, short),
        "conv": (convolve, images, taps), "conv, 3 features": (convolve, pictures, first),
        "max pool gradient": (jax.grad(pool), maps),
        "conv weight gradient": (weight_gradient, maps, kernel),
        "weight gradient, 32 features": (weight_gradient, images, taps),
        "depthwise conv": (lambda x, w: convolve(x, w, 64), planes, depthwise),
        "softmax": (jax.nn.softmax, wide),
        "attention gradient": (jax.grad(attention, (0, 1)), normal(8, 128, 64), normal(3, 64, 64)),
        "layer norm gradient": (jax.grad(layer_norm, (0, 1)), normal(8, 512, 256), normal(256)),
    }


def work(library: str) -> dict[str, float]:
    jax, jnp = load(library)
    out = {}
    for name, (function, *arrays) in cases(jax, jnp).items():
        if not wanted(name):
            continue
        compiled, arrays = jax.jit(function), [jnp.asarray(x) for x in arrays]
        out[name] = shortest(lambda compiled=compiled, arrays=arrays: jax.block_until_ready(compiled(*arrays)))
    return out


if __name__ == "__main__":
    goals = {"x + c": 0.6, "exp": 0.6, "uniform": 0.25, "normal": 0.25, "sort": 0.3, "argsort": 0.25, "argmax": 0.08,
             "cumsum": 0.5, "cumsum axis 0": 0.25, "depthwise conv": 0.1, "conv weight gradient": 0.6,
             "sum of rows of 8": 0.5, "gradient of a narrow layer": 0.5}
    names = ("chain", "where", "sum", "mean", "var", "median", "max", "take", "top_k", "fft", "conv", "matmul",
             "transpose", "softmax", "permutation", "bernoulli", "searchsorted")
    main(work, limit=dict.fromkeys(names, 1.0) | goals)
