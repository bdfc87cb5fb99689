"""Matrices of special forms: of blocks, of shifted rows, and by formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xjax.core.errors import bad
from xjax.numpy import (
    abs,
    asarray,
    atleast_1d,
    atleast_2d,
    broadcast_to,
    concatenate,
    conj,
    diag,
    expand_dims,
    flip,
    pad,
    zeros,
    zeros_like,
)
from xjax.numpy.promote import as_dtype, broadcast_shapes, default_float, promote, promote_inexact
from xjax.numpy.selection import operand
from xjax.ops.checks import static_int
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, DTypeLike


def _offsets(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column numbers of a matrix [n, m]."""
    return np.arange(n, dtype=np.int32)[:, None], np.arange(m, dtype=np.int32)[None, :]


def _vectors(caller: str, *xs: ArrayLike, least: int = 0) -> list[Array]:
    """Arguments as arrays [..., n] of one dtype, with common batch axes."""
    vectors = [atleast_1d(operand(caller, x)) for x in promote(caller, *xs)]
    batch = broadcast_shapes(*[x.shape[:-1] for x in vectors])
    if vectors[0].shape[-1] < least:
        raise bad(caller, f"needs at least {least} elements", given={"argument": vectors[0].aval}, fix="pass more.",
                  exc=ValueError)
    return [broadcast_to(x, (*batch, x.shape[-1])) for x in vectors]


def block_diag(*arrs: ArrayLike) -> Array:
    """The block-diagonal matrix with `arrs` along its diagonal; vectors are used as rows.

    Raises: ValueError for arrays with more than two axes.

    >>> block_diag(np.ones((1, 2)), 3.0).tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 3.0]]
    """
    caller = "scipy.linalg.block_diag"
    xs = promote(caller, *[operand(caller, x) for x in arrs]) if arrs else [zeros((1, 0))]
    for i, x in enumerate(xs):
        if np.ndim(x) > 2:
            raise bad(caller, "takes arrays with at most two axes", given={f"argument {i}": x}, fix="use vmap.",
                      exc=ValueError)
    xs = [atleast_2d(x) for x in xs]
    before = np.cumsum([0, *[x.shape[1] for x in xs]])
    return concatenate([pad(x, ((0, 0), (int(start), int(before[-1] - end))))
                        for x, start, end in zip(xs, before[:-1], before[1:], strict=True)], 0)


@one_launch(arrays=2)
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix with constant diagonals: first column `c` and first row `r` (None: the conjugate of `c`).

    Args: c: [..., n]; r: [..., m], whose first element is not read.

    >>> toeplitz(np.array([1, 2]), np.array([1, 5, 6])).tolist()
    [[1, 5, 6], [2, 1, 5]]
    """
    caller = "scipy.linalg.toeplitz"
    c, r = _vectors(caller, c, conj(operand(caller, c)) if r is None else r)
    n, m = c.shape[-1], r.shape[-1]
    i, j = _offsets(n, m)
    if not n or not m:
        return zeros((*c.shape[:-1], n, m), c.dtype)
    return concatenate([flip(c, -1), r[..., 1:]], -1)[..., j - i + (n - 1)]


@one_launch(arrays=2)
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix with constant anti-diagonals: first column `c` and last row `r` (None: zeros).

    Args: c: [..., n]; r: [..., m], whose first element is not read.

    >>> hankel(np.array([1, 2, 3])).tolist()
    [[1, 2, 3], [2, 3, 0], [3, 0, 0]]
    """
    caller = "scipy.linalg.hankel"
    c = operand(caller, c)
    c, r = _vectors(caller, c, zeros_like(c) if r is None else r)
    n, m = c.shape[-1], r.shape[-1]
    i, j = _offsets(n, m)
    if not n or not m:
        return zeros((*c.shape[:-1], n, m), c.dtype)
    return concatenate([c, r[..., 1:]], -1)[..., i + j]


@one_launch
def circulant(c: ArrayLike) -> Array:
    """The matrix whose columns are the cyclic shifts of `c`, [..., n].

    >>> circulant(np.array([1, 2, 3])).tolist()
    [[1, 3, 2], [2, 1, 3], [3, 2, 1]]
    """
    c, = _vectors("scipy.linalg.circulant", c)
    i, j = _offsets(c.shape[-1], c.shape[-1])
    return c[..., (i - j) % max(c.shape[-1], 1)]


