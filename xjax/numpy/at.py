"""`x.at[index].set(value)` and its family: functional updates, which return a new array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad, did_you_mean, warn
from xjax.core.promotion import lattice_join
from xjax.core.types import ShapedArray, typeof
from xjax.numpy.index_parts import check_index, parse
from xjax.numpy.indexing import make_plan, read, with_mask_axes
from xjax.ops.arrange import rev
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import div
from xjax.ops.index_numbers import GatherScatterMode
from xjax.ops.scatter import scatter, scatter_add, scatter_apply, scatter_max, scatter_min, scatter_mul, scatter_sub
from xjax.ops.shape import broadcast_in_dim, reshape, squeeze
from xjax.ops.transcendental import pow
from xjax.ops.zeros import full_of
from xjax.runtime.array import to_array


class IndexHelper:
    """`x.at`: index it to choose where, then call a method to say what."""

    __slots__ = ("array",)

    def __init__(self, array: Any):
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdate:
        return IndexUpdate(self.array, index)

    def __getattr__(self, name: str) -> Any:
        hint = "" if name not in METHODS else f" Write x.at[...].{name}(...)."
        raise AttributeError(f"x.at has no attribute {name!r}: index it first.{hint}")

    def __repr__(self) -> str:
        return f"x.at (x: {typeof(self.array).str_short()})"


class IndexUpdate:
    """`x.at[index]`: its methods return a new array; `x` stays as it is.

    Every method takes `mode` ("drop", the default of updates: positions out of range are skipped; "clip";
    "promise_in_bounds"; "fill" for get), `indices_are_sorted`, `unique_indices` (promises that make it faster) and
    `wrap_negative_indices` (True: negative positions count from the end).

    >>> xjax.numpy.zeros(3).at[1].set(5.0)
    Array([0., 5., 0.], dtype=float32)
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Any, index: Any):
        self.array, self.index = array, index

    def __repr__(self) -> str:
        return f"x.at[{index_text(self.index)}] (x: {typeof(self.array).str_short()})"

    def __getattr__(self, name: str) -> Any:
        hint = did_you_mean(name, METHODS)
        raise AttributeError(f"x.at[...] has no method {name!r}{': ' + hint if hint else ''}")

    def get(self, *, mode: Any = None, fill_value: Any = None, indices_are_sorted: bool = False,
            unique_indices: bool = False, wrap_negative_indices: bool = True) -> Any:
        """`x[index]`; with mode="fill" what is out of range reads `fill_value` (default NaN, or the smallest int)."""
        return read(self.array, self.index, mode=mode, fill_value=fill_value, indices_are_sorted=indices_are_sorted,
                    unique_indices=unique_indices, wrap_negative_indices=wrap_negative_indices)

    def set(self, values: Any, **options: Any) -> Any:
        """`x` with `values` (broadcast to the shape of x[index]) at the index."""
        return update(self.array, self.index, values, scatter, "set", **options)

    def add(self, values: Any, **options: Any) -> Any:
        """`x` with `values` added at the index; repeated positions add up."""
        return update(self.array, self.index, values, scatter_add, "add", **options)

    def subtract(self, values: Any, **options: Any) -> Any:
        """`x` with `values` subtracted at the index."""
        return update(self.array, self.index, values, scatter_sub, "subtract", **options)

    def multiply(self, values: Any, **options: Any) -> Any:
        """`x` multiplied by `values` at the index."""
        return update(self.array, self.index, values, scatter_mul, "multiply", **options)

    mul = multiply

    def divide(self, values: Any, **options: Any) -> Any:
        """`x` divided by `values` at the index (true division: integers become floats)."""
        x, factor = self._factors(values, options)
        return div(*_inexact(x, factor))

    def power(self, values: Any, **options: Any) -> Any:
        """`x` raised to the power `values` at the index."""
        return pow(*self._factors(values, options))

    def min(self, values: Any, **options: Any) -> Any:
        """`x` with the minimum of itself and `values` at the index."""
        return update(self.array, self.index, values, scatter_min, "min", **options)

    def max(self, values: Any, **options: Any) -> Any:
        """`x` with the maximum of itself and `values` at the index."""
        return update(self.array, self.index, values, scatter_max, "max", **options)

    def apply(self, func: Callable[[Any], Any], **options: Any) -> Any:
        """`x` with `func` (element-wise) applied at the index, once for each time that a position is named."""
        def applied(x: Any, indices: Any, updates: Any, numbers: Any, **flags: Any) -> Any:
            return scatter_apply(x, indices, func, numbers, update_shape=typeof(updates).shape, **flags)

        return update(self.array, self.index, typeof(self.array).dtype.type(0), applied, "apply", **options)

    def _factors(self, values: Any, options: dict) -> tuple[Any, Any]:
        """`x`, and an array of ones with `values` multiplied in at the index."""
        ones = full_of(typeof(self.array).strong(), 1)
        return self.array, update(ones, self.index, values, scatter_mul, "multiply", **options)


METHODS = ("get", "set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max", "apply")


