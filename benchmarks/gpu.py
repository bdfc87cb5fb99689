"""xjax and JAX on a GPU: calls, memory, order, products, graphs, networks. Both run on the same GPU, in turn.

Both use the plugin of their jaxlib and share the GPU, without preallocation. `--platform cpu` tests the script with
small arrays on a machine without a GPU. Only the networks need a further package: Flax (the extra `peers`).
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from pairs import load, main, wanted

SMALL = "cpu" in sys.argv                               # set by `--platform cpu`, also in the child processes
MANY, SOME = (200_000, 100_000) if SMALL else (100_000_000, 10_000_000)
ROWS = (1_000, 400) if SMALL else (25_000, 4_000)
SIDE = 256 if SMALL else 8192
NODES, EDGES = (2_000, 20_000) if SMALL else (100_000, 1_000_000)
IMAGES = (2, 56, 56, 128) if SMALL else (64, 56, 56, 128)


class Case(NamedTuple):
    """A function, its arguments, whether it is compiled, and the number of calls before waiting for the result."""

    function: Callable[..., Any]
    arrays: tuple[Any, ...]
    jit: bool = True
    burst: int = 3


def calls(jax: Any, jnp: Any, npr: np.random.Generator) -> dict[str, Case]:
    """Small arrays: the host's work for each call."""
    x, y, value = jnp.ones(8), jnp.full(8, 2.0), np.ones(8, np.float32)
    hundred, parameters = [x + i for i in range(100)], {f"w{i}": jnp.full((8, 8), 0.01 * i) for i in range(200)}
    several, add = jax.jit(lambda xs: [x + 1 for x in xs]), jax.jit(lambda x, y: x + y)
    step = jax.jit(lambda p, x: {k: v - 0.01 * (v @ x) for k, v in p.items()}, donate_argnums=0)
    state = [parameters]

    def donated(x):
        state[0] = step(state[0], x)
        return state[0]["w0"]

    def scalar(x):
        for _ in range(15):
            x = jnp.sin(x) * 1.1
        return x.sum()

    eager = functools.partial(Case, jit=False, burst=100)
    return {
        "a + b": eager(lambda x, y: x + y, (x, y)),
        "sin": eager(jnp.sin, (x,)),
        "x[0]": eager(lambda x: x[0], (x,)),
        "float(x + 1)": eager(lambda x: float(x + 1), (x.sum(),)),
        "asarray of a NumPy array": eager(lambda: jnp.asarray(value), ()),
        "jit, 1 array": Case(lambda x: x + 1, (x,), burst=100),
        "jit, a NumPy array": eager(add, (x, value)),
        "jit, a number": eager(add, (x, 2.0)),
        "jit, 100 arrays in and out": eager(several, (hundred,), burst=30),
        "jit, 200 donated arrays": eager(donated, (jnp.ones((8, 8)),), burst=30),
        "grad of 30 operations, outside jit": eager(jax.grad(scalar), (x,), burst=5),
        "split and normal": eager(lambda k: jax.random.normal(jax.random.split(k)[0], (100,)), (jax.random.key(0),)),
        "scan of 1,000 steps": Case(lambda x: jax.lax.scan(lambda c, _: (jnp.tanh(c) * 1.01, None), x, None, 1000)[0],
                                    (x,)),
    }


