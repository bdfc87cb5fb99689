"""`Array`: a value on a device, with transfers from the host (`from_numpy`, `put`) and to it (`numpy`).

An `Array` holds jaxlib's buffer, its aval and its placement (`runtime.placement`), and nothing else. Methods and
operators are attached by `xjax.numpy.methods`. The raw buffer never leaves the runtime.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NoReturn, TypeVar

import numpy as np

from xjax.core import array_type, dtypes
from xjax.core.errors import DeletedArrayError, bad, no_attribute
from xjax.core.key_types import is_key, physical
from xjax.core.other_names import attribute_elsewhere
from xjax.core.trace import refuse_real_jax
from xjax.core.types import ShapedArray
from xjax.runtime import xla
from xjax.runtime.arrays import donation, hooks
from xjax.runtime.devices import host_errors
from xjax.runtime.placement.layout import Format, Layout
from xjax.runtime.placement.places import Place, Uncommitted, default_place, sharding_of
from xjax.runtime.placement.sharding import (
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    device_put_sharded,
    same_placement,
)
from xjax.runtime.xla import Device
from xjax.typing import DTypeLike

Number = TypeVar("Number", int, float, complex)
WITH_BUFFERS = frozenset(d for d in dtypes.ALL if d.isbuiltin == 1)


class Array(array_type.Array):
    """An immutable n-dimensional array on one device, or sharded over several.

    Made by `xjax.numpy.array`, `device_put` and every operation; it can be read like a NumPy array:

    >>> x = xjax.numpy.array([1., 2., 3.])
    >>> x.shape, x.dtype, float(x.sum())
    ((3,), dtype('float32'), 6.0)
    """

    __slots__ = ("_buf", "aval", "_place", "__weakref__")
    __array_priority__ = 100

    def __init__(self, buf: xla.Buffer, aval: ShapedArray, place: Place):
        self._buf, self.aval, self._place = buf, aval, place

    # -- reading values -------------------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray:
        """The value as a read-only NumPy array; shares memory with the array where it can (CPU)."""
        if hooks.guard is not None:
            hooks.guard.check(hooks.TO_HOST, self)
        return self._read()

    def _read(self) -> np.ndarray:
        buf = self._live_buffer()
        if self.aval.dtype == dtypes.float0:
            return np.zeros(self.aval.shape, dtypes.float0)
        if is_key(self.aval):
            raise bad("random keys", "keys are not numbers, and cannot become a NumPy array or a Python number",
                      given={"keys": self.aval.str_short()}, fix="read their bits with random.key_data(keys).")
        try:
            return xla.to_numpy(buf)
        except xla.XlaRuntimeError as error:
            host_errors.raise_original(error)

    def _live_buffer(self) -> xla.Buffer:
        """The buffer.  Raises: RuntimeError if the array was deleted; some jaxlib methods crash on deleted buffers."""
        buf = self._buf
        if buf.is_deleted() or (xla.with_shared_parts and xla.is_deleted(buf)):
            raise deleted(self)
        return buf

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        value = self.numpy()
        if dtype is not None and value.dtype != dtype:
            return value.astype(dtype)
        return value.copy() if copy else value

    def __buffer__(self, flags: int, /) -> memoryview:
        """The value for `memoryview(x)`, read-only; Python 3.12 and later call this."""
        if is_key(self.aval):
            raise bad("memoryview()", "random keys are not numbers", {"keys": self.aval.str_short()},
                      "read their bits with random.key_data(keys).")
        if self.aval.dtype not in WITH_BUFFERS:
            raise BufferError(f"the buffer protocol has no format for {self.aval.str_short()}")
        if self.is_deleted():
            raise BufferError(str(deleted(self)))
        # NumPy ignores an error here and calls `__array__`, which then raises a failed function's exception.
        xla.wait_for(self._live_buffer())
        return memoryview(self.numpy())

    @property
    def __jax_array__(self) -> NoReturn:
        """Raises an error for the real JAX, which must not use the value silently: the result would leave xjax.

        A property, since JAX refuses an object that has the method with its own message. The error is not a TypeError,
        which JAX would replace.
        """
        raise refuse_real_jax("an xjax array was passed", self.aval.str_short(),
                              "bridge the function with xjax.interop.from_jax(f), or with xnn.optim for optax; for the "
                              "value alone use xjax.interop.to_jax_array(x).")

    def _scalar(self, kind: type[Number]) -> Number:
        if self.aval.size != 1:
            raise bad(f"{kind.__name__}()", "only an array of one element can become a Python number",
                      given={"array": self.aval.str_short()}, fix="index one element, or use x.tolist().")
        return kind(self.numpy().reshape(())[()])

    def __bool__(self) -> bool:
        if not self.aval.size:
            raise bad("bool()", "an empty array is neither true nor false", given={"array": self.aval.str_short()},
                      fix="use x.size > 0 to check whether it has elements.", exc=ValueError)
        if self.aval.size != 1:
            raise bad("bool()", "the truth value of an array with more than one element is ambiguous",
                      given={"array": self.aval.str_short()}, exc=ValueError,
                      fix="use x.any() or x.all(); join conditions with & and | instead of `and` and `or`.")
        return bool(self.numpy().reshape(())[()])

    def __int__(self) -> int:
        return self._scalar(int)

    def __float__(self) -> float:
        return self._scalar(float)

    def __complex__(self) -> complex:
        return self._scalar(complex)

    def __index__(self) -> int:
        if self.aval.shape or not dtypes.is_int(self.aval.dtype):
            raise bad("index", "only a 0-d integer array can be an index", given={"array": self.aval.str_short()},
                      fix="convert with int(x).")
        return int(self.numpy()[()])

    def item(self, *args: int) -> bool | int | float | complex:
        """One element as a Python number."""
        return self.numpy().item(*args)

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self.numpy().tolist()

    def __len__(self) -> int:
        return len(self.aval)

    def __format__(self, spec: str) -> str:
        if self.aval.shape and spec:
            raise bad("format()", f"{spec!r} formats one number, not an array", given={"array": self.aval.str_short()},
                      fix="index one element, or drop the format and use numpy.set_printoptions(precision=...).")
        scalar = not self.aval.shape and not is_key(self.aval) and self._is_readable
        return format(self.numpy()[()], spec) if scalar else format(str(self), spec)

    def __getattr__(self, name: str) -> Any:
        raise no_attribute("'Array' object", self, name, attribute_elsewhere(name))

    __hash__ = None         # as in lists; `collections.abc.Hashable` and dataclasses check for None

    def tobytes(self, order: str = "C") -> bytes:
        return self.numpy().tobytes(order)

    def __repr__(self) -> str:
        if self.is_deleted():
            return f"Array({self.aval.str_short()}, deleted)"
        if not self._is_readable:
            return (f"Array({self.aval.str_short()}, partly on devices of other processes; "
                    f"x.addressable_shards are the parts of this process)")
        if is_key(self.aval):
            return f"Array({self.shape}, dtype={self.dtype}) overlaying:\n{words_of(self)}"
        weak = ", weak_type=True" if self.aval.weak_type else ""
        shape = "" if self.size else f", shape={self.shape}"
        end = f"{shape}, dtype={self.dtype.name}{weak})"
        body = np.array2string(self.numpy(), prefix="Array(", suffix=end, separator=", ")
        return f"Array({body}{end}"

    def __str__(self) -> str:
        return repr(self) if is_key(self.aval) or not self._is_readable else str(self.numpy())

    @property
    def _is_readable(self) -> bool:
        """Whether this process can read the whole value."""
        return self.sharding.is_fully_addressable or self.sharding.is_fully_replicated

    def __reduce__(self):
        if is_key(self.aval):
            return _rebuild_keys, (np.array(words_of(self).numpy()), self.aval)
        return _rebuild, (np.array(self.numpy()), self.aval.weak_type)

    def __copy__(self) -> array_type.Array:
        return self.copy()                              # another buffer: either may be donated

    def __deepcopy__(self, memo: dict) -> Array:
        value = np.array(words_of(self).numpy()) if is_key(self.aval) else np.array(self.numpy())
        return retyped(from_numpy(value, self._place, keep_dtype=True), self.aval)

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> object:
        self._device_for_dlpack()
        return xla.to_dlpack(self._live_buffer(), stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return xla.dlpack_device(self._device_for_dlpack())

    def _device_for_dlpack(self) -> xla.Device:
        devices = self.sharding.devices
        if len(devices) == 1:
            return devices[0]
        raise bad("DLPack", "an array on several devices cannot be passed to another library without a copy",
                  given={"array": self.aval.str_short(), "sharding": repr(self.sharding)},
                  fix="pass numpy.asarray(x), or one part: x.addressable_data(0).", exc=BufferError)

    # -- state ----------------------------------------------------------------------------------------------------

    def block_until_ready(self) -> Array:
        """Wait until the value is computed; raises the error of the computation, if any."""
        host_errors.wait_for(self._live_buffer())
        return self

    def is_ready(self) -> bool:
        """Whether the value is computed."""
        return self._live_buffer().is_ready()

    def on_device_size_in_bytes(self) -> int:
        """The memory of the array on all its devices, including padding."""
        return self._live_buffer().on_device_size_in_bytes()

    def unsafe_buffer_pointer(self) -> int:
        """The address of the array's memory on its device, valid until the array is deleted or freed."""
        buf = self._live_buffer()
        if len(self.sharding.devices) > 1:
            raise bad("Array.unsafe_buffer_pointer", "an array on several devices has several addresses",
                      given={"array": self.aval.str_short(), "sharding": repr(self.sharding)},
                      fix="take a part: x.addressable_data(0).unsafe_buffer_pointer().", exc=ValueError)
        return buf.unsafe_buffer_pointer()

    def copy_to_host_async(self) -> None:
        """Start the copy to the host; on a CPU it does nothing."""
        xla.copy_to_host_async(self._live_buffer())

    def delete(self) -> None:
        """Free the memory now; later uses raise an error."""
        if len(self.sharding.devices) > 1:
            donation.delete(self._buf)
        else:
            self._buf.delete()

    def is_deleted(self) -> bool:
        """Whether the memory of the array, or of a part of it, was freed or reused for a result."""
        return xla.is_deleted(self._buf)

    def devices(self) -> set:
        """The devices that hold a part."""
        return set(self.sharding.devices)

    @property
    def device(self) -> Device | Sharding:
        """The device; the sharding if there are several."""
        devices = self.sharding.devices
        return devices[0] if len(devices) == 1 else self.sharding

    @property
    def sharding(self) -> Sharding:
        """How the array is split over devices: which device holds which part."""
        return sharding_of(self._place)

    @property
    def format(self) -> Format:
        """The layout, which is row-major, and the sharding."""
        return Format(Layout.row_major(self.ndim), self.sharding)

    @property
    def committed(self) -> bool:
        """Whether the array is committed: placed explicitly, or computed from committed arrays."""
        return type(self._place) is not Uncommitted

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can read every part."""
        return self.sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return self.sharding.is_fully_replicated

    @property
    def global_shards(self) -> list[Shard]:
        """The parts, one for each device, in the order of the sharding's devices; `data` is None in other processes."""
        pieces = dict(zip(self.sharding.addressable_list, self._pieces(), strict=True))
        aval = self._part_type()
        copies: Counter = Counter()
        out = []
        for device, index in self.sharding.devices_indices_map(self.shape).items():
            span = tuple((part.start, part.stop) for part in index)
            place = self._place_of_part(device)
            data = Array(pieces[device], aval, place) if device in pieces else None
            out.append(Shard(device, index, copies[span], data))
            copies[span] += 1
        return out

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts on devices of this process, in the order of the sharding's devices."""
        return [shard for shard in self.global_shards if shard.data is not None]

    def addressable_data(self, index: int) -> Array:
        """The part on one device of this process, by its index in `addressable_shards`."""
        pieces, devices = self._pieces(), self.sharding.addressable_list
        if not -len(pieces) <= index < len(pieces):
            raise bad("Array.addressable_data", f"part {index} does not exist", {"parts": len(pieces)},
                      f"use an index from 0 to {len(pieces) - 1}.", exc=IndexError)
        return Array(pieces[index], self._part_type(), self._place_of_part(devices[index]))

    def _place_of_part(self, device: xla.Device) -> Place:
        if len(self.sharding.devices) == 1:
            return self._place
        return SingleDeviceSharding(device, memory_kind=self.sharding.other_memory)

    def _part_type(self) -> ShapedArray:
        return ShapedArray(tuple(self.sharding.shard_shape(self.shape)), self.dtype)

    def _pieces(self) -> list[xla.Buffer]:
        buf = self._live_buffer()
        return xla.shards(xla.note_shared_parts(buf)) if len(self.sharding.devices) > 1 else [buf]


