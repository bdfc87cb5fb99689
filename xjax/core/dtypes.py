"""Dtypes: their kinds, names and limits, and their canonical (32-bit) forms.

A dtype is a NumPy dtype; the narrow dtypes (bfloat16, float8_*, int4 ...) come from ml_dtypes. There are also `float0`,
the dtype of derivatives of integers, and *extended* dtypes (random keys), which NumPy does not have. Promotion is in
`xjax.core.promotion`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from xjax.core.config import config
from xjax.core.errors import bad, did_you_mean, warn

if TYPE_CHECKING:
    from xjax.typing import ArrayLike, DTypeLike


class extended(np.generic):
    """Scalar type of all dtypes that NumPy does not have, for `issubdtype`."""


class prng_key(extended):
    """Scalar type of random-key dtypes: ``issubdtype(key.dtype, prng_key)``."""


class ExtendedDType:
    """Base class of the dtypes that NumPy does not have; `type` is a subclass of `extended`."""

    __slots__ = ()
    name: str
    type = extended


def _known(*names: str) -> dict[str, np.dtype]:
    """The dtypes with these names that the installed ml_dtypes has."""
    scalars = {name: getattr(ml_dtypes, name, None) for name in names}
    return {name: np.dtype(scalar) for name, scalar in scalars.items() if scalar is not None}


_SMALL_FLOATS = _known(
    "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3",
    "float8_e8m0fnu", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz",
)  # fmt: skip
_SMALL_SIGNED = _known("int1", "int2", "int4")
_SMALL_UNSIGNED = _known("uint1", "uint2", "uint4")
EXTRA: Mapping[str, np.dtype] = {
    **_SMALL_SIGNED, **_SMALL_UNSIGNED, **_SMALL_FLOATS, **_known("bfloat16"),
}  # fmt: skip

bool_ = np.dtype(bool)
int8, int16, int32, int64 = map(np.dtype, ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = map(np.dtype, ("uint8", "uint16", "uint32", "uint64"))
float16, float32, float64 = map(np.dtype, ("float16", "float32", "float64"))
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")
float0 = np.dtype([("float0", np.void, 0)])

bfloat16, int4, uint4 = EXTRA["bfloat16"], EXTRA["int4"], EXTRA["uint4"]
int2, uint2 = EXTRA["int2"], EXTRA["uint2"]
float8_e4m3fn, float8_e5m2 = EXTRA["float8_e4m3fn"], EXTRA["float8_e5m2"]
float8_e3m4, float8_e4m3 = EXTRA["float8_e3m4"], EXTRA["float8_e4m3"]
float8_e4m3b11fnuz, float8_e4m3fnuz = EXTRA["float8_e4m3b11fnuz"], EXTRA["float8_e4m3fnuz"]
float8_e5m2fnuz, float8_e8m0fnu = EXTRA["float8_e5m2fnuz"], EXTRA["float8_e8m0fnu"]
float6_e2m3fn, float6_e3m2fn = EXTRA["float6_e2m3fn"], EXTRA["float6_e3m2fn"]
float4_e2m1fn = EXTRA["float4_e2m1fn"]

_SIGNED = (*_SMALL_SIGNED.values(), int8, int16, int32, int64)
_UNSIGNED = (*_SMALL_UNSIGNED.values(), uint8, uint16, uint32, uint64)
_FLOATS = (*_SMALL_FLOATS.values(), bfloat16, float16, float32, float64)
_COMPLEX = (complex64, complex128)
ALL: tuple[np.dtype, ...] = (bool_, *_UNSIGNED, *_SIGNED, *_FLOATS, *_COMPLEX)

# ------------------------------------------------------------------------------------- kinds


def _with_spellings(dtypes: tuple[np.dtype, ...]) -> frozenset:
    """The dtypes, their scalar types and their names, so that a lookup works for every spelling."""
    return frozenset(dtypes) | {d.type for d in dtypes} | {d.name for d in dtypes}


_is_bool = _with_spellings((bool_,)) | {bool}
_is_signed = _with_spellings(_SIGNED) | {int}
_is_unsigned = _with_spellings(_UNSIGNED)
_is_float = _with_spellings(_FLOATS) | {float}
_is_complex = _with_spellings(_COMPLEX) | {complex}
_is_int = _is_signed | _is_unsigned
_is_inexact = _is_float | _is_complex
_is_real = _is_int | _is_float
_is_number = _is_real | _is_complex
_is_supported = frozenset({*ALL, float0})


def is_bool(dtype: DTypeLike) -> bool:
    """True for bool. All predicates here accept a dtype, scalar type or name."""
    return dtype in _is_bool


def is_int(dtype: DTypeLike) -> bool:
    """True for signed and unsigned integers of any width."""
    return dtype in _is_int


def is_unsigned(dtype: DTypeLike) -> bool:
    """True for unsigned integers."""
    return dtype in _is_unsigned


def is_float(dtype: DTypeLike) -> bool:
    """True for real floating point, including the narrow formats; False for complex."""
    return dtype in _is_float


def is_complex(dtype: DTypeLike | None) -> bool:
    """True for complex64 and complex128."""
    return dtype in _is_complex


def is_inexact(dtype: DTypeLike) -> bool:
    """True for float and complex: the dtypes that have derivatives."""
    return dtype in _is_inexact


def is_real(dtype: DTypeLike) -> bool:
    """True for integers and floats (bool is not a number)."""
    return dtype in _is_real


def is_number(dtype: DTypeLike) -> bool:
    """True for integers, floats and complex numbers."""
    return dtype in _is_number


def is_supported(dtype: DTypeLike) -> bool:
    """True if arrays can have this np.dtype; True for float0, False for extended dtypes."""
    return dtype in _is_supported


_CUSTOM_PARENTS = {  # ml_dtypes' scalar types are not in NumPy's hierarchy
    **{d.type: np.floating for d in (*_SMALL_FLOATS.values(), bfloat16)},
    **{d.type: np.signedinteger for d in _SMALL_SIGNED.values()},
    **{d.type: np.unsignedinteger for d in _SMALL_UNSIGNED.values()},
}


def issubdtype(a: DTypeLike, b: DTypeLike) -> bool:
    """Whether dtype `a` is `b` or a subtype of it (`np.floating`, `np.number`, `extended` ...).

    >>> issubdtype(bfloat16, np.floating), issubdtype("int32", np.inexact)
    (True, False)
    """
    if isinstance(b, ExtendedDType):
        return isinstance(a, ExtendedDType) and a == b
    a, b = _scalar_type(a), _scalar_type(b)
    if issubclass(b, extended) or issubclass(a, extended):
        return issubclass(a, b)
    if a in _CUSTOM_PARENTS:
        return a is b or issubclass(_CUSTOM_PARENTS[a], b)
    return bool(np.issubdtype(a, b))


def _scalar_type(dtype: DTypeLike) -> type:
    if isinstance(dtype, ExtendedDType):
        return dtype.type
    if isinstance(dtype, type) and issubclass(dtype, np.generic):
        return dtype
    return np.dtype(dtype).type


_KINDS = {
    "bool": {bool_},
    "signed integer": set(_SIGNED),
    "unsigned integer": set(_UNSIGNED),
    "integral": {*_SIGNED, *_UNSIGNED},
    "real floating": set(_FLOATS),
    "complex floating": set(_COMPLEX),
    "numeric": {*_SIGNED, *_UNSIGNED, *_FLOATS, *_COMPLEX},
}


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple) -> bool:
    """Whether a dtype is of a kind of the array API, equals a dtype, or matches one of a tuple of these.

    >>> isdtype("float32", "real floating"), isdtype("int4", ("bool", np.int32))
    (True, False)
    """
    dtype = np.dtype(dtype)
    return any(_of_kind(dtype, k) for k in (kind if isinstance(kind, tuple) else (kind,)))


def _of_kind(dtype: np.dtype, kind: DTypeLike | tuple) -> bool:
    if isinstance(kind, str) and kind in _KINDS:
        return dtype in _KINDS[kind]
    try:
        return dtype == np.dtype(kind)
    except TypeError as error:
        raise bad(
            "numpy.isdtype",
            f"{kind!r} is neither a kind nor a dtype",
            {"kinds": ", ".join(map(repr, _KINDS))},
            "pass one of the kinds, a dtype, or a tuple of them.",
            ValueError if isinstance(kind, str) else TypeError,
        ) from error


# ----------------------------------------------------------------------------- names, ranges


@functools.cache
def short_name(dtype: DTypeLike) -> str:
    """The name used in printed types and programs.

    >>> [short_name(np.dtype(t)) for t in ("float32", "uint8", "bool", "complex64", bfloat16)]
    ['f32', 'u8', 'bool', 'c64', 'bf16']
    """
    if isinstance(dtype, ExtendedDType):
        return str(dtype)
    dtype = np.dtype(dtype)
    if dtype == float0:
        return "float0"
    name = dtype.name
    for long, short in (("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
        name = name.replace(long, short)
    return name


@functools.cache
def finfo(dtype: DTypeLike) -> np.finfo:
    """Limits of a float or complex dtype, including the narrow formats."""
    return ml_dtypes.finfo(_of_numbers(dtype))


@functools.cache
def iinfo(dtype: DTypeLike) -> ml_dtypes.iinfo:
    """Limits of an integer dtype, including the narrow dtypes."""
    return ml_dtypes.iinfo(_of_numbers(dtype))


@functools.cache
def itemsize_bits(dtype: DTypeLike) -> int:
    """Number of bits of one element: 4 for int4, 64 for complex64, 8 for bool."""
    if is_int(dtype):
        return iinfo(dtype).bits
    return finfo(dtype).bits if is_float(dtype) else _of_numbers(dtype).itemsize * 8


def _of_numbers(dtype: DTypeLike) -> np.dtype:
    """The NumPy dtype of a spelling; TypeError for an extended dtype."""
    if isinstance(dtype, ExtendedDType):
        raise bad("dtype", f"{dtype} is not a dtype of numbers", fix="use random.key_data(key) for the bits of a key.")
    return np.dtype(dtype)


can_cast = np.can_cast

# ----------------------------------------------------------------------- canonical dtypes

_TO_32 = {int64: int32, uint64: uint32, float64: float32, complex128: complex64}
_SCALARS = {bool: bool_, int: int64, float: float64, complex: complex128}


def canonicalize_dtype(dtype: DTypeLike, allow_extended: bool = False) -> Any:
    """The dtype that arrays get: 64-bit dtypes become 32-bit unless ``jax_enable_x64`` is on.

    Args: dtype: a dtype, scalar or Python type, name, or an object with a ``dtype``; None: float, as in NumPy.
    Raises: TypeError if `dtype` is not a dtype, or is an extended dtype without `allow_extended`.

    >>> canonicalize_dtype("float64"), canonicalize_dtype(int)
    (dtype('float32'), dtype('int32'))
    """
    try:
        return _READY[config.enable_x64][dtype]
    except (KeyError, TypeError):  # not one of the usual spellings, or not hashable
        pass
    if not isinstance(dtype, _SPELLINGS):
        # For an array or aval, its dtype is used. Any other object is an error, and the message shows its repr.
        dtype = getattr(dtype, "dtype", repr(dtype))
    return _canonical(dtype, config.enable_x64, allow_extended)


_SPELLINGS = (np.dtype, type, str, ExtendedDType)


def _parse(spelling: DTypeLike, caller: str) -> np.dtype:
    try:
        return np.dtype(spelling)
    except TypeError as error:
        hint = did_you_mean(spelling, [d.name for d in ALL]) if isinstance(spelling, str) else None
        fix = hint or "pass a dtype or its name: numpy.float32, 'int8'."
        if isinstance(spelling, int):
            fix += " A shape is one argument: (2, 3)."
        raise bad(caller, f"{spelling!r} is not a dtype", fix=fix) from error


@functools.lru_cache(1024)
def _canonical(dtype: DTypeLike, x64: bool, allow_extended: bool) -> Any:
    if isinstance(dtype, ExtendedDType):
        return dtype if allow_extended else _of_numbers(dtype)
    plain = _parse(dtype, "dtype")
    return plain if x64 else _TO_32.get(plain, plain)


_SPELLED: dict[Any, np.dtype] = {t: d for d in ALL for t in (d, d.type, d.name)} | _SCALARS | {None: float64}
_READY = {True: _SPELLED, False: {t: _TO_32.get(d, d) for t, d in _SPELLED.items()}}


WIDE = frozenset(_TO_32)                # dtypes that become 32-bit dtypes


def is_canonical(dtype: DTypeLike) -> bool:
    """Whether canonicalization leaves a dtype as it is: it is not a 64-bit dtype, or these are enabled."""
    return dtype not in WIDE or config.enable_x64


def explicit_dtype(dtype: DTypeLike) -> Any:
    """A dtype that the user named or an operand has: unchanged if `explicit_x64_dtypes="allow"`, else canonical."""
    return dtype if config.explicit_x64_dtypes == "allow" else canonicalize_dtype(dtype, allow_extended=True)


def user_dtype(dtype: DTypeLike, caller: str) -> Any:
    """Check and canonicalize a dtype that the user requested; `explicit_x64_dtypes` controls 64-bit dtypes.

    Raises: TypeError for a dtype that arrays cannot have (object, str, structured ...).
    """
    if isinstance(dtype, ExtendedDType):
        return dtype
    if isinstance(dtype, type) and dtype in _SCALARS:
        return canonicalize_dtype(dtype)
    plain = _parse(dtype, caller)
    if plain not in _is_supported:
        raise bad(caller, f"arrays cannot have dtype {plain}", fix=_fix_for(plain))
    canonical = canonicalize_dtype(plain)
    if canonical != plain:
        if config.explicit_x64_dtypes == "allow":
            return plain
        if config.explicit_x64_dtypes == "error":
            raise bad(caller, f"dtype {plain} was requested, but 64-bit types are off",
                      fix="config.update('jax_enable_x64', True) at start-up keeps 64 bits.", exc=ValueError)
        warn(f"{caller}: dtype {plain} was requested, {canonical} is used. "
             "fix: config.update('jax_enable_x64', True) at start-up keeps 64 bits.")  # fmt: skip
    return canonical


def dtype(x: object) -> Any:
    """Dtype of a value or type; canonical unless x is an xjax array or tracer.

    Raises: TypeError if x has no dtype, or has a dtype that arrays cannot have.

    >>> dtype(1.5), dtype(np.arange(3)), dtype("int8")
    (dtype('float32'), dtype('int32'), dtype('int8'))
    """
    kind = type(x)
    if kind in _SCALARS:
        return _READY[config.enable_x64][kind]
    if kind is np.ndarray and (ready := _READY[config.enable_x64].get(x.dtype)) is not None:
        return ready
    if isinstance(x, (str, type, np.dtype, ExtendedDType)):
        return user_dtype(x, "dtype")
    own = getattr(x, "dtype", None)
    if isinstance(own, ExtendedDType):
        return own
    if not isinstance(own, np.dtype):  # another library's dtype: NumPy's conversion decides
        own = _dtype_of_foreign(x)
    elif not isinstance(x, (np.ndarray, np.generic)) and _has_aval(x):
        return own  # a 64-bit array created under enable_x64 keeps its dtype
    if own not in _is_supported:
        what = f"a {kind.__name__} of dtype {own} cannot be an array"
        raise bad("dtype", what, fix=_fix_for(own))
    return canonicalize_dtype(own)


def _fix_for(dtype: np.dtype) -> str:
    if not dtype.isnative:
        return "x.astype(x.dtype.newbyteorder('=')) converts to this machine's byte order."
    return "use a bool, integer, float or complex dtype."


def _has_aval(x: object) -> bool:
    return hasattr(x, "weak_type") or hasattr(x, "aval")


def _dtype_of_foreign(x: object) -> np.dtype:
    if hasattr(x, "__array__"):
        return np.asarray(x).dtype
    raise bad("dtype", f"a value of type {type(x).__name__} has no dtype",
              {"value": repr(x)[:80]}, "pass an array, a number or a dtype.")  # fmt: skip


def scalar_type_of(x: object) -> type:
    """The Python type of the numbers of a value: bool, int, float or complex."""
    return python_type(dtype(x))


@functools.cache
def python_type(dtype: np.dtype) -> type:
    """The Python type of the numbers of a dtype: bool, int, float or complex."""
    tests = ((is_bool, bool), (is_int, int), (is_float, float), (is_complex, complex))
    for test, python_type in tests:
        if test(dtype):
            return python_type
    raise bad("dtype", f"{short_name(dtype)} has no Python number type",
              fix="use a bool, integer, float or complex dtype.")  # fmt: skip


def check_int_range(value: ArrayLike, dtype: DTypeLike, caller: str) -> None:
    """Raise OverflowError if a host integer (or integer ndarray) does not fit `dtype`.

    >>> check_int_range(2**31 - 1, int32, "numpy.asarray")
    """
    info = iinfo(dtype)
    if isinstance(value, int):
        ends = (value,)
    else:
        ends = (int(value.min()), int(value.max())) if value.size else ()
    wrong = [end for end in ends if not info.min <= end <= info.max]
    if wrong:
        raise bad(
            caller,
            f"integer {wrong[0]} does not fit {short_name(dtype)}",
            {"range": f"{info.min} ... {info.max}"},
            "pass a float, a wider dtype, or turn on jax_enable_x64.",
            OverflowError,
        )


def scalar_dtype(value: bool | int | float | complex, caller: str = "asarray") -> np.dtype:
    """Canonical dtype of a Python number; OverflowError for an int that does not fit it."""
    canonical = canonicalize_dtype(type(value))
    if type(value) is int:
        check_int_range(value, canonical, caller)
    return canonical


def to_inexact_dtype(dtype: DTypeLike) -> np.dtype:
    """Float dtype for functions such as sin: bool and integers become float32, 64-bit integers float64."""
    dtype = _of_numbers(dtype)
    if dtype in (int64, uint64):
        return float64
    return float32 if is_int(dtype) or is_bool(dtype) else dtype


def accumulator_dtype(dtype: DTypeLike) -> np.dtype:
    """Dtype in which sums are accumulated: float32 for narrower floats, since long sums overflow their range."""
    return float32 if is_float(dtype) and itemsize_bits(dtype) < 32 else np.dtype(dtype)


def to_complex_dtype(dtype: DTypeLike) -> np.dtype:
    """complex128 for complex128 and for dtypes that `to_inexact_dtype` makes float64, else complex64."""
    return complex128 if to_inexact_dtype(dtype) in (float64, complex128) else complex64
