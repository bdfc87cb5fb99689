"""Executables: compiled, loaded from disk, and XLA's information about them."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from jaxlib import _jax
from jaxlib import xla_client as xc

from xjax.core.interrupts import deferred, shielded
from xjax.core.once import once
from xjax.runtime.process import cuda_wheels, fork
from xjax.runtime.xla import compile_error
from xjax.runtime.xla.compiler_flags import compiler_flags
from xjax.runtime.xla.names import Client, CompileOptions, Device, DeviceList, Executable, HloSharding


class MemoryStats(NamedTuple):
    """Bytes of a compiled program's arguments, results, temporaries, results in the memory of arguments, and code."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    alias_size_in_bytes: int
    generated_code_size_in_bytes: int


def compile_options(
    devices: Sequence[Device],
    text: str = "",
    *,
    num_partitions: int = 1,
    optimization_level: int | None = None,
    options: Mapping[str, Any] | None = None,
    propagate_outputs: Sequence[bool] = (),
) -> CompileOptions:
    """Options for compiling one program, `text`; see `compile`."""
    out = CompileOptions()
    out.num_replicas, out.num_partitions = 1, num_partitions
    # Without an assignment the program runs on device 0, regardless of the list of devices.
    ids = np.array([d.id for d in devices], np.int32).reshape(1, num_partitions)
    out.device_assignment = xc.DeviceAssignment.create(ids)
    build = out.executable_build_options
    if num_partitions > 1:
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = True
    if propagate_outputs:
        build.allow_spmd_sharding_propagation_to_output = list(propagate_outputs)
    flags = compiler_flags(devices[0].platform, text, options or {})
    if optimization_level is not None:
        flags.setdefault("xla_backend_optimization_level", optimization_level)
    if devices[0].platform == "gpu" and (toolkit := cuda_wheels.toolkit()):
        flags.setdefault("xla_gpu_cuda_data_dir", toolkit)
    out.env_option_overrides = list(flags.items())
    return out


# Functions that are called with the client before each compilation; an exception prevents it.
before_compile: list[Callable[[Client], object]] = []


def compile(
    client: Client,
    text: str,
    devices: Sequence[Device],
    *,
    num_partitions: int = 1,
    optimization_level: int | None = None,
    options: Mapping[str, Any] | None = None,
    propagate_outputs: Sequence[bool] = (),
    host_callbacks: Sequence[Callable] = (),
) -> Executable:
    """Compile StableHLO text whose entry is ``@main`` and load it.

    Args:
      devices: the `num_partitions` devices to run on, in the order of the program's mesh.
      num_partitions: above 1 the text is the global program; Shardy partitions it along its
        ``sdy.sharding`` attributes.
      optimization_level: 0 to 3; None is XLA's default, 3. Level 1 saves a third of the compile time of small
        programs.
      options: XLA flags for this program only, without the leading dashes.
      propagate_outputs: for each output, whether XLA may choose its sharding.
      host_callbacks: Python functions that the program calls by index.
    Raises: CompileError if the text is not valid StableHLO; ValueError for an unknown flag;
      XlaRuntimeError for programs that XLA cannot compile.
    """
    if fork.in_child:
        raise fork.error()
    for watcher in before_compile:
        watcher(client)
    chosen = compile_options(
        devices,
        text,
        num_partitions=num_partitions,
        propagate_outputs=propagate_outputs,
        optimization_level=optimization_level,
        options=options,
    )
    device_list = DeviceList(tuple(devices))
    try:
        if host_callbacks:  # jaxlib accepts callbacks only with a parsed module
            _collect_with_python()
            return shielded(lambda: client.compile_and_load(
                parse_module(text), device_list, chosen, host_callbacks=list(host_callbacks)))
        return shielded(lambda: client.compile_and_load(text, device_list, chosen))
    except (RuntimeError, ValueError) as error:
        readable = compile_error.at_line(str(error), text) or compile_error.of_option(str(error))
        if readable is None:
            raise
        raise readable from None


