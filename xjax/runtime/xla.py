"""The adapter to jaxlib: with `core/tree.py` the only module of xjax that imports it.

Everything under ``jaxlib._jax`` is private and changes without notice, so each name is used here
once, behind a thin function, and differences between versions are found by looking, never by
version number.

Words used below: a *buffer* is jaxlib's array (on one device, or one piece on each of several); an
*aval* is any object with ``.shape``, ``.dtype`` (an ``np.dtype``) and ``.weak_type``. XLA compares
neither shapes nor dtypes of buffers with a program, only byte sizes, and jaxlib 0.10 crashes on a
piece of the wrong size: the callers check both before they launch.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from jaxlib import _jax, utils
from jaxlib import version as _version
from jaxlib import weakref_lru_cache as _weakref_lru_cache
from jaxlib import xla_client as xc

from xjax.core.errors import bad
from xjax.core.interrupts import deferred, note_interrupt, shielded
from xjax.core.once import once
from xjax.runtime import compile_error, cuda_wheels, fork
from xjax.runtime.jax_blocker import without_jax


def _set_log_level(name: str = "XJAX_LOG_LEVEL") -> None:
    """Hide XLA's start-up chatter: 0 shows all, 1 (default) warnings, 2 errors, 3 fatal ones."""
    level = os.environ.get(name, "1")
    if level not in {"0", "1", "2", "3"}:
        raise bad(
            name,
            "the log level of XLA is not a number from 0 to 3.",
            {name: repr(level)},
            f"set {name}=1, or leave it unset.",
            exc=ValueError,
        )
    utils.absl_set_min_log_level(int(level))


_set_log_level()

ArrayCopySemantics = xc.ArrayCopySemantics
Buffer = _jax.ArrayImpl
Client = xc.Client
CompileError = compile_error.CompileError
CompileOptions = xc.CompileOptions
Device = xc.Device
DeviceList = xc.DeviceList
Executable = xc.LoadedExecutable
HloSharding = xc.HloSharding
ResultHandler = _jax.ResultHandler
XlaRuntimeError = xc.XlaRuntimeError
weakref_lru_cache = _weakref_lru_cache.weakref_lru_cache
jaxlib_version: str = _version.__version__
interface_version: int = xc._version


