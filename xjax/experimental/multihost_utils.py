"""Values of several processes: gathered, broadcast, compared, and joined to arrays that span the processes.

All processes must make the same calls in the same order; the error of a barrier names the processes that do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.trace import Tracer
from xjax.core.tree import flatten, flatten_axes, leaf_paths, tree_leaves, tree_map, tree_unflatten
from xjax.core.types import typeof
from xjax.runtime.arrays.array import Array, put
from xjax.runtime.arrays.global_arrays import make_array_from_process_local_data
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.devices import processes
from xjax.runtime.devices.backend import devices, process_count, process_index
from xjax.runtime.jit import jit
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.placement.partition_spec import PartitionSpec
from xjax.runtime.placement.sharding import NamedSharding
from xjax.runtime.reshard import from_local, to_local
from xjax.typing import ArrayLike, PyTree

__all__ = ["assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array",
           "host_local_array_to_global_array", "process_allgather", "reached_preemption_sync_point",
           "sync_global_devices"]


def process_allgather(in_tree: PyTree, tiled: bool = False) -> PyTree:
    """The values of all processes, in each process, as NumPy arrays.

    Args:
      in_tree: tree of arrays, with the same shapes in all processes; or of arrays that span the processes, whose whole
        values are returned.
      tiled: True: concatenate the values along the first axis; False: stack them along a new first axis. Numbers are
        always stacked.

    Raises: ValueError if shapes differ between processes, or for an array that spans processes if `tiled` is False.

    >>> process_allgather(np.arange(2))
    array([[0, 1]])
    """
    caller = "process_allgather"
    leaves, tree = flatten(in_tree)
    if process_count() > 1:
        _check_alike(caller, leaves, tree)
    return tree_unflatten(tree, [_gathered(caller, x, tiled) for x in leaves])


def _gathered(caller: str, x: ArrayLike, tiled: bool) -> np.ndarray:
    if type(x) is Array and not x.is_fully_addressable:
        if not tiled:
            raise bad(caller, "an array that spans the processes cannot be stacked",
                      {"array": x.aval.str_short()}, "pass tiled=True, which returns the whole array.", exc=ValueError)
        mesh = getattr(x.sharding, "mesh", None) or _mesh()
        return put(x, NamedSharding(mesh, PartitionSpec())).numpy()
    value = np.asarray(x)
    if process_count() == 1:
        return value if tiled else value[None]
    if not tiled or not value.ndim:
        value = value[None]
    shape = (value.shape[0] * process_count(), *value.shape[1:])
    whole = make_array_from_process_local_data(_by_process(), value, shape)
    return put(whole, NamedSharding(_mesh(), PartitionSpec())).numpy()


def broadcast_one_to_all(in_tree: PyTree, is_source: bool | None = None) -> PyTree:
    """The values of one process, in each process, as NumPy arrays.

    Args:
      in_tree: tree of arrays, with the same shapes in all processes.
      is_source: whether this process provides the values; None: process 0 does.

    Raises: ValueError if shapes differ between processes, or unless exactly one process is the source.

    >>> broadcast_one_to_all({"step": 3})
    {'step': array(3)}
    """
    caller = "broadcast_one_to_all"
    leaves, tree = flatten(in_tree)
    if process_count() == 1:
        return tree_map(np.asarray, in_tree)
    source = process_index() == 0 if is_source is None else bool(is_source)
    texts_of = _check_alike(caller, leaves, tree, more="source" if source else "")
    sources = [rank for rank, text in sorted(texts_of.items()) if text == "source"]
    if len(sources) != 1:
        raise bad(caller, "exactly one process must be the source", {"sources": sources, "processes": process_count()},
                  "pass is_source=True in one process and False in all others.", exc=ValueError)
    out = []
    for x in leaves:
        value = np.asarray(x)
        whole = make_array_from_process_local_data(_by_process(), value[None], (process_count(), *value.shape))
        out.append(_row(whole, sources[0]))
    return tree_unflatten(tree, out)


def _row(x: Array, rank: int) -> np.ndarray:
    return jit(lambda x: x[rank], out_shardings=NamedSharding(_mesh(), PartitionSpec()))(x).numpy()


def sync_global_devices(name: str) -> None:
    """Wait until all processes have called this with the same name.

    Raises: AssertionError if the names differ; RuntimeError, with their names, if some processes do not call it.

    >>> sync_global_devices("data loaded")
    """
    if process_count() > 1:
        _check_equal_texts("sync_global_devices", f"sync_global_devices name mismatch ({name!r})", name)


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether the processes have agreed to save at this step, because one of them will be stopped.

    There is no service that announces this: False for one process.

    Raises: RuntimeError for several processes, as in JAX without its option `jax_enable_preemption_service`.

    >>> reached_preemption_sync_point(3)
    False
    """
    if process_count() > 1:
        raise bad("reached_preemption_sync_point", "no service announces that processes will be stopped",
                  {"step_id": step_id}, "handle SIGTERM, and set a key for the other processes by "
                  "`distributed.publish`.", exc=RuntimeError)
    return False


