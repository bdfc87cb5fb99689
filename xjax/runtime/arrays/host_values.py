"""Host values passed directly to an executable: numbers, NumPy scalars, and small NumPy arrays.

They are not made arrays for one launch: jaxlib transfers them within the call, in a third of the time. Only a number
that occurs again is made an array. `OPERANDS` contains the reader of each type, and `DONATED` those for a function that
donates arguments. Values of other types, and values for which the reader returns None, become arrays first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xjax.core.config import config
from xjax.runtime.arrays.array import Array
from xjax.runtime.arrays.number_cache import NUMBERS, add_host_number, add_number
from xjax.runtime.placement.places import default_place_of

# Reads a value for a launch: (value, key, operands) -> whether it stays a host value. It appends the launch's operand
# to `operands`: a buffer, or a value that is never written to. It appends the properties that select a program to
# `key`, whose first element, the trace key, determines the device of host values. None: the value must become an array
# first, and `key` and `operands` are invalid.
Reader = Callable[[Any, list[Any], list[Any]], bool | None]

# jaxlib passes values of these dtypes unchanged, whatever the options of JAX are.
_TAKEN = frozenset(map(np.dtype, (
    np.bool_, np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.float16, np.float32, np.complex64,
    ml_dtypes.bfloat16)))
# The dtypes that are narrowed to one of these without x64.
_NARROWER = {np.dtype(wide): np.dtype(narrow) for wide, narrow in (
    (np.int64, np.int32), (np.uint64, np.uint32), (np.float64, np.float32), (np.complex128, np.complex64))}
_MOST_BYTES = 1 << 16                   # for larger arrays the copy costs more than it saves


def _add_array(x: np.ndarray, key: list[Any], operands: list[Any]) -> bool | None:
    """Add a copy, since the program may read the memory until it ends."""
    dtype = x.dtype
    if x.nbytes > _MOST_BYTES:
        return None
    key += dtype, x.shape
    if dtype in _TAKEN:
        operands.append(x.copy())
        return True
    return _add_narrowed(x, operands)


def _add_scalar(x: np.generic, key: list[Any], operands: list[Any]) -> bool | None:
    key += x.dtype, ()
    if x.dtype in _TAKEN:
        operands.append(x)
        return True
    return _add_narrowed(x, operands)


def _add_number(x: bool | int | float | complex, key: list[Any], operands: list[Any]) -> bool:
    return add_number(x, default_place_of(key[0]), key, operands)


def _add_host_number(x: bool | int | float | complex, key: list[Any], operands: list[Any]) -> bool | None:
    return add_host_number(x, default_place_of(key[0]), key, operands)


def _add_narrowed(x: np.ndarray | np.generic, operands: list[Any]) -> bool | None:
    """Add a 64-bit NumPy value narrowed to 32 bits; None with x64, or if an integer would change."""
    dtype = _NARROWER.get(x.dtype)
    if dtype is None or config.enable_x64:
        return None
    narrow = x.astype(dtype)
    if dtype.kind not in "fc" and narrow.astype(x.dtype).tobytes() != x.tobytes():
        return None
    operands.append(narrow)
    return True


def readers() -> tuple[dict[type, Reader], dict[type, Reader]]:
    """`OPERANDS` and `DONATED`, while no guard checks transfers."""
    arrays = {np.ndarray: _add_array,
              **dict.fromkeys([dtype.type for dtype in (*_TAKEN, *_NARROWER)], _add_scalar)}
    return {**arrays, **dict.fromkeys(NUMBERS, _add_number)}, {**arrays, **dict.fromkeys(NUMBERS, _add_host_number)}


OPERANDS, DONATED = readers()           # a launch that donates a cached array of a number would delete it


def take_none() -> None:
    """From now on, each value becomes an array first, so that a guard can check its transfer."""
    OPERANDS.clear()
    DONATED.clear()


def add_operands(values: Sequence[Any], key: list[Any], operands: list[Any],
                 readers: Mapping[type, Reader] = OPERANDS) -> bool | None:
    """Add the operands of a launch for arrays and host values; returns whether any is a host value.

    `key` gets the types and placements of the values. None if a value must become an array first; `key` and `operands`
    are then invalid.
    """
    if len(values) > _MANY and type(values[0]) is Array:
        before = len(key)
        try:                            # if all are arrays, faster than the loop: by half since Python 3.12
            key += [x.aval for x in values]
            key += [x._place for x in values]
            operands += [x._buf for x in values]
            return False
        except AttributeError:
            del key[before:]
    has_host_values = False
    for x in values:
        if type(x) is Array:
            key += x.aval, x._place
            operands.append(x._buf)
        else:
            take = readers.get(type(x))
            on_host = None if take is None else take(x, key, operands)
            if on_host is None:
                return None
            has_host_values = has_host_values or on_host
    return has_host_values


_MANY = 8
