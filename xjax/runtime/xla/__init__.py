"""The adapter to jaxlib: with `core/tree.py` the only module of xjax that imports it.

Everything under ``jaxlib._jax`` is private and changes without notice. So each name is used here once, in a thin
function, and differences between versions are found by probing, never by version number. Faults of the
compilers are the exception: a table lists them by version (`compiler_faults.py`).

Terms used below: a *buffer* is jaxlib's array (on one device, or one piece on each of several); an
*aval* is any object with ``.shape``, ``.dtype`` (an ``np.dtype``) and ``.weak_type``. XLA does not compare
the shapes and dtypes of buffers with a program, only byte sizes, and jaxlib 0.10 crashes on a
piece of the wrong size: callers check both before they launch.
"""

from xjax.runtime.xla.arrays import (
    block_until_ready,
    copy_to_device,
    copy_to_host_async,
    device_put,
    dlpack_device,
    from_cuda_interface,
    from_dlpack,
    is_deleted,
    is_row_major,
    join,
    note_shared_parts,
    shards,
    to_dlpack,
    to_numpy,
    wait_for,
    with_shared_parts,
)
from xjax.runtime.xla.clients import (
    cuda_library_version,
    cuda_ordinal,
    initialize_cuda_hybrids,
    join_processes,
    make_cpu_client,
    make_gloo_collectives,
    make_gpu_client,
    memory_profile,
    profile_data,
    profiler,
    register_lapack,
    serve_processes,
)
from xjax.runtime.xla.compiler_flags import compiler_flags
from xjax.runtime.xla.launching import execute, execute_with_token, host_call, put_host_value, result_handler
from xjax.runtime.xla.names import (
    Buffer,
    Client,
    CompileError,
    Device,
    DeviceList,
    Executable,
    HloSharding,
    ResultHandler,
    Waitable,
    XlaRuntimeError,
    interface_version,
    jaxlib_version,
)
from xjax.runtime.xla.programs import (
    MemoryStats,
    compile,
    compile_options,
    cost_analysis,
    deserialize,
    has_collectives,
    hlo_text,
    memory_stats,
    output_hlo_shardings,
    parse_module,
    serialize,
    size_of_code,
    unoptimised_cost,
    unoptimised_hlo,
)
from xjax.runtime.xla.shardings import (
    GSPMDSharding,
    SingleDeviceSharding,
    forget_devices,
    hlo_sharding_replicated,
    hlo_sharding_tiled,
    inspection_key,
    on_device,
    on_devices,
    shard_indices,
)

__all__ = ["Buffer", "Client", "CompileError", "Device", "DeviceList", "Executable", "GSPMDSharding", "HloSharding",
           "MemoryStats", "ResultHandler", "SingleDeviceSharding", "Waitable", "XlaRuntimeError", "block_until_ready",
           "compile", "compile_options", "compiler_flags", "copy_to_device", "copy_to_host_async", "cost_analysis",
           "cuda_library_version", "cuda_ordinal", "deserialize", "device_put", "dlpack_device", "execute",
           "execute_with_token", "forget_devices", "from_cuda_interface", "from_dlpack", "has_collectives",
           "hlo_sharding_replicated", "hlo_sharding_tiled", "hlo_text", "host_call", "initialize_cuda_hybrids",
           "inspection_key", "interface_version", "is_deleted", "is_row_major", "jaxlib_version", "join",
           "join_processes", "make_cpu_client", "make_gloo_collectives", "make_gpu_client", "memory_profile",
           "memory_stats", "note_shared_parts", "on_device", "on_devices", "output_hlo_shardings", "parse_module",
           "profile_data", "profiler", "put_host_value", "register_lapack", "result_handler", "serialize",
           "serve_processes", "shard_indices", "shards", "size_of_code", "to_dlpack", "to_numpy", "unoptimised_cost",
           "unoptimised_hlo", "wait_for", "with_shared_parts"]
