"""Every public function that takes only arrays, compiled, on 1e6 numbers or a 500 x 500 matrix: which are slower?

    python benchmarks/every_function.py --only scipy.stats.

The script tries which arrays a function takes, and compares the cases that both libraries compute.
"""

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable

import numpy as np
from pairs import load, main, wanted

MODULES = ["nn", "numpy", "numpy.fft", "numpy.linalg", "lax", "lax.linalg", "scipy.special", "scipy.fft",
           "scipy.linalg", "scipy.signal"]          # and each distribution of scipy.stats
OF_MATRICES = ("numpy.", "lax.", "scipy.linalg.")
SIZE = 1_000_000
LARGEST = 20 * SIZE                                 # elements of a result: an outer product would exceed the memory
# Quadratic time at 1e6, or many seconds in JAX (exp1, expn).
TOO_LONG = {"exp1", "expn", "convolve", "correlate", "polymul", "polydiv", "deconvolve", "fftconvolve", "oaconvolve",
            "expm", "sqrtm", "funm", "polyfit", "roots", "isin", "in1d", "unstack"}


def arguments() -> dict[str, tuple[np.ndarray, ...]]:
    """name -> possible arguments of a function: vectors of fractions or of small integers, and matrices."""
    rng = np.random.default_rng(0)
    f = [rng.uniform(0.05, 0.95, SIZE).astype(np.float32) for _ in range(3)]
    i = [rng.integers(1, 30, SIZE, dtype=np.int32) for _ in range(2)]
    m = [rng.standard_normal((500, 500), dtype=np.float32) for _ in range(2)]
    return {"f": (f[0],), "f, f": (f[0], f[1]), "f, f, f": tuple(f), "i": (i[0],), "i, i": tuple(i), "m": (m[0],),
            "m, m": tuple(m)}


def functions(library: str):
    """(name, function) of each public function."""
    stats = vars(importlib.import_module(f"{library}.scipy.stats"))
    distributions = sorted(f"scipy.stats.{name}" for name, value in stats.items() if inspect.ismodule(value))
    for module in MODULES + distributions:
        namespace = importlib.import_module(f"{library}.{module}")
        for name in sorted(dir(namespace)):
            value = getattr(namespace, name)
            if not (name.startswith("_") or name in TOO_LONG or inspect.isclass(value) or inspect.ismodule(value)):
                yield f"{module}.{name}", value


def work(library: str) -> dict[str, Callable]:
    """case -> function that prepares it: it returns the compiled call, or None if the arguments are not accepted."""
    jax, jnp = load(library)
    arrays = {kind: [jnp.asarray(x) for x in xs] for kind, xs in arguments().items()}
    warnings.simplefilter("ignore")

    def prepare(function: Callable, xs: list) -> Callable | None:
        jax.clear_caches()
        try:
            lengths = {len(jax.make_jaxpr(function)(*[x[:n] for x in xs]).eqns) for n in (8, 16)}
            if len(lengths) > 1:                    # a Python loop over the rows
                return None
            shapes = jax.tree_util.tree_leaves(jax.eval_shape(function, *xs))
            if not shapes or sum(x.size for x in shapes) > LARGEST:
                return None
            compiled = jax.jit(function)
            jax.block_until_ready(compiled(*xs))
        except Exception:                           # functions reject arguments with many kinds of errors
            return None
        return lambda: jax.block_until_ready(compiled(*xs))

    return {f"{name}({kind})": functools.partial(prepare, function, xs)
            for name, function in functions(library) if wanted(name) and callable(function)
            for kind, xs in arrays.items() if name.startswith(OF_MATRICES) or "m" not in kind}


if __name__ == "__main__":
    main(work, pairs=5, together=True, slower_than=1.2)
