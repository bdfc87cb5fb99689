"""Kernels of networks: xnn.kernels against neural-tangents 0.6.5 on JAX 0.4.25, whose Python is the argument.

    python benchmarks/kernels.py ~/peer/bin/python [--pairs 3] [--only empirical]

tests/xnn/peers/kernels.py says how to install the peer. Both run in new processes, in turn, with two threads; the ratio
is the median of the pairs. The functions of finite networks are the same program, with jax.numpy or xjax.numpy.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
# Case -> the ratio that it should not exceed.
GOALS = {"fully connected, 2,000": 0.8, "fully connected, 5,000": 0.8, "pooled CNN, 24 images": 0.8,
         "empirical NTK, residual CNN": 1.0, "empirical NTK, transformer": 1.0, "gradient flow, 5,000": 1.0}


# -- finite networks, for both libraries -------------------------------------------------------------------------------


def residual_cnn(jax: Any, jnp: Any) -> tuple[Callable, Any, np.ndarray]:
    """(function of params and images, params, images)."""
    rng = np.random.default_rng(0)
    shapes = [(3, 3, 3, 16), *[(3, 3, 16, 16)] * 4, (16, 10)]
    params = [np.float32(rng.normal(size=s) / np.sqrt(np.prod(s[:-1]))) for s in shapes]

    def convolve(x, w):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def apply(params, x):
        first, *blocks, last = params
        x = convolve(x, first)
        for one, other in zip(blocks[::2], blocks[1::2], strict=True):
            x = x + convolve(jax.nn.relu(convolve(jax.nn.relu(x), one)), other)
        return jnp.mean(jax.nn.relu(x), (1, 2)) @ last

    return apply, params, np.float32(rng.normal(size=(16, 16, 16, 3)))


def transformer(jax: Any, jnp: Any) -> tuple[Callable, Any, np.ndarray]:
    """(function of params and sequences, params, sequences)."""
    rng, width = np.random.default_rng(0), 64
    sizes = {**dict.fromkeys("qkvo", (width, width)), "up": (width, 4 * width), "down": (4 * width, width)}

    def draw(shape):
        return np.float32(rng.normal(size=shape) / np.sqrt(shape[0]))

    params = {"blocks": [{name: draw(s) for name, s in sizes.items()} for _ in range(2)], "head": draw((width, 10))}

    def normed(x):
        x = x - jnp.mean(x, -1, keepdims=True)
        return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-5)

    def apply(params, x):
        for p in params["blocks"]:
            y = normed(x)
            weights = jax.nn.softmax((y @ p["q"]) @ jnp.swapaxes(y @ p["k"], -1, -2) / np.float32(width**0.5))
            x = x + weights @ (y @ p["v"]) @ p["o"]
            x = x + jax.nn.gelu(normed(x) @ p["up"]) @ p["down"]
        return jnp.mean(x, 1) @ params["head"]

    return apply, params, np.float32(rng.normal(size=(16, 24, width)))


# -- the libraries -----------------------------------------------------------------------------------------------------


def of_xnn() -> dict[str, Callable[[], Any]]:
    """Case -> call."""
    import xnn
    from xnn import Conv, Dense, Relu, serial
    from xnn.kernels import empirical_ntk, gradient_descent_mse, tiled_kernel

    jax, jnp = importlib.import_module("xjax"), importlib.import_module("xjax.numpy")
    x = inputs()
    dense = serial(Dense(512), Relu, Dense(512), Relu, Dense(1))
    conv = serial(Conv(64, (3, 3)), Relu, Conv(64, (3, 3)), Relu, xnn.GlobalAvgPool(), Dense(1))
    cases: dict[str, Callable[[], Any]] = {
        "fully connected, 2,000": lambda: tiled_kernel(dense, x["rows"][:2000]),
        "fully connected, 5,000": lambda: tiled_kernel(dense, x["rows"]),
        "pooled CNN, 24 images": lambda: tiled_kernel(conv, x["images"]),
    }
    for name, model in (("residual CNN", residual_cnn), ("transformer", transformer)):
        apply, params, batch = model(jax, jnp)
        kernel = empirical_ntk(apply)
        cases[f"empirical NTK, {name}"] = lambda kernel=kernel, params=params, batch=batch: np.asarray(
            kernel(params, batch))

    def flow():
        predict = gradient_descent_mse(x["kernel"], x["targets"], 1.0, 1e-3)
        return [np.asarray(y) for y in predict(np.float32([10.0, 1000.0]), 0.0, 0.0, x["kernel"][:1000])]

    return {**cases, "gradient flow, 5,000": flow}


def of_peer() -> dict[str, Callable[[], Any]]:
    """Case -> call: the kernels jitted, the largest in batches, and the fastest of its methods for finite networks."""
    import jax
    import jax.numpy as jnp
    import neural_tangents as nt
    from neural_tangents import stax

    x = inputs()
    kinds = ("nngp", "ntk")
    dense = stax.serial(stax.Dense(512), stax.Relu(), stax.Dense(512), stax.Relu(), stax.Dense(1))[2]
    convolution = stax.Conv(64, (3, 3), padding="SAME")
    conv = stax.serial(convolution, stax.Relu(), convolution, stax.Relu(), stax.GlobalAvgPool(), stax.Dense(1))[2]
    whole = jax.jit(lambda x: dense(x, None, kinds))
    in_batches = nt.batch(lambda x1, x2=None: conv(x1, x2, kinds), batch_size=2, store_on_device=True)
    cases: dict[str, Callable[[], Any]] = {
        "fully connected, 2,000": lambda: jax.tree_util.tree_map(np.asarray, whole(x["rows"][:2000])),
        "fully connected, 5,000": lambda: jax.tree_util.tree_map(np.asarray, whole(x["rows"])),
        "pooled CNN, 24 images": lambda: jax.tree_util.tree_map(np.asarray, in_batches(x["images"], None)),
    }
    for name, model in (("residual CNN", residual_cnn), ("transformer", transformer)):
        apply, params, batch = model(jax, jnp)
        methods = [jax.jit(nt.empirical_ntk_fn(apply, vmap_axes=0, implementation=how))
                   for how in (nt.NtkImplementation.JACOBIAN_CONTRACTION, nt.NtkImplementation.NTK_VECTOR_PRODUCTS,
                               nt.NtkImplementation.STRUCTURED_DERIVATIVES)]
        calls = [lambda method=method, params=params, batch=batch: np.asarray(method(batch, None, params))
                 for method in methods]
        cases[f"empirical NTK, {name}"] = min(calls, key=lambda call: timed(call, 1))

    def flow():
        predict = nt.predict.gradient_descent_mse(x["kernel"], x["targets"], 1.0, 1e-3)
        return [np.asarray(y) for y in predict(np.float32([10.0, 1000.0]), 0.0, 0.0, x["kernel"][:1000])]

    return {**cases, "gradient flow, 5,000": flow}


def inputs() -> dict[str, np.ndarray]:
    """The inputs of all cases."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(5000, 20))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return {"rows": np.float32(rng.normal(size=(5000, 784))), "images": np.float32(rng.normal(size=(24, 32, 32, 3))),
            "kernel": np.float32(np.exp(points @ points.T)), "targets": np.float32(rng.normal(size=(5000, 10)))}