class MemoryStats(NamedTuple):
    """Bytes of a compiled program's arguments, results, temporaries, results that take over arguments, and code."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    alias_size_in_bytes: int
    generated_code_size_in_bytes: int


# Probes: what this jaxlib can do.
_HANDLER_SKIPS_CHECKS = "_skip_checks" in (xc.array_result_handler.__doc__ or "")
_COPIES_TO_NUMPY_WITHOUT_JAX = hasattr(Buffer, "_to_np_array_did_copy")


# --- Shardings -----------------------------------------------------------------------------------


class SingleDeviceSharding(xc.SingleDeviceSharding):
    """All of an array on one device, in the form jaxlib asks for; make it with `on_device`."""

    @property
    def memory_kind(self) -> str | None:
        return self._memory_kind

    @property
    def devices(self) -> tuple[Device, ...]:
        return (self._device,)

    def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding:
        return hlo_sharding_replicated()


class GSPMDSharding(xc.GSPMDSharding):
    """One piece on each of several devices, in the form jaxlib asks for; see `on_devices`."""

    @property
    def memory_kind(self) -> str | None:
        return self._memory_kind

    @property
    def devices(self) -> tuple[Device, ...]:
        return tuple(self._devices)

    @property
    def hlo(self) -> HloSharding:
        return self._hlo_sharding

    def _to_xla_hlo_sharding(self, ndim: int) -> HloSharding:
        return self._hlo_sharding


def on_device(device: Device, memory_kind: str | None = None) -> SingleDeviceSharding:
    """The one sharding object of a device (building one takes longer than a put that uses it)."""
    return _single_device(device, memory_kind)


_single_device = once(SingleDeviceSharding)
forget_devices = _single_device.cache_clear


def on_devices(
    devices: Sequence[Device], hlo: HloSharding, memory_kind: str | None = None
) -> GSPMDSharding:
    """A sharding over an ordered sequence of devices; position i of `hlo` is ``devices[i]``."""
    return GSPMDSharding(DeviceList(tuple(devices)), hlo, memory_kind)


@once
def hlo_sharding_replicated() -> HloSharding:
    """Every device holds the whole array."""
    return HloSharding.replicate()


@lru_cache(maxsize=4096)
def hlo_sharding_tiled(
    tile_dims: tuple[int, ...], device_order: tuple[int, ...], replicate_last: bool = False
) -> HloSharding:
    """A grid of tiles: axis i is cut in ``tile_dims[i]`` equal parts.

    Args:
      tile_dims: parts per axis; with `replicate_last` one more entry, the copies of each tile.
      device_order: for each tile, in row-major order, the position of its owner among the
        sharding's devices.
    """
    parts = tile_dims[:-1] if replicate_last else tile_dims
    if all(n == 1 for n in parts):
        return hlo_sharding_replicated()
    proto = xc.OpSharding()
    proto.type = xc.OpSharding.Type.OTHER
    proto.tile_assignment_dimensions = list(tile_dims)
    proto.tile_assignment_devices = list(device_order)
    proto.replicate_on_last_tile_dim = replicate_last
    return HloSharding.from_proto(proto)


def shard_indices(
    hlo: HloSharding, num_devices: int, shape: Sequence[int]
) -> list[tuple[slice, ...]]:
    """Which part of a global array of this shape each device holds, by position; `slice(None)` along a whole axis."""
    if hlo.is_replicated() or num_devices == 1:
        return [(slice(None),) * len(shape)] * num_devices
    tiles = hlo.tile_assignment_dimensions()  # axes past the array's rank count copies of a tile
    sizes = [-(-n // parts) for n, parts in zip(shape, tiles, strict=False)]
    indices: list[tuple[slice, ...]] = [()] * num_devices
    for flat, position in enumerate(hlo.tile_assignment_devices()):
        tile = np.unravel_index(flat, tiles)[: len(shape)]
        indices[position] = tuple(
            slice(min(int(i) * size, n), min(int(i) * size + size, n)) if parts > 1 else slice(None)
            for i, size, n, parts in zip(tile, sizes, shape, tiles, strict=False)
        )
    return indices


# --- Arrays --------------------------------------------------------------------------------------

_COPY = xc.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_ALIAS = xc.HostBufferSemantics.ZERO_COPY
_batched_device_put = xc.batched_device_put


def device_put(
    aval: Any,
    sharding: SingleDeviceSharding | GSPMDSharding,
    pieces: Sequence[Any],
    devices: Sequence[Device],
    alias: bool = False,
    apart: bool = False,
) -> Buffer:
    """Put NumPy arrays (or buffers) on devices, one piece on each; 4 us for a small one.

    Args:
      aval: type of the whole array. Nothing compares it with the pieces: the caller does.
      pieces: what each of `devices` gets, of the dtype of `aval`.
      alias: let the CPU use the NumPy memory itself if it is 64-byte aligned: later writes to it
        are then seen by programs.
      apart: the pieces are NumPy arrays, no two of them at one address.
    """
    if fork.in_child:
        raise fork.error()
    if len(pieces) > 1 and not (alias or apart or sharding.hlo.is_replicated()):
        pieces = _at_own_addresses(pieces)
    return _batched_device_put(
        aval,
        sharding,
        pieces,
        devices,
        True,
        enable_x64=True,
        host_buffer_semantics=_ALIAS if alias else _COPY,
    )


def _at_own_addresses(pieces: Sequence[Any]) -> list[Any]:
    """Copy repeated pieces: jaxlib merges those at one address and then fails to copy them."""
    seen: set[int] = set()
    out = []
    for piece in pieces:
        if isinstance(piece, np.ndarray):
            if piece.ctypes.data in seen:
                piece = piece.copy()
            seen.add(piece.ctypes.data)
        out.append(piece)
    return out


def to_numpy(buf: Buffer) -> np.ndarray:
    """Host value of a buffer, read-only; not a copy where the memory can be shared (CPU).

    Raises: the error of the program that makes the buffer; RuntimeError if it was deleted.
    """
    wait_for(buf)  # numpy's own conversion would swallow the error of a failed program
    try:
        return np.asarray(memoryview(buf))
    except BufferError:  # bfloat16 and other small types, device memory, several pieces
        return _copy_to_numpy(buf)


def _copy_to_numpy(buf: Buffer) -> np.ndarray:
    sharding = buf._sharding
    if isinstance(sharding, GSPMDSharding) and len(sharding.devices) > 1:
        return _assemble(buf, sharding)
    if _COPIES_TO_NUMPY_WITHOUT_JAX:
        value = buf._to_np_array_did_copy()[0]
    else:
        with without_jax:
            value = np.asarray(buf._single_device_array_to_np_array_did_copy()[0])
    value.flags.writeable = False
    return value


def _assemble(buf: Buffer, sharding: GSPMDSharding) -> np.ndarray:
    pieces = shards(buf)
    if sharding.hlo.is_replicated():
        note_shared_parts(buf)  # the value keeps XLA from taking over this part's memory
        return to_numpy(pieces[0])
    devices, aval = sharding.devices, buf.aval
    if len(pieces) != len(devices):
        raise bad(
            "to_numpy",
            "the array lies partly on devices of other processes.",
            {"devices": len(devices), "of this process": len(pieces)},
            "gather it first, or read its addressable shards.",
            exc=RuntimeError,
        )
    out = np.empty(aval.shape, aval.dtype)
    indices = shard_indices(sharding.hlo, len(devices), aval.shape)
    for piece, index in zip(pieces, indices, strict=True):
        if out.size:  # XLA does not cut an array without elements
            out[index] = to_numpy(piece)
    out.flags.writeable = False
    return out


def shards(buf: Buffer) -> list[Buffer]:
    """The single-device buffers of an array, ordered as the devices of its sharding."""
    with without_jax:
        return list(buf._arrays)


# Buffers over several devices whose parts are used alone too, by id; see `is_deleted`.
with_shared_parts: dict[int, weakref.ref[Buffer]] = {}


def note_shared_parts(buf: Buffer) -> Buffer:
    """To be called where a part of a buffer is given away, as a buffer or as memory; returns `buf`."""
    key = id(buf)
    if key not in with_shared_parts:
        with_shared_parts[key] = weakref.ref(buf, lambda _: with_shared_parts.pop(key, None))
    return buf


def is_deleted(buf: Buffer) -> bool:
    """Whether a buffer, or a part of it, was deleted or donated; jaxlib answers for the first part alone."""
    if buf.is_deleted():
        return True
    return id(buf) in with_shared_parts and any([piece.is_deleted() for piece in shards(buf)])


def join(aval: Any, sharding: GSPMDSharding, pieces: Sequence[Buffer]) -> Buffer:
    """One array of the buffers that its devices hold already, in the order of the sharding; nothing is copied."""
    return note_shared_parts(Buffer(aval, sharding, list(pieces), True, True))


def copy_to_device(
    buf: Buffer, device: Device, memory_kind: str | None = None, always_copy: bool = False
) -> Buffer:
    """Copy a single-device buffer; on the same device the memory is shared unless `always_copy`."""
    if fork.in_child:
        raise fork.error()
    semantics = ArrayCopySemantics.ALWAYS_COPY if always_copy else ArrayCopySemantics.REUSE_INPUT
    return xc.batched_copy_array_to_devices_with_sharding(
        [buf], [DeviceList((device,))], [on_device(device, memory_kind)], [semantics]
    )[0]


def wait_for(buf: Any) -> None:
    """Wait for a buffer or a token; raises the error of the program that makes it."""
    if fork.in_child and not buf.is_ready():
        raise fork.error()
    try:
        buf.block_until_ready()
    except KeyboardInterrupt as error:
        note_interrupt(error, "a program ran whose result was waited for")
        raise


def block_until_ready(buffers: Iterable[Buffer]) -> None:
    """Wait for buffers; raises the first error of the programs that make them."""
    buffers = list(buffers)
    if fork.in_child and not all(buf.is_ready() for buf in buffers):
        raise fork.error()
    try:
        xc.batched_block_until_ready(buffers)
    except KeyboardInterrupt as error:
        note_interrupt(error, "programs ran whose results were waited for")
        raise


def copy_to_host_async(buf: Buffer) -> None:
    """Start the copy of an array to the host, which `to_numpy` then finds done."""
    several = isinstance(buf._sharding, GSPMDSharding) and len(buf._sharding.devices) > 1
    for piece in shards(buf) if several else [buf]:
        piece._copy_single_device_array_to_host_async()


def to_dlpack(buf: Buffer, stream: int | None = None) -> object:
    """DLPack capsule that shares the memory of a single-device buffer and keeps it alive."""
    wait_for(buf)
    return _jax.buffer_to_dlpack_managed_tensor(buf, stream=stream)


def from_dlpack(capsule: object, device: Device, stream: int | None = None) -> Buffer:
    """Buffer on `device` from a DLPack capsule; memory is shared if it is 64-byte aligned."""
    if fork.in_child:
        raise fork.error()
    with without_jax:
        return _jax.dlpack_managed_tensor_to_buffer(capsule, device, stream)


def dlpack_device(device: Device) -> tuple[int, int]:
    """``(type, index)`` as `__dlpack_device__` gives it: 1 is host memory, 2 is CUDA."""
    return (1, 0) if device.platform == "cpu" else (2, device.local_hardware_id)


# --- Compilation ---------------------------------------------------------------------------------


def compile_options(
    devices: Sequence[Device],
    *,
    num_partitions: int = 1,
    optimization_level: int | None = None,
    options: Mapping[str, Any] | None = None,
    propagate_outputs: Sequence[bool] = (),
) -> CompileOptions:
    """Options of one program; see `compile`."""
    out = CompileOptions()
    out.num_replicas, out.num_partitions = 1, num_partitions
    # Without an assignment the program runs on device 0, whatever the list of devices says.
    ids = np.array([d.id for d in devices], np.int32).reshape(1, num_partitions)
    out.device_assignment = xc.DeviceAssignment.create(ids)
    build = out.executable_build_options
    if num_partitions > 1:
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = True
    if propagate_outputs:
        build.allow_spmd_sharding_propagation_to_output = list(propagate_outputs)
    flags = dict(options or {})
    if optimization_level is not None:
        flags.setdefault("xla_backend_optimization_level", optimization_level)
    if devices[0].platform == "gpu" and (toolkit := cuda_wheels.toolkit()):
        flags.setdefault("xla_gpu_cuda_data_dir", toolkit)
    out.env_option_overrides = list(flags.items())
    return out


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
      num_partitions: above 1 the text is the global program; Shardy cuts it along its
        ``sdy.sharding`` attributes.
      optimization_level: 0 to 3; None is XLA's default, 3. Level 1 saves a third of the time that
        small programs take to compile.
      options: XLA flags of this program alone, without the leading dashes.
      propagate_outputs: for each output, whether XLA may choose its sharding.
      host_callbacks: Python functions that the program calls by index.
    Raises: CompileError where the text is not valid StableHLO; ValueError for an unknown flag;
      XlaRuntimeError for programs that XLA cannot compile.
    """
    if fork.in_child:
        raise fork.error()
    chosen = compile_options(
        devices,
        num_partitions=num_partitions,
        propagate_outputs=propagate_outputs,
        optimization_level=optimization_level,
        options=options,
    )
    where = DeviceList(tuple(devices))
    try:
        if host_callbacks:  # jaxlib takes callbacks with a parsed module only
            _collect_with_python()
            return shielded(lambda: client.compile_and_load(
                parse_module(text), where, chosen, host_callbacks=list(host_callbacks)))
        return shielded(lambda: client.compile_and_load(text, where, chosen))
    except (RuntimeError, ValueError) as error:
        readable = compile_error.at_line(str(error), text) or compile_error.of_option(str(error))
        if readable is None:
            raise
        raise readable from None


