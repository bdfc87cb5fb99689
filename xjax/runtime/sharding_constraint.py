"""`with_sharding_constraint`: states in a program how a value is to be sharded over the devices of a mesh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xjax.core.calls import constrain_with
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.tree import flatten, flatten_axes, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.ops.collectives import MeshAxes
from xjax.runtime.arrays.array import put
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.placement.current_mesh import current_mesh, devices_for, manual_axes_of
from xjax.runtime.placement.layout import Format
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.placement.partition_spec import UNCONSTRAINED, PartitionSpec
from xjax.runtime.placement.places import check_same_devices, on
from xjax.runtime.placement.sharding import NamedSharding, Sharding, SingleDeviceSharding
from xjax.runtime.xla import Device
from xjax.typing import Array, ArrayLike, PyTree

_WHERE = "lax.with_sharding_constraint"


def with_sharding_constraint(x: PyTree, shardings: PyTree) -> PyTree:
    """`x`, sharded by the compiler as `shardings` state; in eager execution it is moved.

    Inside a program the shards need not be of equal size.

    Args:
      x: tree of arrays.
      shardings: a `NamedSharding`, or a `PartitionSpec` over the current mesh (`set_mesh`, `use_abstract_mesh`, `with
        mesh:`), or a tree of them that is a prefix of `x`. None leaves a leaf unconstrained, and
        `PartitionSpec.UNCONSTRAINED` a dimension. The devices of an abstract mesh are those of an argument of the
        program, or of the current mesh.

    Raises:
      ValueError: if a PartitionSpec names a manual axis of an enclosing `shard_map`. In eager execution also if a
        dimension cannot be split evenly, or `x` is committed to other devices.
      RuntimeError: for a PartitionSpec without a mesh.
    """
    return constrain_tree(_WHERE, x, shardings)


def constrain_tree(caller: str, x: PyTree, shardings: PyTree, even: bool = False) -> PyTree:
    """`with_sharding_constraint` for another public function, named `caller` in errors; see `constrain`."""
    leaves, tree = flatten(x)
    wanted = flatten_axes(caller, tree, shardings)
    return tree_unflatten(tree, [constrain(caller, leaf, s, even) for leaf, s in zip(leaves, wanted, strict=True)])


constrain_with(constrain_tree)


def reshard(xs: ArrayLike, out_shardings: PyTree) -> Array:
    """`xs` sharded as `out_shardings` state: `with_sharding_constraint` under JAX's name for meshes of explicit axes.

    Raises: as `with_sharding_constraint`; ValueError for None, which is not a sharding.
    """
    leaves, tree = flatten(xs)
    if None in flatten_axes("reshard: out_shardings", tree, out_shardings):
        raise bad("reshard", "None is not a sharding", {"out_shardings": repr(out_shardings)},
                  'pass a NamedSharding or a PartitionSpec for each array, such as P("x").', exc=ValueError)
    return constrain_tree("reshard", xs, out_shardings)


def as_sharding(caller: str, given: Sharding | PartitionSpec | Format | None) -> Sharding | None:
    """The sharding that a user gives; a `PartitionSpec` is over the current mesh, None stays None.

    Of a `Format`, the layout must be the default one.

    Raises: RuntimeError for a PartitionSpec without a mesh (`reshard`: ValueError), TypeError for other types.
    """
    if isinstance(given, Format):
        given = given.sharding_for(caller)
    if given is None or isinstance(given, Sharding):
        return given
    if not isinstance(given, PartitionSpec):
        raise bad(caller, "this is not a sharding", {"sharding": repr(given)},
                  "pass a NamedSharding or a PartitionSpec.", exc=TypeError)
    mesh = current_mesh()
    if mesh is None:
        raise bad(caller, "a PartitionSpec needs a mesh", {"spec": given},
                  "pass NamedSharding(mesh, spec), or call it inside `with xjax.set_mesh(mesh):`.",
                  exc=ValueError if caller == "reshard" else RuntimeError)
    return NamedSharding(mesh, given)


def constrain(caller: str, x: ArrayLike, given: Sharding | PartitionSpec | Format | None,
              even: bool = False) -> ArrayLike:
    """One array, constrained to the sharding `given`; None leaves the sharding to the compiler.

    Args:
      even: whether to refuse a sharding that cannot split the array evenly: for arguments and results of a program. The
        caller then handles the memory of the sharding.
    """
    sharding = given.sharding_for(caller, typeof(x)) if isinstance(given, Format) else as_sharding(caller, given)
    if sharding is None:
        return x
    if sharding.other_memory and not even:
        raise bad(caller, "a constraint sets the sharding of a value, not its memory",
                  {"sharding": repr(sharding)}, "put the array there with xjax.device_put(x, sharding).",
                  exc=NotImplementedError)
    if isinstance(sharding, SingleDeviceSharding):
        sharding = NamedSharding(mesh_of_one(sharding.devices[0]), PartitionSpec())
    if not isinstance(sharding, NamedSharding):
        raise bad(caller, "a program cannot represent this type of sharding", {"sharding": repr(sharding)},
                  "pass a NamedSharding or a PartitionSpec.", exc=TypeError)
    aval, mesh, spec = typeof(x), sharding.mesh, sharding.spec
    manual = manual_axes_of(mesh).union(mesh.manual_axes)
    if not manual.isdisjoint(spec.all_axes()):
        raise bad(caller, "the spec names a manual axis, along which each device already has its own shard",
                  {"spec": repr(spec), "mesh": repr(mesh), "manual axes": ", ".join(sorted(map(str, manual)))},
                  "leave the axis out, or constrain the value outside of the shard_map.", exc=ValueError)
    if even:
        sharding.check_even(aval.shape, caller, aval.str_short())
    else:
        sharding.hlo(aval.ndim)         # raises if the spec has too many entries
    if mesh.axis_names and manual.issuperset(mesh.axis_names):
        return x                        # a device's own shard; there is no other axis to split it over
    return sharding_constraint_p.bind(x, mesh=mesh, spec=spec)


def mesh_of_one(device: Device) -> Mesh:
    """The mesh without axes of a program on one device: its results have a `SingleDeviceSharding`."""
    return Mesh(device, ())


def _type(x, *, mesh, spec):
    return x


def _check_inside(caller: str, axes: MeshAxes, mesh: Mesh, spec: PartitionSpec) -> None:
    """Raise unless a constraint in a manual region is along the other axes of the region's mesh."""
    if axes.names != mesh.axis_names or axes.manual.intersection(spec.all_axes()):
        raise bad(caller, "inside pmap and shard_map each device has its own shard along the manual axes",
                  given={"spec": repr(spec), "mesh": repr(mesh), "axes around it": ", ".join(map(repr, axes.names)),
                         "manual ones": ", ".join(map(repr, axes.manual))},
                  fix="constrain along the other axes of the same mesh, or outside of the function.", exc=ValueError)


