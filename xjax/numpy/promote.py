"""The first step of every NumPy function: it checks its arguments and converts them to one dtype and one rank.

Python numbers are never put on a device here: they become literals of the result's dtype, so that programs read
`mul a 2.0:f32[]`. NumPy arrays are converted on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar, overload

import numpy as np

from xjax.core import dtypes
from xjax.core.array_type import converted
from xjax.core.calls import constrained
from xjax.core.config import config, numpy_dtype_promotion, numpy_rank_promotion
from xjax.core.errors import TypePromotionError, bad, warn
from xjax.core.promotion import lattice_join
from xjax.core.types import ShapedArray, how_to_convert, type_name, type_of_numbers, typeof
from xjax.ops.checks import is_single, static_int
from xjax.ops.convert import convert_element_type, convert_number
from xjax.ops.shape import broadcast_in_dim
from xjax.runtime.arrays.array import from_numpy
from xjax.runtime.arrays.dlpack import from_dlpack, is_on_gpu
from xjax.typing import Array, ArrayLike, DTypeLike, Shape, ShapeLike

Args = ParamSpec("Args")
Result = TypeVar("Result")
Number: TypeAlias = bool | int | float | complex

_NUMBERS = frozenset({bool, int, float, complex})
_HOST = (np.ndarray, np.generic)


# -- the options of the user, and the library ---------------------------------------------------------------------

def library_rules(fun: Callable[Args, Result]) -> Callable[Args, Result]:
    """Decorator: the body of `fun` mixes dtypes and ranks by the default rules, whatever options the user has set.

    `jax_numpy_dtype_promotion` and `jax_numpy_rank_promotion` apply to the arrays of the user. A public function checks
    its arguments under them, with `promote` and `promote_shapes`; the computations inside of the library are exempt.
    So `fun` is a private function of checked arguments, and it does not call functions of the user.
    """
    @functools.wraps(fun)
    def by_library_rules(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        if config.numpy_dtype_promotion == "standard" and config.numpy_rank_promotion == "allow":
            return fun(*args, **kwargs)
        with numpy_dtype_promotion("standard"), numpy_rank_promotion("allow"):
            return fun(*args, **kwargs)

    return by_library_rules


# -- arguments ----------------------------------------------------------------------------------------------------

@overload
def array_like(caller: str, x: Array) -> Array: ...
@overload
def array_like(caller: str, x: Any) -> ArrayLike: ...


def array_like(caller: str, x: Any) -> ArrayLike:
    """`x` itself if it is an array, a tracer, a NumPy value or a number, else the result of its `__(jax_)array__`.

    Raises: TypeError for everything else: a list is converted only by `array` and `asarray`.
    """
    if isinstance(x, Array) or type(x) in _NUMBERS:
        return x
    if not isinstance(x, _HOST):
        if hasattr(x, "__jax_array__"):
            return x.__jax_array__()
        if is_on_gpu(x):
            return from_dlpack(x)
        if hasattr(x, "__array__"):                 # of another library: torch, a real jax.Array
            x = np.asarray(x)
    try:
        typeof(x)
    except TypeError as error:
        raise _not_array_like(caller, x) from error
    if isinstance(x, np.ndarray):                   # of a subclass, memory maps or matrices, with the rules of ndarray
        return np.asarray(x)
    return x


def _not_array_like(caller: str, x: object) -> Exception:
    return bad(caller, f"requires an array or a number, got a value of type {type_name(x)}",
               given={"value": repr(x)[:80]}, fix=how_to_convert(x))


@overload
def array_likes(caller: str, xs: Sequence[Array]) -> list[Array]: ...
@overload
def array_likes(caller: str, xs: Sequence[Any]) -> list[ArrayLike]: ...


def array_likes(caller: str, xs: Sequence[Any]) -> list[Any]:
    return [x if isinstance(x, Array) else array_like(caller, x) for x in xs]


def aval_of(caller: str, x: ArrayLike) -> ShapedArray:
    """Type of an array-like value; the error names the function `caller`."""
    try:
        return x.aval
    except AttributeError:
        return argument_type(array_like(caller, x))


def argument_type(x: ArrayLike) -> ShapedArray:
    """Type of a user's array, number or NumPy value; 64-bit NumPy scalars count as 32-bit ones without x64."""
    aval = typeof(x)
    if isinstance(x, np.generic) and aval.dtype.itemsize >= 8 and not isinstance(x, Array):
        return aval.update(dtype=dtypes.canonicalize_dtype(aval.dtype))
    return aval