class Shard:
    """One device's part of an array.

    Attributes:
      device: the device of the part.
      index: its slices of the whole array.
      replica_id: number of this copy among the copies of the same part.
      data: the part as an `Array`; None on a device of another process.
    """

    __slots__ = ("device", "index", "replica_id", "data")

    def __init__(self, device: Device, index: tuple[slice, ...], replica_id: int, data: Array | None):
        self.device, self.index, self.replica_id, self.data = device, index, replica_id, data

    def __repr__(self) -> str:
        return f"Shard(device={self.device}, index={self.index}, replica_id={self.replica_id}, data={self.data})"


def _rebuild(value: np.ndarray, weak_type: bool) -> Array:
    return from_numpy(value, weak_type=weak_type)


def _rebuild_keys(words: np.ndarray, aval: ShapedArray) -> Array:
    return retyped(from_numpy(words), aval)


def words_of(keys: Array) -> Array:
    """The words of random keys, in the same memory."""
    return retyped(keys, physical(keys.aval))


def retyped(x: Array, aval: ShapedArray) -> Array:
    """The same memory with another type of the same bits: keys as words, or words as keys."""
    place = x._place
    if type(place) is NamedSharding and len(place.spec) > aval.ndim:            # a key is never split over devices
        place = NamedSharding(place.mesh, PartitionSpec(*place.spec[:aval.ndim]))
        x = put(x, place)
    return Array(x._buf, aval, place)