def lower_constraint(b: Builder, out: ShapedArray, x: Value, *, mesh: Mesh, spec: PartitionSpec,
                     caller: str = _WHERE) -> Value:
    """The text of a constraint; nothing on one device."""
    if not mesh.axis_names:
        return x
    if b.axes is not None:
        _check_inside(caller, b.axes, mesh, spec)
    sharding = NamedSharding(mesh, spec).sdy_text(out.ndim, b.module.mesh(mesh)).removeprefix("#sdy.sharding")
    return b.op(f"sdy.sharding_constraint {x} {sharding} : {x.type}", out)


def _evaluate(x, *, mesh, spec):
    x = to_array(x)
    mesh = devices_for(_WHERE, mesh, [x.sharding])
    sharding = NamedSharding(mesh, fixed(spec)) if mesh.axis_names else on(mesh.devices_flat[0])
    check_same_devices(_WHERE, "x", x, sharding)
    sharding.check_even(x.shape, _WHERE, x.aval.str_short())
    return put(x, sharding)


def fixed(spec: PartitionSpec) -> PartitionSpec:
    """The spec with unconstrained dimensions replaced by unsharded ones."""
    return PartitionSpec(*[None if part is UNCONSTRAINED else part for part in spec])


def _transpose(ct, x, *, mesh, spec):
    return [sharding_constraint_p.bind(ct, mesh=mesh, spec=spec)]


def _batch(axis, args, bdims, *, mesh, spec):
    (x,), (bdim,) = args, bdims
    refuse_mesh_axes(_WHERE, axis.mesh_axes, [spec])
    manual = manual_axes_of(mesh)
    mesh_axes = tuple(a for a in axis.mesh_axes if a not in manual)
    sharding = NamedSharding(mesh, with_new_axis(spec, typeof(x).ndim, bdim, mesh_axes))
    return sharding_constraint_p.bind(x, mesh=mesh, spec=sharding.spec), bdim


def with_new_axis(spec: PartitionSpec, ndim: int, axis: int, mesh_axes: tuple = ()) -> PartitionSpec:
    """The spec of an array of rank `ndim` with a new axis over `mesh_axes`; without them the compiler chooses."""
    parts = [*spec, *[None] * (ndim - 1 - len(spec))]
    return PartitionSpec(*parts[:axis], mesh_axes or UNCONSTRAINED, *parts[axis:])


def refuse_mesh_axes(caller: str, mesh_axes: Sequence[Any], specs: Iterable[PartitionSpec]) -> None:
    """Raise if a spec names a mesh axis over which `vmap(spmd_axis_name=)` shards the mapped axis."""
    for spec in specs:
        if not set(mesh_axes).isdisjoint(spec.all_axes()):
            raise bad(caller, "the spec names the mesh axis of spmd_axis_name, over which the mapped axis is sharded",
                      {"spec": repr(spec), "spmd_axis_name": ", ".join(map(str, mesh_axes))},
                      "use different mesh axes for the two.", exc=ValueError)


sharding_constraint_p = Primitive("sharding_constraint", type_rule=_type, lower=lower_constraint, jvp=LINEAR,
                                  transpose=_transpose, batch=_batch, evaluate=_evaluate)