@once
def _collect_with_python() -> None:
    """Let Python's collector free the callbacks of deleted programs: XLA only marks them."""
    gc.callbacks.append(
        lambda phase, info: _jax.collect_garbage() if phase == "stop" and not fork.in_child else None)


@once
def _mlir() -> tuple[ModuleType, object, Sequence[Callable[[object], None]]]:
    """MLIR bindings and dialects, loaded on demand: loading takes 50 ms, and few programs need them."""
    ir = importlib.import_module("jaxlib.mlir.ir")
    registry = ir.DialectRegistry()
    importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
    more = [importlib.import_module(f"jaxlib.mlir.dialects.{name}") for name in ("stablehlo", "chlo", "sdy")]
    return ir, registry, [dialect.register_dialect for dialect in more]


def new_context() -> object:
    """A context of jaxlib's MLIR bindings, which knows the dialects of programs."""
    ir, registry, register_dialects = _mlir()
    context = ir.Context()
    context.enable_multithreading(False)  # no thread pool for each module
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for register_dialect in register_dialects:
        register_dialect(context)
    return context


def parse_module(text: str) -> object:
    """StableHLO text as a module of jaxlib's MLIR bindings, which can be inspected and changed.

    Each module has its own context, which takes 2 ms: XLA's compiler loads dialects into the context of the module that
    it compiles, without the interpreter lock, and a context does not support two threads that do so at the same time.
    """
    ir, context = _mlir()[0], new_context()
    try:
        return ir.Module.parse(text, context)
    except ir.MLIRError as error:
        raise ValueError(str(error)) from None


def unoptimised_hlo(text: str) -> object:
    """The XlaComputation of StableHLO text, before any optimisation."""
    return _jax.mlir.mlir_module_to_xla_computation(text)


def unoptimised_cost(client: Client, text: str) -> dict[str, float]:
    """`cost_analysis` of a program before compilation."""
    return dict(_jax.hlo_module_cost_analysis(client, unoptimised_hlo(text).get_hlo_module()))


def serialize(exe: Executable) -> bytes:
    """The executable as bytes, for this version of jaxlib and this type of processor."""
    return exe.serialize()


def deserialize(
    client: Client, blob: bytes, devices: Sequence[Device], chosen: CompileOptions
) -> Executable:
    """Load the result of `serialize`; never from an untrusted source: it is native code."""
    if fork.in_child:
        raise fork.error()
    with deferred("a program was loaded from disk"):
        return client.deserialize_executable(blob, DeviceList(tuple(devices)), chosen)


def cost_analysis(exe: Executable) -> dict[str, float]:
    """XLA's estimate: ``flops``, ``bytes accessed``, ``transcendentals`` ..."""
    return dict(exe.cost_analysis())


def memory_stats(exe: Executable) -> MemoryStats:
    """Bytes of memory that a program needs, under JAX's names."""
    stats = exe.get_compiled_memory_stats()
    return MemoryStats(*[getattr(stats, name) for name in MemoryStats._fields])


def size_of_code(exe: Executable) -> int:
    """Bytes of a loaded program in memory; 0 if XLA does not report it."""
    return exe.size_of_generated_code_in_bytes()


def hlo_text(exe: Executable) -> str:
    """The optimised program in HLO text."""
    return exe.get_hlo_text()


_COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "reduce-scatter", "collective-")


def has_collectives(exe: Executable) -> bool:
    """Whether the devices that run a program wait for one another."""
    text = hlo_text(exe)
    return any(name in text for name in _COLLECTIVES)


def output_hlo_shardings(exe: Executable) -> list[HloSharding] | None:
    """The sharding of each output, as chosen by the compiler; None for a program on one device."""
    protos = exe.get_output_shardings()
    return None if protos is None else [HloSharding.from_proto(p) for p in protos]
