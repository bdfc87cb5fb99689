"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import ConcretizationTypeError, bad
from xjax.core.trace import Tracer
from xjax.core.types import typeof
from xjax.lax.linalg import eig
from xjax.lax.polynomial import polynomial
from xjax.lax.shapes import broadcast_shapes, broadcast_to_rank
from xjax.numpy.composed import remainder
from xjax.numpy.creation import ones, zeros
from xjax.numpy.joining import concatenate
from xjax.numpy.manipulate import ravel, take_slices
from xjax.numpy.matrices import diag
from xjax.numpy.promote import broadcast_to, promote, promote_inexact
from xjax.numpy.selection import HostOrArray, choose, operand
from xjax.numpy.stats.sliding import convolve
from xjax.numpy.ufuncs import absolute, add, divide, less, multiply, negative, subtract, to_array_like
from xjax.ops import complex_numbers as lax_complex
from xjax.ops.checks import static_int
from xjax.ops.compare import ne
from xjax.ops.convert import convert_element_type
from xjax.ops.cumulative import cummax
from xjax.ops.elementwise import sub
from xjax.ops.makers import scalar_like
from xjax.ops.shape import expand_dims, reduce_sum
from xjax.ops.slice import dynamic_update_slice, index_in_dim, pad, slice_in_dim
from xjax.ops.sort import sort as lax_sort
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike


def _vector(caller: str, name: str, x: ArrayLike) -> HostOrArray:
    x = operand(caller, x)
    if x.ndim != 1:
        raise bad(caller, f"`{name}` must be a vector of coefficients", given={name: typeof(x)},
                  fix="pass coefficients, the highest power first.", exc=ValueError if x.ndim else TypeError)
    return x


def _known(caller: str, x: Array) -> np.ndarray:
    if isinstance(x, Tracer):
        raise bad(caller, "the size of the result depends on traced values", given={"coefficients": x.aval},
                  fix="leave leading zeros: strip_zeros=False, trim_leading_zeros=False.", exc=ConcretizationTypeError)
    return np.asarray(x)


def _without_leading_zeros(caller: str, x: Array, least: int, small: float = 0.0) -> Array:
    """`x` without leading elements of absolute value up to `small`; at least its last `least` elements."""
    nonzero = np.flatnonzero(~(np.abs(_known(caller, x)) <= small))                # NaN is kept
    first = min(int(nonzero[0]) if nonzero.size else x.shape[0], max(0, x.shape[0] - least))
    return slice_in_dim(x, first, x.shape[0])


# -- values, sums, products ---------------------------------------------------------------------------------------

@one_launch(arrays=2)
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int | None = None) -> Array:
    """The polynomial with coefficients `p` at `x`, by Horner's scheme.

    Args: p: number[n, ...], the highest power first; x: number[...]; unroll: with more coefficients than this (None: 8)
      the program is a loop, with this many steps in each iteration.

    >>> polyval(np.array([1, 0, 2]), np.arange(3))
    Array([2, 3, 6], dtype=int32)
    """
    caller = "numpy.polyval"
    p, x = (operand(caller, v) for v in promote(caller, p, x))
    if not p.ndim:
        raise bad(caller, "`p` has no coefficients", given={"p": typeof(p)}, fix="pass a vector.", exc=ValueError)
    shape = broadcast_shapes(p.shape[1:], x.shape)
    if not p.shape[0]:
        return zeros(shape, x.dtype)
    coeffs = [index_in_dim(p, i, keepdims=False) for i in reversed(range(p.shape[0]))]
    x, *coeffs = (broadcast_to_rank(v, len(shape)) if v.ndim else v for v in (x, *coeffs))
    return polynomial(x, coeffs, unroll=unroll)


def _aligned(caller: str, a1: ArrayLike, a2: ArrayLike) -> tuple[Any, Any]:
    """Both in one dtype and size: the shorter one is padded in front."""
    a1, a2 = (operand(caller, a) for a in promote(caller, a1, a2))
    for a in (a1, a2):
        if not a.ndim:
            raise bad(caller, "`a1` or `a2` is a number", fix="pass [number] as an array.", exc=IndexError)
    n = max(a1.shape[0], a2.shape[0])
    a1, a2 = (pad(a, scalar_like(a, 0), [(n - a.shape[0], 0, 0), *[(0, 0, 0)] * (a.ndim - 1)]) for a in (a1, a2))
    return a1, a2


