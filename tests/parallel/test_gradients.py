"""Gradients of random `shard_map` programs equal those of the same function on whole arrays.

A program is a list of steps on local values of shape (4, 2), on a mesh of 2 x 2 devices. On whole arrays the same steps
run under two `vmap`s with the names of the mesh axes, over the parts into which the specs split the arguments. The loss
is the sum of squares of the last value over all devices.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_close
from xjax import P, lax

ROWS, COLUMNS = 4, 2
AXES = ("i", "j")
SPECS = (P(), P("i"), P("j"), P(None, "j"), P(("i", "j")), P(("j", "i")), P("j", "i"))

Step = Callable[[list[Any]], Any]


@xjax.custom_jvp
def tripled(x):
    return jnp.sin(x)


tripled.defjvp(lambda primals, tangents: (tripled(*primals), 3 * jnp.cos(primals[0]) * tangents[0]))


def axes_of(rng: random.Random) -> Any:
    return rng.choice(("i", "j", ("i", "j"), ("j", "i")))


def elementwise(rng, a, b):
    f = rng.choice((lambda x, y: x * y, lambda x, y: x + jnp.sin(y), lambda x, y: x - y * 0.5,
                    lambda x, y: jnp.where(x > y, x, y * 2), lambda x, y: jnp.tanh(x @ y.T) @ x))
    return lambda v: f(v[a], v[b])


def reduced(rng, a, b):
    axes, mean = axes_of(rng), rng.random() < 0.5
    return lambda v: (lax.pmean if mean else lax.psum)(v[a], axes)


def gathered(rng, a, b):
    axes, at = axes_of(rng), rng.randrange(3)
    return lambda v: lax.all_gather(v[a], axes, tiled=True)[at:at + ROWS] * v[b]


def scattered(rng, a, b):
    axis = rng.choice(AXES)
    return lambda v: jnp.tile(lax.psum_scatter(v[a], axis, tiled=True), (2, 1)) * v[b]


def exchanged(rng, a, b):
    axis = rng.choice(AXES)
    return lambda v: lax.all_to_all(v[a], axis, 0, 1, tiled=True).reshape(ROWS, COLUMNS) + v[b]


def passed_on(rng, a, b):
    axis, pairs = rng.choice(AXES), rng.choice(([(0, 1), (1, 0)], [(0, 1)]))
    return lambda v: lax.ppermute(v[a], axis, pairs) * v[b]


def by_position(rng, a, b):
    axis = rng.choice(AXES)
    return lambda v: v[a] * (1.5 + lax.axis_index(axis))


def in_a_loop(rng, a, b):
    axes, inner = axes_of(rng), rng.random() < 0.5

    def step(c, row):
        c = jnp.tanh(c + row)
        return c, c * (lax.psum(row, axes) if inner else 2.0)
    return lambda v: lax.scan(step, v[b][0], v[a])[1]


def in_a_branch(rng, a, b):
    axes = axes_of(rng)
    return lambda v: lax.cond(lax.psum(v[a].sum(), AXES) > 0, lambda x, y: lax.psum(x, axes) * y,
                              lambda x, y: x - y, v[a], v[b])


def wrapped(rng, a, b):
    wrap, axes = rng.choice((xjax.checkpoint, xjax.jit, lambda f: f)), axes_of(rng)
    return lambda v: wrap(lambda x, y: tripled(x) * lax.psum(y, axes))(v[a], v[b])


KINDS = (elementwise, elementwise, reduced, gathered, scattered, exchanged, passed_on, by_position, in_a_loop,
         in_a_branch, wrapped)


def program(seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """(the function of local values that gives the loss, the spec of each argument)"""
    rng = random.Random(seed)
    specs = [rng.choice(SPECS) for _ in range(rng.choice((2, 3)))]
    steps: list[Step] = []
    for k in range(rng.randint(2, 5)):
        n = len(specs) + k
        steps.append(rng.choice(KINDS)(rng, n - 1 if k else rng.randrange(n), rng.randrange(n)))

    def loss(*args: Any) -> Any:
        values = list(args)
        for step in steps:
            values.append(step(values) / 2)
        return lax.psum((values[-1] ** 2).sum(), AXES) / 10
    return loss, specs


def on_whole_arrays(loss: Callable[..., Any], specs: list[Any]) -> Callable[..., Any]:
    def f(*args: Any) -> Any:
        parts = [split(x, spec) for x, spec in zip(args, specs, strict=True)]
        mapped = xjax.vmap(xjax.vmap(loss, axis_name="j"), axis_name="i")
        return mapped(*parts)[0, 0]
    return f


def split(x: Any, spec: Any) -> Any:
    """The parts of all devices, with two leading axes of devices."""
    def part(i: int, j: int) -> Any:
        place, index = {"i": i, "j": j}, []
        for dim, n in enumerate((ROWS, COLUMNS)):
            k = 0
            for axis in spec.axes(dim):
                k = 2 * k + place[axis]
            index.append(slice(k * n, (k + 1) * n))
        return x[tuple(index)]
    return jnp.stack([jnp.stack([part(i, j) for j in range(2)]) for i in range(2)])


def whole_shape(spec: Any) -> tuple[int, ...]:
    return tuple(n * 2 ** len(spec.axes(dim)) for dim, n in enumerate((ROWS, COLUMNS)))


@pytest.mark.parametrize("seed", [*range(6), *(pytest.param(n, marks=pytest.mark.slow) for n in range(6, 500))])
def test_gradients_are_those_of_whole_arrays(seed):
    loss, specs = program(seed)
    rng = np.random.default_rng(seed)
    with xjax.enable_x64(True):
        mesh = xjax.make_mesh((2, 2), AXES)
        args = [jnp.asarray(rng.normal(size=whole_shape(s))) for s in specs]
        every = tuple(range(len(args)))
        value, want = xjax.jit(xjax.value_and_grad(on_whole_arrays(loss, specs), every))(*args)
        for check in (True, False):
            f = xjax.shard_map(loss, mesh=mesh, in_specs=tuple(specs), out_specs=P(), check_vma=check)
            result, outside = xjax.value_and_grad(f, every)(*args)
            assert_close(result, value, tol=8, what="value")
            assert_close(outside, want, tol=8, what=f"gradient outside, check_vma={check}")
        inside = xjax.shard_map(xjax.grad(loss, every), mesh=mesh, in_specs=tuple(specs), out_specs=tuple(specs))
        assert_close(inside(*args), want, tol=8, what="gradient inside")