@one_launch
def companion(a: ArrayLike) -> Array:
    """The matrix whose eigenvalues are the roots of the polynomial ``a[0] x^n + ... + a[n]``.  a: [..., n + 1].

    >>> companion(np.array([1.0, -3.0, 2.0])).tolist()
    [[3.0, -2.0], [1.0, 0.0]]
    """
    caller = "scipy.linalg.companion"
    a, = _vectors(caller, *promote_inexact(caller, operand(caller, a)), least=2)
    return _with_first_row(-a[..., 1:] / a[..., :1], np.eye(a.shape[-1] - 1, k=-1))


@one_launch
def fiedler_companion(a: ArrayLike) -> Array:
    """The matrix with five diagonals whose eigenvalues are the roots of ``a[0] x^n + ... + a[n]``.  a: [..., n + 1].

    >>> fiedler_companion(np.array([1.0, -6.0, 11.0, -6.0])).tolist()
    [[6.0, -11.0, 1.0], [1.0, 0.0, 0.0], [0.0, 6.0, 0.0]]
    """
    caller = "scipy.linalg.fiedler_companion"
    a, = _vectors(caller, *promote_inexact(caller, operand(caller, a)), least=1)
    n = a.shape[-1] - 1
    roots = -a[..., 1:] / a[..., :1]
    values = concatenate([roots, zeros((*a.shape[:-1], 2), a.dtype).at[..., 1].set(1)], -1)
    # `index` into `values`, where n is a 0 and n + 1 a 1. Even rows i have coefficients i + 1 and i + 2, odd rows a 1.
    index = np.full((n + 2, n + 2), n)
    even, odd = np.arange(0, n, 2), np.arange(1, n, 2)
    index[even, even + 1] = even + 1
    index[even, even + 2] = index[odd, odd - 2] = n + 1
    index[even[1:], even[1:] - 1] = even[1:]
    index[:2, 0] = (0, n + 1)
    return values[..., index[:n, :n]]


def _with_first_row(row: Array, below: ArrayLike) -> Array:
    """`row` [..., n] above all rows of `below` but the first; `below` is the same for all matrices."""
    rest = broadcast_to(asarray(below[1:], dtype=row.dtype), (*row.shape[:-1], row.shape[-1] - 1, row.shape[-1]))
    return concatenate([expand_dims(row, (-2,)), rest], -2)


@one_launch(arrays=2)
def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """The Leslie matrix: fecundities `f` [n] in the first row, survival rates `s` [n - 1] below the diagonal."""
    caller = "scipy.linalg.leslie"
    f, s = _vectors(caller, f, s, least=2)
    if s.shape[-1] != f.shape[-1] - 1 or f.ndim > 1:
        raise bad(caller, "takes vectors `f` [n] and `s` [n - 1]", given={"f": f.aval, "s": s.aval},
                  fix="use vmap for batches.", exc=ValueError)
    return concatenate([f[None, :], diag(s, -1)[1:]], 0)


@one_launch
def fiedler(a: ArrayLike) -> Array:
    """The matrix ``abs(a[i] - a[j])``, [..., n, n], of a[..., n]."""
    a, = _vectors("scipy.linalg.fiedler", a)
    return abs(expand_dims(a, (-1,)) - expand_dims(a, (-2,)))


