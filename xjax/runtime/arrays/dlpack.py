"""Arrays of other libraries (torch, NumPy, JAX) without a copy, through the DLPack protocol."""

from __future__ import annotations

from typing import Any

import numpy as np

from xjax.core import array_type, dtypes
from xjax.core.config import enable_x64
from xjax.core.errors import bad
from xjax.core.trace import Tracer
from xjax.core.types import ShapedArray
from xjax.ops.convert import convert_element_type
from xjax.ops.identity import copy_p
from xjax.runtime import xla
from xjax.runtime.arrays.array import Array, from_numpy, put
from xjax.runtime.arrays.hooks import TO_DEVICE, check_move
from xjax.runtime.devices import backend
from xjax.runtime.placement.places import on
from xjax.runtime.placement.sharding import Sharding
from xjax.runtime.xla import Device, XlaRuntimeError
from xjax.typing import ArrayLike

_HOST, _CUDA = 1, 2     # DLPack's device types of CPU memory and of NVIDIA GPU memory
_ALIGNMENT = 64         # bytes; XLA copies memory at other addresses


def from_dlpack(x: Any, /, *, device: Device | Sharding | None = None, copy: bool | None = None) -> array_type.Array:
    """An array of another library in host memory or on an NVIDIA GPU, through DLPack.

    An array that only has ``__cuda_array_interface__``, such as Numba's, is copied on its GPU.

    Memory is shared if the array is contiguous, has a dtype that xjax keeps, is on the target device, and on the host
    starts at a 64-byte boundary. So `x` must not be modified afterwards unless it was copied. Detach a torch
    tensor that requires a gradient. The GPU waits for pending computations of `x`; this function does not.

    The result is committed to its device.

    Args:
      device: of the result; None: the GPU of an array on a GPU, else the default device.
      copy: True: always copied, False: never; None: if necessary.

    Raises:
      TypeError: if `x` has no ``__dlpack__`` or is on a device of another kind.
      ValueError: if copy=False is impossible.
      BufferError: if `x` is on several devices, or on a GPU and not contiguous.

    >>> from_dlpack(np.arange(3, dtype=np.float32))
    Array([0., 1., 2.], dtype=float32)
    """
    caller = "from_dlpack"
    if has_cuda_interface_only(x):
        if copy is False:
            raise bad(caller, "copy=False, but an array with only __cuda_array_interface__ must be copied",
                      given={"type": type(x).__name__}, fix="pass copy=None, or wrap it with cupy.asarray(x), which "
                      "supports DLPack.", exc=ValueError)
        copied = from_cuda_interface(caller, x)
        return copied if device is None else put(copied, on(device))
    if isinstance(x, Tracer) or not hasattr(x, "__dlpack__"):
        raise bad(caller, f"a value of type {type(x).__name__} does not support DLPack", given={"value": repr(x)[:80]},
                  fix="convert it with xjax.numpy.asarray(x).")
    kind, index = x.__dlpack_device__()
    if isinstance(x, Array) and device is None and not copy:
        return put(x, on(x.sharding.devices[0]))
    if not isinstance(x, Array) and int(kind) == _CUDA:
        x = _on_gpu(caller, x, index, may_convert=copy is not False)
        if device is None and not copy:
            return x
        device = x.sharding.devices[0] if device is None else device
    if not isinstance(x, Array) and int(kind) != _HOST:
        raise bad(caller, "the array is neither in host memory nor on an NVIDIA GPU",
                  given={"type": type(x).__name__}, fix="copy it to the host first (tensor.cpu()).")
    sharding = on(backend.default_device() if device is None else device)
    if copy is False and isinstance(x, Array) and x.sharding.device_set != sharding.device_set:
        raise bad(caller, "copy=False, but the array must be copied to another device",
                  given={"from": str(x.sharding), "to": str(sharding)}, fix="pass copy=None.", exc=ValueError)
    value = _on_host(x)
    shareable = (value.flags.c_contiguous and dtypes.canonicalize_dtype(value.dtype) == value.dtype
                 and sharding.devices[0].platform == "cpu")
    if copy is False and not (shareable and value.ctypes.data % _ALIGNMENT == 0):
        raise bad(caller, "copy=False, but the device cannot use the memory of the value without a copy",
                  given={"dtype": value.dtype, "strides": value.strides}, fix="pass copy=None.", exc=ValueError)
    if copy or not shareable:
        return from_numpy(value, sharding)
    aval = ShapedArray(value.shape, value.dtype)
    check_move(TO_DEVICE, aval)
    return Array(xla.device_put(aval, sharding.xla(aval.ndim), [value], list(sharding.devices), alias=True), aval,
                 sharding)


