"""`pmap`: map a function over devices, one element of the leading axis on each; built on `shard_map` over a 1-D mesh.

Arguments are checked before tracing, so that errors refer to the user's arguments.

With several processes, one program runs on the devices of all processes. Each process passes the rows of its own
devices and gets their rows of the results: arrays over its part of the mesh, which share the buffers of the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core.cache import Cache
from xjax.core.calls import api_boundary, argument_types, check_callable, flatten_function, function_name
from xjax.core.config import config
from xjax.core.context import UNNAMED, at_root, context
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr, Var
from xjax.core.staging import hoist_consts, trace_to_jaxpr
from xjax.core.tree import PyTreeDef, flatten, flatten_axes, tree_unflatten
from xjax.core.types import ShapedArray, typeof
from xjax.ops.checks import static_int
from xjax.ops.shape import expand_dims, squeeze
from xjax.runtime import xla
from xjax.runtime.arrays import donation
from xjax.runtime.arrays.array import Array, from_numpy, on_device_type, put
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.devices import backend as backends
from xjax.runtime.placement.current_mesh import manual_around
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.placement.partition_spec import PartitionSpec
from xjax.runtime.placement.places import check_same_layout
from xjax.runtime.placement.sharding import NamedSharding, Sharding
from xjax.runtime.programs.launch import Executable, Launcher
from xjax.runtime.reshard import local_mesh, local_shape
from xjax.runtime.retraces import Call
from xjax.runtime.shard_map import Region, bind_shard_map, executable_of, program_of
from xjax.runtime.stages import Argument, Lowered, Program, abstract
from xjax.runtime.static_args import StaticArguments
from xjax.runtime.watch import is_watching, watch_devices
from xjax.transforms.vmap import mapped_size
from xjax.typing import ArrayLike, PyTree


class _Traced:
    """A traced body for one type of arguments."""

    __slots__ = ("program", "consts", "mesh", "in_specs", "out_specs", "out_tree")

    def __init__(self, program: ClosedJaxpr, consts: list[Any], mesh: Mesh, in_specs: tuple, out_specs: tuple,
                 out_tree: PyTreeDef):
        self.program, self.consts, self.mesh = program, consts, mesh
        self.in_specs, self.out_specs, self.out_tree = in_specs, out_specs, out_tree

    def executable(self, name: str, donated: tuple[bool, ...]) -> Executable:
        executable = executable_of(self.program, self.mesh, self.in_specs, self.out_specs, name, donated,
                                   check=check_same_layout)
        if not self.mesh.is_multi_process:
            return executable
        return _of_this_process(executable, self.mesh, self.in_specs, self.out_specs)


class Pmapped:
    """A function mapped over devices, made by `pmap`; called like the function it wraps."""

    def __init__(self, fun: Callable, axis_name: str | None, in_axes: PyTree, out_axes: PyTree, static: StaticArguments,
                 devices: Sequence[Any] | None, backend: str | None, axis_size: int | None):
        functools.update_wrapper(self, fun)
        self._fun, self._axis_name, self._in_axes, self._out_axes = fun, axis_name, in_axes, out_axes
        self._static, self._devices, self._backend, self._axis_size = static, devices, backend, axis_size
        self._caller = f"pmap of `{function_name(fun)}`"
        # By tree, types and static values: traced bodies, and launchers.
        self._programs: Cache[_Traced] = Cache()
        self._by_types: Cache[Launcher] = Cache(self._caller)

    def __get__(self, instance: object, owner: type) -> Callable:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<pmap of {self._fun!r}>"

    @api_boundary
    def __call__(self, *args: object, **kwargs: object) -> PyTree:
        args, kwargs, static = self._static.take_out(args, kwargs)
        leaves, tree = flatten((args, kwargs))
        plain = {*map(type, leaves)} == {Array}             # a shortcut for training loops, where a microsecond counts
        avals = tuple([x.aval for x in leaves] if plain else argument_types(self._caller, self._fun, leaves, tree))
        key = (tree, avals, static, config.trace_key(), context.axes)
        if not at_root():
            traced = self._trace(key, args, kwargs, leaves)
            if traced.mesh.is_multi_process:
                raise bad(self._caller, "a pmap over several processes cannot be transformed or be part of a program: "
                          "its other rows are on other processes", given={"processes": _processes(traced.mesh)},
                          fix="apply grad, jit and others inside pmap, and call the pmap itself in eager execution.",
                          exc=NotImplementedError)
            outs = bind_shard_map(traced.program, [*traced.consts, *leaves], Region.whole(traced.mesh),
                                  traced.in_specs, traced.out_specs)
            return tree_unflatten(traced.out_tree, outs)
        launcher = None if config.disable_jit else self._by_types.get(key)
        if launcher is None:
            traced = self._trace(key, args, kwargs, leaves)
            if config.check and not traced.mesh.is_multi_process:       # as an operation, which is then checked
                outs = bind_shard_map(traced.program, [*traced.consts, *leaves], Region.whole(traced.mesh),
                                      traced.in_specs, traced.out_specs)
                return tree_unflatten(traced.out_tree, outs)
            donated = (False,) * len(traced.consts) + tuple(self._static.donated_leaves(tree))
            if any(donated):
                donation.warn_of_useless(self._caller, traced.program, donated,
                                         lambda: donation.names_by_position(tree))
            executable = traced.executable(self._caller, donated)
            consts = [_place(c, s) for c, s in zip(traced.consts, executable.in_shardings, strict=False)]
            launcher = self._by_types[key] = Launcher(executable, consts, traced.out_tree,
                                                       watch=watch_devices(self._caller) if is_watching() else None)
        if not plain:
            leaves = [x if type(x) is Array else _place(x, s)
                      for x, s in zip(leaves, launcher.argument_shardings(), strict=True)]
        return launcher(leaves)

    def lower(self, *args: object, **kwargs: object) -> Lowered:
        """The program as StableHLO for arguments of these types (arrays or `ShapeDtypeStruct`s), before compilation."""
        args, kwargs, static = self._static.take_out(args, kwargs)
        leaves, tree = flatten((args, kwargs))
        avals = tuple(argument_types(self._caller, self._fun, leaves, tree, type_of=abstract))
        key = (tree, avals, static, config.trace_key(), context.axes)
        traced = self._trace(key, args, kwargs, [Var(a) for a in avals], is_call=False)
        program = program_of(traced.program, Region.whole(traced.mesh), traced.in_specs, traced.out_specs)
        ins, outs = ([NamedSharding(traced.mesh, s) for s in specs] for specs in (traced.in_specs, traced.out_specs))
        arguments = [Argument(*x) for x in zip(avals, ins[len(traced.consts):], self._static.donated_leaves(tree),
                                               strict=True)]
        return Lowered(Program(program, traced.consts, traced.out_tree, tuple(outs)), arguments, tree,
                       function_name(self._fun))

    def _trace(self, key: tuple, args: Sequence[Any], kwargs: dict, leaves: Sequence[Any],
               is_call: bool = True) -> _Traced:
        if config.disable_jit:                  # the function runs in each call, with tracers: lines that print do so
            return self._trace_now(key, args, kwargs, leaves)
        traced = self._programs.get(key)
        if traced is None:
            Call(self._caller, self._fun, self._static, _as_of_jit(key), lambda: [*map(_as_of_jit, self._programs)],
                 not self._programs.values()).note(is_call)
            traced = self._programs[key] = self._trace_now(key, args, kwargs, leaves)
        return traced

    def _trace_now(self, key: tuple, args: Sequence[Any], kwargs: dict, leaves: Sequence[Any]) -> _Traced:
        tree, avals, static = key[:3]
        if around := manual_around():
            raise bad(self._caller, "a pmap or shard_map inside another one",
                      given={"outer mesh": repr(around[0].owner)},
                      fix="use vmap for the inner map, or one shard_map over a mesh with both axes.",
                      exc=NotImplementedError)
        axes = self._mapped_axes(tree, args, avals, static)
        mesh = self._spanning_mesh()
        size = self._axis_size if mesh is None or set(axes) == {None} else None
        size = mapped_size(self._caller, self._fun, args, kwargs, leaves, axes, size)
        if mesh is None:
            mesh = self._mesh(size)
        else:
            self._check_rows(mesh, size, set(axes) == {None})
        name = mesh.axis_names[0]
        specs = tuple(_spec(d, name) for d in axes)
        local = [_one_row(a, d) for a, d in zip(avals, axes, strict=True)]
        flat = flatten_function(self._static.put_back(self._fun, static), tree, keywords=True, caller=self._caller)
        out_axes: list[int | None] = []

        def body(*parts: ArrayLike) -> list[Any]:
            outs = flat(*[x if d is None else squeeze(x, (d,)) for x, d in zip(parts, axes, strict=True)])
            wanted = flatten_axes(f"{self._caller}: out_axes", flat.out_tree, self._out_axes)
            out_axes[:] = [self._out_axis(y, d) for y, d in zip(outs, wanted, strict=True)]
            return [y if d is None else expand_dims(y, (d,)) for y, d in zip(outs, out_axes, strict=True)]

        with Region.whole(mesh).scope():
            program, consts = hoist_consts(trace_to_jaxpr(body, local, self._caller))
        specs = (PartitionSpec(),) * len(consts) + specs
        return _Traced(program, list(consts), mesh, specs, tuple(_spec(d, name) for d in out_axes), flat.out_tree)

    def _mapped_axes(self, tree: PyTree, args: Sequence[Any], avals: Sequence[ShapedArray],
                     static: tuple | None) -> list:
        in_axes = tuple(self._in_axes) if isinstance(self._in_axes, list) else self._in_axes
        if isinstance(in_axes, tuple) and static is not None and len(in_axes) == static[0]:
            in_axes = tuple(d for i, d in enumerate(in_axes) if i not in self._static.nums)
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise bad(self._caller, f"in_axes has {len(in_axes)} entries for {len(args)} positional arguments",
                      given={"in_axes": repr(in_axes)}, fix="pass one entry for each positional argument.",
                      exc=ValueError)
        axes = flatten_axes(f"{self._caller}: in_axes", tree, (in_axes, 0))
        out = []
        for aval, d in zip(avals, axes, strict=True):
            if d is not None:
                d = static_int(d, "in_axes", self._caller)
                if not -aval.ndim <= d < aval.ndim:
                    raise bad(self._caller, f"cannot map axis {d} of an array with {aval.ndim} axes",
                              given={"array": aval.str_short()},
                              fix="pass arguments with one row for each device along the mapped axis, or use None in "
                                  "in_axes to pass the whole argument to each device.", exc=ValueError)
                d %= aval.ndim
            out.append(d)
        return out

    def _out_axis(self, y: ArrayLike, d: ArrayLike | None) -> int | None:
        if d is None:
            return None
        rank = typeof(y).ndim + 1
        d = static_int(d, "out_axes", self._caller)
        if not -rank <= d < rank:
            raise bad(self._caller, f"out_axes {d} is out of bounds for a result with {rank} axes",
                      fix=f"use a value from {-rank} to {rank - 1}.", exc=ValueError)
        return d % rank

    def _spanning_mesh(self) -> Mesh | None:
        """The mesh if its devices belong to several processes, else None."""
        devices = self._devices or backends.devices(backend=self._backend)
        mesh = Mesh(np.array(devices, dtype=object), (self._name,))
        return mesh if mesh.is_multi_process else None

    def _check_rows(self, mesh: Mesh, size: int, given: bool) -> None:
        """Raise unless this process passes a row for each of its devices."""
        rows = len(local_mesh(self._caller, mesh).devices_flat)
        wanted = mesh.size if given else rows
        if size != wanted or self._axis_size not in (None, mesh.size):
            raise bad(self._caller, f"{size} rows for {wanted} devices",
                      given={"devices of this process": rows, "of all processes": mesh.size,
                             "axis_size": "not given" if self._axis_size is None else self._axis_size},
                      fix=f"pass the {rows} rows of this process's devices; axis_size= counts all, {mesh.size}. "
                          "devices=xjax.local_devices() maps over this process only.", exc=ValueError)

    @property
    def _name(self) -> str:
        return self._axis_name if self._axis_name is not None else UNNAMED

    def _mesh(self, size: int) -> Mesh:
        devices = list(self._devices or backends.local_devices(backend=self._backend))
        if self._devices is not None and size != len(devices):
            raise bad(self._caller, f"{size} rows for {len(devices)} chosen devices",
                      fix="pass one row for each device in `devices`.", exc=ValueError)
        if size > len(devices):
            raise bad(self._caller, f"more rows than devices: the mapped axis has size {size}, but there "
                      f"{'is 1 device' if len(devices) == 1 else f'are {len(devices)} devices'}",
                      given={"devices": ", ".join(map(str, devices[:4])) + (" ..." if len(devices) > 4 else "")},
                      fix=f"reshape x to ({len(devices)}, rows / {len(devices)}, ...) and vmap inside, or start with "
                          f"xjax.config.update('jax_num_cpu_devices', {size}).", exc=ValueError)
        return Mesh(np.array(devices[:size], dtype=object), (self._name,))


def _of_this_process(whole: Executable, mesh: Mesh, in_specs: tuple, out_specs: tuple) -> Executable:
    """A program over several processes in the form for this process: on arrays over its own part of the mesh."""
    local = local_mesh("pmap", mesh)
    out_avals = [a.update(shape=local_shape(a.shape, s, mesh, local))
                 for a, s in zip(whole.out_avals, out_specs, strict=True)]
    ins, outs = ([NamedSharding(local, s) for s in specs] for specs in (in_specs, out_specs))
    own = Executable(whole.loaded, out_avals, ins, outs, whole.weight, whole.listeners, whole.donated,
                     whole.shared_calls)
    if local.size == 1:                 # XLA does not copy a buffer with a sharding over several devices
        own.handlers = [_only_part(a, s) for a, s in zip(whole.out_avals, whole.out_shardings, strict=True)]
    return own


def _only_part(whole: ShapedArray, sharding: Sharding) -> xla.ResultHandler:
    """The handler that makes this process's only part of a result a buffer on one device."""
    stored = on_device_type(whole)
    handler = xla.result_handler(stored, sharding.xla(stored.ndim))
    return handler.wrap(lambda buf: xla.shards(buf)[0])


