"""Sparse matrices: `CSR`."""

from xnn.sparse.csr import CSR, Side, is_scipy_sparse

__all__ = ["CSR", "Side", "is_scipy_sparse"]
