"""Restarted GMRES: each step builds a new Krylov space and finds the x in it with the smallest residual.

The rows of V are the basis vectors of the space. In this basis ``M A``, with the preconditioner M, is a small matrix H:
``M A V[k] = H[0, k] V[0] + ... + H[k + 1, k] V[k + 1]`` (Saad and Schultz, 1986).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xjax import lax
from xjax.numpy import (
    abs,
    arange,
    conj,
    dot,
    eye,
    finfo,
    isnan,
    maximum,
    minimum,
    real,
    sqrt,
    stack,
    vdot,
    where,
    zeros,
)
from xjax.numpy.linalg import qr
from xjax.ops.dot import Precision
from xjax.typing import Array, ArrayLike

Vector = Any
Operator = Callable[[Vector], Vector]
# (x, residual, its norm, norm at which the step may end) -> x
Step = Callable[[Vector, Vector, Any, Any], Vector]

_INT, _FALSE = np.int32, np.bool_(False)


def repeat(step: Step, A: Operator, M: Operator, b: Vector, x0: Vector, enough: ArrayLike, maxiter: int) -> Vector:
    """Take steps until the norm of ``M (b - A x)`` is at most `enough`."""
    size = _norm(b)
    # A step measures the preconditioned residual, whose scale is that of M b.
    inside = _norm(M(b)) * minimum(1, enough / where(size > 0, size, 1))

    def body(carry: tuple) -> tuple:
        x, residual, norm, k = carry
        x = step(x, residual, norm, inside)
        residual = M(b - A(x))
        return x, residual, _norm(residual), k + 1

    residual = M(b - A(x0))
    return lax.while_loop(lambda carry: must_continue(carry[2], enough, carry[3], maxiter), body,
                          (x0, residual, _norm(residual), _INT(0)))[0]


def must_continue(left: Array, enough: ArrayLike, steps: Array, maxiter: int) -> Array:
    """Whether the residual is large enough for another step. NaN gets one step, so that x becomes NaN."""
    return ((left > enough) | (isnan(left) & (steps == 0))) & (steps < maxiter)


def _norm(x: Vector) -> Array:
    return sqrt(real(vdot(x, x, precision=Precision.HIGHEST)))


def _dot(a: Array, b: Array) -> Array:
    return dot(a, b, precision=Precision.HIGHEST)


def _basis(residual: Vector, norm: Array, size: int) -> Array:
    """A basis [size + 1, n] whose first vector is set and whose other vectors are zeros."""
    return zeros((size + 1, residual.size), residual.dtype).at[0].set(residual / where(norm > 0, norm, 1))


def _arnoldi(A: Operator, M: Operator, V: Array, k: Array) -> tuple[Any, Any, Any]:
    """(V with one more vector, column k of H, whether the new vector was already in the space)."""
    w = M(A(V[k]))
    size = _norm(w)
    column = zeros(V.shape[0], V.dtype)
    for _ in range(2):                  # the second pass makes V orthogonal to working precision
        h = _dot(conj(V), w)
        w, column = w - _dot(h, V), column + h
    norm = _norm(w)
    inside = norm <= finfo(V.dtype).eps * size
    norm = where(inside, 0, norm)
    w = where(inside, 0, w / where(inside, 1, norm))
    return V.at[k + 1].set(w), column.at[k + 1].set(norm), inside


def batched(A: Operator, M: Operator, size: int) -> Step:
    """A step that builds the whole space, then solves the least-squares problem in it."""
    def step(x: Vector, residual: Vector, norm: Array, inside: Array) -> Vector:
        def extend(carry: tuple) -> tuple:
            V, H, _, k = carry
            V, column, closed = _arnoldi(A, M, V, k)
            return V, H.at[:, k].set(column), closed, k + 1

        V, H = _basis(residual, norm, size), eye(size + 1, size, dtype=residual.dtype)
        V, H, _, _ = lax.while_loop(lambda carry: ~carry[2] & (carry[3] < size), extend, (V, H, _FALSE, _INT(0)))
        q, r = qr(H)
        y = lax.linalg.triangular_solve(r, conj(q[0, :, None]) * norm, left_side=True)[:, 0]
        return x + _dot(y, V[:-1])      # vectors that were not computed are zeros

    return step


def incremental(A: Operator, M: Operator, size: int) -> Step:
    """A step that makes H triangular column by column, by rotations that also give the norm of the residual."""
    def step(x: Vector, residual: Vector, norm: Array, inside: Array) -> Vector:
        dtype = residual.dtype

        def extend(carry: tuple) -> tuple:
            V, R, rotations, beta, _, k = carry
            V, column, _ = _arnoldi(A, M, V, k)
            column = lax.fori_loop(0, k, lambda i, h: _rotated(h, i, rotations[i]), column)
            rotation = _rotation(column[k], column[k + 1])
            column, beta = _rotated(column, k, rotation), _rotated(beta, k, rotation)
            return V, R.at[:, k].set(column[:-1]), rotations.at[k].set(rotation), beta, abs(beta[k + 1]), k + 1

        start = (_basis(residual, norm, size), eye(size, dtype=dtype), zeros((size, 2), dtype),
                 zeros(size + 1, dtype).at[0].set(norm), norm, _INT(0))
        V, R, _, beta, _, k = lax.while_loop(lambda carry: (carry[4] > inside) & (carry[5] < size), extend, start)
        beta = where(arange(size) < k, beta[:-1], 0)
        y = lax.linalg.triangular_solve(R, beta[:, None], left_side=True)[:, 0]
        return x + _dot(y, V[:-1])

    return step


def _rotation(a: Array, b: Array) -> Array:
    """(c, s) of the rotation that maps (a, b), with b real, to (r, 0)."""
    size = abs(a)
    r = sqrt(size ** 2 + abs(b) ** 2)
    phase = where(size > 0, a / where(size > 0, size, 1), 1)
    safe = maximum(r, finfo(r.dtype).tiny)
    return stack([where(r > 0, size / safe, 1).astype(a.dtype), (phase * b / safe).astype(a.dtype)])


def _rotated(h: Array, i: Array, rotation: Array) -> Array:
    """A vector with its entries i and i + 1 rotated."""
    c, s = rotation
    x, y = h[i], h[i + 1]
    return h.at[i].set(c * x + s * y).at[i + 1].set(c * y - conj(s) * x)