def has_cuda_interface_only(x: object) -> bool:
    """Whether `x`, such as an array of Numba, describes memory of a GPU and does not support DLPack."""
    return not hasattr(x, "__dlpack__") and hasattr(x, "__cuda_array_interface__")


def from_cuda_interface(caller: str, x: Any) -> array_type.Array:
    """A copy, on its GPU, of an array with ``__cuda_array_interface__``, which does not keep its memory alive.

    Raises: BufferError for an array with gaps or a mask; TypeError for an unsupported dtype.
    """
    interface = dict(x.__cuda_array_interface__)
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    if interface.get("mask") is not None or not _is_in_order(shape, dtype.itemsize, interface.get("strides")):
        raise bad(caller, "the array is masked, or not contiguous",
                  given={"type": type(x).__name__, "shape": shape, "strides": interface.get("strides")},
                  fix="copy it to a contiguous array first.", exc=BufferError)
    if not dtypes.is_supported(dtype):
        raise bad(caller, f"dtype {dtype} is not supported", given={"type": type(x).__name__},
                  fix="convert it to a bool, integer, float or complex dtype.")
    client, pointer = backend.client("gpu"), int(interface["data"][0])
    ordinal = xla.cuda_ordinal(pointer) if pointer else 0
    buffer = xla.from_cuda_interface(interface, client, ordinal)
    device = next(d for d in client.local_devices() if d.local_hardware_id == ordinal)
    view = Array(buffer, ShapedArray(shape, dtype), on(device))
    kept = dtypes.canonicalize_dtype(dtype)
    with enable_x64(True):
        copied = copy_p.bind(view)
        copied.block_until_ready()
        return copied if kept == dtype else convert_element_type(copied, kept)


def _is_in_order(shape: tuple[int, ...], itemsize: int, strides: tuple[int, ...] | None) -> bool:
    """Whether the elements are contiguous in row-major order; strides of axes with one element do not matter."""
    expected = itemsize
    for n, stride in zip(shape[::-1], () if strides is None else tuple(strides)[::-1], strict=strides is not None):
        if n > 1 and stride != expected:
            return False
        expected *= n
    return True


def is_on_gpu(x: object) -> bool:
    """Whether `x`, of another library, reports that it is on an NVIDIA GPU."""
    if has_cuda_interface_only(x):
        return True
    ask = getattr(x, "__dlpack_device__", None)
    try:
        return ask is not None and int(ask()[0]) == _CUDA
    except (BufferError, RuntimeError, TypeError, ValueError):
        return False                                # on several devices, or without memory


def _on_gpu(caller: str, x: Any, index: int, may_convert: bool) -> array_type.Array:
    """The same memory on a GPU as an array; a dtype that xjax does not keep is converted if `may_convert`."""
    device = next(d for d in backend.local_devices(backend="gpu") if d.local_hardware_id == index)
    stream = device.get_stream_for_external_ready_events()
    try:
        buffer = xla.from_dlpack(x.__dlpack__(stream=stream), device, stream)
        row_by_row = xla.is_row_major(buffer)
    except XlaRuntimeError:                             # there are gaps between the elements
        row_by_row = False
    if not row_by_row:
        raise bad(caller, "the array is not contiguous",
                  given={"type": type(x).__name__, "shape": tuple(x.shape)},
                  fix="make it contiguous first: tensor.contiguous().", exc=BufferError)
    aval = ShapedArray(tuple(x.shape), np.dtype(buffer.aval.dtype))
    shared = Array(buffer, aval, on(device))
    kept = dtypes.canonicalize_dtype(aval.dtype)
    if kept == aval.dtype:
        return shared
    if not may_convert:
        raise bad(caller, "copy=False, but its dtype must be converted to one that xjax keeps",
                  given={"dtype": aval.dtype}, fix="pass copy=None, or enable jax_enable_x64.", exc=ValueError)
    with enable_x64(True):
        return convert_element_type(shared, kept)


def _on_host(x: ArrayLike) -> np.ndarray:
    """The memory of `x` as a NumPy array."""
    if isinstance(x, np.ndarray):                   # NumPy exports no read-only arrays
        return x
    if isinstance(x, Array):
        return x.numpy()
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError):             # a dtype that NumPy does not have: bfloat16, the 8-bit floats
        return xla.to_numpy(xla.from_dlpack(x.__dlpack__(), backend.local_devices(backend="cpu")[0]))
