"""One row of the table of reductions: a function of a vector, what it is exactly, and how far results may be from that.

Errors are in units in the last place of the exact result. A sum of rounded terms has no more right digits than its
terms, so where a result is a sum of mixed signs, the unit is that of the size of the terms: `VectorRow.scale` for
values; for derivatives `VectorRow.sums` says that the unit is that of the largest derivative of the same result.
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

    covers: the public function that the row tests, such as "numpy.sum", and behind a space what tells rows apart.
    fun: the function of an xjax vector; its result has any shape.
    exact: the same of mpmath numbers, one for each entry: a number, or a list of the entries of the result.
    scale: of the entries as floats: the size of the terms of which a result is the sum; None: of the result itself.
    sums: whether derivatives are sums of mixed signs too, or the size of the terms of these sums, for all vectors or
      of the entries.
    domain: which vectors are tested; None: all. `smooth`: at which of these there are derivatives; None: all.
    subtracts: whether it has differences of entries, as deviations from a mean.
    bounds: for "value" or "slope", or one of these with a dtype behind it, the bound in place of `ULPS`.
    sizes: how many entries the vectors have.
    bits: entries are made between 2 ** -bits and 2 ** bits; None: over the whole range.
    dtypes: the dtypes it takes.
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
        found = self.bounds.get(f"{kind} {dtype}") or self.bounds.get(kind)
        return ULPS if found is None else found.ulps

    def __str__(self) -> str:
        return self.covers


def vectors(dtype: str, size: int, count: int, subtracts: bool = False, bits: int | None = None) -> list[Vector]:
    """Vectors of entries of one magnitude, `count` of them over the whole range, of mixed magnitudes, and with zeros.

    Entries of one magnitude are once positive and once of both signs. They keep a distance of a few binades from the
    ends of the range, and with `subtracts` so much from the lower end that the differences of two are normal numbers:
    others are 0 on XLA's CPU backend. Mixed magnitudes of float64 are within 2 ** 256, or exact results took too long.
    With `bits` all sizes are within 2 ** bits.
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
            found = {"value": _compare(value(array), _values(row, x), x, row.scale and row.scale(*x))}
            if row.smooth is None or row.smooth(*x):
                wanted = _slopes(row, x)
                sums = row.sums(*x) if callable(row.sums) else row.sums
                scales = [float(max(map(abs, line))) if sums is True else sums for line in wanted]
                found["slope"] = _compare(slopes(array), [d for line in wanted for d in line], x,
                                          np.repeat(scales, len(x)))
            for kind, error in found.items():
                worst[kind] = max(worst[kind], error, key=lambda error: error.units)
    return worst


def over_bound(row: VectorRow, dtype: str, found: Mapping[str, Error]) -> list[str]:
    """What is further from the exact result than the row allows, as text."""
    return [f"{row.covers} {kind} {dtype}: {error.units:.3g} ulp at {error.args}: {error.found}, exactly {error.exact}"
            for kind, error in found.items() if not error.units <= row.bound(kind, dtype)]


def _compare(found: Any, wanted: Sequence[Any], x: Vector, scale: Any) -> Error:
    """The largest error of the entries."""
    found = np.asarray(found)
    scales = np.broadcast_to(0.0 if scale is None else scale, found.size).tolist()
    entries = found.astype(np.float64).ravel().tolist()
    return max((Error(units(got, want, found.dtype, size), got, float(want), x)
                for got, want, size in zip(entries, wanted, scales, strict=True)), key=lambda error: error.units)


def _bits(x: Vector) -> int:
    """So many that derivatives as small as the smallest entry over the largest are right to 100 bits."""
    sizes = [int(np.frexp(entry)[1]) for entry in x if entry] or [0]
    return 120 + 2 * max(map(abs, sizes)) + 12 * (max(sizes) - min(sizes)) + 2 * _STEP


def _at(row: VectorRow, args: Sequence[Any]) -> list[Any]:
    try:
        found = row.exact(*args)
    except (ValueError, ZeroDivisionError):
        return [mpmath.nan]
    return list(found) if isinstance(found, list) else [mpmath.mpmathify(found)]


def _values(row: VectorRow, x: Vector) -> list[Any]:
    with mpmath.workprec(_bits(x)):
        return _at(row, [mpmath.mpf(entry) for entry in x])


def _slopes(row: VectorRow, x: Vector) -> list[list[Any]]:
    """The derivative of each result by each entry, by central differences that are right to some 80 bits."""
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
