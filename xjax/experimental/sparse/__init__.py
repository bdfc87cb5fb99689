"""Sparse arrays of JAX's layout BCOO: `BCOO.fromdense(x)`, products, sums, and `sparsify` for other functions."""

from xjax.core.public import attributes_of
from xjax.experimental.sparse import operators as _operators  # noqa: F401  attaches the methods
from xjax.experimental.sparse.arrays import (
    BCOO,
    CuSparseEfficiencyWarning,
    JAXSparse,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
)
from xjax.experimental.sparse.derivatives import grad, value_and_grad
from xjax.experimental.sparse.products import bcoo_dot_general, bcoo_multiply_dense, bcoo_multiply_sparse
from xjax.experimental.sparse.sparsify import SparseTracer, sparsify, todense, todense_p
from xjax.experimental.sparse.structure import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_fromdense,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_sort_indices,
    bcoo_squeeze,
    bcoo_sum_duplicates,
    bcoo_todense,
    bcoo_transpose,
    bcoo_update_layout,
    empty,
    eye,
)

__all__ = ["BCOO", "CuSparseEfficiencyWarning", "JAXSparse", "SparseEfficiencyError", "SparseEfficiencyWarning",
           "SparseTracer", "bcoo_broadcast_in_dim", "bcoo_concatenate", "bcoo_dot_general", "bcoo_dynamic_slice",
           "bcoo_fromdense", "bcoo_multiply_dense", "bcoo_multiply_sparse", "bcoo_reduce_sum", "bcoo_reshape",
           "bcoo_rev", "bcoo_slice", "bcoo_sort_indices", "bcoo_squeeze", "bcoo_sum_duplicates", "bcoo_todense",
           "bcoo_transpose", "bcoo_update_layout", "empty", "eye", "grad", "sparsify", "todense", "todense_p",
           "value_and_grad"]

__getattr__ = attributes_of(__name__)
