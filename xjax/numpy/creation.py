"""Functions that create arrays: from values, filled with one value, ranges, and matrices with a pattern."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol, overload

import numpy as np

from xjax.core import dtypes
from xjax.core.array_type import converted
from xjax.core.calls import constrained
from xjax.core.context import at_root, context
from xjax.core.errors import bad
from xjax.core.key_types import KeyType
from xjax.core.promotion import lattice_join, promote_types
from xjax.core.staging import StagingTrace
from xjax.core.symbolic.dims import Dim, is_symbolic_dim, max_dim
from xjax.core.trace import Tracer, static_value_error
from xjax.core.tree import tree_map
from xjax.core.types import ShapedArray, number_of, type_of_numbers
from xjax.numpy.promote import (
    array_like,
    as_dtype,
    aval_of,
    cast,
    check_ranks,
    expand_to,
    promote,
    to_dtype,
    to_inexact,
)
from xjax.ops.arrange import broadcasted_iota, concatenate, iota, stack
from xjax.ops.checks import static_int
from xjax.ops.compare import eq, ge
from xjax.ops.convert import convert_element_type, convert_element_type_p
from xjax.ops.elementwise import add, div, floor, mul, sub
from xjax.ops.identity import copy as copy_array
from xjax.ops.keys import filled_keys
from xjax.ops.piecewise import sign as lax_sign
from xjax.ops.pvary import vary_to
from xjax.ops.shape import broadcast_in_dim, expand_dims, reshape, transpose
from xjax.ops.transcendental import exp, log
from xjax.ops.transcendental import pow as lax_pow
from xjax.runtime.arrays.array import from_numpy
from xjax.runtime.arrays.fill import filled_at, placement_like
from xjax.runtime.arrays.moves import as_sharding, stacked_on_host, to_array
from xjax.runtime.device_put import put_one
from xjax.runtime.one_launch import one_launch
from xjax.runtime.placement.places import new_place
from xjax.runtime.placement.sharding import Sharding
from xjax.runtime.xla import Device
from xjax.typing import Array, ArrayLike, DTypeLike, ShapeLike

_NUMBERS = (bool, int, float, complex)
_NESTED = (list, tuple, range)


class SupportsShape(Protocol):
    """An object that describes an array: a `ShapeDtypeStruct`, or an array of another library."""

    @property
    def shape(self) -> Sequence[int]: ...

    @property
    def dtype(self) -> np.dtype: ...


# -- from values --------------------------------------------------------------------------------------------------

def array(object: ArrayLike | Sequence[Any], dtype: DTypeLike | None = None, copy: bool = True, order: str | None = "K",
          ndmin: int = 0, *, device: Device | Sharding | None = None, out_sharding: object = None) -> Array:
    """An array from a number, an array, or nested lists and tuples of these.

    Args:
      dtype: of the result; by default the promoted dtype of all values. A single Python number is weakly typed.
      copy: whether an array is copied (arrays never change, so this matters only for donation and aliasing).
      ndmin: minimum number of dimensions; axes of size 1 are prepended.
      device: a device or sharding; default: where the argument is, or the default device.
    Raises: ValueError for nested lists of unequal shapes; TypeError for values that are not numbers; OverflowError for
      an integer that does not fit the dtype.

    >>> array([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if out_sharding is not None:
        return constrained("numpy.array", array(object, dtype, copy, order, ndmin, device=device), out_sharding)
    caller = "numpy.array"
    if order not in (None, "K", "A", "C"):
        raise bad(caller, f"order {order!r} is not supported", fix="leave it out; use transpose for another order.",
                  exc=NotImplementedError)
    dtype = None if dtype is None else as_dtype(dtype, caller)
    if type(object) in _NUMBERS:
        out = _from_number(caller, object, dtype)
    elif isinstance(object, _NESTED) and not hasattr(object, "__array__"):
        out = _from_nested(caller, object, dtype)
    else:
        out = _from_array(caller, object, dtype, copy)
    if ndmin > out.ndim:
        out = expand_dims(out, range(ndmin - out.ndim))
    return out if device is None else put_one(out, as_sharding(caller, device))


def asarray(a: ArrayLike | Sequence[Any], dtype: DTypeLike | None = None, order: str | None = None, *,
            copy: bool | None = None, device: Device | Sharding | None = None, out_sharding: object = None) -> Array:
    """`array(a)`, but an array of the right dtype is returned itself.

    Raises: ValueError with ``copy=False`` if a copy is needed.
    """
    if out_sharding is not None:
        return constrained("numpy.asarray", asarray(a, dtype, order, copy=copy, device=device), out_sharding)
    if copy is False and not (isinstance(a, Array) and (dtype is None or a.dtype == as_dtype(dtype, "numpy.asarray"))):
        raise bad("numpy.asarray", "copy=False, but the value has to be copied to a device",
                  given={"a": repr(a)[:80]}, fix="pass copy=None.", exc=ValueError)
    return array(a, dtype, bool(copy), order, device=device)


def _is_staging() -> bool:
    return type(context.trace) is StagingTrace


def _from_number(caller: str, x: ArrayLike, dtype: np.dtype | None) -> Array:
    weak = dtype is None and type(x) is not bool
    target = dtypes.scalar_dtype(x, caller) if dtype is None else dtype
    if dtypes.is_int(target) and type(x) in (int, float):
        dtypes.check_int_range(_whole(caller, x), target, caller)
    value = cast(caller, x, target) if dtype is None else to_dtype(caller, x, target)
    if _is_staging():                   # a literal in the program instead of a captured constant
        return convert_element_type_p.bind(value, new_dtype=target, weak_type=weak)
    if dtype is None:
        return to_array(x, new_place())
    return from_numpy(np.asarray(value), new_place(), weak_type=weak, keep_dtype=True)


def _whole(caller: str, x: float) -> int:
    try:
        return int(x)
    except (OverflowError, ValueError):
        raise bad(caller, f"{x} is not an integer", fix="pass a float dtype, or a finite number.",
                  exc=ValueError if x != x else OverflowError) from None


def _from_array(caller: str, x: ArrayLike, dtype: np.dtype | None, copy: bool) -> Array:
    x = array_like(caller, x)
    if not isinstance(x, Array):
        if type(x) in _NUMBERS or isinstance(x, _NUMBERS):
            return _from_number(caller, x, dtype)
        target = dtypes.canonicalize_dtype(x.dtype) if dtype is None else dtype
        value = cast(caller, x, target) if dtype is None else to_dtype(caller, x, target)
        return from_numpy(np.asarray(value), new_place(), keep_dtype=True)
    out = x if dtype is None else convert_element_type(x, dtype)
    return copy_array(out) if copy and out is x else out             # pyright: ignore[reportReturnType]


def _put(x: Array, device: Device | Sharding | None) -> Array:
    return x if device is None else put_one(x, device)


def _from_nested(caller: str, values: Sequence[Any], dtype: np.dtype | None) -> Array:
    leaves = list(_leaves(values))
    if any(not isinstance(x, Array) and hasattr(x, "__jax_array__") for x in leaves):
        values = tree_map(converted, values, is_leaf=lambda x: not isinstance(x, _NESTED))
        leaves = list(_leaves(values))
    if not any(isinstance(x, Array) for x in leaves):
        return from_numpy(_host_nested(caller, values, leaves, dtype), new_place(), keep_dtype=dtype is not None)
    if len(leaves) == len(values) and (out := _stacked_on_host(leaves, dtype)) is not None:
        return out
    parts = [asarray(x) if not isinstance(x, _NESTED) else _from_nested(caller, x, dtype) for x in values]
    if len({p.shape for p in parts}) > 1:
        raise _ragged(caller, [p.shape for p in parts])
    if dtype is None:
        dtype = _common_dtype(parts)
    return stack([convert_element_type(p, dtype) for p in parts])


def _stacked_on_host(arrays: Sequence[Any], dtype: np.dtype | None) -> Array | None:
    first = arrays[0]
    same = isinstance(first, Array) and first.dtype == (_common_dtype([first]) if dtype is None else dtype)
    return stacked_on_host(arrays) if same else None


def _leaves(values: Iterable[Any]) -> Iterable[Any]:
    for x in values:
        if isinstance(x, _NESTED):
            yield from _leaves(x)
        else:
            yield x


def _host_nested(caller: str, values: Sequence[Any], leaves: Sequence[Any], dtype: np.dtype | None) -> np.ndarray:
    """Nested lists of numbers and NumPy values as a NumPy array, converted by one call."""
    leaves = [array_like(caller, x) for x in leaves]
    if dtype is None:
        dtype = _common_dtype(leaves) if leaves else dtypes.canonicalize_dtype(float)
    try:
        host = np.array(values)
    except ValueError as error:
        raise _ragged(caller, [_outline(x) for x in values]) from error
    if dtypes.is_int(dtype) and dtypes.is_int(host.dtype):
        dtypes.check_int_range(host, dtype, caller)
    if dtypes.is_complex(host.dtype) and any(type(x) is complex for x in leaves):
        to_dtype(caller, complex(host.flat[0]), dtype)           # raises for a real dtype
    return host.astype(dtype)


def _common_dtype(leaves: Sequence[Any]) -> np.dtype:
    kinds = {(a.dtype, a.weak_type) for a in (_type_of("numpy.array", x) for x in leaves)}
    return lattice_join(*kinds)[0]


def _type_of(caller: str, x: ArrayLike) -> ShapedArray:
    """`aval_of` that accepts Python integers of any size: their range is checked later."""
    return type_of_numbers(type(x)) if type(x) in _NUMBERS else aval_of(caller, x)


def _outline(x: object) -> tuple[int, ...]:
    return (len(x),) if isinstance(x, _NESTED) else np.shape(x)


def _ragged(caller: str, shapes: Sequence[tuple[int, ...]]) -> Exception:
    return bad(caller, "the nested values differ in shape",
               given={f"item {i}": str(tuple(s)) for i, s in enumerate(shapes[:8])},
               fix="make all items of one shape; pad shorter ones.", exc=ValueError)


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A copy of the array."""
    return array(a, order=order)


def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = False, device: Device | Sharding | None = None) -> Array:
    """`x` with elements of another dtype; None means the default float.

    Floats are truncated to integers; complex numbers lose their imaginary part, with a warning.
    """
    caller = "numpy.astype"
    x = asarray(x)
    dtype = as_dtype(float if dtype is None else dtype, caller)
    out = convert_element_type(x, dtype)
    out = copy_array(out) if copy and out is x else out
    return out if device is None else put_one(out, as_sharding(caller, device))


def frombuffer(buffer: bytes | bytearray | memoryview | np.ndarray, dtype: DTypeLike = float, count: int = -1,
               offset: int = 0) -> Array:
    """A vector from the bytes of a buffer."""
    value = np.frombuffer(buffer, as_dtype(dtype, "numpy.frombuffer"), count, offset)
    return from_numpy(value, new_place(), keep_dtype=True)


def fromfunction(function: Callable, shape: Sequence[int], *, dtype: DTypeLike = float, **kwargs: Any) -> Array:
    """``function(i, j, ...)``, called with the index grids of `shape`."""
    return function(*indices(shape, dtype), **kwargs)


# -- of one value -------------------------------------------------------------------------------------------------

def as_shape(shape: ShapeLike, caller: str) -> tuple[int, ...]:
    """Static shape from an int or a sequence of ints.

    Raises: TypeError for traced sizes, ValueError for negative ones.
    """
    if isinstance(shape, int):
        given = (shape,)
    elif isinstance(shape, (tuple, list)):
        given = shape
    else:
        given = tuple(shape) if np.ndim(shape) else (shape,)
    sizes = tuple([n if type(n) is int else static_int(n, "shape", caller) for n in given])
    if any(n < 0 for n in sizes):
        raise bad(caller, "sizes must not be negative", given={"shape": str(sizes)}, fix="pass sizes >= 0.",
                  exc=ValueError)
    return sizes


def _filled(caller: str, shape: ShapeLike, value: ArrayLike, dtype: np.dtype, device: Device | Sharding | None,
            weak: bool = False) -> Array:
    """Array filled with one value; `dtype` is already checked."""
    shape = as_shape(shape, caller)
    if type(dtype) is KeyType:
        return _put(filled_keys(shape, dtype, value), device)
    number = cast(caller, value, dtype, weak) if weak else to_dtype(caller, value, dtype)
    if device is not None and at_root():
        return filled_at(caller, number, ShapedArray(shape, dtype, weak), device)
    if shape:
        out = broadcast_in_dim(number, shape, ())
    else:
        out = array(number) if weak else _from_array(caller, number, dtype, False)
    return _put(out, device)


def zeros(shape: ShapeLike, dtype: DTypeLike | None = None, *, device: Device | Sharding | None = None,
          out_sharding: object = None) -> Array:
    """Array of zeros; the dtype is float by default."""
    if out_sharding is not None:
        return constrained("numpy.zeros", zeros(shape, dtype, device=device), out_sharding)
    return _filled("numpy.zeros", shape, 0, as_dtype(float if dtype is None else dtype, "numpy.zeros"), device)


def ones(shape: ShapeLike, dtype: DTypeLike | None = None, *, device: Device | Sharding | None = None,
         out_sharding: object = None) -> Array:
    """Array of ones; the dtype is float by default."""
    if out_sharding is not None:
        return constrained("numpy.ones", ones(shape, dtype, device=device), out_sharding)
    return _filled("numpy.ones", shape, 1, as_dtype(float if dtype is None else dtype, "numpy.ones"), device)


def empty(shape: ShapeLike, dtype: DTypeLike | None = None, *, device: Device | Sharding | None = None,
          out_sharding: object = None) -> Array:
    """Array of zeros, since arrays are always initialized; the dtype is float by default."""
    if out_sharding is not None:
        return constrained("numpy.empty", empty(shape, dtype, device=device), out_sharding)
    return _filled("numpy.empty", shape, 0, as_dtype(float if dtype is None else dtype, "numpy.empty"), device)


def full(shape: ShapeLike, fill_value: ArrayLike, dtype: DTypeLike | None = None, *,
         device: Device | Sharding | None = None, out_sharding: object = None) -> Array:
    """Array with every element `fill_value` (which broadcasts to `shape`); the dtype is that of the value."""
    if out_sharding is not None:
        return constrained("numpy.full", full(shape, fill_value, dtype, device=device), out_sharding)
    caller = "numpy.full"
    if dtype is not None and type(fill_value) is int:       # of any size
        return _filled(caller, shape, fill_value, as_dtype(dtype, caller), device)
    aval = aval_of(caller, fill_value)
    weak = dtype is None and aval.weak_type
    if aval.shape == () and not hasattr(fill_value, "aval"):
        filled_dtype = aval.dtype if dtype is None else as_dtype(dtype, caller)
        return _filled(caller, shape, fill_value, filled_dtype, device, weak)
    value = asarray(fill_value) if dtype is None else asarray(fill_value, dtype)
    out = expand_to(caller, value, as_shape(shape, caller))
    return _put(out, device)


def _like(name: str, value: int) -> Callable[..., Array]:
    def make(a: ArrayLike | SupportsShape, dtype: DTypeLike | None = None, shape: ShapeLike | None = None, *,
             device: Device | Sharding | None = None, out_sharding: object = None) -> Array:
        if out_sharding is not None:
            return constrained(f"numpy.{name}", make(a, dtype, shape, device=device), out_sharding)
        return _filled_like(f"numpy.{name}", a, value, dtype, shape, device)

    make.__name__ = make.__qualname__ = name
    made = "ones" if value else "zeros"
    make.__doc__ = f"Array of {made} with the shape, dtype and placement of `a`, unless others are given."
    return make


def _filled_like(caller: str, a: ArrayLike | SupportsShape, value: ArrayLike, dtype: DTypeLike | None,
                 shape: ShapeLike | None, device: Device | Sharding | None) -> Array:
    aval = _described(caller, a)
    shape = aval.shape if shape is None else shape
    weak = aval.weak_type and dtype is None
    device = placement_like(a, as_shape(shape, caller), weak) if device is None else device
    dtype = aval.dtype if dtype is None else as_dtype(dtype, caller)
    return vary_to(_filled(caller, shape, value, dtype, device, weak), aval.vma)


def _described(caller: str, a: ArrayLike | SupportsShape) -> ShapedArray:
    """Type of an array, or of another object with `shape` and `dtype`."""
    if hasattr(a, "shape") and hasattr(a, "dtype") and not isinstance(a, Array):
        return ShapedArray(tuple(a.shape), dtypes.canonicalize_dtype(a.dtype, allow_extended=True))
    return _type_of(caller, a)


zeros_like, ones_like = _like("zeros_like", 0), _like("ones_like", 1)


def empty_like(prototype: ArrayLike | SupportsShape, dtype: DTypeLike | None = None, shape: ShapeLike | None = None, *,
               device: Device | Sharding | None = None) -> Array:
    """Array of zeros with the shape, dtype and placement of `prototype`, unless others are given."""
    return _filled_like("numpy.empty_like", prototype, 0, dtype, shape, device)


def full_like(a: ArrayLike | SupportsShape, fill_value: ArrayLike, dtype: DTypeLike | None = None,
              shape: ShapeLike | None = None, *, device: Device | Sharding | None = None,
              out_sharding: object = None) -> Array:
    """Array with every element `fill_value`, with the shape, dtype and placement of `a`, unless others are given."""
    if out_sharding is not None:
        return constrained("numpy.full_like", full_like(a, fill_value, dtype, shape, device=device), out_sharding)
    caller = "numpy.full_like"
    if np.ndim(fill_value) == 0 and not hasattr(fill_value, "aval"):
        return _filled_like(caller, a, fill_value, dtype, shape, device)
    aval = _described(caller, a)
    shape = aval.shape if shape is None else as_shape(shape, caller)
    device = placement_like(a, shape, aval.weak_type and dtype is None) if device is None else device
    dtype = aval.dtype if dtype is None else as_dtype(dtype, caller)
    return _put(expand_to(caller, convert_element_type(asarray(fill_value), dtype), shape), device)


# -- ranges -------------------------------------------------------------------------------------------------------

def arange(start: ArrayLike, stop: ArrayLike | None = None, step: ArrayLike | None = None,
           dtype: DTypeLike | None = None, *, device: Device | Sharding | None = None,
           out_sharding: object = None) -> Array:
    """The numbers start, start + step, ... below `stop`; with one argument from 0.

    Args: start, stop, step: real numbers, static.
    Raises: ConcretizationTypeError for traced arguments, since the size depends on them; ValueError for step 0 and for
      arguments that are complex or have axes.

    >>> arange(3), arange(1, 2, 0.25).shape
    (Array([0, 1, 2], dtype=int32), (4,))
    """
    if out_sharding is not None:
        return constrained("numpy.arange", arange(start, stop, step, dtype, device=device), out_sharding)
    caller = "numpy.arange"
    first = None if stop is None or start is None else _host_number(caller, "start", start)
    end = _host_number(caller, "stop", start if stop is None else stop)
    by = None if step is None else _host_number(caller, "step", step)
    numbers = [v for v in (first, end, by) if v is not None]
    if any(isinstance(v, (complex, np.complexfloating)) for v in numbers):
        raise bad(caller, "complex numbers have no order", given={"start": first, "stop": end, "step": by},
                  fix="pass real numbers, with dtype=complex for a complex result.", exc=ValueError)
    if dtype is None:
        typical = [0 if is_symbolic_dim(v) else v for v in numbers]
        dtype = lattice_join(*[(a.dtype, a.weak_type) for a in (aval_of(caller, v) for v in typical)])[0]
    dtype = as_dtype(dtype, caller)
    first = 0 if first is None else first
    by = 1 if by is None else by
    if by == 0:
        raise bad(caller, "the step is 0", given={"start": first, "stop": end}, fix="pass a step that is not 0.",
                  exc=ValueError)
    size = _steps(first, end, by)
    if first == 0 and by == 1 and not dtypes.is_complex(dtype):
        out = iota(dtype, size)
    else:
        out = _range(caller, first, by, size, dtype)
    return _put(out, device)


def _steps(start: Any, stop: Any, step: Any) -> Any:
    """The number of elements of a range."""
    if not is_symbolic_dim(stop - start):
        return max(0, math.ceil((stop - start) / step))
    return max_dim(-((start - stop) // static_int(step, "step", "numpy.arange")), 0)


def _range(caller: str, start: float | np.generic, step: float | np.generic, size: int, dtype: np.dtype) -> Array:
    whole = (int, np.integer, Dim)
    if dtypes.is_int(dtype) and not (isinstance(start, whole) and isinstance(step, whole)):
        start, step = int(start), int(start + step) - int(start)        # as NumPy: the first two numbers are truncated
    steps = mul(cast(caller, step, dtype), iota(dtype, size)) if step != 1 else iota(dtype, size)
    return add(cast(caller, start, dtype), steps)


def _host_number(caller: str, name: str, x: ArrayLike) -> Any:
    """A Python or NumPy number from an argument that the result's shape depends on."""
    if isinstance(x, (*_NUMBERS, np.generic, Dim)):
        return x
    if isinstance(x, Tracer) and x.concrete() is None:
        raise static_value_error(caller, name, x)
    value = np.asarray(x.concrete() if isinstance(x, Tracer) else array_like(caller, x))
    if value.ndim:
        raise bad(caller, f"`{name}` must be a number", given={name: str(value.shape)}, fix="pass a number.",
                  exc=ValueError)
    return value[()]


@overload
def linspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, retstep: Literal[False] = False,
             dtype: DTypeLike | None = None, axis: int = 0, *, device: Device | Sharding | None = None) -> Array: ...
@overload
def linspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, *, retstep: Literal[True],
             dtype: DTypeLike | None = None, axis: int = 0,
             device: Device | Sharding | None = None) -> tuple[Array, Array]: ...
