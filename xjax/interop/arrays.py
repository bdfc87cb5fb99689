"""Arrays of other libraries: real JAX, torch, NumPy, anything that speaks DLPack or the NumPy protocol."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import TracerArrayConversionError, bad
from xjax.core.trace import Tracer, abstract_value_error
from xjax.core.types import ShapedArray
from xjax.interop.real_jax import real_jax
from xjax.runtime import xla
from xjax.runtime.array import Array, default_sharding, from_numpy, on, to_array

_HOST = 1               # DLPack's name for CPU memory


def from_jax_array(x: Any) -> Array:
    """A concrete `jax.Array` as an xjax array of the same type, weak type included; typed random keys give their words.

    Raises: TypeError for what JAX is tracing.
    """
    jax = real_jax()
    if isinstance(x, jax.core.Tracer):
        raise bad("from_jax_array", f"the value is being traced by JAX ({x.aval.str_short()})",
                  fix="bridge the whole function with xjax.interop.from_jax, or with to_jax for the way back.")
    weak = bool(getattr(x, "weak_type", False))
    value = np.asarray(x if isinstance(x.dtype, np.dtype) else jax.random.key_data(x))
    return from_numpy(value, weak_type=weak)


def to_jax_array(x: Any) -> Any:
    """An xjax array (or what becomes one) as a `jax.Array` on JAX's default device."""
    if isinstance(x, Tracer):
        raise abstract_value_error("a NumPy array from", x, TracerArrayConversionError)
    return real_jax().numpy.asarray(to_array(x).numpy())


def from_dlpack(x: Any, device: Any = None) -> Array:
    """An array of another library (torch, NumPy, JAX) in host memory as an xjax array, through DLPack.

    Memory is shared where it can be (a contiguous array of a dtype that xjax keeps, at a 64-byte boundary), so `x` must
    not be changed afterwards. Detach a torch tensor that requires a gradient.

    Args: device: where the result lies; None: the default device.
    Raises: TypeError if `x` has no ``__dlpack__`` or lies on another device than the CPU.
    """
    if isinstance(x, Tracer) or not hasattr(x, "__dlpack__"):
        raise bad("from_dlpack", f"a value of type {type(x).__name__} does not speak DLPack",
                  given={"value": repr(x)[:80]}, fix="convert it with xjax.numpy.asarray(x).")
    if x.__dlpack_device__()[0] != _HOST:
        raise bad("from_dlpack", "the array does not lie in host memory", given={"type": type(x).__name__},
                  fix="copy it there first (tensor.cpu(), jax.device_put(x, cpu)).")
    value = x if isinstance(x, np.ndarray) else np.from_dlpack(x)       # NumPy exports no read-only arrays
    sharding = default_sharding() if device is None else on(device)
    shareable = value.flags.c_contiguous and dtypes.canonicalize_dtype(value.dtype) == value.dtype
    if not shareable or sharding.devices[0].platform != "cpu":
        return from_numpy(value, sharding)
    aval = ShapedArray(value.shape, value.dtype)
    buf = xla.device_put(aval, sharding.xla(aval.ndim), [value], list(sharding.devices), alias=True)
    return Array(buf, aval, sharding)
