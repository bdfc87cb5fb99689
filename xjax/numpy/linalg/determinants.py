"""Determinants and their logarithms; derivatives of determinants are right for singular matrices too."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import check_choice
from xjax.core.types import number_of
from xjax.lax import linalg as lax_linalg
from xjax.lax.linalg.matrices import adjoint, identity_like, product, take_rows
from xjax.lax.linalg.solve import inverse_order, solve
from xjax.numpy.composed import real
from xjax.numpy.contract import trace
from xjax.numpy.joining import delete, stack
from xjax.numpy.linalg.arguments import matrices
from xjax.numpy.manipulate import expand_dims
from xjax.numpy.matrices import diagonal
from xjax.numpy.reductions import any, prod, sum
from xjax.numpy.selection import choose
from xjax.numpy.ufuncs import log
from xjax.ops.arrange import broadcasted_iota, concatenate
from xjax.ops.compare import ne
from xjax.ops.piecewise import abs
from xjax.runtime.one_launch import one_launch
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike


class SlogdetResult(NamedTuple):
    """sign: of the determinant, or its phase; logabsdet: logarithm of its absolute value; both [...]."""

    sign: Any
    logabsdet: Any


def _odd(pivots: Array) -> Array:
    """-1 for an odd number of row exchanges, else 1: int32[...]."""
    moved = ne(pivots, broadcasted_iota(np.int32, pivots.shape, pivots.ndim - 1))
    return 1 - 2 * (sum(moved, -1, dtype=np.int32) % 2)


# -- det ------------------------------------------------------------------------------------------------------------

@one_launch
def det(a: ArrayLike) -> Array:
    """Determinants [...] of matrices [..., n, n]. The derivative is right for singular matrices too.

    >>> float(det(np.array([[1.0, 2.0], [3.0, 4.0]])))
    -2.0
    """
    a = matrices("numpy.linalg.det", a, square=True)
    n = a.shape[-1]
    return _small_det(a) if n in (2, 3) else _det(a)


@custom_jvp
def _det(a: Array) -> Array:
    factors, pivots, _ = lax_linalg.lu(a)
    return prod(diagonal(factors, 0, -2, -1), -1) * _odd(pivots).astype(a.dtype)


@_det.defjvp
def _det_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Jacobi's formula: the trace of the adjugate times da."""
    (a,), (da,) = primals, tangents
    return _det(a), trace(_adjugate_times(a, da), 0, -2, -1)


def _adjugate_times(a: Array, b: Array) -> Array:
    """``adj(a) @ b`` from a = Q R P^T, where the absolute values of the diagonal of R descend.

    adj(R) = det(R) R^-1 is finite even if the last diagonal element of R is 0. Let p be the product of the other ones.
    The last component of adj(R) y is p y_n; the other components solve the system of R with the right-hand side
    det(R) y. So 1 / p replaces the last diagonal element. If p is 0, adj(a) is 0.
    """
    q, r, columns = lax_linalg.qr(a, pivoting=True)
    phase = _det(take_rows(q, inverse_order(columns)))         # det(Q P^T): 1 or -1 (complex: a phase)
    elements = diagonal(r, 0, -2, -1)
    p = expand_dims(prod(elements[..., :-1], -1), (-2, -1))
    vanishes = p == 0
    p = choose(vanishes, number_of(p.dtype, 1), p)
    n = a.shape[-1]
    last = np.arange(n) == n - 1
    corner = last[:, None] & last[None, :]
    r = choose(vanishes, identity_like(r), choose(corner, 1 / p, r))
    y = product(adjoint(q), b)
    y = concatenate([y[..., :-1, :] * (p * expand_dims(elements[..., -1], (-2, -1))), y[..., -1:, :]], y.ndim - 2)
    x = lax_linalg.triangular_solve(r, y, left_side=True)
    x = take_rows(x, inverse_order(columns)) * expand_dims(phase, (-2, -1))
    return choose(vanishes, number_of(x.dtype, 0), x)


# -- det of 2 x 2 and 3 x 3 matrices --------------------------------------------------------------------------------
# The sum over the permutations calls no library and is exact for small integers. Where it loses more than 4 bits by
# cancellation, or a product leaves the range, it is replaced by elimination with row exchanges.

_LOST = 1 / 16


@custom_jvp
def _small_det(a: Array) -> Array:
    n = a.shape[-1]
    return _det_of([[a[..., i, j] for j in range(n)] for i in range(n)])


@_small_det.defjvp
def _small_det_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    (a,), (da,) = primals, tangents
    return _small_det(a), sum(_cofactors(a) * da, (-2, -1))


