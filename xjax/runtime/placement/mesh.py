"""`Mesh`, a named grid of devices."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core.config import config
from xjax.core.errors import bad
from xjax.runtime.devices import backend
from xjax.runtime.placement.abstract_mesh import EMPTY_ABSTRACT_MESH, AbstractDevice, AbstractMesh
from xjax.runtime.placement.mesh_axes import AxisName as Axis
from xjax.runtime.placement.mesh_axes import AxisType, NamedAxes, checked_names, checked_types
from xjax.runtime.xla import Device
from xjax.typing import ArrayLike


class Mesh(NamedAxes, contextlib.ContextDecorator):
    """A grid of devices with named axes; immutable, hashable, a context manager and a decorator.

    Args:
      devices: array (or nested lists) of distinct devices.
      axis_names: one name for each axis of `devices`; a single name need not be in a sequence.
      axis_types: `AxisType.Auto` for each axis, which is the default.

    Raises:
      ValueError: if names, types and axes do not match, or a device or name occurs twice.
      TypeError: if a type is not an AxisType.
      NotImplementedError: for another type of axis.
    """

    def __init__(self, devices: Any, axis_names: Axis | Sequence[Axis],
                 axis_types: AxisType | Sequence[AxisType] | None = None) -> None:
        grid = np.array(devices, dtype=object)
        names = checked_names("Mesh", axis_names)
        given = {
            "devices": f"{grid.size} in a grid of shape {grid.shape}",
            "axis_names": repr(names),
        }
        if len(names) != grid.ndim:
            raise bad("Mesh", "the number of names differs from the number of axes", given,
                      "pass one name for each axis of `devices`.", exc=ValueError)  # fmt: skip
        if len(set(grid.flat)) != grid.size:
            raise bad("Mesh", "a device occurs twice", given, "list each device once.",
                      exc=ValueError)  # fmt: skip
        grid.flags.writeable = False
        self._grid, self.axis_names = grid, names
        self.axis_types = checked_types("Mesh", names, axis_types)
        self.devices_flat: tuple[Device, ...] = tuple(grid.flat)
        self._hash = hash((names, grid.shape, self.devices_flat))

    @property
    def devices(self) -> np.ndarray:
        """The grid, as a read-only object array."""
        return self._grid

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        return self._grid.shape

    @property
    def size(self) -> int:
        return 0 if self.devices_flat == (None,) else self._grid.size

    @property
    def is_scalar(self) -> bool:
        """Whether it is a single device without axes."""
        return self.size == 1 and not self.axis_names

    @property
    def device_ids(self) -> np.ndarray:
        """Ids of the devices, in the shape of the grid."""
        return np.array([d.id for d in self.devices_flat]).reshape(self._grid.shape)

    @property
    def local_devices(self) -> list[Device]:
        """Devices of this process."""
        return [d for d in self.devices_flat if _is_local(d)]

    @property
    def is_multi_process(self) -> bool:
        return len(self.local_devices) != self.size

    @property
    def local_mesh(self) -> Mesh:
        """The part of the grid whose devices belong to this process.

        Raises: ValueError if they are not a contiguous block of the grid.
        """
        local = np.array([_is_local(d) for d in self.devices_flat]).reshape(self._grid.shape)
        block = tuple(slice(i.min(), i.max() + 1) for i in np.nonzero(local))
        if not local[block].all():
            raise bad("Mesh.local_mesh", "the devices of this process are not a contiguous block of the mesh",
                      {"device_ids": self.device_ids.tolist(), "of this process": [d.id for d in self.local_devices]},
                      "make a mesh of xjax.local_devices().", exc=ValueError)
        return Mesh(self._grid[block], self.axis_names)

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The mesh without its devices; it keeps their kind."""
        if not self.axis_names:
            return EMPTY_ABSTRACT_MESH
        first = self.devices_flat[0]
        cores = getattr(first, "core_count", None) if first.platform == "gpu" else None
        return AbstractMesh(self.axis_sizes, self.axis_names, self.axis_types,
                            abstract_device=AbstractDevice(first.device_kind, cores, first.platform))

    def update(self, devices: ArrayLike | None = None, axis_names: Axis | Sequence[Axis] | None = None,
               axis_types: AxisType | Sequence[AxisType] | None = None) -> Mesh:
        """The mesh with other devices, names or types of axes."""
        return Mesh(self._grid if devices is None else devices, self.axis_names if axis_names is None else axis_names,
                    self.axis_types if axis_types is None else axis_types)

    def sdy_text(self, name: str = "mesh", first: Mesh | None = None) -> str:
        """The line that declares the mesh: ``sdy.mesh @mesh = <["x"=2, "y"=2]>``.

        Devices are numbered by their position in the grid of the program's `first` mesh, which determines the
        program's device assignment.
        """
        order = ""
        if first is not None and first.devices_flat != self.devices_flat:
            order = f", device_ids=[{', '.join(str(first.devices_flat.index(d)) for d in self.devices_flat)}]"
        return f"sdy.mesh @{name} = <{self._sdy_axes()}{order}>"

    def __copy__(self) -> Mesh:
        return self                         # its devices are objects of this process, not to be copied

    def __deepcopy__(self, memo: dict) -> Mesh:
        return self

    def __enter__(self) -> Mesh:
        _entered().append(config._push("mesh", self))
        return self

    def __exit__(self, *exc_info: object) -> None:
        config._pop(_entered().pop())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Mesh):
            return NotImplemented
        return (self._hash == other._hash and self.axis_names == other.axis_names
                and self._grid.shape == other._grid.shape
                and self.devices_flat == other.devices_flat)  # fmt: skip

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        axes = ", ".join(f"{axis!r}: {size}" for axis, size in self.shape_tuple)
        return f"Mesh({axes})"

    def __str__(self) -> str:
        return f"Mesh({self._axes_text()})" if self.axis_names else "Mesh()"


