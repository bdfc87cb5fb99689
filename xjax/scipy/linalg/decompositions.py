"""Decompositions and systems of equations under SciPy's names."""

from __future__ import annotations

from typing import Any

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import number_of
from xjax.lax import Precision, stop_gradient
from xjax.lax import linalg as lax_linalg
from xjax.lax.linalg.matrices import adjoint, product
from xjax.lax.linalg.solve import solve_factored
from xjax.lax.linear_solve import custom_linear_solve
from xjax.numpy import arange, broadcast_to, diag, expand_dims, eye, matmul, tril, triu, zeros
from xjax.numpy import linalg as numpy_linalg
from xjax.numpy.linalg.arguments import inexact, matrices, system
from xjax.ops.slice import pad, slice_in_dim
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike

# SciPy's arguments for overwritten memory, for checks of values and for the choice of a LAPACK routine are accepted and
# do nothing: arrays never change, and values are unknown in a trace.


# -- cholesky -------------------------------------------------------------------------------------------------------

@one_launch
def cholesky(a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The upper triangular U with ``U^H @ U = a``, or with `lower` the lower triangular L with ``L @ L^H = a``.

    Args: a: [..., n, n], Hermitian and positive definite; only its upper, or with `lower` its lower, triangle is read.
    Returns: array like `a`; NaN where a matrix is not positive definite.

    >>> cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 1.0], [0.0, 2.0]]
    """
    a = matrices("scipy.linalg.cholesky", a, square=True)
    factor = lax_linalg.cholesky(a if lower else adjoint(a), symmetrize_input=False)
    return factor if lower else adjoint(factor)


def cho_factor(a: ArrayLike, lower: bool = False, overwrite_a: bool = False,
               check_finite: bool = True) -> tuple[Any, bool]:
    """The arguments of `cho_solve`: the factor returned by `cholesky`, and `lower`."""
    return cholesky(a, lower), lower


def cho_solve(c_and_lower: tuple[Any, bool], b: ArrayLike, overwrite_b: bool = False,
              check_finite: bool = True) -> Array:
    """The x with ``a @ x = b`` from `cho_factor(a)`.  b: [n] or [..., n, k].

    >>> cho_solve(cho_factor(np.array([[4.0, 0.0], [0.0, 1.0]])), np.array([4.0, 3.0])).tolist()
    [1.0, 3.0]
    """
    c, lower = c_and_lower
    return _cho_solve(c, b, bool(lower))


@one_launch(arrays=2)
def _cho_solve(c: ArrayLike, b: ArrayLike, lower: bool) -> Array:
    c, b, vector = system("scipy.linalg.cho_solve", c, b)
    x = _solve_by_cholesky(c, b, lower)
    return x[..., 0] if vector else x


def _solve_by_cholesky(c: Array, b: Array, lower: bool) -> Array:
    options = {"left_side": True, "lower": lower}
    x = lax_linalg.triangular_solve(c, b, transpose_a=not lower, conjugate_a=not lower, **options)
    return lax_linalg.triangular_solve(c, x, transpose_a=lower, conjugate_a=lower, **options)


# -- lu -------------------------------------------------------------------------------------------------------------

@one_launch
def lu_factor(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """The arguments of `lu_solve`: the packed factors, and the row exchanges, int32[..., min(m, n)]."""
    factors, pivots, _ = lax_linalg.lu(matrices("scipy.linalg.lu_factor", a))
    return factors, pivots


def lu_solve(lu_and_piv: tuple[Any, Any], b: ArrayLike, trans: int = 0, overwrite_b: bool = False,
             check_finite: bool = True) -> Array:
    """The x with ``a @ x = b`` (`trans` 1: a^T, 2: a^H) from `lu_factor(a)`.  b: [n] or [..., n, k].

    >>> lu_solve(lu_factor(np.array([[0.0, 2.0], [1.0, 0.0]])), np.array([4.0, 3.0])).tolist()
    [3.0, 2.0]
    """
    caller = "scipy.linalg.lu_solve"
    if trans not in (0, 1, 2):
        raise bad(caller, f"`trans` is {trans!r}", fix="pass 0, 1 (transposed) or 2 (adjoint).", exc=ValueError)
    return _lu_solve(*lu_and_piv, b, trans)


@one_launch(arrays=3)
def _lu_solve(factors: ArrayLike, pivots: ArrayLike, b: ArrayLike, trans: int) -> Array:
    factors, b, vector = system("scipy.linalg.lu_solve", factors, b)
    order = lax_linalg.lu_pivots_to_permutation(pivots, factors.shape[-1])
    x = solve_factored(factors, broadcast_to(order, factors.shape[:-1]), b, trans)
    return x[..., 0] if vector else x


@one_launch
def lu(a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, ...]:
    """Decompose a matrix as ``a = P @ L @ U``.

    Args: a: [m, n]. permute_l: join the first two factors.
    Returns: (P [m, m], L [m, k], U [k, n]) with k = min(m, n), or (P @ L, U).
    """
    caller = "scipy.linalg.lu"
    a = matrices(caller, a)
    if a.ndim != 2:
        raise bad(caller, "takes one matrix", given={"a": a.aval}, fix="use vmap for batches.", exc=ValueError)
    factors, _, order = lax_linalg.lu(a)
    m, k = a.shape[0], min(a.shape)
    p = (order[None, :] == arange(m, dtype=order.dtype)[:, None]).astype(a.dtype)
    left = tril(factors, -1)[:, :k] + eye(m, k, dtype=a.dtype)
    right = triu(factors)[:k, :]
    return (product(p, left), right) if permute_l else (p.real, left, right)


# -- qr, svd, eigenvalues ------------------------------------------------------------------------------------------

@one_launch
def qr(a: ArrayLike, overwrite_a: bool = False, lwork: object = None, mode: str = "full", pivoting: bool = False,
       check_finite: bool = True) -> tuple[Array, ...]:
    """Decompose ``a = Q @ R``, or ``a[:, p] = Q @ R`` with `pivoting`.

    Args: a: [..., m, n]. mode: "full": Q is [..., m, m]; "economic": [..., m, min(m, n)]; "r": without Q.
    Returns: (Q, R), (R,), (Q, R, p) or (R, p).
    """
    caller = "scipy.linalg.qr"
    if mode not in ("full", "r", "economic"):
        raise bad(caller, f"unknown mode {mode!r}", fix="use 'full', 'economic' or 'r'.", exc=ValueError)
    factors = lax_linalg.qr(matrices(caller, a), pivoting=pivoting, full_matrices=mode != "economic")
    return factors[1:] if mode == "r" else factors


@one_launch(arrays=2)
def qr_multiply(a: ArrayLike, c: ArrayLike, mode: str = "right", pivoting: bool = False, conjugate: bool = False,
                overwrite_a: bool = False, overwrite_c: bool = False) -> tuple[Any, ...]:
    """``c @ Q`` and R, where ``a = Q @ R`` and Q has orthonormal columns.

    Args:
      a: [..., m, n], k = min(m, n). c: [..., p, m] or [m]; for mode "left" [..., k, p] or [k].
      mode: "right", or "left": ``Q @ c``. pivoting: decompose ``a[:, p]``. conjugate: take the conjugate of Q.
    Returns: (product, R [..., k, n]), with `pivoting` also p, int32[..., n].
    Raises: ValueError for another mode, or if the shapes do not fit.
    """
    caller = "scipy.linalg.qr_multiply"
    if mode not in ("right", "left"):
        raise bad(caller, f"`mode` is {mode!r}", fix="pass 'right' or 'left'.", exc=ValueError)
    a, c = inexact(caller, matrices(caller, a), c)
    vector = c.ndim == 1
    c = expand_dims(c, (int(mode == "left"),)) if vector else c
    size, axis = (min(a.shape[-2:]), -2) if mode == "left" else (a.shape[-2], -1)
    if c.shape[axis] != size:
        raise bad(caller, f"`c` does not fit Q in mode '{mode}'", given={"a": a.aval, "c": c.aval},
                  fix=f"axis {axis} of c must have {size} elements.", exc=ValueError)
    q, r, *order = lax_linalg.qr(a, pivoting=pivoting, full_matrices=False)
    q = q.conj() if conjugate else q
    out = matmul(q, c, precision=Precision.HIGHEST) if mode == "left" else matmul(c, q, precision=Precision.HIGHEST)
    return (out.ravel() if vector else out), r, *order


@one_launch
def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False,
        check_finite: bool = True, lapack_driver: str = "gesdd") -> Any:
    """Decompose ``a = U @ diag(s) @ Vh``. Returns: (U, s, Vh), or s if not `compute_uv`; see `numpy.linalg.svd`."""
    a = matrices("scipy.linalg.svd", a)
    return lax_linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Determinants of matrices [..., n, n]: see `numpy.linalg.det`."""
    return numpy_linalg.det(a)


