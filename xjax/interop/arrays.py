"""Conversion of arrays between the real JAX and xjax; `runtime.arrays.dlpack` converts arrays of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjax import random
from xjax.core.errors import TracerArrayConversionError, bad
from xjax.core.key_types import is_key
from xjax.core.trace import Tracer, abstract_value_error
from xjax.interop.real_jax import real_jax
from xjax.interop.reference import host_value
from xjax.runtime.arrays.array import from_numpy
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.xla.real_jax import xjax_is_jax
from xjax.typing import Array, ArrayLike


def from_jax_array(x: Any) -> Array:
    """A concrete `jax.Array` as an xjax array of the same type and weak type; typed random keys become typed keys.

    Where xjax is installed as jax, arrays of jax are arrays of xjax.

    Raises: TypeError for a value that JAX is tracing.
    """
    if xjax_is_jax():
        return to_array(x)
    jax = real_jax()
    if isinstance(x, jax.core.Tracer):
        raise bad("from_jax_array", f"the value is being traced by JAX ({x.aval.str_short()})",
                  fix="bridge the whole function with xjax.interop.from_jax.")
    weak = bool(getattr(x, "weak_type", False))
    value = host_value(x)
    return from_numpy(value, weak_type=weak) if isinstance(value, np.ndarray) else value


def to_jax_array(x: ArrayLike) -> Any:
    """An xjax array, or a value that converts to one, as a `jax.Array` on JAX's default device; keys become keys."""
    if isinstance(x, Tracer):
        raise abstract_value_error("a NumPy array from", x, TracerArrayConversionError)
    array = to_array(x)
    if xjax_is_jax():
        return array
    jax = real_jax()
    if is_key(array.aval):
        return jax.random.wrap_key_data(random.key_data(array).numpy(), impl=random.key_impl(array))
    return jax.numpy.asarray(array.numpy())
