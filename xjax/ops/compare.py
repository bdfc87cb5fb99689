"""Comparisons and selection: eq, ne, lt, le, gt, ge, select_n, clamp."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray, Zero, is_linear, typeof
from xjax.ops.arrange import batched_in_front
from xjax.ops.bitwise import bitwise_and
from xjax.ops.checks import ANY, BITS, BOOL, KEY, NOT_LINEAR, REAL, check_kinds, check_same_dtype
from xjax.ops.makers import (
    accumulate,
    binary_function,
    comparison,
    expand,
    fill,
    filled_like,
    match_scalars,
    scalar_like,
)
from xjax.ops.shape import broadcast_in_dim
from xjax.ops.zeros import instantiate
from xjax.typing import Array, ArrayLike

# -- comparisons --------------------------------------------------------------------------------------------------

def _compare(direction: str) -> Callable:
    def lower(b: Builder, out: ShapedArray, x: Value, y: Value) -> Value:
        return b.compare(direction, x, y)
    return lower


eq_p = comparison("eq", ANY + KEY, _compare("EQ"))
eq = binary_function(eq_p, "``x == y``, element-wise; nan equals nothing.")
ne_p = comparison("ne", ANY + KEY, _compare("NE"))
ne = binary_function(ne_p, "``x != y``, element-wise; true where either is nan.")
lt_p = comparison("lt", BOOL + REAL, _compare("LT"))
lt = binary_function(lt_p, "``x < y``, element-wise; false where either is nan.")
le_p = comparison("le", BOOL + REAL, _compare("LE"))
le = binary_function(le_p, "``x <= y``, element-wise; false where either is nan.")
gt_p = comparison("gt", BOOL + REAL, _compare("GT"))
gt = binary_function(gt_p, "``x > y``, element-wise; false where either is nan.")
ge_p = comparison("ge", BOOL + REAL, _compare("GE"))
ge = binary_function(ge_p, "``x >= y``, element-wise; false where either is nan.")


def comes_before(b: Builder, x: Value, best: Value, maximum: bool) -> Value:
    """Lowered: whether `x` replaces the best value so far in the search for an extremum; NaN precedes all numbers."""
    ahead = b.compare("GT" if maximum else "LT", x, best)
    if not dtypes.is_float(x.aval.dtype):
        return ahead
    is_nan, was_number = b.compare("NE", x, x), b.compare("EQ", best, best)
    return b.binary("stablehlo.or", ahead, b.binary("stablehlo.and", is_nan, was_number))


def greater_complex(b: Builder, x: Value, y: Value) -> Value:
    """Lowered ``x > y`` of complex numbers in NumPy's order: by the real part, then by the imaginary part."""
    part = ShapedArray(x.aval.shape, dtypes.finfo(x.aval.dtype).dtype)

    def parts(name: str) -> list[Value]:
        return [b.op(f"stablehlo.{name} {v} : ({v.type}) -> {Value('', part).type}", part) for v in (x, y)]

    (x_re, y_re), (x_im, y_im) = parts("real"), parts("imag")
    return b.select(b.compare("EQ", x_re, y_re), b.compare("GT", x_im, y_im), b.compare("GT", x_re, y_re))


# -- select_n -----------------------------------------------------------------------------------------------------

