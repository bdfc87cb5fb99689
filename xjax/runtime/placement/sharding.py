"""Shardings: which device holds which part of an array.

Users write `NamedSharding`; most arrays have a `SingleDeviceSharding`; a `GSPMDSharding` is a choice of the compiler
that no mesh describes. All are immutable and hashable. Each gives jaxlib's object (`xla`) and the text of an attribute
in a program (`attribute_text`).
"""

from __future__ import annotations

import itertools
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from xjax.core.errors import bad
from xjax.core.memory_kinds import default_kind, other_memory
from xjax.core.types import ShapedArray
from xjax.runtime import xla
from xjax.runtime.placement.abstract_mesh import AbstractMesh
from xjax.runtime.placement.mesh import AxisType, Mesh, make_mesh
from xjax.runtime.placement.partition_spec import UNCONSTRAINED, P, PartitionSpec
from xjax.runtime.xla import Buffer, Device, HloSharding

__all__ = [
    "AxisType",
    "GSPMDSharding",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "device_put_sharded",
    "finest_mesh",
    "make_mesh",
    "named_from_hlo",
    "named_on",
    "same_placement",
]

Index = tuple[slice, ...]
XlaSharding = xla.SingleDeviceSharding | xla.GSPMDSharding


class Sharding(ABC):
    """Base class. A subclass has `devices` (in order), `other_memory` and `hlo(ndim)`.

    Attributes:
      other_memory: the memory kind of the arrays if it is not the default of the devices; else None.
    """

    devices: tuple[Device, ...]
    other_memory: str | None

    @abstractmethod
    def hlo(self, ndim: int) -> HloSharding:
        """XLA's form of the sharding for arrays of this rank; device numbers are positions in `devices`."""

    @abstractmethod
    def attribute_text(self, ndim: int) -> str:
        """The attribute of an argument or result of this rank in a program."""

    @cached_property
    def _xla_by_rank(self) -> dict[int, XlaSharding]:
        return {}

    def xla(self, ndim: int) -> XlaSharding:
        """jaxlib's form of this sharding for arrays of this rank; one object per rank."""
        sharding = self._xla_by_rank.get(ndim)
        if sharding is None:
            sharding = self._xla_by_rank[ndim] = self._make_xla(ndim)
        return sharding

    def _make_xla(self, ndim: int) -> XlaSharding:
        if len(self.devices) == 1:
            return xla.on_device(self.devices[0], self.other_memory)
        return xla.on_devices(self.devices, self.hlo(ndim), self.other_memory)

    def __copy__(self) -> Sharding:
        return self                         # its devices are objects of this process, not to be copied

    def __deepcopy__(self, memo: dict) -> Sharding:
        return self

    @property
    def _is_concrete(self) -> bool:
        """Read by the real JAX, which cannot use an xjax array."""
        raise bad("xjax", "an xjax array was passed to a function of the real JAX",
                  fix="bridge the function with xjax.interop.from_jax(f), or with xnn.optim for optax.",
                  exc=ValueError)

    @property
    def memory_kind(self) -> str | None:
        """The memory kind of the arrays: "device", "pinned_host" or "unpinned_host"; None without devices."""
        return self.other_memory or default_kind(self.devices)

    @abstractmethod
    def with_memory_kind(self, kind: str | None) -> Sharding:
        """The sharding with another memory kind; None: the default.  Raises: ValueError for an unknown kind."""

    @property
    def num_devices(self) -> int:
        """Number of devices that hold a part."""
        return len(self.devices)

    @cached_property
    def device_set(self) -> frozenset[Device]:
        return frozenset(self.devices)

    @cached_property
    def addressable_list(self) -> tuple[Device, ...]:
        """The devices of this process, in order."""
        return tuple(d for d in self.devices if d.process_index == d.client.process_index())

    # Private names of JAX that orbax reads.
    _device_assignment = property(lambda self: tuple(self.devices))
    _addressable_device_assignment = property(lambda self: self.addressable_list)

    @cached_property
    def addressable_devices(self) -> frozenset[Device]:
        return frozenset(self.addressable_list)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can read every part."""
        return len(self.addressable_list) == len(self.devices)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return len(self.devices) == 1

    def indices(self, global_shape: Sequence[int]) -> list[Index]:
        """The part of the array that each of `devices` holds, in their order."""
        self.shard_shape(global_shape)
        hlo = self.hlo(len(global_shape))
        return xla.shard_indices(hlo, len(self.devices), tuple(global_shape))

    def devices_indices_map(self, global_shape: Sequence[int]) -> Mapping[Device, Index]:
        """The part of the array that each device holds."""
        return dict(zip(self.devices, self.indices(global_shape), strict=True))

    def addressable_devices_indices_map(
        self, global_shape: Sequence[int]
    ) -> Mapping[Device, Index]:
        """The part of the array that each device of this process holds."""
        every = self.devices_indices_map(global_shape)
        return {d: every[d] for d in self.addressable_list}

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """Shape of the part on each device.

        Raises: ValueError if the array cannot be split into equal parts.
        """
        self.check_even(global_shape, type(self).__name__, "array")
        hlo = self.hlo(len(global_shape))
        if self.num_devices == 1 or hlo.is_replicated():
            return tuple(global_shape)
        tiles = hlo.tile_assignment_dimensions()
        return tuple(n // parts for n, parts in zip(global_shape, tiles, strict=False))

    def check_even(self, shape: Sequence[int], caller: str, name: str) -> None:
        """Raise ValueError if an array of this shape, described as `name`, cannot be split into equal parts."""
        hlo = self.hlo(len(shape))
        if self.num_devices == 1 or hlo.is_replicated():
            return
        for axis, (size, parts) in enumerate(zip(shape, hlo.tile_assignment_dimensions(), strict=False)):
            if size % parts:
                raise bad(
                    caller,
                    f"axis {axis} of size {size} cannot be split evenly over {parts} devices",
                    {name: f"shape {tuple(shape)}", **self._split_details(axis)},
                    f"pad axis {axis} to {-(-size // parts) * parts}, or leave it unsharded with None in the spec.",
                    exc=ValueError,
                )

    def _split_details(self, axis: int) -> dict[str, object]:
        return {"sharding": repr(self)}

    def has_layout_of(self, other: Sharding, ndim: int) -> bool:
        """Whether arrays of this rank are split in the same way, over any devices."""
        a, b = self.hlo(ndim), other.hlo(ndim)
        if a.is_replicated() or b.is_replicated():
            return a.is_replicated() and b.is_replicated()
        return self.num_devices == other.num_devices and _same_parts(a, b, self.num_devices, ndim)

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether arrays of this rank are split in the same way over the same devices, in the same memory."""
        if self is other:
            return True
        if self.devices != other.devices or self.other_memory != other.other_memory:
            return False
        return _same_parts(self.hlo(ndim), other.hlo(ndim), len(self.devices), ndim)