@one_launch
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix that convolves a vector of n elements with `a` [..., m].

    Args: mode: the rows: "full": all n + m - 1; "same": the middle max(n, m); "valid": rows with complete overlap.

    >>> convolution_matrix(np.array([1, 2]), 2).tolist()
    [[1, 0], [2, 1], [0, 2]]
    """
    caller = "scipy.linalg.convolution_matrix"
    n = static_int(n, "n", caller)
    a, = _vectors(caller, a, least=1)
    if n <= 0 or mode not in ("full", "same", "valid"):
        raise bad(caller, "`n` must be positive, and `mode` one of the three modes", given={"n": n, "mode": mode},
                  fix="use mode 'full', 'same' or 'valid'.", exc=ValueError)
    m = a.shape[-1]
    padding = [(0, 0)] * (a.ndim - 1) + [(0, n - 1)]
    column, row = pad(a, padding), pad(a[..., :1], padding)
    whole = toeplitz(column, row)
    less = {"full": 0, "same": min(n, m) - 1, "valid": 2 * (min(n, m) - 1)}[mode]
    return whole[..., less // 2:n + m - 1 - (less - less // 2), :]


# -- by formulas ----------------------------------------------------------------------------------------------------

def hilbert(n: int) -> Array:
    """The Hilbert matrix ``1 / (i + j + 1)``, [n, n]."""
    i, j = _offsets(n, n)
    return asarray(1 / (i + j + 1), dtype=default_float())


def _floats(entries: Sequence[Sequence[int]]) -> Array:
    """A square matrix from Python integers of any size; infinite where they exceed the range of floats."""
    rounded = [[float(x) if x.bit_length() < 1024 else math.inf if x > 0 else -math.inf for x in row]
               for row in entries]
    return asarray(np.array(rounded).reshape(len(entries), len(entries)), dtype=default_float())


def invhilbert(n: int) -> Array:
    """The inverse of the Hilbert matrix, [n, n]: its integers, rounded to floats.

    >>> invhilbert(2).tolist()
    [[4.0, -6.0], [-6.0, 12.0]]
    """
    return _floats([[(-1) ** (i + j) * (i + j + 1) * math.comb(n + i, n - j - 1) * math.comb(n + j, n - i - 1)
                     * math.comb(i + j, i) ** 2 for j in range(n)] for i in range(n)])


def _pascal(caller: str, n: int, kind: str | None, inverse: bool) -> Array:
    """L, its transpose, or their product; L has the binomial coefficients, with alternating signs if `inverse`."""
    if kind not in (None, "symmetric", "lower", "upper"):
        raise bad(caller, f"`kind` is {kind!r}", fix="pass 'symmetric', 'lower' or 'upper'.", exc=ValueError)
    sign = -1 if inverse else 1
    lower = np.array([[sign ** (i + j) * math.comb(i, j) for j in range(n)] for i in range(n)], object).reshape(n, n)
    if kind == "lower":
        return _floats(lower)
    if kind == "upper":
        return _floats(lower.T)
    return _floats(lower.T @ lower if inverse else lower @ lower.T)


def pascal(n: int, kind: str | None = None) -> Array:
    """The Pascal matrix [n, n] of binomial coefficients.  kind: None or "symmetric", or its factor "lower" or "upper".

    >>> pascal(3).tolist()
    [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0], [1.0, 3.0, 6.0]]
    """
    return _pascal("scipy.linalg.pascal", n, kind, inverse=False)


def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal`, which has integer elements too.

    >>> invpascal(2).tolist()
    [[2.0, -1.0], [-1.0, 1.0]]
    """
    return _pascal("scipy.linalg.invpascal", n, kind, inverse=True)


def helmert(n: int, full: bool = False) -> Array:
    """The Helmert matrix [n - 1, n] with orthonormal rows that sum to 0; with `full` [n, n], its first row constant."""
    if n < 1:
        raise bad("scipy.linalg.helmert", f"`n` is {n}", fix="pass a positive integer.", exc=ValueError)
    i, j = _offsets(n - 1, n)
    length = np.sqrt((i + 1.0) * (i + 2.0))
    rows = np.where(j <= i, 1 / length, np.where(j == i + 1, -(i + 1.0) / length, 0.0))
    if full:
        rows = np.concatenate([np.full((1, n), 1 / math.sqrt(n)), rows])
    return asarray(rows, dtype=default_float())


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """The Hadamard matrix [n, n] of 1 and -1 with orthogonal rows, n a power of 2."""
    if n < 1 or n & (n - 1):
        raise bad("scipy.linalg.hadamard", f"`n` is {n}", fix="pass a power of 2.", exc=ValueError)
    i, j = _offsets(n, n)
    signs = 1 - 2 * (np.bitwise_count(i & j) % 2).astype(np.int32)
    return asarray(signs, dtype=as_dtype(dtype, "scipy.linalg.hadamard"))


def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """The matrix of the discrete Fourier transform, complex[n, n], divided by `scale`: None (1), "sqrtn" or "n"."""
    caller = "scipy.linalg.dft"
    if scale not in (None, "sqrtn", "n"):
        raise bad(caller, f"`scale` is {scale!r}", fix="pass None, 'sqrtn' or 'n'.", exc=ValueError)
    dtype = as_dtype(complex if dtype is None else dtype, caller)
    i, j = _offsets(n, n)
    matrix = np.exp(-2j * np.pi * ((i.astype(np.int64) * j) % max(n, 1)) / max(n, 1))
    return asarray(matrix / {None: 1.0, "sqrtn": math.sqrt(n), "n": n}[scale], dtype=dtype)