def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Select each element from one of `cases`: ``out[i] = cases[which[i]][i]``.

    Args:
      which: bool (two cases: false selects the first) or integer, 0-d or of the cases' shape. Integers out of range
        select the first or the last case.
      cases: arrays of one shape and dtype.
    Raises: TypeError if shapes or dtypes differ, or if a bool has more than two cases; ValueError without cases.
    """
    if not cases:
        raise bad("lax.select_n", "needs at least one case to choose from", fix="pass arrays after `which`.",
                  exc=ValueError)
    return select_n_p.bind(which, *match_scalars(*cases))


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """`on_true` where `pred` is true, else `on_false`; `pred`: bool, 0-d or of their shape."""
    return select_n(pred, on_false, on_true)


def _select_type(which, *cases):
    check_kinds("select_n", BITS, which)
    check_kinds("select_n", ANY + KEY, *cases)
    check_same_dtype("select_n", *cases)
    given = {"which": which.str_short(), **{f"case {i}": c.str_short() for i, c in enumerate(cases)}}
    shape, dtype = cases[0].shape, cases[0].dtype
    if any(c.shape != shape for c in cases):
        raise bad("lax.select_n", "the cases differ in shape", given=given,
                  fix="broadcast them to one shape, or use xjax.numpy.where.")
    if which.shape not in ((), shape):
        raise bad("lax.select_n", "`which` has neither the cases' shape nor rank 0", given=given,
                  fix="broadcast it with lax.broadcast_in_dim, or use xjax.numpy.where.")
    if dtypes.is_bool(which.dtype) and len(cases) > 2:
        raise bad("lax.select_n", f"a bool cannot choose among {len(cases)} cases", given=given,
                  fix="pass an int32 `which`.")
    return ShapedArray(shape, dtype, all(c.weak_type for c in cases))


def _select_lower(b: Builder, out: ShapedArray, which: Value, *cases: Value) -> Value:
    if dtypes.is_bool(which.aval.dtype):
        return cases[0] if len(cases) == 1 else b.select(which, cases[1], cases[0])

    def pick(low: int, high: int) -> Value:             # select from cases low ... high - 1, by bisection
        if high - low == 1:
            return cases[low]
        middle = (low + high) // 2
        below = b.compare("LT", which, b.constant(middle, which.aval.strong()))
        return b.select(below, pick(low, middle), pick(middle, high))
    return pick(0, len(cases))


def _select_jvp(primals, tangents):
    which, *cases = primals
    out = select_n_p.bind(which, *cases)
    if all(type(t) is Zero for t in tangents[1:]):
        return out, Zero(out.aval.tangent())
    return out, select_n_p.bind(which, *map(instantiate, tangents[1:]))


def _select_transpose(ct, which, *cases):
    zeros = filled_like(ct, 0)
    if dtypes.is_bool(typeof(which).dtype) and len(cases) == 2:
        shares = [lambda: select_n(which, ct, zeros), lambda: select_n(which, zeros, ct)]
        return [None, *(share() if is_linear(c) else None for share, c in zip(shares, cases, strict=True))]
    return [None, *(_chosen(which, i, len(cases), ct, zeros) if is_linear(c) else None for i, c in enumerate(cases))]


def _chosen(which, i: int, n: int, ct, zeros):
    """The cotangent where case i was selected. The first and last case also get integers out of range."""
    if n == 1:
        return ct
    test = le if i == 0 else ge if i == n - 1 else eq
    return select_n(test(which, scalar_like(which, i)), zeros, ct)


def _select_batch(axis, args, bdims):
    which, *cases = args
    if bdims[0] is None and not typeof(which).shape:
        if len(set(bdims[1:])) == 1:
            return select_n_p.bind(*args), bdims[1]
        return select_n_p.bind(which, *batched_in_front(axis, cases, bdims[1:])), 0
    if len(set(bdims)) == 1 and typeof(which).ndim == typeof(cases[0]).ndim:
        return select_n_p.bind(*args), bdims[0]
    *cases, which = batched_in_front(axis, [*cases, which], [*bdims[1:], bdims[0]])
    if typeof(which).ndim < typeof(cases[0]).ndim:
        which = broadcast_in_dim(which, typeof(cases[0]).shape, (0,))
    return select_n_p.bind(which, *cases), 0


select_n_p = Primitive("select_n", type_rule=_select_type, lower=_select_lower, jvp=_select_jvp,
                       transpose=_select_transpose, batch=_select_batch, fusible=True)


# -- clamp --------------------------------------------------------------------------------------------------------

def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """`x` limited to the interval from `min` to `max`; where min > max, the result is `max`. nan stays nan.

    Args: min, max: 0-d or of the shape of x, and of its dtype.
    The gradient goes to x strictly inside the interval, and outside to the limit that applies.
    """
    return clamp_p.bind(*match_scalars(min, x, max))


def _clamp_type(low, x, high):
    check_kinds("clamp", ANY, low, x, high)
    check_same_dtype("clamp", low, x, high)
    if low.shape not in ((), x.shape) or high.shape not in ((), x.shape):
        raise bad("lax.clamp", "the limits must be 0-d or have the shape of x",
                  given={"min": low.str_short(), "x": x.str_short(), "max": high.str_short()},
                  fix="broadcast them with lax.broadcast_in_dim, or use xjax.numpy.clip.")
    return ShapedArray(x.shape, x.dtype, low.weak_type and x.weak_type and high.weak_type)


def _clamp_lower(b: Builder, out: ShapedArray, low: Value, x: Value, high: Value) -> Value:
    low, high = expand(b, low, out.shape), expand(b, high, out.shape)
    if not dtypes.is_complex(out.dtype):
        return b.op(f"stablehlo.clamp {low}, {x}, {high} : {x.type}", out)
    x = b.select(greater_complex(b, low, x), low, x)
    return b.select(greater_complex(b, x, high), high, x)


def _clamp_jvp(primals, tangents):
    low, x, high = primals
    out = clamp_p.bind(low, x, high)
    applies = (lambda: bitwise_and(gt(low, x), lt(low, high)), lambda: bitwise_and(gt(x, low), lt(x, high)),
               lambda: lt(high, x))
    shares = [select(fill(test(), out.aval), fill(tangent, out.aval), filled_like(out, 0))
              for tangent, test in zip(tangents, applies, strict=True) if type(tangent) is not Zero]
    return out, functools.reduce(accumulate, shares, Zero(out.aval.tangent()))


def _clamp_batch(axis, args, bdims):
    low, x, high = args
    if bdims[0] is None and bdims[2] is None and not typeof(low).shape and not typeof(high).shape:
        return clamp_p.bind(*args), bdims[1]
    if len(set(bdims)) == 1 and typeof(low).ndim == typeof(x).ndim == typeof(high).ndim:
        return clamp_p.bind(*args), bdims[0]
    x, = batched_in_front(axis, [x], [bdims[1]])
    low, high = (_limit(axis, v, bdim, typeof(x).shape) for v, bdim in ((low, bdims[0]), (high, bdims[2])))
    return clamp_p.bind(low, x, high), 0


def _limit(axis: Any, limit: Any, bdim: int | None, shape: Sequence[int]) -> Any:
    """A limit with a leading batch axis, repeated to the new shape of x."""
    if bdim is None and not typeof(limit).shape:
        return broadcast_in_dim(limit, shape, ())
    limit, = batched_in_front(axis, [limit], [bdim])
    return broadcast_in_dim(limit, shape, range(typeof(limit).ndim))


clamp_p = Primitive("clamp", type_rule=_clamp_type, lower=_clamp_lower, jvp=_clamp_jvp, transpose=NOT_LINEAR,
                    batch=_clamp_batch, fusible=True)
