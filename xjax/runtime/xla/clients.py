"""Clients for CPUs and GPUs, of one process or of several; the native functions that programs call."""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from jaxlib import _jax
from jaxlib import xla_client as xc

from xjax.core.errors import bad
from xjax.core.once import once
from xjax.runtime.process import cuda_wheels, fork
from xjax.runtime.xla.names import Client, XlaRuntimeError, jaxlib_version


def make_cpu_client(
    num_devices: int | None = None, asynchronous: bool = True, **distributed: Any
) -> Client:
    """A client of the host's processor.

    Args:
      num_devices: number of virtual devices; None: ``--xla_force_host_platform_device_count`` in XLA_FLAGS, else 1.
      asynchronous: whether a call may return before its program has run.
      distributed: ``distributed_client``, ``node_id``, ``num_nodes``, ``collectives``, if several processes work
        together.
    """
    fork.starting_client()
    return xc.make_cpu_client(num_devices=num_devices, asynchronous=asynchronous, **distributed)


def make_gpu_client(**distributed: object) -> Client:
    """A client of the NVIDIA GPUs, through the plugin that JAX's CUDA wheels install.

    Raises: RuntimeError if no plugin is installed, or no GPU is visible.
    """
    if (newest := cuda_wheels.find_plugin()) is None:
        raise bad(
            "devices('gpu')",
            "no CUDA plugin is installed.",
            {"jaxlib": jaxlib_version},
            f"pip install 'jax-cuda13-plugin[with-cuda]=={jaxlib_version}', or cuda12 for older drivers "
            "(docs/gpu.md), or set jax_platforms to 'cpu'.",
            exc=RuntimeError,
        )
    fork.starting_client()
    version, library = newest
    failed = _load_nvidia_libraries(version)
    client = distributed.pop("distributed_client", None)
    try:
        plugin = _load_cuda_plugin(version, library)
        options = {**xc.generate_pjrt_gpu_plugin_options(), **distributed}     # memory settings of XLA_PYTHON_CLIENT_*
        return xc.make_c_api_client(plugin, options, client)
    except (XlaRuntimeError, ImportError, OSError) as error:
        raise bad(
            "devices('gpu')",
            "CUDA does not start.",
            {"XLA": str(error).splitlines()[0], **({"libraries not loaded": "; ".join(failed)} if failed else {})},
            "install the extra cuda12 or cuda13 of xjax again, check the driver with nvidia-smi and "
            "CUDA_VISIBLE_DEVICES, or set jax_platforms to 'cpu'.",
            exc=RuntimeError,
        ) from error


@once
def _load_nvidia_libraries(version: str) -> tuple[str, ...]:
    """Load the libraries of the nvidia-* wheels; returns the errors of failed ones, which may not be needed."""
    failed = []
    for path in () if xc.pjrt_plugin_loaded("cuda") else cuda_wheels.libraries(version):
        try:
            ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            failed.append(str(error))
    return tuple(failed)


@once
def _load_cuda_plugin(version: str, library: str) -> str:
    """Load the plugin and its custom calls, once per process.

    Returns: jaxlib's name of the plugin. Real JAX uses "cuda" and fails if that name is taken, so xjax uses another
      name for the same library.
    """
    if xc.pjrt_plugin_loaded("cuda"):
        return "cuda"  # real JAX has loaded the plugin and its custom calls
    plugin = "xjax_cuda"
    c_api = xc.load_pjrt_plugin_dynamically(plugin, library)
    importlib.import_module("jaxlib._profiler").register_plugin_profiler(c_api)
    extension = importlib.import_module(f"jax_cuda{version}_plugin.cuda_plugin_extension")
    xc.register_custom_type_handler("CUDA", partial(extension.register_custom_type, c_api))
    xc.register_custom_call_handler("CUDA", partial(extension.register_custom_call_target, c_api))
    for name, kind in extension.ffi_types().items():
        xc.register_custom_type(name, kind, platform="CUDA")
    for name, target in extension.ffi_handlers().items():
        xc.register_custom_call_target(name, target, platform="CUDA", api_version=1)
    for name in ("gpu_solver", "gpu_linalg", "gpu_sparse", "gpu_prng"):
        _register_module(importlib.import_module(f"jaxlib.{name}"))
    if not xc.pjrt_plugin_initialized(plugin):
        xc.initialize_pjrt_plugin(plugin)
    return plugin


