"""`x.view(dtype)` and `x.byteswap()`: the bits of an array as other numbers."""

from __future__ import annotations

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.ops.arrange import rev, stack
from xjax.ops.compare import ne
from xjax.ops.complex_numbers import complex as lax_complex
from xjax.ops.complex_numbers import imag, part_dtype, real
from xjax.ops.convert import bitcast_convert_type, convert_element_type
from xjax.ops.shape import reshape
from xjax.ops.slice import index_in_dim
from xjax.typing import Array, DTypeLike


def view(x: Array, dtype: DTypeLike | None = None) -> Array:
    """The same bits as another dtype; the last axis grows or shrinks with the width, as in NumPy.

    Raises: ValueError if the bits of the last axis are not a multiple of the new width, or a 0-d array needs an axis.

    >>> jnp.array([1 + 2j, 3 - 4j]).view("float32")
    Array([ 1.,  2.,  3., -4.], dtype=float32)
    """
    new = x.dtype if dtype is None else dtypes.user_dtype(dtype, "view")
    if new == x.dtype:
        return x
    old_bits, new_bits = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new)
    if not x.ndim and old_bits == new_bits:
        return reshape(view(reshape(x, (1,)), new), ())
    if not x.ndim or x.shape[-1] * old_bits % new_bits:
        raise bad("x.view", "the bits of the last axis are not a multiple of the new dtype's width",
                  given={"x": x, "dtype": new.name}, fix="pad the last axis, or choose a narrower dtype.",
                  exc=ValueError)
    return _written(_plain(x), new)


def _plain(x: Array) -> Array:
    """`x` in a dtype whose bits can be converted: bool as uint8, complex numbers as pairs of their parts."""
    if dtypes.is_bool(x.dtype):
        return convert_element_type(x, np.uint8)
    if dtypes.is_complex(x.dtype):
        return reshape(stack([real(x), imag(x)], axis=-1), (*x.shape[:-1], 2 * x.shape[-1]))
    return x


def _written(x: Array, new: np.dtype) -> Array:
    """The bits of integers or floats as dtype `new`; numbers whose dtype does not change keep their derivative."""
    if x.dtype == new:
        return x
    if dtypes.is_bool(new):
        return ne(_written(x, np.dtype("uint8")), np.uint8(0))
    if dtypes.is_complex(new):
        parts = _written(x, part_dtype(new))
        parts = reshape(parts, (*parts.shape[:-1], parts.shape[-1] // 2, 2))
        return lax_complex(*[index_in_dim(parts, i, axis=-1, keepdims=False) for i in (0, 1)])
    old_bits, new_bits = dtypes.itemsize_bits(x.dtype), dtypes.itemsize_bits(new)
    *leading, last = x.shape
    if new_bits > old_bits:
        ratio = new_bits // old_bits
        x = reshape(x, (*leading, last // ratio, ratio))
    return reshape(bitcast_convert_type(x, new), (*leading, last * old_bits // new_bits))


def byteswap(x: Array) -> Array:
    """The bytes of each number in reverse order; of a complex number, of each of its parts.

    >>> jnp.arange(3).byteswap()
    Array([       0, 16777216, 33554432], dtype=int32)
    """
    if dtypes.is_complex(x.dtype):
        return lax_complex(byteswap(real(x)), byteswap(imag(x)))
    if x.dtype.itemsize == 1:
        return x
    return bitcast_convert_type(rev(bitcast_convert_type(x, np.uint8), [x.ndim]), x.dtype)
