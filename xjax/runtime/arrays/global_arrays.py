"""Arrays assembled from parts: each process provides the parts on its own devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.tree import tree_map
from xjax.core.types import ShapedArray
from xjax.runtime import xla
from xjax.runtime.arrays.array import Array, from_numpy, on_device_type, put
from xjax.runtime.arrays.hooks import TO_DEVICE, check_move
from xjax.runtime.devices.backend import process_count
from xjax.runtime.placement.places import device_names, on
from xjax.runtime.placement.sharding import Sharding, SingleDeviceSharding
from xjax.typing import ArrayLike, DTypeLike


def make_array_from_callback(shape: Sequence[int], sharding: Sharding, data_callback: Callable[[Any], Any],
                             dtype: DTypeLike | None = None) -> Array:
    """An array assembled from calls of a function for its parts: `data_callback(index)` returns `whole[index]`.

    Args:
      shape: of the whole array.
      data_callback: called with a tuple of slices, once for each distinct part on this process's devices; returns a
        NumPy array, an `Array` or a number with the shape of the part.
      dtype: of the whole array; by default that of the first part.

    Raises: ValueError if a part has the wrong shape.

    >>> from xjax.sharding import SingleDeviceSharding
    >>> xjax.make_array_from_callback((3,), SingleDeviceSharding(xjax.devices()[0]), lambda i: np.arange(3.0)[i])
    Array([0., 1., 2.], dtype=float32)
    """
    shape = tuple(shape)
    made: dict[tuple, np.ndarray] = {}
    parts = []
    for index in sharding.addressable_devices_indices_map(shape).values():
        key = tuple((i.start, i.stop) for i in index)
        if key not in made:
            made[key] = np.asarray(data_callback(index), dtype)
        parts.append(made[key])
    return _join("make_array_from_callback", shape, sharding, parts, dtype)


def make_array_from_single_device_arrays(shape: Sequence[int], sharding: Sharding, arrays: Sequence[Array], *,
                                         dtype: DTypeLike | None = None) -> Array:
    """An array made of existing parts, one on each of this process's devices of `sharding`, in any order.

    The parts are not copied: deleting them deletes the whole array.

    Args:
      dtype: of the whole array; needed only if this process has no part.

    Raises: ValueError if a device has no part or several, or a part has another shape or dtype or is on another device.
    """
    caller, shape = "make_array_from_single_device_arrays", tuple(shape)
    devices = sharding.addressable_list
    part_of = {x.sharding.devices[0]: x for x in arrays if len(x.sharding.devices) == 1}
    if len(arrays) != len(devices) or part_of.keys() != set(devices):
        given = {"arrays": len(arrays), "on": device_names(sorted(part_of, key=lambda d: d.id)) if part_of else "none"}
        if devices:
            given["needed on"] = device_names(devices)
        raise bad(caller, "each device of the sharding in this process needs one array", given,
                  "put each part on its device: see sharding.addressable_devices_indices_map(shape).", exc=ValueError)
    if not devices:
        return _join(caller, shape, sharding, [], dtype)
    parts = [part_of[d] for d in devices]
    dtype, want = parts[0].dtype if dtype is None else dtypes.user_dtype(dtype, caller), sharding.shard_shape(shape)
    for x in parts:
        if x.shape != want or x.dtype != dtype:
            raise bad(caller, "a part has the wrong shape or dtype",
                      {"part": x.aval.str_short(), "needed": ShapedArray(want, dtype).str_short(), "whole": shape},
                      "each device takes whole[index] of sharding.devices_indices_map(shape).", exc=ValueError)
    if len(sharding.devices) == 1:
        return put(parts[0], on(devices[0]) if isinstance(sharding, SingleDeviceSharding) else sharding)
    aval = ShapedArray(shape, dtype)
    stored = on_device_type(aval)
    return Array(xla.join(stored, sharding.xla(stored.ndim), [x._live_buffer() for x in parts]), aval, sharding)


def make_array_from_process_local_data(sharding: Sharding, local_data: ArrayLike,
                                       global_shape: Sequence[int] | None = None) -> Array:
    """The array of which this process has `local_data`: in a single process, that array with `sharding`.

    Args:
      local_data: tree of arrays: the part of this process, or the whole, equal in all processes.
      global_shape: shape of the whole array. By default, each axis of `local_data` is multiplied by the number of
        parts into which the sharding divides it between processes.

    Raises: ValueError if `local_data` does not contain the parts of this process's devices.
    """
    return tree_map(lambda x: _from_local(sharding, np.asarray(x), global_shape), local_data)


def _from_local(sharding: Sharding, local: np.ndarray, global_shape: Sequence[int] | None) -> Array:
    caller = "make_array_from_process_local_data"
    shape = _whole_shape(sharding, local.shape) if global_shape is None else tuple(global_shape)
    starts = [[i.start or 0 for i in index] for index in sharding.addressable_devices_indices_map(shape).values()]
    size = sharding.shard_shape(shape)
    # The data begin where the first of this process's parts begins, unless they are the whole.
    first = [0 if mine == whole else min(column) for mine, whole, column in
             zip(local.shape, shape, zip(*starts, strict=True), strict=False)]
    parts = [local[tuple(slice(start - origin, start - origin + n) for start, origin, n in
                         zip(index, first, size, strict=True))] for index in starts]
    for part in parts:
        if part.shape != size:
            raise bad(caller, "the data of this process do not contain the parts of its devices",
                      {"data": local.shape, "global_shape": shape, "part of a device": size},
                      "pass all rows of this process's devices, in their order.", exc=ValueError)
    return _join(caller, shape, sharding, parts, local.dtype)


def _whole_shape(sharding: Sharding, local: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the array of which a process has a part of shape `local`."""
    if process_count() == 1:
        return local
    whole = list(local)
    places = sharding.devices_indices_map((sharding.num_devices,) * len(local))
    for axis in range(len(local)):
        parts: dict[int, set[int]] = {}                     # of each process: where the parts of its devices begin
        for device, index in places.items():
            parts.setdefault(device.process_index, set()).add(index[axis].start or 0)
        whole[axis] *= len(set(map(frozenset, parts.values())))
    return tuple(whole)


def _join(caller: str, shape: tuple[int, ...], sharding: Sharding, parts: Sequence[np.ndarray],
          dtype: DTypeLike | None) -> Array:
    if not parts and dtype is None:
        raise bad(caller, "no device of this process has a part, so the dtype is unknown", fix="pass dtype=.",
                  exc=ValueError)
    dtype = dtypes.canonicalize_dtype(parts[0].dtype if dtype is None else dtype)
    want = tuple(sharding.shard_shape(shape))
    for part in parts:
        if part.shape != want:
            raise bad(caller, "a part has the wrong shape", {"part": part.shape, "needed": want, "whole": shape},
                      "each device takes whole[index] of sharding.devices_indices_map(shape).", exc=ValueError)
    if isinstance(sharding, SingleDeviceSharding):
        return from_numpy(parts[0].astype(dtype), on(sharding.devices[0]))
    aval = ShapedArray(shape, dtype)
    check_move(TO_DEVICE, aval)
    buf = xla.device_put(aval, sharding.xla(len(shape)), [p.astype(dtype) for p in parts],
                         list(sharding.addressable_list))
    return Array(buf, aval, sharding)
