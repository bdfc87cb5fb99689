"""Chex: assertions on values and shapes, dataclasses as trees, and variants of a function."""

import chex
import jax
import jax.numpy as jnp


@chex.dataclass
class State:
    w: chex.Array
    steps: int = 0


def dataclasses():
    @jax.jit
    def step(state):
        chex.assert_shape(state.w, (3,))
        g = jax.grad(lambda w: jnp.sum(jnp.cos(w)))(state.w)
        return state.replace(w=state.w - 0.1 * g, steps=state.steps + 1)

    state = State(w=jnp.arange(3.0))
    for _ in range(20):
        state = step(state)
        yield state.w.sum() + state.steps


def assertions():
    x = jnp.ones((2, 3))
    chex.assert_equal_shape([x, x + 1])
    chex.assert_rank([x, 1.0], [2, 0])
    chex.assert_type([x, 1], [float, int])
    chex.assert_trees_all_close({"a": x}, {"a": x + 1e-9})
    chex.assert_tree_shape_prefix({"a": x}, (2,))
    yield 0
    for wrong in (lambda: chex.assert_shape(x, (3, 2)), lambda: chex.assert_tree_all_finite(x / 0),
                  lambda: chex.assert_trees_all_equal(x, x + 1)):
        try:
            wrong()
        except AssertionError:
            yield 1


def checked():
    @chex.chexify
    @jax.jit
    def f(x):
        chex.assert_tree_all_finite(jnp.log(x))
        return jnp.log(x)

    yield f(2.0)
    try:
        f(-1.0)
        f.wait_checks()
    except AssertionError:
        yield 1
    with chex.fake_jit():
        yield jax.jit(lambda x: x + 1)(1.0)


PROGRAMS = [dataclasses, assertions, checked]
