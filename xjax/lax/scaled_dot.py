"""`scaled_dot`: a product of numbers of few bits, in which blocks of numbers share a scale."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import ShapedArray, typeof
from xjax.ops.checks import canonical_axes
from xjax.ops.convert import convert_element_type
from xjax.ops.dot import DotDimensionNumbers, dot_general
from xjax.ops.elementwise import mul
from xjax.ops.shape import broadcast_in_dim, reshape
from xjax.typing import Array, ArrayLike, DTypeLike

_WHERE = "lax.scaled_dot"
_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def scaled_dot(lhs: ArrayLike, rhs: ArrayLike, *, lhs_scale: ArrayLike | None = None,
               rhs_scale: ArrayLike | None = None, dimension_numbers: DotDimensionNumbers | None = None,
               preferred_element_type: DTypeLike | None = None) -> Array:
    """``dot_general(lhs * lhs_scale, rhs * rhs_scale)``, with factors converted to bfloat16.

    Args:
      lhs, rhs: arrays, usually of float8 or float4.
      lhs_scale, rhs_scale: arrays with the sizes of `lhs` and `rhs`, except that the sizes of contracted axes are
        divided by the block size, which is at least 2. None: 1.
      dimension_numbers: as for `dot_general`; None: the last axis of lhs is contracted with the second to last of rhs,
        and all earlier axes are batch axes.
      preferred_element_type: dtype of the sum and the result; None: bfloat16.
    Raises: TypeError if a scale does not fit.

    >>> x = jnp.ones((2, 4))
    >>> scaled_dot(x, x.T, lhs_scale=jnp.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[6.0, 6.0], [14.0, 14.0]]
    """
    ndim = typeof(lhs).ndim
    if dimension_numbers is None:
        if ndim < 2:
            raise bad(_WHERE, "the operands must have at least 2 axes", given={"lhs": typeof(lhs)},
                      fix="pass matrices, or dimension_numbers.")
        batch = tuple(range(ndim - 2))
        dimension_numbers = (((ndim - 1,), (ndim - 2,)), (batch, batch))
    contract = dimension_numbers[0]
    dtype = _BFLOAT16 if preferred_element_type is None else dtypes.canonicalize_dtype(preferred_element_type)
    return dot_general(_scaled("lhs", lhs, lhs_scale, contract[0]), _scaled("rhs", rhs, rhs_scale, contract[1]),
                       dimension_numbers, preferred_element_type=dtype)


def _scaled(name: str, x: ArrayLike, scale: ArrayLike | None, contracted: Any) -> Array:
    """An operand times its scale, in bfloat16."""
    aval, factor = typeof(x), convert_element_type(x, _BFLOAT16)
    if scale is None:
        return factor
    axes = canonical_axes(tuple(contracted), aval.ndim, _WHERE, "contracting axes")
    blocks = _blocks(name, aval, typeof(scale), axes)
    scale = convert_element_type(scale, _BFLOAT16)
    split = [n for size, block in zip(typeof(scale).shape, blocks, strict=True) for n in (size, block)]
    return mul(factor, reshape(broadcast_in_dim(scale, split, range(0, len(split), 2)), aval.shape))


def _blocks(name: str, x: ShapedArray, scale: ShapedArray, contracted: tuple[int, ...]) -> list[int]:
    """For each axis, the number of neighbours that share a scale."""
    def fits(d: int) -> bool:
        n, m = x.shape[d], scale.shape[d]
        return m > 0 and n % m == 0 and n // m >= 2 if d in contracted else n == m

    if scale.ndim != x.ndim or not all(fits(d) for d in range(x.ndim)):
        raise bad(_WHERE, f"the scale of `{name}` does not fit", given={name: x, f"{name}_scale": scale,
                  "contracted axes": str(contracted)},
                  fix="pass one number per block of 2 or more along contracted axes; other axes have equal sizes.")
    return [n // m for n, m in zip(x.shape, scale.shape, strict=True)]