def of_memory(jax: Any, jnp: Any, npr: np.random.Generator) -> dict[str, Case]:
    """Large arrays, with each element read once or a few times: limited by memory bandwidth."""
    x, rows = (jnp.asarray(npr.standard_normal(shape, dtype=np.float32)) for shape in (MANY, ROWS))

    def normalised(x):
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5)

    return {
        "x + 1": Case(lambda x: x + 1, (x,)),
        "sum": Case(jnp.sum, (x,)),
        "argmax": Case(jnp.argmax, (x,)),
        "var": Case(jnp.var, (x,)),
        "softmax of rows": Case(jax.nn.softmax, (rows,)),
        "gradient of log_softmax": Case(jax.grad(lambda x: jax.nn.log_softmax(x)[:, 3].sum()), (rows,)),
        "layer norm": Case(normalised, (rows,)),
        "gradient of layer norm": Case(jax.grad(lambda x: (normalised(x) ** 3).sum()), (rows,)),
        "max of rows": Case(lambda x: jnp.max(x, 1), (rows,)),
        "sum over rows": Case(lambda x: jnp.sum(x, 0), (rows,)),
        "transpose": Case(lambda x: x.T + 0, (rows,)),
        "cumsum of rows": Case(lambda x: jnp.cumsum(x, 1), (rows,)),
        "softmax of rows, outside jit": Case(jax.nn.softmax, (rows,), jit=False),
    }


