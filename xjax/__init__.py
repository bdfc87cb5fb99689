"""xjax: NumPy on accelerators, with derivatives, vectorisation, compilation and many devices; JAX's API.

    import xjax as jax
    import xjax.numpy as jnp

The import is light: no backend starts, and submodules that are heavy or rarely used are imported when they are first
asked for (`_LAZY`).
"""

import importlib
from typing import Any

from xjax import dtypes, errors, lax, numpy, sharding, tree, tree_util, typing
from xjax.core import printing  # noqa: F401  programs show themselves as text
from xjax.core.config import (
    config,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    enable_x64,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    threefry_partitionable,
)
from xjax.core.dtypes import float0
from xjax.core.errors import did_you_mean
from xjax.core.types import typeof
from xjax.runtime import memory  # noqa: F401  tunes the allocator
from xjax.runtime.api import block_until_ready, clear_caches, device_get, device_put, named_call, named_scope
from xjax.runtime.backend import (
    default_backend,
    device_count,
    devices,
    local_device_count,
    local_devices,
    process_count,
    process_index,
)
from xjax.runtime.jit import jit
from xjax.runtime.mesh import make_mesh
from xjax.runtime.sharding import NamedSharding
from xjax.runtime.sharding import PartitionSpec as P
from xjax.runtime.stages import ShapeDtypeStruct, eval_shape, make_jaxpr
from xjax.transforms.autodiff import grad, hessian, jacfwd, jacrev, jvp, linearize, value_and_grad, vjp
from xjax.transforms.vmap import vmap
from xjax.typing import Array

jacobian = jacrev

# Public name -> (module, name in it; "" for the module itself), imported on first access.
_LAZY = {
    **{name: (f"xjax.{name}", "") for name in ("interop", "nn", "ops", "random", "scipy", "stages")},
    "checkpoint": ("xjax.transforms.remat", "checkpoint"),
    "checkpoint_policies": ("xjax.transforms.remat", "checkpoint_policies"),
    "remat": ("xjax.transforms.remat", "checkpoint"),
    "custom_gradient": ("xjax.transforms.custom_gradient", "custom_gradient"),
    "custom_jvp": ("xjax.transforms.custom_jvp", "custom_jvp"),
    "custom_vjp": ("xjax.transforms.custom_vjp", "custom_vjp"),
    "linear_transpose": ("xjax.transforms.linear_transpose", "linear_transpose"),
    "pmap": ("xjax.runtime.pmap", "pmap"),
}

__all__ = [
    "Array", "NamedSharding", "P", "ShapeDtypeStruct", "block_until_ready", "clear_caches", "config", "debug_nans",
    "default_backend", "default_device", "default_matmul_precision", "default_prng_impl", "device_count", "device_get",
    "device_put", "devices", "disable_jit", "dtypes", "enable_x64", "errors", "eval_shape", "float0", "grad",
    "hessian", "jacfwd", "jacobian", "jacrev", "jit", "jvp", "lax", "linearize", "local_device_count", "local_devices",
    "make_jaxpr", "make_mesh", "named_call", "named_scope", "numpy", "numpy_dtype_promotion", "numpy_rank_promotion",
    "process_count", "process_index", "sharding", "threefry_partitionable", "tree", "tree_util", "typeof", "typing",
    "value_and_grad", "vjp", "vmap", *_LAZY]


def __getattr__(name: str) -> Any:
    try:
        module, attribute = _LAZY[name]
    except KeyError:
        hint = did_you_mean(name, __all__)
        raise AttributeError(f"module 'xjax' has no attribute {name!r}" + (f": {hint}" if hint else "")) from None
    found = importlib.import_module(module)
    found = globals()[name] = getattr(found, attribute) if attribute else found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
