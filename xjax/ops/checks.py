"""Checks of arguments, shared by all operations: dtype kinds, equal dtypes, axes."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, SupportsIndex

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.primitive import Missing
from xjax.core.symbolic.dims import is_symbolic_dim
from xjax.core.trace import Tracer, static_value_error
from xjax.core.types import ShapedArray
from xjax.typing import ArrayLike

# Kinds of elements that an operation accepts; a set of kinds is a string of letters.
BOOL, INT, FLOAT, COMPLEX, KEY = "b", "i", "f", "c", "k"
NUMBER = INT + FLOAT + COMPLEX
REAL = INT + FLOAT
ANY = BOOL + NUMBER
BITS = BOOL + INT

_KIND_NAMES = {"b": "bool", "i": "integer", "f": "floating-point", "c": "complex", "k": "random keys"}

NOT_LINEAR = Missing("its derivative is not linear in this argument, so it has no transpose",
                     fix="report the function that led here: a jvp rule must bind only linear operations on tangents.")


def kind_of(dtype: np.dtype) -> str:
    """One of the letters above; '' for a dtype that has none (float0)."""
    for letter, test in (("f", dtypes.is_float), ("i", dtypes.is_int), ("b", dtypes.is_bool), ("c", dtypes.is_complex)):
        if test(dtype):
            return letter
    return KEY if isinstance(dtype, dtypes.ExtendedDType) else ""


def check_kinds(caller: str, kinds: str, *avals: ShapedArray) -> None:
    """Raise unless the kind of every dtype is accepted."""
    for aval in avals:
        if kind_of(aval.dtype) not in kinds or not aval.dtype.itemsize:
            given = {f"argument {i}" if len(avals) > 1 else "argument": a.str_short() for i, a in enumerate(avals)}
            given["accepted"] = ", ".join(_KIND_NAMES[k] for k in kinds)
            raise bad(f"lax.{caller}", f"does not accept dtype {aval.dtype.name}", given=given,
                      fix=_fix_of_kind(caller, kind_of(aval.dtype)))


_COMPARE = "combine comparisons, each in parentheses: (x > 0) & (y > 0); for bits convert with x.astype('int32')."
# (primitive, kind of an argument) -> fix.
_FIXES_OF_KINDS = {
    **{(name, kind): _COMPARE for name in ("and", "or", "xor", "not") for kind in FLOAT + COMPLEX},
    ("neg", BOOL): "use ~x for `not`, or convert with x.astype('int32').",
    ("sub", BOOL): "use x ^ y for inequality, x & ~y for a difference of sets, or convert with x.astype('int32').",
}


def _fix_of_kind(caller: str, kind: str) -> str:
    if kind == KEY:
        return KEYS_ARE_NO_NUMBERS
    return _FIXES_OF_KINDS.get((caller, kind), "convert with x.astype(...), or use xjax.numpy, whose functions promote "
                               "their arguments.")


KEYS_ARE_NO_NUMBERS = "draw numbers from keys with random.bits(key), or take their bits with random.key_data(key)."


def check_same_dtype(caller: str, *avals: ShapedArray) -> None:
    if len({a.dtype for a in avals}) > 1:
        raise bad(f"lax.{caller}", "needs arguments of one dtype",
                  given={f"argument {i}": a.str_short() for i, a in enumerate(avals)},
                  fix="convert with lax.convert_element_type(x, dtype), or use xjax.numpy, which promotes.")


def static_int(value: SupportsIndex, name: str, caller: str) -> int:
    """A Python int from an argument that must be static; a traced value raises an error that explains this."""
    try:
        return operator.index(value)
    except TypeError as cause:
        if is_symbolic_dim(value):          # a size, of the type of integers for all rules
            return value                    # type: ignore[return-value]
        raise _not_static(value, name, caller) from cause


def _not_static(value: ArrayLike | None, name: str, caller: str) -> Exception:
    if isinstance(value, Tracer) and value.concrete() is None:
        return static_value_error(caller, name, value)
    is_shape = "shape" in name
    what = "must be an integer or a sequence of integers" if is_shape else "must be an integer"
    fix = "pass an int, or a tuple of ints." if is_shape else "pass an int."
    if isinstance(value, (float, np.floating)) and value == value // 1:
        fix = f"pass {int(value)}, or n // m in place of n / m."
    elif name == "axis" and hasattr(value, "aval"):
        fix = "pass an int; two arrays are compared with maximum(x, y), and joined with concatenate([x, y])."
    return bad(caller, f"`{name}` {what}", given={name: value if hasattr(value, "aval") else repr(value)}, fix=fix)


_COMPARES_TWO = {f"numpy.{name}": f" numpy.{name}imum(x, y) compares two values." for name in ("max", "min")}


def canonical_axis(axis: SupportsIndex, ndim: int, caller: str, name: str = "axis") -> int:
    """The axis in [0, ndim); a negative one counts from the end."""
    axis = static_int(axis, name, caller)
    if not -ndim <= axis < ndim:
        raise bad(caller, f"`{name}` {axis} is out of bounds for an array with {ndim} axes",
                  fix=(f"use a value from {-ndim} to {ndim - 1}." if ndim else "a 0-d array has no axes.")
                  + _COMPARES_TWO.get(caller, ""),
                  exc=np.exceptions.AxisError)
    return axis % ndim


def check_sequence(caller: str, name: str, x: object) -> None:
    """Raise TypeError for a single number where a sequence is needed: ``expand_dims(x, 0)``."""
    if is_single(x):
        raise bad(caller, f"`{name}` must be a sequence", given={name: x if hasattr(x, "aval") else repr(x)},
                  fix="pass a tuple, such as (3,).")


def is_single(x: object) -> bool:
    """Whether x is a single number. Arrays and tracers without axes count as one, though their types are iterable."""
    return isinstance(x, int) or not isinstance(x, Iterable) or getattr(x, "shape", None) == ()


def canonical_axes(axes: Any, ndim: int, caller: str, name: str = "axis") -> tuple[int, ...]:
    """Tuple of distinct axes; None means all axes, an int means one."""
    if axes is None:
        return tuple(range(ndim))
    if is_single(axes):
        return (canonical_axis(axes, ndim, caller, name),)
    if hasattr(axes, "aval") and not dtypes.is_int(axes.dtype):
        raise _not_static(axes, name, caller)
    result = tuple(canonical_axis(a, ndim, caller, name) for a in axes)
    if len(set(result)) != len(result):
        raise bad(caller, f"`{name}` names an axis twice", given={name: str(tuple(axes))}, fix="name each axis once.",
                  exc=ValueError)
    return result
