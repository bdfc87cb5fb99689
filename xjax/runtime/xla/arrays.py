"""Buffers: made from host values, read, copied, waited for, and shared with other libraries."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxlib import _jax
from jaxlib import xla_client as xc

from xjax.core.errors import bad
from xjax.core.interrupts import note_interrupt
from xjax.runtime.process import fork
from xjax.runtime.process.jax_blocker import without_jax
from xjax.runtime.xla.names import ArrayCopySemantics, AvalLike, Buffer, Client, Device, DeviceList, Waitable
from xjax.runtime.xla.shardings import GSPMDSharding, SingleDeviceSharding, on_device, shard_indices

# Feature probe of the installed jaxlib.
_COPIES_TO_NUMPY_WITHOUT_JAX = hasattr(Buffer, "_to_np_array_did_copy")

_COPY = xc.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_ALIAS = xc.HostBufferSemantics.ZERO_COPY
_batched_device_put = xc.batched_device_put


def device_put(
    aval: AvalLike,
    sharding: SingleDeviceSharding | GSPMDSharding,
    pieces: Sequence[Any],
    devices: Sequence[Device],
    alias: bool = False,
    apart: bool = False,
) -> Buffer:
    """Put NumPy arrays (or buffers) on devices, one piece on each; 4 us for a small one.

    Args:
      aval: type of the whole array. It is not compared with the pieces; the caller must do that.
      pieces: the piece of each of `devices`, with the dtype of `aval`.
      alias: let the CPU use the NumPy memory itself if it is 64-byte aligned; programs then read
        later writes to it.
      apart: whether the pieces are NumPy arrays, each at another address.
    """
    if fork.in_child:
        raise fork.error()
    if len(pieces) > 1 and not (alias or apart or sharding.hlo.is_replicated()):
        pieces = _at_own_addresses(pieces)
    return _batched_device_put(
        aval,
        sharding,
        pieces,
        devices,
        True,
        enable_x64=True,
        host_buffer_semantics=_ALIAS if alias else _COPY,
    )


def _at_own_addresses(pieces: Sequence[Any]) -> list[Any]:
    """Copy pieces at a repeated address: jaxlib merges such pieces and then fails to copy them."""
    seen: set[int] = set()
    out = []
    for piece in pieces:
        if isinstance(piece, np.ndarray):
            if piece.ctypes.data in seen:
                piece = piece.copy()
            seen.add(piece.ctypes.data)
        out.append(piece)
    return out


def to_numpy(buf: Buffer) -> np.ndarray:
    """Host value of a buffer, read-only; no copy if the memory can be shared (CPU).

    Raises: the error of the program that makes the buffer; RuntimeError if it was deleted.
    """
    wait_for(buf)  # NumPy's conversion would hide the error of a failed program
    try:
        return np.asarray(memoryview(buf))
    except BufferError:  # bfloat16 and other small types, memory of a device, several pieces
        return _copy_to_numpy(buf)


def _copy_to_numpy(buf: Buffer) -> np.ndarray:
    sharding = buf._sharding
    if isinstance(sharding, GSPMDSharding) and len(sharding.devices) > 1:
        return _assemble(buf, sharding)
    if _COPIES_TO_NUMPY_WITHOUT_JAX:
        value = buf._to_np_array_did_copy()[0]
    else:
        with without_jax:
            value = np.asarray(buf._single_device_array_to_np_array_did_copy()[0])
    value.flags.writeable = False
    return value


def _assemble(buf: Buffer, sharding: GSPMDSharding) -> np.ndarray:
    pieces = shards(buf)
    if sharding.hlo.is_replicated():
        note_shared_parts(buf)  # the value uses this part's memory, so XLA must not reuse it
        return to_numpy(pieces[0])
    devices, aval = sharding.devices, buf.aval
    if len(pieces) != len(devices):
        raise bad(
            "to_numpy",
            "the array is partly on devices of other processes.",
            {"devices": len(devices), "of this process": len(pieces)},
            "gather it first, or read its addressable shards.",
            exc=RuntimeError,
        )
    out = np.empty(aval.shape, aval.dtype)
    indices = shard_indices(sharding.hlo, len(devices), aval.shape)
    for piece, index in zip(pieces, indices, strict=True):
        if out.size:  # XLA does not split an array without elements
            out[index] = to_numpy(piece)
    out.flags.writeable = False
    return out


def shards(buf: Buffer) -> list[Buffer]:
    """The single-device buffers of an array, in the order of its sharding's devices."""
    with without_jax:
        return list(buf._arrays)