def _is_local(device: Device) -> bool:
    return device.process_index == device.client.process_index()


def make_mesh(
    axis_sizes: Sequence[int] | None = None,
    axis_names: Sequence[Axis] | None = None,
    axis_types: Sequence[AxisType] | None = None,
    *,
    devices: Sequence[Device] | None = None,
    axis_shapes: Sequence[int] | None = None,
) -> Mesh:
    """A mesh of the first devices (or of the given ones), in row-major order.

    Args:
      axis_sizes, axis_names: one size and one name for each axis.
      axis_types: only `AxisType.Auto`, the default here.
      devices: the devices to choose from; by default all.
      axis_shapes: name of `axis_sizes` before JAX 0.12.

    Raises:
      TypeError: without sizes or names, or with sizes under both names.
      ValueError: if there are too few devices.
      NotImplementedError: for an axis type other than `AxisType.Auto`.
    """
    if axis_sizes is not None and axis_shapes is not None:
        raise bad("make_mesh", "the sizes are given twice", {"axis_sizes": axis_sizes, "axis_shapes": axis_shapes},
                  "drop axis_shapes, the older name.")
    axis_sizes = axis_shapes if axis_sizes is None else axis_sizes
    if axis_sizes is None or axis_names is None:
        raise bad("make_mesh", "needs sizes and names of the axes",
                  {"axis_sizes": axis_sizes, "axis_names": axis_names}, 'write make_mesh((4, 2), ("data", "model")).')
    names = checked_names("make_mesh", axis_names)
    types = checked_types("make_mesh", names, axis_types)
    chosen = list(backend.devices() if devices is None else devices)
    wanted = math.prod(axis_sizes)
    if wanted > len(chosen):
        given = {"axis_sizes": f"{tuple(axis_sizes)}: {wanted} devices", "devices": len(chosen)}
        fix = "use a smaller mesh, or set jax_num_cpu_devices before the first use of a device."
        raise bad("make_mesh", "there are too few devices", given, fix, exc=ValueError)
    grid = np.array(chosen[:wanted], dtype=object).reshape(tuple(axis_sizes))
    return Mesh(grid, names, types)


_local = threading.local()


def _entered() -> list[dict]:
    """The values to restore at the end of each `with mesh:` block that this thread has entered."""
    try:
        return _local.entered
    except AttributeError:
        _local.entered = []
        return _local.entered
