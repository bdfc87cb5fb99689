"""Linear algebra under SciPy's names: the public namespace `xjax.scipy.linalg`.

SciPy's arguments `overwrite_*`, `check_finite`, `lwork`, `turbo` and `debug` are accepted and do nothing.
"""

from xjax.core.public import attributes_of
from xjax.scipy.linalg.decompositions import (
    cho_factor,
    cho_solve,
    cholesky,
    det,
    eigh,
    eigh_tridiagonal,
    hessenberg,
    inv,
    lu,
    lu_factor,
    lu_solve,
    qr,
    qr_multiply,
    schur,
    solve,
    solve_triangular,
    svd,
)
from xjax.scipy.linalg.functions import expm, expm_frechet, polar, sqrtm
from xjax.scipy.linalg.schur_forms import funm, rsf2csf, solve_sylvester
from xjax.scipy.linalg.special_matrices import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
    toeplitz,
)

__all__ = ["block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion", "convolution_matrix", "det",
           "dft", "eigh", "eigh_tridiagonal", "expm", "expm_frechet", "fiedler", "fiedler_companion", "funm",
           "hadamard", "hankel", "helmert", "hessenberg", "hilbert", "inv", "invhilbert", "invpascal", "leslie", "lu",
           "lu_factor", "lu_solve", "pascal", "polar", "qr", "qr_multiply", "rsf2csf", "schur", "solve",
           "solve_sylvester", "solve_triangular", "sqrtm", "svd", "toeplitz"]

__getattr__ = attributes_of(__name__)
