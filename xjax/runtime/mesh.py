"""`Mesh`, a named grid of devices, and `PartitionSpec`, which says how an array lies on it."""

from __future__ import annotations

import enum
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xjax.core.config import config
from xjax.core.errors import bad
from xjax.runtime import backend
from xjax.runtime.xla import Device

Axis = Hashable


class AxisType(enum.Enum):
    """Who decides how arrays are cut along a mesh axis; xjax meshes are `Auto`: the compiler."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()


class _Unconstrained:
    """`PartitionSpec.UNCONSTRAINED`: the compiler may cut this dimension as it likes."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


class PartitionSpec:
    """How the dimensions of an array are cut: an axis name, a tuple of names, or None each.

    Dimensions past the end are not cut. ``P("x")`` and ``P(("x",))`` are equal.

    >>> PartitionSpec("x", None, ("y", "z"))
    P('x', None, ('y', 'z'))
    """

    __slots__ = ("_parts",)
    UNCONSTRAINED = UNCONSTRAINED

    def __init__(self, *parts: Any) -> None:
        self._parts = tuple(_canonical_part(p) for p in parts)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, index: Any) -> Any:
        return self._parts[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartitionSpec):
            return self._parts == other._parts
        if isinstance(other, tuple):
            return self._parts == tuple(_canonical_part(p) for p in other)
        return NotImplemented

    def __add__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*self, *other) if isinstance(other, (PartitionSpec, tuple)) else NotImplemented

    def __radd__(self, other: Any) -> PartitionSpec:
        return PartitionSpec(*other, *self) if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._parts)

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self._parts))})"

    def __reduce__(self) -> tuple:
        return PartitionSpec, self._parts

    def axes(self, dimension: int) -> tuple[Axis, ...]:
        """Mesh axes that cut a dimension, the slowest first; none past the end."""
        part = self._parts[dimension] if dimension < len(self._parts) else None
        if part is None or part is UNCONSTRAINED:
            return ()
        return part if isinstance(part, tuple) else (part,)

    def all_axes(self) -> tuple[Axis, ...]:
        """Every mesh axis that the spec names, in order."""
        return tuple(axis for i in range(len(self._parts)) for axis in self.axes(i))


P = PartitionSpec


def _canonical_part(part: Any) -> Any:
    if isinstance(part, list | tuple):
        part = tuple(part)
        return None if not part else part[0] if len(part) == 1 else part
    return part