@overload
def linspace(start: ArrayLike, stop: ArrayLike, num: int, endpoint: bool, retstep: Literal[True],
             dtype: DTypeLike | None = None, axis: int = 0, *,
             device: Device | Sharding | None = None) -> tuple[Array, Array]: ...


@one_launch(arrays=2)
def linspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, retstep: bool = False,
             dtype: DTypeLike | None = None, axis: int = 0, *,
             device: Device | Sharding | None = None) -> Array | tuple[Array, Array]:
    """`num` numbers at equal distances from `start` to `stop` (which is excluded with ``endpoint=False``).

    Args: start, stop: number[...] that broadcast together; axis: position of the new axis of size `num`.
    Returns: float or complex, or `dtype`, rounded down for integers; with `retstep` also the distance.
    """
    caller = "numpy.linspace"
    num = static_int(num, "num", caller)
    if num < 0:
        raise bad(caller, "`num` must not be negative", given={"num": num}, fix="pass num >= 0.", exc=ValueError)
    start, stop = array_like(caller, start), array_like(caller, stop)
    common = lattice_join(*[(a.dtype, a.weak_type) for a in (aval_of(caller, start), aval_of(caller, stop))])[0]
    dtype = dtypes.to_inexact_dtype(common) if dtype is None else as_dtype(dtype, caller)
    computed = dtypes.to_inexact_dtype(dtype)
    start, stop = _together(caller, *(asarray(cast(caller, v, computed)) for v in (start, stop)))
    n_steps = num - 1 if endpoint else num
    out = _interpolate(start, stop, num, n_steps, endpoint)
    out = out if axis in (0, -out.ndim) else _move_first(out, axis)
    out = _to_grid_dtype(out, dtype)
    out = out if device is None else _put(out, device)
    if not retstep:
        return out
    step = div(sub(stop, start), computed.type(n_steps)) if n_steps > 0 else full_like(start, np.nan)
    return out, step