def of_order(jax: Any, jnp: Any, npr: np.random.Generator) -> dict[str, Case]:
    """Sorting, sums along an axis, random numbers, gathers and scatters."""
    x = jnp.asarray(npr.standard_normal(SOME, dtype=np.float32))
    table, rows = x[:SOME // 10], x.reshape(-1, 1000)
    places = jnp.asarray(npr.integers(0, SOME // 10, SOME, dtype=np.int32))
    key = jax.random.key(0)
    return {
        "sort": Case(jnp.sort, (x,)),
        "argsort": Case(jnp.argsort, (x,)),
        "gradient of sort": Case(jax.grad(lambda x: (jnp.sort(x) ** 2).sum()), (x,)),
        "sort of rows of 1,000": Case(lambda x: jnp.sort(x, 1), (rows,)),
        "median": Case(jnp.median, (x,)),
        "cumsum": Case(jnp.cumsum, (x,)),
        "cummax": Case(lambda x: jax.lax.cummax(x), (x,)),
        "top_k, 8 of rows of 1,000": Case(lambda x: jax.lax.top_k(x, 8), (rows,)),
        "random normal": Case(lambda k: jax.random.normal(k, (MANY,)), (key,)),
        "permutation": Case(lambda k: jax.random.permutation(k, SOME), (key,)),
        "take": Case(lambda x, i: x[i], (table, places)),
        "scatter-add": Case(lambda x, i: jnp.zeros(SOME // 10).at[i].add(x), (x, places)),
        "segment_max, sorted": Case(lambda x, i: jax.ops.segment_max(x, i, SOME // 10, indices_are_sorted=True),
                                    (x, jnp.sort(places))),
        "searchsorted": Case(jnp.searchsorted, (jnp.sort(table), table)),
    }


def of_products(jax: Any, jnp: Any, npr: np.random.Generator) -> dict[str, Case]:
    """Matrix products, convolutions, Fourier transforms and decompositions."""
    square = jnp.asarray(npr.standard_normal((SIDE, SIDE), dtype=np.float32))
    images, kernel = (jnp.asarray(npr.standard_normal(s, dtype=np.float32)) for s in (IMAGES, (3, 3, 128, 128)))
    small = jnp.asarray(npr.standard_normal((64, 64, 64), dtype=np.float32))
    positive = jnp.asarray(np.eye(SIDE // 4, dtype=np.float32) * 4 + 0.001)
    heads = jnp.asarray(npr.standard_normal((1, 64, 2, 16) if SMALL else (8, 1024, 12, 64)), jnp.bfloat16)
    names = ("NHWC", "HWIO", "NHWC")

    def convolve(x, k):
        return jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=names)

    def attend(x):
        return (jax.nn.dot_product_attention(x, x, x, is_causal=True).astype(jnp.float32) ** 2).sum()

    cases = {f"product, {dtype}": Case(jnp.matmul, (square.astype(dtype),) * 2)
             for dtype in ("bfloat16", "float16", "float32")}
    cases |= {f"{name} of 64 matrices": Case(getattr(jnp.linalg, name), (small,))
              for name in ("inv", "qr", "svd", "det")}
    return cases | {
        "convolution": Case(convolve, (images, kernel)),
        "gradients of the convolution": Case(jax.grad(lambda x, k: (convolve(x, k) ** 2).sum(), (0, 1)),
                                             (images, kernel)),
        "gradient of a max pool": Case(jax.grad(lambda x: (jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME") ** 2).sum()), (images,)),
        "fft of rows of 1,000": Case(jnp.fft.rfft, (jnp.ones((SOME // 1000, 1000)),)),
        "eigh of 64 matrices": Case(lambda x: jnp.linalg.eigh(x @ x.mT), (small,)),
        "cholesky": Case(jnp.linalg.cholesky, (positive,)),
        "gradient of attention, bfloat16": Case(jax.grad(attend), (heads,)),
    }


def of_graphs(jax: Any, jnp: Any, npr: np.random.Generator) -> dict[str, Case]:
    """Products with sparse matrices: `xnn.CSR`, and sums of gathered rows in JAX."""
    cases = {}
    for kind in ("uniform", "power law"):
        receivers = npr.integers(0, NODES, EDGES) if kind == "uniform" else (NODES * npr.random(EDGES) ** 4).astype(int)
        order = np.argsort(receivers, kind="stable")
        rows, columns = receivers[order].astype(np.int32), npr.integers(0, NODES, EDGES, dtype=np.int32)
        multiply = _xnn_product(rows, columns) if jax.__name__ == "xjax" else functools.partial(
            _gathered_sum, jax, jnp.asarray(rows), jnp.asarray(columns))
        for width in (16, 128):
            x = jnp.asarray(npr.standard_normal((NODES, width), dtype=np.float32))
            cases[f"sparse product, {kind}, {width} columns"] = Case(multiply, (x,))
            cases[f"its gradient, {kind}, {width} columns"] = Case(
                jax.grad(lambda x, multiply=multiply: (multiply(x) ** 2).sum()), (x,))
    return cases


def _xnn_product(rows: np.ndarray, columns: np.ndarray) -> Callable[[Any], Any]:
    import scipy.sparse

    import xnn

    values = np.ones(len(rows), np.float32)
    matrix = xnn.CSR.from_scipy(scipy.sparse.csr_array((values, (rows, columns)), shape=(NODES, NODES)))
    return lambda x: matrix @ x


def _gathered_sum(jax: Any, rows: Any, columns: Any, x: Any) -> Any:
    return jax.ops.segment_sum(x[columns], rows, NODES, indices_are_sorted=True)


def of_networks(jax: Any, jnp: Any, npr: np.random.Generator) -> dict[str, Case]:
    """Training steps of the networks of networks.py; each call waits for its result."""
    import networks

    make = networks.xnn_step if jax.__name__ == "xjax" else networks.flax_step
    return {f"step of {name}": Case(make(case), (), jit=False, burst=1) for name, case in networks.cases().items()
            if wanted(f"step of {name}")}


GROUPS = (calls, of_memory, of_order, of_products, of_graphs, of_networks)


def work(library: str) -> dict[str, float]:
    jax, jnp = load(library)
    times = {}
    for group in GROUPS:
        try:
            cases = group(jax, jnp, np.random.default_rng(0))
        except ImportError as error:                    # Flax is not installed
            print(f"{group.__name__}: {error}", file=sys.stderr)
            continue
        times |= {name: seconds_of(jax, case) for name, case in cases.items() if wanted(name)}
    return times


def seconds_of(jax: Any, case: Case) -> float:
    """Seconds per call: the median over bursts of calls, each with one wait at its end."""
    function = jax.jit(case.function) if case.jit else case.function
    jax.block_until_ready(function(*case.arrays))
    times, begin = [], time.perf_counter()
    while len(times) < 5 or (len(times) < 40 and time.perf_counter() - begin < 0.25):
        start = time.perf_counter()
        for _ in range(case.burst):
            result = function(*case.arrays)
        jax.block_until_ready(result)
        times.append((time.perf_counter() - start) / case.burst)
    return statistics.median(times)


if __name__ == "__main__":
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    main(work, pairs=3, platform="cuda")
