"""Step sizes as functions of the step number; the first step is 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import ArrayLike

Step = int | Any  # a number, or a traced integer scalar
Schedule = Callable[[Step], Any]


def constant(step_size: ArrayLike) -> Schedule:
    """The same step size at each step."""
    return lambda i: step_size


def exponential_decay(step_size: float, decay_steps: float, decay_rate: float) -> Schedule:
    """``step_size * decay_rate ** (i / decay_steps)``.

    >>> exponential_decay(1.0, 10, 0.5)(20)
    0.25
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: float, decay_steps: float, decay_rate: float, staircase: bool = False) -> Schedule:
    """``step_size / (1 + decay_rate * i / decay_steps)``; the quotient is rounded down if `staircase`."""
    if staircase:
        return lambda i: step_size / (1 + decay_rate * jnp.floor(i / decay_steps))
    # i / 1 is a float, also for a traced integer: strict promotion rejects a float times an integer.
    return lambda i: step_size / (1 + decay_rate * (i / 1) / decay_steps)


def polynomial_decay(step_size: float, decay_steps: float, final_step_size: float, power: float = 1.0) -> Schedule:
    """From `step_size` to `final_step_size`, in proportion to ``(1 - i / decay_steps) ** power``; then constant."""
    def schedule(i):
        left = (1 - jnp.minimum(i, decay_steps) / decay_steps) ** power
        return left * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """``values[k]``, where k is the number of boundaries smaller than i.

    Args: boundaries: number[n], ascending;  values: number[n + 1].
    Raises: ValueError for other shapes.

    >>> float(piecewise_constant([10, 20], [1.0, 0.5, 0.25])(11))
    0.5
    """
    boundaries, values = jnp.array(boundaries), jnp.array(values)
    if boundaries.ndim != 1 or values.shape != (boundaries.size + 1,):
        raise bad("optimizers.piecewise_constant", "needs a sequence of boundaries, and one more value than boundaries",
                  {"boundaries": boundaries, "values": values},
                  "piecewise_constant([1000, 2000], [1e-2, 1e-3, 1e-4]).", ValueError)
    return lambda i: values[jnp.sum(i > boundaries)]


def make_schedule(scalar_or_schedule: float | Schedule) -> Schedule:
    """A schedule unchanged, or `constant` of a number.  Raises: TypeError for an array that is not a scalar."""
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise bad("optimizers.make_schedule", "a step size must be a number or a function of the step",
              {"step_size": scalar_or_schedule}, "pass 1e-3, or a schedule such as piecewise_constant(...).")