def _together(caller: str, start: Array, stop: Array) -> tuple[Array, Array]:
    check_ranks(caller, [start.shape, stop.shape])
    shape = np.broadcast_shapes(start.shape, stop.shape)
    return expand_to(caller, start, shape), expand_to(caller, stop, shape)


def _interpolate(start: Array, stop: Array, num: int, n_steps: int, endpoint: bool) -> Array:
    """start * (1 - t) + stop * t, with the last point exactly `stop`."""
    shape, dtype = start.shape, start.dtype
    if num < 2:
        return broadcast_in_dim(start, (num, *shape), range(1, len(shape) + 1))
    n = num - 1 if endpoint else num
    part = dtypes.finfo(dtype).dtype
    t = convert_element_type(div(iota(part, n), part.type(n_steps)), dtype)
    t = reshape(t, (n, *(1,) * len(shape)))
    first, last = (broadcast_in_dim(v, (1, *shape), range(1, len(shape) + 1)) for v in (start, stop))
    out = add(mul(first, sub(number_of(dtype, 1), t)), mul(last, t))
    return concatenate([out, last], 0) if endpoint else out


def _move_first(x: Array, axis: int) -> Array:
    order = list(range(1, x.ndim))
    order.insert(axis % x.ndim, 0)
    return transpose(x, order)