def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Inverses of matrices [..., n, n]: see `numpy.linalg.inv`."""
    return numpy_linalg.inv(a)


def eigh(a: ArrayLike, b: None = None, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
         overwrite_b: bool = False, turbo: bool = True, eigvals: None = None, type: int = 1,
         check_finite: bool = True) -> Any:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices [..., n, n].

    Args: b, eigvals, type: for generalised problems and parts of the spectrum, which are not supported. eigvals_only:
      return w only.
    Returns: (w, v), or w.
    Raises: NotImplementedError for other values of b, eigvals or type.
    """
    caller = "scipy.linalg.eigh"
    if b is not None or eigvals is not None or type != 1:
        raise bad(caller, "generalised problems and parts of the spectrum are not supported",
                  fix="leave b, eigvals and type out; with L = cholesky(b, lower=True) solve for L^-1 a L^-H.",
                  exc=NotImplementedError)
    w, v = numpy_linalg.eigh(matrices(caller, a, square=True), "L" if lower else "U")
    return w if eigvals_only else (w, v)


def eigh_tridiagonal(d: ArrayLike, e: ArrayLike, *, eigvals_only: bool = False, select: str = "a",
                     select_range: tuple[int, int] | None = None, tol: float | None = None, key: object = None) -> Any:
    """Eigenvalues, ascending, and eigenvectors of the Hermitian matrix with diagonal `d` and `e` above it: by `eigh`.

    Args:
      d: [n], whose real part is read; e: [n - 1]. eigvals_only: return w only.
      select: "a": all; "i": the eigenvalues with the indices select_range[0] ... select_range[1], both included.
      tol, key: for iterative methods; accepted, and do nothing.
    Returns: (w [k], v [n, k]), or w.
    Raises: ValueError for another selection, or if the shapes do not fit; NotImplementedError for select "v".

    >>> eigh_tridiagonal(np.array([2.0, 2.0]), np.array([1.0]), eigvals_only=True).round(4).tolist()
    [1.0, 3.0]
    """
    caller = "scipy.linalg.eigh_tridiagonal"
    if select == "v":
        raise bad(caller, "the number of eigenvalues in an interval is unknown in a trace",
                  fix="compute all, and select from them.", exc=NotImplementedError)
    if select not in ("a", "i") or (select == "i" and (select_range is None or select_range[0] > select_range[1])):
        raise bad(caller, "invalid selection of eigenvalues", given={"select": select, "select_range": select_range},
                  fix="pass select='a', or select='i' with select_range=(first, last).", exc=ValueError)
    d, e = inexact(caller, d, e)
    if d.ndim != 1 or e.shape != (d.shape[0] - 1,):
        raise bad(caller, "takes d[n] and e[n - 1]", given={"d": d.aval, "e": e.aval}, fix="use vmap for batches.",
                  exc=ValueError)
    w, v = numpy_linalg.eigh(diag(d.real).astype(d.dtype) + diag(e, 1) + diag(e.conj(), -1), symmetrize_input=False)
    first, last = (0, d.shape[0] - 1) if select_range is None or select == "a" else select_range
    w, v = w[first:last + 1], v[:, first:last + 1]
    return w if eigvals_only else (w, v)


