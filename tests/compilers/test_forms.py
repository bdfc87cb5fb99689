"""Forms of programs that compilers handle: random draws and long chains of scalars become separate functions."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax import random

NOT_INLINED = 'inlineable = "false"'


def text_of(f, *args):
    return xjax.jit(f).lower(*args).as_text()


@pytest.mark.parametrize("draw, functions", [
    (lambda key: random.normal(key, (8,)), 1),
    (lambda key: random.fold_in(key, 3), 1),
    (lambda key: random.split(key), 1),
    (lambda key: [random.uniform(k) for k in random.split(key, 3)], 4),
    (lambda key: xjax.vmap(lambda k: random.bernoulli(k, 0.5, (4,)))(random.split(key, 3)), 2),
    (lambda key: xjax.lax.scan(lambda c, k: (c + random.normal(k), None), 0.0, random.split(key, 3))[0], 2),
    (lambda key: random.bits(key, (8,)), 0),            # only the bits: no operation to fuse with
], ids=["normal", "fold_in", "split", "three draws", "mapped", "in scan", "bits"])
def test_draws_are_functions_that_are_not_inlined(draw, functions):
    assert text_of(draw, random.key(0)).count(NOT_INLINED) == functions


def test_a_program_that_calls_a_drawing_function_keeps_its_effects():
    """A callback orders effects through its caller, so a program with a callback is inlined."""
    def noted(key):
        xjax.debug.callback(lambda: None, ordered=True)
        return random.bits(key, (3,))

    jitted = xjax.jit(lambda key: xjax.jit(noted)(key) + 1)
    assert np.array_equal(jitted(random.key(0)), random.bits(random.key(0), (3,)) + 1)


def chain(x, rounds):
    for _ in range(rounds):
        x = x ^ (x >> 7)
    return x


@pytest.mark.parametrize("rounds, barriers", [(1, 0), (15, 0), (40, 2)])
def test_a_number_with_many_paths_is_computed_apart(rounds, barriers):
    """Each round doubles the paths from the argument to the number."""
    x = jnp.uint32(123_456_789)
    assert text_of(lambda x: chain(x, rounds), x).count(NOT_INLINED) == barriers
    assert xjax.jit(chain, static_argnums=1)(x, rounds) == chain(np.uint32(123_456_789), rounds)


def test_an_array_is_left_to_be_fused():
    assert NOT_INLINED not in text_of(lambda x: chain(x, 40), jnp.arange(8, dtype="uint32"))