def _to_grid_dtype(x: Array, dtype: np.dtype) -> Array:
    if dtypes.is_int(dtype) and not dtypes.is_int(x.dtype):
        x = floor(x)
    return convert_element_type(x, dtype)


@one_launch(arrays=2)
def logspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, base: ArrayLike = 10.0,
             dtype: DTypeLike | None = None, axis: int = 0) -> Array:
    """``base ** linspace(start, stop, num)``."""
    caller = "numpy.logspace"
    exponents, base_dtype = linspace(start, stop, num, endpoint, axis=axis), aval_of(caller, base).dtype
    if dtypes.is_complex(base_dtype):
        exponents = cast(caller, exponents, promote_types(exponents.dtype, base_dtype))
    out = lax_pow(cast(caller, base, exponents.dtype), exponents)
    return out if dtype is None else astype(out, dtype)


@one_launch(arrays=2)
def geomspace(start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None,
              axis: int = 0) -> Array:
    """`num` numbers from `start` to `stop` with a constant ratio of neighbours."""
    caller = "numpy.geomspace"
    start, stop = promote(caller, start, stop, to=to_inexact)
    start, stop = _together(caller, asarray(start), asarray(stop))
    sign = lax_sign(start)
    exponents = linspace(log(div(start, sign)), log(div(stop, sign)), num, endpoint, axis=0)
    out = mul(exp(exponents), broadcast_in_dim(sign, (1, *sign.shape), range(1, sign.ndim + 1)))
    out = out if axis in (0, -out.ndim) else _move_first(out, axis)
    return out if dtype is None else astype(out, dtype)


