"""xjax: NumPy on accelerators, with derivatives, vectorization, compilation and multiple devices; it has JAX's API.

    import xjax as jax
    import xjax.numpy as jnp

The import is fast: no backend starts, and heavy or rarely used submodules are imported at their first access
(`_LAZY`).
"""

from typing import TYPE_CHECKING

import xjax.jaxlib_versions
from xjax import dtypes, errors, lax, numpy, sharding, tree, tree_util, typing
from xjax.core import leaks as _leaks
from xjax.core import printing
from xjax.core.config import (
    allow_f16_reductions,
    array_garbage_collection_guard,
    auto_pcast,
    check_tracer_leaks,
    checking,
    checking_leaks,
    config,
    debug_infs,
    debug_key_reuse,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    enable_checks,
    enable_custom_prng,
    enable_x64,
    explain_cache_misses,
    legacy_prng_key,
    log_compiles,
    no_execution,
    no_retrace,
    no_tracing,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    remove_size_one_mesh_axis_from_type,
    softmax_custom_jvp,
    thread_guard,
    threefry_partitionable,
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)
from xjax.core.dtypes import float0
from xjax.core.public import attributes_of
from xjax.runtime.api import (
    block_until_ready,
    clear_caches,
    copy_to_host_async,
    device_get,
    ensure_compile_time_eval,
    named_call,
    named_scope,
)
from xjax.runtime.arrays import transfer_guard as _guard
from xjax.runtime.arrays.array import Shard
from xjax.runtime.arrays.memory_use import live_arrays, memory_report
from xjax.runtime.device_put import device_put
from xjax.runtime.devices.backend import (
    default_backend,
    device_count,
    devices,
    host_count,
    host_id,
    host_ids,
    local_device_count,
    local_devices,
    process_count,
    process_index,
    process_indices,
)
from xjax.runtime.jit import Inline, jit
from xjax.runtime.placement.current_mesh import get_abstract_mesh, get_mesh, set_mesh, use_abstract_mesh
from xjax.runtime.placement.mesh import make_mesh
from xjax.runtime.placement.sharding import NamedSharding
from xjax.runtime.placement.sharding import PartitionSpec as P
from xjax.runtime.process import memory as _memory
from xjax.runtime.stages import ShapeDtypeStruct, eval_shape, make_jaxpr
from xjax.runtime.xla import Device
from xjax.transforms.autodiff import grad, jvp, linearize, value_and_grad, vjp
from xjax.transforms.jacobians import hessian, jacfwd, jacobian, jacrev
from xjax.transforms.refs import typeof
from xjax.transforms.vmap import vmap
from xjax.typing import Array
from xjax.version import __version__, __version_info__

if TYPE_CHECKING:
    from xjax import (
        ad_checkpoint,
        checkpoint_policies,
        compat,
        custom_batching,
        custom_derivatives,
        debug,
        distributed,
        dlpack,
        experimental,
        export,
        ffi,
        flatten_util,
        image,
        interop,
        memory,
        monitoring,
        nn,
        ops,
        profiler,
        random,
        ref,
        scipy,
        stages,
        test_util,
        version,
    )
    from xjax.compat.finder import install_as_jax
    from xjax.compat.launch import load_ipython_extension
    from xjax.lax.callbacks import pure_callback
    from xjax.ref import Ref, ds, empty_ref, free_ref, freeze, new_ref
    from xjax.runtime.arrays.global_arrays import (
        make_array_from_callback,
        make_array_from_process_local_data,
        make_array_from_single_device_arrays,
    )
    from xjax.runtime.devices.in_flight import effects_barrier
    from xjax.runtime.environment import print_environment_info
    from xjax.runtime.fwd_and_bwd import fwd_and_bwd
    from xjax.runtime.pmap import pmap
    from xjax.runtime.shard_map import shard_map
    from xjax.runtime.sharding_constraint import reshard
    from xjax.transforms.closure_convert import closure_convert
    from xjax.transforms.custom_gradient import custom_gradient
    from xjax.transforms.custom_jvp import custom_jvp
    from xjax.transforms.custom_vjp import custom_vjp
    from xjax.transforms.linear_transpose import linear_transpose
    from xjax.transforms.remat import checkpoint, remat

