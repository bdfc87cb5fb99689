"""Descent along directions from a model of the curvature: BFGS, and L-BFGS, which stores less.

Nocedal and Wright, "Numerical Optimization" (2006), algorithms 6.1, 7.4 and 7.5.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xjax import lax
from xjax.core.types import number_of
from xjax.numpy import dot, eye, isfinite, minimum, outer, roll, where, zeros
from xjax.numpy.linalg import norm as norm_of
from xjax.ops.dot import Precision
from xjax.scipy.optimize.line_search import OK, search
from xjax.transforms.autodiff import value_and_grad
from xjax.typing import Array, ArrayLike

_INT, _BOOL = np.int32, np.bool_


class Model(NamedTuple):
    """The initial memory of a method, which describes the curvature, and the functions that use and update it."""

    start: Any                          # memory, a tree
    direction: Callable[[Any, Any], Any]            # (memory, gradient) -> direction of the next step
    update: Callable[[Any, Any, Any], Any]          # (memory, step, change of the gradient) -> memory


class Limits(NamedTuple):
    """Limits at which a descent ends; None: no limit."""

    gtol: float = 1e-5                  # norm of the gradient
    norm: Any = np.inf                  # the order of this norm, as in `numpy.linalg.norm`
    ftol: float | None = None           # decrease of the value in a step
    maxiter: int | None = None
    maxfun: int | None = None           # evaluations of the value, or of the gradient
    maxgrad: int | None = None
    line_search: int = 10               # trials of a step length


class Descent(NamedTuple):
    """State of a descent, also its result."""

    x: Any
    value: Any
    gradient: Any
    previous: Any                       # value before the last step
    memory: Any
    evaluations: Any
    steps: Any
    converged: Any
    stopped: Any                        # number of the limit that ended the descent, 0 for none
    line_search: Any                    # status of the last line search


TOO_MANY_STEPS, TOO_MANY_VALUES, TOO_MANY_GRADIENTS, NO_PROGRESS, NO_STEP = range(1, 6)


def descend(fun: Callable, x0: ArrayLike, model: Model, limits: Limits) -> Descent:
    """Follow the model's directions from `x0`, with step lengths by line search, until convergence or a limit."""
    both = value_and_grad(fun)

    def step(s: Descent) -> Descent:
        direction = model.direction(s.memory, s.gradient)
        slope = _dot(s.gradient, direction)
        guess = 2.02 * (s.value - s.previous) / slope       # the step that would repeat the last decrease
        point, evaluations, status = search(both, s.x, direction, s.value, s.gradient,
                                            where(guess > 0, minimum(guess, 1), 1), limits.line_search)
        moved = point.step * direction
        evaluations = s.evaluations + evaluations
        return Descent(s.x + moved, point.value, point.gradient, s.value,
                       model.update(s.memory, moved, point.gradient - s.gradient), evaluations, s.steps + 1,
                       norm_of(point.gradient, limits.norm) < limits.gtol,
                       _stopped(limits, s.value - point.value, evaluations, s.steps + 1, status), status)

    value, gradient = both(x0)
    start = Descent(x0, value, gradient, value + norm_of(gradient) / 2, model.start, _INT(1), _INT(0),
                    norm_of(gradient, limits.norm) < limits.gtol,
                    _stopped(limits, np.inf, _INT(1), _INT(0), _INT(OK)), _INT(OK))
    return lax.while_loop(lambda s: ~s.converged & (s.stopped == 0), step, start)


def _stopped(limits: Limits, decrease: ArrayLike, evaluations: ArrayLike, steps: ArrayLike,
             status: ArrayLike) -> Array | np.generic:
    """The number of the first limit that is exceeded, 0 for none."""
    reasons = [(NO_STEP, status != OK)]
    for reason, count, limit in ((TOO_MANY_STEPS, steps, limits.maxiter), (TOO_MANY_VALUES, evaluations, limits.maxfun),
                                 (TOO_MANY_GRADIENTS, evaluations, limits.maxgrad)):
        if limit is not None:
            reasons.append((reason, count >= limit))
    if limits.ftol is not None:
        reasons.append((NO_PROGRESS, decrease < limits.ftol))
    number = _INT(0)
    for reason, holds in reversed(reasons):
        number = where(holds, _INT(reason), number)
    return number


def _dot(a: Array, b: Array) -> Array:
    return dot(a, b, precision=Precision.HIGHEST)


def bfgs(x0: ArrayLike) -> Model:
    """The BFGS method. Its memory is the estimated inverse of the Hessian, [n, n]."""
    def update(inverse: Array, step: Array, change: Array) -> Array:
        rho = 1 / _dot(step, change)
        image = _dot(inverse, change)
        mixed = outer(step, image)
        better = inverse - rho * (mixed + mixed.T) + rho * (1 + rho * _dot(change, image)) * outer(step, step)
        return where(isfinite(better).all(), better, inverse)        # it is not finite if step . change is 0

    return Model(eye(x0.size, dtype=x0.dtype), lambda inverse, gradient: -_dot(inverse, gradient), update)


class _History(NamedTuple):
    """The last steps and the changes of the gradient, newest last; rho: 1 / (step . change), or 0 for no step."""

    steps: Any
    changes: Any
    rho: Any
    scale: Any                          # scale of the identity, the inverse Hessian before the corrections


def lbfgs(x0: ArrayLike, length: int) -> Model:
    """The L-BFGS method. Its memory is the last `length` steps; see `_History`."""
    def direction(memory: _History, gradient: Array) -> Array:
        def back(q: Array, pair: tuple) -> tuple[Any, Any]:
            step, change, rho = pair
            weight = rho * _dot(step, q)
            return q - weight * change, weight

        def forth(r: Array, pair: tuple) -> tuple[Any, None]:
            (step, change, rho), weight = pair
            return r + (weight - rho * _dot(change, r)) * step, None

        pairs = tuple(memory[:3])
        q, weights = lax.scan(back, gradient, pairs, reverse=True)
        return -lax.scan(forth, memory.scale * q, (pairs, weights))[0]

    def update(memory: _History, step: Array, change: Array) -> _History:
        curvature = _dot(step, change)
        useful = curvature > 0
        new = (step, change, where(useful, 1 / where(useful, curvature, 1), 0))
        kept = [roll(old, -1, 0).at[-1].set(entry) for old, entry in zip(memory[:3], new, strict=True)]
        return _History(*kept, where(useful, curvature / where(useful, _dot(change, change), 1), memory.scale))

    vectors = zeros((length, x0.size), x0.dtype)
    return Model(_History(vectors, vectors, zeros(length, x0.dtype), number_of(x0.dtype, 1)), direction, update)