# --- Profiling and several processes ---------------------------------------------------------------


def profiler() -> ModuleType:
    """jaxlib's profiler: ``ProfilerSession(options)`` starts a session, ``stop_and_export(folder)`` writes it."""
    return importlib.import_module("jaxlib._profiler")


def profile_data() -> ModuleType:
    """jaxlib's reader of files that the profiler has written."""
    return importlib.import_module("jaxlib._profile_data")


def memory_profile(client: Client) -> bytes:
    """The memory used by arrays and programs, as a pprof profile."""
    return client.heap_profile()


def serve_processes(address: str, count: int, heartbeat_timeout: int, shutdown_timeout: int) -> Any:
    """The service by which `count` processes connect to each other; it runs in one of them."""
    return _jax.get_distributed_runtime_service(address, count, heartbeat_timeout=heartbeat_timeout,
                                                shutdown_timeout=shutdown_timeout)


def join_processes(address: str, rank: int, init_timeout: int, heartbeat_timeout: int, shutdown_timeout: int) -> Any:
    """Connect this process to the service; returns when all processes have connected, else XLA aborts the process."""
    client = _jax.get_distributed_runtime_client(
        address, rank, init_timeout=init_timeout, heartbeat_timeout=heartbeat_timeout,
        shutdown_timeout=shutdown_timeout, use_compression=True)
    client.connect()
    return client


def make_gloo_collectives(distributed_client: Any) -> Any:
    """The implementation of collectives between CPU devices of several processes."""
    return _jax.make_gloo_tcp_collectives(distributed_client)


# --- Native functions that programs call ---------------------------------------------------------


def _register_all(registrations: Mapping[str, Iterable[tuple[str, object, int]]]) -> None:
    for platform, targets in registrations.items():
        for name, target, api_version in targets:
            xc.register_custom_call_target(name, target, platform=platform, api_version=api_version)


def _register_module(module: ModuleType) -> None:
    """Register the functions of a jaxlib module; XLA may split some of them along the batch dimension."""
    _register_all(module.registrations())
    for name in getattr(module, "batch_partitionable_targets", list)():
        xc.register_custom_call_as_batch_partitionable(name)


@once
def register_lapack() -> None:
    """Make the ``lapack_*_ffi`` custom calls usable; otherwise launching one crashes.

    It needs SciPy, whose LAPACK it uses, and takes 0.3 s: call it only when a program needs it.
    """
    _register_module(importlib.import_module("jaxlib.lapack"))
    importlib.import_module("jaxlib.cpu._lapack").initialize()


@once
def initialize_cuda_hybrids() -> None:
    """Make the ``cuhybrid_*`` custom calls usable; otherwise launching one crashes. No effect without the plugin."""
    importlib.import_module("jaxlib.gpu_solver").initialize_hybrid_kernels()


def cuda_ordinal(pointer: int) -> int:
    """The number of the GPU whose memory contains this address; the plugin must be loaded."""
    version, _ = cuda_wheels.find_plugin() or ("13", "")
    return importlib.import_module(f"jax_cuda{version}_plugin.cuda_plugin_extension").get_device_ordinal(pointer)


@functools.cache
def cuda_library_version(library: str) -> int | None:
    """The version of "cusolver" or "cudnn" that the CUDA plugin uses, 11701 for 11.7.1; None without the plugin."""
    plugin = cuda_wheels.find_plugin()
    if plugin is None:
        return None
    return getattr(importlib.import_module(f"jax_cuda{plugin[0]}_plugin._versions"), f"{library}_get_version")()
