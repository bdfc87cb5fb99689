"""`jax.interpreters.xla`: eager execution of an operation, and conversion of values."""

import numpy as np

from xjax.compat.primitive import apply_primitive

__all__ = ["apply_primitive", "canonicalize_dtype_handlers"]

# Functions that convert values of a class. `jax.core.pytype_aval_mappings` makes a class known as one of arrays; then
# its values are converted by their method `__array__`.
canonicalize_dtype_handlers = {np.ndarray: np.asarray}
