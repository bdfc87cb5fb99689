"""`with_sharding_constraint`: say in the middle of a program how a value is to be cut over the devices of a mesh."""

from __future__ import annotations

from typing import Any

from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.tree import flatten, flatten_axes, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.runtime.array import put, to_array
from xjax.runtime.mesh import UNCONSTRAINED, Mesh, PartitionSpec, current_mesh
from xjax.runtime.sharding import NamedSharding, Sharding, SingleDeviceSharding

_WHERE = "lax.with_sharding_constraint"


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """`x`, which the compiler must cut over devices as `shardings` say; outside of a program it is moved there.

    Args:
      x: tree of arrays.
      shardings: a `NamedSharding`, or a `PartitionSpec` over the mesh of `with mesh:` or `set_mesh`, or a tree of them
        that is a prefix of `x`. None leaves a leaf as it is; `PartitionSpec.UNCONSTRAINED` a dimension.

    Raises: ValueError if a dimension cannot be cut evenly, or a PartitionSpec comes without a mesh.
    """
    return constrain_tree(_WHERE, x, shardings)


def constrain_tree(where: str, x: Any, shardings: Any) -> Any:
    """`with_sharding_constraint` of a function that is called otherwise."""
    leaves, tree = flatten(x)
    wanted = flatten_axes(where, tree, shardings)
    return tree_unflatten(tree, [constrain(where, leaf, s) for leaf, s in zip(leaves, wanted, strict=True)])


def reshard(xs: Any, out_shardings: Any) -> Any:
    """`xs` cut over devices as `out_shardings` say: `with_sharding_constraint` under JAX's name for typed shardings."""
    return with_sharding_constraint(xs, out_shardings)


def as_sharding(where: str, given: Any) -> Sharding | None:
    """What a user wrote as a sharding: a `PartitionSpec` lies on the current mesh; None is left as it is.

    Raises: ValueError for a PartitionSpec without a mesh, TypeError for what is no sharding.
    """
    if given is None or isinstance(given, Sharding):
        return given
    if not isinstance(given, PartitionSpec):
        raise bad(where, "this is no sharding", {"sharding": repr(given)},
                  "pass a NamedSharding or a PartitionSpec.", exc=TypeError)
    mesh = current_mesh()
    if mesh is None:
        raise bad(where, "a PartitionSpec needs a mesh", {"spec": given},
                  "pass NamedSharding(mesh, spec), or call inside `with mesh:`.", exc=ValueError)
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
    sharding.shard_shape(typeof(x).shape)
    return sharding_constraint_p.bind(x, mesh=sharding.mesh, spec=sharding.spec)


def _type(x, *, mesh, spec):
    return x


def _lower(b: Builder, out: ShapedArray, x: Value, *, mesh, spec) -> Value:
    if b.axes is not None and (wrong := [a for a in spec.all_axes() if a in b.axes.manual]):
        raise bad(_WHERE, "inside pmap and shard_map each device has a part of its own along the manual axes already",
                  given={"spec": repr(spec), "manual axes of it": ", ".join(map(repr, wrong)), "mesh": repr(mesh)},
                  fix="constrain along other axes, or constrain values outside of them.", exc=ValueError)
    cuts = NamedSharding(mesh, spec).sdy_text(out.ndim, b.module.mesh(mesh)).removeprefix("#sdy.sharding")
    return b.op(f"sdy.sharding_constraint {x} {cuts} : {x.type}", out)


def _evaluate(x, *, mesh, spec):
    x = to_array(x)
    fixed = PartitionSpec(*[None if part is UNCONSTRAINED else part for part in spec])
    return put(x, NamedSharding(mesh, fixed))


def _transpose(ct, x, *, mesh, spec):
    return [sharding_constraint_p.bind(ct, mesh=mesh, spec=spec)]


def _batch(axis, args, bdims, *, mesh, spec):
    (x,), (bdim,) = args, bdims
    parts = [*spec, *[None] * (typeof(x).ndim - 1 - len(spec))]
    spec = PartitionSpec(*parts[:bdim], UNCONSTRAINED, *parts[bdim:])
    return sharding_constraint_p.bind(x, mesh=mesh, spec=spec), bdim


sharding_constraint_p = Primitive("sharding_constraint", type_rule=_type, lower=_lower, jvp=LINEAR,
                                  transpose=_transpose, batch=_batch, evaluate=_evaluate)