def _cofactors(a: Array) -> Array:
    n = a.shape[-1]

    def cofactor(i: int, j: int) -> Array:
        rest = delete(delete(a, i, -2), j, -1)
        minor = _small_det(rest) if n == 3 else rest[..., 0, 0]
        return minor if (i + j) % 2 == 0 else -minor

    return stack([stack([cofactor(i, j) for j in range(n)], -1) for i in range(n)], -2)


def _det_of(rows: list[list[Any]]) -> Array:
    terms = [_product([row[j] for row, j in zip(rows, order, strict=True)]) * sign
             for order, sign in _ORDERS[len(rows)]]
    total, size = functools.reduce(operator.add, terms), functools.reduce(operator.add, map(abs, terms))
    return choose(abs(total) > size * _LOST, total, _product(_pivots(rows)))


# Permutations of the columns, and their signs.
_ORDERS = {2: [((0, 1), 1), ((1, 0), -1)],
           3: [((0, 1, 2), 1), ((1, 2, 0), 1), ((2, 0, 1), 1), ((2, 1, 0), -1), ((0, 2, 1), -1), ((1, 0, 2), -1)]}


def _pivots(rows: list[list[Any]]) -> list[Any]:
    """The pivots of Gaussian elimination, whose product is the determinant: an exchange of rows negates one of them."""
    first, *rest = rows
    if not rest:
        return first
    for k, row in enumerate(rest):
        larger = abs(row[0]) > abs(first[0])
        rest[k] = [choose(larger, -x, y) for x, y in zip(first, row, strict=True)]
        first = [choose(larger, y, x) for x, y in zip(first, row, strict=True)]
    # If the pivot is 0, the whole column is 0, and so are the factors of the elimination.
    pivot = choose(first[0] == 0, number_of(first[0].dtype, 1), first[0])
    below = [[x - row[0] / pivot * y for x, y in zip(row[1:], first[1:], strict=True)] for row in rest]
    return [first[0], *_pivots(below)]


def _product(factors: list[Any]) -> ArrayLike:
    """The product of 2 or 3 factors; of 3, the largest times the smallest first, in range if the product is."""
    if len(factors) == 2:
        return factors[0] * factors[1]
    x, y, z = factors
    x, y = _by_size(x, y)
    y, z = _by_size(y, z)
    x, y = _by_size(x, y)
    return x * z * y


def _by_size(x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    falls = abs(x) > abs(y)
    return choose(falls, y, x), choose(falls, x, y)


# -- slogdet --------------------------------------------------------------------------------------------------------

@one_launch
def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """Sign and logarithm of the absolute value of determinants, without overflow.

    Args: a: [..., n, n]. method: the decomposition: "lu" (also for None) or "qr".
    Returns: `SlogdetResult`; for a singular matrix 0 and -inf.

    >>> sign, logarithm = slogdet(np.array([[0.0, 2.0], [0.5, 0.0]]))
    >>> float(sign), float(logarithm)
    (-1.0, 0.0)
    """
    caller = "numpy.linalg.slogdet"
    a = matrices(caller, a, square=True)
    check_choice(caller, "method", method, ("lu", "qr", None))
    return SlogdetResult(*(_slogdet_by_qr if method == "qr" else _slogdet)(a))


def _sign_and_log(elements: Array, sign: Array) -> tuple[Any, Any]:
    """Sign, and logarithm of the absolute value, of `sign` times the product of the elements."""
    size = abs(elements)
    singular = any(size == 0, -1)
    size = choose(size == 0, number_of(size.dtype, 1), size)            # so that no element is NaN or infinite
    signs = prod(elements / size.astype(elements.dtype), -1) * sign
    logarithm = choose(singular, number_of(size.dtype, -np.inf), sum(log(size), -1))
    return choose(singular, number_of(elements.dtype, 0), signs), logarithm


@custom_jvp
def _slogdet(a: Array) -> tuple[Any, Any]:
    factors, pivots, _ = lax_linalg.lu(a)
    return _sign_and_log(diagonal(factors, 0, -2, -1), _odd(pivots).astype(a.dtype))


@custom_jvp
def _slogdet_by_qr(a: Array) -> tuple[Any, Any]:
    q, r = lax_linalg.qr(a)
    return _sign_and_log(diagonal(r, 0, -2, -1), _det(q))


def _slogdet_jvp(function: custom_jvp) -> None:
    @function.defjvp
    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """The tangent of log det(a) is trace(a^-1 da): the real part is for logabsdet, the rest for the phase."""
        (a,), (da,) = primals, tangents
        sign, logarithm = function(a)
        move = trace(solve(a, da), 0, -2, -1)
        if not dtypes.is_complex(a.dtype):
            return (sign, logarithm), (sign * 0, move)
        return (sign, logarithm), (sign * (move - real(move).astype(move.dtype)), real(move))


_slogdet_jvp(_slogdet)
_slogdet_jvp(_slogdet_by_qr)
