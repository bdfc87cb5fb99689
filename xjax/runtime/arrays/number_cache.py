"""Arrays of numbers as operands: recent ones are cached, since programs use the same few numbers repeatedly.

A cached array is only ever the operand of a launch. No user gets one and no program donates one, since deleting it
would delete every other array of that number: see `moves.to_array` and `host_values.DONATED` for these.
"""

from __future__ import annotations

import numpy as np

from xjax.core.config import config
from xjax.core.types import ShapedArray, python_scalar_aval, typeof
from xjax.runtime.arrays import hooks
from xjax.runtime.arrays.array import Array, upload
from xjax.runtime.placement.places import Place, default_place

_scalars: dict[tuple, Array] = {}
CACHED_SCALARS = frozenset(map(np.dtype, ("bool", "int32", "uint32", "float32", "float64")))


def from_scalar(x: bool | int | float | complex, place: Place | None = None) -> Array:
    """The cached array of a Python number, weakly typed.

    A guard checks a cached number too, since which numbers are cached depends on chance.
    """
    if hooks.guard is not None:
        hooks.guard.check(hooks.TO_DEVICE, x)
    place = default_place() if place is None else place
    key = (type(x), x if x else str(x), config.enable_x64, place)       # 0.0 == -0.0
    array = _scalars.get(key)
    if array is None or array._buf.is_deleted():
        aval = python_scalar_aval(x)
        if len(_scalars) > 10_000:
            _scalars.clear()
        array = _scalars[key] = upload(np.asarray(x, aval.dtype), place, aval.weak_type)
    return array


NUMBERS = frozenset((float, int, bool, complex))


def add_number(x: bool | int | float | complex, place: Place, key: list, operands: list) -> bool:
    """Add a number's type and placement to `key`, and its operand to `operands`; returns whether that is a host value.

    The operand is the cached array of a recently seen number, else the number itself. Launching with the number takes
    half as long as making an array first, so an array is made only when the number occurs again.
    """
    kind, x64 = type(x), config.enable_x64
    known = (kind, x if x else str(x), x64, place)                       # 0.0 == -0.0
    array = _scalars.get(known)
    if array is None or hooks.guard is not None or array._buf.is_deleted():
        code = hash(known)
        if code not in _seen and hooks.guard is None and add_host_number(x, place, key, operands):
            if len(_seen) > 500:
                _seen.clear()
            _seen.add(code)
            return True
        array = from_scalar(x, place)
    key += array.aval, place
    operands.append(array._buf)
    return False


def add_host_number(x: bool | int | float | complex, place: Place, key: list, operands: list) -> bool | None:
    """`add_number` without the cache; None, and nothing is added, if the number must become an array first."""
    kind = type(x)
    if config.enable_x64 or (kind is int and not -1 << 31 <= x < 1 << 31):      # type: ignore[operator]
        return None
    key += _TYPES[kind], place
    operands.append(x)
    return True


_seen: set[int] = set()                 # hashes of numbers seen once; Python's collector would have to scan tuples
# The types without x64.
_TYPES = {kind: ShapedArray((), np.dtype(dtype), kind is not bool) for kind, dtype in (
    (bool, np.bool_), (int, np.int32), (float, np.float32), (complex, np.complex64))}


def from_numpy_scalar(x: np.generic, place: Place | None) -> Array:
    """The cached array of a NumPy scalar: derivative rules and promotion use the same few repeatedly."""
    if hooks.guard is not None:
        hooks.guard.check(hooks.TO_DEVICE, x)
    place = default_place() if place is None else place
    aval = typeof(x)
    key = (x.dtype, x.tobytes(), aval, id(place))
    array = _scalars.get(key)
    if array is None or array._buf.is_deleted():
        if len(_scalars) > 10_000:
            _scalars.clear()
        array = _scalars[key] = upload(np.asarray(x), place, aval.weak_type, keep_dtype=aval.dtype == x.dtype)
    return array
