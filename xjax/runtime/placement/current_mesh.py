"""The current mesh of a thread, to which a PartitionSpec without a mesh refers: `set_mesh`, `use_abstract_mesh`.

There are three ways to say it. `set_mesh(mesh)` names devices: a PartitionSpec is a place on them, and programs whose
arguments nobody placed run on them. `use_abstract_mesh(mesh)` names axes alone. `with mesh:`, the oldest, gives a
PartitionSpec its mesh and does nothing else. Inside of a `shard_map` or `pmap` the mesh is that of the region.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from xjax.core.config import config
from xjax.core.context import Axis, at_root, context
from xjax.core.errors import bad
from xjax.runtime.placement.abstract_mesh import EMPTY_ABSTRACT_MESH, AbstractMesh
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.placement.mesh_axes import AxisType, NamedAxes

EMPTY_MESH = Mesh(np.empty((), dtype=object), ())


class ContextMesh(NamedTuple):
    """What `config.context_mesh` is: the mesh of `set_mesh`, or None, and its axes or those of `use_abstract_mesh`."""

    concrete: Mesh | None
    abstract: AbstractMesh


_NOTHING = ContextMesh(None, EMPTY_ABSTRACT_MESH)


def _context_mesh() -> ContextMesh:
    return config.context_mesh or _NOTHING


def manual_around() -> list[Axis]:
    """The manual axes of the regions, of `shard_map` and `pmap`, that are being traced."""
    return [axis for axis in context.axes if isinstance(axis.owner, NamedAxes)]


def region_mesh() -> Mesh | AbstractMesh | None:
    """The mesh of the regions that are being traced; None outside of them."""
    return next((axis.owner for axis in context.axes if isinstance(axis.owner, NamedAxes)), None)


def manual_axes_of(mesh: NamedAxes) -> frozenset:
    """The axes of `mesh` that the regions being traced are manual over."""
    return frozenset(axis.name for axis in manual_around()).intersection(mesh.axis_names)


def current_mesh() -> Mesh | AbstractMesh | None:
    """The mesh that a PartitionSpec without one refers to; None if there is none."""
    mesh = region_mesh()
    if mesh is not None:
        return mesh
    if config.context_mesh is None:
        return config.mesh
    concrete, abstract = config.context_mesh
    if concrete is not None and abstract == concrete.abstract_mesh:
        return concrete
    return None if abstract.empty else abstract


def placing_mesh() -> Mesh | None:
    """The mesh of `set_mesh`, on which programs run whose arguments nobody placed; None if there is none."""
    return _context_mesh().concrete


def current_devices() -> Mesh | None:
    """The current mesh of devices: of `set_mesh`, or of `with mesh:`."""
    return placing_mesh() or config.mesh


def get_mesh() -> Mesh:
    """The mesh of `set_mesh`, an empty one if there is none.

    Raises: ValueError inside of a traced function, whose mesh `get_abstract_mesh` gives.
    """
    if not at_root():
        raise bad("sharding.get_mesh", "a function that is being traced has no devices",
                  fix="use sharding.get_abstract_mesh(), which gives the axes.", exc=ValueError)
    return placing_mesh() or EMPTY_MESH


def get_abstract_mesh() -> AbstractMesh:
    """The axes of the current mesh; those that a `shard_map` or `pmap` around here maps over are `Manual`.

    An empty mesh if there is none. The mesh of `with mesh:` does not count.
    """
    mesh = region_mesh()
    if mesh is None:
        return _context_mesh().abstract
    return mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual_axes_of(mesh), AxisType.Manual))


class set_mesh:
    """Make `mesh` the current one of this thread: from here on, or in a block `with set_mesh(mesh):`.

    A PartitionSpec refers to it wherever one is taken: `device_put`, `jit(in_shardings=, out_shardings=)`,
    `lax.with_sharding_constraint`, `ShapeDtypeStruct`; `shard_map` maps over it by default. New arrays, and results of
    programs whose arguments nobody placed, are on all of its devices. None: no mesh from here on.

    Raises: ValueError if it is no mesh of devices, or inside of a traced function.
    """

    __slots__ = ("_mesh", "_before")

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise bad("set_mesh", f"needs a Mesh; this is of type {type(mesh).__name__}",
                      fix="make one with xjax.make_mesh.", exc=ValueError)
        if not at_root():
            raise bad("set_mesh", "the mesh cannot change inside of a function that is being traced",
                      {"mesh": repr(mesh)}, "call it outside of jit, grad, vmap and shard_map.", exc=ValueError)
        mesh = None if mesh is not None and mesh.empty else mesh
        self._mesh = mesh
        self._before = config._push("context_mesh", mesh and ContextMesh(mesh, mesh.abstract_mesh))

    def __enter__(self) -> Mesh | None:
        return self._mesh

    def __exit__(self, *exc_info: object) -> None:
        config._pop(self._before)


class without_mesh:
    """In the block ``with without_mesh():`` there is no current mesh: for functions on the host."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = None if config.context_mesh is None else config._push("context_mesh", None)

    def __exit__(self, *exc_info: object) -> None:
        if self._before is not None:
            config._pop(self._before)


