"""Exchange of arrays with other libraries, without a copy, by the DLPack protocol."""

from __future__ import annotations

import numpy as np

from xjax.core import dtypes
from xjax.core.public import attributes_of
from xjax.runtime.arrays.dlpack import from_dlpack as _from_dlpack
from xjax.runtime.placement.sharding import Sharding
from xjax.runtime.xla import Device
from xjax.typing import Array, ArrayLike, DTypeLike

__all__ = ["from_dlpack", "is_supported_dtype"]


def from_dlpack(external_array: ArrayLike, device: Device | Sharding | None = None, copy: bool | None = None) -> Array:
    """An array of another library as an xjax array; see `numpy.from_dlpack`."""
    return _from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: DTypeLike) -> bool:
    """Whether arrays of a dtype can be passed to other libraries: numbers of 8 to 128 bits, bfloat16, bool.

    >>> is_supported_dtype("bfloat16"), is_supported_dtype("int4")
    (True, False)
    """
    dtype = np.dtype(dtype)
    return dtype == dtypes.bfloat16 or dtype.isbuiltin == 1 and dtype.kind in "biufc"


__getattr__ = attributes_of(__name__)
