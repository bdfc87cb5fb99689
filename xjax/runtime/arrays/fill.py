"""Arrays filled with one value, made on their target devices, and the sharding for `zeros_like` and its relatives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xjax.core import array_type
from xjax.core.context import at_root
from xjax.core.types import ShapedArray
from xjax.ops.shape import broadcast_in_dim
from xjax.runtime import xla
from xjax.runtime.arrays.array import Array, on_device_type
from xjax.runtime.arrays.hooks import TO_DEVICE, check_move
from xjax.runtime.arrays.moves import as_sharding, to_array
from xjax.runtime.placement.sharding import Sharding
from xjax.runtime.xla import Device
from xjax.typing import ArrayLike


def placement_like(x: object, shape: Sequence[int], weak_type: bool) -> Sharding | None:
    """The sharding of a new array made like `x`; None: the default.

    It is the sharding of `x` if `x` is committed, is not weakly typed, and has the same shape or is replicated. Inside
    a program the compiler chooses.
    """
    if weak_type or not at_root():
        return None
    if type(x) is Array:
        if not x.committed:
            return None
        sharding = x.sharding
    else:
        sharding = getattr(x, "sharding", None)
        if not isinstance(sharding, Sharding):
            return None
    return sharding if tuple(shape) == tuple(x.shape) or sharding.is_fully_replicated else None


def filled_at(caller: str, number: ArrayLike, aval: ShapedArray, device: Device | Sharding) -> array_type.Array:
    """An array filled with `number`, which has the dtype of `aval`, on a device or with a sharding.

    Each device fills its own part: the whole array need not fit on one device.
    """
    sharding = as_sharding(caller, device)
    if len(sharding.devices) == 1:
        value = to_array(number, sharding)
        return broadcast_in_dim(value, aval.shape, ()) if aval.shape else value
    sharding.check_even(aval.shape, caller, aval.str_short())
    stored = on_device_type(aval)
    part = np.full(sharding.shard_shape(aval.shape), number, stored.dtype)
    check_move(TO_DEVICE, part)
    devices = list(sharding.addressable_list)
    return Array(xla.device_put(stored, sharding.xla(aval.ndim), [part] * len(devices), devices), aval, sharding)