@once
def _collect_with_python() -> None:
    """Let Python's collector free the callbacks of programs that are gone: XLA only marks them."""
    gc.callbacks.append(
        lambda phase, info: _jax.collect_garbage() if phase == "stop" and not fork.in_child else None)


@once
def _mlir() -> tuple[ModuleType, object, Sequence[Callable[[object], None]]]:
    """MLIR bindings and dialects; loaded on demand: they take 50 ms and few programs need them."""
    ir = importlib.import_module("jaxlib.mlir.ir")
    registry = ir.DialectRegistry()
    importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
    more = [importlib.import_module(f"jaxlib.mlir.dialects.{name}") for name in ("stablehlo", "chlo", "sdy")]
    return ir, registry, [dialect.register_dialect for dialect in more]


def parse_module(text: str) -> object:
    """StableHLO text as a module of jaxlib's MLIR bindings, to be looked into or changed.

    Each module has a context of its own, which takes 2 ms: XLA's compiler loads dialects into the context of the module
    that it compiles, without the interpreter's lock, and a context is not made for two threads that do so at once.
    """
    ir, registry, register_dialects = _mlir()
    context = ir.Context()
    context.enable_multithreading(False)  # no pool of threads for each module
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for register_dialect in register_dialects:
        register_dialect(context)
    try:
        return ir.Module.parse(text, context)
    except ir.MLIRError as error:
        raise ValueError(str(error)) from None


