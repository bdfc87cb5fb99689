"""`AbstractMesh`: a mesh of named axes whose devices are not chosen yet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from xjax.core.errors import bad
from xjax.runtime.placement.mesh_axes import AxisName, AxisType, NamedAxes, checked_names, checked_types


class AbstractDevice:
    """The kind and platform of the devices of an abstract mesh."""

    __slots__ = ("device_kind", "num_cores", "platform")

    def __init__(self, device_kind: str, num_cores: int | None, platform: str):
        self.device_kind, self.num_cores, self.platform = device_kind, num_cores, platform

    def _key(self) -> tuple:
        return self.device_kind, self.num_cores, self.platform

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, AbstractDevice) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def _text(self) -> str:
        return f"device_kind={self.device_kind}, num_cores={self.num_cores}, platform={self.platform}"

    def __repr__(self) -> str:
        return f"AbstractDevice({self._text()})"


class AbstractMesh(NamedAxes):
    """A mesh without devices: sizes, names and types of its axes; immutable and hashable.

    In a program it represents any mesh with these axes. The devices are those of the arguments that are sharded over
    such a mesh, or of the mesh of `set_mesh`.

    Args:
      axis_sizes, axis_names: one size and one name for each axis.
      axis_types: for each axis `AxisType.Auto`, or `AxisType.Manual` inside a `shard_map`.
      abstract_device: kind of the devices, if it matters; meshes with different kinds are not equal.

    Raises: ValueError if sizes, names and types do not match, or a name occurs twice; NotImplementedError for explicit
      axes.

    >>> AbstractMesh((2, 4), ("x", "y"))
    AbstractMesh('x': 2, 'y': 4, axis_types=(Auto, Auto))
    """

    def __init__(self, axis_sizes: Sequence[int], axis_names: AxisName | Sequence[AxisName],
                 axis_types: AxisType | Sequence[AxisType] | None = None, *,
                 abstract_device: AbstractDevice | None = None):
        names = checked_names("AbstractMesh", axis_names)
        sizes = tuple(axis_sizes)
        if len(sizes) != len(names) or not all(isinstance(n, int) and n > 0 for n in sizes):
            raise bad("AbstractMesh", "needs a positive size for each axis name",
                      {"axis_sizes": repr(sizes), "axis_names": repr(names)},
                      'write AbstractMesh((2, 4), ("x", "y")).', exc=ValueError)
        self.axis_sizes, self.axis_names, self.abstract_device = sizes, names, abstract_device
        self.axis_types = checked_types("AbstractMesh", names, axis_types, manual=True)
        self._hash = hash(self._key())

    def _key(self) -> tuple:
        return self.axis_sizes, self.axis_names, self.axis_types, self.abstract_device

    @property
    def size(self) -> int:
        return math.prod(self.axis_sizes) if self.axis_sizes else 0

    @property
    def abstract_mesh(self) -> AbstractMesh:
        return self

    def update(self, axis_sizes: Sequence[int] | None = None, axis_names: Sequence[AxisName] | None = None,
               axis_types: Sequence[AxisType] | None = None, **device: object) -> AbstractMesh:
        """The mesh with other sizes, names or types of axes, or another `abstract_device`."""
        return AbstractMesh(self.axis_sizes if axis_sizes is None else axis_sizes,
                            self.axis_names if axis_names is None else axis_names,
                            self.axis_types if axis_types is None else axis_types,
                            **{"abstract_device": self.abstract_device, **device})

    def update_axis_types(self, name_to_type: Mapping[AxisName, AxisType]) -> AbstractMesh:
        """The mesh with other types of the given axes."""
        return self.update(axis_types=[name_to_type.get(name, t)
                                       for name, t in zip(self.axis_names, self.axis_types, strict=True)])

    def sdy_text(self, name: str = "mesh", first: Any = None) -> str:
        """The line that declares the mesh in a program; its devices are those of the program, in order."""
        return f"sdy.mesh @{name} = <{self._sdy_axes()}>"

    devices = property(lambda self: self._refuse("devices"))
    device_ids = property(lambda self: self._refuse("device_ids"))
    local_devices = property(lambda self: self._refuse("local_devices"))
    local_mesh = property(lambda self: self._refuse("local_mesh"))
    is_multi_process = property(lambda self: self._refuse("is_multi_process"))

    def _refuse(self, what: str) -> NoReturn:
        raise bad("AbstractMesh", f"`{what}` needs devices, and an abstract mesh has none", {"mesh": repr(self)},
                  "use a Mesh, made with xjax.make_mesh.", exc=ValueError)

    def __enter__(self) -> NoReturn:
        raise bad("AbstractMesh", "`with` needs a mesh of devices", {"mesh": repr(self)},
                  "write `with xjax.sharding.use_abstract_mesh(mesh):`.", exc=ValueError)

    def __exit__(self, *exc_info: object) -> None:
        """Not called, since `__enter__` raises."""

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, AbstractMesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple:
        return _rebuild, self._key()

    def __repr__(self) -> str:
        if not self.axis_names:
            return "AbstractMesh((), axis_types=())"
        device = "" if self.abstract_device is None else f", {self.abstract_device._text()}"
        return f"AbstractMesh({self._axes_text()}{device})"


def _rebuild(sizes: tuple, names: tuple, types: tuple, device: AbstractDevice | None) -> AbstractMesh:
    return AbstractMesh(sizes, names, types, abstract_device=device)


EMPTY_ABSTRACT_MESH = AbstractMesh((), ())
