"""Arrays of real JAX as ours, and ours as those of JAX; `runtime.arrays.dlpack` has those of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjax import random
from xjax.core.errors import TracerArrayConversionError, bad
from xjax.core.key_types import is_key
from xjax.core.trace import Tracer, abstract_value_error
from xjax.interop.real_jax import real_jax
from xjax.interop.reference import host_value
from xjax.runtime.arrays.array import Array, from_numpy
from xjax.runtime.arrays.moves import to_array


def from_jax_array(x: Any) -> Array:
    """A concrete `jax.Array` as an xjax array of the same type, weak type included; typed random keys are keys here.

    Raises: TypeError for what JAX is tracing.
    """
    jax = real_jax()
    if isinstance(x, jax.core.Tracer):
        raise bad("from_jax_array", f"the value is being traced by JAX ({x.aval.str_short()})",
                  fix="bridge the whole function with xjax.interop.from_jax, or with to_jax for the way back.")
    weak = bool(getattr(x, "weak_type", False))
    value = host_value(x)
    return from_numpy(value, weak_type=weak) if isinstance(value, np.ndarray) else value


def to_jax_array(x: Any) -> Any:
    """An xjax array (or what becomes one) as a `jax.Array` on JAX's default device; random keys are keys there."""
    if isinstance(x, Tracer):
        raise abstract_value_error("a NumPy array from", x, TracerArrayConversionError)
    jax, array = real_jax(), to_array(x)
    if is_key(array.aval):
        return jax.random.wrap_key_data(random.key_data(array).numpy(), impl=random.key_impl(array))
    return jax.numpy.asarray(array.numpy())
