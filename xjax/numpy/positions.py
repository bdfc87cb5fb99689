"""Positions in arrays: flat and by axis, of a block, of triangles and diagonals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import ConcretizationTypeError, bad
from xjax.core.promotion import result_type
from xjax.core.trace import Tracer
from xjax.core.types import typeof
from xjax.numpy.at import at
from xjax.numpy.composed import divmod, remainder
from xjax.numpy.creation import as_shape, ones, zeros
from xjax.numpy.manipulate import ravel, resize
from xjax.numpy.matrices import diag_indices, tril_indices, triu_indices
from xjax.numpy.promote import as_dtype, default_int
from xjax.numpy.searching import nonzero
from xjax.numpy.selection import choose, clip, operand
from xjax.numpy.ufuncs import add, multiply, to_array_like
from xjax.ops.compare import lt
from xjax.ops.convert import convert_element_type
from xjax.ops.shape import expand_dims
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, DTypeLike, ShapeLike

# -- flat and by axis ---------------------------------------------------------------------------------------------

@one_launch
def unravel_index(indices: ArrayLike, shape: ShapeLike) -> tuple[Array, ...]:
    """Positions along each axis of the elements at flat positions of an array of `shape` (row by row).

    Args: indices: int[...]; negative ones count from the end, and positions out of range are clamped.
    Returns: an array like `indices` for each axis.

    >>> unravel_index(5, (2, 3))
    (Array(1, dtype=int32, weak_type=True), Array(2, dtype=int32, weak_type=True))
    """
    caller = "numpy.unravel_index"
    shape, rest = as_shape(shape, caller), operand(caller, indices)
    if not shape:
        return ()
    size, aval = math.prod(shape), typeof(rest)
    if dtypes.is_int(aval.dtype) and dtypes.itemsize_bits(aval.dtype) < 32:         # cannot hold all sizes
        rest = convert_element_type(rest, np.int32)
    if dtypes.is_unsigned(rest.dtype):
        rest = clip(rest, None, size - 1)
    else:
        rest = clip(rest, -size, size - 1)
        rest = choose(lt(rest, 0), add(rest, size), rest)
    positions = []
    for n in shape[:0:-1]:
        rest, position = divmod(rest, n)
        positions.append(position)
    return tuple(convert_element_type(x, aval.dtype, aval.weak_type) for x in (rest, *positions[::-1]))


def ravel_multi_index(multi_index: Sequence[Any], dims: Sequence[int], mode: str = "raise", order: str = "C", *,
                      dtype: DTypeLike | None = None) -> Array:
    """Flat positions in an array with sizes `dims` of the elements at positions along each axis.

    Args:
      multi_index: int[...] for each axis; they broadcast together.
      mode: the treatment of positions out of range: "raise" (not under jit), "wrap", "clip", or "ignore".
      order: "C" (the last axis runs fastest) or "F" (the first).
      dtype: of the result; default: the promoted dtype of the positions.
    Raises: ValueError for a position out of range and for a `dtype` too narrow for the last flat position,
      ConcretizationTypeError for traced positions with "raise".

    >>> ravel_multi_index((1, 2), (2, 3))
    Array(5, dtype=int32)
    """
    caller = "numpy.ravel_multi_index"
    if mode not in ("raise", "wrap", "clip", "ignore") or order not in ("C", "F"):
        raise bad(caller, "unknown mode or order", given={"mode": repr(mode), "order": repr(order)},
                  fix="modes are 'raise', 'wrap', 'clip' and 'ignore', orders 'C' and 'F'.", exc=ValueError)
    dims = as_shape(dims, caller)
    if len(multi_index) != len(dims):
        raise bad(caller, f"{len(multi_index)} positions for {len(dims)} axes", fix="pass one array for each axis.",
                  exc=ValueError)
    positions = [operand(caller, i) for i in multi_index]
    for i in positions:
        if not dtypes.is_int(i.dtype):
            raise bad(caller, "positions must be integers", given={"got": typeof(i)}, fix="convert with x.astype(int).",
                      exc=ValueError)
    dtype = (result_type(*positions) if positions else default_int()) if dtype is None else as_dtype(dtype, caller)
    if math.prod(dims) - 1 > int(dtypes.iinfo(dtype).max):
        raise bad(caller, f"flat positions in an array of shape {dims} do not fit {np.dtype(dtype).name}",
                  fix=f"pass dtype='{np.min_scalar_type(-math.prod(dims)).name}'.", exc=ValueError)
    if mode == "raise":
        _check_inside(caller, positions, dims)
    elif mode != "ignore":
        positions = [clip(i, 0, n - 1) if mode == "clip" else remainder(i, n)
                     for i, n in zip(positions, dims, strict=True)]
    flat, stride = zeros((), dtype), 1
    axes = list(zip(positions, dims, strict=True))
    for i, n in axes if order == "F" else axes[::-1]:
        flat = add(flat, multiply(convert_element_type(i, dtype), stride))
        stride *= n
    return flat


def _check_inside(caller: str, positions: Sequence[Any], dims: Sequence[int]) -> None:
    if any(isinstance(i, Tracer) for i in positions):
        raise bad(caller, "mode='raise' needs known positions, but these are traced",
                  fix="pass mode='clip', 'wrap' or 'ignore'.", exc=ConcretizationTypeError)
    for d, (i, n) in enumerate(zip(map(np.asarray, positions), dims, strict=True)):
        if i.size and not 0 <= i.min() <= i.max() < n:
            raise bad(caller, f"a position is out of range on axis {d}, which has size {n}",
                      given={"positions": f"from {i.min()} to {i.max()}"}, fix="pass mode='clip' or 'wrap'.",
                      exc=ValueError)


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Arrays that read a block: ``x[ix_(rows, columns)]``; argument i runs along axis i.

    Args: int[n] arrays, or bool[n] arrays with known values, which mean the positions of True.
    Raises: ValueError for other ranks.
    """
    caller, out = "numpy.ix_", []
    for d, x in enumerate(args):
        x = to_array_like(caller, x)
        if x.ndim != 1:
            raise bad(caller, "takes vectors", given={f"argument {d}": x.aval}, fix="flatten it with x.ravel().",
                      exc=ValueError)
        if dtypes.is_bool(x.dtype):
            x = nonzero(x)[0]
        elif not x.size:
            x = zeros((0,), default_int())
        out.append(expand_dims(x, [a for a in range(len(args)) if a != d]))
    return tuple(out)


