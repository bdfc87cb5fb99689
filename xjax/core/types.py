"""Types of values: `ShapedArray` (shape, dtype, weak type), symbolic zeros, and `typeof`.

An *aval* (abstract value) is the part of an array that is known during tracing. Avals are interned: equal types are one
object, so caches compare them by identity and `a is b` means "same type".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad, called_function
from xjax.core.symbolic.dims import Dim

if TYPE_CHECKING:
    from xjax.typing import ArrayLike, DTypeLike

Shape = tuple[int, ...]
Vma = frozenset             # names of mesh axes; see `core.varying`
_NOWHERE: Vma = frozenset()


class ShapedArray:
    """Type of an array: static shape, canonical dtype, JAX's weak-type flag, and the axes along which it varies.

    `vma` is empty outside `shard_map`; `plain` is the same type without it.

    >>> ShapedArray((2, 3), np.float32)
    ShapedArray(float32[2,3])
    >>> ShapedArray((2, 3), np.float32) is ShapedArray((2, 3), np.dtype("float32"))
    True
    """

    __slots__ = ("shape", "dtype", "weak_type", "ndim", "size", "vma", "plain", "hlo_type", "_tangent",
                 "__weakref__")
    _interned: dict[tuple, ShapedArray] = {}

    shape: Shape
    dtype: np.dtype
    weak_type: bool
    vma: Vma
    plain: ShapedArray
    unsharded: ClassVar[Callable[[int], Any]]       # the sharding of types by their rank; set by `runtime.placement`

    def __new__(cls, shape: Shape, dtype: DTypeLike, weak_type: bool = False, vma: Vma = _NOWHERE, *,
                sharding: Any = None) -> ShapedArray:
        if sharding is not None:
            cls._check_unsharded(sharding)
        key = (shape, dtype, weak_type, vma)
        aval = cls._interned.get(key)
        if aval is not None:
            return aval
        # A dtype may be spelled in several ways (np.float32, "f4"); all spellings give the same object.
        shape = tuple(n if type(n) is Dim else int(n) for n in shape)
        dtype = dtype if isinstance(dtype, dtypes.ExtendedDType) else np.dtype(dtype)
        canonical = (shape, dtype, bool(weak_type), frozenset(vma))
        aval = cls._interned.get(canonical)
        if aval is None:
            aval = object.__new__(cls)
            aval.shape, aval.dtype, aval.weak_type, aval.vma = canonical
            aval.plain = ShapedArray(*canonical[:3]) if aval.vma else aval
            aval.ndim, aval.size = len(shape), math.prod(shape)
            aval.hlo_type = None             # set by core.hlo on first use
            aval._tangent = None
            aval = cls._interned.setdefault(canonical, aval)
        cls._interned[key] = aval
        return aval

    def __reduce__(self):
        return ShapedArray, (self.shape, self.dtype, self.weak_type, self.vma)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an unsized array type")
        return self.shape[0]

    @staticmethod
    def _check_unsharded(sharding: Any) -> None:
        if any(axis is not None for axis in sharding.spec):
            raise bad("ShapedArray", "types do not have shardings", {"sharding": repr(sharding)},
                      "leave the sharding out: the compiler places operations.", NotImplementedError)

    @property
    def sharding(self) -> Any:
        """A NamedSharding over an empty mesh, with a spec of None for each axis: types do not have shardings."""
        return ShapedArray.unsharded(self.ndim)

    def update(self, **changes: object) -> ShapedArray:
        """The same type with some of `shape`, `dtype`, `weak_type`, `vma` replaced."""
        fields = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type, "vma": self.vma}
        return ShapedArray(**{**fields, **changes})

    def strong(self) -> ShapedArray:
        """The same type without the weak flag."""
        return ShapedArray(self.shape, self.dtype, False, self.vma) if self.weak_type else self

    def tangent(self) -> ShapedArray:
        """Type of a derivative with respect to a value of this type: `float0` for ints and bools."""
        if self._tangent is None:
            exact = not dtypes.is_inexact(self.dtype)
            self._tangent = ShapedArray(self.shape, dtypes.float0, False, self.vma) if exact else self
        return self._tangent

    # JAX's names.
    strip_weak_type = strong
    to_tangent_aval = at_least_vspace = tangent

    def str_short(self, short_dtypes: bool = True) -> str:
        """The text of this type in a printed program: `f32[2,3]`; `f32[2,3]{V:x}` if it varies along mesh axis x."""
        varying = f"{{V:{','.join(sorted(map(str, self.vma)))}}}" if self.vma else ""
        dtype = dtypes.short_name(self.dtype) if short_dtypes else self.dtype.name
        return f"{dtype}[{','.join(map(str, self.shape))}]{varying}"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        varying = f", vma={{{', '.join(sorted(map(repr, self.vma)))}}}" if self.vma else ""
        return f"ShapedArray({self.dtype.name}[{','.join(map(str, self.shape))}]{weak}{varying})"

    def __str__(self) -> str:
        return self.str_short()


@final
class Zero:
    """A symbolic zero: a tangent or cotangent that is known to be zero; `aval` is its type."""

    __slots__ = ("aval",)

    instantiate: ClassVar[Callable[[Zero], Any]]    # `zero.instantiate()` is an array of zeros; set by `ops.zeros`

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    @classmethod
    def from_primal_value(cls, x: ArrayLike) -> Zero:
        """The zero derivative with respect to a value."""
        return cls(typeof(x).tangent())

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


def with_zeros(flags: Iterable[bool], given: Iterable[Any], avals: Iterable[ShapedArray]) -> list[Any]:
    """Tangents (or cotangents) of values of these types: the next of `given` where flagged, Zero elsewhere."""
    nonzero = iter(given)
    return [next(nonzero) if flag else Zero(a.tangent()) for flag, a in zip(flags, avals, strict=True)]


class LinearInput:
    """Placeholder of a linear argument in a transpose rule: its value is unknown, its type is `aval`."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"LinearInput({self.aval})"