def unoptimised_hlo(text: str) -> object:
    """The XlaComputation of StableHLO text, before any optimisation."""
    return _jax.mlir.mlir_module_to_xla_computation(text)


def unoptimised_cost(client: Client, text: str) -> dict[str, float]:
    """`cost_analysis` of a program that is not compiled."""
    return dict(_jax.hlo_module_cost_analysis(client, unoptimised_hlo(text).get_hlo_module()))


def serialize(exe: Executable) -> bytes:
    """The compiled program as bytes, for this jaxlib and this type of processor."""
    return exe.serialize()


def deserialize(
    client: Client, blob: bytes, devices: Sequence[Device], chosen: CompileOptions
) -> Executable:
    """Load what `serialize` gave; never from a source you do not trust: it is native code."""
    if fork.in_child:
        raise fork.error()
    with deferred("a program was loaded from disk"):
        return client.deserialize_executable(blob, DeviceList(tuple(devices)), chosen)


def cost_analysis(exe: Executable) -> dict[str, float]:
    """XLA's estimate: ``flops``, ``bytes accessed``, ``transcendentals`` ..."""
    return dict(exe.cost_analysis())


def memory_stats(exe: Executable) -> MemoryStats:
    """How many bytes a program needs, by the names that JAX gives them."""
    stats = exe.get_compiled_memory_stats()
    return MemoryStats(*[getattr(stats, name) for name in MemoryStats._fields])