# -- dtypes as arguments -------------------------------------------------------------------------------------------

def as_dtype(dtype: DTypeLike, caller: str) -> np.dtype:
    """Canonical dtype from any spelling: a dtype, its name, a Python or NumPy type, `xjax.numpy.float32`.

    Raises: TypeError for a dtype that arrays cannot have. Without x64, 64-bit types become 32-bit ones, with a warning.
    """
    if hasattr(dtype, "aval") or isinstance(dtype, np.ndarray):
        raise bad(caller, "an array is not a dtype", given={"dtype": f"{dtype.dtype}{list(dtype.shape)}"},
                  fix="pass x.dtype; several arrays are passed as one list.", exc=ValueError)
    if not isinstance(dtype, (np.dtype, str, list, dict)) and dtype not in _NUMBERS:
        own = getattr(dtype, "dtype", dtype)            # np.int32.dtype is a descriptor
        return dtypes.user_dtype(own if isinstance(own, (np.dtype, dtypes.ExtendedDType)) else dtype, caller)
    return dtypes.user_dtype(dtype, caller)


def default_float() -> np.dtype:
    return dtypes.canonicalize_dtype(float)


def default_int() -> np.dtype:
    return dtypes.canonicalize_dtype(int)


# -- one dtype ----------------------------------------------------------------------------------------------------

@overload
def cast(caller: str, x: Array, dtype: DTypeLike, weak_type: bool = False) -> Array: ...
@overload
def cast(caller: str, x: ArrayLike, dtype: DTypeLike, weak_type: bool = False) -> ArrayLike: ...


def cast(caller: str, x: ArrayLike, dtype: DTypeLike, weak_type: bool = False) -> ArrayLike:
    """`x` with another dtype; numbers and NumPy values are converted on the host and stay there."""
    kind = type(x)
    if kind in _NUMBERS:
        return _literal(caller, x, dtype, weak_type)
    if isinstance(x, np.generic):
        if weak_type:
            return _literal(caller, x.item(), dtype, weak_type)
        return x if x.dtype == dtype else convert_number(x, dtype)
    if isinstance(x, np.ndarray):
        host = x if x.dtype == dtype else _cast_host(x, dtype, caller)
        return host if dtypes.canonicalize_dtype(dtype) == dtype else from_numpy(host, keep_dtype=True)
    aval = x.aval if isinstance(x, Array) else typeof(x)
    if aval.dtype == dtype and aval.weak_type == weak_type:
        return x
    return convert_element_type(x, dtype, weak_type)


@overload
def to_dtype(caller: str, x: Array, dtype: np.dtype) -> Array: ...
@overload
def to_dtype(caller: str, x: ArrayLike, dtype: np.dtype) -> ArrayLike: ...


def to_dtype(caller: str, x: ArrayLike, dtype: np.dtype) -> ArrayLike:
    """`cast` to a dtype named by the user: a host integer of any size may become a float, complex number or bool.

    Raises: TypeError for a Python complex number and a real dtype; OverflowError for a number that is too large.
    """
    kind = type(x)
    if kind is float or (kind is int and -1 << 31 <= x < 1 << 31) or (dtypes.is_int(dtype) and kind is not complex):
        return cast(caller, x, dtype)
    if isinstance(x, np.ndarray):
        return cast(caller, x.astype(dtype) if dtypes.is_int(x.dtype) else x, dtype)
    if kind is complex and not (dtypes.is_complex(dtype) or dtypes.is_bool(dtype)):
        raise bad(caller, f"a complex number cannot become {dtype.name}", {"number": x},
                  "pass its real part, x.real.", exc=TypeError)
    if kind is int:
        try:
            x = bool(x) if dtypes.is_bool(dtype) else float(x)
        except OverflowError:
            raise bad(caller, "the integer is larger than any float", {"digits": len(str(x)), "dtype": dtype.name},
                      "pass float('inf').", exc=OverflowError) from None
    return cast(caller, x, dtype)


def _literal(caller: str, x: Number, dtype: np.dtype, weak_type: bool) -> Number | np.generic:
    """A number as a literal of `dtype`: a Python number, which is weakly typed, if `weak_type`."""
    if type(x) is int and not _fits(x, dtype):
        dtypes.check_int_range(x, dtypes.canonicalize_dtype(int), caller)        # narrower dtypes wrap, as in JAX
    if weak_type:
        number = dtypes.python_type(dtype)(x)
        if dtypes.canonicalize_dtype(type(number)) == dtype:
            return number
    return convert_number(x, dtype)