def is_zero(x: object) -> bool:
    return type(x) is Zero


def is_linear(x: object) -> bool:
    return type(x) is LinearInput


_PYTHON_SCALARS = (bool, int, float, complex)


def scalar_of(aval: ShapedArray, value: complex) -> np.generic | int | float | complex:
    """The number `value` with the type `aval`: a NumPy scalar, or a Python number if the type is weak."""
    if aval.weak_type and typeof(number := dtypes.python_type(aval.dtype)(value)).dtype == aval.dtype:
        return number
    return number_of(aval.dtype, value)


def number_of(dtype: DTypeLike, value: ArrayLike) -> Any:
    """The number `value` as a NumPy scalar of the dtype of an array.

    A 64-bit number keeps its 64 bits outside the `enable_x64` block in which the array was created. A plain NumPy
    scalar would be converted to 32 bits there, like the user's numbers.
    """
    return dtype.type(value) if dtypes.is_canonical(dtype) else _kept(dtype, False)(value)


def typed_number(value: ArrayLike, aval: ShapedArray) -> Any:
    """A number of a program, with a fixed type: it is the same inside and outside `enable_x64` blocks."""
    if aval.dtype not in dtypes.WIDE or type(getattr(value, "aval", None)) is ShapedArray:
        return value
    return _kept(aval.dtype, aval.weak_type)(value)


@functools.cache
def _kept(dtype: np.dtype, weak_type: bool) -> type:
    """A subclass of a 64-bit scalar class of NumPy with an attribute `aval`; options do not change its type."""
    return type(dtype.type.__name__, (dtype.type,), {"aval": ShapedArray((), dtype, weak_type), "__slots__": ()})


def python_scalar_aval(x: bool | int | float | complex) -> ShapedArray:
    """Weakly typed aval of a Python number (`bool` is strong, as in JAX). Raises: OverflowError for a large integer."""
    kind = type(x)
    if kind is int and not -1 << 31 <= x < 1 << 31:
        dtypes.check_int_range(x, dtypes.canonicalize_dtype(int), "Python number")
    return type_of_numbers(kind)


def type_of_numbers(kind: type) -> ShapedArray:
    """Aval of all Python numbers of a class (bool, int, float, complex)."""
    return ShapedArray((), dtypes.canonicalize_dtype(kind), kind is not bool)


# Types that are not arrays but are accepted as arrays: type -> function that returns the aval.
aval_of_type: dict[type, Callable[[Any], ShapedArray]] = {t: python_scalar_aval for t in _PYTHON_SCALARS}


