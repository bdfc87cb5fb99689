"""Norms of vectors and matrices. Their gradient at 0 is 0, a subgradient, instead of NaN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xjax.core.dtypes import accumulator_dtype, is_complex
from xjax.core.errors import bad
from xjax.core.types import number_of
from xjax.lax import linalg as lax_linalg
from xjax.numpy.lengths import root_of_squares
from xjax.numpy.linalg.arguments import inexact
from xjax.numpy.linalg.power_norms import root_of_powers
from xjax.numpy.manipulate import expand_dims, moveaxis
from xjax.numpy.reductions import max, min, sum
from xjax.numpy.selection import choose
from xjax.ops.checks import canonical_axes
from xjax.ops.piecewise import abs
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike

Axis = int | tuple[int, ...] | None


def _away_from_zero(f: Callable, s: Array) -> Array:
    """``f(s)``, with value and gradient 0 at 0."""
    zero = s == 0
    result = f(choose(zero, number_of(s.dtype, 1), s))
    return choose(zero, number_of(result.dtype, 0), result)


def _length(x: Array, axes: Axis, keepdims: bool, narrow: np.dtype) -> Array:
    """Root of the sum of squares."""
    axes = canonical_axes(axes, x.ndim, "numpy.linalg.norm")
    result = root_of_squares(x, axes, flat_at_zero=True, narrow=narrow)
    return expand_dims(result, axes) if keepdims else result


def _norms(caller: str, x: ArrayLike, norm: Callable[[Array, np.dtype], Array]) -> Array:
    """``norm(x, dtype of x)``; floats of fewer than 32 bits are first converted to float32."""
    x, = inexact(caller, x)
    wide = accumulator_dtype(x.dtype)
    return norm(x, x.dtype) if wide == x.dtype else norm(x.astype(wide), x.dtype).astype(x.dtype)


@one_launch
def norm(x: ArrayLike, ord: int | str | None = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """Norm of vectors or matrices.

    Args:
      x: number[...].
      ord: None: root of the sum of squares. For vectors see `vector_norm`, for matrices `matrix_norm`.
      axis: one axis for vectors, two for matrices; None: all axes (with `ord`, the array must have one or two).
    Returns: real array, without the axes unless `keepdims`. The gradient at 0 is 0.
    Raises: ValueError for an unknown order or number of axes.

    >>> float(norm(np.array([3.0, 4.0])))
    5.0
    """
    caller = "numpy.linalg.norm"

    def norm_of(x: Array, narrow: np.dtype) -> Array:
        if axis is None and ord is None:
            return _length(x, None, keepdims, narrow)
        axes = canonical_axes(axis, x.ndim, caller)
        if len(axes) == 1:
            return _vector_norm(caller, x, axes, keepdims, 2 if ord is None else ord, narrow)
        if len(axes) == 2:
            return _matrix_norm(caller, x, axes, keepdims, ord, narrow)
        raise bad(caller, f"there is no norm over {len(axes)} axes", given={"x": x.aval, "axis": axis},
                  fix="pass one axis for vectors, two for matrices.", exc=ValueError)

    return _norms(caller, x, norm_of)


@one_launch
def vector_norm(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: int | str = 2) -> Array:
    """Norm of vectors: ``sum(abs(x) ** ord) ** (1 / ord)``.

    Args:
      x: number[...]. axis: one or more axes; None: all.
      ord: a number; inf and -inf: the largest and the smallest absolute value; 0: the number of nonzero elements.

    >>> float(vector_norm(np.array([1.0, -2.0]), ord=1))
    3.0
    """
    caller = "numpy.linalg.vector_norm"
    return _norms(caller, x, lambda x, narrow: _vector_norm(caller, x, axis, keepdims, ord, narrow))


def _vector_norm(caller: str, x: Array, axes: Axis, keepdims: bool, ord: float | str | None, narrow: np.dtype) -> Array:
    if ord is None or ord == 2:
        return _length(x, axes, keepdims, narrow)
    if isinstance(ord, str):
        raise _unknown(caller, ord, "a number, numpy.inf or -numpy.inf")
    size = _size(x)
    if ord == np.inf:
        return max(size, axes, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return min(size, axes, keepdims=keepdims)
    if ord == 0:
        return sum(x != 0, axes, dtype=size.dtype, keepdims=keepdims)
    if ord == 1:
        return sum(size, axes, keepdims=keepdims)

    axes = canonical_axes(axes, x.ndim, caller)
    result = root_of_powers(ord, axes, size if is_complex(x.dtype) else x)
    return result if keepdims else result.squeeze(axes)


def _size(x: Array) -> Array:
    return _away_from_zero(abs, x)


@one_launch
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: str | int = "fro") -> Array:
    """Norm of matrices [..., m, n].

    Args:
      ord: "fro": root of the sum of squares; "nuc": sum of the singular values; 2 and -2: the largest and the smallest
        singular value; 1 and -1: the largest and the smallest sum of absolute values of a column; inf and -inf: of a
        row.

    >>> float(matrix_norm(np.array([[1.0, -2.0], [3.0, 4.0]]), ord=np.inf))
    7.0
    """
    caller = "numpy.linalg.matrix_norm"
    return _norms(caller, x, lambda x, narrow: _matrix_norm(
        caller, x, canonical_axes((-2, -1), x.ndim, caller), keepdims, ord, narrow))


def _matrix_norm(caller: str, x: Array, axes: tuple[int, ...], keepdims: bool, ord: float | str | None,
                 narrow: np.dtype) -> Array:
    if ord is None or ord in ("f", "fro"):
        return _length(x, axes, keepdims, narrow)
    rows, columns = axes
    if ord in (1, -1, np.inf, -np.inf):
        summed, kept = (rows, columns) if ord in (1, -1) else (columns, rows)
        result = sum(_size(x), summed, keepdims=True)
        result = max(result, kept, keepdims=True, initial=0) if ord > 0 else min(result, kept, keepdims=True)
        return result if keepdims else result.squeeze(axes)
    if ord not in ("nuc", 2, -2):
        raise _unknown(caller, ord, "'fro', 'nuc', 1, -1, 2, -2, numpy.inf or -numpy.inf")
    values = lax_linalg.svd(moveaxis(x, axes, (-2, -1)), compute_uv=False)
    if ord == "nuc":
        result = sum(values, -1)
    else:
        result = max(values, -1, initial=0) if ord == 2 else min(values, -1)
    return expand_dims(result, axes) if keepdims else result


def _unknown(caller: str, ord: str, known: str) -> Exception:
    return bad(caller, f"unknown order {ord!r}", fix=f"pass {known}.", exc=ValueError)
