"""A row of the tables of ends: one function at all combinations of the ends of its arguments, compared with SciPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import xjax
from tests.scipy.ends import points
from xjax import numpy as jnp

# In ulp of a value v, times ``1 + abs(log(v))``: the error in v from rounding its logarithm.
ULPS = 64


class Apart(NamedTuple):
    """Arguments at which SciPy's result is wrong or unwanted.

    why: the reason. where(*args): the arguments. right(*args): the wanted result; None: any result passes, for the
    given reason.
    """

    why: str
    where: Callable[..., Any]
    right: Callable[..., Any] | float | None


class EndsRow(NamedTuple):
    """One function.

    name: in messages. fun: xjax's. oracle: SciPy's, which gets float64.
    axes: for each argument the name of a list of `points`, or numbers.
    apart: the arguments at which SciPy is wrong. grads: the arguments that are differentiated.
    no_slope: the arguments at which a slope may be nan though the value is finite, with the reason.
    tol: relative to `ULPS`. log: whether results are logarithms, maybe of numbers close to 1.
    integers: arguments that are integers in xjax.
    """

    name: str
    fun: Callable[..., Any]
    oracle: Callable[..., Any]
    axes: tuple[Any, ...]
    apart: tuple[Apart, ...] = ()
    grads: tuple[int, ...] = ()
    no_slope: tuple[Apart, ...] = ()
    tol: float = 1.0
    log: bool = False
    integers: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.name

    def arguments(self, dtype: str) -> list[np.ndarray]:
        axes = [getattr(points, axis)(dtype) if isinstance(axis, str) else axis for axis in self.axes]
        return points.grid(axes, dtype)

    def typed(self, args: list[np.ndarray]) -> list[np.ndarray]:
        return [x.astype(np.int32) if i in self.integers else x for i, x in enumerate(args)]


def wrong_values(row: EndsRow, dtype: str) -> list[str]:
    """The unlisted differences from SciPy, as text."""
    args = row.arguments(dtype)
    with xjax.enable_x64(True):
        result = _parts(row.fun(*row.typed(args)))
    wide = [x.astype(np.float64) for x in args]
    accepted = [_wanted(row, xs) for xs in _flushed(wide, dtype)]
    texts = []
    for part, got in enumerate(result):
        right = np.zeros(got.shape, bool)
        for wants, is_open in accepted:
            right |= is_open | _agree(got, wants[part], dtype, row)
        texts += [f"{row.name}[{part}] {dtype} at {tuple(float(x[i]) for x in args)}: {got[i]}, "
                  f"wanted {accepted[0][0][part][i]}" for i in np.flatnonzero(~right)]
    return texts


def nan_slopes(row: EndsRow, dtype: str) -> list[str]:
    """The arguments with a finite value and a slope of nan, as text."""
    args = row.typed(row.arguments(dtype))
    with xjax.enable_x64(True):
        def sums(*xs: Any) -> Any:
            return sum(jnp.sum(y) for y in _split(row.fun(*xs)))
        value = sum(_parts(row.fun(*args)))
        slopes = xjax.grad(sums, row.grads)(*args)
    wide = [x.astype(np.float64) for x in args]
    texts = []
    for i, slope in zip(row.grads, slopes, strict=True):
        bad = np.isfinite(value) & np.isnan(slope)
        for _, where, _ in row.no_slope:
            bad &= ~where(*wide)
        texts += [f"{row.name} by argument {i} {dtype} at {tuple(float(x[k]) for x in args)}: nan, value {value[k]}"
                  for k in np.flatnonzero(bad)]
    return texts


def _split(y: Any) -> list[Any]:
    leaves = list(y) if isinstance(y, tuple) else [y]
    return [part for leaf in leaves for part in ((leaf.real, leaf.imag) if leaf.dtype.kind == "c" else (leaf,))]


def _parts(y: Any) -> list[np.ndarray]:
    return [np.asarray(part) for part in _split(y)]


def _wanted(row: EndsRow, args: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """The wanted results, and a mask of the arguments that have one."""
    with np.errstate(all="ignore"):
        wants = _split(row.oracle(*args))
        is_open = np.zeros(args[0].shape, bool)
        for _, where, right in row.apart:
            here = where(*args)
            if right is None:
                is_open |= here
            else:
                wants = [want.copy() for want in wants]
                for want in wants:
                    want[here] = right(*[x[here] for x in args]) if callable(right) else right
    return wants, is_open


def _flushed(args: list[np.ndarray], dtype: str) -> Iterator[list[np.ndarray]]:
    """The arguments; then with 0 in place of denormal numbers, in all or in one: XLA's code may flush them."""
    def flush(x: np.ndarray) -> np.ndarray:
        return np.where(np.abs(x) < np.finfo(dtype).smallest_normal, np.copysign(0, x), x)
    yield args
    yield [flush(x) for x in args]
    for i in range(len(args) if len(args) > 1 else 0):
        yield [flush(x) if k == i else x for k, x in enumerate(args)]


def _agree(got: np.ndarray, want: np.ndarray, dtype: str, row: EndsRow) -> np.ndarray:
    """Whether results agree: nan equals nan, and the sign of a zero does not matter."""
    info = np.finfo(dtype)
    got = got.astype(np.float64)
    with np.errstate(all="ignore"):
        size = np.abs(want)
        unit = np.where(size > 0, size * (1 + np.abs(np.log(size))), 0)
        unit = np.maximum(info.eps * np.maximum(unit, 1 if row.log else 0), info.smallest_normal)
        close = (np.abs(got - want) <= row.tol * ULPS * unit) & np.isfinite(want)
        beyond = (got == np.copysign(np.inf, want)) & (size > info.max * (1 - ULPS * row.tol * 100 * info.eps))
        return (got == want) | np.isnan(got) & np.isnan(want) | close | beyond