def typeof(x: ArrayLike) -> ShapedArray:
    """Aval of an array, a tracer, a NumPy value or a Python number.

    Raises: TypeError if `x` is none of these.
    """
    aval = getattr(x, "aval", None)
    if type(aval) is ShapedArray:
        return aval
    rule = aval_of_type.get(type(x))
    if rule is not None:
        return rule(x)
    if isinstance(x, np.generic) and dtypes.is_supported(x.dtype):
        return ShapedArray((), dtypes.explicit_dtype(x.dtype))
    if isinstance(x, np.ndarray) and dtypes.is_supported(x.dtype):
        refuse_mask(x)
        return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype))
    for kind in _PYTHON_SCALARS:                    # subclasses such as IntEnum
        if isinstance(x, kind):
            return python_scalar_aval(kind(x))
    raise not_an_array(x)


def refuse_mask(x: np.ndarray) -> None:
    """Raise ValueError for a masked array: its values below the mask would be used as if they were not masked."""
    if type(x) is not np.ndarray and isinstance(x, np.ma.MaskedArray):
        raise bad(called_function(), "a masked array is not an array: its mask would be ignored",
                  given={"value": " ".join(repr(x).split())[:80]},
                  fix="pass x.filled(value), with the value that stands for masked ones.",
                  exc=ValueError)


def is_array_like(x: object) -> bool:
    """Whether `x` is an array, a tracer, a NumPy value or a number of any size."""
    try:
        typeof(x)
    except TypeError:
        return False
    except OverflowError:
        return True
    return True


def not_an_array(x: object) -> Exception:
    """The error for a value that is not an array."""
    kind = type(x)
    if kind is LinearInput:
        return bad("linear_transpose", "the function is not linear: it multiplies values that all depend on its "
                   "arguments", given={"value": x.aval.str_short()},
                   fix="use vjp, which linearizes the function at a point first.")
    return bad(called_function(), f"a value of type {type_name(x)} is not an array", given={"value": repr(x)[:80]},
               fix=how_to_convert(x))


def type_name(x: object) -> str:
    """The type of a value, for messages: `str`, `torch.Tensor`, `ndarray of dtype <U1`."""
    kind = type(x)
    if isinstance(x, (np.ndarray, np.generic)):
        return f"{kind.__name__} of dtype {x.dtype}"
    plain = kind.__module__ in ("builtins", "__main__") or kind.__module__.startswith("xjax.")
    return kind.__qualname__ if plain else f"{kind.__module__}.{kind.__qualname__}"


# The advice for a value that is not an array, by its type; {} stands for its name. Modules add rows for their types.
ADVICE: dict[type, str] = {
    type(None): "pass an array or a number; a function without `return` returns None.",
    dict: "apply the function to the leaves: xjax.tree.map(f, {}).",
    list: "convert it with xjax.numpy.array({}).",
    tuple: "convert it with xjax.numpy.array({}).",
    range: "convert it with xjax.numpy.array({}).",
    set: "convert it with xjax.numpy.array(sorted({})).",
    Iterator: "convert it with xjax.numpy.array(list({})).",
    FunctionType: "pass the result of the function, not the function.",
    BuiltinFunctionType: "pass the result of the function, not the function.",
    np.ndarray: "use a bool, integer, float or complex dtype.",
    np.generic: "use a bool, integer, float or complex dtype.",
}


def is_of_other_library(x: object) -> bool:
    """Whether `x` supports one of the protocols for the exchange of arrays between libraries."""
    return hasattr(x, "__dlpack__") or hasattr(x, "__cuda_array_interface__")


def how_to_convert(x: object, name: str = "x") -> str:
    """The `fix:` for a value that is not an array; `name` is its name in the message."""
    if type(x).__module__.partition(".")[0] in ("jax", "jaxlib"):
        return (f"convert with numpy.asarray({name}) or xjax.interop.from_jax_array({name}): a real jax.Array belongs "
                "to another runtime.")
    for kind, advice in ADVICE.items():
        if isinstance(x, kind):
            return advice.format(name)
    if is_of_other_library(x):
        return f"convert it with xjax.numpy.asarray({name}), which accepts arrays of other libraries."
    return "pass an array or a number."
