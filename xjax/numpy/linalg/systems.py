"""Systems of equations, inverses and functions based on them: solve, lstsq, pinv, rank, powers, tensors."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.core.types import number_of, typeof
from xjax.lax.linalg.matrices import adjoint, identity_like, product, symmetrized
from xjax.lax.linalg.solve import solve as solve_matrices
from xjax.numpy.contract import cross as any_cross
from xjax.numpy.contract import einsum, matmul
from xjax.numpy.contract import trace as any_trace
from xjax.numpy.creation import eye
from xjax.numpy.linalg.arguments import inexact, matrices, system
from xjax.numpy.linalg.decompositions import svd, svdvals
from xjax.numpy.linalg.norms import norm
from xjax.numpy.manipulate import moveaxis
from xjax.numpy.matrices import diagonal as any_diagonal
from xjax.numpy.promote import array_likes, broadcast_to
from xjax.numpy.reductions import any, max, sum
from xjax.numpy.rounding import isnan
from xjax.numpy.selection import choose, operand
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.checks import static_int
from xjax.ops.dot import PrecisionLike
from xjax.ops.identity import stop_gradient
from xjax.runtime.one_launch import one_launch
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike, DTypeLike


@one_launch(arrays=2)
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The x with ``a @ x = b``.

    Args: a: [..., n, n]; b: [n] or [..., n, k]; the batch axes broadcast.
    Returns: like `b`; inf or NaN where a matrix is singular.
    Raises: ValueError if the shapes do not fit.

    >>> solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    a, b, vector = system("numpy.linalg.solve", a, b)
    x = solve_matrices(a, b)
    return x[..., 0] if vector else x


@one_launch
def inv(a: ArrayLike) -> Array:
    """Inverses of matrices [..., n, n]; inf or NaN where a matrix is singular.

    >>> inv(np.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    a = matrices("numpy.linalg.inv", a, square=True)
    return solve_matrices(a, identity_like(a))


# -- least squares --------------------------------------------------------------------------------------------------

def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None, *,
          numpy_resid: bool = False) -> tuple[Any, Any, Any, Any]:
    """The x of least norm for which ``norm(b - a @ x)`` is smallest.

    Args:
      a: [m, n]; b: [m] or [m, k].
      rcond: singular values below ``rcond * largest`` count as 0; None: eps * max(m, n).
      numpy_resid: as NumPy, return no residuals if the rank is below n or m <= n; not under jit.
    Returns: (x, sums of squared residuals [k], rank of a, singular values of a).

    >>> x, residuals, rank, s = lstsq(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))
    >>> round(float(x[0]), 5), int(rank)
    (2.0, 1)
    """
    x, residuals, rank, s = _lstsq(a, b, rcond)
    m, n = np.shape(a)
    if numpy_resid and (m <= n or int(rank) < n):
        residuals = residuals[:0]
    return x, residuals, rank, s


@one_launch(arrays=3)
def _lstsq(a: ArrayLike, b: ArrayLike, rcond: ArrayLike | None) -> tuple[Array, Array, Array, Array]:
    caller = "numpy.linalg.lstsq"
    a, b = inexact(caller, a, b)
    if a.ndim != 2 or b.ndim not in (1, 2):
        raise bad(caller, "takes a[m, n] and b[m] or b[m, k]", given={"a": a.aval, "b": b.aval},
                  fix="use vmap for batches.")
    if a.shape[0] != b.shape[0]:
        raise bad(caller, "`a` and `b` differ in their number of rows", given={"a": a.aval, "b": b.aval},
                  fix="make them equal.", exc=ValueError)
    column = b if b.ndim == 2 else b[:, None]
    u, s, vh = svd(a, full_matrices=False)
    eps = number_of(s.dtype, np.finfo(s.dtype).eps)
    rcond = operand(caller, eps * builtins.max(a.shape) if rcond is None else rcond).astype(s.dtype)
    kept = (s > 0) & (s >= choose(rcond < 0, eps, rcond) * s[:1])
    x = _solution(a, column, stop_gradient((u, _inverses(s, kept), vh)))
    residuals = norm(column - product(a, x), axis=0) ** 2
    return (x if b.ndim == 2 else x[:, 0]), residuals, sum(kept), s