# Buffers over several devices whose parts are also used separately, by id; see `is_deleted`.
with_shared_parts: dict[int, weakref.ref[Buffer]] = {}


def note_shared_parts(buf: Buffer) -> Buffer:
    """Must be called when a part of a buffer is returned, as a buffer or as memory; returns `buf`."""
    key = id(buf)
    if key not in with_shared_parts:
        with_shared_parts[key] = weakref.ref(buf, lambda _: with_shared_parts.pop(key, None))
    return buf


def is_deleted(buf: Buffer) -> bool:
    """Whether a buffer, or a part of it, was deleted or donated; jaxlib checks only the first part."""
    if buf.is_deleted():
        return True
    return id(buf) in with_shared_parts and any([piece.is_deleted() for piece in shards(buf)])


def join(aval: AvalLike, sharding: GSPMDSharding, pieces: Sequence[Buffer]) -> Buffer:
    """One array made of existing buffers on its devices, in the order of the sharding; nothing is copied."""
    return note_shared_parts(Buffer(aval, sharding, list(pieces), True, True))


def copy_to_device(
    buf: Buffer, device: Device, memory_kind: str | None = None, always_copy: bool = False
) -> Buffer:
    """Copy a single-device buffer; on the same device the memory is shared unless `always_copy`."""
    if fork.in_child:
        raise fork.error()
    semantics = ArrayCopySemantics.ALWAYS_COPY if always_copy else ArrayCopySemantics.REUSE_INPUT
    return xc.batched_copy_array_to_devices_with_sharding(
        [buf], [DeviceList((device,))], [on_device(device, memory_kind)], [semantics]
    )[0]


def wait_for(buf: Waitable) -> None:
    """Wait for a buffer or a token; raises the error of the program that makes it."""
    if fork.in_child and not buf.is_ready():
        raise fork.error()
    try:
        buf.block_until_ready()
    except KeyboardInterrupt as error:
        note_interrupt(error, "the result of a program was awaited")
        raise


def block_until_ready(buffers: Iterable[Buffer]) -> None:
    """Wait for buffers; raises the first error of the programs that make them."""
    buffers = list(buffers)
    if fork.in_child and not all(buf.is_ready() for buf in buffers):
        raise fork.error()
    try:
        xc.batched_block_until_ready(buffers)
    except KeyboardInterrupt as error:
        note_interrupt(error, "the results of programs were awaited")
        raise


def copy_to_host_async(buf: Buffer) -> None:
    """Start the copy of an array to the host, so that `to_numpy` need not wait for it."""
    several = isinstance(buf._sharding, GSPMDSharding) and len(buf._sharding.devices) > 1
    for piece in shards(buf) if several else [buf]:
        piece._copy_single_device_array_to_host_async()


def to_dlpack(buf: Buffer, stream: int | None = None) -> object:
    """DLPack capsule that shares the memory of a single-device buffer and keeps it alive."""
    wait_for(buf)
    return _jax.buffer_to_dlpack_managed_tensor(buf, stream=stream)


def from_dlpack(capsule: object, device: Device, stream: int | None = None) -> Buffer:
    """Buffer on `device` from a DLPack capsule; memory is shared if it is 64-byte aligned."""
    if fork.in_child:
        raise fork.error()
    with without_jax:
        return _jax.dlpack_managed_tensor_to_buffer(capsule, device, stream)


def from_cuda_interface(interface: dict, client: Client, ordinal: int) -> Buffer:
    """Buffer over the GPU memory that a ``__cuda_array_interface__`` describes; the buffer does not keep it alive."""
    if fork.in_child:
        raise fork.error()
    with without_jax:
        return _jax.cuda_array_interface_to_buffer(cai=interface, gpu_backend=client, device_id=ordinal)


def is_row_major(buf: Buffer) -> bool:
    """Whether a buffer on one device is row-major, as programs expect."""
    # "{0,1}" are the axes from the fastest to the slowest; a suffix may describe tiles.
    axes = [int(k) for k in re.findall(r"\d+", re.split("[:}]", str(buf._pjrt_layout))[0])]
    moving = [k for k in axes if buf.aval.shape[k] > 1]
    return moving == sorted(moving, reverse=True)


def dlpack_device(device: Device) -> tuple[int, int]:
    """``(type, index)`` as `__dlpack_device__` returns it: type 1 is host memory, 2 is CUDA."""
    return (1, 0) if device.platform == "cpu" else (2, device.local_hardware_id)