def _processes(mesh: Mesh) -> list[int]:
    return sorted({d.process_index for d in mesh.devices_flat})


def _as_of_jit(key: tuple) -> tuple:
    """A key in the form of `Call.key`."""
    return (*key[:3], None, *key[3:])


def _spec(d: int | None, name: str) -> PartitionSpec:
    return PartitionSpec() if d is None else PartitionSpec(*[None] * d, name)


def _one_row(aval: ShapedArray, d: int | None) -> ShapedArray:
    if d is None:
        return aval
    return ShapedArray((*aval.shape[:d], 1, *aval.shape[d + 1:]), aval.dtype, aval.weak_type)


def _place(x: ArrayLike, sharding: NamedSharding) -> Array:
    """A value sharded over the devices; a host value is transferred directly to each of them."""
    return from_numpy(x, sharding) if isinstance(x, np.ndarray) else put(to_array(x), sharding)


def pmap(fun: Callable, axis_name: str | None = None, *, in_axes: PyTree = 0, out_axes: PyTree = 0,
         static_broadcasted_argnums: int | Sequence[int] = (), devices: Sequence[Any] | None = None,
         backend: str | None = None, axis_size: int | None = None,
         donate_argnums: int | Sequence[int] = ()) -> Callable:
    """Return a function that runs `fun` on several devices in parallel, on one element of the mapped axis each.

    Args:
      axis_name: name of the mapped axis for collectives such as ``lax.psum(x, axis_name)``.
      in_axes: mapped axis of each positional argument; None passes the whole argument to every device.
      out_axes: position of the mapped axis in the results; None for a result that is equal on all devices.
      static_broadcasted_argnums: positions of static arguments; each new value is traced and compiled again.
      devices: the devices to use, in order; by default the first devices of the backend. With several processes, the
        default is all devices: each process passes one row for each of its own, and gets these rows of the result.
      axis_size: the number of rows in all processes; needed only if no argument is mapped.
      donate_argnums: positions of arguments whose memory may be reused for results.

    Raises: ValueError if mapped axes differ in size, or there are fewer devices than rows.

    >>> xjax.pmap(lambda x: x + 1)(xjax.numpy.zeros((1, 2)))
    Array([[1., 1.]], dtype=float32)
    """
    check_callable("pmap", fun)
    static = StaticArguments(fun, static_broadcasted_argnums, None, donate_argnums, None, transform="pmap")
    return Pmapped(fun, axis_name, in_axes, out_axes, static, devices, backend, axis_size)
