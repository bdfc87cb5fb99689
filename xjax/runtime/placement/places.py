"""Placement: the devices of an array, whether the user chose them, and the devices on which a program therefore runs.

An array placed explicitly, `device_put(x, device)`, is *committed*, as are results computed from it. Programs run on
the devices of their committed arguments, and committed arguments on different devices are an error. All other arrays
are *uncommitted*: operations on them run on the mesh of `set_mesh`, else on the default device; next to committed
arguments, they are moved to the devices of these.

The committed bit is part of an array's placement. The `Place` of a committed array is its sharding; that of an
uncommitted array is an `Uncommitted`, one object for each device. Keys of compiled programs contain the placements of
arguments, which are compared by identity, and an executable stores the placements of its results. So the bit costs a
launch nothing, whereas a field of the array would make every key longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, final

from xjax.core.config import TraceKey
from xjax.core.depth import deep
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr, dce
from xjax.runtime.devices import backend
from xjax.runtime.placement.abstract_mesh import AbstractMesh
from xjax.runtime.placement.current_mesh import devices_for, placing_mesh
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.placement.partition_spec import PartitionSpec
from xjax.runtime.placement.sharding import NamedSharding, Sharding, SingleDeviceSharding, finest_mesh, named_on
from xjax.runtime.xla import Device
from xjax.typing import ArrayLike


@final
class Uncommitted:
    """The placement of an uncommitted array; equal objects are identical.

    Attributes:
      sharding: the device that holds the array; a computation may move it.
    """

    __slots__ = ("sharding",)
    _made: dict[SingleDeviceSharding, Uncommitted] = {}

    def __new__(cls, sharding: SingleDeviceSharding) -> Uncommitted:
        place = cls._made.get(sharding)
        if place is None:
            place = super().__new__(cls)
            place.sharding = sharding
            place = cls._made.setdefault(sharding, place)
        return place

    def __repr__(self) -> str:
        return f"Uncommitted({self.sharding!r})"


Place = Sharding | Uncommitted
ON_ONE_DEVICE = frozenset((SingleDeviceSharding, Uncommitted))      # types of placements on one device


@lru_cache(maxsize=4096)
def on(device: Device) -> SingleDeviceSharding:
    """The one sharding object of a device: hot paths compare it by identity."""
    return SingleDeviceSharding(device)


@lru_cache(maxsize=4096)
def uncommitted_on(device: Device) -> Uncommitted:
    """The placement of an uncommitted array on a device."""
    return Uncommitted(on(device))


def default_place() -> Uncommitted:
    """The placement of host values that become arrays."""
    return uncommitted_on(backend.default_device())


@lru_cache(maxsize=4096)
def default_place_of(key: TraceKey) -> Uncommitted:
    """`default_place`, for callers that have the thread's trace key, which contains the default device."""
    return default_place()


backend.on_clear(default_place_of.cache_clear)


def default_home() -> Place | Mesh:
    """Where programs with only uncommitted arguments run: on the mesh of `set_mesh`, else on the default device."""
    return placing_mesh() or default_place()


def new_place() -> Place:
    """The placement of new arrays: whole on each device of the mesh of `set_mesh`, else on the default device."""
    home = default_home()
    return NamedSharding(home, PartitionSpec()) if isinstance(home, Mesh) else home


def sharding_of(place: Place) -> Sharding:
    """The sharding of an array with this placement."""
    return place.sharding if type(place) is Uncommitted else place


def common_place(places: Sequence[Place]) -> Place | None:
    """The placement of results computed from arrays with these placements, if no array must be moved.

    None if an array must be moved, for instance from another memory, or if one is on several devices.
    """
    first = places[0] if places else default_place()
    devices = sharding_of(first).devices
    if len(devices) > 1 or any([s.devices != devices or s.other_memory for s in map(sharding_of, places)]):
        return None
    committed = [p for p in places if type(p) is not Uncommitted]
    if committed:
        return _result_place(committed)
    return first if first is default_home() else None


def _result_place(committed: Sequence[Any]) -> Sharding:
    """The placement of results computed from committed arrays, all on one device: over a mesh, if one of them is."""
    for place in committed:
        if type(place) is NamedSharding:
            return NamedSharding(place.mesh, PartitionSpec())
    return on(committed[0].devices[0])


# -- the devices of a program ---------------------------------------------------------------------------------------

def home_of(caller: str, closed: ClosedJaxpr, places: Sequence[Place], consts: int = 0,
            names: Callable[[], Sequence[str]] | None = None) -> Place | Mesh:
    """Where a program runs: a mesh, or the placement of its arguments and results on one device.

    The committed arguments and the meshes inside the program decide; without any, the mesh of `set_mesh` or the default
    device. Unused arguments and captured arrays are ignored, except that captured arrays on several devices decide if
    nothing else does, since such an array may not fit on one device. An abstract mesh inside refers to the devices of
    the others, or of the current mesh.

    Args:
      places: placements of the inputs of the program.
      consts: number of leading inputs that are captured arrays.
      names: names of the other inputs, for errors.

    Raises: ValueError if committed arguments or the meshes inside have different devices or orders of devices, or if
      the meshes inside are abstract and their devices are unknown.
    """
    inside, abstract = meshes_in(closed)
    committed = [i for i in range(consts, len(places)) if type(places[i]) is not Uncommitted]
    if committed:
        read = inputs_read(closed)
        committed = [i for i in committed if read[i]]
    given = [places[i] for i in committed]
    if abstract is not None and not any([s.size == abstract.size for s in inside]) and not any(
            [s.num_devices == abstract.size for s in given]):
        inside = (*inside, devices_for(caller, abstract, ()))
    if not given and not inside:
        home = default_home()
        spread = next((p for p in places[:consts] if len(sharding_of(p).devices) > 1), None)
        return home if spread is None or isinstance(home, Mesh) else _mesh_of(spread)
    devices = [p.devices for p in given] + [mesh.devices_flat for mesh in inside]
    if any([d != devices[0] for d in devices]):
        called = names() if names is not None else [f"argument {i}" for i in range(len(places) - consts)]
        texts = [f"{called[i - consts]}, {closed.in_avals[i].str_short()}" for i in committed]
        raise _apart(caller, [*texts, *["a sharding inside the program"] * len(inside)], devices)
    if len(devices[0]) != 1 or any(mesh.axis_names for mesh in inside):
        return _mesh_for(given, [closed.in_avals[i].ndim for i in committed], inside)
    return _result_place(given) if given else on(devices[0][0])


