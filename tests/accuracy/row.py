"""One row of the tables of accuracy: a function, what it is exactly, and how far each result may be from that."""

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

ULPS = 4.0                              # what a row allows unless it says otherwise


class Bound(NamedTuple):
    """A larger bound: the measured error in units in the last place, rounded up, and its cause.

    Near its roots a result that is a sum has no more right digits than its terms; there `scale`, the size of the terms,
    takes the place of smaller results.
    """

    ulps: float
    cause: str
    scale: float = 0.0


@dataclass(frozen=True, eq=False)
class ScalarRow:
    """A differentiable elementwise function of one or more arguments.

    name: of the test, and of the function in messages.
    fun: the function of xjax.
    exact: the same function of mpmath numbers; it raises ValueError, or is nan, where fun is nan.
    args: how many arguments it has.
    domain: which arguments are tested; None: all. Leave out the points where it has no derivative.
    grads: which arguments are differentiated; None: all.
    roots: for kinds of results, as in `bounds`, where they are 0, of functions of one argument. Within a quarter of a
      root, a sum has no more right digits than its terms: errors count there in units of the result at that distance.
    bounds: for "value", "slope 0" (by the first argument), "second 0 1" ..., or one of these with a dtype behind it
      ("slope 1 float16"), the bound that holds in place of `ULPS`.
    dtypes: the dtypes it takes.
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
        """What is compared: the value, each slope and each second derivative."""
        pairs = [(i, k) for place, i in enumerate(self.smooth) for k in self.smooth[place:]]
        return ["value", *(f"slope {i}" for i in self.smooth), *(f"second {i} {k}" for i, k in pairs)]

    def bound(self, kind: str, dtype: str) -> Bound:
        return self.bounds.get(f"{kind} {dtype}") or self.bounds.get(kind) or Bound(ULPS, "")

    def __str__(self) -> str:
        return self.name


def first_order(row: ScalarRow, dtype: str, count: int) -> dict[str, Error]:
    """The largest errors of the value and of the slopes over the whole range, in `count` numbers for each argument."""
    at = _grid(row, whole_range(dtype, count if row.args == 1 else max(count // 4, 6)))
    with xjax.enable_x64(True):
        value, back = xjax.vjp(row.fun, *_arrays(at, dtype))
        slopes = back(jnp.ones_like(value))
    found = {"value": _error(row, "value", value, (), at)}
    return found | {f"slope {i}": _error(row, f"slope {i}", slopes[i], (i,), at) for i in row.smooth}


def second_order(row: ScalarRow, dtype: str, count: int) -> dict[str, Error]:
    """The largest errors of the second derivatives at moderate numbers."""
    at = _grid(row, moderate(dtype, count if row.args == 1 else 3))
    found = {}
    for place, i in enumerate(row.smooth):
        with xjax.enable_x64(True):
            slope = xjax.grad(lambda *xs: row.fun(*xs).sum(), i)
            value, back = xjax.vjp(slope, *_arrays(at, dtype))
            seconds = back(jnp.ones_like(value))
        for k in row.smooth[place:]:
            found[f"second {i} {k}"] = _error(row, f"second {i} {k}", seconds[k], (i, k), at)
    return found


def near_zero(row: ScalarRow, dtype: str) -> dict[str, Error]:
    """The largest errors of the value and of the slope of a function of one argument at 0, -0 and denormal numbers.

    XLA on CPUs may read a denormal number as zero: what is right for that is right, at a kink on either side; at a pole
    infinity of the right sign, or nan.
    """
    points = np.concatenate([denormal(dtype), np.array([0.0, -0.0]).astype(dtype)])
    at = [args for args in _grid(row, points) if args[0] or row.domain is None or row.domain(1e-300 * args[0])]
    with xjax.enable_x64(True):
        value, back = xjax.vjp(row.fun, *_arrays(at, dtype))
        slopes = back(jnp.ones_like(value))
    found = {}
    for kind, ys, of in (("value", value, ()), ("slope 0", slopes[0], (0,))):
        errors = [_near_zero(row, kind, y, x, dtype, of)
                  for y, (x,) in zip(np.asarray(ys).astype(np.float64).tolist(), at, strict=True)]
        found[kind] = max(errors, key=lambda error: error.units)
    return found


def _near_zero(row: ScalarRow, kind: str, found: float, x: float, dtype: str, of: tuple[int, ...]) -> Error:
    beside, smallest = math.copysign(2.0**-1074, x), float(ml_dtypes.finfo(dtype).smallest_normal)
    want, at_zero = _want(row, (x or beside,), of), _want(row, (0.0,), of)
    if abs(found) < smallest and abs(want) < smallest:
        error = 0.0                                         # which the next operation may read as 0
    elif not math.isfinite(found) and (abs(want) > 0.25 / smallest or not abs(at_zero) < 1000 * abs(want)):
        error = 0.0 if math.isnan(found) or (found > 0) == (want > 0) else math.inf
    else:
        sides = [_want(row, (side,), of) for side in (beside, -beside)] if of else []
        error = min(units(found, exactly, dtype, row.bound(kind, dtype).scale) for exactly in (want, at_zero, *sides))
    return Error(error, found, float(want), (x,))


def near_zero_beside(row: ScalarRow, dtype: str, domain: Callable[..., bool] | None = None) -> dict[str, Error]:
    """The largest errors of the value and of the slopes of a function of two arguments, one of them, or both, 0, -0 or
    denormal. `domain`, of these numbers: which pairs are tested; None: all.

    XLA on CPUs may read a denormal number as zero: what is right for either is right. The exact results are limits:
    those from both sides for slopes, at whose kinks all between them is right. A value is nan, and a slope may be
    infinite or nan, where there is no limit.
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
    found = {}
    for kind, ys, of in (("value", value, ()), *((f"slope {i}", slopes[i], (i,)) for i in row.smooth)):
        errors = [_beside_zero(row, kind, y, args, dtype, of)
                  for y, args in zip(np.asarray(ys).astype(np.float64).tolist(), at, strict=True)]
        found[kind] = max(errors, key=lambda error: error.units)
    return found


