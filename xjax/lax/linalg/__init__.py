"""Matrix decompositions with the interface of LAPACK: the public namespace `xjax.lax.linalg`.

Strict where `xjax.numpy.linalg` is generous: arrays [..., m, n] of one float or complex dtype of 32 bits or more. CPUs
use LAPACK, NVIDIA GPUs cuSOLVER. cuSOLVER has no `schur` and no `hessenberg`: for a GPU they run on the host.
No error is raised for a matrix without a decomposition: the result is NaN.
"""

from xjax.core.public import attributes_of
from xjax.lax.linalg.eigen import EighImplementation, EigImplementation, eig, eig_p, eigh, eigh_p
from xjax.lax.linalg.lu import lu, lu_p, lu_pivots_to_permutation, lu_pivots_to_permutation_p
from xjax.lax.linalg.qdwh import qdwh
from xjax.lax.linalg.qr import householder_product, householder_product_p, ormqr, ormqr_p, qr, qr_p
from xjax.lax.linalg.reduced import (
    hessenberg,
    hessenberg_p,
    schur,
    schur_p,
    tridiagonal,
    tridiagonal_p,
    tridiagonal_solve,
    tridiagonal_solve_p,
)
from xjax.lax.linalg.svd import SvdAlgorithm, svd, svd_p
from xjax.lax.linalg.triangular import (
    cholesky,
    cholesky_p,
    triangular_solve,
    triangular_solve_p,
)
from xjax.lax.linalg.updates import cholesky_update, cholesky_update_p, symmetric_product, symmetric_product_p

__all__ = ["EigImplementation", "EighImplementation", "SvdAlgorithm", "cholesky", "cholesky_p", "cholesky_update",
           "cholesky_update_p", "eig", "eig_p", "eigh", "eigh_p", "hessenberg", "hessenberg_p", "householder_product",
           "householder_product_p", "lu", "lu_p", "lu_pivots_to_permutation", "lu_pivots_to_permutation_p", "ormqr",
           "ormqr_p", "qdwh", "qr", "qr_p", "schur", "schur_p", "svd", "svd_p", "symmetric_product",
           "symmetric_product_p", "triangular_solve", "triangular_solve_p", "tridiagonal", "tridiagonal_p",
           "tridiagonal_solve", "tridiagonal_solve_p"]

__getattr__ = attributes_of(__name__)
