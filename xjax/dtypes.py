"""Dtypes: the ones that NumPy lacks, JAX's promotion, and questions about dtypes."""

from xjax.core.dtypes import (
    bfloat16,
    canonicalize_dtype,
    extended,
    float0,
    issubdtype,
    prng_key,
    scalar_type_of,
)
from xjax.core.dtypes import bit_width as itemsize_bits
from xjax.core.errors import TypePromotionError
from xjax.core.promotion import promote_types, result_type
from xjax.core.public import attributes_of
from xjax.numpy.dtypes_api import finfo, iinfo

__all__ = [
    "TypePromotionError", "bfloat16", "canonicalize_dtype", "extended", "finfo", "float0", "iinfo", "issubdtype",
    "itemsize_bits", "prng_key", "promote_types", "result_type", "scalar_type_of"]

__getattr__ = attributes_of(__name__)
