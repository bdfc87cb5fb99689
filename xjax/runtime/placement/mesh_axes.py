"""The axes of meshes: `AxisType`, and `NamedAxes`, the base class of meshes with and without devices."""

from __future__ import annotations

import enum
import re
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from xjax.core.errors import bad

AxisName = Hashable


class AxisType(enum.Enum):
    """How the sharding of arrays along a mesh axis is chosen.

    Auto: by the compiler. Manual: by the body of a `shard_map`, in which the axis is named. Explicit: by the types of
    arrays, which xjax does not support.
    """

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()

    def __repr__(self) -> str:
        return self.name


class NamedAxes:
    """Base class of `Mesh` and `AbstractMesh`: names, sizes and types of axes."""

    axis_names: tuple[AxisName, ...]
    axis_sizes: tuple[int, ...]
    axis_types: tuple[AxisType, ...]

    @property
    def shape(self) -> OrderedDict[AxisName, int]:
        """Size of each axis by name."""
        return OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[AxisName, int], ...]:
        """Name and size of each axis."""
        return tuple(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """Number of devices; 0 for the empty mesh."""
        raise TypeError(f"{type(self).__name__} does not define its number of devices")

    @property
    def empty(self) -> bool:
        return self.size == 0

    @property
    def are_all_axes_auto(self) -> bool:
        return self._all_axes_are(AxisType.Auto)

    @property
    def are_all_axes_explicit(self) -> bool:
        return self._all_axes_are(AxisType.Explicit)

    @property
    def are_all_axes_manual(self) -> bool:
        return self._all_axes_are(AxisType.Manual)

    @property
    def are_all_axes_explicit_or_manual(self) -> bool:
        return bool(self.axis_types) and AxisType.Auto not in self.axis_types

    @property
    def auto_axes(self) -> tuple[AxisName, ...]:
        return self._axes_of_type(AxisType.Auto)

    @property
    def explicit_axes(self) -> tuple[AxisName, ...]:
        return self._axes_of_type(AxisType.Explicit)

    @property
    def manual_axes(self) -> tuple[AxisName, ...]:
        return self._axes_of_type(AxisType.Manual)

    @property
    def sdy_names(self) -> Mapping[AxisName, str]:
        """The names of the axes in programs; a name that is not an identifier is replaced."""
        taken = {n for n in self.axis_names if _is_identifier(n)}
        names: dict[AxisName, str] = {}
        for i, axis in enumerate(self.axis_names):
            text = axis if _is_identifier(axis) else f"axis{i}"
            while text in taken and text is not axis:
                text += "_"
            names[axis] = text
            taken.add(text)
        return names

    def _sdy_axes(self) -> str:
        """``["x"=2, "y"=2]``: the axes in the declaration of a mesh."""
        names = self.sdy_names
        return "[" + ", ".join(f'"{names[axis]}"={size}' for axis, size in self.shape_tuple) + "]"

    def _all_axes_are(self, kind: AxisType) -> bool:
        return bool(self.axis_types) and all(t is kind for t in self.axis_types)

    def _axes_of_type(self, kind: AxisType) -> tuple[AxisName, ...]:
        return tuple(name for name, t in zip(self.axis_names, self.axis_types, strict=True) if t is kind)

    def _axes_text(self) -> str:
        return ", ".join([*(f"{name!r}: {size}" for name, size in self.shape_tuple), f"axis_types={self.axis_types}"])


def checked_names(caller: str, names: AxisName | Sequence[AxisName]) -> tuple[AxisName, ...]:
    """Axis names as a tuple; a single name need not be in a sequence.

    Raises: ValueError if a name is None or occurs twice.
    """
    names = tuple(names) if isinstance(names, list | tuple) else (names,)
    if None in names:
        raise bad(caller, "None cannot be the name of an axis", {"axis_names": repr(names)}, "use strings.",
                  exc=ValueError)
    if len(set(names)) != len(names):
        raise bad(caller, "an axis name occurs twice", {"axis_names": repr(names)}, "use distinct names.",
                  exc=ValueError)
    return names


def checked_types(caller: str, names: Sequence[AxisName], types: Any,
                  manual: bool = False) -> tuple[AxisType, ...]:
    """The type of each axis; None means `Auto`.

    Args: manual: whether an axis may be `Manual`.
    Raises: TypeError for an element that is not an AxisType, ValueError unless there is one for each axis,
      NotImplementedError for `Explicit` axes, and for `Manual` axes unless `manual`.
    """
    if types is None:
        return (AxisType.Auto,) * len(names)
    types = tuple(types) if isinstance(types, list | tuple) else (types,)
    given = {"axis_names": repr(tuple(names)), "axis_types": repr(types)}
    if not all(isinstance(t, AxisType) for t in types):
        raise bad(caller, "the type of an axis must be an AxisType", given,
                  f"pass axis_types=(AxisType.Auto,) * {len(names)}, or drop it.")
    if len(types) != len(names):
        raise bad(caller, f"{len(names)} axis names, but {len(types)} axis types", given,
                  f"pass axis_types=(AxisType.Auto,) * {len(names)}, or drop it.", exc=ValueError)
    if AxisType.Explicit in types:
        raise bad(caller, "xjax has no explicit axes: its array types do not contain shardings", given,
                  "use AxisType.Auto, and lax.with_sharding_constraint where the compiler should not choose.",
                  exc=NotImplementedError)
    if AxisType.Manual in types and not manual:
        raise bad(caller, "a mesh of devices cannot have manual axes; an axis is manual only inside a shard_map", given,
                  "use AxisType.Auto, and shard_map(axis_names=) with the axes to make manual.",
                  exc=NotImplementedError)
    return types


def _is_identifier(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None
