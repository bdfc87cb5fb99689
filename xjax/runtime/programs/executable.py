"""From a program to an `Executable`: for one device, for the devices of a mesh, for the placements of its arguments."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xjax.core.cache import RecentCache, count_compiled
from xjax.core.config import config
from xjax.core.errors import bad
from xjax.core.forms import limits
from xjax.core.interrupts import note_interrupt
from xjax.core.jaxpr import ClosedJaxpr
from xjax.core.key_types import physical
from xjax.core.types import ShapedArray
from xjax.runtime import xla
from xjax.runtime.devices import backend, in_flight
from xjax.runtime.devices.host_errors import shared_calls
from xjax.runtime.placement.abstract_mesh import AbstractMesh
from xjax.runtime.placement.mesh import Mesh
from xjax.runtime.placement.partition_spec import PartitionSpec
from xjax.runtime.placement.places import Place, home_of, sharding_of
from xjax.runtime.placement.sharding import GSPMDSharding, NamedSharding, Sharding, named_from_hlo, named_on
from xjax.runtime.programs import compile_cache, events
from xjax.runtime.programs.compile_log import dump_program, log_step
from xjax.runtime.programs.launch import Executable
from xjax.runtime.programs.lowering import ModuleText, Shardings, lower_program

# Names and values of XLA's flags for one program.
Options = tuple[tuple[str, str | bool | int | float], ...]
# The memory kind of each result, None for the default; () if all results are in the default memory.
Memories = tuple[str | None, ...]


def as_options(caller: str, given: Mapping[str, Any] | None) -> Options:
    """`compiler_options` of a user as a sorted tuple of pairs.

    Raises: TypeError unless they are a dict from names to booleans, numbers or strings.
    """
    given = {} if given is None else given
    if not isinstance(given, Mapping) or not all(
            isinstance(k, str) and isinstance(v, (str, bool, int, float)) for k, v in given.items()):
        raise bad(caller, "compiler_options must map names of XLA flags to booleans, numbers or strings",
                  {"compiler_options": repr(given)}, 'pass a dict such as {"xla_cpu_enable_fast_math": False}.')
    return tuple(sorted(given.items()))


# By program text, so that a function that a loop defines repeatedly is compiled once. Only the latest programs are
# kept: those of deleted functions may never be used again, and each takes some hundred kilobytes.
_compiled: RecentCache[xla.Executable] = RecentCache(most=64)
backend.on_clear(_compiled.clear)


def _memory_of(loaded: xla.Executable, text: str) -> int:
    """Bytes that a loaded program takes in memory; an estimate where XLA does not report it, as on CPUs."""
    return xla.size_of_code(loaded) or 250_000 + 20 * len(text)


def _compile(name: str, avals: Sequence[ShapedArray], module: ModuleText, devices: tuple, on_disk: bool,
             level: int | None, propagate_outputs: tuple[bool, ...], options: Options = ()) -> xla.Executable:
    """The loaded program of a module, cached by its text; a program with callbacks is not cached."""
    level = 0 if config.disable_most_optimizations else level
    key = (module.text, devices, on_disk, level, propagate_outputs, options)
    if not module.callbacks and (cached := _compiled.get(key)) is not None:
        return cached
    start = time.perf_counter()
    compile_ = compile_cache.compile_cached if on_disk and not module.callbacks else xla.compile
    with_callbacks = {"host_callbacks": module.callbacks} if module.callbacks else {}
    fun_name = name.replace(" `", "(").replace("`", ")") if "`" in name else f"jit({name})"
    try:
        with events.span(events.COMPILE, fun_name=fun_name):
            loaded = compile_(devices[0].client, module.text, devices, num_partitions=len(devices),
                              optimization_level=level, propagate_outputs=propagate_outputs, options=dict(options),
                              **with_callbacks)
    except KeyboardInterrupt as error:
        note_interrupt(error, f"XLA compiled {name or 'a program'}")
        raise
    count_compiled(_memory_of(loaded, module.text))
    if not module.callbacks:
        _compiled[key] = loaded
    log_step("compiled", name, avals, time.perf_counter() - start)
    dump_program(module.text)
    return loaded


def listeners_of(closed: ClosedJaxpr, module: ModuleText, device: xla.Device,
          collectives: bool = False) -> list[Callable[[Any], None]]:
    """Callbacks given each launch's completion token: they bound the number of programs in flight, and of effects.

    A launch on a CPU waits if the program calls functions on the host: with many programs in flight, a callback that
    itself launches a program could wait forever. Programs with collectives are bounded on CPUs only; see `in_flight`.
    """
    effects = closed.jaxpr.effects
    if "ordered" in effects or (module.callbacks and device.platform == "cpu"):
        return [in_flight.wait]
    listeners = [in_flight.of_client(device.client).push] if collectives and device.platform == "cpu" else []
    return [*listeners, in_flight.effects.push] if effects else listeners


def load(module: ModuleText, place: Place, in_avals: Sequence[ShapedArray], out_avals: Sequence[ShapedArray],
         is_eager: bool = False, name: str = "", listeners: Sequence[Callable[[Any], None]] = (),
         options: Options = ()) -> Executable:
    """Compile a module for the one device of `place`, where its results are placed; `name` is for the log.

    Args: is_eager: whether the module is a single operation.
    """
    device = sharding_of(place).devices[0]
    # Single operations are always cached on disk, other programs only if the option is set.
    limit = limits("eager operations", device.platform) if is_eager else None
    loaded = _compile(name, in_avals, module, (device,), is_eager or config.cache_compiled_functions,
                      None if limit is None else int(limit["level"]), (), options)
    outs = [place if kind is None else sharding_of(place).with_memory_kind(kind)
            for kind in module.memories or [None] * len(out_avals)]
    return Executable(loaded, out_avals, [place] * len(in_avals), outs, _memory_of(loaded, module.text), listeners)


def compile_program(closed: ClosedJaxpr, name: str, place: Place, donated: Sequence[bool] = (),
                    options: Options = (), memories: Memories = ()) -> Executable:
    """Executable of a program without constants, for one device."""
    device = sharding_of(place).devices[0]
    module = lower_program(closed, name, donated=donated, memories=memories, platform=device.platform,
                           devices=(device,))
    return load(module, place, closed.in_avals, closed.out_avals, name=f"jit `{name}`",
                listeners=listeners_of(closed, module, device), options=options)


def compile_sharded(closed: ClosedJaxpr, name: str, mesh: Mesh, in_shardings: Sequence[NamedSharding],
                    out_shardings: Sequence[NamedSharding | None], donated: Sequence[bool] = (),
                    options: Options = (), memories: Memories = ()) -> Executable:
    """Executable of a global program over the devices of `mesh`; XLA chooses the result shardings that are None."""
    module = _sharded_module(closed, name, mesh, in_shardings, out_shardings, donated, memories)
    devices = tuple(mesh.devices.flat)
    loaded = _compile(name, closed.in_avals, module, devices, config.cache_compiled_functions, None,
                      tuple(s is None for s in out_shardings), options)
    outs = [physical(a) for a in closed.out_avals]
    chosen = list(out_shardings)
    if any(s is None for s in chosen) and (hlo := xla.output_hlo_shardings(loaded)) is not None:
        chosen = [s or named_from_hlo(h, mesh, a.ndim) or GSPMDSharding(devices, h)
                  for s, h, a in zip(chosen, hlo, outs, strict=True)]
    chosen = [s or NamedSharding(mesh, PartitionSpec()) for s in chosen]       # one device: XLA reports no sharding
    chosen = [s if kind is None else s.with_memory_kind(kind)
              for s, kind in zip(chosen, module.memories or [None] * len(chosen), strict=True)]
    listeners = listeners_of(closed, module, devices[0], xla.has_collectives(loaded))
    return Executable(loaded, closed.out_avals, in_shardings, chosen, _memory_of(loaded, module.text), listeners,
                      donated, shared_calls(module.callbacks))


def _sharded_module(closed: ClosedJaxpr, name: str, mesh: Mesh, in_shardings: Sequence[NamedSharding],
                    out_shardings: Sequence[NamedSharding | None], donated: Sequence[bool], memories: Memories = (),
                    platform: str | None = None) -> ModuleText:
    ins, outs = map(physical, closed.in_avals), map(physical, closed.out_avals)
    sdy = Shardings(mesh, [s.sdy_text(a.ndim) for s, a in zip(in_shardings, ins, strict=True)],
                    [s and s.sdy_text(a.ndim) for s, a in zip(out_shardings, outs, strict=True)])
    return lower_program(closed, name, shardings=sdy, donated=donated, memories=memories,
                         platform=platform or mesh.devices_flat[0].platform)


def program_executable(closed: ClosedJaxpr, name: str, places: Sequence[Place], donated: Sequence[bool] = (),
                       options: Options = (), wanted: Sequence[Sharding | None] = (), consts: int = 0, caller: str = "",
                       names: Callable[[], Sequence[str]] | None = None) -> Executable:
    """The executable of a program for arguments with these placements; cached on the program.

    Args:
      wanted: shardings to which the program constrains its results; the results carry them as the user wrote them.
      consts, caller, names: see `home_of`.

    Raises: ValueError if committed arguments are on different devices.
    """
    home = home_of(caller or name, closed, places, consts, names)
    shardings = (home, *shardings_over(home, closed, places)) if isinstance(home, Mesh) else home
    key = ("executable", name, shardings, tuple(donated), options, tuple(wanted), config.trace_key())
    executable = closed.memo.get(key)
    if executable is None:
        memories = _memories_of(wanted)
        if isinstance(home, Mesh):
            executable = compile_sharded(closed, name, home, shardings[1:], [None] * len(closed.out_avals), donated,
                                         options, memories)
            if wanted:
                executable = _with_results(executable, wanted, home)
        else:
            executable = compile_program(closed, name, home, donated, options, memories)
        closed.memo[key] = executable
    return executable


def program_module(closed: ClosedJaxpr, name: str, places: Sequence[Place], donated: Sequence[bool] = (),
                   wanted: Sequence[Sharding | None] = (), consts: int = 0,
                   platform: str | None = None) -> tuple[ModuleText, Any]:
    """The text that `program_executable` compiles, and a device for it; or the text for another `platform`."""
    home, memories = home_of(f"jit `{name}`", closed, places, consts), _memories_of(wanted)
    if isinstance(home, Mesh):
        return _sharded_module(closed, name, home, shardings_over(home, closed, places),
                               [None] * len(closed.out_avals), donated, memories, platform), home.devices_flat[0]
    device = sharding_of(home).devices[0]
    return lower_program(closed, name, donated=donated, memories=memories, platform=platform or device.platform), device


def _memories_of(wanted: Sequence[Sharding | None]) -> Memories:
    memories = tuple([None if s is None else s.other_memory for s in wanted])
    return memories if any(memories) else ()


def shardings_over(mesh: Mesh, closed: ClosedJaxpr, places: Sequence[Place]) -> list[NamedSharding]:
    """The shardings of arguments as equivalent ones over `mesh`; replicated if there is none.

    All are in the default memory, since programs compute there.
    """
    shardings = [named_on(mesh, sharding_of(p), a.ndim) or NamedSharding(mesh, PartitionSpec())
             for p, a in zip(places, closed.in_avals, strict=True)]
    return [s if s.other_memory is None else s.with_memory_kind(None) for s in shardings]


def _with_results(executable: Executable, wanted: Sequence[Sharding | None], mesh: Mesh) -> Executable:
    """The executable with the result shardings `wanted`, where these are equivalent to XLA's choice."""
    wanted = [w.update(mesh=mesh) if isinstance(w, NamedSharding) and w.mesh.shape_tuple == mesh.shape_tuple
              and isinstance(w.mesh, AbstractMesh) else w for w in wanted]
    shardings = [w if w is not None and w.is_equivalent_to(s, physical(a).ndim) else s
                 for w, s, a in zip(wanted, executable.out_shardings, executable.out_avals, strict=True)]
    return Executable(executable.loaded, executable.out_avals, executable.in_places, shardings, executable.weight,
                      executable.listeners, executable.donated, executable.shared_calls)