_IN_PLACE_OF_0 = (mpmath.mpf(2) ** -1200, mpmath.mpf(2) ** -2400)     # of two zeros, one may be far below the other


@functools.lru_cache(maxsize=1000)
def _limit(row: ScalarRow, args: tuple[Any, ...], of: tuple[int, ...]) -> Any:
    return _want(row, args, of)


def _beside_zero(row: ScalarRow, kind: str, found: float, args: tuple[float, ...], dtype: str,
                 of: tuple[int, ...]) -> Error:
    info = ml_dtypes.finfo(dtype)
    smallest, largest = float(info.smallest_normal), float(info.max)

    def limits(signs: Sequence[int]) -> list[Any]:
        """The exact results where zeros are approached from their sides, or with a sign of -1 from the other."""
        places = [[x] if abs(x) >= smallest else [*([x] if x and sign > 0 else []),
                                                  *(math.copysign(1, x) * sign * near for near in _IN_PLACE_OF_0)]
                  for x, sign in zip(args, signs, strict=True)]
        wanted = [_limit(row, at, of) for at in product(*places) if row.domain is None or row.domain(*at)]
        return [want for want in wanted if not mpmath.isnan(want)]

    own = limits([1] * len(args))
    if not own:
        return Error(0.0, found, math.nan, args)                        # outside the domain
    low, high = min(own), max(own)
    every = own if not of else [want for signs in product((1, -1), repeat=len(args)) for want in limits(signs)]
    pole = max(map(abs, own)) > min(largest, 0.25 / smallest)
    if math.isnan(found):
        right = high - low > abs(low) / 1000 + smallest or bool(of and pole)
    elif math.isinf(found):
        right = any(abs(want) > min(largest, 0.25 / smallest) and (want > 0) == (found > 0) for want in own)
    else:
        right = min(every) <= found <= max(every) or (abs(found) < smallest and min(map(abs, every)) < smallest)
    error = 0.0 if right else min(units(found, want, dtype, row.bound(kind, dtype).scale) for want in every)
    return Error(error, found, float(own[0]), args)


def over_bound(row: ScalarRow, dtype: str, errors: Mapping[str, Error]) -> list[str]:
    """What is further from the exact result than the row allows, as text."""
    return [f"{row.name} {kind} {dtype}: {error.units:.3g} ulp at {error.args}: {error.found}, exactly {error.exact}"
            for kind, error in errors.items() if error.units > row.bound(kind, dtype).ulps]


def _grid(row: ScalarRow, points: np.ndarray) -> list[tuple[float, ...]]:
    numbers = points.astype(np.float64).tolist()
    return [at for at in product(numbers, repeat=row.args) if row.domain is None or row.domain(*at)]


def _arrays(at: list[tuple[float, ...]], dtype: str) -> list[np.ndarray]:
    return [np.array(column, np.dtype(dtype)) for column in zip(*at, strict=True)]


def _error(row: ScalarRow, kind: str, found: Any, of: tuple[int, ...], at: list[tuple[float, ...]]) -> Error:
    """The largest error of the value, or of its derivative by the arguments `of`."""
    scales = [row.bound(kind, str(found.dtype)).scale] * len(at)
    for root in row.roots.get(kind, ()):
        near = abs(_want(row, (1.25 * root,), of))
        scales = [near if abs(x - root) < abs(root) / 4 else scale for (x,), scale in zip(at, scales, strict=True)]
    return worst(np.asarray(found), [_want(row, args, of) for args in at], at, scales)


def _want(row: ScalarRow, args: tuple[Any, ...], of: tuple[int, ...]) -> Any:
    return exact.derivative(row.exact, args, of) if of else exact.value(row.exact, args)
