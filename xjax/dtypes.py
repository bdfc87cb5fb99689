"""Dtypes: dtypes that NumPy does not have, JAX's promotion, and predicates and limits of dtypes."""

from xjax.core import dtypes as _dtypes
from xjax.core.dtypes import (
    canonicalize_dtype,
    extended,
    float0,
    issubdtype,
    itemsize_bits,
    prng_key,
    scalar_type_of,
)
from xjax.core.errors import TypePromotionError
from xjax.core.promotion import promote_types, result_type
from xjax.core.public import attributes_of
from xjax.numpy.dtypes_api import finfo, iinfo

__all__ = [
    "TypePromotionError", "bfloat16", "canonicalize_dtype", "extended", "finfo", "float0", "iinfo", "issubdtype",
    "itemsize_bits", "prng_key", "promote_types", "result_type", "scalar_type_of"]

bfloat16 = _dtypes.bfloat16.type                        # the scalar type, as with NumPy's dtypes

__getattr__ = attributes_of(__name__)
