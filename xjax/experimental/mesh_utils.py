"""Grids of devices for `xjax.sharding.Mesh`, for programs written before `xjax.make_mesh` existed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.runtime.devices import backend

__all__ = ["create_device_mesh"]

__getattr__ = attributes_of(__name__)


def create_device_mesh(mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *,
                       contiguous_submeshes: bool = False, allow_split_physical_axes: bool = False) -> np.ndarray:
    """`devices` (None: all devices) as an array of `mesh_shape`, in row-major order.

    Args:
      contiguous_submeshes, allow_split_physical_axes: for TPUs; accepted, and do nothing.

    Raises: ValueError if the devices do not fill the shape.

    >>> xjax.sharding.Mesh(create_device_mesh((1, len(xjax.devices()))), ("data", "model")).shape["data"]
    1
    """
    shape = tuple(mesh_shape)
    chosen = list(backend.devices() if devices is None else devices)
    if math.prod(shape) != len(chosen):
        raise bad("create_device_mesh", "the devices do not fill the shape",
                  {"mesh_shape": f"{shape}: {math.prod(shape)} devices", "devices": len(chosen)},
                  "pass devices=xjax.devices()[:n], or use xjax.make_mesh, which uses the first ones.", exc=ValueError)
    grid = np.empty(len(chosen), object)
    grid[:] = chosen
    return grid.reshape(shape)
