"""Programs for several devices: `PROGRAMS` has functions of the library and the number of devices, by name.

Most are a body of `bodies.py` in a container (pmap, shard_map with and without checked types), plain or differentiated
inside or outside of it. The others are in `meshes.py`, `shardings.py` and `mistakes.py`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from tests.parallel.bodies import IN_GROUPS, ROUGH, SMOOTH, pmapped, sharded

Program = Callable[[Any, int], Any]
CONTAINERS = {"pmap": pmapped, "shard_map": sharded, "unchecked": partial(sharded, check=False)}


def numbers(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n * 8, 3)).astype(np.float32)


def plain(container, body, jax, n):
    return container(jax, body, numbers(n))


def compiled(container, body, jax, n):
    return jax.jit(lambda x: container(jax, body, x))(numbers(n))


def gradient_outside(container, body, jax, n):
    """The gradient of a sum over all devices."""
    jnp = jax.numpy
    return jax.grad(lambda x: jnp.cos(container(jax, body, x)).sum())(jnp.asarray(numbers(n)))


def gradient_inside(container, body, jax, n):
    """Each device computes the derivative of its own sum."""
    jnp = jax.numpy
    return container(jax, lambda _, x: jax.grad(lambda y: jnp.cos(body(jax, y)).sum())(x), numbers(n))


def tangent_inside(container, body, jax, n):
    return container(jax, lambda _, x: jax.jvp(partial(body, jax), (x,), (x * x,))[1], numbers(n))


def mapped_outside(container, body, jax, n):
    """The program mapped by vmap over two arrays."""
    x = np.stack([numbers(n), numbers(n, 1)])
    return jax.vmap(lambda x: container(jax, body, x))(x)


SMOOTH_WAYS = {"": plain, "gradient outside": gradient_outside, "gradient inside": gradient_inside,
               "tangent inside": tangent_inside, "vmap outside": mapped_outside}
ROUGH_WAYS = {"": plain, "jit outside": compiled}


def in_containers() -> Iterator[tuple[str, Program]]:
    for bodies, ways, containers in ((SMOOTH, SMOOTH_WAYS, CONTAINERS), (ROUGH, ROUGH_WAYS, CONTAINERS),
                                     (IN_GROUPS, SMOOTH_WAYS, ["pmap", "unchecked"])):
        for name, body in bodies.items():
            for c in containers:
                for way, program in ways.items():
                    if way == "vmap outside" and bodies is IN_GROUPS:
                        continue                                # neither library has it
                    text = f"{name}, in groups" if bodies is IN_GROUPS else name
                    yield ", ".join(filter(None, (c, text, way))), partial(program, CONTAINERS[c], body)


def written_out() -> Iterator[tuple[str, Program]]:
    for file in ("meshes", "shardings", "mistakes"):
        module = importlib.import_module(f"tests.parallel.{file}")
        for f in vars(module).values():
            if inspect.isfunction(f) and f.__module__ == module.__name__ and not f.__name__.startswith("_"):
                yield f"{file}.{f.__name__}", f


PROGRAMS: dict[str, Program] = {**dict(in_containers()), **dict(written_out())}