def _mesh_for(shardings: Sequence[Any], ranks: Sequence[int], inside: Sequence[Mesh]) -> Mesh:
    """A mesh that can express these shardings, all over the same devices: that of a sharding, or of the program."""
    meshes = [s.mesh for s in shardings
              if isinstance(s, NamedSharding) and isinstance(s.mesh, Mesh) and s.mesh.axis_names]
    for mesh in dict.fromkeys([*meshes, *(m for m in inside if m.axis_names)]):
        if all([named_on(mesh, s, ndim) is not None for s, ndim in zip(shardings, ranks, strict=True)]):
            return mesh
    return finest_mesh(shardings[0].devices if shardings else inside[0].devices_flat)


def _mesh_of(sharding: Sharding) -> Mesh:
    return getattr(sharding, "mesh", None) or Mesh(sharding.devices, "all")


def _apart(caller: str, names: Sequence[str], devices: Sequence[tuple]) -> Exception:
    other = next(i for i, d in enumerate(devices) if d != devices[0])
    return bad(caller, "arrays committed to different devices cannot be combined",
               given={names[i]: device_names(devices[i]) for i in (0, other)},
               fix="move one with xjax.device_put(x, y.sharding); uncommitted arrays move automatically.",
               exc=ValueError)


def place_with(caller: str, args: Sequence[Any]) -> Place:
    """The placement of results computed on the host from arrays: whole on each device of committed ones.

    Raises: ValueError if committed arrays are on different devices.
    """
    given = [x for x in args if x.committed]
    if not given:
        return new_place()
    devices = [x.sharding.devices for x in given]
    if any([d != devices[0] for d in devices]):
        raise _apart(caller, [f"argument {i}, {x.aval.str_short()}" for i, x in enumerate(args) if x.committed],
                     devices)
    if len(devices[0]) == 1:
        return _result_place([x.sharding for x in given])
    return NamedSharding(_mesh_of(given[0].sharding), PartitionSpec())


def device_names(devices: Sequence[Any]) -> str:
    """``cpu device 0``, ``cpu devices 0, 1``: for errors."""
    ids = [str(d.id) for d in devices]
    shown = ", ".join(ids if len(ids) <= 8 else [*ids[:8], "..."])
    return f"{devices[0].platform} device{'s' if len(ids) > 1 else ''} {shown}"


def check_same_devices(caller: str, name: str, x: ArrayLike, wanted: Sharding) -> None:
    """Raise ValueError if the array `x` is committed to other devices than those of `wanted`."""
    if x.committed and x.sharding.devices != wanted.devices:
        raise _apart(caller, [f"{name}, {x.aval.str_short()}", "needed"], [x.sharding.devices, wanted.devices])


def check_same_layout(caller: str, name: str, x: ArrayLike, wanted: Sharding) -> None:
    """Raise ValueError if the array `x` is committed to another split than `wanted`, or to another memory.

    Its devices may differ.
    """
    if x.committed and not (x.sharding.has_layout_of(wanted, x.aval.ndim)
                            and x.sharding.other_memory == wanted.other_memory):
        raise bad(caller, "an argument is committed to another sharding than the function needs",
                  given={name: x.aval.str_short(), "its sharding": x.sharding, "needed": wanted},
                  fix="move it with xjax.device_put(x, sharding); uncommitted arrays move automatically.",
                  exc=ValueError)


def inputs_read(closed: ClosedJaxpr) -> Sequence[bool]:
    """For each input of a program, whether its results or effects depend on it."""
    read = closed.memo.get("inputs read")
    if read is None:
        read = closed.memo["inputs read"] = dce(closed.jaxpr, (True,) * len(closed.jaxpr.outvars))[1]
    return read


def meshes_in(closed: ClosedJaxpr) -> tuple[tuple[Mesh, ...], AbstractMesh | None]:
    """The meshes inside a program (of shard_map and sharding constraints), on whose devices it must run.

    Second result: the first abstract mesh, or None.
    """
    meshes = closed.memo.get("meshes")
    if meshes is None:
        every = dict.fromkeys(_find_meshes(closed.jaxpr))
        meshes = closed.memo["meshes"] = (tuple(m for m in every if isinstance(m, Mesh)),
                                         next((m for m in every if isinstance(m, AbstractMesh)), None))
    return meshes


@deep
def _find_meshes(jaxpr: Jaxpr) -> list[Mesh | AbstractMesh]:
    every: list[Mesh | AbstractMesh] = []
    for eqn in jaxpr.eqns:
        mesh = eqn.params.get("mesh")
        if mesh is not None:
            every.append(mesh)
            continue
        for value in eqn.params.values():
            for item in value if isinstance(value, (tuple, list)) else (value,):
                if isinstance(item, ClosedJaxpr):
                    meshes, abstract = meshes_in(item)
                    every += meshes if abstract is None else (*meshes, abstract)
    return every
