"""A step length that satisfies the strong Wolfe conditions (Nocedal and Wright, 2006, algorithms 3.5 and 3.6).

Both of their phases are one loop, which evaluates the function once per iteration. While no minimum is bracketed, `low`
is the last step tried and the next one is twice as long. Then the minimum is between `low`, the best step so far, and
`high`, and the next step is the minimum of a polynomial through the known values and slopes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xjax import lax
from xjax.core.tree import tree_map
from xjax.core.types import number_of
from xjax.numpy import abs, dot, finfo, maximum, minimum, sqrt, where
from xjax.ops.dot import Precision
from xjax.typing import Array, ArrayLike

_INT, _BOOL = np.int32, np.bool_
_DECREASE, _CURVATURE = 1e-4, 0.9       # c1 and c2 of the Wolfe conditions, usual for quasi-Newton directions
_ZOOMS = 30
OK, ZOOM_FAILED, TOO_LONG = 0, 1, 3     # the numbers of SciPy and JAX


class Point(NamedTuple):
    """A step along the direction, and the function's value, slope along the direction, and gradient at this step."""

    step: Any
    value: Any
    slope: Any
    gradient: Any


class _State(NamedTuple):
    low: Point
    high: Point
    third: Point                        # one more point, for the cubic; valid from the second zoom on
    zooms: Any                          # iterations since the minimum was bracketed; -1 before
    trials: Any
    done: Any
    failed: Any


def search(value_and_grad: Callable, x: ArrayLike, direction: ArrayLike, value: ArrayLike, gradient: ArrayLike,
           first: ArrayLike, maxiter: int) -> tuple[Point, Any, Any]:
    """Find a step from `x` along `direction`, which must descend.

    Args:
      value, gradient: those at x. first: the first step. maxiter: maximum number of steps until a minimum is bracketed.
    Returns: (point, number of evaluations, status). If no point satisfies the conditions, it is the best point that was
      evaluated, at worst x itself.
    """
    start = Point(number_of(x.dtype, 0), value, dot(gradient, direction, precision=Precision.HIGHEST), gradient)
    too_small = 1e-5 if finfo(x.dtype).bits < 64 else 1e-10

    def at(step: Array) -> Point:
        value, gradient = value_and_grad(x + step * direction)
        return Point(step, value, dot(gradient, direction, precision=Precision.HIGHEST), gradient)

    def body(s: _State) -> _State:
        zooming = s.zooms >= 0
        longer = where(s.trials == 0, first, 2 * s.low.step).astype(x.dtype)
        trial = at(where(zooming, _between(s), longer))
        # Negated, so that NaN, the value where the function is undefined, is too high.
        limit = start.value + _DECREASE * trial.step * start.slope
        too_high = ~(trial.value <= limit) | ((trial.value >= s.low.value) & (zooming | (s.trials > 0)))
        good = ~too_high & (abs(trial.slope) <= -_CURVATURE * start.slope)
        rising = ~too_high & (trial.slope * where(zooming, s.high.step - s.low.step, 1) >= 0)
        low = _either(too_high, s.low, trial)
        high = _either(too_high, trial, _either(rising, s.low, s.high))
        zooms = where(zooming | too_high | rising, s.zooms + 1, -1)
        # Relative, since steps may be as small as 1 / |gradient|.
        narrow = (zooms >= 0) & (abs(high.step - low.step) <= too_small * maximum(abs(high.step), abs(low.step)))
        return _State(low, high, _either(too_high | rising, s.high, s.low), zooms, s.trials + 1, good,
                      ~good & (narrow | (zooms >= _ZOOMS)))

    def cond(s: _State) -> Array:
        return ~s.done & ~s.failed & ((s.zooms >= 0) | (s.trials < maxiter))

    end = lax.while_loop(cond, body, _State(start, start, start, _INT(-1), _INT(0), _BOOL(False), _BOOL(False)))
    status = where(end.done, _INT(OK), where(end.failed, _INT(ZOOM_FAILED), _INT(TOO_LONG)))
    return end.low, end.trials, status


def _either(which: Array, a: Point, b: Point) -> Point:
    return tree_map(lambda x, y: where(which, x, y), a, b)


def _between(s: _State) -> Array:
    """The next step: the minimum of a cubic or of a parabola if it is well inside the interval, else the middle."""
    low, high, third = s.low, s.high, s.third
    width = high.step - low.step
    rise = high.value - low.value - low.slope * width
    other = third.step - low.step
    other_rise = third.value - low.value - low.slope * other
    scale = (width * other) ** 2 * (width - other)
    a = (other ** 2 * rise - width ** 2 * other_rise) / scale
    b = (width ** 3 * other_rise - other ** 3 * rise) / scale
    cubic = low.step + (sqrt(b * b - 3 * a * low.slope) - b) / (3 * a)
    parabola = low.step - low.slope * width ** 2 / (2 * rise)
    left, right = minimum(low.step, high.step), maximum(low.step, high.step)

    def inside(step: Array, margin: float) -> Array:        # false for NaN, the result of a division by zero
        return (step > left + margin * (right - left)) & (step < right - margin * (right - left))

    fallback = where(inside(parabola, 0.1), parabola, (low.step + high.step) / 2)
    return where((s.zooms > 0) & inside(cubic, 0.2), cubic, fallback).astype(low.step.dtype)