class use_abstract_mesh:
    """In the block ``with use_abstract_mesh(mesh):`` the axes of the current mesh are these.

    A PartitionSpec in `lax.with_sharding_constraint` refers to them, and `shard_map` maps over them by default. The
    devices are those of the program's arguments, or of `set_mesh`.

    Raises: ValueError for what is no AbstractMesh, or a mesh of another size than the current one.
    """

    __slots__ = ("_mesh", "_before")

    def __init__(self, mesh: AbstractMesh):
        if not isinstance(mesh, AbstractMesh):
            raise bad("sharding.use_abstract_mesh", f"needs an AbstractMesh; this is of type {type(mesh).__name__}",
                      fix="pass mesh.abstract_mesh, or use set_mesh for a mesh of devices.", exc=ValueError)
        self._mesh = mesh

    def __enter__(self) -> None:
        before = _context_mesh()
        if before.abstract.size not in (0, self._mesh.size) and not self._mesh.empty:
            raise bad("sharding.use_abstract_mesh", "the mesh has another size than the current one",
                      {"current": repr(before.abstract), "new": repr(self._mesh)},
                      "use a mesh of as many devices.", exc=ValueError)
        self._before = config._push("context_mesh", before._replace(abstract=self._mesh))

    def __exit__(self, *exc_info: object) -> None:
        config._pop(self._before)


def devices_for(caller: str, mesh: Mesh | AbstractMesh, shardings: Iterable[Any]) -> Mesh:
    """A mesh of devices for a mesh that may be abstract: that of the first sharding over such axes, else the current.

    Args: shardings: of the arguments.
    Raises: ValueError if neither has devices, or a sharding is over a mesh of other axes.
    """
    if isinstance(mesh, Mesh):
        return mesh
    for sharding in shardings:
        found = getattr(sharding, "mesh", None)
        if isinstance(found, Mesh) and found.axis_names:
            if found.shape_tuple == mesh.shape_tuple:
                return found
            raise bad(caller, "an argument is sharded over a mesh of other axes than the abstract mesh",
                      {"mesh of the argument": repr(found), "abstract mesh": repr(mesh)},
                      "move it with xjax.device_put to a mesh of these axes.", exc=ValueError)
    current = current_devices()
    if current is not None and current.size == mesh.size:
        return current if current.shape_tuple == mesh.shape_tuple else Mesh(
            current.devices.reshape(mesh.axis_sizes), mesh.axis_names)
    raise bad(caller, "the mesh is abstract, and nothing says which devices it means", {"mesh": repr(mesh)},
              "pass an argument with a NamedSharding over a mesh of these axes, or call it inside "
              "`with xjax.set_mesh(mesh):`.", exc=ValueError)


def mesh_to_map_over(caller: str, mesh: Any) -> Mesh | AbstractMesh:
    """The mesh of a `shard_map`: the one that it was given, else the current one.

    Raises: TypeError for what is no mesh; ValueError if there is none, or `set_mesh` has another one.
    """
    if mesh is None:
        mesh = current_mesh()
        if mesh is None:
            raise bad(caller, "there is no mesh",
                      fix="pass mesh=, or call it inside `with xjax.set_mesh(mesh):`.", exc=ValueError)
        return mesh
    if not isinstance(mesh, Mesh | AbstractMesh):
        raise bad(caller, f"mesh= is no mesh, but of type {type(mesh).__name__}", fix="make one with xjax.make_mesh.")
    if mesh.empty:
        raise bad(caller, "the mesh is empty", {"mesh": repr(mesh)}, "make one with xjax.make_mesh.", exc=ValueError)
    current = _context_mesh().abstract
    if region_mesh() is None and not current.empty and current.shape_tuple != mesh.shape_tuple:
        raise bad(caller, "mesh= has other axes than the current mesh", {"mesh=": repr(mesh), "current": repr(current)},
                  "leave mesh= out, or call it outside of `with xjax.set_mesh(...)`.", exc=ValueError)
    return mesh