# -- matrices with a pattern --------------------------------------------------------------------------------------

def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None, *,
        device: Device | Sharding | None = None) -> Array:
    """Matrix [N, M] with ones on the k-th diagonal (above the main one for k > 0) and zeros elsewhere."""
    caller = "numpy.eye"
    shape = as_shape((static_int(N, "N", caller), static_int(N if M is None else M, "M", caller)), caller)
    if isinstance(k, float):
        raise bad(caller, "`k` must be an integer", given={"k": k}, fix="pass int(k).", exc=ValueError)
    out = convert_element_type(_on_diagonal(shape, k), as_dtype(float if dtype is None else dtype, caller))
    return _put(out, device)


def _on_diagonal(shape: tuple[int, int], k: ArrayLike) -> Array:
    rows, columns = broadcasted_iota(np.int32, shape, 0), broadcasted_iota(np.int32, shape, 1)
    return eq(add(rows, near_diagonal(shape, k)), columns)


def near_diagonal(shape: Sequence[int], k: ArrayLike) -> ArrayLike:
    """A static diagonal offset, limited to just outside of the matrix: larger offsets may not fit int32."""
    if not isinstance(k, (int, np.integer)):
        return k
    rows, columns = shape
    return min(max(int(k), -rows), columns)


def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """Matrix [n, n] with ones on the diagonal."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Matrix [N, M] with ones on and below the k-th diagonal."""
    shape = as_shape((N, N if M is None else M), "numpy.tri")
    dtype = as_dtype(float if dtype is None else dtype, "numpy.tri")
    return convert_element_type(below_diagonal(shape, k), dtype)


