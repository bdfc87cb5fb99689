"""Mutable arrays: the public namespace `xjax.ref`. docs/mutable_arrays.md shows their use.

    counts = xjax.new_ref(jnp.zeros(3))
    counts[0] += 1.0

How traces treat refs is described in `xjax.transforms.refs`; indexing is defined here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from xjax import numpy as jnp
from xjax.core import dtypes
from xjax.core.errors import NonConcreteBooleanIndexError, bad
from xjax.core.memory_kinds import Space
from xjax.core.public import attributes_of
from xjax.core.types import ShapedArray
from xjax.ops.convert import convert_element_type
from xjax.ops.identity import stage
from xjax.runtime.device_put import device_put
from xjax.runtime.stages import ShapeDtypeStruct, abstract
from xjax.transforms import refs
from xjax.transforms.refs import AbstractRef, Ref
from xjax.typing import Array, ArrayLike

__all__ = ["AbstractRef", "Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set", "swap"]


# -- creation and end ---------------------------------------------------------------------------------------------

def new_ref(init_val: ArrayLike, *, memory_space: Space | None = None, kind: str | None = None,
            pin: bool = False) -> Ref:
    """A mutable array with the value `init_val`.

    Args:
      memory_space: the memory of the value: `xjax.memory.Space.Device` or `Host`; None: that of `init_val`.
      kind, pin: only None and False: pinned buffers and kinds of refs do not exist here.

    Raises: TypeError if `init_val` is not an array or a number, NotImplementedError for another `kind` or `pin`.

    >>> ref = xjax.new_ref(jnp.arange(3))
    >>> ref[0] = 10
    >>> ref
    Ref([10,  1,  2], dtype=int32)
    """
    _check_options("new_ref", kind, pin)
    if type(init_val) is Ref:
        raise bad("new_ref", "the initial value is a ref", {"init_val": init_val.ref_type.str_short()},
                  "pass its value: new_ref(ref[...]).")
    aval = refs.type_of_array(init_val)
    value = convert_element_type(init_val, aval.dtype) if aval.weak_type else _as_array(init_val)
    if memory_space is not None:
        value = device_put(value, memory_space)
    return refs.create(value, AbstractRef(aval.update(weak_type=False, vma=frozenset()), memory_space))


def empty_ref(ty: ArrayLike | ShapeDtypeStruct | ShapedArray, memory_space: Space | None = None,
              pin: bool = False) -> Ref:
    """A mutable array of zeros with the shape and dtype of `ty`, an array or a type. (In JAX its values are undefined.)

    >>> empty_ref(xjax.ShapeDtypeStruct((2,), "float32"))
    Ref([0., 0.], dtype=float32)
    """
    aval = abstract(ty)
    return new_ref(jnp.zeros(aval.shape, aval.dtype), memory_space=memory_space, pin=pin)


def _check_options(caller: str, kind: str | None, pin: bool) -> None:
    if kind is not None or pin:
        raise bad(caller, "pinned buffers and kinds of refs are not supported", {"kind": repr(kind), "pin": repr(pin)},
                  "leave both out.", exc=NotImplementedError)


def freeze(ref: Ref) -> Array:
    """The last value of a ref, which must not be used afterwards.

    >>> freeze(xjax.new_ref(jnp.arange(3)))
    Array([0, 1, 2], dtype=int32)
    """
    return refs.read(_checked("freeze", ref))


def free_ref(ref: Ref) -> tuple[()]:
    """End the use of a ref, where it was created; a later use raises ValueError."""
    refs.free(_checked("free_ref", ref))
    return ()


def _checked(caller: str, ref: object) -> Ref:
    if type(ref) is not Ref:
        raise bad(f"ref.{caller}", "the argument is not a ref", {"given": type(ref).__name__},
                  "pass a ref made by xjax.new_ref.", exc=ValueError)
    return ref


# -- views --------------------------------------------------------------------------------------------------------

class Slice(NamedTuple):
    """An index of `size` positions from `start`, which may be a traced value; made by `ds`."""

    start: ArrayLike
    size: int
    stride: int = 1


# An index along one axis.
Entry: TypeAlias = Slice | slice | ArrayLike


def dslice(start: ArrayLike, size: int | None = None, stride: int | None = None) -> Slice:
    """The index ``start:start + size * stride:stride`` of a ref; `start` may be a traced value, and is clamped.

    >>> xjax.new_ref(jnp.arange(5))[xjax.ds(1, 2)]
    Array([1, 2], dtype=int32)
    """
    if size is None:
        start, size = 0, start                      # type: ignore[assignment]
    return Slice(start, size, 1 if stride is None else stride)      # type: ignore[arg-type]


ds = dslice


class TransformedRef:
    """A part of a ref, `ref.at[index]`; it is read and written like a ref."""

    __slots__ = ("ref", "transforms", "_type")

    def __init__(self, ref: Ref, transforms: Sequence[Any]):
        self.ref, self.transforms = ref, tuple(transforms)
        aval = ref.ref_type.inner_aval
        for index in self.transforms:
            aval = _type_of_part(aval, index)
        self._type = aval

    shape: Any = property(lambda self: self._type.shape)
    dtype: Any = property(lambda self: self._type.dtype)
    ndim: Any = property(lambda self: self._type.ndim)
    size: Any = property(lambda self: self._type.size)

    def __len__(self) -> int:
        return len(self._type)

    def __repr__(self) -> str:
        return f"TransformedRef({self.ref.ref_type.str_short()}, {list(self.transforms)})"


def _type_of_part(aval: ShapedArray, index: tuple) -> ShapedArray:
    from_zeros = abstract_part(aval, index)
    return ShapedArray(from_zeros.shape, aval.dtype)


def abstract_part(aval: ShapedArray, index: tuple) -> np.ndarray:
    """The type of ``x[index]`` for an array of type `aval`, without its value."""
    zeros = np.broadcast_to(np.zeros((), bool), aval.shape)
    fixed = [np.zeros(np.shape(i), int) if hasattr(i, "aval") else i for i in index]
    return zeros[tuple(fixed)]


class _At:
    __slots__ = ("_ref",)

    def __init__(self, ref: Ref | TransformedRef):
        self._ref = ref

    def __getitem__(self, index: object) -> TransformedRef:
        ref, path = _path("at", self._ref, index)
        return TransformedRef(ref, path)


# -- reading and writing ------------------------------------------------------------------------------------------

class RefIndexError(ValueError, IndexError):
    """An index of a ref is out of range: a ValueError in JAX; an IndexError ends iteration over a ref."""


def _path(caller: str, ref: Ref | TransformedRef, index: object) -> tuple[Ref, list[tuple]]:
    """The ref and the indices to apply one after the other."""
    path: list[tuple] = []
    if type(ref) is TransformedRef:
        path = list(ref.transforms)
    base = _checked(caller, ref.ref if type(ref) is TransformedRef else ref)
    if index is None or index is Ellipsis:
        return base, path
    shape = ref.shape
    index = index if isinstance(index, tuple) and type(index) is not Slice else (index,)
    return base, [*path, _normal(caller, index, shape)] if index else path


def _normal(caller: str, index: tuple, shape: tuple[int, ...]) -> tuple:
    """The index with one entry for each axis.  Raises: RefIndexError, TypeError, NonConcreteBooleanIndexError."""
    given = {"index": str(index)[:80], "shape": str(shape)}
    gaps = [k for k, i in enumerate(index) if i is Ellipsis]
    if len(index) - len(gaps) > len(shape) or len(gaps) > 1 or any(i is None for i in index):
        raise bad(f"ref.{caller}", "the index does not fit the shape of the ref", given,
                  "pass at most one index for each axis; None and more than one Ellipsis are not possible.",
                  exc=RefIndexError)
    at = gaps[0] if gaps else len(index)
    index = (*index[:at], *[slice(None)] * (len(shape) - len(index) + len(gaps)), *index[at + 1:])
    return tuple([_normal_entry(caller, i, n, given) for i, n in zip(index, shape, strict=True)])


def _normal_entry(caller: str, i: Entry, size: int, given: dict) -> Entry:
    if type(i) is Slice:
        return _block(i, size)
    if isinstance(i, slice):
        if i.step is not None and i.step < 1:
            raise bad(f"ref.{caller}", "the step of a slice must be at least 1", given,
                      "reverse the value with [::-1].", exc=ValueError)
        return i
    try:
        i = jnp.asarray(i) if isinstance(i, (list, np.ndarray)) else i
        aval = refs.type_of_array(i)
    except TypeError:
        aval = None
    if aval is not None and dtypes.is_bool(aval.dtype):
        raise bad(f"ref.{caller}", "a boolean mask is not an index of a ref", given,
                  "pass positions; or write ref[...] = jnp.where(mask, value, ref[...]).",
                  exc=NonConcreteBooleanIndexError)
    if aval is None or not dtypes.is_int(aval.dtype):
        raise bad(f"ref.{caller}", "an index must be an integer, a slice or an array of integers", given,
                  "convert it, for example with int(i).")
    if isinstance(i, (int, np.integer)) and not -size <= i < size:
        raise bad(f"ref.{caller}", "the index is out of range", given, f"pass an index from {-size} to {size - 1}.",
                  exc=RefIndexError)
    return i


def _block(block: Slice, size: int) -> slice | Array:
    start, count, stride = block
    if isinstance(start, (int, np.integer)):
        return slice(int(start), int(start) + count * stride, stride)
    start = jnp.clip(start, 0, size - (count - 1) * stride - 1)
    return start + stride * jnp.arange(count, dtype=start.dtype)


def _part(value: Array, index: tuple) -> Array:
    return value.at[index].get(mode="clip")


def _replaced(value: Array, path: Sequence[tuple], new: Array, how: str = "set") -> Array:
    """`value` with another part, at the indices `path`."""
    if not path:
        return new if how == "set" else value + new
    index, *rest = path
    if rest:
        new, how = _replaced(_part(value, index), rest, new, how), "set"
    scalar = all(isinstance(i, slice) or not np.ndim(i) for i in index)         # clamped in JAX, others are dropped
    return getattr(value.at[index], how)(new, mode="clip" if scalar else None)


def _fitted(caller: str, ref: Ref, part: Sequence[int], value: ArrayLike) -> Array:
    """The value with the dtype of the ref.  Raises: ValueError if its type does not fit the part to be written."""
    aval, dtype = refs.type_of_array(value), ref.dtype
    both_float = dtypes.is_float(dtype) and dtypes.is_float(aval.dtype) and aval.weak_type
    both_int = dtypes.is_int(dtype) and dtypes.is_int(aval.dtype)
    given = {"ref": ref.ref_type.str_short(), "value": aval.str_short(), "expected": f"{dtype.name}{list(part)}"}
    if aval.dtype != dtype and not both_float and not both_int:
        raise bad(f"ref.{caller}", "the value has another dtype than the ref", given,
                  f"convert it: value.astype({dtype.name!r}).", exc=ValueError)
    if aval.shape != tuple(part):
        raise bad(f"ref.{caller}", "the value has another shape than the part that it replaces", given,
                  "broadcast it: jnp.broadcast_to(value, shape).", exc=ValueError)
    return convert_element_type(value, dtype) if aval.weak_type or aval.dtype != dtype else _as_array(value)


def _as_array(x: ArrayLike) -> Array:
    return x if isinstance(x, Array) else stage(x)


def _shape_of(ref: Ref, path: Sequence[tuple]) -> tuple[int, ...]:
    return TransformedRef(ref, path).shape if path else ref.shape


def ref_get(ref: Ref | TransformedRef, idx: object = None) -> Array:
    """The value, or a part of it: ``ref[idx]``. Indices that are traced values are clamped to the valid range.

    Args: idx: integers, slices with positive steps, arrays of integers, `ds`, Ellipsis, or a tuple of these.
    Raises: ValueError for an index that does not fit the shape.

    >>> get(xjax.new_ref(jnp.arange(5)), slice(1, 3))
    Array([1, 2], dtype=int32)
    """
    base, path = _path("get", ref, idx)
    value = refs.read(base)
    for index in path:
        value = _part(value, index)
    return value


def ref_swap(ref: Ref | TransformedRef, idx: object, value: ArrayLike) -> Array:
    """Write a part, ``ref[idx] = value``, and return its former value.

    Raises: ValueError if `value` differs from the part in shape or dtype; Python numbers take the dtype.

    >>> ref = xjax.new_ref(jnp.arange(3))
    >>> swap(ref, 0, 10), ref
    (Array(0, dtype=int32), Ref([10,  1,  2], dtype=int32))
    """
    base, path = _path("swap", ref, idx)
    new = _fitted("swap", base, _shape_of(base, path), value)
    old = value = refs.read(base)
    for index in path:
        old = _part(old, index)
    refs.write(base, _replaced(value, path, new))
    return old


def ref_set(ref: Ref | TransformedRef, idx: object, value: ArrayLike) -> None:
    """Write a part: ``ref[idx] = value``. Arguments and errors as for `swap`."""
    base, path = _path("set", ref, idx)
    new = _fitted("set", base, _shape_of(base, path), value)
    refs.write(base, _replaced(refs.read(base), path, new) if path else new)


def ref_addupdate(ref: Ref | TransformedRef, idx: object, x: ArrayLike) -> None:
    """Add to a part: ``ref[idx] += x``; positions that occur several times in `idx` add up.

    >>> ref = xjax.new_ref(jnp.zeros(3))
    >>> addupdate(ref, jnp.array([1, 1]), jnp.ones(2))
    >>> ref
    Ref([0., 2., 0.], dtype=float32)
    """
    base, path = _path("addupdate", ref, idx)
    new = _fitted("addupdate", base, _shape_of(base, path), x)
    refs.write(base, _replaced(refs.read(base), path, new, "add"))


get, set, swap, addupdate = ref_get, ref_set, ref_swap, ref_addupdate


# -- methods ------------------------------------------------------------------------------------------------------

def _placed(ref: Ref, name: str) -> object:
    return getattr(refs.read(ref), name)


def _copy(ref: Ref, memo: object = None) -> Ref:
    return new_ref(refs.read(ref))


for kind in (Ref, TransformedRef):
    kind.__getitem__ = ref_get
    kind.__setitem__ = ref_set
    kind.at = property(_At)
    kind.get = lambda self, idx=(): ref_get(self, idx)
    kind.set = lambda self, value, idx=(): ref_set(self, idx, value)
    kind.swap = lambda self, value, idx=(): ref_swap(self, idx, value)
    kind.addupdate = lambda self, x, idx=(): ref_addupdate(self, idx, x)
Ref.sharding = property(lambda self: _placed(self, "sharding"))
Ref.committed = property(lambda self: _placed(self, "committed"))
Ref.unsafe_buffer_pointer = lambda self: _placed(self, "unsafe_buffer_pointer")()
Ref.__copy__ = lambda self: self
Ref.__deepcopy__ = _copy
Ref.__reduce__ = lambda self: (new_ref, (refs.read(self),))

__getattr__ = attributes_of(__name__)
