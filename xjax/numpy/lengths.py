"""Root of a sum or mean of squares, for norms and standard deviations: accurate over the whole range of a dtype.

    y:f32[] = root_of_squares[axes=(0,) ...] x...

Squares leave the range of a dtype long before the numbers themselves. The operation has four forms; lowering chooses
the cheapest one for the platform and for the number and length of the rows.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.forms import limits
from xjax.core.hlo import Builder, Value
from xjax.core.lowering import lower_function
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray, Zero, typeof
from xjax.lax.cond import cond
from xjax.lax.reductions import reduce
from xjax.ops.bitwise import bitwise_and
from xjax.ops.checks import NOT_LINEAR
from xjax.ops.compare import eq, ge, gt, le, lt, select
from xjax.ops.complex_numbers import imag, real
from xjax.ops.convert import convert_element_type, convert_element_type_p
from xjax.ops.elementwise import add, div, mul, square
from xjax.ops.identity import computed_again
from xjax.ops.piecewise import abs, min
from xjax.ops.reduce import reduce_and
from xjax.ops.shape import after_batch, broadcast_in_dim, reduce_sum, squeeze
from xjax.ops.slice import slice
from xjax.ops.transcendental import sqrt
from xjax.ops.zeros import full_of, zeros_of
from xjax.transforms.batching import place_axis
from xjax.transforms.custom_vmap import custom_vmap
from xjax.typing import Array, ArrayLike

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

# Binary exponents of the factors that scale large and small elements whose squares leave the range.
_SHIFT = {_SINGLE: 82, _DOUBLE: 560}


def root_of_squares(x: ArrayLike, axes: Sequence[int], divisor: ArrayLike | None = None, *, flat_at_zero: bool,
                    narrow: np.dtype | None = None) -> Array:
    """``sqrt(sum(abs(x) ** 2) / divisor)`` over `axes`, which are dropped.

    Args:
      x: array of float32, float64 or complex numbers; divisor: a number, or an array of the shape of the result, 1 by
        default.
      flat_at_zero: whether the derivative is 0 where the result is 0; otherwise it is NaN there.
      narrow: the dtype from which x was converted, or None: the squares of all float16 numbers are in range.
    """
    parts = (real(x), imag(x)) if dtypes.is_complex(typeof(x).dtype) else (x,)
    known = divisor is None or isinstance(divisor, (float, np.floating))
    count = None if divisor is None or not known else float(divisor)
    count = math.nan if count != count else count               # the one NaN object that equals itself as a cache key
    setting = _Setting(tuple(axes), len(parts), count, flat_at_zero, narrow == np.float16)
    return root_of_squares_p.bind(*parts, *(() if known else (divisor,)), **setting._asdict())


class _Setting(NamedTuple):
    """The parameters of the operation. Its operands are `parts` arrays, and the divisor if it is an array."""

    axes: tuple[int, ...]
    parts: int                                  # 2 for complex numbers, else 1
    divisor: float | None
    flat_at_zero: bool
    in_range: bool                              # all squares are in the range

    def length(self, x: ShapedArray) -> int:
        return math.prod(x.shape[axis] for axis in self.axes)

    def squares(self, parts: Sequence[Any]) -> Array:
        """The sums of squares."""
        return reduce_sum(_sizes_squared(parts), self.axes)

    def root(self, total: Array, divisor: Sequence[Any]) -> Array:
        by = divisor[0] if divisor else None if self.divisor is None else full_of(typeof(total), self.divisor)
        return sqrt(total if by is None else div(total, by))

    def along(self, y: Array, x: ArrayLike) -> Array:
        """An array of the shape of the result, repeated along `axes` to the shape of `x`."""
        shape = typeof(x).shape
        return broadcast_in_dim(y, shape, [d for d in range(len(shape)) if d not in self.axes])


def _sizes_squared(parts: Sequence[Any]) -> Array:
    return functools.reduce(add, map(square, parts))


# -- the forms ----------------------------------------------------------------------------------------------------

def _plain(setting: _Setting, parts: Sequence[Any], divisor: Sequence[Any]) -> Array:
    return setting.root(setting.squares(parts), divisor)


def _in_double(setting: _Setting, parts: Sequence[Any], divisor: Sequence[Any]) -> Array:
    """For float32: double precision holds all squares."""
    total = setting.squares([to_double(x) for x in parts])
    if setting.divisor is not None:
        divisor = (full_of(ShapedArray(typeof(total).shape, _SINGLE), setting.divisor),)
    root = setting._replace(divisor=None).root(total, [to_double(x) for x in divisor])
    return convert_element_type(root, _SINGLE)


def _in_turn(setting: _Setting, parts: Sequence[Any], divisor: Sequence[Any]) -> Array:
    """A plain sum, then the sum for the elements times a power of two, which depends on the first and mostly is 1.

    For short rows everything is one loop, which keeps the elements in registers; XLA fuses it with their computation.
    """
    aval = typeof(parts[0])
    if 1 <= setting.length(aval) <= _WRITTEN_OUT:
        terms = [term for x in parts for term in _along(x, setting.axes)]
        sum_of, along = _sizes_squared, lambda factor, x: factor
    else:
        terms, sum_of, along = parts, setting.squares, setting.along
    total = sum_of(terms)
    factor, back = _factors(aval.dtype, *_out_of_range(total, setting.length(aval)))
    return mul(setting.root(sum_of([mul(x, along(factor, x)) for x in terms]), divisor), back)


def _by_three(setting: _Setting, parts: Sequence[Any], divisor: Sequence[Any]) -> Array:
    """Three sums in one loop: of all squares, and of the scaled squares of the elements below 1, and above 1.

    The first is used where it is in range, the second where the first is too small, the third where it overflows.
    """
    aval = typeof(parts[0])
    shift, zero = _SHIFT[aval.dtype], zeros_of(aval)
    below, above = [], []
    for x in parts:
        # The factor depends on x: with a constant c, XLA computes (x * x) * (c * c), which leaves the range again.
        is_large = gt(abs(x), full_of(aval, 1))
        scaled = square(mul(x, select(is_large, full_of(aval, 2.0**-shift), full_of(aval, 2.0**shift))))
        below.append(select(is_large, zero, scaled))
        above.append(select(is_large, scaled, zero))
    total, of_small, of_large = _sums([_sizes_squared(parts), *(functools.reduce(add, xs) for xs in (below, above))],
                                      setting.axes)
    small, large = _out_of_range(total, setting.length(aval))
    root = setting.root(select(small, of_small, select(large, of_large, total)), divisor)
    return mul(root, _chosen(typeof(root), large, 2.0**shift, small, 2.0**-shift))


def _by_choice(setting: _Setting, parts: Sequence[Any], divisor: Sequence[Any]) -> Array:
    """The root of the plain sum, if that is accurate for all results; otherwise a second pass, for all results.

    In the second pass, elements are multiplied by a power of two before they are squared.
    """
    aval = typeof(parts[0])
    count = setting.length(aval)
    total = setting.squares(parts)

    def plain_root(total: Array, parts: Sequence[Array], divisor: Sequence[Array]) -> Array:
        return setting.root(total, divisor)

    def scaled_root(total: Array, parts: Sequence[Array], divisor: Sequence[Array]) -> Array:
        factor, back = _factors(aval.dtype, *_out_of_range(total, count))
        scaled = setting.squares([mul(x, setting.along(factor, x)) for x in map(computed_again, parts)])
        return mul(setting.root(scaled, divisor), back)

    return cond(all_ordinary(total, count), plain_root, scaled_root, total, parts, divisor)


def _form_on_cpu(x: ShapedArray, setting: _Setting) -> Callable:
    """The fastest accurate form, by the table of `core.forms`."""
    limit = limits("roots of sums of squares", "cpu")
    if limit is None:
        return _by_three
    few = x.size < limit["elements"]
    if few and x.dtype == _SINGLE:
        return _in_double
    return _in_turn if few or setting.length(x) <= limit["row"] else _by_choice


def to_double(x: ArrayLike) -> Array:
    """`x` as float64, even without `jax_enable_x64`, when constants cannot have this dtype."""
    return convert_element_type_p.bind(x, new_dtype=_DOUBLE, weak_type=False)


def _factors(dtype: np.dtype, small: Array, large: Array) -> tuple[Array, Array]:
    """The factor for the elements of each result before they are squared, and its reciprocal; both are 1 in range."""
    shift = _SHIFT[dtype]
    factor, inverse = (_chosen(dtype, large, 2.0 ** -by, small, 2.0 ** by) for by in (shift, -shift))
    return factor, inverse


def _chosen(dtype: np.dtype, large: Array, if_large: float, small: Array, if_small: float) -> Array:
    """One of two numbers, or 1, for each result."""
    aval = ShapedArray(typeof(large).shape, dtype)
    return select(large, full_of(aval, if_large), select(small, full_of(aval, if_small), full_of(aval, 1)))


_MANY = 4096                                    # elements
_WRITTEN_OUT = 16                               # terms of sums written as additions, so that all is one loop
_THREE_WRITTEN_OUT = 4                          # the same for three sums


def _sums(terms: Sequence[Any], axes: tuple[int, ...]) -> Sequence[Any]:
    """The sums over axes of several arrays, in one loop."""
    shape = typeof(terms[0]).shape
    if not 1 <= math.prod(shape[axis] for axis in axes) <= _THREE_WRITTEN_OUT:
        zero = typeof(terms[0]).dtype.type(0)
        return reduce(tuple(terms), (zero,) * len(terms), lambda xs, ys: tuple(map(add, xs, ys)), axes)
    return [functools.reduce(add, _along(x, axes)) for x in terms]


def _along(x: Array, axes: tuple[int, ...]) -> list[Array]:
    """The slices of an array at all positions of `axes`, without these axes."""
    shape = typeof(x).shape
    places = itertools.product(*[range(n) if d in axes else (None,) for d, n in enumerate(shape)])
    return [squeeze(slice(x, [k or 0 for k in place], [n if k is None else k + 1 for k, n in
                                                       zip(place, shape, strict=True)]), axes) for place in places]


def _out_of_range(total: Array, count: int) -> tuple[Array, Array]:
    """(whether each sum is too small, whether it is too large)."""
    aval = typeof(total)
    return lt(total, full_of(aval, _least(aval.dtype, count))), gt(total, full_of(aval, dtypes.finfo(aval.dtype).max))


def _least(dtype: np.dtype, count: int) -> float:
    """The smallest accurate sum of `count` powers: terms that underflowed to 0 do not matter in it."""
    info = dtypes.finfo(dtype)
    return count * float(info.smallest_normal) / float(info.eps)


# -- the operation ------------------------------------------------------------------------------------------------

def _root_type(x: ShapedArray, *others: ShapedArray, axes: tuple[int, ...], **_: Any) -> ShapedArray:
    return ShapedArray(tuple(n for d, n in enumerate(x.shape) if d not in axes), x.dtype)


def _lower_by(form_of: Callable[[ShapedArray, _Setting], Callable]) -> Callable:
    """The lowering to a form that depends on the type of the numbers, unless their squares are all in range."""
    def lower(b: Builder, out: ShapedArray, *operands: Value, **params: Any) -> Value:
        setting = _Setting(**params)
        form = _plain if setting.in_range else form_of(operands[0].aval, setting)
        return lower_function(b, lambda *xs: [form(setting, xs[:setting.parts], xs[setting.parts:])], operands)[0]
    return lower


def _root_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple[Any, Any]:
    """The tangent is ``sum(x * dx) / (root * divisor)``, written so that intermediate values stay in the range."""
    setting = _Setting(**params)
    root = root_of_squares_p.bind(*primals, **params)
    parts, divisor = primals[:setting.parts], primals[setting.parts:]
    moved = [(x, dx) for x, dx in zip(parts, tangents, strict=False) if type(dx) is not Zero]
    if not moved:
        return root, Zero(typeof(root).tangent())
    flat = eq(root, zeros_of(typeof(root)))
    length = select(flat, full_of(typeof(root), 1), root) if setting.flat_at_zero else root
    tangent = reduce_sum(functools.reduce(add, [mul(ratio, dx) for ratio, (_, dx) in zip(
        _ratios([x for x, _ in moved], length, setting), moved, strict=True)]), setting.axes)
    if divisor or setting.divisor is not None:
        tangent = div(tangent, divisor[0] if divisor else full_of(typeof(root), setting.divisor))
    return root, select(flat, zeros_of(typeof(root)), tangent) if setting.flat_at_zero else tangent


def _ratios(parts: Sequence[Any], length: Array, setting: _Setting) -> list[Array]:
    """``x / length`` of each part; for many elements a product with 4 / length, since a division takes much longer.

    4 / length is a normal number for every length but the smallest; 1 / length is subnormal for large ones.
    """
    if typeof(parts[0]).size < _MANY:
        return [div(x, setting.along(length, x)) for x in parts]
    aval = typeof(length)
    inverse = div(full_of(aval, 4), length)
    if setting.flat_at_zero:                                    # otherwise it must be infinite where the length is 0
        inverse = min(inverse, full_of(aval, dtypes.finfo(aval.dtype).max))
    return [mul(mul(x, setting.along(inverse, x)), full_of(typeof(x), 0.25)) for x in parts]


def _root_batch(axis: Any, args: Sequence[Any], bdims: Sequence[int | None], *, axes: tuple[int, ...],
                **params: Any) -> tuple[Any, int]:
    bdim = bdims[0] if len(set(bdims)) == 1 and len(args) == params["parts"] else None
    if bdim is None:
        bdim, args = 0, [place_axis(x, d, 0, axis.size) for x, d in zip(args, bdims, strict=True)]
    inner = after_batch(bdim, axes)
    return root_of_squares_p.bind(*args, axes=inner, **params), bdim - sum(a < bdim for a in inner)


root_of_squares_p = Primitive("root_of_squares", type_rule=_root_type, lower=_lower_by(lambda x, setting: _by_three),
                              lower_on={"cpu": _lower_by(_form_on_cpu)}, jvp=_root_jvp, transpose=NOT_LINEAR,
                              batch=_root_batch)


# -- choices for all results ----------------------------------------------------------------------------------------

def all_ordinary(total: ArrayLike, count: int) -> Array:
    """Whether all sums of `count` powers >= 0 are accurate: none overflowed, and underflowed terms do not matter."""
    aval = typeof(total)
    return everywhere(bitwise_and(ge(total, full_of(aval, _least(aval.dtype, count))),
                                  le(total, full_of(aval, dtypes.finfo(aval.dtype).max))))


def all_near_one(total: ArrayLike, bits: int) -> Array:
    """Whether all are between 2 ** -bits and 2 ** bits."""
    aval = typeof(total)
    return everywhere(bitwise_and(gt(total, full_of(aval, 2.0 ** -bits)), gt(full_of(aval, 2.0 ** bits), total)))


@custom_vmap
def everywhere(holds: ArrayLike) -> Array:
    """Whether all are true; under vmap, also over the mapped axis, so that a `cond` on it still runs one branch."""
    return reduce_and(holds, tuple(range(typeof(holds).ndim)))


@everywhere.def_vmap
def _everywhere_mapped(size: int, batched: list[bool], holds: Array) -> tuple[Array, bool]:
    return everywhere(holds), False
