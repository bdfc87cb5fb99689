"""`x.at[index].set(value)` and its family: functional updates, which return a new array."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from xjax.core import dtypes
from xjax.core.array_type import converted
from xjax.core.config import DEFAULT_MODE, config, marked
from xjax.core.context import at_root, context
from xjax.core.errors import bad, did_you_mean, warn
from xjax.core.promotion import join_kept
from xjax.core.types import ADVICE, ShapedArray, number_of, typeof
from xjax.numpy.index_parts import Part, attached, check_index, detached, parse, resolved
from xjax.numpy.indexing import make_plan, operands_beside, read, result_shape, with_mask_axes
from xjax.ops.arrange import rev
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import div
from xjax.ops.index_numbers import GatherScatterMode
from xjax.ops.scatter import scatter, scatter_add, scatter_apply, scatter_max, scatter_min, scatter_sub
from xjax.ops.scatter_product import scatter_mul
from xjax.ops.shape import broadcast_in_dim, reshape, squeeze
from xjax.ops.transcendental import pow
from xjax.ops.zeros import full_of
from xjax.runtime.arrays.moves import to_array
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike


class IndexHelper:
    """`x.at`: an index selects elements, then a method updates them."""

    __slots__ = ("array",)

    def __init__(self, array: ArrayLike):
        self.array = array

    def __getitem__(self, index: object) -> IndexUpdate:
        return IndexUpdate(self.array, index)

    def __setitem__(self, index: object, value: ArrayLike) -> None:
        raise bad("x.at", "`x.at[index] = value` cannot change an array", given={"x": typeof(self.array).str_short()},
                  fix=f"y = x.at[{index_text(index)}].set({_value_text(value)}).")

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise bad("x.at", "is indexed, not called", fix="write x.at[index].set(values).")

    def __getattr__(self, name: str) -> NoReturn:
        hint = f"write x.at[index].{name}(...)." if name in METHODS else "index it first: x.at[index]."
        raise bad("x.at", f"has no attribute {name!r}", fix=hint, exc=AttributeError)

    def __repr__(self) -> str:
        return f"x.at (x: {typeof(self.array).str_short()})"


class IndexUpdate:
    """`x.at[index]`: its methods return a new array; `x` does not change.

    Every method takes `mode` ("drop", the default of updates: positions out of range are skipped; "clip";
    "promise_in_bounds"; "fill" for get), `indices_are_sorted` and `unique_indices` (promises of the caller, which make
    the update faster) and `wrap_negative_indices` (True: negative positions count from the end).

    >>> xjax.numpy.zeros(3).at[1].set(5.0)
    Array([0., 5., 0.], dtype=float32)
    """

    __slots__ = ("array", "index")

    def __init__(self, array: ArrayLike, index: Any):
        self.array, self.index = array, index

    def __repr__(self) -> str:
        return f"x.at[{index_text(self.index)}] (x: {typeof(self.array).str_short()})"

    def __getattr__(self, name: str) -> NoReturn:
        hint = did_you_mean(name, METHODS) or "use one of these."
        raise bad("x.at[...]", f"has no method {name!r}", given={"methods": ", ".join(METHODS)}, fix=hint,
                  exc=AttributeError)

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise bad("x.at[...]", "is not a function", given={"methods": ", ".join(METHODS)},
                  fix=f"write x.at[{index_text(self.index)}].set(values).")

    def _no_array(self, other: object) -> NoReturn:
        raise bad("x.at[...]", "is not an array: call one of its methods",
                  given={"x": typeof(self.array).str_short()},
                  fix=f"read with x[{index_text(self.index)}], add with x.at[{index_text(self.index)}].add(values).")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = _no_array

    def get(self, *, mode: str | None = None, fill_value: ArrayLike | None = None, indices_are_sorted: bool = False,
            unique_indices: bool = False, wrap_negative_indices: bool = True) -> Array:
        """`x[index]`; with mode="fill", positions out of range give `fill_value`.

        None is NaN, the smallest signed or the largest unsigned integer, or True.
        """
        return read(self.array, self.index, mode=mode, fill_value=fill_value, indices_are_sorted=indices_are_sorted,
                    unique_indices=unique_indices, wrap_negative_indices=wrap_negative_indices)

    def set(self, values: ArrayLike | Sequence[Any], **options: Any) -> Array:
        """`x` with `values` (broadcast to the shape of x[index]) at the index."""
        return update(self.array, self.index, values, "set", **options)

    def add(self, values: ArrayLike | Sequence[Any], **options: Any) -> Array:
        """`x` with `values` added at the index; repeated positions add up."""
        return update(self.array, self.index, values, "add", **options)

    def subtract(self, values: ArrayLike | Sequence[Any], **options: Any) -> Array:
        """`x` with `values` subtracted at the index."""
        return update(self.array, self.index, values, "subtract", **options)

    def multiply(self, values: ArrayLike | Sequence[Any], **options: Any) -> Array:
        """`x` multiplied by `values` at the index."""
        return update(self.array, self.index, values, "multiply", **options)

    mul = multiply

    def divide(self, values: ArrayLike | Sequence[Any], **options: Any) -> Array:
        """`x` divided by `values` at the index (true division: integers become floats)."""
        return update(self.array, self.index, values, "divide", **options)

    def power(self, values: ArrayLike | Sequence[Any], **options: Any) -> Array:
        """`x` raised to the power `values` at the index."""
        return update(self.array, self.index, values, "power", **options)

    def min(self, values: ArrayLike | Sequence[Any], **options: Any) -> Array:
        """`x` with the minimum of itself and `values` at the index."""
        return update(self.array, self.index, values, "min", **options)

    def max(self, values: ArrayLike | Sequence[Any], **options: Any) -> Array:
        """`x` with the maximum of itself and `values` at the index."""
        return update(self.array, self.index, values, "max", **options)

    def apply(self, func: Callable[[Array], ArrayLike], **options: Any) -> Array:
        """`x` with `func` (element-wise) applied at the index, once for each occurrence of a position."""
        return update(self.array, self.index, number_of(typeof(self.array).dtype, 0), "apply", func, **options)


ADVICE[IndexUpdate] = "read with x[index], or call a method: x.at[index].set(values)."
ADVICE[IndexHelper] = "index it and call a method: x.at[index].set(values)."

METHODS = ("get", "set", "add", "subtract", "multiply", "mul", "divide", "power", "min", "max", "apply")


_SCATTERS = {"set": scatter, "add": scatter_add, "subtract": scatter_sub, "multiply": scatter_mul, "min": scatter_min,
             "max": scatter_max}


class WriteOptions(NamedTuple):
    """The keywords of the update methods, except `wrap_negative_indices`."""

    mode: GatherScatterMode
    indices_are_sorted: bool
    unique_indices: bool


def update(x: ArrayLike, index: object, values: ArrayLike | Sequence[Any], name: str, func: Callable | None = None, /,
           *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: str | None = None,
           wrap_negative_indices: bool = True) -> Array:
    """`x` with `values` combined into `x[index]` by the method `name`; `func` is the function of "apply".

    Raises: IndexError for a Python integer out of range, unless a mode or `wrap_negative_indices=False` defines its
    meaning; ValueError if `values` do not broadcast to the shape of x[index].
    """
    if mode is None and config.check and DEFAULT_MODE not in context.scope:
        with marked(DEFAULT_MODE):
            return update(x, index, values, name, func, indices_are_sorted=indices_are_sorted,
                          unique_indices=unique_indices, wrap_negative_indices=wrap_negative_indices)
    check_index(index)
    options = WriteOptions(GatherScatterMode.from_any(mode), bool(indices_are_sorted), bool(unique_indices))
    x, index, mask_axes = with_mask_axes(x, index)
    shape = typeof(x).shape
    parts = parse(shape, index, strict=mode is None and wrap_negative_indices, wrap_negative=wrap_negative_indices)
    values = _known_values(x, values, name)
    if typeof(values).ndim:
        _check_shape(typeof(values), result_shape(parts), name, index)
    if at_root() and func is None:
        fixed, moving = detached(parts, shape)
        values, *moving = operands_beside(x, values, *moving)
        out = _write_detached(x, values, *moving, parts=fixed, name=name, options=options)
    else:
        out = _write(x, values, parts, name, options, func)
    return squeeze(out, mask_axes)


@one_launch
def _write_detached(x: Array, values: Array, *moving: Array, parts: tuple[Part, ...], name: str,
                    options: WriteOptions) -> Array:
    return _write(x, values, attached(parts, moving), name, options)


def _write(x: Array, values: ArrayLike, parts: Sequence[Part], name: str, options: WriteOptions,
           func: Callable | None = None) -> Array:
    if name in ("divide", "power"):
        factor = _write(full_of(typeof(x).strong(), 1), values, parts, "multiply", options)
        return pow(x, factor) if name == "power" else div(*_inexact(x, factor))
    before = typeof(x)
    parts = resolved(parts, before.shape)
    plan = make_plan(before.shape, parts)
    if not math.prod(plan.shape):
        return x
    x, values = _same_dtype(x, values)
    indices = plan.indices()
    values = _as_updates(values, plan.final_shape, plan.new)
    if plan.backwards:
        values = rev(values, plan.backwards)
    flags = {"indices_are_sorted": options.indices_are_sorted or plan.is_sorted,
             "unique_indices": options.unique_indices or plan.is_unique, "mode": options.mode}
    if func is not None:
        return scatter_apply(x, indices, func, plan.scatter_numbers(), update_shape=typeof(values).shape, **flags)
    out = _SCATTERS[name](x, indices, values, plan.scatter_numbers(), **flags)
    return out if out.aval.dtype == before.dtype else convert_element_type(out, before.dtype, before.weak_type)


def _known_values(x: Array, values: ArrayLike | Sequence[Any], name: str) -> ArrayLike:
    """The values, a list as an array. Warns, as JAX does, if the dtype of `x` cannot hold theirs."""
    if isinstance(values, (list, tuple)):
        values = np.asarray(values)
        if values.dtype == object:
            raise bad(f"x.at[...].{name}", "the values are not an array", given={"values": repr(values)[:80]},
                      fix="build them with numpy.array or numpy.stack.")
        values = values.astype(dtypes.canonicalize_dtype(values.dtype))
    values = _unsigned(converted(values), typeof(x).dtype)
    aval, source = typeof(x), typeof(values)
    if join_kept((aval.dtype, aval.weak_type), (source.dtype, source.weak_type))[0] != aval.dtype:
        warn(f"x.at[...].{name}: values of dtype {source.dtype.name} are converted to {aval.dtype.name}, the dtype of "
             "x, which may lose information; convert them with values.astype(x.dtype).", FutureWarning)
    return values


def _unsigned(values: ArrayLike, dtype: np.dtype) -> ArrayLike:
    """Host integers beyond the default int dtype as the unsigned dtype of `x`, if it holds them; else unchanged."""
    if not dtypes.is_unsigned(dtype) or not isinstance(values, (int, np.integer, np.ndarray)) or not np.size(values):
        return values
    default = dtypes.iinfo(dtypes.canonicalize_dtype(int))
    low, high = int(np.min(values)), int(np.max(values))
    return np.asarray(values, dtype) if low >= 0 and int(default.max) < high <= int(dtypes.iinfo(dtype).max) else values


def _same_dtype(x: Array, values: ArrayLike) -> tuple[Array, Array]:
    """`x` and `values`, converted to the dtype to which both promote."""
    aval, source = typeof(x), typeof(values)
    dtype, weak = join_kept((aval.dtype, aval.weak_type), (source.dtype, source.weak_type))
    if dtype != aval.dtype:
        x = convert_element_type(x, dtype, weak)
    return x, convert_element_type(values, dtype)


def _inexact(x: Array, y: Array) -> tuple[Array, Array]:
    dtype = typeof(x).dtype
    if not dtypes.is_inexact(dtype):
        dtype = dtypes.canonicalize_dtype(float)
        x, y = convert_element_type(x, dtype), convert_element_type(y, dtype)
    return x, y


def _check_shape(aval: ShapedArray, shape: tuple[int, ...], name: str, index: object) -> None:
    """Raise unless values of this type broadcast to the shape of x[index]."""
    extra = max(aval.ndim - len(shape), 0)
    lined = (1,) * (len(shape) - aval.ndim) + aval.shape[extra:]
    if any(n != 1 for n in aval.shape[:extra]) or any(n not in (1, m) for n, m in zip(lined, shape, strict=True)):
        raise bad(f"x.at[{index_text(index)}].{name}", "the values do not broadcast to the shape of the indexed part",
                  given={"values": aval.str_short(), "x[index]": str(shape)},
                  fix="give the values this shape, or sizes of 1.", exc=ValueError)


def _as_updates(values: Array, shape: tuple[int, ...], new: tuple[int, ...]) -> Array:
    """Values broadcast to the shape of x[index], without its new axes."""
    sizes = typeof(values).shape
    sizes = sizes[max(len(sizes) - len(shape), 0):]
    values = reshape(values, sizes)
    first = len(shape) - len(sizes)
    values = squeeze(values, [d - first for d in new if d >= first])
    bare = tuple(n for d, n in enumerate(shape) if d not in new)
    return broadcast_in_dim(values, bare, range(len(bare) - typeof(values).ndim, len(bare)))


def index_text(index: object) -> str:
    """The text of an index for messages; arrays are shown by their type."""
    if isinstance(index, tuple) and index:
        return ", ".join(_item_text(item) for item in index)
    return _item_text(index)


def _item_text(item: object) -> str:
    if isinstance(item, slice):
        low, high = ("" if n is None else _item_text(n) for n in (item.start, item.stop))
        return f"{low}:{high}" + ("" if item.step is None else f":{_item_text(item.step)}")
    if item is Ellipsis:
        return "..."
    aval = getattr(item, "aval", None)
    return repr(item) if not isinstance(aval, ShapedArray) else f"<{aval.str_short()}>"


def immutable(x: ArrayLike, index: object, value: ArrayLike | None = None, deletes: bool = False) -> Exception:
    """The error for `x[index] = value` and `del x[index]`."""
    place, given = index_text(index), {"x": typeof(x).str_short()}
    if deletes:
        return bad(f"del x[{place}]", "arrays are immutable", given, f"y = xjax.numpy.delete(x, {place}, axis=0).")
    text = _value_text(value)
    return bad(f"x[{place}] = {text}", "arrays are immutable: assignment cannot change one", given,
               f"y = x.at[{place}].set({text}){', or .add(number) in place of +=' * (text == 'value')}.")


def _value_text(value: ArrayLike) -> str:
    return repr(value) if isinstance(value, (bool, int, float, complex)) else "value"


def at(x: ArrayLike) -> IndexHelper:
    """`x.at`: see `IndexUpdate`."""
    return IndexHelper(x if isinstance(x, Array) else to_array(x))