def size_of_code(exe: Executable) -> int:
    """Bytes of a loaded program in memory; 0 where XLA does not tell."""
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
    """How each output is cut, as the compiler decided; None for a program of one device."""
    protos = exe.get_output_shardings()
    return None if protos is None else [HloSharding.from_proto(p) for p in protos]


# --- Launching -----------------------------------------------------------------------------------


def result_handler(aval: Any, sharding: SingleDeviceSharding | GSPMDSharding) -> ResultHandler:
    """Makes the buffer of one output; one handler serves all of the same type and sharding.

    ``handler.wrap(f)`` gives a handler that returns ``f(buffer)``.
    """
    if _HANDLER_SKIPS_CHECKS:  # jaxlib 0.10 has a fourth argument; its checks need jax
        return xc.array_result_handler(aval, sharding, True, True)
    return xc.array_result_handler(aval, sharding, True)


def execute(
    exe: Executable, buffers: Sequence[Buffer], handlers: Sequence[ResultHandler]
) -> list[Any]:
    """Launch a program; hot paths bind ``exe.execute_sharded`` once and write this line."""
    return exe.execute_sharded(buffers).consume_with_handlers(handlers)


def execute_with_token(
    execute_sharded: Callable[..., Any], buffers: Sequence[Buffer], handlers: Sequence[ResultHandler]
) -> tuple[list[Any], Any]:
    """`execute` by the method of a program, and a token whose ``block_until_ready()`` waits for the side effects."""
    results = execute_sharded(buffers, with_tokens=True)
    return results.consume_with_handlers(handlers), results.consume_token()


# --- Calls with values of the host ---------------------------------------------------------------


class _Call(NamedTuple):
    """What jaxlib asks of a program that it calls by itself; the names are its own."""

    xla_executable: Executable
    out_pytree_def: Any
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    out_avals: Sequence[Any]
    out_committed: Sequence[bool]
    kept_var_bitvec: Sequence[bool]
    in_device_local_layouts: Sequence[None]
    const_args: Sequence[Any]


