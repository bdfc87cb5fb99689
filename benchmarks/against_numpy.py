"""Functions of 1e6 to 1e7 elements against NumPy: compiled, and called eagerly as in a NumPy program."""

import numpy as np
from pairs import load, main, shortest

MILLION = 1_000_000
SIZE_IS_DATA = ("unique", "bincount")         # the shape of the result depends on values, so they do not compile


def cases(library, jnp, random):
    """name -> (function, arguments as NumPy arrays)."""
    rng = np.random.default_rng(0)

    def normal(*shape):
        return rng.standard_normal(shape, dtype=np.float32)

    def put(x, i):
        if library == "numpy":
            y = x.copy()
            np.add.at(y, i, np.float32(1))
            return y
        return x.at[i].add(1.0)

    long, short, wide, rows = normal(10 * MILLION), normal(MILLION), normal(4000, 2500), normal(10_000, 100)
    square = normal(1000, 1000)
    few, many = rng.integers(0, 1000, MILLION, dtype=np.int32), rng.integers(0, MILLION, MILLION, dtype=np.int32)
    regular = square + 50 * np.eye(1000, dtype=np.float32)
    definite = square @ square.T / 1000 + np.eye(1000, dtype=np.float32)
    return {
        "x + c": (lambda x: x + np.float32(1.5), long), "x * y": (lambda x, y: x * y, long, long[::-1].copy()),
        "chain": (lambda x: jnp.tanh(x * 2 + 1) * x, long), "x > 0": (lambda x: x > 0, long),
        "where": (lambda x: jnp.where(x > 0, x, np.float32(0.1) * x), long), "x ** 2": (lambda x: x ** 2, long),
        **{name: (getattr(jnp, name), long) for name in ("exp", "log1p", "sin", "tanh", "sqrt", "floor")},
        **{name: (getattr(jnp, name), long) for name in (
            "sum", "mean", "var", "max", "argmax", "any", "cumsum", "count_nonzero")},
        **{f"{name} axis {axis}": (lambda x, name=name, axis=axis: getattr(jnp, name)(x, axis), wide)
           for name in ("sum", "max", "argmax", "cumsum") for axis in (0, 1)},
        **{name: (getattr(jnp, name), short) for name in ("sort", "argsort", "median", "unique", "diff")},
        "sort rows": (jnp.sort, rows), "percentile": (lambda x: jnp.percentile(x, 90), short),
        "searchsorted": (jnp.searchsorted, np.sort(rows.ravel()), short), "bincount": (jnp.bincount, few),
        "histogram": (lambda x: jnp.histogram(x, 100), short),
        "take": (lambda x, i: x[i], short, many), "add at": (put, short, many), "x[::2]": (lambda x: x[::2] + 0, long),
        "flip": (lambda x: jnp.flip(x) + 0, long),
        "transpose": (lambda x: x.T.ravel(), wide), "concatenate": (lambda x: jnp.concatenate([x, x]), long),
        "tile": (lambda x: jnp.tile(x, 10), short), "pad": (lambda x: jnp.pad(x, 5), wide),
        "roll": (lambda x: jnp.roll(x, 7), long),
        "matmul": (jnp.matmul, square, square), "einsum": (lambda x, y: jnp.einsum("ij,ik->jk", x, y), square, square),
        "outer": (jnp.outer, long[:3000], long[:3000]), "rfft": (jnp.fft.rfft, short), "fft2": (jnp.fft.fft2, square),
        "solve": (jnp.linalg.solve, regular, square[0]), "cholesky": (jnp.linalg.cholesky, definite),
        "svd": (jnp.linalg.svd, square[:300, :300]), "eigh": (jnp.linalg.eigh, definite[:300, :300]),
        "uniform": random("uniform", 10 * MILLION), "normal": random("normal", 10 * MILLION),
        "permutation": random("permutation", MILLION),
    }


def drawn_by_numpy(name, size):
    rng = np.random.default_rng(0)
    return {"uniform": lambda: rng.random(size, np.float32), "normal": lambda: rng.standard_normal(size, np.float32),
            "permutation": lambda: rng.permutation(size)}[name],


def drawn_with_key(name, size):
    def draw(key):
        return getattr(load("xjax")[0].random, name)(key, size if name == "permutation" else (size,))
    return draw, np.array([0, 7], np.uint32)


def work(library: str) -> dict[str, float]:
    """Seconds by case. NumPy has one time for each function, compared with both the eager and the compiled call."""
    out = {}
    if library == "numpy":
        for name, (function, *arrays) in cases(library, np, drawn_by_numpy).items():
            out[name] = out[f"{name}, compiled"] = _time(function, arrays, lambda y: y)
        return out
    xjax, jnp = load(library)
    for name, (function, *arrays) in cases(library, jnp, drawn_with_key).items():
        arrays = [jnp.asarray(x) for x in arrays]
        out[name] = _time(function, arrays, xjax.block_until_ready)
        compiles = name not in SIZE_IS_DATA
        out[f"{name}, compiled"] = _time(xjax.jit(function), arrays, xjax.block_until_ready) if compiles else out[name]
    return out


def _time(call, arrays, wait) -> float:
    return shortest(lambda: wait(call(*arrays)), 0.2, 20)


if __name__ == "__main__":
    main(work, pairs=3, peer="numpy")
