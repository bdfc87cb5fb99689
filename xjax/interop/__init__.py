"""Interoperation with other libraries: functions written in JAX, and arrays of JAX, torch and NumPy.

The real JAX is imported only when one of these functions is called with an object of JAX.
"""

from xjax.core.public import attributes_of
from xjax.interop.arrays import from_jax_array, to_jax_array
from xjax.interop.bridge import JaxFunction, from_jax
from xjax.interop.real_jax import import_library
from xjax.runtime.arrays.dlpack import from_dlpack

__all__ = ["JaxFunction", "from_dlpack", "from_jax", "from_jax_array", "import_library", "to_jax_array"]


__getattr__ = attributes_of(__name__)