def deleted(x: Array) -> Exception:
    return bad("Array", "the array has been deleted", given={"array": x.aval.str_short()},
               fix="do not use an array after it was donated (donate_argnums) or after x.delete(): keep the result, or "
                   "pass a copy.", exc=DeletedArrayError)


def from_numpy(value: np.ndarray, place: Place | None = None, weak_type: bool = False, *,
               keep_dtype: bool = False) -> Array:
    """Copy a NumPy array to a device; 64-bit values become 32-bit unless x64 is enabled or `keep_dtype` is set.

    Raises: OverflowError if an integer does not fit.
    """
    if hooks.guard is not None:
        hooks.guard.check(hooks.TO_DEVICE, value)
    return upload(value, place, weak_type, keep_dtype)


def upload(value: np.ndarray, place: Place | None, weak_type: bool = False, keep_dtype: bool = False) -> Array:
    dtype = value.dtype if keep_dtype else dtypes.canonicalize_dtype(value.dtype)
    if dtype != value.dtype:
        if dtypes.is_int(dtype):
            dtypes.check_int_range(value, dtype, "array")
        value = value.astype(dtype)
    if dtype == dtypes.float0:
        value = np.zeros(value.shape, np.bool_)
    place = default_place() if place is None else place
    sharding = sharding_of(place)
    aval = ShapedArray(value.shape, dtype, weak_type)
    stored = on_device_type(aval)
    try:
        if type(sharding) is SingleDeviceSharding:
            buf = xla.device_put(stored, sharding.xla(aval.ndim), [value], [sharding.devices[0]])
        else:
            buf = device_put_sharded(value, stored, sharding)
    except xla.XlaRuntimeError as error:
        host_errors.raise_original(error)
    return Array(buf, aval, place)