@one_launch
def pinv(a: ArrayLike, rtol: ArrayLike | None = None, hermitian: bool = False, *,
         rcond: ArrayLike | None = None) -> Array:
    """Pseudo-inverses of matrices: [..., m, n] -> [..., n, m].

    Args:
      rtol (or rcond): singular values up to ``rtol * largest`` count as 0; None: 10 * max(m, n) * eps.
      hermitian: whether the matrices are Hermitian, which is faster.

    >>> pinv(np.array([[2.0, 0.0], [0.0, 0.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    caller = "numpy.linalg.pinv"
    a = matrices(caller, a, square=hermitian)
    rtol = _one_tolerance(caller, rtol, rcond, "rcond")
    if rtol is None:
        rtol = 10.0 * builtins.max(a.shape[-2:]) * float(np.finfo(a.dtype).eps)
    return _pinv(a, rtol, hermitian)


def _one_tolerance(caller: str, rtol: ArrayLike | None, other: ArrayLike | None, name: str) -> ArrayLike | None:
    if rtol is not None and other is not None:
        raise bad(caller, f"got both `rtol` and `{name}`", fix="pass one of them.", exc=ValueError)
    return other if rtol is None else rtol


def _pinv(a: Array, rtol: ArrayLike, hermitian: bool) -> Array:
    u, s, vh = svd(stop_gradient(a), full_matrices=False, hermitian=hermitian)
    if not a.size:
        return product(adjoint(vh), adjoint(u))
    rtol = operand("numpy.linalg.pinv", rtol).astype(s.dtype)
    limit = (rtol[..., None] if rtol.ndim else rtol) * s[..., :1]
    return _pinv_of(symmetrized(a) if hermitian else a, (u, _inverses(s, s > limit), vh))


# -- derivatives that need no distinct singular values ---------------------------------------------------------------
# `factors` are U, the inverses of the singular values (0 for values that count as 0) and V^H, constants for
# derivatives. Derivatives follow from the equations that define the pseudo-inverse, so they are right at equal singular
# values too.

def _inverses(s: Array, kept: Array) -> Array:
    return choose(kept, 1 / choose(kept, s, number_of(s.dtype, 1)), number_of(s.dtype, 0))


@custom_jvp
def _pinv_of(a: Array, factors: Sequence[Any]) -> Array:
    """The pseudo-inverse of `a`, from its singular value decomposition."""
    u, inverses, vh = factors
    return product(adjoint(vh), adjoint(u) * inverses[..., None].astype(u.dtype))


@_pinv_of.defjvp
def _pinv_of_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Golub and Pereyra 1973: three terms, of which two are 0 for an invertible matrix."""
    (a, factors), (da, _) = primals, tangents
    p = _pinv_of(a, factors)
    ph, dah = adjoint(p), adjoint(da)
    below = product(product(p, ph), dah)
    above = product(dah, product(ph, p))
    change = (below - product(product(below, a), p)) + (above - product(p, product(a, above)))
    return p, change - product(product(p, da), p)


@custom_jvp
def _solution(a: Array, b: Array, factors: Sequence[Any]) -> Array:
    """The x of least norm for which ``norm(b - a @ x)`` is smallest."""
    u, inverses, vh = factors
    return product(adjoint(vh), inverses[:, None].astype(u.dtype) * product(adjoint(u), b))


