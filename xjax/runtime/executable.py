"""From a program to an `Executable`: for one device, for the devices of a mesh, for where its arguments lie."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xjax.core.cache import Cache, count_compiled
from xjax.core.config import config
from xjax.core.depth import deep
from xjax.core.errors import bad
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.key_types import physical
from xjax.core.types import ShapedArray
from xjax.runtime import backend, compile_cache, in_flight, xla
from xjax.runtime.abstract_mesh import AbstractMesh
from xjax.runtime.array import Array, on
from xjax.runtime.compile_log import dump_program, log_step
from xjax.runtime.current_mesh import devices_for, placing_mesh
from xjax.runtime.launch import Executable
from xjax.runtime.lowering import ModuleText, Shardings, lower_program
from xjax.runtime.mesh import Mesh, PartitionSpec
from xjax.runtime.sharding import GSPMDSharding, NamedSharding, Sharding, SingleDeviceSharding, named_from_hlo

# Names and values of XLA's flags for one program.
Options = tuple[tuple[str, str | bool | int | float], ...]

# One operation takes 6 to 40 ms to compile; level 1 saves a third of that and costs nothing at this size.
EAGER_LEVEL = 1


def as_options(where: str, given: Mapping[str, Any] | None) -> Options:
    """`compiler_options` as a user writes them.

    Raises: TypeError if they are no dict of names with booleans, numbers or strings.
    """
    given = {} if given is None else given
    if not isinstance(given, Mapping) or not all(
            isinstance(k, str) and isinstance(v, (str, bool, int, float)) for k, v in given.items()):
        raise bad(where, "compiler_options are names of XLA's flags with booleans, numbers or strings",
                  {"compiler_options": repr(given)}, 'pass a dict such as {"xla_cpu_enable_fast_math": False}.')
    return tuple(sorted(given.items()))


# By program text: a function that a loop defines again and again is compiled once.
_compiled: Cache[xla.Executable] = Cache()
backend.on_clear(_compiled.clear)


def _memory_of(loaded: xla.Executable, text: str) -> int:
    """Bytes that a loaded program takes in memory; an estimate where XLA does not tell, which is so on CPUs."""
    return xla.size_of_code(loaded) or 250_000 + 20 * len(text)


def _compile(name: str, avals: Sequence[ShapedArray], module: ModuleText, devices: tuple, on_disk: bool,
             level: int | None, propagate_outputs: tuple[bool, ...], options: Options = ()) -> xla.Executable:
    """The loaded program of a module, remembered by its text; a program with callbacks never is."""
    level = 0 if config.disable_most_optimizations else level
    key = (module.text, devices, on_disk, level, propagate_outputs, options)
    if not module.callbacks and (found := _compiled.get(key)) is not None:
        return found
    start = time.perf_counter()
    compile_ = compile_cache.compile_cached if on_disk and not module.callbacks else xla.compile
    with_callbacks = {"host_callbacks": module.callbacks} if module.callbacks else {}
    loaded = compile_(devices[0].client, module.text, devices, num_partitions=len(devices), optimization_level=level,
                      propagate_outputs=propagate_outputs, options=dict(options), **with_callbacks)
    count_compiled(_memory_of(loaded, module.text))
    if not module.callbacks:
        _compiled[key] = loaded
    log_step("compiled", name, avals, time.perf_counter() - start)
    dump_program(module.text)
    return loaded


def listeners_of(closed: ClosedJaxpr, module: ModuleText, device: Any,
          collectives: bool = False) -> list[Callable[[Any], None]]:
    """Who takes the token of each launch of a program: the bounds on what is in flight, and on effects.

    A CPU waits for a program that calls functions on the host: with many programs in flight a function that launches
    one itself would never get its turn.
    """
    effects = closed.jaxpr.effects
    if "ordered" in effects or (module.callbacks and device.platform == "cpu"):
        return [in_flight.wait]
    listeners = [in_flight.of_client(device.client).push] if collectives else []
    return [*listeners, in_flight.effects.push] if effects else listeners


def load(module: ModuleText, device: Any, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray],
         optimization_level: int | None = None, name: str = "", listeners: Sequence[Callable[[Any], None]] = (),
         options: Options = ()) -> Executable:
    """Compile a one-device module for `device`; `name` is for the log."""
    sharding = on(device)
    # Single operations are kept on disk always, programs only if asked for.
    on_disk = optimization_level == EAGER_LEVEL or config.cache_compiled_functions
    loaded = _compile(name, in_avals, module, (device,), on_disk, optimization_level, (), options)
    return Executable(loaded, out_avals, [sharding] * len(in_avals), [sharding] * len(out_avals),
                      _memory_of(loaded, module.text), listeners)


def compile_program(closed: ClosedJaxpr, name: str, device: Any, donated: Sequence[bool] = (),
                    options: Options = ()) -> Executable:
    """Executable of a program without constants, for one device."""
    module = lower_program(closed, name, donated=donated, platform=device.platform)
    return load(module, device, closed.in_avals, closed.out_avals, name=f"jit `{name}`",
                listeners=listeners_of(closed, module, device), options=options)


def compile_sharded(closed: ClosedJaxpr, name: str, mesh: Any, in_shardings: Sequence[NamedSharding],
                    out_shardings: Sequence[NamedSharding | None], donated: Sequence[bool] = (),
                    options: Options = ()) -> Executable:
    """Executable of a global program over the devices of `mesh`; XLA chooses the result shardings that are None."""
    module = _sharded_module(closed, name, mesh, in_shardings, out_shardings, donated)
    devices = tuple(mesh.devices.flat)
    loaded = _compile(name, closed.in_avals, module, devices, config.cache_compiled_functions, None,
                      tuple(s is None for s in out_shardings), options)
    outs = [physical(a) for a in closed.out_avals]
    chosen = list(out_shardings)
    if any(s is None for s in chosen) and (hlo := xla.output_hlo_shardings(loaded)) is not None:
        chosen = [s or named_from_hlo(h, mesh, a.ndim) or GSPMDSharding(devices, h)
                  for s, h, a in zip(chosen, hlo, outs, strict=True)]
    chosen = [s or NamedSharding(mesh, PartitionSpec()) for s in chosen]       # one device: there was nothing to choose
    listeners = listeners_of(closed, module, devices[0], xla.has_collectives(loaded))
    return Executable(loaded, closed.out_avals, in_shardings, chosen, _memory_of(loaded, module.text), listeners)


def _sharded_module(closed: ClosedJaxpr, name: str, mesh: Any, in_shardings: Sequence[NamedSharding],
                    out_shardings: Sequence[NamedSharding | None], donated: Sequence[bool]) -> ModuleText:
    ins, outs = map(physical, closed.in_avals), map(physical, closed.out_avals)
    sdy = Shardings(mesh, [s.sdy_text(a.ndim) for s, a in zip(in_shardings, ins, strict=True)],
                    [s and s.sdy_text(a.ndim) for s, a in zip(out_shardings, outs, strict=True)])
    return lower_program(closed, name, shardings=sdy, donated=donated, platform=mesh.devices_flat[0].platform)


def program_executable(closed: ClosedJaxpr, name: str, args: Sequence[Array], donated: Sequence[bool] = (),
                       options: Options = (), wanted: Sequence[Sharding | None] = ()) -> Executable:
    """The executable of a program for arguments that lie where these do; remembered on the program.

    Args:
      wanted: shardings that the program constrains its results to, so that these carry them as they were written.
    """
    mesh = mesh_to_run_on(closed, name, args)
    where = device_of(args) if mesh is None else (mesh, *[named(x.sharding, mesh) for x in args])
    key = ("executable", name, where, tuple(donated), options, tuple(wanted), config.trace_key())
    found = closed.memo.get(key)
    if found is None:
        if mesh is None:
            found = compile_program(closed, name, where, donated, options)
        else:
            found = compile_sharded(closed, name, mesh, where[1:], [None] * len(closed.out_avals), donated, options)
            if wanted:
                found = _with_results(found, wanted, mesh)
        closed.memo[key] = found
    return found


def program_module(closed: ClosedJaxpr, name: str, args: Sequence[Any], donated: Sequence[bool] = ()) -> ModuleText:
    """The text that `program_executable` compiles."""
    mesh = mesh_to_run_on(closed, name, args)
    if mesh is None:
        return lower_program(closed, name, donated=donated, platform=device_of(args).platform)
    return _sharded_module(closed, name, mesh, [named(x.sharding, mesh) for x in args],
                           [None] * len(closed.out_avals), donated)


def _with_results(found: Executable, wanted: Sequence[Sharding | None], mesh: Any) -> Executable:
    """An executable whose results carry the shardings `wanted` where these say what XLA chose."""
    wanted = [w.update(mesh=mesh) if isinstance(w, NamedSharding) and w.mesh.shape_tuple == mesh.shape_tuple
              and isinstance(w.mesh, AbstractMesh) else w for w in wanted]
    shardings = [w if w is not None and w.is_equivalent_to(s, physical(a).ndim) else s
                 for w, s, a in zip(wanted, found.out_shardings, found.out_avals, strict=True)]
    return Executable(found.loaded, found.out_avals, found.in_shardings, shardings, found.weight, found.listeners)


def mesh_to_run_on(closed: ClosedJaxpr, name: str, args: Sequence[Any]) -> Any:
    """The mesh of the arguments, else that of the program, else that of `set_mesh`; None: one device.

    Raises: ValueError if both have one, of different devices, or if the program's is abstract and no devices are known.
    """
    mesh, inside = mesh_of(args), mesh_in(closed)
    if isinstance(inside, AbstractMesh):
        return mesh if mesh is not None and mesh.size == inside.size else devices_for(f"jit `{name}`", inside, args)
    if mesh is None and inside is None:
        placing = placing_mesh()
        return placing if placing is not None and device_of(args) is backend.default_device() else None
    if mesh is None or inside is None:
        return mesh or inside
    if set(mesh.devices_flat) != set(inside.devices_flat):
        raise bad(f"jit `{name}`", "an argument lies on other devices than the program is for",
                  {"devices of the argument": mesh.device_ids.tolist(), "of the program": inside.device_ids.tolist()},
                  "move the argument with xjax.device_put, or use one mesh.", exc=ValueError)
    return mesh


def device_of(args: Sequence[Array]) -> Any:
    """The device to run on: where the arguments lie; an argument elsewhere than the default device decides."""
    default = backend.default_device()
    for x in args:
        device = x.sharding.devices[0]
        if device is not default:
            return device
    return default


def mesh_of(args: Sequence[Array]) -> Any:
    """The mesh of the first argument that is cut over several devices; None if there is none."""
    for x in args:
        if type(x.sharding) is not SingleDeviceSharding and len(x.sharding.devices) > 1:
            return getattr(x.sharding, "mesh", None) or Mesh(x.sharding.devices, "all")
    return None


def named(sharding: Sharding, mesh: Any) -> NamedSharding:
    """A sharding over `mesh` for an argument: its own if it is over that mesh, else replicated."""
    if isinstance(sharding, NamedSharding) and sharding.mesh == mesh:
        return sharding
    return NamedSharding(mesh, PartitionSpec())


def mesh_in(closed: ClosedJaxpr) -> Any:
    """The mesh that a program names inside (a shard_map), which it then must run on; None if none.

    It is abstract only if all of them are.
    """
    found = closed.memo.get("mesh", False)
    if found is False:
        found = closed.memo["mesh"] = _find_mesh(closed.jaxpr)
    return found


@deep
def _find_mesh(jaxpr: Any) -> Any:
    abstract = None
    for eqn in jaxpr.eqns:
        values = [item for value in eqn.params.values()
                  for item in (value if isinstance(value, (tuple, list)) else (value,))]
        for mesh in (eqn.params.get("mesh"), *[mesh_in(x) for x in values if isinstance(x, ClosedJaxpr)]):
            if isinstance(mesh, Mesh):
                return mesh
            abstract = mesh if abstract is None else abstract
    return abstract
