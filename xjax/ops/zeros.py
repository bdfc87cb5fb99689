"""Arrays filled with one value: `full_of`, `zeros_of`, and instantiation of a symbolic Zero."""

from __future__ import annotations

import numpy as np

from xjax.core import dtypes
from xjax.core.key_types import is_key
from xjax.core.symbolic.dims import is_static
from xjax.core.types import ShapedArray, Zero, scalar_of
from xjax.ops.keys import filled_keys
from xjax.ops.pvary import vary_to
from xjax.ops.shape import broadcast_in_dim
from xjax.typing import Array, ArrayLike


def full_of(aval: ShapedArray, value: ArrayLike) -> Array | np.ndarray:
    """Array of type `aval` filled with `value`."""
    if aval.dtype == dtypes.float0:
        if is_static(aval.shape):
            return np.zeros(aval.shape, dtypes.float0)
        return broadcast_in_dim(np.zeros((), dtypes.float0), aval.shape, ())
    if is_key(aval):
        return vary_to(filled_keys(aval.shape, aval.dtype, value), aval.vma)
    return vary_to(broadcast_in_dim(scalar_of(aval, value), aval.shape, ()), aval.vma)


def zeros_of(aval: ShapedArray) -> Array | np.ndarray:
    return full_of(aval, 0)


def instantiate(x: ArrayLike | Zero) -> ArrayLike:
    """A tangent or cotangent as an array: Zero becomes zeros (of dtype float0 where there is no derivative)."""
    return zeros_of(x.aval) if type(x) is Zero else x


Zero.instantiate = instantiate
