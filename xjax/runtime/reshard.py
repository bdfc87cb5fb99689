"""Arrays that span processes: moved to other shardings, built from local arrays, and split into local arrays.

No process can read the whole of such an array, so it is moved by a program that all processes launch.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from xjax.core.cache import Cache
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr, Jaxpr, Var
from xjax.core.key_types import is_key
from xjax.core.types import ShapedArray
from xjax.runtime import xla
from xjax.runtime.arrays.array import Array, on_device_type, put
from xjax.runtime.arrays.hooks import BetweenProcesses, move_between_processes_with
from xjax.runtime.devices import backend, processes
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.placement.partition_spec import PartitionSpec
from xjax.runtime.placement.sharding import NamedSharding, Sharding, finest_mesh, named_on
from xjax.runtime.programs.executable import compile_sharded
from xjax.runtime.programs.launch import Executable
from xjax.typing import ArrayLike

_executables: Cache[Executable] = Cache()
backend.on_clear(_executables.clear)


def reshard(x: Array, sharding: Sharding) -> Array:
    """An array that spans processes, with another sharding over the same processes; all of them must call this.

    Raises: ValueError if the devices are of other processes, or none is of this process.
    """
    owners = {d.process_index for d in x.sharding.devices}
    if not x.sharding.addressable_list or owners != {d.process_index for d in sharding.devices}:
        raise bad("device_put", "an array that spans processes can only be moved to devices of the same processes",
                  {"array": x.aval.str_short(), "its devices": x.sharding.devices, "new devices": sharding.devices},
                  "let all processes read it with xjax.experimental.multihost_utils.process_allgather(x, tiled=True).",
                  exc=ValueError)
    source, target = _named(x), sharding
    if not (isinstance(target, NamedSharding) and target.mesh == source.mesh):
        target = NamedSharding(source.mesh, PartitionSpec())        # whole on each device; `put` takes the parts
    return put(_moving(x.aval, source, target)([Array(x._buf, x.aval, source)])[0], sharding)


def _named(x: Array) -> NamedSharding:
    """The array's sharding, over a mesh of its devices."""
    sharding = x.sharding
    if isinstance(sharding, NamedSharding):
        return sharding
    named = named_on(finest_mesh(sharding.devices), sharding, on_device_type(x.aval).ndim)
    if named is None:
        raise bad("device_put", "the devices of the array are in an order that no mesh describes",
                  {"sharding": repr(sharding)}, "give the program that made it out_shardings=.", exc=ValueError)
    return named


def _moving(aval: ShapedArray, source: NamedSharding, target: NamedSharding) -> Executable:
    """The program that changes only the sharding."""
    key = aval, source, target
    executable = _executables.get(key)
    if executable is None:
        x = Var(aval)
        program = ClosedJaxpr(Jaxpr((), [x], [], [x]))
        executable = _executables[key] = compile_sharded(program, "device_put", source.mesh, [source], [target])
    return executable


def check(x: ArrayLike, sharding: Sharding) -> None:
    """Raise if `device_put` cannot put a value there, or if processes pass different values for one array."""
    if not sharding.addressable_list:
        raise bad("device_put", "the device is of another process", {"devices": sharding.devices},
                  "use devices of xjax.local_devices(), or a sharding with some of them.", exc=ValueError)
    is_array = type(x) is Array
    if sharding.is_fully_addressable or is_array and (is_key(x.aval) or not x.sharding.is_fully_addressable):
        return
    value = np.asarray(x)
    digest = f"{value.dtype}{list(value.shape)} {zlib.crc32(np.ascontiguousarray(value).tobytes()):08x}"
    assert processes.connection is not None
    arrived = processes.connection.barrier("device_put", digest)
    if len(set(arrived.values())) > 1:
        raise bad("device_put", "the processes pass different values for one array that spans them",
                  [f"process {rank}  {text}" for rank, text in list(arrived.items())[:4]],
                  "pass the whole array, the same everywhere; or each process's own rows to "
                  "xjax.make_array_from_process_local_data(sharding, rows).", exc=AssertionError)


move_between_processes_with(BetweenProcesses(reshard, check))


# -- local and global ---------------------------------------------------------------------------------------------

def local_mesh(caller: str, mesh: Mesh) -> Mesh:
    """The part of a mesh that belongs to this process.

    Raises: ValueError if this process has no devices in the mesh, or they do not form a block.
    """
    mine = np.vectorize(lambda d: d.process_index == d.client.process_index(), otypes=[bool])(mesh.devices)
    positions = np.argwhere(mine)
    if len(positions):
        first, last = positions.min(0), positions.max(0) + 1
        block = tuple(slice(a, b) for a, b in zip(first, last, strict=True))
        if mine[block].all():
            return Mesh(mesh.devices[block], mesh.axis_names)
    raise bad(caller, "the devices of this process do not form a block of the mesh" if len(positions) else
              "no device of the mesh belongs to this process", {"mesh": repr(mesh)},
              "order the devices of the mesh by process, or use xjax.make_array_from_callback.", exc=ValueError)


def global_shape(shape: Sequence[int], spec: PartitionSpec, whole: Mesh, local: Mesh) -> tuple[int, ...]:
    """The shape of a global array over the mesh `whole`, from the shape of this process's part over `local`."""
    return tuple(n * _factor(spec, i, whole, local) for i, n in enumerate(shape))


def local_shape(shape: Sequence[int], spec: PartitionSpec, whole: Mesh, local: Mesh) -> tuple[int, ...]:
    """The inverse of `global_shape`."""
    return tuple(n // _factor(spec, i, whole, local) for i, n in enumerate(shape))


def _factor(spec: PartitionSpec, dimension: int, whole: Mesh, local: Mesh) -> int:
    return int(np.prod([whole.shape[a] // local.shape[a] for a in spec.axes(dimension)], dtype=int))


def from_local(caller: str, x: Array, mesh: Mesh, spec: PartitionSpec) -> Array:
    """The global array over `mesh` of which each process has its own part `x`."""
    local = local_mesh(caller, mesh)
    shape = global_shape(x.shape, spec, mesh, local)
    return _rewrapped(put(x, NamedSharding(local, spec)), shape, NamedSharding(mesh, spec))


def to_local(caller: str, x: Array, mesh: Mesh, spec: PartitionSpec) -> Array:
    """This process's part of an array over `mesh`; the inverse of `from_local`."""
    local = local_mesh(caller, mesh)
    shape = local_shape(x.shape, spec, mesh, local)
    return _rewrapped(put(x, NamedSharding(mesh, spec)), shape, NamedSharding(local, spec))


def _rewrapped(x: Array, shape: tuple[int, ...], sharding: NamedSharding) -> Array:
    """An array of another shape made of the same parts on the same devices."""
    aval = x.aval.update(shape=shape)
    stored = on_device_type(aval)
    pieces = x._pieces()
    buf = pieces[0] if len(sharding.devices) == 1 else xla.join(stored, sharding.xla(stored.ndim), pieces)
    return Array(buf, aval, sharding)