# -- the comparison ----------------------------------------------------------------------------------------------------


def timed(call: Callable[[], Any], repeats: int = 2) -> float:
    """Seconds of the fastest call after a first one, which compiles."""
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", help="the Python of neural-tangents, or the library that this process measures")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose names contain this")
    args = parser.parse_args()
    if args.peer in ("xnn", "neural-tangents"):
        cases = (of_xnn if args.peer == "xnn" else of_peer)()
        print(json.dumps({name: timed(call) for name, call in cases.items() if args.only in name}))
        return
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu", "XJAX_NUM_THREADS": "2"}
    commands = {"xnn": [sys.executable, __file__, "xnn"], "neural-tangents": [args.peer, __file__, "neural-tangents"]}
    ratios: dict[str, list[float]] = {}
    for pair in range(args.pairs):
        times = {}
        for library in list(commands)[::-1 if pair % 2 else 1]:
            done = subprocess.run([*commands[library], "--only", args.only], env=env, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{library}:\n{done.stderr[-3000:]}")
            times[library] = json.loads(done.stdout.splitlines()[-1])
        for name in times["xnn"]:
            one, other = (times[library][name] for library in ("xnn", "neural-tangents"))
            ratios.setdefault(name, []).append(one / other)
            print(f"{name:<32}{one:8.3f} s {other:8.3f} s {one / other:6.2f}", file=sys.stderr)
    print(f"\n{'xnn / neural-tangents':<32}  median  range        goal")
    for name, values in ratios.items():
        print(f"{name:<32}{statistics.median(values):8.2f}  {min(values):.2f}-{max(values):.2f}  {GOALS[name]:8.1f}")


if __name__ == "__main__":
    main()
