"""The update rules. The state of most is a tuple: the parameter first, then arrays that are zero initially."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import xjax.numpy as jnp
from xjax import lax
from xjax.typing import Array
from xnn.optimizers.schedules import Schedule, Step, make_schedule
from xnn.optimizers.trees import Optimizer, optimizer


def _keep(n_slots: int) -> Callable[[Any], tuple]:
    """An `init` that returns the parameter and n_slots arrays of zeros like it."""
    return lambda x: (x, *(jnp.zeros_like(x) for _ in range(n_slots)))


def _first(state: tuple) -> Array:
    """A `get_params`: the parameter is the first entry of the state."""
    return state[0]


def _inverse_root(x: Array) -> Array:
    """1 / sqrt(x), and 0 with derivative 0 where x is 0."""
    positive = x > 0
    return jnp.where(positive, 1.0 / jnp.sqrt(jnp.where(positive, x, 1)), 0.0)


def _unbiased(average: Array, decay: float, i: Step) -> Array:
    """The bias correction of an exponential average that started at 0: its divisor after step i."""
    rate = jnp.asarray(decay, average.dtype)
    return 1 - (rate ** (i + 1) if isinstance(i, int) else lax.pow(rate, i + 1))


@optimizer
def sgd(step_size: float | Schedule) -> Optimizer:
    """Gradient descent: ``x - step_size(i) g``.

    >>> init, update, get_params = sgd(0.5)
    >>> get_params(update(0, [jnp.ones(2)], init([jnp.array([1.0, 2.0])])))
    [Array([0.5, 1.5], dtype=float32)]
    """
    step_size = make_schedule(step_size)
    return Optimizer(lambda x: x, lambda i, g, x: x - step_size(i) * g, lambda x: x)


@optimizer
def momentum(step_size: float | Schedule, mass: float) -> Optimizer:
    """Heavy ball: ``v = mass v + g``, ``x - step_size(i) v``."""
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, v = state
        v = mass * v + g
        return x - step_size(i) * v, v

    return Optimizer(_keep(1), update, _first)


@optimizer
def nesterov(step_size: float | Schedule, mass: float) -> Optimizer:
    """Nesterov's momentum: ``v = mass v + g``, ``x - step_size(i) (mass v + g)``."""
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, v = state
        v = mass * v + g
        return x - step_size(i) * (mass * v + g), v

    return Optimizer(_keep(1), update, _first)


@optimizer
def adagrad(step_size: float | Schedule, momentum: float = 0.9) -> Optimizer:
    """Adagrad (Duchi, Hazan & Singer 2011) with momentum: g divided by the root of the sum of all its squares."""
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, total, m = state
        total = total + jnp.square(g)
        m = (1.0 - momentum) * (g * _inverse_root(total)) + momentum * m
        return x - step_size(i) * m, total, m

    return Optimizer(_keep(2), update, _first)


@optimizer
def rmsprop(step_size: float | Schedule, gamma: float = 0.9, eps: float = 1e-8) -> Optimizer:
    """RMSProp: g divided by ``sqrt(average + eps)``; the average of its squares decays by `gamma` at each step."""
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, mean_square = state
        mean_square = mean_square * gamma + jnp.square(g) * (1.0 - gamma)
        return x - step_size(i) * g / jnp.sqrt(mean_square + eps), mean_square

    return Optimizer(_keep(1), update, _first)


@optimizer
def rmsprop_momentum(step_size: float | Schedule, gamma: float = 0.9, eps: float = 1e-8,
                     momentum: float = 0.9) -> Optimizer:
    """`rmsprop` with momentum: its steps are accumulated in a sum that decays by `momentum`."""
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, mean_square, m = state
        mean_square = mean_square * gamma + jnp.square(g) * (1.0 - gamma)
        m = momentum * m + step_size(i) * g / jnp.sqrt(mean_square + eps)
        return x - m, mean_square, m

    return Optimizer(_keep(2), update, _first)


@optimizer
def adam(step_size: float | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Adam (Kingma & Ba 2015, algorithm 1).

    Args:
      b1, b2: decay rates of the averages of g and of g squared.
      eps: added to the root.
    """
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * jnp.square(g) + b2 * v
        m_hat, v_hat = m / _unbiased(m, b1, i), v / _unbiased(v, b2, i)
        return x - step_size(i) * m_hat / (jnp.sqrt(v_hat) + eps), m, v

    return Optimizer(_keep(2), update, _first)


@optimizer
def adamax(step_size: float | Schedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """AdaMax (Kingma & Ba 2015, algorithm 2): Adam with a decaying maximum of ``|g|`` instead of the root."""
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, m, u = state
        m = (1 - b1) * g + b1 * m
        u = jnp.maximum(b2 * u, jnp.abs(g))
        return x - (step_size(i) / _unbiased(m, b1, i)) * m / (u + eps), m, u

    return Optimizer(_keep(2), update, _first)


@optimizer
def sm3(step_size: float | Schedule, momentum: float = 0.9) -> Optimizer:
    """SM3 (Anil, Gupta, Koren & Singer 2019): `adagrad` with one sum for each index of each axis, not for each entry.

    The state of an [m, n] parameter is m + n numbers and the momentum. A 0-d parameter is treated as one of shape [1].
    """
    step_size = make_schedule(step_size)

    def init(x):
        rows = jnp.atleast_1d(x)
        return x, jnp.zeros_like(rows), [jnp.zeros(n, rows.dtype) for n in rows.shape]

    def update(i, g, state):
        x, m, sums = state
        g = jnp.atleast_1d(g)
        others = [tuple(a for a in range(g.ndim) if a != axis) for axis in range(g.ndim)]
        # The sum of each index bounds the sums of its entries; the smallest bound over the axes is used.
        bounds = (jnp.expand_dims(s, axes) for s, axes in zip(sums, others, strict=True))
        total = functools.reduce(jnp.minimum, bounds) + jnp.square(g)
        m = (1.0 - momentum) * (g * _inverse_root(total)) + momentum * m
        x = x - jnp.reshape(step_size(i) * m, jnp.shape(x))
        return x, m, [jnp.max(total, axes, initial=0) for axes in others]

    return Optimizer(init, update, _first)
