"""Linear algebra under SciPy's names: the public namespace `xjax.scipy.linalg`.

SciPy's arguments `overwrite_*`, `check_finite`, `lwork`, `turbo` and `debug` are accepted and do nothing.
"""

from xjax.scipy.linalg.decompositions import (
    cho_factor,
    cho_solve,
    cholesky,
    det,
    eigh,
    hessenberg,
    inv,
    lu,
    lu_factor,
    lu_solve,
    qr,
    schur,
    solve,
    solve_triangular,
    svd,
)
from xjax.scipy.linalg.functions import expm, expm_frechet, polar, sqrtm
from xjax.scipy.linalg.special_matrices import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    hadamard,
    hankel,
    helmert,
    hilbert,
    leslie,
    toeplitz,
)

__all__ = ["block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion", "convolution_matrix", "det",
           "dft", "eigh", "expm", "expm_frechet", "fiedler", "hadamard", "hankel", "helmert", "hessenberg", "hilbert",
           "inv", "leslie", "lu", "lu_factor", "lu_solve", "polar", "qr", "schur", "solve", "solve_triangular",
           "sqrtm", "svd", "toeplitz"]
