"""Arrays from files, text and iterables."""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np

from xjax.core import dtypes
from xjax.numpy.creation import asarray
from xjax.numpy.promote import as_dtype
from xjax.typing import Array, DTypeLike


def fromfile(*args: object, **kwargs: object) -> Array:
    """A vector from a file of numbers: as `numpy.fromfile`, then put on the device."""
    return asarray(np.fromfile(*args, **kwargs))


def fromiter(*args: object, **kwargs: object) -> Array:
    """A vector from an iterable: as `numpy.fromiter`, then put on the device.

    >>> fromiter((i * i for i in range(3)), "int32")
    Array([0, 1, 4], dtype=int32)
    """
    return asarray(np.fromiter(*args, **kwargs))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """A vector of the numbers in a text, which `sep` separates: the first `count` of them, or all.

    >>> fromstring("1,2,3", int, sep=",")
    Array([1, 2, 3], dtype=int32)
    """
    return asarray(np.fromstring(string, as_dtype(dtype, "numpy.fromstring"), count, sep=sep))


def load(file: IO[bytes] | str | os.PathLike[Any], *args: Any, **kwargs: Any) -> Any:
    """Read a file of `save` or `savez`: an array, or a mapping from names to NumPy arrays.

    Further arguments are those of `numpy.load`. NumPy writes dtypes of other libraries (bfloat16, the 8-bit floats) as
    plain bytes. Elements of 2 bytes are read back as bfloat16, the only such dtype of this size.
    """
    out = np.load(file, *args, **kwargs)
    if not isinstance(out, np.ndarray):
        return out
    if out.dtype == np.dtype("V2"):
        out = out.view(dtypes.bfloat16)
    return asarray(out)


__all__ = ["fromfile", "fromiter", "fromstring", "load"]