# -- of parts of matrices -----------------------------------------------------------------------------------------

def _matrix_shape(caller: str, arr: ArrayLike) -> tuple[int, int]:
    shape = np.shape(arr) if not hasattr(arr, "shape") else tuple(arr.shape)
    if len(shape) != 2:
        raise bad(caller, "takes a matrix", given={"arr": str(shape)}, fix="pass an array with 2 axes.", exc=ValueError)
    return shape


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Any, Any]:
    """Indices of the elements on and below the k-th diagonal of a matrix like `arr`."""
    n, m = _matrix_shape("numpy.tril_indices_from", arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Any, Any]:
    """Indices of the elements on and above the k-th diagonal of a matrix like `arr`."""
    n, m = _matrix_shape("numpy.triu_indices_from", arr)
    return triu_indices(n, k, m)


def _check_cube(caller: str, shape: tuple[int, ...], tall: bool) -> None:
    if len(shape) < 2 or (len(set(shape)) > 1 and not (tall and len(shape) == 2)):
        raise bad(caller, "needs at least 2 axes, of equal sizes", given={"shape": str(shape)},
                  fix="pass a square matrix.", exc=ValueError)


def diag_indices_from(arr: ArrayLike) -> tuple[Any, ...]:
    """Indices of the diagonal of an array whose axes are equal in size."""
    arr = to_array_like("numpy.diag_indices_from", arr)
    _check_cube("numpy.diag_indices_from", arr.shape, tall=False)
    return diag_indices(arr.shape[0], arr.ndim)


def mask_indices(n: int, mask_func: Callable[[Any, int], Any], k: int = 0, *,
                 size: int | None = None) -> tuple[Array, ...]:
    """Indices of the elements of a matrix [n, n] that ``mask_func(matrix, k)`` (such as `triu`) does not clear.

    Args: size: of the result, needed if `mask_func` depends on traced values.
    """
    return nonzero(mask_func(ones((n, n)), k), size=size)


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """`a` with new values on its diagonal.

    Args:
      a: a matrix, or an array whose axes are equal in size; val: a number, or values that are repeated as needed.
      wrap: whether the diagonal of a tall matrix continues at column 0, two rows below its end in the last column.
      inplace: must be False: arrays never change.

    >>> fill_diagonal(np.zeros((2, 2), np.float32), 1.0, inplace=False)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    caller = "numpy.fill_diagonal"
    if inplace:
        raise bad(caller, "cannot work in place: arrays never change", exc=NotImplementedError,
                  fix="pass inplace=False and use the value that the function returns.")
    a, val = to_array_like(caller, a), operand(caller, val)
    _check_cube(caller, a.shape, tall=True)
    if a.ndim == 2:
        n, m = a.shape
        flat = np.arange(0, n * m if wrap else min(n, m) * m, m + 1, dtype=np.int64)
        index = np.unravel_index(flat, a.shape)
    else:
        index = (np.arange(a.shape[0]),) * a.ndim
    return at(a)[index].set(val if not val.ndim else resize(ravel(val), (len(index[0]),)))


__all__ = ["diag_indices_from", "fill_diagonal", "ix_", "mask_indices", "ravel_multi_index", "tril_indices_from",
           "triu_indices_from", "unravel_index"]