class Mesh:
    """A grid of devices with named axes; immutable, hashable, and a context manager.

    Args:
      devices: array (or nested lists) of distinct devices.
      axis_names: one name for each axis of `devices`; a single name may stand alone.
      axis_types: `AxisType.Auto` for each axis, if anything.
    Raises: ValueError where names and axes do not match, or a device or name occurs twice; NotImplementedError for
      another axis type.
    """

    def __init__(self, devices: Any, axis_names: Axis | Sequence[Axis],
                 axis_types: AxisType | Sequence[AxisType] | None = None) -> None:
        _refuse_other_than_automatic("Mesh", axis_types)
        grid = np.array(devices, dtype=object)
        names = tuple(axis_names) if isinstance(axis_names, list | tuple) else (axis_names,)
        given = {
            "devices": f"{grid.size} in a grid of shape {grid.shape}",
            "axis_names": repr(names),
        }
        if len(names) != grid.ndim:
            raise bad("Mesh", "axes and names differ in number", given,
                      "give one name for each axis of `devices`.", exc=ValueError)  # fmt: skip
        if len(set(names)) != len(names):
            raise bad("Mesh", "an axis name occurs twice", given, "use distinct names.",
                      exc=ValueError)  # fmt: skip
        if len(set(grid.flat)) != grid.size:
            raise bad("Mesh", "a device occurs twice", given, "list each device once.",
                      exc=ValueError)  # fmt: skip
        grid.flags.writeable = False
        self._grid, self.axis_names = grid, names
        self.devices_flat: tuple[Device, ...] = tuple(grid.flat)
        self._hash = hash((names, grid.shape, self.devices_flat))

    @property
    def devices(self) -> np.ndarray:
        """The grid: an object array, read-only."""
        return self._grid

    @property
    def shape(self) -> OrderedDict[Axis, int]:
        """Size of each axis by name."""
        return OrderedDict(zip(self.axis_names, self._grid.shape, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[Axis, int], ...]:
        """Name and size of each axis."""
        return tuple(self.shape.items())

    @property
    def axis_types(self) -> tuple[AxisType, ...]:
        return (AxisType.Auto,) * len(self.axis_names)

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        return self._grid.shape

    @property
    def size(self) -> int:
        return self._grid.size

    @property
    def empty(self) -> bool:
        return self._grid.size == 0

    @property
    def device_ids(self) -> np.ndarray:
        """Ids of the devices, in the shape of the grid."""
        return np.array([d.id for d in self.devices_flat]).reshape(self._grid.shape)

    @property
    def local_devices(self) -> list[Device]:
        """Devices of this process."""
        return [d for d in self.devices_flat if d.process_index == d.client.process_index()]

    @property
    def is_multi_process(self) -> bool:
        return len(self.local_devices) != self.size

    @property
    def sdy_names(self) -> Mapping[Axis, str]:
        """The names that the axes have in programs; those that are no identifiers get others."""
        taken = {n for n in self.axis_names if _is_identifier(n)}
        names: dict[Axis, str] = {}
        for i, axis in enumerate(self.axis_names):
            text = axis if _is_identifier(axis) else f"axis{i}"
            while text in taken and text is not axis:
                text += "_"
            names[axis] = text
            taken.add(text)
        return names

    def sdy_text(self, name: str = "mesh", first: Mesh | None = None) -> str:
        """The line that declares the mesh: ``sdy.mesh @mesh = <["x"=2, "y"=2]>``.

        Devices are numbered by their place in the grid of the program's `first` mesh, which the program's
        assignment names.
        """
        names = self.sdy_names
        axes = ", ".join(f'"{names[axis]}"={size}' for axis, size in self.shape.items())
        order = ""
        if first is not None and first.devices_flat != self.devices_flat:
            order = f", device_ids=[{', '.join(str(first.devices_flat.index(d)) for d in self.devices_flat)}]"
        return f"sdy.mesh @{name} = <[{axes}]{order}>"

    def __copy__(self) -> Mesh:
        return self                         # devices are those of this process: there is nothing to copy

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
        axes = ", ".join(f"{axis!r}: {size}" for axis, size in self.shape.items())
        return f"Mesh({axes})"


def make_mesh(
    axis_sizes: Sequence[int] | None = None,
    axis_names: Sequence[Axis] | None = None,
    axis_types: Sequence[AxisType] | None = None,
    *,
    devices: Sequence[Device] | None = None,
    axis_shapes: Sequence[int] | None = None,
) -> Mesh:
    """A mesh of the first devices there are (or of those given), in row-major order.

    Args: axis_sizes, axis_names: one of each for every axis; axis_types: only `AxisType.Auto`, the default here;
      axis_shapes: the name of `axis_sizes` before JAX 0.12.
    Raises: TypeError without sizes or names, or with sizes under both names; ValueError if there are too few devices;
      NotImplementedError for an axis type other than `AxisType.Auto`.
    """
    if axis_sizes is not None and axis_shapes is not None:
        raise bad("make_mesh", "the sizes are given twice", {"axis_sizes": axis_sizes, "axis_shapes": axis_shapes},
                  "leave axis_shapes out: it is the older name.")
    axis_sizes = axis_shapes if axis_sizes is None else axis_sizes
    if axis_sizes is None or axis_names is None:
        raise bad("make_mesh", "needs sizes and names of the axes",
                  {"axis_sizes": axis_sizes, "axis_names": axis_names}, 'write make_mesh((4, 2), ("data", "model")).')
    _refuse_other_than_automatic("make_mesh", axis_types)
    chosen = list(backend.devices() if devices is None else devices)
    wanted = math.prod(axis_sizes)
    if wanted > len(chosen):
        given = {"axis_sizes": f"{tuple(axis_sizes)}: {wanted} devices", "devices": len(chosen)}
        fix = "ask for a smaller mesh, or set jax_num_cpu_devices before the first use of a device."
        raise bad("make_mesh", "there are too few devices", given, fix, exc=ValueError)
    grid = np.array(chosen[:wanted], dtype=object).reshape(tuple(axis_sizes))
    return Mesh(grid, tuple(axis_names))


def _refuse_other_than_automatic(where: str, axis_types: AxisType | Sequence[AxisType] | None) -> None:
    kinds = (axis_types,) if isinstance(axis_types, AxisType) else axis_types or ()
    if any(kind is not AxisType.Auto for kind in kinds):
        raise bad(where, "xjax has automatic axes only", {"axis_types": repr(axis_types)},
                  "leave axis_types out; use shard_map for manual axes.", exc=NotImplementedError)


def current_mesh() -> Mesh | None:
    """The mesh of the innermost ``with mesh:`` of this thread."""
    return config.mesh


class set_mesh:
    """Make `mesh` the current one: for the process's thread from here on, or for a block `with set_mesh(mesh):`.

    A current mesh is what `with_sharding_constraint` of a PartitionSpec and `shard_map` without a mesh use.
    """

    def __init__(self, mesh: Mesh) -> None:
        if not isinstance(mesh, Mesh):
            raise bad("set_mesh", f"needs a Mesh, not a {type(mesh).__name__}", fix="make one with xjax.make_mesh.")
        self._mesh, self._before = mesh, config._push("mesh", mesh)

    def __enter__(self) -> Mesh:
        return self._mesh

    def __exit__(self, *exc_info: object) -> None:
        config._pop(self._before)


_local = threading.local()


def _entered() -> list[dict]:
    """What to restore at the end of each `with mesh:` that this thread is in."""
    try:
        return _local.entered
    except AttributeError:
        _local.entered = []
        return _local.entered


def _is_identifier(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None
