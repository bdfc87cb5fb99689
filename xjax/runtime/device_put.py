"""`device_put`: trees of arrays on a device or with a sharding; inside programs, an operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjax.core import array_type
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.memory_kinds import Space, in_memory
from xjax.core.primitive import LINEAR, Primitive
from xjax.core.trace import Tracer
from xjax.core.tree import broadcast_prefix, flatten, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.runtime.arrays import moves
from xjax.runtime.arrays.array import Array, put
from xjax.runtime.arrays.dlpack import from_dlpack, is_on_gpu
from xjax.runtime.arrays.moves import as_sharding, to_array
from xjax.runtime.placement.abstract_mesh import AbstractMesh
from xjax.runtime.placement.current_mesh import current_devices
from xjax.runtime.placement.layout import Format
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.placement.partition_spec import PartitionSpec
from xjax.runtime.placement.sharding import NamedSharding, Sharding, SingleDeviceSharding
from xjax.runtime.sharding_constraint import fixed, lower_constraint, mesh_of_one, with_new_axis
from xjax.typing import ArrayLike, PyTree


def device_put(x: PyTree, device: PyTree = None, *, src: PyTree = None, donate: bool = False,
               may_alias: bool | None = None) -> PyTree:
    """A tree of arrays on a device, or sharded over devices; they are committed.

    Args:
      x: tree of arrays, NumPy arrays and numbers. In a compiled function a sharding is a constraint, as in
        `lax.with_sharding_constraint`, and a device has no effect: a program runs on the devices of its arguments.
        There a memory kind has an effect only on GPUs, since CPUs have one memory. A value in host memory is moved to
        the device before it is used, as in JAX.
      device: a device, a sharding, possibly in another memory (`sharding.with_memory_kind("pinned_host")`), a
        PartitionSpec over the mesh of `set_mesh` or `with mesh:`, a `memory.Space`, or a tree of them that is a prefix
        of `x`. A `Format` of the default layout is its sharding. With None, arrays are not moved; other values go to
        the default device, uncommitted.
      donate: whether the memory of `x` may be freed: arrays that had to be copied are deleted.
      src, may_alias: accepted as in JAX; the memory of a NumPy array is never shared.

    Returns: the same tree of `Array`s.
    Raises: TypeError for a leaf that is not an array; ValueError if a sharding cannot split an array evenly.

    >>> xjax.device_put({"w": 1.0}, xjax.devices()[0])
    {'w': Array(1., dtype=float32, weak_type=True)}
    """
    leaves, tree = flatten(x)
    targets = [_placed(d) for d in broadcast_prefix(device, x, is_leaf=lambda d: d is None)]
    targets = [t if type(t) is not Format else _placed(t.sharding_for("device_put", typeof(leaf)))
               for leaf, t in zip(leaves, targets, strict=True)]
    moved = [put_one(leaf, target) for leaf, target in zip(leaves, targets, strict=True)]
    if donate is True:
        for old, new in zip(leaves, moved, strict=True):
            if type(old) is Array and old._buf is not new._buf:
                old.block_until_ready()
                old.delete()
    return tree_unflatten(tree, moved)


def _placed(device: Any) -> Any:
    """A PartitionSpec as a sharding over the current mesh; other values unchanged.

    Raises: ValueError if there is no mesh, if the mesh of a sharding is abstract, or for `Space.Any`.
    """
    if type(device) is Space and device is Space.Any:
        raise bad("device_put", "Space.Any is not a specific memory", {"device": repr(device)},
                  "pass Space.Device or Space.Host.", exc=ValueError)
    if isinstance(device, PartitionSpec):
        mesh = current_devices()
        if mesh is None:
            raise bad("device_put", "a PartitionSpec needs a mesh", {"device": repr(device)},
                      "pass NamedSharding(mesh, spec), or call it inside `with xjax.set_mesh(mesh):`.", exc=ValueError)
        return NamedSharding(mesh, device)
    if isinstance(device, NamedSharding) and isinstance(device.mesh, AbstractMesh):
        raise bad("device_put", "the mesh of the sharding is abstract, without devices", {"device": repr(device)},
                  "pass NamedSharding(mesh, spec) with a mesh of devices.", exc=ValueError)
    return device


_OF_ONE_MEMORY = {Array, np.ndarray}    # types that are never arrays of another library on a GPU


def put_one(x: ArrayLike, device: Any) -> array_type.Array:
    """`device_put` of one array, number or traced value."""
    if not isinstance(x, Tracer):
        if type(x) not in _OF_ONE_MEMORY and is_on_gpu(x):
            x = from_dlpack(x)
        return moves.device_put(x, _sharding_of(x, device) if type(device) is Space else device)
    if device is None:
        return x
    value = x.concrete()
    if isinstance(device, Space):
        source = value.sharding if type(value) is Array else None
        return device_put_p.bind(x, device=device, source=source, mesh=None)
    sharding = as_sharding("device_put", device)
    sharding.check_even(typeof(x).shape, "device_put", typeof(x).str_short())
    source = value.sharding if type(value) is Array else None
    return device_put_p.bind(x, device=sharding if isinstance(device, Sharding) else device, source=source,
                             mesh=_mesh_for(device))


def _sharding_of(x: ArrayLike, space: Space) -> Sharding:
    """The sharding of an array, in another memory."""
    return to_array(x).sharding.with_memory_kind(space.other_memory)


def _mesh_for(device: Any) -> Mesh | AbstractMesh | None:
    """The mesh on which a program with this operation must run."""
    if isinstance(device, SingleDeviceSharding):
        return mesh_of_one(device.devices[0])
    if isinstance(device, Sharding) and not isinstance(device, NamedSharding):
        raise bad("device_put", "a program cannot represent this type of sharding", {"sharding": repr(device)},
                  "pass a NamedSharding.")
    return device.mesh if isinstance(device, NamedSharding) else None


def _type(x, *, device, source, mesh):
    return x


def _lower(b: Builder, out: ShapedArray, x: Value, *, device, source, mesh) -> Value:
    if isinstance(device, NamedSharding):
        x = lower_constraint(b, out, x, mesh=mesh, spec=device.spec, caller="device_put")
    return in_memory(b, x, device.other_memory) if isinstance(device, Sharding | Space) else x


def _evaluate(x, *, device, source, mesh):
    sharding = _sharding_of(x, device) if isinstance(device, Space) else as_sharding("device_put", device)
    if isinstance(sharding, NamedSharding):
        sharding = sharding.update(spec=fixed(sharding.spec))
    return put(to_array(x), sharding)


def _transpose(ct, x, *, device, source, mesh):
    """Move the cotangent to the source of the value; in a program the compiler chooses."""
    if source is None:
        return [ct]
    return [device_put_p.bind(ct, device=source, source=device, mesh=_mesh_for(source))]


def _batch(axis, args, bdims, *, device, source, mesh):
    (x,), (bdim,) = args, bdims
    if isinstance(device, NamedSharding):
        device = device.update(spec=with_new_axis(device.spec, typeof(x).ndim, bdim))
    return device_put_p.bind(x, device=device, source=None, mesh=mesh), bdim


device_put_p = Primitive("device_put", type_rule=_type, lower=_lower, jvp=LINEAR, transpose=_transpose, batch=_batch,
                         evaluate=_evaluate)