def _fits(x: int, dtype: DTypeLike) -> bool:
    return dtypes.is_int(dtype) and dtypes.iinfo(dtype).min <= x <= dtypes.iinfo(dtype).max


def _cast_host(x: np.ndarray, dtype: np.dtype, caller: str) -> np.ndarray:
    if x.dtype.itemsize == 8 and dtypes.is_int(x.dtype) and dtypes.canonicalize_dtype(x.dtype) != x.dtype:
        dtypes.check_int_range(x, dtypes.canonicalize_dtype(x.dtype), caller)
    return x.astype(dtype)


@overload
def promote(caller: str, *xs: Array, to: Callable[[np.dtype], np.dtype] | None = None) -> list[Array]: ...
@overload
def promote(caller: str, *xs: ArrayLike, to: Callable[[np.dtype], np.dtype] | None = None) -> list[ArrayLike]: ...


def promote(caller: str, *xs: Any, to: Callable[[np.dtype], np.dtype] | None = None) -> list[Any]:
    """Arguments converted to their common dtype (by JAX's lattice), or to `to(dtype)`.

    Raises: TypeError for a value that is not an array; TypePromotionError if there is no common dtype.
    """
    values = array_likes(caller, xs)
    avals = [x.aval if hasattr(x, "aval") else type_of_numbers(int) if type(x) is int else argument_type(x)
             for x in values]                           # `cast` checks whether an integer fits, for example in uint32
    try:
        dtype, weak = lattice_join(*[(a.dtype, a.weak_type) for a in avals])
    except TypePromotionError:
        refuse_float0(caller, *avals)
        raise
    if to is not None:
        dtype = to(dtype)
    return [x if a.dtype is dtype and a.weak_type == weak and isinstance(x, Array) else cast(caller, x, dtype, weak)
            for x, a in zip(values, avals, strict=True)]


def refuse_float0(caller: str, *avals: ShapedArray) -> None:
    """Raise TypeError for float0, the type of derivatives for integers: it has no values to compute with."""
    if any(a.dtype == dtypes.float0 for a in avals):
        raise bad(caller, "float0, the type of derivatives for integers, has no values to compute with",
                  {f"argument {i}": a.str_short() for i, a in enumerate(avals)},
                  "leave such leaves out, or use numpy.zeros(x.shape) in their place.", exc=TypeError)


def check_mixed(caller: str, *xs: ArrayLike) -> None:
    """Raise TypePromotionError if the options forbid mixing these dtypes; for functions without a common dtype."""
    if config.numpy_dtype_promotion == "strict":
        promote(caller, *xs)


def to_inexact(dtype: np.dtype) -> np.dtype:
    """Integers and bool become the default float of their width."""
    return dtypes.to_inexact_dtype(dtype)


def to_numeric(dtype: np.dtype) -> np.dtype:
    """bool becomes int32, with x64 too."""
    return np.dtype(np.int32) if dtypes.is_bool(dtype) else dtype


@overload
def promote_inexact(caller: str, *xs: Array) -> list[Array]: ...
@overload
def promote_inexact(caller: str, *xs: ArrayLike) -> list[ArrayLike]: ...


def promote_inexact(caller: str, *xs: Any) -> list[Any]:
    """Arguments in one float or complex dtype."""
    return promote(caller, *xs, to=to_inexact)


@overload
def promote_numeric(caller: str, *xs: Array) -> list[Array]: ...
@overload
def promote_numeric(caller: str, *xs: ArrayLike) -> list[ArrayLike]: ...


def promote_numeric(caller: str, *xs: Any) -> list[Any]:
    """Arguments in one dtype of numbers: bool becomes integer."""
    return promote(caller, *xs, to=to_numeric)


# -- one rank, one shape ------------------------------------------------------------------------------------------

def shape_of(x: ArrayLike) -> Shape:
    """Shape of an array-like value."""
    if type(x) in _NUMBERS:
        return ()
    return x.aval.shape if isinstance(x, Array) else np.shape(converted(x))


