"""Dtypes: the ones that NumPy lacks, JAX's promotion, and questions about dtypes."""

from xjax.core.dtypes import bfloat16, canonicalize_dtype, extended, finfo, float0, iinfo, issubdtype, scalar_type_of
from xjax.core.errors import TypePromotionError
from xjax.core.promotion import promote_types, result_type

__all__ = [
    "TypePromotionError", "bfloat16", "canonicalize_dtype", "extended", "finfo", "float0", "iinfo", "issubdtype",
    "promote_types", "result_type", "scalar_type_of"]
