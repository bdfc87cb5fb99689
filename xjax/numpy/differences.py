"""Differences of samples: `gradient` by finite differences, and `unwrap`, which removes jumps of a period."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy.composed import remainder
from xjax.numpy.creation import asarray
from xjax.numpy.joining import concatenate
from xjax.numpy.promote import library_rules, promote, promote_inexact, shape_of
from xjax.numpy.reductions import cumsum
from xjax.numpy.selection import choose, operand, refuse_complex
from xjax.numpy.stats.increments import diff
from xjax.numpy.ufuncs import absolute, add, divide, greater, less, multiply, subtract, to_array_like
from xjax.ops.bitwise import bitwise_and
from xjax.ops.checks import canonical_axes, canonical_axis
from xjax.ops.compare import eq
from xjax.ops.shape import broadcast_in_dim
from xjax.ops.slice import slice_in_dim
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike

# -- gradient -----------------------------------------------------------------------------------------------------

class _Samples(NamedTuple):
    """Samples along an axis and their distances: a number, or number[..., n - 1, ...] that broadcasts."""

    values: Any
    axis: int
    distance: Any

    def at(self, start: int, stop: int) -> Array:
        return slice_in_dim(self.values, start, stop, axis=self.axis)

    def step(self, start: int, stop: int) -> ArrayLike:
        return slice_in_dim(self.distance, start, stop, axis=self.axis) if shape_of(self.distance) else self.distance


@one_launch
def gradient(f: ArrayLike, *varargs: ArrayLike, axis: int | Sequence[int] | None = None,
             edge_order: int | None = None) -> Any:
    """Derivatives of samples along axes by finite differences, of second order inside and of `edge_order` at the ends.

    Args:
      f: number[...], at least ``edge_order + 1`` samples along each axis.
      varargs: one distance for all axes, or for each axis a distance or the vector of sample positions (default: 1).
      axis: the axes; default: all.
      edge_order: 1 (the default) or 2.
    Returns: an array for one axis, else a list with an array for each axis.
    Raises: ValueError for too few samples, TypeError for a wrong number of distances.

    >>> gradient(np.float32([0, 1, 4, 9]))
    Array([1., 2., 4., 5.], dtype=float32)
    """
    caller = "numpy.gradient"
    f, *distances = (operand(caller, x) for x in promote_inexact(caller, f, *varargs))
    axes = canonical_axes(axis, f.ndim, caller)
    edge_order = 1 if edge_order is None else edge_order
    if edge_order not in (1, 2):
        raise bad(caller, f"`edge_order` is {edge_order!r}", fix="pass 1 or 2.", exc=ValueError)
    if len(distances) not in (0, 1, len(axes)):
        raise bad(caller, f"{len(distances)} distances for {len(axes)} axes", fix="pass one, or one for each axis.")
    distances = distances * len(axes) if len(distances) == 1 else distances or [1.0] * len(axes)
    derivatives = [_derivative(_samples(caller, f, d, h, edge_order), edge_order)
             for d, h in zip(axes, distances, strict=True)]
    return derivatives[0] if len(derivatives) == 1 else derivatives


def _samples(caller: str, f: Array, axis: int, positions: ArrayLike, edge_order: int) -> _Samples:
    n, shape = f.shape[axis], shape_of(positions)
    if n <= edge_order:
        raise bad(caller, f"too few samples along axis {axis}: {n}", given={"f": typeof(f)},
                  fix=f"pass at least {edge_order + 1}.", exc=ValueError)
    if not shape:
        return _Samples(f, axis, positions)
    if shape != (n,):
        raise bad(caller, f"the positions along axis {axis} must be a vector of {n} elements",
                  given={"positions": str(shape)}, fix="pass a number or a vector with a position for each sample.",
                  exc=ValueError)
    distance = diff(positions)
    return _Samples(f, axis, broadcast_in_dim(distance, [n - 1 if d == axis else 1 for d in range(f.ndim)], (axis,)))


def _derivative(s: _Samples, edge_order: int) -> Array:
    n = s.values.shape[s.axis]
    slopes = divide(diff(s.values, axis=s.axis), s.distance)                   # [..., n - 1, ...]

    def slope(start: int, stop: int) -> Array:
        return slice_in_dim(slopes, start, stop, axis=s.axis)

    ends = slope(0, 1), slope(n - 2, n - 1)
    if n == 2:
        return concatenate(ends, s.axis)
    # The parabola through three samples: inside, the slopes on both sides weighted by the other side's distance.
    left, right = s.step(0, n - 2), s.step(1, n - 1)
    whole = add(left, right)
    inside = divide(add(multiply(slope(0, n - 2), right), multiply(slope(1, n - 1), left)), whole)
    if edge_order == 2:
        last = n - 3
        ends = tuple(subtract(multiply(2, end), slice_in_dim(inside, i, i + 1, axis=s.axis))
                     for end, i in zip(ends, (0, last), strict=True))
    return concatenate([ends[0], inside, ends[1]], s.axis)


# -- unwrap -------------------------------------------------------------------------------------------------------

@one_launch
def unwrap(p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * math.pi) -> Array:
    """`p` with multiples of `period` added, so that neighbours along an axis differ by at most half a period.

    Args: p: real[...]; discont: smaller jumps are kept (default, and smallest value with an effect: ``period / 2``).
    Returns: array of the shape of p, in the promoted dtype of p and `period`.
    """
    caller = "numpy.unwrap"
    refuse_complex(caller, p, exc=ValueError)
    # A float period, as the default, turns integers into floats under any promotion options.
    p, period = (library_rules(promote) if isinstance(period, float) else promote)(caller, p, period)
    p, period = to_array_like(caller, p), asarray(period, operand(caller, p).dtype)
    axis = canonical_axis(axis, p.ndim, caller)
    exact = dtypes.is_int(p.dtype)
    high = period // 2 if exact else divide(period, 2)
    jump = diff(p, axis=axis)
    short = subtract(remainder(add(jump, high), period), high)
    # A jump of half a period keeps its direction; an odd integer period has no exact half.
    ambiguous = bitwise_and(eq(short, subtract(0, high)), greater(jump, 0))
    if exact:
        ambiguous = bitwise_and(ambiguous, eq(remainder(period, 2), 0))
    correction = subtract(choose(ambiguous, high, short), jump)
    correction = choose(less(absolute(jump), high if discont is None else discont), 0, correction)
    first = slice_in_dim(p, 0, 1, axis=axis)
    rest = slice_in_dim(p, 1, p.shape[axis], axis=axis)
    return concatenate([first, add(rest, cumsum(correction, axis))], axis)


__all__ = ["gradient", "unwrap"]
