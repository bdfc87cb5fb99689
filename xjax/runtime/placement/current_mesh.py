"""The current mesh of a thread, to which a PartitionSpec without a mesh refers: `set_mesh`, `use_abstract_mesh`.

There are three ways to set it. `set_mesh(mesh)` sets devices: a PartitionSpec is a sharding over them, and programs
with only uncommitted arguments run on them. `use_abstract_mesh(mesh)` sets only axes. `with mesh:`, the oldest way,
gives a PartitionSpec its mesh and does nothing else. Inside a `shard_map` or `pmap` the mesh is that of the region.
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
    """Value of `config.context_mesh`: the mesh of `set_mesh`, or None, and its axes or those of `use_abstract_mesh`."""

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
    return next((axis.owner for axis in context.axes if isinstance(axis.owner, (Mesh, AbstractMesh))), None)


def manual_axes_of(mesh: NamedAxes) -> frozenset:
    """The axes of `mesh` that are manual in the regions being traced."""
    return frozenset(axis.name for axis in manual_around()).intersection(mesh.axis_names)


def current_mesh() -> Mesh | AbstractMesh | None:
    """The mesh to which a PartitionSpec without one refers; None if there is none."""
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
    """The mesh of `set_mesh`, on which programs with only uncommitted arguments run; None if there is none."""
    return _context_mesh().concrete


def current_devices() -> Mesh | None:
    """The current mesh of devices: of `set_mesh`, or of `with mesh:`."""
    return placing_mesh() or config.mesh


def get_mesh() -> Mesh:
    """The mesh of `set_mesh`; an empty mesh if there is none.

    Raises: ValueError inside a traced function; use `get_abstract_mesh` there.
    """
    if not at_root():
        raise bad("sharding.get_mesh", "inside a traced function the mesh has no devices",
                  fix="use sharding.get_abstract_mesh(), which gives the axes.", exc=ValueError)
    return placing_mesh() or EMPTY_MESH


def get_abstract_mesh() -> AbstractMesh:
    """The axes of the current mesh; axes mapped by an enclosing `shard_map` or `pmap` are `Manual`.

    An empty mesh if there is none. The mesh of `with mesh:` does not count.
    """
    mesh = region_mesh()
    if mesh is None:
        return _context_mesh().abstract
    return mesh.abstract_mesh.update_axis_types(dict.fromkeys(manual_axes_of(mesh), AxisType.Manual))


class set_mesh:
    """Make `mesh` the current mesh of this thread: from now on, or in a block `with set_mesh(mesh):`.

    Functions that take a PartitionSpec refer it to this mesh: `device_put`, `jit(in_shardings=, out_shardings=)`,
    `lax.with_sharding_constraint`, `ShapeDtypeStruct`; `shard_map` maps over it by default. New arrays, and results of
    programs with only uncommitted arguments, are on all of its devices. None: no mesh from now on.

    Raises: ValueError unless it is a mesh of devices or None, or inside a traced function.
    """

    __slots__ = ("_mesh", "_before")

    def __init__(self, mesh: Mesh | None) -> None:
        if mesh is not None and not isinstance(mesh, Mesh):
            raise bad("set_mesh", f"needs a Mesh, not a {type(mesh).__name__}",
                      fix="make one with xjax.make_mesh.", exc=ValueError)
        if not at_root():
            raise bad("set_mesh", "the mesh cannot change inside a traced function",
                      {"mesh": repr(mesh)}, "call it outside jit, grad, vmap and shard_map.", exc=ValueError)
        mesh = None if mesh is not None and mesh.empty else mesh
        self._mesh = mesh
        self._before = config._push("context_mesh", mesh and ContextMesh(mesh, mesh.abstract_mesh))

    def __enter__(self) -> Mesh | None:
        return self._mesh

    def __exit__(self, *exc_info: object) -> None:
        config._pop(self._before)


class without_mesh:
    """A block ``with without_mesh():`` without a current mesh: for functions on the host."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = None if config.context_mesh is None else config._push("context_mesh", None)

    def __exit__(self, *exc_info: object) -> None:
        if self._before is not None:
            config._pop(self._before)


