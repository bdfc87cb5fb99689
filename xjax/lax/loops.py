"""Loops built on `scan` and `while_loop`: `fori_loop` and `map`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import api_boundary
from xjax.core.config import config
from xjax.core.errors import bad
from xjax.core.trace import known_value
from xjax.core.tree import tree_map, tree_unflatten
from xjax.core.types import typeof
from xjax.lax.control import LoopWords, check_callable, flat_arrays, takes
from xjax.lax.scan import bind_scan, number_of_rows
from xjax.lax.while_loop import bind_loop
from xjax.ops.arrange import concatenate
from xjax.ops.checks import static_int
from xjax.ops.compare import lt
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add
from xjax.ops.shape import reshape
from xjax.ops.slice import slice_in_dim
from xjax.runtime.arrays.moves import to_array
from xjax.transforms.trace_cache import wrapped
from xjax.transforms.vmap import vmap
from xjax.typing import Array, ArrayLike, DTypeLike, PyTree


@api_boundary
@takes(body_fun=("i", "val"))
def fori_loop(lower: ArrayLike, upper: ArrayLike, body_fun: Callable, init_val: PyTree, *,
              unroll: int | bool | None = None) -> PyTree:
    """``for i in range(lower, upper): val = body_fun(i, val)``, compiled as one loop.

    With bounds that are known while tracing the loop is a `scan`, which has a reverse-mode derivative; with other
    bounds it is a `while_loop`, which does not.

    Args:
      lower, upper: integers of one dtype (Python ints adapt), or floats of one dtype with integral values.
      body_fun: `body_fun(i, val) -> val`; the result has the structure, shapes and dtypes of `val`.
      unroll: as in `scan`; only with bounds known while tracing.

    Returns: the last `val`; `init_val` if ``upper <= lower``.
    Raises: TypeError for bounds that are not real scalars of one dtype, or if the body changes the type of the carry;
      ValueError for bounds known while tracing that are not integral.

    >>> int(fori_loop(1, 5, lambda i, product: i * product, 1))
    24
    """
    check_callable("fori_loop", "body_fun", body_fun)
    dtype = _check_bounds(lower, upper)
    flat_arrays("fori_loop", "init_val", init_val)
    first, last = _known_int("lower", lower), _known_int("upper", upper)
    if first is not None and last is not None:
        return _known_bounds(first, last, body_fun, init_val, unroll)
    if unroll not in (None, False, 1):
        raise bad("fori_loop", "`unroll` needs bounds that are known while tracing",
                  given={"lower": typeof(lower), "upper": typeof(upper)},
                  fix="pass Python ints as bounds, or leave `unroll` out.", exc=ValueError)
    lower, upper = (x if typeof(x).dtype == dtype else convert_element_type(x, dtype) for x in (lower, upper))
    leaves, tree, avals = flat_arrays("fori_loop", "val", (lower, upper, init_val))
    words = LoopWords("fori_loop", body_fun, carry=(1, 2, "val"), counters=("i", "upper"))
    return bind_loop(words, wrapped(body_fun, _with_index), _below_end, leaves, tree, avals)[2]


def _known_bounds(first: int, last: int, body_fun: Callable, init_val: PyTree, unroll: int | bool | None) -> PyTree:
    if config.disable_jit:
        for i in range(first, last):
            init_val = body_fun(to_array(i), init_val)      # an array, as in the compiled loop
        return init_val
    # As in JAX, the index starts as a Python int, whatever the dtype of the bounds.
    words = LoopWords("fori_loop", body_fun, carry=(1, 2, "val"), counters=("i",))
    (_, val), _ = bind_scan(words, wrapped(body_fun, _counting), (first, init_val), None, max(last - first, 0),
                            unroll=1 if unroll is None else unroll)
    return val


def _counting(body_fun: Callable) -> Callable:
    def body(carry: PyTree, _: None) -> tuple:
        i, val = carry
        return (add(i, 1), body_fun(i, val)), None
    return body


def _with_index(body_fun: Callable) -> Callable:
    def body(carry: PyTree) -> tuple:
        i, upper, val = carry
        return add(i, 1), upper, body_fun(i, val)
    return body


def _below_end(carry: tuple[Array, Array, PyTree]) -> Array:
    i, upper, _ = carry
    return lt(i, upper)


def _check_bounds(lower: ArrayLike, upper: ArrayLike) -> np.dtype:
    """The common dtype of the bounds."""
    given = {}
    for name, x in (("lower", lower), ("upper", upper)):
        aval = flat_arrays("fori_loop", name, x)[2]
        given[name] = aval[0] if len(aval) == 1 else type(x).__name__
        if len(aval) != 1 or aval[0].shape or not _is_bound(aval[0].dtype):
            raise bad("fori_loop", f"`{name}` must be an integer scalar", given={name: given[name]},
                      fix="pass an int, or a 0-d array of integers.")
    a, b = given["lower"], given["upper"]
    dtype = a.dtype if b.weak_type else b.dtype
    if a.dtype != b.dtype and not (dtypes.is_int(a.dtype) and dtypes.is_int(b.dtype) and (a.weak_type or b.weak_type)):
        raise bad("fori_loop", "the bounds differ in dtype", given=given,
                  fix="pass two ints, or convert one, for example with int(upper) or lower.astype(upper.dtype).")
    return dtype


def _is_bound(dtype: DTypeLike) -> bool:
    return dtypes.is_real(dtype) or dtypes.is_bool(dtype)


def _known_int(name: str, x: ArrayLike) -> int | None:
    """The value of a bound, or None if it is not known while tracing."""
    x = known_value(x)
    if x is None or type(x) is int:
        return x
    x = x.item() if hasattr(x, "item") else x
    if isinstance(x, float) and not x.is_integer():     # JAX rounds it towards zero
        raise bad("fori_loop", f"`{name}` is not integral", given={name: str(x)},
                  fix="round it, for example with int(x).", exc=ValueError)
    return int(x)


@api_boundary
@takes(f=("x",))
def map(f: Callable, xs: PyTree, *, batch_size: int | None = None) -> PyTree:
    """``stack([f(x) for x in xs])``: `f` is applied to one row at a time, so memory is used for one row only.

    Args:
      xs: tree of arrays [n, ...]; `f` gets the tree of rows.
      batch_size: number of rows that `vmap` computes together; the last batch may be smaller. 0: all rows.

    >>> map(lambda x: x * x, xjax.numpy.arange(3)).tolist()
    [0, 1, 4]
    """
    check_callable("map", "f", f)
    words = LoopWords("map", f, carry=(0, 1, "carry"), row=(0, 1, "x"))
    if batch_size is None:
        return bind_scan(words, wrapped(f, _without_carry), (), xs, None)[1]
    batch_size = static_int(batch_size, "batch_size", "map")
    if batch_size < 0:
        raise bad("map", "`batch_size` is negative", given={"batch_size": str(batch_size)},
                  fix="pass 1 or more, or 0 for all rows at once.", exc=ValueError)
    leaves, tree, avals = flat_arrays("map", "xs", xs)
    n = number_of_rows("map", xs, avals, None)
    if n > 0 and (n < batch_size or not batch_size):
        return vmap(f)(xs)
    batch_size = batch_size or 1
    whole = n - n % batch_size
    batches = tree_unflatten(tree, [reshape(slice_in_dim(x, 0, whole), (whole // batch_size, batch_size, *a.shape[1:]))
                                    for x, a in zip(leaves, avals, strict=True)])
    ys = bind_scan(words, wrapped(f, _batch_without_carry), (), batches, None)[1]
    ys = tree_map(lambda y: reshape(y, (whole, *typeof(y).shape[2:])), ys)
    if whole == n:
        return ys
    rest = vmap(f)(tree_unflatten(tree, [slice_in_dim(x, whole, n) for x in leaves]))
    return tree_map(lambda a, b: concatenate([a, b], 0), ys, rest)


def _without_carry(f: Callable) -> Callable:
    def body(carry: PyTree, x: PyTree) -> tuple:
        return carry, f(x)
    return body


def _batch_without_carry(f: Callable) -> Callable:
    return _without_carry(vmap(f))