def assert_equal(in_tree: PyTree, fail_message: str = "") -> None:
    """Raise AssertionError, with `fail_message`, if a value differs between processes; NaN differs from every value.

    >>> assert_equal({"learning_rate": 0.1}, "the configs differ")
    """
    leaves, tree = flatten(in_tree)
    own = [x.addressable_data(0) if _is_copied(x) else x for x in leaves]
    everywhere = tree_leaves(process_allgather(own, tiled=True))
    for path, x, gathered in zip(leaf_paths("", tree), own, everywhere, strict=True):
        if type(x) is Array and not x.is_fully_addressable:
            continue                                            # one global array: each process has other parts of it
        mine = np.asarray(x).astype(gathered.dtype)
        of_all = gathered.reshape(process_count(), *mine.shape)
        if not (of_all == mine).all():
            raise bad("assert_equal", fail_message or "the values of the processes differ",
                      {"where": path or "the value", "of all processes": repr(gathered), "of this one": repr(x)},
                      exc=AssertionError)


def _is_copied(x: ArrayLike) -> bool:
    """Whether x spans the processes, and each process has a copy of it."""
    return type(x) is Array and not x.is_fully_addressable and x.is_fully_replicated


def host_local_array_to_global_array(local_inputs: ArrayLike, global_mesh: Mesh, pspecs: PyTree) -> Array:
    """Global arrays over a mesh of all processes, from the part that each process passes.

    Args:
      local_inputs: tree of arrays: the parts on the devices of this process, each shard once. Arrays that span
        processes are returned as they are.
      global_mesh: a mesh in which the devices of each process form a block.
      pspecs: a `PartitionSpec`, or a tree of PartitionSpecs that is a prefix of `local_inputs`. Along a mesh axis that
        a spec does not name, all processes must pass equal values.

    Raises: ValueError if a spec is None, or a part cannot be sharded evenly over the devices of this process.
    """
    return _converted("host_local_array_to_global_array", local_inputs, global_mesh, pspecs, from_local, local=True)


def global_array_to_host_local_array(global_inputs: ArrayLike, global_mesh: Mesh, pspecs: PyTree) -> Array:
    """The parts of global arrays in this process: the inverse of `host_local_array_to_global_array`."""
    return _converted("global_array_to_host_local_array", global_inputs, global_mesh, pspecs, to_local, local=False)


def _converted(caller: str, inputs: ArrayLike, mesh: Mesh, specs: PyTree, convert: Callable[..., Any],
               local: bool) -> Array:
    """`inputs`, with `convert` applied to the leaves that are local to this process (`local`), or to the others."""
    leaves, tree = flatten(inputs)
    out = []
    for x, spec in zip(leaves, flatten_axes(f"{caller}: pspecs", tree, specs), strict=True):
        if not isinstance(spec, PartitionSpec):
            raise bad(caller, f"{spec!r} is not a PartitionSpec", {"mesh": repr(mesh)},
                      "pass PartitionSpec() for values that are equal in all processes.", exc=ValueError)
        if isinstance(x, Tracer):
            raise bad(caller, "values cannot be moved between processes inside a trace",
                      {"value": typeof(x).str_short()}, "call it before or after the jitted function.", exc=TypeError)
        array = to_array(x)
        out.append(convert(caller, array, mesh, spec) if array.is_fully_addressable == local else array)
    return tree_unflatten(tree, out)


# -- helpers ------------------------------------------------------------------------------------------------------

def _mesh() -> Mesh:
    """A mesh of all devices, with one row for each process."""
    return Mesh(np.array(devices(), dtype=object).reshape(process_count(), -1), ("processes", "local_devices"))


def _by_process() -> NamedSharding:
    return NamedSharding(_mesh(), PartitionSpec("processes"))


def _check_alike(caller: str, leaves: list[Any], tree: PyTree, more: str = "") -> dict[int, str]:
    """The text `more` of each process, after a check that structure, shapes and dtypes of all processes are equal."""
    mine = f"{tree} {' '.join(typeof(x).strong().str_short() for x in leaves)}"
    return _check_equal_texts(caller, "the values of the processes differ in structure or type", mine, more, ValueError)


def _check_equal_texts(caller: str, what: str, text: str, more: str = "", exc: type[Exception] = AssertionError
                       ) -> dict[int, str]:
    assert processes.connection is not None
    texts = processes.connection.barrier(caller, f"{text}\n{more}")
    parts = {rank: text.partition("\n") for rank, text in texts.items()}
    if len({first for first, *_ in parts.values()}) > 1:
        raise bad(caller, what, [f"process {rank}  {first}" for rank, (first, *_) in sorted(parts.items())[:4]],
                  "make the same call in all processes.", exc=exc)
    return {rank: rest for rank, (*_, rest) in parts.items()}


__getattr__ = attributes_of(__name__)
