"""Sorting and selecting: sort (stable, of several operands by one or more keys) and top_k."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value, tensor_type
from xjax.core.primitive import Primitive
from xjax.core.symbolic.dims import is_above
from xjax.core.types import ShapedArray, Zero, typeof
from xjax.ops.arrange import batched_in_front, broadcasted_iota
from xjax.ops.checks import ANY, NOT_LINEAR, canonical_axis, check_kinds, static_int
from xjax.ops.cpu.sort import sort_by_words
from xjax.ops.cpu.top_k import top_k_by_blocks
from xjax.ops.gather import take_all_along, take_along
from xjax.ops.shape import after_batch, reshape
from xjax.ops.text import transpose_text
from xjax.typing import ArrayLike

_BOOL = np.dtype(bool)


# -- sort ---------------------------------------------------------------------------------------------------------

def sort(operand: ArrayLike | Sequence[ArrayLike], dimension: int = -1, is_stable: bool = True,
         num_keys: int = 1) -> Any:
    """Elements in ascending order along an axis; NaN is last, -0 and 0 are equal.

    For several arrays, -0 and 0 keep their order; in a single array of floats, -0 may be moved before 0.

    Args:
      operand: an array, or a sequence of arrays of one shape, which get the same permutation.
      dimension: the axis to sort along. is_stable: equal elements keep their order.
      num_keys: number of leading arrays that are compared (complex: real part, then imaginary).
    Returns: an array, or a tuple of arrays.
    """
    where, several = "lax.sort", isinstance(operand, (tuple, list))
    operands = list(operand) if several else [operand]
    if not operands:
        raise bad(where, "there is nothing to sort", fix="pass at least one array.")
    num_keys = static_int(num_keys, "num_keys", where)
    if not 1 <= num_keys <= len(operands):
        raise bad(where, f"`num_keys` {num_keys} does not fit {len(operands)} operands",
                  fix=f"pass a number from 1 to {len(operands)}.", exc=ValueError)
    dimension = canonical_axis(dimension, typeof(operands[0]).ndim, where, "dimension")
    outs = sort_p.bind(*operands, dimension=dimension, is_stable=bool(is_stable), num_keys=num_keys)
    return tuple(outs) if several else outs[0]


def sort_key_val(keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True) -> tuple[Any, Any]:
    """`keys` in ascending order along an axis, and `values` in the same permutation."""
    return sort((keys, values), dimension, is_stable)


def _sort_type(*avals, dimension, is_stable, num_keys):
    check_kinds("sort", ANY, *avals)
    if len({a.shape for a in avals}) > 1:
        raise bad("lax.sort", "the operands differ in shape",
                  given={f"operand {i}": a.str_short() for i, a in enumerate(avals)},
                  fix="make the shapes equal, for example with numpy.broadcast_arrays.")
    return avals


def _ordered(b: Builder, x: Value) -> list[Value]:
    """Scalars whose total order is the order of a key: the parts of a complex number, with one zero and one NaN."""
    dtype = x.aval.dtype
    if dtypes.is_complex(dtype):
        part = ShapedArray((), np.dtype(np.float32 if dtype == np.complex64 else np.float64))
        return [_ordered(b, b.op(f"stablehlo.{name} {x} : ({x.type}) -> {tensor_type(part)}", part))[0]
                for name in ("real", "imag")]
    if dtypes.is_float(dtype):
        zero, nan = b.constant(0, x.aval), b.constant(math.nan, x.aval)
        # XLA uses radix sort on GPUs only for exactly this comparison, with both tests on the element itself.
        one_zero = b.select(b.compare("EQ", x, zero), zero, x)
        return [b.select(b.compare("NE", x, x), nan, one_zero)]
    return [x]


def _before(b: Builder, xs: Sequence[Value], ys: Sequence[Value]) -> Value:
    """Lexicographic `<` of two rows of keys."""
    result: Value | None = None
    for x, y in zip(reversed(xs), reversed(ys), strict=True):
        less = b.compare("LT", x, y, "TOTALORDER" if dtypes.is_float(x.aval.dtype) else "")
        if result is None:
            result = less
        else:
            result = b.binary("stablehlo.or", less, b.binary("stablehlo.and", _equal_keys(b, x, y), result))
    assert result is not None           # there is at least one key
    return result


def _equal_keys(b: Builder, x: Value, y: Value) -> Value:
    """Equality in the total order, in which NaN equals NaN."""
    same = b.compare("EQ", x, y)
    if not dtypes.is_float(x.aval.dtype):
        return same
    both_nan = b.binary("stablehlo.and", b.compare("NE", x, x), b.compare("NE", y, y))
    return b.binary("stablehlo.or", same, both_nan)


def _sort_lower(b: Builder, outs: Sequence[ShapedArray], *xs: Value, dimension, is_stable, num_keys) -> list[Value]:
    def comparator(inner: Builder, *scalars: Value) -> list[Value]:
        left = [k for x in scalars[:2 * num_keys:2] for k in _ordered(inner, x)]
        right = [k for x in scalars[1:2 * num_keys:2] for k in _ordered(inner, x)]
        return [_before(inner, left, right)]

    scalars = [ShapedArray((), x.aval.dtype) for x in xs for _ in range(2)]
    text = f"dimension = {dimension} : i64, is_stable = {str(is_stable).lower()}"
    return b.generic("stablehlo.sort", xs, outs, text, [b.region(scalars, comparator)])


def _sort_jvp(primals, tangents, *, dimension, **params):
    """Sort the positions too, then read the tangents at them."""
    if all(type(t) is Zero for t in tangents):
        outs = sort_p.bind(*primals, dimension=dimension, **params)
        return outs, [Zero(o.aval.tangent()) for o in outs]
    shape = typeof(primals[0]).shape
    # int32 where possible, since XLA's radix sort on GPUs supports it as a second operand.
    positions = broadcasted_iota(np.uint32 if is_above(shape[dimension], 2**31 - 1) else np.int32, shape, dimension)
    *outs, order = sort_p.bind(*primals, positions, dimension=dimension, **params)
    moved = iter(take_all_along([t for t in tangents if type(t) is not Zero], order, dimension))
    return outs, [Zero(o.aval.tangent()) if type(t) is Zero else next(moved)
                  for t, o in zip(tangents, outs, strict=True)]


def _sort_batch(axis, args, bdims, *, dimension, **params):
    bdim = bdims[0]
    if bdim is None or any(b != bdim for b in bdims):
        args, bdim = batched_in_front(axis, args, bdims), 0
    (inner,) = after_batch(bdim, (dimension,))
    return sort_p.bind(*args, dimension=inner, **params), [bdim] * len(args)


sort_p = Primitive("sort", type_rule=_sort_type, lower=_sort_lower, lower_on={"cpu": sort_by_words},
                   multiple_results=True, jvp=_sort_jvp, transpose=NOT_LINEAR, batch=_sort_batch)


# -- top_k --------------------------------------------------------------------------------------------------------

def top_k(operand: ArrayLike, k: int, *, axis: int = -1, is_stable: bool = True) -> list[Any]:
    """The k largest elements along an axis in descending order, and their positions as int32: a list, as in JAX.

    NaN is the largest. Equal elements keep their order; with is_stable=False this is not guaranteed.
    """
    caller = "lax.top_k"
    axis = canonical_axis(axis, typeof(operand).ndim, caller)
    return list(top_k_p.bind(operand, k=static_int(k, "k", caller), axis=axis, is_stable=bool(is_stable)))


def _top_k_type(x, *, k, axis, is_stable=True):
    check_kinds("top_k", "bif", x)
    if not 0 <= k <= x.shape[axis]:
        raise bad("lax.top_k", f"`k` {k} is not in the range of axis {axis}, which has size {x.shape[axis]}",
                  given={"operand": x.str_short()}, fix=f"pass k from 0 to {x.shape[axis]}.", exc=ValueError)
    values = x.update(shape=(*x.shape[:axis], k, *x.shape[axis + 1:]))
    return values, values.update(dtype=np.dtype(np.int32))


def _top_k_lower(b: Builder, outs: Sequence[ShapedArray], x: Value, *, k, axis, is_stable=True) -> list[Value]:
    if not outs[0].size:
        return [b.constant(0, out) for out in outs]
    dtype, last = x.aval.dtype, x.aval.ndim - 1
    if dtypes.is_bool(dtype):
        x = b.convert(x, np.dtype(np.uint8))
    if dtypes.is_float(dtype):
        # XLA compares in the total order, in which a NaN with a sign bit (0 / 0 on x86) is the smallest value.
        x = b.select(b.compare("NE", x, x), b.constant(math.nan, x.aval.strong()), x)
    swap = list(range(x.aval.ndim))
    swap[axis], swap[last] = last, axis
    x = transpose_text(b, x, swap)
    types = [ShapedArray((*x.aval.shape[:-1], k), d) for d in (x.aval.dtype, np.dtype(np.int32))]
    values, indices = b.ops(f"chlo.top_k({x}, k = {k}) : {x.type} -> "
                            f"({tensor_type(types[0])}, {tensor_type(types[1])})", types)
    return [b.convert(transpose_text(b, values, swap), dtype), transpose_text(b, indices, swap)]


def _top_k_jvp(primals, tangents, *, axis, **params):
    values, indices = top_k_p.bind(*primals, axis=axis, **params)
    d_indices = Zero(indices.aval.tangent())
    if type(tangents[0]) is Zero:
        return [values, indices], [Zero(values.aval.tangent()), d_indices]
    vectors = reshape(indices, (*indices.aval.shape, 1))
    return [values, indices], [take_along(tangents[0], vectors, axis), d_indices]


def _top_k_batch(batch_axis, args, bdims, *, axis, **params):
    (x,), (bdim,) = args, bdims
    (inner,) = after_batch(bdim, (axis,))
    return top_k_p.bind(x, axis=inner, **params), [bdim, bdim]


top_k_p = Primitive("top_k", type_rule=_top_k_type, lower=_top_k_lower, lower_on={"cpu": top_k_by_blocks(top_k)},
                    multiple_results=True, jvp=_top_k_jvp, transpose=NOT_LINEAR, batch=_top_k_batch)
