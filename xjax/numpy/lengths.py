"""Root of a sum or mean of squares, right over the whole range of a dtype: what norms and standard deviations are."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.types import typeof
from xjax.lax.cond import cond
from xjax.ops.bitwise import bitwise_and
from xjax.ops.compare import eq, ge, gt, le, select
from xjax.ops.complex_numbers import imag, real
from xjax.ops.elementwise import add, div, mul, square, sub
from xjax.ops.reduce import reduce_and
from xjax.ops.shape import broadcast_in_dim, reduce_sum
from xjax.ops.transcendental import sqrt
from xjax.ops.zeros import full_of, zeros_of
from xjax.transforms.custom_jvp import custom_jvp
from xjax.transforms.custom_vmap import custom_vmap

# Binary exponents of the factors by which large and small elements are multiplied where their squares leave the range.
_SHIFT = {np.dtype(np.float32): 82, np.dtype(np.float64): 560}


def root_of_squares(x: Any, axes: Sequence[int], divisor: Any = None, *, center: Any = None, flat_at_zero: bool,
                    narrow: Any = None) -> Any:
    """``sqrt(sum(abs(x - center) ** 2) / divisor)`` over `axes`, which disappear.

    Args:
      x: array of float32, float64 or complex numbers; divisor: a number, or an array of the shape of the result, 1 by
        default; center: array that broadcasts to x, 0 by default. It is no part of x already, since the operands of a
        `cond` are written to memory: x is there, mostly, but a difference would not be.
      flat_at_zero: whether the derivative where the result is 0 is 0; else it is NaN.
      narrow: the dtype that x was converted from, if it was: the squares of all float16 numbers are in range.

    Where the sum of squares is an ordinary number, as nearly always, the result is its root. Else, if only for one of
    several results, the elements are multiplied by a power of two before they are squared.
    """
    parts, centers = _parts(x), () if center is None else _parts(center)
    known = divisor is None or isinstance(divisor, (float, np.floating))
    setting = _Setting(tuple(axes), float(divisor) if known and divisor is not None else None, flat_at_zero,
                       narrow == np.float16)
    return _root(setting, parts, centers, None if known else divisor)


def _parts(x: Any) -> tuple[Any, ...]:
    return (real(x), imag(x)) if dtypes.is_complex(typeof(x).dtype) else (x,)


class _Setting(NamedTuple):
    """What is known of a root while it is traced."""

    axes: tuple[int, ...]
    divisor: float | None
    flat_at_zero: bool
    in_range: bool

    def squares(self, parts: tuple[Any, ...], centers: tuple[Any, ...], factor: Any = None) -> Any:
        """The sums of squares, of the elements times the factor of each sum."""
        apart = _apart(parts, centers)
        if factor is not None:
            factor = self.along(factor, parts[0])
            apart = [mul(x, factor) for x in apart]
        return reduce_sum(functools.reduce(add, map(square, apart)), self.axes)

    def along(self, y: Any, x: Any) -> Any:
        """An array like the result, repeated along the axes of `x` that it lacks."""
        shape = typeof(x).shape
        return broadcast_in_dim(y, shape, [d for d in range(len(shape)) if d not in self.axes])

    def root(self, total: Any, divisor: Any) -> Any:
        if self.divisor is not None:
            divisor = full_of(typeof(total), self.divisor)
        return sqrt(total if divisor is None else div(total, divisor))


def _apart(parts: tuple[Any, ...], centers: tuple[Any, ...]) -> Sequence[Any]:
    if not centers:
        return parts
    return [sub(x, broadcast_in_dim(center, typeof(x).shape, range(typeof(x).ndim)))
            for x, center in zip(parts, centers, strict=True)]


@functools.partial(custom_jvp, nondiff_argnums=(0,))
def _root(setting: _Setting, parts: tuple[Any, ...], centers: tuple[Any, ...], divisor: Any) -> Any:
    total = setting.squares(parts, centers)
    aval = typeof(total)
    if setting.in_range or aval.dtype not in _SHIFT:
        return setting.root(total, divisor)
    ordinary = is_ordinary(total, math.prod(typeof(parts[0]).shape[a] for a in setting.axes))

    def as_it_is(ordinary: Any, total: Any, parts: Any, centers: Any, divisor: Any) -> Any:
        return setting.root(total, divisor)
    return cond(everywhere(ordinary), as_it_is, functools.partial(_scaled, setting), ordinary, total, parts, centers,
                divisor)


def _scaled(setting: _Setting, ordinary: Any, total: Any, parts: tuple[Any, ...], centers: tuple[Any, ...],
            divisor: Any) -> Any:
    """The root where the sum of squares is ordinary, else that of elements times a power of two."""
    aval = typeof(total)
    shift = _SHIFT[aval.dtype]

    # The factors are chosen by a value: of constants XLA makes (x * x) * (c * c), which leaves the range again.
    is_large = gt(total, full_of(aval, 1))
    down, up = full_of(aval, 2.0 ** -shift), full_of(aval, 2.0 ** shift)
    found = setting.root(setting.squares(parts, centers, select(is_large, down, up)), divisor)
    return select(ordinary, setting.root(total, divisor), mul(found, select(is_large, up, down)))


@_root.defjvp
def _root_jvp(setting: _Setting, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
    """The tangent is ``sum(x * dx) / (root * divisor)``, written so that nothing on the way leaves the range."""
    parts, centers, divisor = primals
    root = _root(setting, parts, centers, divisor)
    flat = eq(root, zeros_of(typeof(root)))
    length = select(flat, full_of(typeof(root), 1), root) if setting.flat_at_zero else root
    length = setting.along(length, parts[0])
    along = [mul(div(x, length), dx) for x, dx in zip(_apart(parts, centers), _apart(*tangents[:2]), strict=True)]
    tangent = reduce_sum(functools.reduce(add, along), setting.axes)
    if setting.divisor is not None:
        divisor = full_of(typeof(root), setting.divisor)
    if divisor is not None:
        tangent = div(tangent, divisor)
    return root, select(flat, zeros_of(typeof(root)), tangent) if setting.flat_at_zero else tangent


def is_ordinary(total: Any, count: int) -> Any:
    """Whether sums of `count` powers that are not negative are right: none overflowed, few enough became 0."""
    aval = typeof(total)
    info = dtypes.finfo(aval.dtype)
    least = count * float(info.smallest_normal) / float(info.eps)
    return bitwise_and(ge(total, full_of(aval, least)), le(total, full_of(aval, info.max)))


def all_near_one(total: Any, bits: int) -> Any:
    """Whether all are between 2 ** -bits and 2 ** bits."""
    aval = typeof(total)
    return everywhere(bitwise_and(gt(total, full_of(aval, 2.0 ** -bits)), gt(full_of(aval, 2.0 ** bits), total)))


@custom_vmap
def everywhere(holds: Any) -> Any:
    """Whether all are true; under vmap, also over the mapped axis: a `cond` on it stays a choice of one branch."""
    return reduce_and(holds, tuple(range(typeof(holds).ndim)))


@everywhere.def_vmap
def _everywhere_mapped(size: int, batched: list[bool], holds: Any) -> tuple[Any, bool]:
    return everywhere(holds), False
