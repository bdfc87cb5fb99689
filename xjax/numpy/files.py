"""Arrays from files, text, iterables and other libraries."""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.trace import Tracer
from xjax.numpy.creation import asarray
from xjax.numpy.promote import as_dtype
from xjax.runtime.array import Array

_HOST = 1               # DLPack's name for CPU memory


def fromfile(*args: Any, **kwargs: Any) -> Any:
    """A vector from a file of numbers: as `numpy.fromfile`, and then put on the device."""
    return asarray(np.fromfile(*args, **kwargs))


def fromiter(*args: Any, **kwargs: Any) -> Any:
    """A vector from an iterable: as `numpy.fromiter`, and then put on the device.

    >>> fromiter((i * i for i in range(3)), "int32")
    Array([0, 1, 4], dtype=int32)
    """
    return asarray(np.fromiter(*args, **kwargs))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Any:
    """A vector from numbers in a text, which `sep` stands between; the first `count` of them, or all.

    >>> fromstring("1,2,3", int, sep=",")
    Array([1, 2, 3], dtype=int32)
    """
    return asarray(np.fromstring(string, as_dtype(dtype, "numpy.fromstring"), count, sep=sep))


def load(file: IO[bytes] | str | os.PathLike[Any], *args: Any, **kwargs: Any) -> Any:
    """What `save` or `savez` has written: an array, or a mapping from names to NumPy arrays.

    Further arguments are those of `numpy.load`. NumPy writes dtypes that it does not know (bfloat16, the 8-bit floats)
    as plain bytes: such an array is read back as the dtype of that size of which there is only one, bfloat16.
    """
    out = np.load(file, *args, **kwargs)
    if not isinstance(out, np.ndarray):
        return out
    if out.dtype == np.dtype("V2"):
        out = out.view(dtypes.bfloat16)
    return asarray(out)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array of another library (torch, NumPy, JAX) in host memory, through DLPack.

    Args: device: where the result lies; None: the default device. copy: True: always copied, False: never.
    Raises: TypeError if `x` has no ``__dlpack__`` or lies on another device; ValueError if copy=False cannot be kept.

    >>> from_dlpack(np.arange(3, dtype=np.float32))
    Array([0., 1., 2.], dtype=float32)
    """
    where = "numpy.from_dlpack"
    if isinstance(x, Tracer) or not hasattr(x, "__dlpack__"):
        raise bad(where, f"a value of type {type(x).__name__} does not speak DLPack", fix="use numpy.asarray(x).")
    if isinstance(x, Array):
        return asarray(x, copy=bool(copy), device=device) if copy or device is not None else x
    if copy is False:
        raise bad(where, "copy=False, but the value has to be copied to a device", fix="pass copy=None.",
                  exc=ValueError)
    kind = int(x.__dlpack_device__()[0])
    if kind != _HOST:
        raise bad(where, f"the array lies on a device of DLPack's kind {kind}", fix="move it to the CPU first.")
    return asarray(np.array(np.from_dlpack(x)), device=device)


__all__ = ["from_dlpack", "fromfile", "fromiter", "fromstring", "load"]