@one_launch
def schur(a: ArrayLike, output: str = "real") -> tuple[Any, Any]:
    """Decompose square matrices as ``a = Z @ T @ Z^H`` with an upper triangular T. Returns: (T, Z).

    Args: output: "real": T of a real matrix is real, with 2 x 2 blocks on its diagonal; "complex": T is triangular.
    """
    caller = "scipy.linalg.schur"
    if output not in ("real", "complex"):
        raise bad(caller, f"`output` is {output!r}", fix="pass 'real' or 'complex'.", exc=ValueError)
    a = matrices(caller, a, square=True)
    return lax_linalg.schur(a.astype(dtypes.to_complex_dtype(a.dtype)) if output == "complex" else a)


@one_launch
def hessenberg(a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The Hessenberg form H of square matrices, which is zero below the first subdiagonal: ``a = Q @ H @ Q^H``.

    Returns: H [..., n, n], or (H, Q) with `calc_q`.
    """
    a = matrices("scipy.linalg.hessenberg", a, square=True)
    if not a.shape[-1]:
        return (a, a) if calc_q else a
    packed, taus = lax_linalg.hessenberg(a)
    h = triu(packed, -1)
    if not calc_q:
        return h
    rest = slice_in_dim(slice_in_dim(packed, 1, None, axis=-2), 0, a.shape[-1] - 1, axis=-1)
    q = lax_linalg.householder_product(rest, taus)
    q = pad(q, number_of(q.dtype, 0), [(0, 0, 0)] * (q.ndim - 2) + [(1, 0, 0)] * 2)
    corner = zeros((a.shape[-1],) * 2, q.dtype).at[0, 0].set(1)
    return h, q + corner


# -- systems --------------------------------------------------------------------------------------------------------

@one_launch(arrays=2)
def solve(a: ArrayLike, b: ArrayLike, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
          debug: bool = False, check_finite: bool = True, assume_a: str = "gen") -> Array:
    """The x with ``a @ x = b``.

    Args:
      a: [..., n, n]; b: [n] or [..., n, k].
      assume_a: "pos": `a` is positive definite; only the lower (with `lower`) or upper triangle is factored, which is
        faster; "gen", "sym", "her": solve by LU.
    """
    caller = "scipy.linalg.solve"
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise bad(caller, f"`assume_a` is {assume_a!r}", fix="pass 'gen', 'sym', 'her' or 'pos'.", exc=ValueError)
    if assume_a != "pos":
        return numpy_linalg.solve(a, b)
    a, b, vector = system(caller, a, b)
    factor = cholesky(stop_gradient(a), lower)
    transposed = factor.conj()                          # the factor of a^T, which is the conjugate of a
    x = custom_linear_solve(lambda x: product(a, x), b, solve=lambda _, y: _solve_by_cholesky(factor, y, lower),
                            transpose_solve=lambda _, y: _solve_by_cholesky(transposed, y, lower))
    return x[..., 0] if vector else x


_FORMS = {0: (False, False), 1: (True, False), 2: (True, True), "N": (False, False), "T": (True, False),
          "C": (True, True)}


@one_launch(arrays=2)
def solve_triangular(a: ArrayLike, b: ArrayLike, trans: int | str = 0, lower: bool = False, unit_diagonal: bool = False,
                     overwrite_b: bool = False, debug: object = None, check_finite: bool = True) -> Array:
    """The x with ``a @ x = b`` for triangular `a`.

    Args:
      a: [..., n, n], one triangle of which is read; b: [n] or [..., n, k].
      trans: 0 or "N": a; 1 or "T": a^T; 2 or "C": a^H. unit_diagonal: use ones as the diagonal.

    >>> solve_triangular(np.array([[1.0, 2.0], [0.0, 4.0]]), np.array([4.0, 4.0])).tolist()
    [2.0, 1.0]
    """
    caller = "scipy.linalg.solve_triangular"
    if trans not in _FORMS:
        raise bad(caller, f"`trans` is {trans!r}", fix="pass 0, 1 or 2, or 'N', 'T' or 'C'.", exc=ValueError)
    transpose, conjugate = _FORMS[trans]
    a, b, vector = system(caller, a, b)
    x = lax_linalg.triangular_solve(a, b, left_side=True, lower=lower, transpose_a=transpose, conjugate_a=conjugate,
                                    unit_diagonal=unit_diagonal)
    return x[..., 0] if vector else x
