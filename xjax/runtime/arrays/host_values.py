"""Host values passed directly to an executable: numbers, NumPy scalars, and small NumPy arrays.

They are not made arrays for one launch: jaxlib puts them on the device within the call, in a third of the time. A
number that comes again is made an array once. `OPERANDS` says how each type is taken; values of other types, and those
for which the function in it returns None, become arrays first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xjax.core.config import config
from xjax.runtime.arrays.array import Array
from xjax.runtime.arrays.number_cache import NUMBERS, number_operand
from xjax.runtime.placement.places import default_place_of
from xjax.runtime.xla import Buffer

# What a launch takes for a value: a buffer, or a value of the host that nobody writes to. A function of the value and
# of a key that begins with the trace key, which says where such values go; the key gets what selects a program.
Operand = Callable[[Any, list[Any]], Any]

# jaxlib changes no value of these dtypes, whatever JAX has set.
_TAKEN = frozenset(map(np.dtype, (
    np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.float16, np.float32, np.complex64,
    ml_dtypes.bfloat16)))
# Those that become one of these without x64.
_NARROWER = {np.dtype(wide): np.dtype(narrow) for wide, narrow in (
    (np.int64, np.int32), (np.uint64, np.uint32), (np.float64, np.float32), (np.complex128, np.complex64))}
_MOST_BYTES = 1 << 16                   # of larger arrays the copy costs more than the way it takes


def _of_array(x: np.ndarray, key: list[Any]) -> Any:
    """A copy, since the launch may read the memory as long as the program runs."""
    dtype = x.dtype
    if x.nbytes > _MOST_BYTES:
        return None
    key += dtype, x.shape
    return x.copy() if dtype in _TAKEN else _narrowed(x)


def _of_scalar(x: np.generic, key: list[Any]) -> Any:
    key += x.dtype, ()
    return x if x.dtype in _TAKEN else _narrowed(x)


def _of_number(x: bool | int | float | complex, key: list[Any]) -> Any:
    home = default_place_of(key[0])
    found = number_operand(x, home)
    if type(found) is Array:
        key += found.aval, home
        return found._buf
    key += found, home
    return x


def _narrowed(x: Any) -> Any:
    """A 64-bit NumPy value narrowed to 32 bits; None if the value would change."""
    dtype = _NARROWER.get(x.dtype)
    if dtype is None or config.enable_x64:
        return None
    found = x.astype(dtype)
    return found if dtype.kind in "fc" or found.astype(x.dtype).tobytes() == x.tobytes() else None


def operands() -> dict[type, Operand]:
    """How each type is taken, as long as no guard looks at moves."""
    return {np.ndarray: _of_array, **dict.fromkeys(NUMBERS, _of_number),
            **dict.fromkeys([dtype.type for dtype in (*_TAKEN, *_NARROWER)], _of_scalar)}


OPERANDS = operands()


def take_none() -> None:
    """From now on every value becomes an array first, where a guard sees it move."""
    OPERANDS.clear()


def add_operands(values: Sequence[Any], key: list[Any], operands: list[Any]) -> bool | None:
    """Add what a launch takes for arrays and values of the host; whether any is not on a device yet.

    `key` gets the types and places of the values. None if there is a value that must become an array first; key and
    operands are of no use then.
    """
    if len(values) > _MANY and type(values[0]) is Array:
        before = len(key)
        try:                            # faster than the loop, if they are arrays all: by half from Python 3.12 on
            key += [x.aval for x in values]
            key += [x._place for x in values]
            operands += [x._buf for x in values]
            return False
        except AttributeError:
            del key[before:]
    of_host = False
    for x in values:
        if type(x) is Array:
            key += x.aval, x._place
            operands.append(x._buf)
        else:
            take = OPERANDS.get(type(x))
            operand = None if take is None else take(x, key)
            if operand is None:
                return None
            operands.append(operand)
            of_host = of_host or type(operand) is not Buffer
    return of_host


_MANY = 8
