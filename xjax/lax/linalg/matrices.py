"""Common functions for matrices: products, adjoints, triangles, diagonals, and checks of their types.

All accept arrays [..., m, n]. The axes before the last two are batch axes, so vmap only has to add an axis there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.hlo import Builder, Value
from xjax.core.lowering import lower_function
from xjax.core.primitive import Missing, Primitive
from xjax.core.types import ShapedArray, number_of, typeof
from xjax.ops.arrange import batched_in_front, broadcasted_iota
from xjax.ops.checks import NOT_LINEAR
from xjax.ops.compare import eq, ge, select
from xjax.ops.complex_numbers import conj, part_dtype, real
from xjax.ops.convert import convert_element_type
from xjax.ops.dot import Precision, batch_matmul
from xjax.ops.elementwise import add, mul
from xjax.ops.gather import gather
from xjax.ops.index_numbers import GatherDimensionNumbers
from xjax.ops.makers import filled_like
from xjax.ops.shape import broadcast_in_dim, expand_dims, reduce_sum, reshape, transpose
from xjax.typing import Array, ArrayLike

_ACCEPTED = ("float32", "float64", "complex64", "complex128")


# -- checks -------------------------------------------------------------------------------------------------------

def check_matrix(name: str, x: ShapedArray, square: bool = False) -> None:
    """Raise unless the type is that of matrices with a dtype that LAPACK supports."""
    if x.dtype.name not in _ACCEPTED:
        raise bad(f"lax.linalg.{name}", f"does not accept dtype {x.dtype.name}",
                  given={"accepted": ", ".join(_ACCEPTED)}, fix="convert with x.astype(numpy.float32).")
    if x.ndim < 2:
        raise bad(f"lax.linalg.{name}", "takes matrices: at least 2 axes are needed", given={"x": x.str_short()},
                  fix="add axes: x[None, :].", exc=ValueError)
    if square and x.shape[-1] != x.shape[-2]:
        raise bad(f"lax.linalg.{name}", "takes square matrices", given={"x": x.str_short()},
                  fix="the last two axes must have equal sizes.", exc=ValueError)


_NO_LIBRARY = Missing("there is no library of matrices for this platform", fix="run it on a CPU or an NVIDIA GPU.")


def matrix_primitive(name: str, *, type_rule: Callable, lower: Callable | Missing = _NO_LIBRARY,
                     lower_on: Mapping[str, Callable] | None = None, jvp: Any, transpose: Any = NOT_LINEAR,
                     batch: Callable | None = None, multiple_results: bool = True) -> Primitive:
    """A primitive on arrays with any number of leading batch axes."""
    def in_front(axis, args, bdims, **params):
        outs = p.bind(*batched_in_front(axis, args, bdims), **params)
        return (outs, [0] * len(outs)) if multiple_results else (outs, 0)

    p = Primitive(name, type_rule=type_rule, lower=lower, lower_on=lower_on, jvp=jvp, transpose=transpose,
                  batch=batch or in_front, multiple_results=multiple_results)
    return p


def lower_by(function: Callable[..., Sequence[Any]]) -> Callable:
    """Lowering of a primitive with several results, by tracing ``function(*arrays, **params)``."""
    def lower(b: Builder, outs: Any, *xs: Value, **params: Any) -> list[Value]:
        return lower_function(b, lambda *arrays: function(*arrays, **params), xs)
    return lower


# -- functions of matrices ------------------------------------------------------------------------------------------

def swapped(x: ArrayLike) -> Array:
    """Transposed matrices."""
    n = typeof(x).ndim
    return transpose(x, (*range(n - 2), n - 1, n - 2))


def adjoint(x: ArrayLike) -> Array:
    """Transposed and conjugated matrices."""
    return swapped(conjugate(x))


@overload
def conjugate(x: Array) -> Array: ...
@overload
def conjugate(x: ArrayLike) -> ArrayLike: ...


def conjugate(x: ArrayLike) -> ArrayLike:
    return conj(x) if dtypes.is_complex(typeof(x).dtype) else x


def real_part(x: Array) -> Array:
    return real(x) if dtypes.is_complex(typeof(x).dtype) else x


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of absolute values."""
    return part_dtype(dtype) if dtypes.is_complex(dtype) else dtype


def product(x: ArrayLike, y: ArrayLike) -> Array:
    """Matrix products in full precision."""
    return batch_matmul(x, y, Precision.HIGHEST)


def symmetrized(x: ArrayLike) -> Array:
    """Half the sum of the matrices and their adjoints."""
    return mul(add(x, adjoint(x)), number_of(typeof(x).dtype, 0.5))


def mask_of(x: ArrayLike, test: Callable, k: int = 0) -> Array:
    """Where ``test(row + k, column)`` holds: bool, of the shape of `x`."""
    aval = typeof(x)
    shape = aval.shape[-2:]
    rows = add(broadcasted_iota(np.int32, shape, 0), np.int32(k))
    mask = test(rows, broadcasted_iota(np.int32, shape, 1))
    return broadcast_in_dim(mask, aval.shape, (aval.ndim - 2, aval.ndim - 1))


def lower_triangle(x: ArrayLike, k: int = 0) -> Array:
    """The matrices with zeros above the k-th diagonal."""
    return select(mask_of(x, ge, k), x, filled_like(x, 0))


def upper_triangle(x: ArrayLike, k: int = 0) -> Array:
    """The matrices with zeros below the k-th diagonal."""
    return select(mask_of(x, ge, k - 1), filled_like(x, 0), x)


def identity_like(x: ArrayLike) -> Array:
    """The identity for each matrix, with the shape and dtype of `x`."""
    return convert_element_type(mask_of(x, eq), typeof(x).dtype)


def diagonal(x: ArrayLike) -> Array:
    """The diagonals: [..., n, n] -> [..., n]."""
    return reduce_sum(select(mask_of(x, eq), x, filled_like(x, 0)), (typeof(x).ndim - 1,))


def as_row(x: ArrayLike) -> Array:
    """[..., n] -> [..., 1, n]."""
    return expand_dims(x, (typeof(x).ndim - 1,))


def as_column(x: ArrayLike) -> Array:
    """[..., n] -> [..., n, 1]."""
    return expand_dims(x, (typeof(x).ndim,))


def take_rows(x: ArrayLike, order: ArrayLike) -> Array:
    """The rows of each matrix in another order.  x: any[..., m, n]; order: int[..., k] -> any[..., k, n]."""
    aval, rows = typeof(x), typeof(order)
    if not aval.size:
        return broadcast_in_dim(number_of(aval.dtype, 0), (*rows.shape, aval.shape[-1]), ())
    outer, axis = tuple(range(aval.ndim - 2)), aval.ndim - 2
    numbers = GatherDimensionNumbers((axis + 1,), (axis,), (axis,), outer, outer)
    return gather(x, reshape(order, (*rows.shape, 1)), numbers, (1,) * (axis + 1) + aval.shape[-1:])
