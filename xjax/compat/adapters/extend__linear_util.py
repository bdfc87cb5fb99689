"""`jax.extend.linear_util`: functions and their transformations."""

from xjax.compat.linear_util import (
    StoreException,
    WrappedFun,
    merge_linear_aux,
    transformation,
    transformation2,
    transformation_with_aux,
    transformation_with_aux2,
    wrap_init,
)

__all__ = ["StoreException", "WrappedFun", "merge_linear_aux", "transformation", "transformation2",
           "transformation_with_aux", "transformation_with_aux2", "wrap_init"]