class SingleDeviceSharding(Sharding):
    """The whole array on one device; equal objects are identical, so that cache keys compare them by identity."""

    _made: dict[tuple[Device, str | None], SingleDeviceSharding] = {}

    def __new__(cls, device: Device, *, memory_kind: str | None = None) -> SingleDeviceSharding:
        memory = None if memory_kind is None else other_memory("SingleDeviceSharding", memory_kind, (device,))
        sharding = cls._made.get((device, memory))
        if sharding is None:
            sharding = super().__new__(cls)
            sharding.device, sharding.other_memory, sharding.devices = device, memory, (device,)
            sharding = cls._made.setdefault((device, memory), sharding)
        return sharding

    def __reduce__(self) -> tuple:
        raise TypeError("a sharding contains devices of this process and cannot be pickled")

    def hlo(self, ndim: int) -> HloSharding:
        return xla.hlo_sharding_replicated()

    def attribute_text(self, ndim: int) -> str:
        return 'mhlo.sharding = "{replicated}"'

    def with_memory_kind(self, kind: str | None) -> SingleDeviceSharding:
        return SingleDeviceSharding(self.device, memory_kind=kind)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r}{_kind(self)})"


def make_single_device_sharding(device: Device, *, memory_kind: str | None = None) -> SingleDeviceSharding:
    """The sharding of a whole array on one device."""
    return SingleDeviceSharding(device, memory_kind=memory_kind)


_interning = threading.Lock()


