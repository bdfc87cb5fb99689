"""`with_sharding_constraint`: say in the middle of a program how a value is to be cut over the devices of a mesh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.tree import flatten, flatten_axes, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.runtime.array import put, to_array
from xjax.runtime.current_mesh import current_mesh, devices_for, manual_axes_of
from xjax.runtime.mesh import UNCONSTRAINED, Mesh, PartitionSpec
from xjax.runtime.sharding import NamedSharding, Sharding, SingleDeviceSharding

_WHERE = "lax.with_sharding_constraint"


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """`x`, which the compiler must cut over devices as `shardings` say; outside of a program it is moved there.

    Args:
      x: tree of arrays.
      shardings: a `NamedSharding`, or a `PartitionSpec` over the current mesh (`set_mesh`, `use_abstract_mesh`, `with
        mesh:`), or a tree of them that is a prefix of `x`. None leaves a leaf as it is; `PartitionSpec.UNCONSTRAINED` a
        dimension. The devices of an abstract mesh are those of an argument of the program, or of the current mesh.

    Raises: ValueError if a dimension cannot be sharded evenly, or a PartitionSpec names an axis over which a
      `shard_map` around here is manual; RuntimeError for a PartitionSpec without a mesh.
    """
    return constrain_tree(_WHERE, x, shardings)


def constrain_tree(where: str, x: Any, shardings: Any) -> Any:
    """`with_sharding_constraint` of a function that is called otherwise."""
    leaves, tree = flatten(x)
    wanted = flatten_axes(where, tree, shardings)
    return tree_unflatten(tree, [constrain(where, leaf, s) for leaf, s in zip(leaves, wanted, strict=True)])


def reshard(xs: Any, out_shardings: Any) -> Any:
    """`xs` sharded as `out_shardings` say: `with_sharding_constraint` under JAX's name for meshes of explicit axes.

    Raises: as `with_sharding_constraint`; ValueError for None, which says nothing.
    """
    leaves, tree = flatten(xs)
    if None in flatten_axes("reshard: out_shardings", tree, out_shardings):
        raise bad("reshard", "None is no sharding", {"out_shardings": repr(out_shardings)},
                  'pass a NamedSharding or a PartitionSpec for each array, such as P("x").', exc=ValueError)
    return constrain_tree("reshard", xs, out_shardings)


def as_sharding(where: str, given: Any) -> Sharding | None:
    """What a user wrote as a sharding: a `PartitionSpec` is over the current mesh; None is left as it is.

    Raises: RuntimeError for a PartitionSpec without a mesh (`reshard`: ValueError), TypeError for what is no sharding.
    """
    if given is None or isinstance(given, Sharding):
        return given
    if not isinstance(given, PartitionSpec):
        raise bad(where, "this is no sharding", {"sharding": repr(given)},
                  "pass a NamedSharding or a PartitionSpec.", exc=TypeError)
    mesh = current_mesh()
    if mesh is None:
        raise bad(where, "a PartitionSpec needs a mesh", {"spec": given},
                  "pass NamedSharding(mesh, spec), or call it inside `with xjax.set_mesh(mesh):`.",
                  exc=ValueError if where == "reshard" else RuntimeError)
    return NamedSharding(mesh, given)


def constrain(where: str, x: Any, given: Any) -> Any:
    """One array, constrained to lie as `given` says (None: as it likes)."""
    sharding = as_sharding(where, given)
    if sharding is None:
        return x
    if isinstance(sharding, SingleDeviceSharding):
        sharding = NamedSharding(Mesh([sharding.devices[0]], "device"), PartitionSpec())
    if not isinstance(sharding, NamedSharding):
        raise bad(where, "this is no sharding that a program can hold", {"sharding": repr(sharding)},
                  "pass a NamedSharding or a PartitionSpec.", exc=TypeError)
    mesh, spec = sharding.mesh, sharding.spec
    manual = manual_axes_of(mesh).union(mesh.manual_axes)
    if not manual.isdisjoint(spec.all_axes()):
        raise bad(where, "the spec names a manual axis: along it each device has a part of its own already",
                  {"spec": repr(spec), "mesh": repr(mesh), "manual axes": ", ".join(sorted(map(str, manual)))},
                  "leave the axis out, or constrain the value outside of the shard_map.", exc=ValueError)
    if manual.issuperset(mesh.axis_names) and UNCONSTRAINED not in spec:
        return x                            # a device's own part, which no axis is left to shard over
    sharding.shard_shape(typeof(x).shape)
    return sharding_constraint_p.bind(x, mesh=mesh, spec=spec)


def _type(x, *, mesh, spec):
    return x


def _lower(b: Builder, out: ShapedArray, x: Value, *, mesh, spec) -> Value:
    if b.axes is not None:
        raise bad(_WHERE, "inside pmap and shard_map each device has a part of its own already",
                  given={"mesh": repr(mesh)}, fix="constrain values outside of them.", exc=NotImplementedError)
    cuts = NamedSharding(mesh, spec).sdy_text(out.ndim, b.module.mesh(mesh)).removeprefix("#sdy.sharding")
    return b.op(f"sdy.sharding_constraint {x} {cuts} : {x.type}", out)


def _evaluate(x, *, mesh, spec):
    mesh, x = devices_for(_WHERE, mesh, [x]), to_array(x)
    fixed = PartitionSpec(*[None if part is UNCONSTRAINED else part for part in spec])
    return put(x, NamedSharding(mesh, fixed))


def _transpose(ct, x, *, mesh, spec):
    return [sharding_constraint_p.bind(ct, mesh=mesh, spec=spec)]


def _batch(axis, args, bdims, *, mesh, spec):
    (x,), (bdim,) = args, bdims
    refuse_mesh_axes(_WHERE, axis.mesh_axes, [spec])
    parts = [*spec, *[None] * (typeof(x).ndim - 1 - len(spec))]
    spec = PartitionSpec(*parts[:bdim], axis.mesh_axes or UNCONSTRAINED, *parts[bdim:])
    NamedSharding(mesh, spec).shard_shape(typeof(x).shape)
    return sharding_constraint_p.bind(x, mesh=mesh, spec=spec), bdim


def refuse_mesh_axes(where: str, mesh_axes: Sequence[Any], specs: Iterable[PartitionSpec]) -> None:
    """Raise if a spec names a mesh axis over which `vmap(spmd_axis_name=)` shards the mapped axis."""
    for spec in specs:
        if not set(mesh_axes).isdisjoint(spec.all_axes()):
            raise bad(where, "the spec names the mesh axis of spmd_axis_name, which the mapped axis is sharded over",
                      {"spec": repr(spec), "spmd_axis_name": ", ".join(map(str, mesh_axes))},
                      "use another mesh axis in the one or the other.", exc=ValueError)


sharding_constraint_p = Primitive("sharding_constraint", type_rule=_type, lower=_lower, jvp=LINEAR,
                                  transpose=_transpose, batch=_batch, evaluate=_evaluate)
