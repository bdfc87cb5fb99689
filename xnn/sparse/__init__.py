"""Sparse matrices: `CSR`."""

from xnn.public import public_names
from xnn.sparse.csr import CSR, Side, is_scipy_sparse

__all__ = ["CSR", "Side", "is_scipy_sparse"]

public_names(__name__)