class NamedSharding(Sharding):
    """An array sharded along the axes of a mesh, as described by a `PartitionSpec`.

    Equal objects are identical: a launch compares the shardings of its arguments by identity. Over an `AbstractMesh` it
    describes how an array is sharded, but not over which devices.

    Raises: ValueError if the spec names an axis that the mesh does not have, or one axis twice; for `devices` of an
      abstract mesh.
    """

    _made: WeakValueDictionary[tuple, NamedSharding] = WeakValueDictionary()

    def __new__(cls, mesh: Mesh | AbstractMesh, spec: PartitionSpec, *,
                memory_kind: str | None = None) -> NamedSharding:
        key = (mesh, spec, None if memory_kind is None else other_memory(
            "NamedSharding", memory_kind, mesh.devices_flat if isinstance(mesh, Mesh) else None))
        sharding = cls._made.get(key)
        if sharding is None:
            sharding = object.__new__(cls)
            sharding._set(*key)
            with _interning:
                sharding = cls._made.setdefault(key, sharding)
        return sharding

    def _set(self, mesh: Mesh | AbstractMesh, spec: PartitionSpec, memory: str | None) -> None:
        if not isinstance(mesh, Mesh | AbstractMesh) or not isinstance(spec, PartitionSpec):
            raise bad("NamedSharding", "needs a mesh and a PartitionSpec",
                      {"mesh": type(mesh).__name__, "spec": repr(spec)}, 'write NamedSharding(mesh, P("x")).')
        self.mesh, self.spec, self.other_memory = mesh, spec, memory
        if isinstance(mesh, Mesh):
            self.devices = mesh.devices_flat
        self._hash = hash((mesh, spec, memory))
        axes, given = spec.all_axes(), {"spec": repr(spec), "mesh": repr(mesh)}
        for axis in axes:
            if axis not in mesh.axis_names:
                raise bad("NamedSharding", f"the mesh has no axis {axis!r}", given,
                          "use only names of the mesh's axes.", exc=ValueError)  # fmt: skip
        if len(set(axes)) != len(axes):
            raise bad("NamedSharding", "the spec uses a mesh axis twice", given,
                      "use each mesh axis for at most one dimension.",
                      exc=ValueError)  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if name == "devices":               # set by `_set` if the mesh has devices
            raise bad("NamedSharding", "its mesh is abstract, without devices", {"sharding": repr(self)},
                      "use NamedSharding(mesh, spec) with a mesh of devices.", exc=ValueError)
        raise AttributeError(f"'NamedSharding' object has no attribute {name!r}", name=name, obj=self)

    @property
    def num_devices(self) -> int:
        return self.mesh.size

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Whether arrays of this rank are sharded in the same way over the same devices, or over abstract meshes."""
        abstract = [isinstance(getattr(s, "mesh", None), AbstractMesh) for s in (self, other)]
        if not any(abstract):
            return super().is_equivalent_to(other, ndim)
        return (all(abstract) and self.other_memory == other.other_memory and self.num_devices == other.num_devices
                and _same_parts(self.hlo(ndim), other.hlo(ndim), self.num_devices, ndim))

    def update(self, **changed: object) -> NamedSharding:
        """The sharding with another `mesh`, `spec` or `memory_kind`."""
        fields = {"mesh": self.mesh, "spec": self.spec, "memory_kind": self.other_memory, **changed}
        mesh, spec = fields.pop("mesh"), fields.pop("spec")
        return NamedSharding(mesh, spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec), **fields)

    def hlo(self, ndim: int) -> HloSharding:
        self._check_rank(ndim)
        mesh, splits = self.mesh, [self.spec.axes(i) for i in range(ndim)]
        if not any(splits):
            return xla.hlo_sharding_replicated()
        rest = [axis for axis in mesh.axis_names if not any(axis in split for split in splits)]
        order = [mesh.axis_names.index(axis) for axis in itertools.chain(*splits, rest)]
        tiles = [math.prod(mesh.shape[axis] for axis in split) for split in splits]
        copies = math.prod(mesh.shape[axis] for axis in rest)
        positions = np.arange(mesh.size).reshape(mesh.axis_sizes).transpose(order).ravel()
        if copies > 1:
            tiles.append(copies)
        return xla.hlo_sharding_tiled(tuple(tiles), tuple(map(int, positions)), copies > 1)

    def _check_rank(self, ndim: int) -> None:
        if len(self.spec) > ndim:
            raise bad(
                "NamedSharding",
                f"the spec has {len(self.spec)} entries for an array of rank {ndim}",
                {"spec": repr(self.spec), "mesh": repr(self.mesh)},
                f"pass at most {ndim} entries.",
                exc=ValueError,
            )

    def sdy_text(self, ndim: int, mesh_name: str = "mesh", is_open: bool = False) -> str:
        """The sharding in the text of a program: ``#sdy.sharding<@mesh, [{"x"}, {}]>``.

        Args: is_open: whether the compiler may shard each dimension along further axes: ``[{"x", ?}, {?}]``.
        """
        return f"#sdy.sharding<@{mesh_name}, [{', '.join(self.sdy_dims(ndim, is_open))}]>"

    def sdy_dims(self, ndim: int, is_open: bool = False) -> list[str]:
        """The mesh axes of each dimension: ``{"x"}``, ``{}``, or ``{?}`` if the compiler may choose."""
        self._check_rank(ndim)
        names = self.mesh.sdy_names
        texts = ["{" + ", ".join([*(f'"{names[a]}"' for a in self.spec.axes(i)), *["?"] * is_open]) + "}"
                 for i in range(ndim)]  # fmt: skip
        return ["{?}" if i < len(self.spec) and self.spec[i] is UNCONSTRAINED else text
                for i, text in enumerate(texts)]  # fmt: skip

    @property
    def mesh_text(self) -> str:
        """The line that declares the mesh, ``sdy.mesh @mesh = <["x"=2]>``."""
        return self.mesh.sdy_text()

    def attribute_text(self, ndim: int) -> str:
        return f"sdy.sharding = {self.sdy_text(ndim)}"

    @property
    def is_fully_replicated(self) -> bool:
        return all(self.mesh.shape[axis] == 1 for axis in self.spec.all_axes())

    @property
    def memory_kind(self) -> str | None:
        return super().memory_kind if isinstance(self.mesh, Mesh) else self.other_memory

    def with_memory_kind(self, kind: str | None) -> NamedSharding:
        return NamedSharding(self.mesh, self.spec, memory_kind=kind)

    def _split_details(self, axis: int) -> dict[str, object]:
        return {"spec": repr(self.spec), "mesh": repr(self.mesh)}

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, NamedSharding):
            return NotImplemented
        return (self._hash == other._hash and self.spec == other.spec and self.mesh == other.mesh
                and self.other_memory == other.other_memory)  # fmt: skip

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh!r}, spec={self.spec!r}{_kind(self)})"


def _unsharded(ndim: int) -> NamedSharding:
    return NamedSharding(AbstractMesh((), ()), PartitionSpec(*[None] * ndim))


ShapedArray.unsharded = _unsharded


class GSPMDSharding(Sharding):
    """Devices and XLA's own form of a sharding: the compiler's choice for an output."""

    def __init__(
        self,
        devices: Sequence[Device],
        hlo_sharding: HloSharding,
        *,
        memory_kind: str | None = None,
    ) -> None:
        self.devices = tuple(devices)
        self.other_memory = other_memory("GSPMDSharding", memory_kind, self.devices)
        self.hlo_sharding = hlo_sharding
        self._text = str(hlo_sharding)

    def hlo(self, ndim: int) -> HloSharding:
        return self.hlo_sharding

    def attribute_text(self, ndim: int) -> str:
        return f'mhlo.sharding = "{self._text}"'

    @property
    def is_fully_replicated(self) -> bool:
        return len(self.devices) == 1 or self.hlo_sharding.is_replicated()

    def with_memory_kind(self, kind: str | None) -> GSPMDSharding:
        return GSPMDSharding(self.devices, self.hlo_sharding, memory_kind=kind)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GSPMDSharding):
            return NotImplemented
        return (self._text == other._text and self.devices == other.devices
                and self.other_memory == other.other_memory)  # fmt: skip

    def __hash__(self) -> int:
        return hash((self.devices, self._text, self.other_memory))

    def __repr__(self) -> str:
        return f"GSPMDSharding({self._text}{_kind(self)})"


def named_from_hlo(hlo: HloSharding, mesh: Mesh, ndim: int) -> NamedSharding | None:
    """The equivalent of `hlo` over `mesh`; None if there is none."""
    if hlo.is_replicated():
        return NamedSharding(mesh, PartitionSpec())
    tiles = hlo.tile_assignment_dimensions()[:ndim]
    for splits in _axis_choices(tuple(tiles), mesh, mesh.axis_names):
        while splits and not splits[-1]:
            splits = splits[:-1]
        named = NamedSharding(mesh, PartitionSpec(*splits))
        if _same_parts(named.hlo(ndim), hlo, mesh.size, ndim):
            return named
    return None


@lru_cache(maxsize=4096)
def same_placement(a: Sharding, b: Sharding, ndim: int) -> bool:
    """`is_equivalent_to`, cached: whether arrays of this rank have the same parts on the same devices, in one order."""
    return a.is_equivalent_to(b, ndim)


@lru_cache(maxsize=4096)
def named_on(mesh: Mesh, sharding: Sharding, ndim: int) -> NamedSharding | None:
    """The sharding over `mesh` that is equivalent to `sharding` for arrays of this rank; None if there is none."""
    if isinstance(sharding, NamedSharding) and sharding.mesh == mesh:
        return sharding
    if sharding.devices != mesh.devices_flat:
        return None
    named = named_from_hlo(sharding.hlo(ndim), mesh, ndim)
    return named and named.with_memory_kind(sharding.other_memory)


@lru_cache(maxsize=256)
def finest_mesh(devices: tuple[Device, ...]) -> Mesh:
    """A mesh of these devices with one axis for each prime factor of their number; it can express any regular tiling.
    """
    sizes, left = [], len(devices)
    for factor in range(2, left + 1):
        while left % factor == 0:
            sizes.append(factor)
            left //= factor
    return Mesh(np.array(devices, dtype=object).reshape(sizes), tuple(f"axis{i}" for i in range(len(sizes))))


def _axis_choices(tiles: tuple[int, ...], mesh: Mesh, free: tuple[Any, ...]) -> Iterator[tuple]:
    """All ways to split dimensions into `tiles` parts by distinct mesh axes larger than 1."""
    if not tiles:
        yield ()
        return
    usable = [axis for axis in free if mesh.shape[axis] > 1]
    for count in range(len(usable) + 1):
        for axes in itertools.permutations(usable, count):
            if math.prod(mesh.shape[axis] for axis in axes) == tiles[0]:
                left = tuple(axis for axis in free if axis not in axes)
                for rest in _axis_choices(tiles[1:], mesh, left):
                    yield (axes, *rest)


def _same_parts(a: HloSharding, b: HloSharding, num_devices: int, ndim: int) -> bool:
    """Whether two descriptions give each device the same part, in any order of the copies."""
    if a == b or num_devices == 1:
        return True
    if a.is_replicated() or b.is_replicated():
        return a.is_replicated() and b.is_replicated()
    tiles = a.tile_assignment_dimensions()[:ndim]
    if tiles != b.tile_assignment_dimensions()[:ndim]:
        return False
    return xla.shard_indices(a, num_devices, tiles) == xla.shard_indices(b, num_devices, tiles)


def device_put_sharded(x: np.ndarray, aval: ShapedArray, sharding: Sharding) -> Buffer:
    """Put a host array on devices, on each its part; only this process's parts are transferred.

    Raises: ValueError if `x` does not have the shape and dtype of `aval`, or cannot be split evenly.
    """
    if x.shape != tuple(aval.shape) or x.dtype != aval.dtype:
        raise bad(
            "device_put",
            "the array does not have the declared type",
            {"array": f"{x.dtype}{list(x.shape)}", "type": f"{aval.dtype}{list(aval.shape)}"},
            "convert the array first.",
            exc=ValueError,
        )
    target = sharding.xla(x.ndim)
    if len(sharding.devices) == 1:
        return xla.device_put(aval, target, [x], sharding.devices)
    devices, indices, disjoint = _parts_here(sharding, x.shape)
    apart = disjoint and x.size > 0 and 0 not in x.strides
    return xla.device_put(aval, target, [x[index] for index in indices], devices, apart=apart)


@lru_cache(maxsize=4096)
def _parts_here(sharding: Sharding, shape: tuple[int, ...]) -> tuple[tuple[Device, ...], tuple[Index, ...], bool]:
    """The devices of this process, the part of an array of this shape on each, and whether all parts are disjoint."""
    parts = sharding.addressable_devices_indices_map(shape)
    distinct = {tuple((i.start, i.stop) for i in index) for index in parts.values()}
    return tuple(parts), tuple(parts.values()), len(distinct) == len(parts)


def _kind(sharding: Sharding) -> str:
    return f", memory_kind={sharding.other_memory}" if sharding.other_memory is not None else ""
