"""`xjax.scipy.linalg`: single and batched well-conditioned matrices, so that all programs agree closely.

Results that are unique only up to signs, such as eigenvectors, are compared by absolute values and products.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from tests.values.linalg import adjoint, by_size
from tests.values.row import rows

SQUARE = ("f8[3,3]:regular", "f4[2,3,3]:regular", "c8[3,3]:regular", "i4[2,2]:regular", "f4[0,0]")
ONE = ("f8[3,3]:regular", "f4[3,3]:regular", "c8[3,3]:regular")
DEFINITE = ("f8[3,3]:definite", "f4[2,3,3]:definite", "c8[3,3]:definite")
SYMMETRIC = ("f8[3,3]:symmetric", "f4[2,3,3]:symmetric", "c8[3,3]:symmetric")
SYSTEMS = ("f8[3,3]:regular f8[3]", "f4[3,3]:regular f4[3,2]", "f4[2,3,3]:regular f4[2,3,1]", "c8[3,3]:regular f4[3,2]")
DEFINITE_SYSTEMS = ("f8[3,3]:definite f8[3]", "f4[2,3,3]:definite f4[2,3,2]", "c8[3,3]:definite c8[3,2]")
TALL = ("f8[4,3]", "f4[3,4]", "c8[4,2]")
VECTORS = ("f8[3]", "f4[2,4]", "c8[3]", "i4[4]", "bf[2]")
D, DD = ("f8[3,3]:regular",), ("f8[3,3]:regular f8[3,2]",)
SMALL = ("f8[3,3]:small", "f4[2,2,2]:small", "c8[3,3]:small", "f4[2,2]")
N = "scipy.linalg"


def hermitian(x: Any) -> Any:
    """The Hermitian part, which restricts derivatives to Hermitian matrices."""
    return (x + adjoint(x)) / 2


# -- decompositions -----------------------------------------------------------------------------------------------

def eigenpairs(f: Any, x: Any) -> Any:
    w, v = f(hermitian(x))
    return w, abs(v), (v * w[..., None, :]) @ adjoint(v), f(hermitian(x), eigvals_only=True), f(x, lower=False)[0]


def factors_of_triangles(f: Any, x: Any) -> Any:
    """The factors without the other triangle, whose content is undefined."""
    mask = np.triu(np.ones(x.shape[-2:], bool))
    return f(hermitian(x))[0] * mask, f(hermitian(x), lower=True)[0] * mask.T


def orthogonal_and_triangular(f: Any, x: Any) -> Any:
    return f(x), f(x, mode="economic"), f(x, mode="r")


def pivoted(f: Any, x: Any) -> Any:
    q, r, order = f(x, pivoting=True, mode="economic")
    return q @ r, abs(r), order


def singular(f: Any, x: Any) -> Any:
    u, s, vh = f(x, full_matrices=False)
    whole = f(x)
    return s, (u * s[..., None, :]) @ vh, f(x, compute_uv=False), abs(whole[0]), abs(whole[2])


def polar(x: Any, side: str = "right", **_: Any) -> Any:
    """SciPy has only one method."""
    return scipy.linalg.polar(x, side)


def basis_and_triangle(f: Any, x: Any) -> Any:
    """Quantities that do not depend on the order of the eigenvalues, which rounding decides."""
    below = np.tri(len(x), k=-1)
    return [(by_size(t.diagonal()), abs(t) * below, z @ t @ adjoint(z)) for t, z in (f(x), f(x, output="complex"))]


def complex_form(f: Any, t: Any, z: Any) -> Any:
    """The form for a triangle with a rotation in its first two rows: a pair of conjugate eigenvalues."""
    turned = t + np.array([[0, 2, 0], [-2, 1, 0], [0, 0, 0]], t.dtype)
    eigenvalues, basis = f(turned, z)
    return abs(eigenvalues), basis @ eigenvalues @ adjoint(basis)


DECOMPOSITIONS = [
    *rows(N, "cholesky", *DEFINITE, call=lambda f, x: (f(hermitian(x)), f(hermitian(x), lower=True)),
          grad=("f8[3,3]:definite",)),
    *rows(N, "cho_factor", *DEFINITE, call=factors_of_triangles, grad=("f8[3,3]:definite",)),
    *rows(N, "eigh", *SYMMETRIC, call=eigenpairs, grad=("f8[3,3]:symmetric",)),
    *rows(N, "eigh_tridiagonal", "f8[4] f8[3]", "f4[3] f4[2]:positive", call=lambda f, d, e: (
        f(d, e, eigvals_only=True), f(d, e, eigvals_only=True, select="i", select_range=(1, 2)))),
    *rows(N, "hessenberg", *ONE, call=lambda f, x: (f(x), f(x, calc_q=True))),
    *rows(N, "lu", *TALL, "f8[3,3]", call=lambda f, x: (f(x), f(x, permute_l=True)), grad=D),
    *rows(N, "lu_factor", "f8[3,3]", "f4[2,3,3]:regular", "c8[3,3]", grad=D),
    *rows(N, "polar", "f8[3,3]:regular", "f4[3,3]:regular", "c8[2,2]:regular", call=lambda f, x: (
        f(x, method="svd"), f(x, "left", method="svd")), oracle=polar, grad=D),
    *rows(N, "qr", *ONE, "f8[4,2]", call=orthogonal_and_triangular),
    *rows(N, "qr", *ONE, call=pivoted, id="pivots"),
    *rows(N, "schur", *ONE, call=basis_and_triangle),
    *rows(N, "rsf2csf", "f8[3,3]:upper f8[3,3]:regular", "f4[3,3]:upper f4[3,3]:regular", call=complex_form),
    *rows(N, "svd", *SQUARE[:3], call=singular, grad=D),
    *rows(N, "svd", *TALL, "f4[2,3,2]", call=lambda f, x: f(x, compute_uv=False), id="values"),
]

# -- systems of equations -----------------------------------------------------------------------------------------

PIVOTED = ("f8[3,3]:regular i4[3]:0..2 f8[3]", "f4[3,3]:regular i4[3]:0..2 f4[3,2]",
           "c8[3,3]:regular i4[3]:0..2 c8[3,2]")


def solved_by_triangles(f: Any, a: Any, b: Any) -> Any:
    return [f(a, b, trans, lower, unit) for trans in (0, "T", 2) for lower, unit in ((True, False), (False, True))]


SYSTEM_ROWS = [
    *rows(N, "solve", *SYSTEMS, grad=DD),
    *rows(N, "solve", *DEFINITE_SYSTEMS, call=lambda f, a, b: (
        f(hermitian(a), b, assume_a="pos"), f(hermitian(a), b, assume_a="pos", lower=True),
        f(hermitian(a), b, assume_a="her")), grad=("f8[3,3]:definite f8[3,2]",), id="definite"),
    *rows(N, "solve_triangular", *SYSTEMS, call=solved_by_triangles, grad=DD),
    *rows(N, "cho_solve", *SYSTEMS, call=lambda f, a, b: (f((a, True), b), f((a, False), b)), grad=DD),
    *rows(N, "lu_solve", *PIVOTED, call=lambda f, lu, piv, b: [f((lu, piv), b, trans) for trans in (0, 1, 2)],
          grad=("f8[3,3]:regular i4[3]:0..2 f8[3]",)),
    # a and -b have no common eigenvalue: those of both are near 1, 2, 3.
    *rows(N, "solve_sylvester", "f8[3,3]:regular f8[2,2]:regular f8[3,2]", "c8[2,2]:regular c8[3,3]:regular c8[2,3]",
          "f4[2,2]:regular f4[2,2]:regular f4[2,2]"),
    *rows(N, "det", *SQUARE, "f8[2,2]:small", grad=D),
    *rows(N, "inv", *SQUARE, grad=D),
    *rows(N, "qr_multiply", "f8[3,3]:regular f8[2,3]", "f4[3,3]:regular f4[3,3]", "c8[3,3]:regular c8[2,3]",
          call=lambda f, a, c: (f(a, c), f(a, c.swapaxes(0, 1), "left"), f(a, c[0]), f(a, c, conjugate=True))),
]

# -- functions of matrices ----------------------------------------------------------------------------------------

def exponential(a: Any) -> Any:
    """By Taylor's series in extended precision: SciPy's errors reach 1,000 units in the last place."""
    a = np.asarray(a, np.clongdouble if np.iscomplexobj(a) else np.longdouble) / 64
    term = exponential_of_a = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
    for k in range(1, 40):
        term = term @ a / k
        exponential_of_a = exponential_of_a + term
    for _ in range(6):
        exponential_of_a = exponential_of_a @ exponential_of_a
    return exponential_of_a


def exponential_and_derivative(a: Any, e: Any, compute_expm: bool = True) -> Any:
    """The blocks of the exponential of [[a, e], [0, a]]."""
    n = len(a)
    exponential_of_a = exponential(np.block([[a, e], [np.zeros_like(a), a]]))
    return (exponential_of_a[:n, :n], exponential_of_a[:n, n:]) if compute_expm else exponential_of_a[:n, n:]


FUNCTIONS = [
    *rows(N, "expm", *SMALL[:3], grad=("f8[3,3]:small",), oracle=exponential),
    *rows(N, "expm", "f8[3,3]:upper", "f4[3,3]:upper", call=lambda f, x: f(x, upper_triangular=True),
          oracle=None, id="triangular"),
    *rows(N, "expm_frechet", "f8[3,3]:small f8[3,3]", "f4[2,2]:small f4[2,2]", call=lambda f, a, e: (
        f(a, e), f(a, e, compute_expm=False)), grad=("f8[2,2]:small f8[2,2]",), oracle=exponential_and_derivative),
    *rows(N, "sqrtm", *ONE, "f8[3,3]:definite"),
    *rows(N, "funm", *ONE, call=lambda f, x: f(x, lambda y: y * y + 1)),
]

# -- matrices of a pattern ----------------------------------------------------------------------------------------

LEADING = ("f8[3]:1..8", "f4[4]:1..8", "c8[3]:1..8", "bf[4]:1..2")           # the first element divides the others
PAIRS = ("f8[3] f8[4]", "c8[2] c8[3]", "i4[3] f4[2]", "b1[2] i4[2]")


def pascals(f: Any) -> Any:
    """Matrices of one dtype: JAX's are float32 with jax_enable_x64 too."""
    return [f(n, kind).astype("float64") for n in (1, 4) for kind in ("symmetric", "lower", "upper")]