def broadcast_shapes(*shapes: ShapeLike) -> Shape:
    """Shape of arrays of these shapes broadcast together, by NumPy's rule.

    Raises: ValueError if sizes differ and neither is 1.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return _common_shape("numpy.broadcast_shapes", [(s,) if isinstance(s, int) else tuple(s) for s in shapes])


def _common_shape(caller: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes), default=0)
    out = []
    for axis in zip(*[(1,) * (rank - len(s)) + s for s in shapes], strict=True):
        sizes = {n for n in axis if n != 1}
        if len(sizes) > 1:
            raise bad(caller, "Incompatible shapes for broadcasting",
                      given={f"argument {i}": str(tuple(s)) for i, s in enumerate(shapes)},
                      fix="sizes must be equal or 1, counted from the last axis; insert axes with x[:, None].",
                      exc=ValueError)
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


@overload
def promote_shapes(caller: str, *xs: Array) -> Sequence[Array]: ...
@overload
def promote_shapes(caller: str, *xs: ArrayLike) -> Sequence[ArrayLike]: ...


def promote_shapes(caller: str, *xs: Any) -> Sequence[Any]:
    """Arguments of one rank, or of rank 0, as elementwise primitives require."""
    shapes = [shape_of(x) for x in xs]
    ranks = {len(s) for s in shapes if s}
    if len(ranks) < 2:
        return xs
    rank = len(_common_shape(caller, shapes))
    if config.numpy_rank_promotion != "allow":
        check_ranks(caller, shapes)
    return [broadcast_in_dim(x, (1,) * (rank - len(s)) + s, range(rank - len(s), rank)) if 0 < len(s) < rank else x
            for x, s in zip(xs, shapes, strict=True)]


def check_ranks(caller: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Raise or warn for shapes of different nonzero rank, depending on the option `jax_numpy_rank_promotion`."""
    if config.numpy_rank_promotion == "allow" or len({len(s) for s in shapes if s}) < 2:
        return
    error = bad(caller, "operands of different rank could not be broadcast together, as jax_numpy_rank_promotion is "
                f"{config.numpy_rank_promotion!r}",
                given={f"argument {i}": str(s) for i, s in enumerate(shapes)},
                fix="insert axes explicitly, x[None, :], or set jax_numpy_rank_promotion to 'allow'.", exc=ValueError)
    if config.numpy_rank_promotion == "raise":
        raise error
    warn(str(error))


def broadcast_to(array: ArrayLike, shape: ShapeLike, *, out_sharding: object = None) -> Array:
    """`array` repeated to `shape`, by NumPy's rule.

    Raises: ValueError if the shapes do not fit.

    >>> broadcast_to(np.arange(3), (2, 3)).shape
    (2, 3)
    """
    if out_sharding is not None:
        return constrained("numpy.broadcast_to", broadcast_to(array, shape), out_sharding)
    array = array_like("numpy.broadcast_to", array)
    caller = "numpy.broadcast_to"
    sizes = (shape,) if isinstance(shape, int) or is_single(shape) else shape
    return expand_to(caller, array, tuple([n if type(n) is int else static_int(n, "shape", caller) for n in sizes]))


def expand_to(caller: str, x: ArrayLike, shape: tuple[int, ...]) -> Array:
    """`broadcast_to` for a checked value; one that has the shape already is returned as it is."""
    old = shape_of(x)
    if old == shape and isinstance(x, Array):
        return x                                        # pyright: ignore[reportReturnType]
    offset = len(shape) - len(old)
    if offset < 0 or any(n not in (1, m) for n, m in zip(old, shape[offset:], strict=True)):
        raise bad(caller, "the array does not broadcast to the shape", given={"array": str(old), "shape": str(shape)},
                  fix="sizes must be equal or 1, counted from the last axis.", exc=ValueError)
    return broadcast_in_dim(x, shape, range(offset, len(shape)))


def broadcast_arrays(*args: ArrayLike) -> tuple[Array, ...]:
    """The arguments, each repeated to their common shape."""
    caller = "numpy.broadcast_arrays"
    arrays = array_likes(caller, args)
    shape = _common_shape(caller, [shape_of(x) for x in arrays])
    return tuple([expand_to(caller, x, shape) for x in arrays])


def broadcast(caller: str, *xs: ArrayLike) -> list[Array]:
    """Checked arguments repeated to their common shape."""
    shape = _common_shape(caller, [shape_of(x) for x in xs])
    return [expand_to(caller, x, shape) for x in xs]
