"""Conversion of values to arrays, and transfers of arrays: `to_array`, `device_put`, `device_get`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.context import at_root
from xjax.core.errors import bad
from xjax.core.key_types import physical
from xjax.core.trace import Tracer, escaped
from xjax.core.types import not_an_array, typeof
from xjax.runtime import xla
from xjax.runtime.arrays import hooks
from xjax.runtime.arrays.array import WITH_BUFFERS, Array, from_numpy, put, upload
from xjax.runtime.arrays.number_cache import CACHED_SCALARS, NUMBERS, from_numpy_scalar, from_scalar
from xjax.runtime.devices import host_errors, processes
from xjax.runtime.placement.places import Place, on, sharding_of
from xjax.runtime.placement.sharding import Sharding, SingleDeviceSharding
from xjax.runtime.xla import Device
from xjax.typing import ArrayLike


def to_array(x: ArrayLike, place: Place | None = None) -> Array:
    """An array-like value that is not a tracer as an `Array`: an `Array` itself, any other value as a new array.

    Raises: TypeError for a value that is not array-like; the escaped-tracer error for a tracer.
    """
    kind = type(x)
    if kind is Array:
        return x                            # type: ignore[return-value]  # pyright does not follow `kind`
    if isinstance(x, Tracer):
        raise escaped(x)
    if isinstance(x, (bool, int, float, complex)):
        return _uploaded(x, np.asarray(x, typeof(x).dtype), place)
    if isinstance(x, (np.ndarray, np.generic)):
        if not dtypes.is_supported(x.dtype):
            raise not_an_array(x)
        return _uploaded(x, np.asarray(x), place)
    return _from_foreign(x, place)


def _uploaded(x: ArrayLike, value: np.ndarray, place: Place | None) -> Array:
    """`value` as the array of `x`; a guard's message shows x."""
    if hooks.guard is not None:
        hooks.guard.check(hooks.TO_DEVICE, x)
    aval = typeof(x)
    return upload(value, place, aval.weak_type, keep_dtype=aval.dtype == value.dtype)


def to_operand(x: ArrayLike, place: Place | None = None) -> Array:
    """`to_array` for the operand of a launch: a number's array may be cached, so it must not be donated or returned."""
    if type(x) in NUMBERS:
        return from_scalar(x, place)                # type: ignore[arg-type]  # pyright does not follow `type(x)`
    if isinstance(x, np.generic) and x.dtype in CACHED_SCALARS:
        return from_numpy_scalar(x, place)
    return to_array(x, place)


def _from_foreign(x: object, place: Place | None) -> Array:
    """Arrays of other libraries, through the NumPy protocol."""
    if isinstance(x, (str, bytes, list, tuple, dict, set, type(None))) or not hasattr(x, "__array__"):
        raise not_an_array(x)
    value = np.asarray(x)
    if not dtypes.is_supported(value.dtype):
        raise not_an_array(x)
    return from_numpy(value, place)


def stacked_on_host(arrays: Sequence[Any]) -> Array | None:
    """Stack many small arrays of one type in host memory along a new leading axis, by NumPy.

    None if a program is faster: for few or large arrays, if a value is not computed yet or is on another device, or
    inside a transformation. A program of hundreds of arguments takes 1 us per argument.
    """
    if len(arrays) < 8 or not at_root() or {*map(type, arrays)} != {Array}:
        return None
    aval, place = arrays[0].aval, arrays[0]._place
    home = sharding_of(place)
    if (type(home) is not SingleDeviceSharding or home.device.platform != "cpu" or aval.dtype not in WITH_BUFFERS
            or aval.size > 4096 or any([x.aval is not aval or x._place is not place for x in arrays])
            or not all([x.is_ready() for x in arrays])):
        return None
    return upload(np.array([xla.to_numpy(x._buf) for x in arrays]), place, keep_dtype=True)


def device_put(x: ArrayLike, device: Device | Sharding | None = None) -> Array:
    """`x` (one array) on a device or with a sharding; see `xjax.device_put` for trees."""
    return _device_put(x, device) if hooks.guard is None else hooks.guard.explicitly(_device_put, x, device)


def _device_put(x: ArrayLike, device: Device | Sharding | None) -> Array:
    if device is None:
        return to_array(x)
    sharding = as_sharding("device_put", device)
    if len(sharding.devices) > 1:
        aval = typeof(x)
        sharding.check_even(physical(aval).shape, "device_put", aval.str_short())
    if processes.connection is not None:
        hooks.between_processes.check(x, sharding)
    if type(x) is Array:
        x._live_buffer()
        return put(x, sharding)
    return to_array(x, sharding)


def as_sharding(caller: str, device: Device | Sharding) -> Sharding:
    """A user's `device=` as a sharding: a device or a sharding.  Raises: TypeError for another type."""
    if not isinstance(device, (Sharding, xla.Device)):
        raise bad(caller, f"needs a device or a sharding, not a {type(device).__name__}",
                  {"device": repr(device)}, 'pass one of xjax.devices(), such as xjax.devices("cpu")[0].')
    return device if isinstance(device, Sharding) else on(device)


def device_get(x: Array) -> np.ndarray:
    """The value of one array, by an explicit transfer; see `xjax.device_get` for trees."""
    return x.numpy() if hooks.guard is None else hooks.guard.explicitly(x.numpy)


def block_until_ready(leaves: Sequence[Any]) -> None:
    """Wait for every array among `leaves`."""
    try:
        xla.block_until_ready([x._live_buffer() for x in leaves if type(x) is Array])
    except xla.XlaRuntimeError as error:                # from a program on a GPU, which runs after its launch
        host_errors.raise_original(error)
