"""`pad`: adds elements around an array, in NumPy's modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.errors import bad, check_choice
from xjax.numpy.creation import asarray
from xjax.numpy.promote import array_like, cast
from xjax.numpy.reductions import max as amax
from xjax.numpy.reductions import mean
from xjax.numpy.reductions import min as amin
from xjax.numpy.stats.quantiles import median
from xjax.numpy.ufuncs import to_array_like
from xjax.numpy.vectorize import apply_along_axis
from xjax.ops.arrange import concatenate, iota, rev
from xjax.ops.checks import static_int
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, div, floor, mul, sub
from xjax.ops.elementwise import round as lax_round
from xjax.ops.shape import broadcast_in_dim, reshape
from xjax.ops.slice import pad as lax_pad
from xjax.ops.slice import slice_in_dim
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, DTypeLike


@one_launch
def pad(array: ArrayLike, pad_width: Any, mode: str | Callable = "constant", **kwargs: Any) -> Array:
    """`array` with elements added before and after along each axis.

    Args:
      pad_width: n, (before, after) for all axes, or ((before, after), ...) for each.
      mode: "constant" (constant_values), "edge", "linear_ramp" (end_values), "reflect", "symmetric" (reflect_type
        "even" or "odd"), "wrap", "empty", or "maximum", "minimum", "mean", "median" (stat_length); or a function
        `(row, (before, after), axis, kwargs) -> row`, which gets each padded row, axis after axis, and returns the row
        that replaces it (as in JAX; in NumPy, the function writes into the row).
    Raises: ValueError for negative widths and for keywords that a mode does not take, NotImplementedError for unknown
      modes.

    >>> pad(np.array([1, 2]), 1)
    Array([0, 1, 2, 0], dtype=int32)
    """
    caller = "numpy.pad"
    array = to_array_like(caller, array)
    widths = _pairs(caller, pad_width, array.ndim, "pad_width")
    widths = [(static_int(a, "pad_width", caller), static_int(b, "pad_width", caller)) for a, b in widths]
    if any(n < 0 for pair in widths for n in pair):
        raise bad(caller, "widths must not be negative", given={"pad_width": str(widths)},
                  fix="remove elements by slicing.", exc=ValueError)
    if callable(mode):
        return _by_function(array, widths, mode, kwargs)
    check_choice(caller, "mode", mode, _KEYWORDS, exc=NotImplementedError)
    unknown = set(kwargs) - set(_KEYWORDS[mode])
    if unknown:
        raise bad(caller, f"mode {mode!r} does not take {', '.join(sorted(unknown))}",
                  fix=f"it takes {', '.join(_KEYWORDS[mode]) or 'no keywords'}.", exc=ValueError)
    return _MODES[mode](array, widths, **kwargs)


_KEYWORDS = {"constant": ("constant_values",), "edge": (), "linear_ramp": ("end_values",), "empty": (), "wrap": (),
             "reflect": ("reflect_type",), "symmetric": ("reflect_type",), "maximum": ("stat_length",),
             "minimum": ("stat_length",), "mean": ("stat_length",), "median": ("stat_length",)}


def _pairs(caller: str, value: Any, ndim: int, name: str) -> list[tuple[Any, Any]]:
    """(before, after) for each axis from any of the short forms."""
    if isinstance(value, dict):
        pairs = {axis % ndim: pair if np.ndim(pair) else (pair, pair) for axis, pair in value.items()}
        return [tuple(pairs.get(d, (0, 0))) for d in range(ndim)]
    if hasattr(value, "aval") and not value.ndim:
        return [(value, value)] * ndim
    try:
        table = np.empty((ndim, 2), object)
        table[...] = np.array(value, object) if not hasattr(value, "aval") else np.asarray(value).astype(object)
    except (ValueError, TypeError) as error:
        raise bad(caller, f"`{name}` does not fit an array with {ndim} axes", given={name: str(value)},
                  fix="pass n, (before, after), or one pair for each axis.", exc=ValueError) from error
    return [(a, b) for a, b in table]


def _by_function(x: Array, widths: list, function: Callable, kwargs: dict[str, Any]) -> Array:
    x = _constant(x, widths)
    for axis, width in enumerate(widths):
        def of_row(row: Array, axis: int = axis, width: tuple[int, int] = width) -> Array:
            result = function(row, width, axis, kwargs)
            if np.shape(result) != row.shape:
                given = {"row": row.aval,
                         "result": "None" if result is None else f"an array of shape {np.shape(result)}"}
                raise bad("numpy.pad", "the function given as `mode` must return the row that it pads", given=given,
                          fix="return for example row.at[:width[0]].set(...): arrays cannot be changed in place.",
                          exc=ValueError)
            return result
        x = apply_along_axis(of_row, axis, x)
    return x


def _constant(x: Array, widths: list, constant_values: Any = 0) -> Array:
    caller = "numpy.pad"
    values = _pairs(caller, constant_values, x.ndim, "constant_values")
    for d, ((before, after), (low, high)) in enumerate(zip(widths, values, strict=True)):
        same = low is high or (not hasattr(low, "aval") and not hasattr(high, "aval") and low == high)
        sides = [(before, after, low)] if same else [(before, 0, low), (0, after, high)]
        for a, b, value in sides:
            config = [(0, 0, 0)] * x.ndim
            config[d] = (a, b, 0)
            value = cast(caller, array_like(caller, value), x.dtype)
            if a or b:
                x = lax_pad(x, value, config)
    return x


def _by_sides(make: Callable) -> Callable:
    """A mode from `make(x, axis, n, at_end, **kwargs)`, which returns the n slices to add at one side of an axis."""
    def mode(x: Array, widths: list, **kwargs: Any) -> Array:
        for d, (before, after) in enumerate(widths):
            if (before or after) and not x.shape[d]:
                raise bad("numpy.pad", f"axis {d} is empty: it has no elements to repeat", given={"array": x.aval},
                          fix="use mode='constant'.", exc=ValueError)
            parts = [make(x, d, before, False, **kwargs)] if before else []
            parts += [x] + ([make(x, d, after, True, **kwargs)] if after else [])
            x = concatenate(parts, d)
        return x

    return mode


def _edge_slice(x: Array, axis: int, at_end: bool) -> Array:
    n = x.shape[axis]
    return slice_in_dim(x, n - 1, n, axis=axis) if at_end else slice_in_dim(x, 0, 1, axis=axis)


def _repeated(edge: Array, axis: int, n: int) -> Array:
    shape = list(edge.shape)
    shape[axis] = n
    return broadcast_in_dim(edge, shape, range(edge.ndim))


def _edge(x: Array, axis: int, n: int, at_end: bool) -> Array:
    return _repeated(_edge_slice(x, axis, at_end), axis, n)


def _wrap(x: Array, axis: int, n: int, at_end: bool) -> Array:
    size = x.shape[axis]
    whole = concatenate([x] * (-(-n // size)), axis)
    total = whole.shape[axis]
    return slice_in_dim(whole, 0, n, axis=axis) if at_end else slice_in_dim(whole, total - n, total, axis=axis)


def _mirror(skip_edge: int) -> Callable:
    def make(x: Array, axis: int, n: int, at_end: bool, reflect_type: str = "even") -> Array:
        parts, done = [], 0
        while done < n:                     # a mirror image is at most as long as the array; repeat from the new edge
            step = min(n - done, x.shape[axis] - skip_edge)
            if step <= 0:
                image, step = _edge(x, axis, n - done, at_end), n - done
            else:
                image = _image(x, axis, step, at_end, skip_edge, reflect_type)
            parts.append(image)
            x = concatenate([x, image] if at_end else [image, x], axis)
            done += step
        return concatenate(parts if at_end else parts[::-1], axis)

    return make


def _image(x: Array, axis: int, n: int, at_end: bool, skip: int, reflect_type: str) -> Array:
    size = x.shape[axis]
    start = size - skip - n if at_end else skip
    near = slice_in_dim(x, start, start + n, axis=axis)
    image = rev(near, (axis,))
    if reflect_type == "even":
        return image
    edge = _edge_slice(x, axis, at_end)
    return sub(add(edge, edge), image)


def _ramp(x: Array, widths: list, end_values: Any = 0) -> Array:
    ends = _pairs("numpy.pad", end_values, x.ndim, "end_values")
    for d, ((before, after), (low, high)) in enumerate(zip(widths, ends, strict=True)):
        parts = [_ramp_side(x, d, before, low, False)] if before else []
        parts += [x] + ([_ramp_side(x, d, after, high, True)] if after else [])
        x = concatenate(parts, d)
    return x


def _ramp_side(x: Array, axis: int, n: int, end: Any, at_end: bool) -> Array:
    edge = _edge_slice(x, axis, at_end)
    wide = convert_element_type(edge, dtypes.to_inexact_dtype(x.dtype))
    part = wide.dtype
    steps = iota(part, n)                    # 0 at the outer end
    steps = reshape(div(rev(steps, (0,)) if at_end else steps, part.type(n)),
                    [n if d == axis else 1 for d in range(x.ndim)])
    end = asarray(end, dtype=part)
    values = add(end, mul(sub(wide, end), steps))
    values = floor(values) if dtypes.is_int(x.dtype) else values
    return convert_element_type(values, x.dtype)


def _statistic(f: Callable) -> Callable:
    def make(x: Array, widths: list, stat_length: Any = None) -> Array:
        lengths = [(None, None)] * x.ndim if stat_length is None else \
            _pairs("numpy.pad", stat_length, x.ndim, "stat_length")
        for d, ((before, after), (head, tail)) in enumerate(zip(widths, lengths, strict=True)):
            size = x.shape[d]
            first = slice_in_dim(x, 0, size if head is None else min(int(head), size), axis=d)
            last = slice_in_dim(x, 0 if tail is None else size - min(int(tail), size), size, axis=d)
            parts = [_repeated(_in_dtype(f(first, d, keepdims=True), x.dtype), d, before)] if before else []
            parts.append(x)
            parts += [_repeated(_in_dtype(f(last, d, keepdims=True), x.dtype), d, after)] if after else []
            x = concatenate(parts, d)
        return x

    return make


def _in_dtype(x: Array, dtype: DTypeLike) -> Array:
    if dtypes.is_int(dtype) and dtypes.is_float(x.dtype):
        x = lax_round(x, 1)
    return convert_element_type(x, dtype)


_MODES: dict[str, Callable] = {
    "constant": _constant, "empty": _constant, "edge": _by_sides(_edge), "wrap": _by_sides(_wrap),
    "reflect": _by_sides(_mirror(1)), "symmetric": _by_sides(_mirror(0)), "linear_ramp": _ramp,
    "maximum": _statistic(amax), "minimum": _statistic(amin), "mean": _statistic(mean), "median": _statistic(median)}