def update(x: Any, index: Any, values: Any, scatter_function: Callable, name: str, *,
           indices_are_sorted: bool = False, unique_indices: bool = False, mode: Any = None,
           wrap_negative_indices: bool = True) -> Any:
    """`x` with `values` combined into `x[index]` by a scatter.

    Raises: IndexError for a Python integer out of range (unless a mode is given); ValueError if `values` do not
    broadcast to the shape of x[index].
    """
    check_index(index)
    before = typeof(x)
    x, index, mask_axes = with_mask_axes(x, index)
    aval = typeof(x)
    parts = parse(aval.shape, index, strict=mode is None, wrap_negative=wrap_negative_indices)
    plan = make_plan(aval.shape, parts)
    x, values, common = _common_dtype(x, values, name)
    indices = plan.indices()
    values = _as_updates(values, plan.final_shape, plan.new, name, index)
    if plan.backwards:
        values = rev(values, plan.backwards)
    out = scatter_function(x, indices, values, plan.scatter_numbers(),
                           indices_are_sorted=indices_are_sorted or plan.is_sorted,
                           unique_indices=unique_indices or plan.is_unique,
                           mode=GatherScatterMode.FILL_OR_DROP if mode is None else mode)
    out = squeeze(out, mask_axes)
    return out if common is None else convert_element_type(out, before.dtype, before.weak_type)


def _common_dtype(x: Any, values: Any, name: str) -> tuple[Any, Any, np.dtype | None]:
    """`x` and `values` in one dtype; the third is that dtype if it is not that of `x`, with a warning as in JAX."""
    if isinstance(values, (list, tuple)):
        values = np.asarray(values)
        if values.dtype == object:
            raise bad(f"x.at[...].{name}", "the values are no array", given={"values": repr(values)[:80]},
                      fix="build them with numpy.array or numpy.stack.")
        values = values.astype(dtypes.canonicalize_dtype(values.dtype))
    aval, given = typeof(x), typeof(values)
    dtype, weak = lattice_join((aval.dtype, aval.weak_type), (given.dtype, given.weak_type))
    if dtype == aval.dtype:
        return x, convert_element_type(values, dtype), None
    warn(f"x.at[...].{name}: values of dtype {given.dtype.name} are converted to {aval.dtype.name}, the dtype of x, "
         "which may lose information; convert them with values.astype(x.dtype).", FutureWarning)
    return convert_element_type(x, dtype, weak), convert_element_type(values, dtype), dtype


def _inexact(x: Any, y: Any) -> tuple[Any, Any]:
    dtype = typeof(x).dtype
    if not dtypes.is_inexact(dtype):
        dtype = dtypes.canonicalize_dtype(float)
        x, y = convert_element_type(x, dtype), convert_element_type(y, dtype)
    return x, y


def _as_updates(values: Any, shape: tuple[int, ...], new: tuple[int, ...], name: str, index: Any) -> Any:
    """Values broadcast to the shape of x[index], without its new axes."""
    aval = typeof(values)
    extra = aval.ndim - len(shape)
    given = aval.shape[max(extra, 0):]
    lined = (1,) * (len(shape) - len(given)) + given
    if any(n != 1 for n in aval.shape[:max(extra, 0)]) or any(
            n not in (1, m) for n, m in zip(lined, shape, strict=True)):
        raise bad(f"x.at[{index_text(index)}].{name}", "the values do not broadcast to the shape of the indexed part",
                  given={"values": aval.str_short(), "x[index]": str(shape)},
                  fix="give the values this shape, or sizes of 1.", exc=ValueError)
    if extra > 0:
        values = reshape(values, given)
    bare = tuple(n for d, n in enumerate(shape) if d not in new)
    if new and any(lined[d] == 1 for d in new) and len(given) > 0:
        first = len(shape) - len(given)
        gone = [d - first for d in new if d >= first]
        values = squeeze(values, gone)
        dims = [d - sum(k < d for k in new) for d in range(first, len(shape)) if d not in new]
    else:
        dims = range(len(bare) - len(given), len(bare))
    return broadcast_in_dim(values, bare, dims)


def index_text(index: Any) -> str:
    """An index as the user wrote it, for messages: arrays by their type."""
    if isinstance(index, tuple) and index:
        return ", ".join(_item_text(item) for item in index)
    return _item_text(index)


def _item_text(item: Any) -> str:
    if isinstance(item, slice):
        low, high = ("" if n is None else _item_text(n) for n in (item.start, item.stop))
        return f"{low}:{high}" + ("" if item.step is None else f":{_item_text(item.step)}")
    if item is Ellipsis:
        return "..."
    aval = getattr(item, "aval", None)
    return repr(item) if not isinstance(aval, ShapedArray) else f"<{aval.str_short()}>"


def immutable(x: Any, index: Any, value: Any = None, deletes: bool = False) -> Exception:
    """The error for `x[index] = value` and `del x[index]`."""
    where = index_text(index)
    if deletes:
        return bad("xjax arrays", "are immutable: `del x[index]` cannot change one", given={"x": typeof(x).str_short()},
                   fix=f"y = xjax.numpy.delete(x, {where}, axis=0).")
    text = repr(value) if isinstance(value, (bool, int, float, complex)) else "value"
    return bad("xjax arrays", "are immutable: `x[index] = value` cannot change one", given={"x": typeof(x).str_short()},
               fix=f"y = x.at[{where}].set({text}).")


def at(x: Any) -> IndexHelper:
    """`x.at`: see `IndexUpdate`."""
    return IndexHelper(x if hasattr(x, "aval") else to_array(x))