class _HostType(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype
    weak_type: bool = False


def host_call(
    exe: Executable, device: Device, out_avals: Sequence[Any], registry: Any
) -> Callable[..., list[Buffer]]:
    """A call of a one-device program that takes NumPy values of up to 32 bits and Python's numbers
    among buffers; numbers are of 32 bits too.

    jaxlib puts them on the device within the call, in 1 us where `device_put` takes 3. It may read
    the memory of arrays as long as the program runs, so the caller hands over arrays that nobody
    writes to.

    Args:
      registry: jaxlib's registry of pytrees.
    """
    _set_switches()
    place = on_device(device)
    handlers = [result_handler(aval, place) for aval in out_avals]
    _, tree = registry.flatten([0] * len(out_avals))

    def put(x: Any) -> Buffer:
        x = _OF_NUMBER[type(x)](x) if type(x) in _OF_NUMBER else x
        return device_put(_HostType(x.shape, x.dtype), place, [x], [device])

    def call(*args: Any) -> list[Buffer]:
        return execute(exe, [x if type(x) is Buffer else put(x) for x in args], handlers)

    def call_for_new_types(*args: Any) -> tuple[list[Buffer], _Call | None, bool]:
        if not _OF_NUMBER.keys().isdisjoint(map(type, args)) and _makes_64_bits():
            return call(*args), None, True
        n, m = len(args), len(out_avals)
        how = _Call(exe, tree, [place] * n, [place] * m, out_avals, [True] * m, [True] * n, [None] * n, [])
        return call(*args), how, False

    return _jax.pjit("call", call, call_for_new_types, [], [], object(), registry, _not_on_device,
                     _jax.PjitFunctionCache(8))


_OF_NUMBER = {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex64}


def _makes_64_bits() -> bool:
    """Whether jaxlib's calls make 64-bit values of numbers, as the real JAX has set it in this thread."""
    return "jax" in sys.modules and getattr(getattr(sys.modules["jax"], "config", None), "jax_enable_x64", True)


def _not_on_device(*args: Any) -> Any:
    raise RuntimeError("xjax: a call with values of the host met a buffer of another device")


@once
def _set_switches() -> list[Any]:
    """jaxlib's calls read three switches that JAX sets at its import; where JAX is not, these are off."""
    switches: list[Any] = []  # which live as long as the process
    if "jax" not in sys.modules:
        for name, value in (("disable_jit", False), ("enable_x64", False), ("post_hook", None)):
            switches.append(_jax.config.Config(f"xjax_{name}", value))
            getattr(_jax.jax_jit, f"set_{name}_state")(switches[-1])
    return switches


# --- Clients -------------------------------------------------------------------------------------


def make_cpu_client(
    num_devices: int | None = None, asynchronous: bool = True, **distributed: Any
) -> Client:
    """A client of the host's processor.

    Args:
      num_devices: virtual devices; None: as ``--xla_force_host_platform_device_count`` in
        XLA_FLAGS says, else 1.
      asynchronous: a call may return before its program has run.
      distributed: ``distributed_client``, ``node_id``, ``num_nodes``, ``collectives`` of a run of
        many processes.
    """
    fork.starting_client()
    return xc.make_cpu_client(num_devices=num_devices, asynchronous=asynchronous, **distributed)


def make_gpu_client(**distributed: Any) -> Client:
    """A client of the NVIDIA GPUs, through the plugin that JAX's CUDA wheels install.

    Raises: RuntimeError if no plugin is installed, or no GPU is visible.
    """
    if (found := cuda_wheels.find_plugin()) is None:
        raise bad(
            "devices('gpu')",
            "no CUDA plugin is installed.",
            {"jaxlib": jaxlib_version},
            f"pip install 'jax-cuda12-plugin[with-cuda]=={jaxlib_version}', "
            "or set jax_platforms to 'cpu'.",
            exc=RuntimeError,
        )
    fork.starting_client()
    version, library = found
    _load_cuda_plugin(version, library)
    options = dict(xc.generate_pjrt_gpu_plugin_options())  # memory settings of XLA_PYTHON_CLIENT_*
    client = distributed.pop("distributed_client", None)
    options |= distributed
    try:
        return xc.make_c_api_client("cuda", options, client)
    except XlaRuntimeError as error:
        raise bad(
            "devices('gpu')",
            "CUDA does not start.",
            {"XLA": str(error).splitlines()[0]},
            "check the driver with nvidia-smi and CUDA_VISIBLE_DEVICES, or set jax_platforms to "
            "'cpu'.",
            exc=RuntimeError,
        ) from error


@once
def _load_cuda_plugin(version: str, library: str) -> None:
    """Load NVIDIA's libraries, the plugin and its custom calls; once per process."""
    if xc.pjrt_plugin_loaded("cuda"):
        return  # real JAX was first: the plugin and its custom calls are there
    for path in cuda_wheels.libraries(version):
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    c_api = xc.load_pjrt_plugin_dynamically("cuda", library)
    importlib.import_module("jaxlib._profiler").register_plugin_profiler(c_api)
    extension = importlib.import_module(f"jax_cuda{version}_plugin.cuda_plugin_extension")
    xc.register_custom_type_handler("CUDA", partial(extension.register_custom_type, c_api))
    xc.register_custom_call_handler("CUDA", partial(extension.register_custom_call_target, c_api))
    for name, kind in extension.ffi_types().items():
        xc.register_custom_type(name, kind, platform="CUDA")
    for name, target in extension.ffi_handlers().items():
        xc.register_custom_call_target(name, target, platform="CUDA", api_version=1)
    for name in ("gpu_solver", "gpu_linalg", "gpu_sparse", "gpu_prng"):
        _register_all(importlib.import_module(f"jaxlib.{name}").registrations())
    if not xc.pjrt_plugin_initialized("cuda"):
        xc.initialize_pjrt_plugin("cuda")


# --- Profiling and several processes ---------------------------------------------------------------


def profiler() -> ModuleType:
    """jaxlib's profiler: ``ProfilerSession(options)`` starts one, ``stop_and_export(folder)`` writes it."""
    return importlib.import_module("jaxlib._profiler")


def profile_data() -> ModuleType:
    """jaxlib's reader of what the profiler wrote."""
    return importlib.import_module("jaxlib._profile_data")


def memory_profile(client: Client) -> bytes:
    """The memory that arrays and programs hold, as a pprof profile."""
    return client.heap_profile()


def serve_processes(address: str, count: int, heartbeat_timeout: int, shutdown_timeout: int) -> Any:
    """The service that lets `count` processes find each other; it runs in one of them."""
    return _jax.get_distributed_runtime_service(address, count, heartbeat_timeout=heartbeat_timeout,
                                                shutdown_timeout=shutdown_timeout)


def join_processes(address: str, rank: int, init_timeout: int, heartbeat_timeout: int, shutdown_timeout: int) -> Any:
    """Connect this process to the service; returns when all processes have. XLA aborts the process if they do not."""
    client = _jax.get_distributed_runtime_client(
        address, rank, init_timeout=init_timeout, heartbeat_timeout=heartbeat_timeout,
        shutdown_timeout=shutdown_timeout, use_compression=True)
    client.connect()
    return client


def make_gloo_collectives(distributed_client: Any) -> Any:
    """What CPU devices of several processes sum and gather with."""
    return _jax.make_gloo_tcp_collectives(distributed_client)


# --- Native functions that programs call ---------------------------------------------------------


def _register_all(registrations: Mapping[str, Iterable[tuple[str, object, int]]]) -> None:
    for platform, targets in registrations.items():
        for name, target, api_version in targets:
            xc.register_custom_call_target(name, target, platform=platform, api_version=api_version)


@once
def register_lapack() -> None:
    """Make the ``lapack_*_ffi`` custom calls usable; without it a launch of one crashes.

    Needs SciPy (its LAPACK is the one that runs) and 0.3 s: call it for the first program with one.
    """
    lapack = importlib.import_module("jaxlib.lapack")
    _register_all(lapack.registrations())
    for name in lapack.batch_partitionable_targets():
        xc.register_custom_call_as_batch_partitionable(name)
    importlib.import_module("jaxlib.cpu._lapack").initialize()