@_solution.defjvp
def _solution_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The derivative of ``p @ b`` for the pseudo-inverse p, in terms of x and of the residuals b - a x."""
    (a, b, factors), (da, db, _) = primals, tangents
    x, p = _solution(a, b, factors), _pinv_of(a, factors)
    ph, dah = adjoint(p), adjoint(da)
    out_of_range = product(p, product(ph, product(dah, b - product(a, x))))
    out_of_rows = product(dah, product(ph, x))
    return x, product(p, db - product(da, x)) + out_of_range + (out_of_rows - product(p, product(a, out_of_rows)))


# -- size, rank, powers ----------------------------------------------------------------------------------------------

@one_launch
def matrix_rank(M: ArrayLike, rtol: ArrayLike | None = None, *, hermitian: bool = False,
                tol: ArrayLike | None = None) -> Array:
    """The number of singular values above a tolerance; for a vector, 1 if an element is not 0, else 0.

    Args: M: [..., m, n]; rtol (or tol): the tolerance; None: largest * max(m, n) * eps.
    Returns: int[...].

    >>> int(matrix_rank(np.ones((3, 3))))
    1
    """
    caller = "numpy.linalg.matrix_rank"
    M, = inexact(caller, M)
    rtol = _one_tolerance(caller, rtol, tol, "tol")
    if M.ndim < 2:
        return any(M != 0).astype(np.int32)
    s = svd(M, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if rtol is None:
        rtol = max(s, -1) * number_of(s.dtype, builtins.max(M.shape[-2:]) * np.finfo(s.dtype).eps)
    return sum(s > operand(caller, rtol)[..., None], -1)


@one_launch
def cond(x: ArrayLike, p: float | str | None = None) -> Array:
    """Condition numbers of matrices [..., m, n]: ``norm(x, p) * norm(inv(x), p)``; p = None means 2.

    Returns: real[...]; inf where a matrix is singular.
    """
    caller = "numpy.linalg.cond"
    x = matrices(caller, x)
    if not x.shape[-1] or not x.shape[-2]:
        raise bad(caller, "takes matrices that are not empty", given={"x": x.aval}, fix="pass at least one row.",
                  exc=ValueError)
    if p is None or p == 2:
        s = svdvals(x)
        return s[..., 0] / s[..., -1]
    if p == -2:
        s = svdvals(x)
        result = s[..., -1] / s[..., 0]
    else:
        x = matrices(caller, x, square=True)
        result = norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
    return choose(isnan(result) & ~any(isnan(x), (-2, -1)), number_of(result.dtype, np.inf), result)


@one_launch
def matrix_power(a: ArrayLike, n: int) -> Array:
    """The n-th power of square matrices [..., m, m]; n < 0 takes the inverse, 0 gives the identity.

    >>> matrix_power(np.array([[1, 1], [0, 1]]), 5).tolist()
    [[1, 5], [0, 1]]
    """
    caller = "numpy.linalg.matrix_power"
    a, n = to_array_like(caller, a), static_int(n, "n", caller)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise bad(caller, "takes arrays of shape [..., m, m]", given={"a": a.aval}, fix="pass square matrices.")
    if n == 0:
        return broadcast_to(eye(a.shape[-1], dtype=a.dtype), a.shape)
    square, result = (inv(a) if n < 0 else a), None
    for bit in reversed(f"{abs(n):b}"):              # by squaring
        if bit == "1":
            result = square if result is None else matmul(result, square)
        square = matmul(square, square)
    assert result is not None                        # the first digit is 1
    return result


def multi_dot(arrays: Sequence[Any], *, precision: PrecisionLike = None) -> Array:
    """Product of matrices, in the order that takes the fewest operations; the first and the last may be vectors.

    >>> multi_dot([np.ones((2, 3)), np.ones((3, 4)), np.ones(4)]).tolist()
    [12.0, 12.0]
    """
    caller = "numpy.linalg.multi_dot"
    xs = array_likes(caller, list(arrays))
    ranks = [len(x.shape) for x in xs]
    if len(xs) < 2:
        raise bad(caller, "needs at least two arrays", given={"arrays": len(xs)}, fix="pass two or more.",
                  exc=ValueError)
    fits = {ranks[0], ranks[-1]} <= {1, 2} and set(ranks[1:-1]) <= {2}
    if not fits or [x.shape[-1] for x in xs[:-1]] != [x.shape[0] for x in xs[1:]]:
        raise bad(caller, "the shapes of the matrices do not match",
                  given={f"array {i}": str(tuple(x.shape)) for i, x in enumerate(xs)},
                  fix="each must have as many columns as the next has rows.", exc=ValueError)
    labels = [[i, i + 1] for i in range(len(xs))]
    labels[0] = labels[0][-ranks[0]:]
    labels[-1] = labels[-1][:ranks[-1]]
    return einsum(*[part for pair in zip(xs, labels, strict=True) for part in pair], optimize="auto",
                  precision=precision)


# -- tensors --------------------------------------------------------------------------------------------------------

@one_launch
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of an array for `tensordot` over its first `ind` axes, which have as many elements as the others."""
    caller = "numpy.linalg.tensorinv"
    a, ind = operand(caller, a), static_int(ind, "ind", caller)
    left, right = a.shape[:ind], a.shape[ind:]
    if ind <= 0 or math.prod(left) != math.prod(right):
        raise bad(caller, "the first `ind` axes must have as many elements as the others",
                  given={"a": typeof(a), "ind": ind}, fix="split the axes in two halves of equal size, ind > 0.",
                  exc=ValueError)
    return inv(a.reshape(math.prod(left), math.prod(right))).reshape(*right, *left)


@one_launch(arrays=2)
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: tuple[int, ...] | None = None) -> Array:
    """The x with ``tensordot(a, x, x.ndim) = b``; `axes` of `a` are moved to its end first."""
    caller = "numpy.linalg.tensorsolve"
    a, b = inexact(caller, a, b)
    if axes is not None:
        a = moveaxis(a, axes, tuple(range(a.ndim - len(axes), a.ndim)))
    shape = a.shape[b.ndim:]
    if a.shape[:b.ndim] != b.shape or math.prod(shape) != b.size:
        raise bad(caller, "the first axes of `a` must have the shape of `b`, and the others as many elements",
                  given={"a": a.aval, "b": b.aval}, fix="move axes of `a` with axes=....", exc=ValueError)
    return solve(a.reshape(b.size, b.size), b.reshape(b.size)).reshape(shape)


# -- functions of xjax.numpy, on the last axes ------------------------------------------------------------------------

@one_launch(arrays=2)
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Cross product of vectors with 3 components along `axis`."""
    caller = "numpy.linalg.cross"
    x1, x2 = operand(caller, x1), operand(caller, x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise bad(caller, "vectors must have 3 components", given={"x1": typeof(x1), "x2": typeof(x2), "axis": axis},
                  fix="name the axis of the components, or use numpy.cross for 2.", exc=ValueError)
    return any_cross(x1, x2, axis=axis)


@one_launch(arrays=2)
def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of all pairs of two vectors: [n] and [m] give [n, m]."""
    caller = "numpy.linalg.outer"
    x1, x2 = to_array_like(caller, x1), to_array_like(caller, x2)
    if x1.ndim != 1 or x2.ndim != 1:
        raise bad(caller, "takes two vectors", given={"x1": x1.aval, "x2": x2.aval}, fix="use numpy.outer, which "
                  "flattens.", exc=ValueError)
    return x1[:, None] * x2[None, :]


@one_launch
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Sum along a diagonal of the last two axes."""
    return any_trace(x, offset, -2, -1, dtype)


@one_launch
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """A diagonal of the last two axes, as the last axis."""
    return any_diagonal(x, offset, -2, -1)
