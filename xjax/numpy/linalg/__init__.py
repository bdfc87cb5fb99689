"""Linear algebra under NumPy's names: the public namespace `xjax.numpy.linalg`.

Matrices are the last two axes; integers become floats. A matrix without a result gives NaN, never an error.
"""

from xjax.core.public import attributes_of
from xjax.numpy.contract import matmul, tensordot, vecdot
from xjax.numpy.linalg.decompositions import cholesky, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from xjax.numpy.linalg.determinants import det, slogdet
from xjax.numpy.linalg.norms import matrix_norm, norm, vector_norm
from xjax.numpy.linalg.systems import (
    cond,
    cross,
    diagonal,
    inv,
    lstsq,
    matrix_power,
    matrix_rank,
    multi_dot,
    outer,
    pinv,
    solve,
    tensorinv,
    tensorsolve,
    trace,
)
from xjax.numpy.manipulate import matrix_transpose

__all__ = ["cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq",
           "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer",
           "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace",
           "vecdot", "vector_norm"]

__getattr__ = attributes_of(__name__)