def on_device_type(aval: ShapedArray) -> ShapedArray:
    """Type of the buffer of an array: XLA has neither float0, stored as bools, nor keys, stored as words."""
    return ShapedArray(aval.shape, np.dtype(np.bool_)) if aval.dtype == dtypes.float0 else physical(aval)


def put(x: Array, place: Place) -> Array:
    """The same value with another placement; if that is equivalent, the memory is shared."""
    if x._place is place or x._place == place:
        return x
    if same_placement(x.sharding, sharding_of(place), x.ndim):
        return Array(x._buf, x.aval, place)
    if hooks.guard is not None:
        hooks.guard.check(hooks.BETWEEN, x)
    return _move(x, place)


def _move(x: Array, place: Place) -> Array:
    buf = x._live_buffer()
    old, new = x.sharding, sharding_of(place)
    if len(old.devices) == 1 and len(new.devices) == 1:
        if old.devices != new.devices or old.other_memory != new.other_memory:
            try:
                buf = xla.copy_to_device(buf, new.devices[0], new.other_memory)
            except xla.XlaRuntimeError as error:
                host_errors.raise_original(error)
        return Array(buf, x.aval, place)
    if is_key(x.aval):
        return retyped(_move(words_of(x), place), x.aval)
    if not (old.is_fully_addressable or old.is_fully_replicated):
        return hooks.between_processes.reshard(x, new)
    return upload(x._read(), place, x.aval.weak_type, keep_dtype=True)