class use_abstract_mesh:
    """A block ``with use_abstract_mesh(mesh):`` in which the current mesh has the axes of `mesh`.

    A PartitionSpec in `lax.with_sharding_constraint` refers to them, and `shard_map` maps over them by default. The
    devices are those of the program's arguments, or of `set_mesh`.

    Raises: ValueError unless `mesh` is an AbstractMesh, or if its size differs from that of the current mesh.
    """

    __slots__ = ("_mesh", "_before")

    def __init__(self, mesh: AbstractMesh):
        if not isinstance(mesh, AbstractMesh):
            raise bad("sharding.use_abstract_mesh", f"needs an AbstractMesh, not a {type(mesh).__name__}",
                      fix="pass mesh.abstract_mesh, or use set_mesh for a mesh of devices.", exc=ValueError)
        self._mesh = mesh

    def __enter__(self) -> None:
        before = _context_mesh()
        if before.abstract.size not in (0, self._mesh.size) and not self._mesh.empty:
            raise bad("sharding.use_abstract_mesh", "the size of the mesh differs from that of the current mesh",
                      {"current": repr(before.abstract), "new": repr(self._mesh)},
                      "use a mesh with the same number of devices.", exc=ValueError)
        self._before = config._push("context_mesh", before._replace(abstract=self._mesh))

    def __exit__(self, *exc_info: object) -> None:
        config._pop(self._before)


def devices_for(caller: str, mesh: Mesh | AbstractMesh, shardings: Iterable[Any]) -> Mesh:
    """A mesh of devices for a mesh that may be abstract: that of the first sharding over such axes, else the current.

    Args: shardings: the shardings of the arguments.
    Raises: ValueError if there are no devices, or a sharding is over a mesh of other axes.
    """
    if isinstance(mesh, Mesh):
        return mesh
    for sharding in shardings:
        of_argument = getattr(sharding, "mesh", None)
        if isinstance(of_argument, Mesh) and of_argument.axis_names:
            if of_argument.shape_tuple == mesh.shape_tuple:
                return of_argument
            raise bad(caller, "an argument is sharded over a mesh whose axes differ from the abstract mesh",
                      {"mesh of the argument": repr(of_argument), "abstract mesh": repr(mesh)},
                      "move it with xjax.device_put to a mesh with these axes.", exc=ValueError)
    current = current_devices()
    if current is not None and current.size == mesh.size:
        return current if current.shape_tuple == mesh.shape_tuple else Mesh(
            current.devices.reshape(mesh.axis_sizes), mesh.axis_names)
    raise bad(caller, "the mesh is abstract, and its devices are unknown", {"mesh": repr(mesh)},
              "pass an argument with a NamedSharding over a mesh with these axes, or call it inside "
              "`with xjax.set_mesh(mesh):`.", exc=ValueError)


def mesh_to_map_over(caller: str, mesh: Any) -> Mesh | AbstractMesh:
    """The mesh of a `shard_map`: its `mesh` argument, else the current mesh.

    Raises: TypeError if `mesh` is not a mesh; ValueError if there is none, or `set_mesh` has set a different one.
    """
    if mesh is None:
        mesh = current_mesh()
        if mesh is None:
            raise bad(caller, "there is no mesh",
                      fix="pass mesh=, or call it inside `with xjax.set_mesh(mesh):`.", exc=ValueError)
        return mesh
    if not isinstance(mesh, Mesh | AbstractMesh):
        raise bad(caller, f"mesh= must be a mesh, not a {type(mesh).__name__}", fix="make one with xjax.make_mesh.")
    if mesh.empty:
        raise bad(caller, "the mesh is empty", {"mesh": repr(mesh)}, "make one with xjax.make_mesh.", exc=ValueError)
    current = _context_mesh().abstract
    if region_mesh() is None and not current.empty and current.shape_tuple != mesh.shape_tuple:
        raise bad(caller, "the axes of mesh= differ from those of the current mesh",
                  {"mesh=": repr(mesh), "current": repr(current)},
                  "drop mesh=, or call it outside `with xjax.set_mesh(...)`.", exc=ValueError)
    return mesh
