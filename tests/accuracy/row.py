"""One row of the tables of accuracy: a function, the exact function, and bounds for the errors of its results."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import ml_dtypes
import mpmath
import numpy as np

import xjax
from tests.accuracy import exact
from tests.accuracy.points import DTYPES, denormal, moderate, whole_range
from tests.accuracy.units import Error, units, worst
from xjax import numpy as jnp

ULPS = 4.0                              # the bound of a result without a bound of its own


class Bound(NamedTuple):
    """A larger bound: the measured error in units in the last place, rounded up, and its cause.

    Near its roots a result that is a sum has no more correct digits than its terms. There, `scale`, the size of the
    terms, replaces smaller results as the base of the units.
    """

    ulps: float
    cause: str
    scale: float = 0.0


@dataclass(frozen=True, eq=False)
class ScalarRow:
    """A differentiable elementwise function of one or more arguments.

    name: name of the test, and of the function in messages.
    fun: the function of xjax.
    exact: the same function of mpmath numbers; it raises ValueError, or is nan, where fun is nan.
    args: number of arguments.
    domain: predicate for tested arguments; None: all. It excludes points where the function has no derivative.
    grads: positions of differentiated arguments; None: all.
    roots: functions of one argument only: roots of a kind of result, by the keys of `bounds`. Within a quarter of a
      root, a sum has no more correct digits than its terms: the units are those of the result at that distance.
    bounds: for "value", "slope 0" (by the first argument), "second 0 1" ..., or one of these followed by a dtype
      ("slope 1 float16"): the bound that replaces `ULPS`.
    dtypes: the dtypes that the function accepts.
    """

    name: str
    fun: Callable[..., Any]
    exact: Callable[..., Any]
    args: int = 1
    domain: Callable[..., bool] | None = None
    grads: tuple[int, ...] | None = None
    roots: Mapping[str, Sequence[float]] = field(default_factory=dict)
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    dtypes: Sequence[str] = DTYPES

    @property
    def smooth(self) -> tuple[int, ...]:
        return tuple(range(self.args)) if self.grads is None else self.grads

    @property
    def kinds(self) -> list[str]:
        """The compared kinds of results: the value, each slope and each second derivative."""
        pairs = [(i, k) for place, i in enumerate(self.smooth) for k in self.smooth[place:]]
        return ["value", *(f"slope {i}" for i in self.smooth), *(f"second {i} {k}" for i, k in pairs)]

    def bound(self, kind: str, dtype: str) -> Bound:
        return self.bounds.get(f"{kind} {dtype}") or self.bounds.get(kind) or Bound(ULPS, "")

    def __str__(self) -> str:
        return self.name


def first_order(row: ScalarRow, dtype: str, count: int) -> dict[str, Error]:
    """The largest errors of the value and of the slopes over the whole range, at `count` numbers for each argument."""
    at = _grid(row, whole_range(dtype, count if row.args == 1 else max(count // 4, 6)))
    with xjax.enable_x64(True):
        value, back = xjax.vjp(row.fun, *_arrays(at, dtype))
        slopes = back(jnp.ones_like(value))
    errors_by_kind = {"value": _error(row, "value", value, (), at)}
    return errors_by_kind | {f"slope {i}": _error(row, f"slope {i}", slopes[i], (i,), at) for i in row.smooth}


def second_order(row: ScalarRow, dtype: str, count: int) -> dict[str, Error]:
    """The largest errors of the second derivatives at moderate numbers."""
    at = _grid(row, moderate(dtype, count if row.args == 1 else 3))
    errors_by_kind = {}
    for place, i in enumerate(row.smooth):
        with xjax.enable_x64(True):
            slope = xjax.grad(lambda *xs: row.fun(*xs).sum(), i)
            value, back = xjax.vjp(slope, *_arrays(at, dtype))
            seconds = back(jnp.ones_like(value))
        for k in row.smooth[place:]:
            errors_by_kind[f"second {i} {k}"] = _error(row, f"second {i} {k}", seconds[k], (i, k), at)
    return errors_by_kind


def near_zero(row: ScalarRow, dtype: str) -> dict[str, Error]:
    """The largest errors of the value and of the slope of a function of one argument at 0, -0 and denormal numbers.

    XLA on CPUs may read a denormal number as zero. So the result at zero is also accepted, at a kink that of either
    side; at a pole, infinity of the correct sign or nan is accepted.
    """
    points = np.concatenate([denormal(dtype), np.array([0.0, -0.0]).astype(dtype)])
    at = [args for args in _grid(row, points) if args[0] or row.domain is None or row.domain(1e-300 * args[0])]
    with xjax.enable_x64(True):
        value, back = xjax.vjp(row.fun, *_arrays(at, dtype))
        slopes = back(jnp.ones_like(value))
    errors_by_kind = {}
    for kind, ys, of in (("value", value, ()), ("slope 0", slopes[0], (0,))):
        errors = [_near_zero(row, kind, y, x, dtype, of)
                  for y, (x,) in zip(np.asarray(ys).astype(np.float64).tolist(), at, strict=True)]
        errors_by_kind[kind] = max(errors, key=lambda error: error.units)
    return errors_by_kind


def _near_zero(row: ScalarRow, kind: str, result: float, x: float, dtype: str, of: tuple[int, ...]) -> Error:
    beside, smallest = math.copysign(2.0**-1074, x), float(ml_dtypes.finfo(dtype).smallest_normal)
    want, at_zero = _want(row, (x or beside,), of), _want(row, (0.0,), of)
    if abs(result) < smallest and abs(want) < smallest:
        error = 0.0                                         # the next operation may read either as 0
    elif not math.isfinite(result) and (abs(want) > 0.25 / smallest or not abs(at_zero) < 1000 * abs(want)):
        error = 0.0 if math.isnan(result) or (result > 0) == (want > 0) else math.inf
    else:
        sides = [_want(row, (side,), of) for side in (beside, -beside)] if of else []
        error = min(units(result, exactly, dtype, row.bound(kind, dtype).scale) for exactly in (want, at_zero, *sides))
    return Error(error, result, float(want), (x,))


def near_zero_beside(row: ScalarRow, dtype: str, domain: Callable[..., bool] | None = None) -> dict[str, Error]:
    """The largest errors of the value and of the slopes of a function of two arguments, one or both of them 0, -0 or
    denormal. `domain`: predicate for tested pairs; None: all.

    XLA on CPUs may read a denormal number as zero, so the result of either reading is accepted. The exact results are
    limits: for slopes at kinks, any value between the limits from both sides is accepted. Where there is no limit,
    nan is accepted, and at a pole of a slope also infinity of the correct sign.
    """
    small = denormal(dtype)
    points = np.concatenate([np.array([0.0, -0.0, 1.75, -0.625]), small[2::4]]).astype(dtype)
    ordinary = float(ml_dtypes.finfo(dtype).smallest_normal)
    numbers = points.astype(np.float64).tolist()
    at = [args for args in product(numbers, repeat=row.args)
          if min(map(abs, args)) < ordinary and (domain is None or domain(*args))]
    with xjax.enable_x64(True):
        value, back = xjax.vjp(row.fun, *_arrays(at, dtype))
        slopes = back(jnp.ones_like(value))
    errors_by_kind = {}
    for kind, ys, of in (("value", value, ()), *((f"slope {i}", slopes[i], (i,)) for i in row.smooth)):
        errors = [_beside_zero(row, kind, y, args, dtype, of)
                  for y, args in zip(np.asarray(ys).astype(np.float64).tolist(), at, strict=True)]
        errors_by_kind[kind] = max(errors, key=lambda error: error.units)
    return errors_by_kind


_IN_PLACE_OF_0 = (mpmath.mpf(2) ** -1200, mpmath.mpf(2) ** -2400)     # one of two zeros may be far smaller


@functools.lru_cache(maxsize=1000)
def _limit(row: ScalarRow, args: tuple[Any, ...], of: tuple[int, ...]) -> Any:
    return _want(row, args, of)


def _beside_zero(row: ScalarRow, kind: str, result: float, args: tuple[float, ...], dtype: str,
                 of: tuple[int, ...]) -> Error:
    info = ml_dtypes.finfo(dtype)
    smallest, largest = float(info.smallest_normal), float(info.max)

    def limits(signs: Sequence[int]) -> list[Any]:
        """The exact results where each zero is approached from its own side, or with sign -1 from the other side."""
        places = [[x] if abs(x) >= smallest else [*([x] if x and sign > 0 else []),
                                                  *(math.copysign(1, x) * sign * near for near in _IN_PLACE_OF_0)]
                  for x, sign in zip(args, signs, strict=True)]
        wanted = [_limit(row, at, of) for at in product(*places) if row.domain is None or row.domain(*at)]
        return [want for want in wanted if not mpmath.isnan(want)]

    own = limits([1] * len(args))
    if not own:
        return Error(0.0, result, math.nan, args)                        # outside the domain
    low, high = min(own), max(own)
    every = own if not of else [want for signs in product((1, -1), repeat=len(args)) for want in limits(signs)]
    pole = max(map(abs, own)) > min(largest, 0.25 / smallest)
    if math.isnan(result):
        right = high - low > abs(low) / 1000 + smallest or bool(of and pole)
    elif math.isinf(result):
        right = any(abs(want) > min(largest, 0.25 / smallest) and (want > 0) == (result > 0) for want in own)
    else:
        right = min(every) <= result <= max(every) or (abs(result) < smallest and min(map(abs, every)) < smallest)
    error = 0.0 if right else min(units(result, want, dtype, row.bound(kind, dtype).scale) for want in every)
    return Error(error, result, float(own[0]), args)


def over_bound(row: ScalarRow, dtype: str, errors: Mapping[str, Error]) -> list[str]:
    """The results whose error exceeds the bound of the row, as text."""
    return [f"{row.name} {kind} {dtype}: {error.units:.3g} ulp at {error.args}: {error.result}, exactly {error.exact}"
            for kind, error in errors.items() if error.units > row.bound(kind, dtype).ulps]


def _grid(row: ScalarRow, points: np.ndarray) -> list[tuple[float, ...]]:
    numbers = points.astype(np.float64).tolist()
    return [at for at in product(numbers, repeat=row.args) if row.domain is None or row.domain(*at)]


def _arrays(at: list[tuple[float, ...]], dtype: str) -> list[np.ndarray]:
    return [np.array(column, np.dtype(dtype)) for column in zip(*at, strict=True)]


def _error(row: ScalarRow, kind: str, results: Any, of: tuple[int, ...], at: list[tuple[float, ...]]) -> Error:
    """The largest error of the value, or of its derivative by the arguments `of`."""
    scales = [row.bound(kind, str(results.dtype)).scale] * len(at)
    for root in row.roots.get(kind, ()):
        near = abs(_want(row, (1.25 * root,), of))
        scales = [near if abs(x - root) < abs(root) / 4 else scale for (x,), scale in zip(at, scales, strict=True)]
    return worst(np.asarray(results), [_want(row, args, of) for args in at], at, scales)


def _want(row: ScalarRow, args: tuple[Any, ...], of: tuple[int, ...]) -> Any:
    return exact.derivative(row.exact, args, of) if of else exact.value(row.exact, args)