@one_launch(arrays=2)
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Sum of two polynomials."""
    return add(*_aligned("numpy.polyadd", a1, a2))


@one_launch(arrays=2)
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Difference of two polynomials."""
    return subtract(*_aligned("numpy.polysub", a1, a2))


@one_launch(arrays=2)
def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """Product of two polynomials.

    Args: a1, a2: number[n], number[m]; trim_leading_zeros: whether leading zeros are removed first (not under jit,
      since the size of the result depends on them).
    """
    caller = "numpy.polymul"
    a1, a2 = (_vector(caller, f"a{i}", a) for i, a in enumerate(promote_inexact(caller, a1, a2), 1))
    if trim_leading_zeros:
        a1, a2 = (_without_leading_zeros(caller, a, 1) for a in (a1, a2))
    a1, a2 = (a if a.shape[0] else zeros(1, a.dtype) for a in (a1, a2))
    return convolve(a1, a2)


@one_launch(arrays=2)
def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """(quotient, remainder) of two polynomials.

    Args: u: number[n]; v: number[m], the first coefficient not 0; trim_leading_zeros: whether leading coefficients of
      the remainder are removed if their absolute value is at most sqrt(eps) (not under jit).
    Returns: number[max(n - m + 1, 1)], number[n].
    """
    caller = "numpy.polydiv"
    u, v = (_vector(caller, name, a) for name, a in zip("uv", promote_inexact(caller, u, v), strict=True))
    n, m = u.shape[0], v.shape[0]
    rest, lead = u, index_in_dim(v, 0, 0)
    quotient = []
    for k in range(n - m + 1):
        digit = divide(slice_in_dim(rest, k, k + 1), lead)
        quotient.append(digit)
        rest = dynamic_update_slice(rest, subtract(slice_in_dim(rest, k, k + m), multiply(digit, v)), (np.int32(k),))
    if trim_leading_zeros:
        # Rounding leaves about eps of a coefficient that the division removes; sqrt(eps) is well above.
        rest = _without_leading_zeros(caller, rest, 0, math.sqrt(dtypes.finfo(rest.dtype).eps))
    return concatenate(quotient) if quotient else zeros(1, u.dtype), rest


# -- derivative, integral -----------------------------------------------------------------------------------------

def _order(caller: str, m: ArrayLike) -> int:
    m = static_int(m, "m", caller)
    if m < 0:
        raise bad(caller, "the order `m` is negative", given={"m": m}, fix="pass m >= 0.", exc=ValueError)
    return m


@one_launch
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The m-th derivative of a polynomial, float or complex[max(n - m, 0)]."""
    caller = "numpy.polyder"
    m, p = _order(caller, m), to_array_like(caller, promote_inexact(caller, p)[0])
    if not p.ndim:
        raise bad(caller, "`p` has no coefficients", given={"p": p.aval}, fix="pass a vector.")
    if not m:
        return p
    n = max(p.shape[0] - m, 0)
    powers = np.arange(n)[::-1] + 1                         # of each term after the derivative, plus 1
    factor = np.prod([powers + i for i in range(m)], axis=0).astype(p.dtype)
    return multiply(slice_in_dim(p, 0, n), factor.reshape((n, *(1,) * (p.ndim - 1))))


@one_launch
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The m-th integral of a polynomial, float or complex[n + m].

    Args: k: constant of each integration: a number or a vector of 1 or m elements (default: 0).
    Raises: ValueError for a wrong number of constants.
    """
    caller = "numpy.polyint"
    m = _order(caller, m)
    p, k = (to_array_like(caller, x) for x in promote_inexact(caller, p, 0 if k is None else k))
    if k.size not in (1, m) and m:
        raise bad(caller, f"{k.size} constants for {m} integrations", fix="pass a number, or one for each.",
                  exc=ValueError)
    _vector(caller, "p", p)
    if not m:
        return p
    k = broadcast_to(ravel(k), (m,))
    n = p.shape[0]
    # The j-th constant is integrated m - 1 - j times more.
    powers = np.concatenate([np.arange(n + m)[::-1][:n] - m, np.zeros(m, int)])
    times = np.concatenate([np.full(n, m), np.arange(m)[::-1]])
    divisor = [float(np.prod(np.arange(a + 1, a + b + 1))) for a, b in zip(powers, times, strict=True)]
    return divide(concatenate([p, k]), np.array(divisor).astype(p.dtype))


