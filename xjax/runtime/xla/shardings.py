"""How an array is sharded over devices, in jaxlib's form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from jaxlib import xla_client as xc

from xjax.core.once import once
from xjax.runtime.xla.names import Device, DeviceList, HloSharding


class SingleDeviceSharding(xc.SingleDeviceSharding):
    """A whole array on one device, in jaxlib's form; made by `on_device`."""

    @property
    def memory_kind(self) -> str | None:
        return self._memory_kind

    @property
    def devices(self) -> tuple[Device, ...]:
        return (self._device,)

    def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding:
        return hlo_sharding_replicated()


class GSPMDSharding(xc.GSPMDSharding):
    """One piece of an array on each of several devices, in jaxlib's form; made by `on_devices`."""

    @property
    def memory_kind(self) -> str | None:
        return self._memory_kind

    @property
    def devices(self) -> tuple[Device, ...]:
        return tuple(self._devices)

    @property
    def hlo(self) -> HloSharding:
        return self._hlo_sharding

    def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding:
        return self._hlo_sharding


def on_device(device: Device, memory_kind: str | None = None) -> SingleDeviceSharding:
    """The one sharding object of a device (making one takes longer than a `device_put` that uses it)."""
    return _single_device(device, memory_kind)


_single_device = once(SingleDeviceSharding)
forget_devices = _single_device.cache_clear


def inspection_key(callback: Callable[[HloSharding], None]) -> bytes:
    """The configuration of the operation `InspectSharding`, which calls `callback` during compilation.

    The caller keeps `callback` alive until then.
    """
    return xc.encode_inspect_sharding_callback(callback)


def on_devices(
    devices: Sequence[Device], hlo: HloSharding, memory_kind: str | None = None
) -> GSPMDSharding:
    """A sharding over an ordered sequence of devices; position i of `hlo` is ``devices[i]``."""
    return GSPMDSharding(DeviceList(tuple(devices)), hlo, memory_kind)


@once
def hlo_sharding_replicated() -> HloSharding:
    """The sharding in which every device holds the whole array."""
    return HloSharding.replicate()


@lru_cache(maxsize=4096)
def hlo_sharding_tiled(
    tile_dims: tuple[int, ...], device_order: tuple[int, ...], replicate_last: bool = False
) -> HloSharding:
    """A grid of tiles: axis i is split into ``tile_dims[i]`` equal parts.

    Args:
      tile_dims: parts per axis; with `replicate_last` one more entry, the copies of each tile.
      device_order: for each tile, in row-major order, the position of its owner among the
        sharding's devices.
    """
    parts = tile_dims[:-1] if replicate_last else tile_dims
    if all(n == 1 for n in parts):
        return hlo_sharding_replicated()
    proto = xc.OpSharding()
    proto.type = xc.OpSharding.Type.OTHER
    proto.tile_assignment_dimensions = list(tile_dims)
    proto.tile_assignment_devices = list(device_order)
    proto.replicate_on_last_tile_dim = replicate_last
    return HloSharding.from_proto(proto)


def shard_indices(
    hlo: HloSharding, num_devices: int, shape: Sequence[int]
) -> list[tuple[slice, ...]]:
    """For each device, by position, its part of a global array of this shape; `slice(None)` along an unsplit axis."""
    if hlo.is_replicated() or num_devices == 1:
        return [(slice(None),) * len(shape)] * num_devices
    tiles = hlo.tile_assignment_dimensions()  # axes past the array's rank count copies of a tile
    sizes = [-(-n // parts) for n, parts in zip(shape, tiles, strict=False)]
    indices: list[tuple[slice, ...]] = [()] * num_devices
    for flat, position in enumerate(hlo.tile_assignment_devices()):
        tile = np.unravel_index(flat, tiles)[: len(shape)]
        indices[position] = tuple(
            slice(min(int(i) * size, n), min(int(i) * size + size, n)) if parts > 1 else slice(None)
            for i, size, n, parts in zip(tile, sizes, shape, tiles, strict=False)
        )
    return indices
