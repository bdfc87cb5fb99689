"""One row of the table of reductions: a function of a vector, the exact function, and bounds for the errors of results.

Errors are in units in the last place of the exact result. A sum of rounded terms has no more correct digits than its
terms, so where a result is a sum of mixed signs, the unit is that of the size of the terms: `VectorRow.scale` for
values. For derivatives, `VectorRow.sums` selects the unit of the largest derivative of the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import mpmath
import numpy as np

import xjax
from tests.accuracy.points import DTYPES
from tests.accuracy.row import ULPS, Bound
from tests.accuracy.units import Error, units

Vector = tuple[float, ...]

_STEP = 90               # bits between an entry and the step of a difference


@dataclass(frozen=True, eq=False)
class VectorRow:
    """A differentiable function of the entries of a vector.

    covers: the public function that the row tests, such as "numpy.sum", then a space and words that distinguish rows.
    fun: the function of an xjax vector; its result has any shape.
    exact: the same function of mpmath numbers, one per entry: returns a number, or a list of the entries of the result.
    scale: function of the entries as floats: the size of the terms whose sum is the result; None: that of the result.
    sums: whether derivatives are sums of mixed signs too, or the size of the terms of these sums: a number, or a
      function of the entries.
    domain: predicate for tested vectors; None: all. `smooth`: predicate for vectors with derivatives; None: all.
    subtracts: whether the function subtracts entries, such as deviations from a mean.
    bounds: for "value" or "slope", or one of these followed by a dtype: the bound that replaces `ULPS`.
    sizes: numbers of entries of the tested vectors.
    bits: entries are between 2 ** -bits and 2 ** bits; None: over the whole range.
    dtypes: the dtypes that the function accepts.
    """

    covers: str
    fun: Callable[..., Any]
    exact: Callable[..., Any]
    scale: Callable[..., float] | None = None
    sums: bool | float | Callable[..., float] = False
    domain: Callable[..., bool] | None = None
    smooth: Callable[..., bool] | None = None
    subtracts: bool = False
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    sizes: Sequence[int] = (1, 4)
    bits: int | None = None
    dtypes: Sequence[str] = DTYPES

    kinds = ("value", "slope")

    def bound(self, kind: str, dtype: str) -> float:
        own = self.bounds.get(f"{kind} {dtype}") or self.bounds.get(kind)
        return ULPS if own is None else own.ulps

    def __str__(self) -> str:
        return self.covers


def vectors(dtype: str, size: int, count: int, subtracts: bool = False, bits: int | None = None) -> list[Vector]:
    """Vectors with entries of one magnitude (`count` over the whole range), of mixed magnitudes, and with zeros.

    Each vector of one magnitude occurs with positive entries and with entries of both signs. Entries are a few binades
    from the ends of the range. With `subtracts` the distance from the lower end is so large that differences of two
    entries are normal numbers; XLA's CPU backend returns 0 for smaller ones. Mixed magnitudes of float64 are limited to
    2 ** 256, because exact results would take too long. With `bits` all sizes are within 2 ** bits.
    """
    info, rng = ml_dtypes.finfo(dtype), np.random.default_rng(size)
    room = info.nmant + 4 if subtracts and dtype != "float16" else 4            # float16 is computed in float32
    low, high = (info.minexp, info.maxexp) if bits is None else (-bits, bits)
    exponents = np.rint(np.linspace(max(info.minexp + room, low), min(info.maxexp - 6, high - 1), count)).astype(int)
    even = [np.ldexp(1 + rng.random(size), e) for e in exponents]
    even += [x * rng.choice([-1, 1], size) for x in even]
    around_one = [rng.normal(size=size) * 4.0 ** k for k in range(-1, 3)]
    shares = (4, 4, 8, 16) if dtype == "float64" else (1, 1, 2, 4, 8)
    mixed = [np.ldexp(rng.choice([-1, 1], size) * (1 + rng.random(size)),
                      rng.integers(max(info.minexp // share, low), min(info.maxexp // share, high), size))
             for share in shares]
    zeros = [x * (np.arange(size) % 2) for x in even[::4]] + [x * (np.arange(size) == 0) for x in even[1::4]]
    every = np.array([*even, *around_one, *mixed, *zeros, np.zeros(size)]).astype(dtype).astype(np.float64)
    return [tuple(x) for x in every.tolist()]


def errors(row: VectorRow, dtype: str, count: int) -> dict[str, Error]:
    """The largest errors of the values and of the derivatives."""
    worst = dict.fromkeys(("value", "slope"), Error(0.0, 0.0, 0.0, ()))
    with xjax.enable_x64(True):
        value, slopes = xjax.jit(row.fun), xjax.jit(xjax.jacrev(row.fun))
        for x in (x for size in row.sizes for x in vectors(dtype, size, count, row.subtracts, row.bits)):
            if row.domain is not None and not row.domain(*x):
                continue
            array = np.array(x, np.dtype(dtype))
            by_kind = {"value": _compare(value(array), _values(row, x), x, row.scale and row.scale(*x))}
            if row.smooth is None or row.smooth(*x):
                wanted = _slopes(row, x)
                sums = row.sums(*x) if callable(row.sums) else row.sums
                scales = [float(max(map(abs, line))) if sums is True else sums for line in wanted]
                by_kind["slope"] = _compare(slopes(array), [d for line in wanted for d in line], x,
                                          np.repeat(scales, len(x)))
            for kind, error in by_kind.items():
                worst[kind] = max(worst[kind], error, key=lambda error: error.units)
    return worst


def over_bound(row: VectorRow, dtype: str, errors: Mapping[str, Error]) -> list[str]:
    """The results whose error exceeds the bound of the row, as text."""
    return [f"{row.covers} {kind} {dtype}: {error.units:.3g} ulp at {error.args}: {error.result}, exactly {error.exact}"
            for kind, error in errors.items() if not error.units <= row.bound(kind, dtype)]


def _compare(results: Any, wanted: Sequence[Any], x: Vector, scale: Any) -> Error:
    """The largest error of the entries."""
    results = np.asarray(results)
    scales = np.broadcast_to(0.0 if scale is None else scale, results.size).tolist()
    entries = results.astype(np.float64).ravel().tolist()
    return max((Error(units(got, want, results.dtype, size), got, float(want), x)
                for got, want, size in zip(entries, wanted, scales, strict=True)), key=lambda error: error.units)


def _bits(x: Vector) -> int:
    """The precision at which derivatives as small as the smallest entry over the largest are correct to 100 bits."""
    sizes = [int(np.frexp(entry)[1]) for entry in x if entry] or [0]
    return 120 + 2 * max(map(abs, sizes)) + 12 * (max(sizes) - min(sizes)) + 2 * _STEP


def _at(row: VectorRow, args: Sequence[Any]) -> list[Any]:
    try:
        result = row.exact(*args)
    except (ValueError, ZeroDivisionError):
        return [mpmath.nan]
    return list(result) if isinstance(result, list) else [mpmath.mpmathify(result)]


def _values(row: VectorRow, x: Vector) -> list[Any]:
    with mpmath.workprec(_bits(x)):
        return _at(row, [mpmath.mpf(entry) for entry in x])


def _slopes(row: VectorRow, x: Vector) -> list[list[Any]]:
    """The derivative of each result by each entry, by central differences that are correct to some 80 bits."""
    bits, smallest = _bits(x), min((abs(entry) for entry in x if entry), default=1.0)
    columns = []
    with mpmath.workprec(bits):
        at = [mpmath.mpf(entry) for entry in x]
        noise = [mpmath.ldexp(abs(y), 10 - bits) for y in _at(row, at)]
        for i, entry in enumerate(at):
            step = mpmath.ldexp(abs(entry) or smallest, -_STEP)
            up, down = (_at(row, [*at[:i], entry + sign * step, *at[i + 1:]]) for sign in (1, -1))
            columns.append([(a - b) / (2 * step) if abs(a - b) > e else mpmath.mpf(0)
                            for a, b, e in zip(up, down, noise, strict=True)])
    return [list(line) for line in zip(*columns, strict=True)]