# -- roots --------------------------------------------------------------------------------------------------------

@one_launch
def poly(seq_of_zeros: ArrayLike) -> Array:
    """Coefficients of the polynomial with these roots, or of the characteristic polynomial of a matrix.

    Args: seq_of_zeros: number[n] or number[n, n].  Returns: float or complex[n + 1], the first one 1.

    >>> poly(np.array([1, 2]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    caller = "numpy.poly"
    x = operand(caller, promote_inexact(caller, seq_of_zeros)[0])
    if x.ndim == 2 and x.shape[0] == x.shape[1] and x.size:
        x = eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]
    elif x.ndim > 1:
        raise bad(caller, "takes a vector of roots or a square matrix", given={"seq_of_zeros": typeof(x)},
                  fix="flatten the roots.", exc=ValueError)
    x = x if x.ndim else expand_dims(x, (0,))
    if not x.shape[0]:
        return ones((), x.dtype)
    out = ones(1, x.dtype)
    for i in range(x.shape[0]):
        root = index_in_dim(x, i, 0)
        zero = zeros(1, x.dtype)
        out = subtract(concatenate([out, zero]), concatenate([zero, multiply(out, root)]))
    return out


def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The roots of a polynomial, as eigenvalues of its companion matrix.

    Args: p: number[n + 1]; strip_zeros: whether leading and trailing zeros are removed first (not under jit); with
      False, each leading zero makes a root nan.
    Returns: complex[n]; fewer if leading zeros were removed.

    >>> roots(np.array([1, -3, 2]))
    Array([2.+0.j, 1.+0.j], dtype=complex64)
    """
    caller = "numpy.roots"
    p = to_array_like(caller, promote_inexact(caller, p)[0])
    p = _vector(caller, "p", p if p.ndim else expand_dims(p, (0,)))
    if not strip_zeros:
        return _roots_padded(p)
    nonzero = np.flatnonzero(_known(caller, p))
    if not nonzero.size:
        return zeros(0, dtypes.to_complex_dtype(p.dtype))
    first, last = int(nonzero[0]), int(nonzero[-1])
    return concatenate([zeros(p.shape[0] - 1 - last, dtypes.to_complex_dtype(p.dtype)),
                        _roots(slice_in_dim(p, first, last + 1))])


@one_launch
def _roots(p: Array) -> Array:
    """Roots of a polynomial whose first coefficient is not 0."""
    n = p.shape[0] - 1
    if n < 1:
        return zeros(0, dtypes.to_complex_dtype(p.dtype))
    first_row = negative(divide(slice_in_dim(p, 1, n + 1), index_in_dim(p, 0, 0)))
    below = concatenate([expand_dims(first_row, (0,)), slice_in_dim(diag(ones(n, p.dtype)), 0, n - 1)], 0)
    return eig(below, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


@one_launch
def _roots_padded(p: Array) -> Array:
    """n roots for n + 1 coefficients; for each leading zero, one root at the end is nan."""
    n = p.shape[0] - 1
    if n < 1:
        return _roots(p)
    seen = cummax(convert_element_type(ne(p, scalar_like(p, 0)), np.int32), 0)          # 0 in front, then 1
    missing = sub(np.int32(n + 1), reduce_sum(seen, (0,)))
    # Leading zeros are moved to the end, where each adds a root at 0: that number of smallest roots is dropped.
    index = remainder(add(np.arange(n + 1, dtype=np.int32), missing), np.int32(n + 1))
    values = _roots(take_slices(p, index, 0))
    real, imag = lax_complex.real(values), lax_complex.imag(values)
    _, real, imag = lax_sort((negative(absolute(values)), real, imag), 0, True, 1)
    exists = less(np.arange(n, dtype=np.int32), sub(np.int32(n), missing))
    return lax_complex.complex(choose(exists, real, np.nan), choose(exists, imag, np.nan))


__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyint", "polymul", "polysub", "polyval", "roots"]