PATTERNS = [
    *rows(N, "block_diag", "f4[2,1] f4[3]", "i4[2,2] f8[1,3]", "c8[1] b1[2]", "bf[2] i4[]", "f4[0] f4[2,2]",
          call=lambda f, x, y: (f(x, y, x), f(y)), grad=("f8[2,1] f8[3]",)),
    *rows(N, "circulant", *VECTORS, grad=("f8[3]",)),
    *rows(N, "fiedler", *VECTORS, grad=("f8[3]",)),
    *rows(N, "companion", *LEADING, grad=("f8[3]:1..8",)),
    *rows(N, "fiedler_companion", *LEADING, "f8[2]:1..8", "f4[6]:1..8", grad=("f8[4]:1..8",)),
    *rows(N, "leslie", "f8[3] f8[2]", "f4[2] f4[1]", "i4[4] i4[3]", "c8[3] c8[2]", grad=("f8[3] f8[2]",)),
    *rows(N, "toeplitz hankel", *PAIRS, call=lambda f, c, r: (f(c), f(c, r)), grad=("f8[3] f8[4]",)),
    *rows(N, "toeplitz hankel", "i4[3] f4[2]:edges", "f4[3]:edges f4[2]:edges", id="of edges",
          call=lambda f, c, r: (f(c), f(c, r)), differs="JAX multiplies by 0 and 1, which spreads NaN and infinity"),
    *rows(N, "convolution_matrix", "f8[3]", "f4[2]", "c8[3]", "i4[4]", call=lambda f, a: [
        f(a, n, mode) for n in (2, 5) for mode in ("full", "same", "valid")], grad=("f8[3]",)),
    *rows(N, "dft", "", call=lambda f: (f(3), f(4, "sqrtn"), f(2, "n"), f(1))),
    *rows(N, "hadamard", "", call=lambda f: (f(1), f(4), f(8, np.float32))),
    *rows(N, "helmert", "", call=lambda f: (f(2), f(4), f(3, full=True))),
    *rows(N, "hilbert invhilbert", "", call=lambda f: (f(1), f(3), f(6))),
    *rows(N, "pascal", "", call=pascals, differs="JAX's pass through logarithms in single precision: not whole"),
    *rows(N, "invpascal", "", call=pascals),
]

ROWS = [*DECOMPOSITIONS, *SYSTEM_ROWS, *FUNCTIONS, *PATTERNS]