# Public name -> (module, name in it; "" for the module itself), imported on first access.
_LAZY = {
    **{name: (f"xjax.{name}", "") for name in (
        "ad_checkpoint", "checkpoint_policies", "compat", "custom_batching", "custom_derivatives", "debug",
        "distributed", "dlpack", "experimental", "export", "ffi", "flatten_util", "image", "interop", "memory",
        "monitoring", "nn", "ops", "profiler", "random", "ref", "scipy", "stages", "test_util", "version")},
    "checkpoint": ("xjax.transforms.remat", "checkpoint"),
    "remat": ("xjax.transforms.remat", "remat"),
    "closure_convert": ("xjax.transforms.closure_convert", "closure_convert"),
    "custom_gradient": ("xjax.transforms.custom_gradient", "custom_gradient"),
    "custom_jvp": ("xjax.transforms.custom_jvp", "custom_jvp"),
    "custom_vjp": ("xjax.transforms.custom_vjp", "custom_vjp"),
    "effects_barrier": ("xjax.runtime.devices.in_flight", "effects_barrier"),
    "install_as_jax": ("xjax.compat.finder", "install_as_jax"),
    "load_ipython_extension": ("xjax.compat.launch", "load_ipython_extension"),
    "fwd_and_bwd": ("xjax.runtime.fwd_and_bwd", "fwd_and_bwd"),
    "linear_transpose": ("xjax.transforms.linear_transpose", "linear_transpose"),
    "pmap": ("xjax.runtime.pmap", "pmap"),
    "print_environment_info": ("xjax.runtime.environment", "print_environment_info"),
    "pure_callback": ("xjax.lax.callbacks", "pure_callback"),
    "reshard": ("xjax.runtime.sharding_constraint", "reshard"),
    **{name: ("xjax.ref", name) for name in ("Ref", "ds", "empty_ref", "free_ref", "freeze", "new_ref")},
    "shard_map": ("xjax.runtime.shard_map", "shard_map"),
    **{name: ("xjax.runtime.arrays.global_arrays", name) for name in (
        "make_array_from_callback", "make_array_from_process_local_data", "make_array_from_single_device_arrays")},
}

__all__ = [
    "Array", "Device", "Inline", "NamedSharding", "P", "ShapeDtypeStruct", "Shard", "allow_f16_reductions",
    "array_garbage_collection_guard", "auto_pcast", "block_until_ready", "check_tracer_leaks", "checking",
    "checking_leaks", "clear_caches", "config", "copy_to_host_async", "debug_infs", "debug_key_reuse",
    "debug_nans", "default_backend", "default_device", "default_matmul_precision", "default_prng_impl",
    "device_count", "device_get", "device_put", "devices", "disable_jit", "dtypes", "enable_checks",
    "enable_custom_prng", "enable_x64", "ensure_compile_time_eval", "errors", "eval_shape", "explain_cache_misses",
    "float0", "get_abstract_mesh", "get_mesh", "grad", "hessian", "host_count", "host_id", "host_ids", "jacfwd",
    "jacobian", "jacrev", "jit", "jvp", "lax", "legacy_prng_key", "linearize", "live_arrays", "local_device_count",
    "local_devices", "log_compiles", "make_jaxpr", "make_mesh", "memory_report", "named_call", "named_scope",
    "no_execution", "no_retrace", "no_tracing", "numpy", "numpy_dtype_promotion", "numpy_rank_promotion",
    "process_count", "process_index", "process_indices", "remove_size_one_mesh_axis_from_type", "set_mesh",
    "sharding", "softmax_custom_jvp", "thread_guard", "threefry_partitionable", "transfer_guard",
    "transfer_guard_device_to_device", "transfer_guard_device_to_host", "transfer_guard_host_to_device", "tree",
    "tree_util", "typeof", "typing", "use_abstract_mesh", "value_and_grad", "vjp", "vmap",
]


if not TYPE_CHECKING:                   # so that type checkers report misspelt names
    __getattr__ = attributes_of("xjax", _LAZY)