def below_diagonal(shape: Sequence[int], k: int) -> Array:
    """bool[rows, columns]: on or below the k-th diagonal."""
    rows, columns = broadcasted_iota(np.int32, shape, 0), broadcasted_iota(np.int32, shape, 1)
    return ge(add(rows, near_diagonal(shape, k)), columns)


@overload
def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, sparse: Literal[False] = False) -> Array: ...
@overload
def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None, *,
            sparse: Literal[True]) -> tuple[Array, ...]: ...


def indices(dimensions: Sequence[int], dtype: DTypeLike | None = None,
            sparse: bool = False) -> Array | tuple[Array, ...]:
    """Index grids: result[i] holds the index along axis i; with `sparse` a tuple of arrays that broadcast together."""
    caller = "numpy.indices"
    shape = as_shape(dimensions, caller)
    dtype = as_dtype(int if dtype is None else dtype, caller)
    if sparse:
        return tuple(reshape(iota(dtype, n), [n if i == d else 1 for i in range(len(shape))])
                     for d, n in enumerate(shape))
    if not shape:
        return zeros((0,), dtype)
    return stack([broadcasted_iota(dtype, shape, d) for d in range(len(shape))])


def meshgrid(*xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinate grids from vectors: for x of size n and y of size m arrays [m, n] ("xy") or [n, m] ("ij").

    Raises: ValueError for another `indexing`, for arguments of rank above 1, and for ``copy=False``.
    """
    caller = "numpy.meshgrid"
    if indexing not in ("xy", "ij"):
        raise bad(caller, f"`indexing` is {indexing!r}", fix="pass 'xy' or 'ij'.", exc=ValueError)
    if not copy:
        raise bad(caller, "copy=False is not supported: grids are new arrays", fix="leave it out.", exc=ValueError)
    vectors = [asarray(array_like(caller, x)) for x in xi]
    if any(v.ndim > 1 for v in vectors):
        raise bad(caller, "the arguments must be vectors",
                  given={f"argument {i}": v.aval for i, v in enumerate(vectors)},
                  fix="flatten them with x.ravel().", exc=ValueError)
    vectors = [reshape(v, (1,)) if not v.ndim else v for v in vectors]
    position = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        position[:2] = 1, 0
    shape = [0] * len(vectors)
    for d, v in zip(position, vectors, strict=True):
        shape[d] = v.shape[0]
    if sparse:
        return tuple(reshape(v, [n if i == d else 1 for i, n in enumerate(shape)])
                     for d, v in zip(position, vectors, strict=True))
    return tuple(broadcast_in_dim(v, shape, (d,)) for d, v in zip(position, vectors, strict=True))
