"""`ufunc`: an element-wise function with NumPy's methods `reduce`, `accumulate`, `at`, `outer` and `reduceat`.

`frompyfunc` makes one. The functions `add`, `maximum`, ... stay plain functions, which are cheap to call; they get the
methods as attributes here, and `isinstance(add, ufunc)` is true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.core.types import ShapedArray, typeof
from xjax.lax.scan import scan
from xjax.numpy import composed, reductions, rounding, ufuncs
from xjax.numpy.at import at as at_index
from xjax.numpy.creation import arange, full
from xjax.numpy.indexing import getitem
from xjax.numpy.manipulate import expand_dims, moveaxis, ravel, reshape
from xjax.numpy.promote import as_dtype, broadcast_to, default_int
from xjax.numpy.selection import choose, operand, refuse_out
from xjax.numpy.ufuncs import to_array_like
from xjax.numpy.vectorize import vectorize
from xjax.ops.bitwise import bitwise_and
from xjax.ops.checks import canonical_axis
from xjax.ops.compare import eq, gt, lt, select
from xjax.ops.convert import convert_element_type
from xjax.ops.slice import index_in_dim, slice_in_dim
from xjax.runtime.stages import eval_shape
from xjax.typing import Array, ArrayLike, DTypeLike


class _Kind(type):
    """`isinstance(f, ufunc)` also for functions that have a ufunc's methods."""

    def __instancecheck__(cls, instance: Callable[..., Any]) -> bool:
        return type.__instancecheck__(cls, instance) or type.__instancecheck__(cls, getattr(instance, "_ufunc", None))


class ufunc(metaclass=_Kind):
    """An element-wise function of `nin` arguments and `nout` results; see `frompyfunc`.

    Args:
      func: of single elements; nargs: number of arguments (default: nin); identity: of an operation of two.
      call: the function of whole arrays (default: `func` vectorized).
      reduce, accumulate, at, reduceat: replace the methods of this class, with the same arguments.
    """

    def __init__(self, func: Callable[..., Any], /, nin: int, nout: int, *, name: str | None = None,
                 nargs: int | None = None, identity: float | None = None, call: Callable[..., Any] | None = None,
                 reduce: Callable[..., Any] | None = None, accumulate: Callable[..., Any] | None = None,
                 at: Callable[..., Any] | None = None, reduceat: Callable[..., Any] | None = None):
        if not callable(func):
            raise bad("numpy.ufunc", "`func` is not callable", given={"func": repr(func)[:80]}, fix="pass a function.")
        self.nin, self.nout, self.nargs, self.identity = nin, nout, nargs or nin, identity
        self.__name__ = name or getattr(func, "__name__", type(func).__name__)
        self.__doc__ = getattr(func, "__doc__", None)
        self._call = vectorize(func) if call is None else call
        for method, own in (("reduce", reduce), ("accumulate", accumulate), ("at", at), ("reduceat", reduceat)):
            if own is not None:
                setattr(self, method, own)

    def __repr__(self) -> str:
        return f"<xjax.numpy.ufunc {self.__name__!r}>"

    def __call__(self, *args: ArrayLike, out: None = None, where: None = None) -> Any:
        """The function applied to arrays that broadcast together."""
        name = self._caller("")
        refuse_out(name, out)
        if where is not None:
            raise bad(name, "`where` is not supported", fix="use numpy.where on the result.", exc=NotImplementedError)
        if len(args) != self.nin:
            raise bad(name, f"takes {self.nin} arguments, got {len(args)}", fix=f"pass {self.nin} arrays.")
        return self._call(*args)

    def _caller(self, method: str) -> str:
        return f"numpy.ufunc {self.__name__}" + (f".{method}" if method else "")

    def _check_binary(self, method: str, out: object = None) -> str:
        caller = self._caller(method)
        refuse_out(caller, out)
        if (self.nin, self.nout) != (2, 1):
            raise bad(caller, f"the function has {self.nin} arguments and {self.nout} results",
                      fix="use a function with 2 arguments and 1 result.", exc=ValueError)
        return caller

    def _elements(self, caller: str, a: ArrayLike, axis: int, dtype: DTypeLike | None) -> tuple[Array, int]:
        """(`a` with `axis` in front, in the dtype of the function's results; `axis`)."""
        a = operand(caller, a)
        axis = canonical_axis(axis, a.ndim, caller)
        if dtype is None:
            one = ShapedArray((), a.dtype)
            dtype = eval_shape(self._call, one, one).dtype
        return moveaxis(convert_element_type(a, as_dtype(dtype, caller)), axis, 0), axis

    def reduce(self, a: ArrayLike, axis: int | tuple[int, ...] | None = 0, dtype: DTypeLike | None = None,
               out: None = None, keepdims: bool = False, initial: ArrayLike | None = None,
               where: ArrayLike | None = None) -> Array:
        """``f(...f(f(a[0], a[1]), a[2])...)`` along an axis, a tuple of axes, or all (None).

        Args: initial: comes before the first element; where: bool, elements to include (needs an initial value).
        Raises: ValueError if there are no elements, or a mask, and neither `initial` nor an identity.

        >>> xjax.numpy.frompyfunc(lambda x, y: 2 * x + y, 2, 1).reduce(np.array([1, 0, 1]))
        Array(5, dtype=int32)
        """
        name = self._check_binary("reduce", out)
        a = operand(name, a)
        axes = range(a.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(canonical_axis(d, a.ndim, name) for d in axes)
        mask = None if where is None else _flattened(broadcast_to(where, a.shape), axes)
        x, _ = self._elements(name, _flattened(a, axes), 0, dtype)
        start = self.identity if initial is None else initial
        if start is None and (mask is not None or not x.shape[0]):
            raise bad(name, "there is no first value to start from", given={"a": typeof(a)},
                      fix="pass initial=... for masks and empty axes.", exc=ValueError)
        if start is None:
            carry, x = index_in_dim(x, 0, 0, keepdims=False), slice_in_dim(x, 1, x.shape[0])
        else:
            carry = full(x.shape[1:], start, x.dtype)
        if mask is None:
            result = scan(lambda c, y: (self._same(c, y), None), carry, x)[0]
        else:
            result = scan(lambda c, ym: (choose(ym[1], self._same(c, ym[0]), c), None), carry, (x, mask))[0]
        return expand_dims(result, axes) if keepdims else result

    def _same(self, x: Array, y: Array) -> Array:
        """The function's result in the dtype of `x`, which a carried value must keep."""
        return convert_element_type(self._call(x, y), x.dtype)

    def accumulate(self, a: ArrayLike, axis: int = 0, dtype: DTypeLike | None = None, out: None = None) -> Array:
        """All intermediate results of `reduce` along an axis: an array of the shape of `a`."""
        x, axis = self._elements(self._check_binary("accumulate", out), a, axis, dtype)
        if not x.shape[0]:
            return moveaxis(x, 0, axis)
        flag = arange(x.shape[0])

        def step(carry: Array, item: tuple[Any, Any]) -> tuple[Any, Any]:
            i, y = item
            carry = choose(eq(i, 0), y, self._same(carry, y))
            return carry, carry

        return moveaxis(scan(step, index_in_dim(x, 0, 0, keepdims=False), (flag, x))[1], 0, axis)

    def at(self, a: ArrayLike, indices: object, b: ArrayLike | None = None, /, *, inplace: bool = True) -> Array:
        """`a` with the function applied at `indices`, once for each occurrence of a position.

        Args: b: second argument, which broadcasts to ``a[indices]``; inplace: must be False: arrays never change.
        """
        caller = self._caller("at")
        if inplace:
            raise bad(caller, "cannot work in place: arrays never change", exc=NotImplementedError,
                      fix="pass inplace=False and use the value that the function returns.")
        a = to_array_like(caller, a)
        places = getitem(reshape(arange(a.size), a.shape), indices)
        more = () if b is None else (ravel(broadcast_to(operand(caller, b), places.shape)),)

        def step(flat: Array, item: tuple[Any, ...]) -> tuple[Any, None]:
            i, *values = item
            new = self._call(getitem(flat, i), *values)
            return at_index(flat)[i].set(convert_element_type(new, flat.dtype)), None

        return reshape(scan(step, ravel(a), (ravel(places), *more))[0], a.shape)

    def outer(self, A: ArrayLike, B: ArrayLike, /) -> Array:
        """``f(A[i, ..., None, ...], B[j, ...])``: the function applied to every pair of elements."""
        caller = self._check_binary("outer")
        A, B = operand(caller, A), operand(caller, B)
        if A.ndim and B.ndim:
            A, B = expand_dims(A, range(A.ndim, A.ndim + B.ndim)), expand_dims(B, range(A.ndim))
        return self._call(A, B)

    def reduceat(self, a: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: DTypeLike | None = None,
                 out: None = None) -> Array:
        """`reduce` of slices along an axis: result k is that of ``a[indices[k]:indices[k + 1]]``.

        The last slice extends to the end; where the next index is not larger, the result is ``a[indices[k]]``.
        """
        caller = self._check_binary("reduceat", out)
        x, axis = self._elements(caller, a, axis, dtype)
        starts = convert_element_type(operand(caller, indices), default_int())
        n, count = x.shape[0], starts.shape[0]
        if starts.ndim != 1 or not count:
            raise bad(caller, "`indices` must be a vector, not empty", given={"indices": starts.aval},
                      fix="pass the first position of each slice.", exc=ValueError)
        stops = at_index(full(count, n))[:-1].set(slice_in_dim(starts, 1, count))
        start, stop = (reshape(v, (count, *(1,) * (x.ndim - 1))) for v in (starts, stops))

        def step(carry: Array, item: tuple[Any, Any]) -> tuple[Any, None]:
            i, y = item
            y = broadcast_to(y, carry.shape)
            inside = broadcast_to(bitwise_and(lt(start, _like(i, start)), gt(stop, _like(i, stop))), carry.shape)
            first = broadcast_to(eq(start, _like(i, start)), carry.shape)
            return select(first, y, select(inside, self._same(carry, y), carry)), None

        begin = full((count, *x.shape[1:]), 0, x.dtype)
        return moveaxis(scan(step, begin, (arange(n), x))[0], 0, axis)


def _like(i: Array, like: Array) -> Array:
    return broadcast_to(convert_element_type(i, like.dtype), like.shape)


def _flattened(a: ArrayLike, axes: tuple[int, ...]) -> Array:
    """`a` with some axes merged into one in front."""
    a = moveaxis(a, axes, range(len(axes)))
    return reshape(a, (int(np.prod(a.shape[:len(axes)], dtype=int)), *a.shape[len(axes):]))


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: float | None = None) -> ufunc:
    """A `ufunc` from a function of `nin` single elements with `nout` results.

    >>> f = frompyfunc(lambda x, y: x * x + y, 2, 1)
    >>> f.outer(np.arange(3), np.arange(2))
    Array([[0, 1],
           [1, 2],
           [4, 5]], dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity)


# -- the methods of the library's own functions --------------------------------------------------------------------

def _by(total: Callable, takes_dtype: bool) -> Callable:
    """`ufunc.reduce` by a function of whole arrays."""
    def reduce(a: ArrayLike, axis: int | tuple[int, ...] | None = 0, dtype: DTypeLike | None = None, out: None = None,
               keepdims: bool = False, initial: ArrayLike | None = None, where: Array | None = None) -> Array:
        more = {"dtype": dtype} if takes_dtype else {}
        more |= {} if initial is None else {"initial": initial}
        return total(a, axis, out=out, keepdims=keepdims, where=where, **more)
    return reduce


def _attach(function: Callable, identity: float | None = None, nin: int = 2, **methods: Callable) -> None:
    made = ufunc(function, nin, 1, identity=identity, call=function, **methods)
    function._ufunc = made
    for name in ("nin", "nout", "nargs", "identity", "reduce", "accumulate", "at", "outer", "reduceat"):
        setattr(function, name, getattr(made, name))


_attach(ufuncs.add, 0, reduce=_by(reductions.sum, True), accumulate=reductions.cumsum)
_attach(ufuncs.multiply, 1, reduce=_by(reductions.prod, True), accumulate=reductions.cumprod)
_attach(ufuncs.maximum, reduce=_by(reductions.max, False))
_attach(ufuncs.minimum, reduce=_by(reductions.min, False))
_attach(rounding.logical_and, True, reduce=_by(reductions.all, False))
_attach(rounding.logical_or, False, reduce=_by(reductions.any, False))
_attach(rounding.logical_xor, False)
_attach(ufuncs.bitwise_and, -1)
_attach(ufuncs.bitwise_or, 0)
_attach(ufuncs.bitwise_xor, 0)
_attach(ufuncs.subtract)
_attach(ufuncs.negative, nin=1)
_attach(composed.logaddexp, -np.inf)
_attach(composed.logaddexp2, -np.inf)

__all__ = ["frompyfunc", "ufunc"]
