"""Table of the operations that move, reduce, multiply, index and sort: many checks per row (see test_structural).

A row's function has the namespace, ours or JAX's, as its first argument, so that both run the same program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.row import OpRow

_rng = np.random.default_rng(0)


def f(*shape: int) -> np.ndarray:
    """Normal random numbers, without ties."""
    return _rng.standard_normal(shape).astype(np.float32)


def i(*values: Any, dtype: Any = np.int32) -> np.ndarray:
    return np.array(values, dtype)


def c(*shape: int) -> np.ndarray:
    return (f(*shape) + 1j * f(*shape)).astype(np.complex64)


TIES = np.array([[1, 3, 3, 2, 3], [0, -1, 0, 0, -1]], np.float32)
NANS = np.array([0, 1, np.nan, -np.inf, -0.0, 5, np.inf, -np.nan, 0], np.float32)
BOOLS = np.array([[True, False, True], [True, True, True]])


def _gather(numbers: Any, sizes: tuple[int, ...], **flags: Any) -> Callable:
    return lambda lax, x, idx: lax.gather(x, idx, lax.GatherDimensionNumbers(*numbers), sizes, **flags)


def _scatter(name: str, numbers: Any, **flags: Any) -> Callable:
    return lambda lax, x, idx, u: getattr(lax, name)(x, idx, u, lax.ScatterDimensionNumbers(*numbers), **flags)


ARRANGE = [
    OpRow("concatenate", lambda lax, x, y: lax.concatenate([x, y, x], 1), (f(2, 3), f(2, 1))),
    OpRow("concatenate empty", lambda lax, x, y: lax.concatenate([x, y], 0), (f(0, 3), f(2, 3))),
    OpRow("concatenate ints", lambda lax, x: lax.concatenate([x, x], 0), (i(1, 2),)),
    OpRow("split", lambda lax, x: lax.split(x, (1, 0, 2), 1), (f(2, 3),)),
    OpRow("stack", lambda lax, x, y: lax.stack([x, y], 1), (f(2, 3), f(2, 3))),
    OpRow("stack scalars", lambda lax, x, y: lax.stack([x, y]), (f(), f())),
    OpRow("rev", lambda lax, x: lax.rev(x, (0, 2)), (f(2, 3, 4),)),
    OpRow("rev nothing", lambda lax, x: lax.rev(x, ()), (f(3),)),
    OpRow("tile", lambda lax, x: lax.tile(x, (2, 1, 3)), (f(2, 1, 2),)),
    OpRow("tile zero", lambda lax, x: lax.tile(x, (0, 2)), (f(2, 3),)),
    OpRow("iota", lambda lax, x: (x, lax.iota(np.float32, 3), lax.broadcasted_iota(np.int8, (2, 3), 1)), (f(3),),
          order=0),
]

SLICES = [
    OpRow("slice", lambda lax, x: lax.slice(x, (0, 1), (3, 4), (2, 1)), (f(3, 5),)),
    OpRow("slice steps", lambda lax, x: lax.slice(x, (1,), (9,), (3,)), (f(10),)),
    OpRow("slice empty", lambda lax, x: lax.slice(x, (2,), (2,), (3,)), (f(4),)),
    OpRow("slice scalar", lambda lax, x: lax.slice(x, (), ()), (f(),)),
    OpRow("slice_in_dim", lambda lax, x: lax.slice_in_dim(x, -3, -1, axis=-1), (f(2, 5),)),
    OpRow("index_in_dim", lambda lax, x: lax.index_in_dim(x, -1, 1, keepdims=False), (f(2, 5),)),
    OpRow("pad", lambda lax, x, v: lax.pad(x, v, ((1, 2, 1), (-1, 0, 2))), (f(3, 3), f())),
    OpRow("pad crop", lambda lax, x, v: lax.pad(x, v, ((-1, -2, 1),)), (f(4), f())),
    OpRow("pad empty", lambda lax, x, v: lax.pad(x, v, ((1, 1, 0), (0, 0, 3))), (f(0, 2), f())),
    OpRow("pad bool", lambda lax, x: lax.pad(x, np.bool_(True), ((1, 0, 0), (0, 1, 0))), (BOOLS,)),
    OpRow("dynamic_slice", lambda lax, x, a, b: lax.dynamic_slice(x, (a, b), (2, 3)),
          (f(4, 5), i(-1)[0], i(1)[0])),
    OpRow("dynamic_slice fixed axis", lambda lax, x, a: lax.dynamic_slice(x, (a, np.int32(0)), (2, 5)),
          (f(4, 5), i(3)[0])),
    OpRow("dynamic_slice unsigned", lambda lax, x, a: lax.dynamic_slice(x, (a,), (2,)),
          (f(100), i(90, dtype=np.uint8)[0])),
    OpRow("dynamic_slice array of starts", lambda lax, x, a: lax.dynamic_slice(x, a, (2, 3)),
          (f(4, 5), i(-3, 7))),
    OpRow("dynamic_slice clamped", lambda lax, x, a: lax.dynamic_slice(x, (a, a), (2, 3), allow_negative_indices=False),
          (f(4, 5), i(3)[0])),
    OpRow("index_take", lambda lax, x, a: lax.index_take(x, (a, a), (0, 2)), (f(3, 2, 4), i(-1, 6, 1))),
    OpRow("dynamic_index_in_dim", lambda lax, x, a: lax.dynamic_index_in_dim(x, a, 1, keepdims=False),
          (f(2, 3), i(-1)[0])),
    OpRow("dynamic_update_slice", lambda lax, x, u, a, b: lax.dynamic_update_slice(x, u, (a, b)),
          (f(4, 5), f(2, 3), i(3)[0], i(-4)[0])),
    OpRow("dynamic_update_slice_in_dim", lambda lax, x, u, a: lax.dynamic_update_slice_in_dim(x, u, a, 1),
          (f(2, 5), f(2, 2), i(1)[0])),
    OpRow("dynamic_update_index_in_dim", lambda lax, x, u, a: lax.dynamic_update_index_in_dim(x, u, a, 1),
          (f(2, 5), f(2), i(1)[0])),
    OpRow("dynamic_update_slice whole", lambda lax, x, u, a: lax.dynamic_update_slice(x, u, (a,)),
          (f(3), f(3), i(2)[0])),
]


def _dot(contract: Any, batch: Any = ((), ()), **more: Any) -> Callable:
    return lambda lax, x, y: lax.dot_general(x, y, (contract, batch), **more)


DOTS = [
    OpRow("dot matrix", _dot(((1,), (0,))), (f(3, 4), f(4, 2))),
    OpRow("dot vectors", _dot(((0,), (0,))), (f(4), f(4))),
    OpRow("dot outer", _dot(((), ())), (f(2), f(3))),
    OpRow("dot scalars", _dot(((), ())), (f(), f())),
    OpRow("dot batch", _dot(((2,), (1,)), ((0,), (0,))), (f(2, 3, 4), f(2, 4, 5))),
    OpRow("dot batch inside", _dot(((0,), (2,)), ((2,), (1,))), (f(4, 3, 2), f(5, 2, 4))),
    OpRow("dot two contracted", _dot(((1, 3), (2, 0))), (f(2, 3, 2, 4), f(4, 2, 3))),
    OpRow("dot many free", _dot(((2,), (0,))), (f(2, 3, 4), f(4, 2, 2))),
    OpRow("dot free apart", _dot(((1,), (1,))), (f(2, 4, 3), f(3, 4, 2))),
    OpRow("dot free apart and batch", _dot(((2,), (1,)), ((1,), (3,))), (f(2, 3, 4, 2), f(2, 4, 2, 3))),
    OpRow("dot empty sum", _dot(((1,), (0,))), (f(2, 0), f(0, 3))),
    OpRow("dot bool", _dot(((1,), (1,))), (BOOLS, BOOLS)),
    OpRow("dot bool as int", _dot(((1,), (1,)), preferred_element_type=np.int32), (BOOLS, BOOLS)),
    OpRow("dot int8", _dot(((0,), (0,))), (i(100, 100, dtype=np.int8), i(100, 1, dtype=np.int8))),
    OpRow("dot int8 as int32", _dot(((0,), (0,)), preferred_element_type=np.int32),
          (i(100, 100, dtype=np.int8), i(100, 1, dtype=np.int8))),
    OpRow("dot mixed", _dot(((1,), (0,))), (f(2, 3), i(1, 2, 3, dtype=np.int8))),
    OpRow("dot float as int", _dot(((1,), (0,)), preferred_element_type=np.int32), (f(2, 3), f(3)), order=0),
    OpRow("dot complex", _dot(((1,), (0,))), (c(2, 3), c(3, 2))),
    OpRow("dot highest", _dot(((1,), (0,)), precision="highest"), (f(2, 3), f(3, 2))),
    OpRow("lax.dot", lambda lax, x, y: lax.dot(x, y), (f(2, 3), f(3))),
    OpRow("batch_matmul", lambda lax, x, y: lax.batch_matmul(x, y), (f(2, 3, 4), f(2, 4, 1))),
]


def _reduce(name: str, *axes: int) -> Callable:
    return lambda lax, x: getattr(lax, name)(x, axes)


def _arg(name: str) -> Callable:
    return lambda lax, x: getattr(lax, name)(x, x.ndim - 1, np.int32)


REDUCTIONS = [
    *[OpRow(f"{name} {axes}", _reduce(name, *axes), (f(2, 3, 4),))
      for name in ("reduce_max", "reduce_min", "reduce_prod") for axes in ((1,), (0, 2), (0, 1, 2))],
    *[OpRow(f"{name} ties", _reduce(name, 1), (TIES,)) for name in ("reduce_max", "reduce_min", "reduce_prod")],
    *[OpRow(f"{name} nan", _reduce(name, 0), (NANS,), order=0) for name in ("reduce_max", "reduce_min")],
    *[OpRow(f"{name} nothing", _reduce(name, 0), (f(0, 2),), order=0)
      for name in ("reduce_max", "reduce_min", "reduce_prod")],
    *[OpRow(f"{name} ints", _reduce(name, 0), (i([3, -5], [7, 7]),))
      for name in ("reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or", "reduce_xor")],
    *[OpRow(f"{name} no ints", _reduce(name, 0), (np.zeros((0, 2), np.uint8),))
      for name in ("reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_xor")],
    *[OpRow(f"{name} bools", _reduce(name, 0), (BOOLS,))
      for name in ("reduce_max", "reduce_min", "reduce_and", "reduce_or", "reduce_xor")],
    *[OpRow(f"{name} complex", _reduce(name, 0), (c(4, 2),), order=0)
      for name in ("reduce_max", "reduce_min", "reduce_prod")],
    *[OpRow(f"{name} half", _reduce(name, 0), (f(9).astype(np.float16),), order=0)
      for name in ("reduce_max", "reduce_min")],
    *[OpRow(f"{name} {k}", _arg(name), (x,), order=0) for name in ("argmax", "argmin")
      for k, x in (("floats", f(3, 7)), ("ties", TIES), ("nan", NANS), ("bools", BOOLS),
                   ("ints", i([2, 9, 9], [5, 5, 1])),
                   ("infinite", np.full((2, 3), -np.inf, np.float32)), ("no rows", f(0, 3)))],
]

_ROWS = ((1,), (0,), (0,))          # x[i] of a matrix
_POINTS = ((), (0, 1), (0, 1))      # x[i, j]
_COLUMNS = ((0,), (1,), (1,))       # x[:, i]
_WINDOW = ((1, 2), (), (0, 1))      # x[i:i+2, j:j+3]
_ALONG = ((), (1,), (1,), (0,), (0,))   # take_along_axis

INDICES = i([0], [2], [2], [-1], [3])
PAIRS = i([0, 1], [3, 3], [2, 4], [-1, 0], [1, 2])
VALID = i([0], [2], [1])
ALONG = i([[0], [3]], [[1], [-1]], [[9], [2]])

GATHERS = [
    *[OpRow(f"gather {name} {mode}", _gather(numbers, sizes, mode=mode), (f(4, 5), idx))
      for mode in ("fill", "clip")
      for name, numbers, sizes, idx in (("rows", _ROWS, (1, 5), INDICES), ("points", _POINTS, (1, 1), PAIRS),
                                        ("columns", _COLUMNS, (4, 1), INDICES), ("window", _WINDOW, (2, 3), PAIRS))],
    OpRow("gather along", _gather(_ALONG, (1, 1), mode="fill"), (f(3, 4), ALONG)),
    OpRow("gather promised", _gather(_ROWS, (1, 5), mode="promise_in_bounds"), (f(4, 5), VALID)),
    OpRow("gather scalar index", _gather(((0,), (0,), (0,)), (1, 5)), (f(4, 5), i(2))),
    OpRow("gather no index", _gather(((0, 1), (), ()), (4, 5)), (f(4, 5), np.zeros((0,), np.int32))),
    OpRow("gather ints", _gather(_ROWS, (1, 2), mode="fill"), (i([1, 2], [3, 4]), INDICES)),
    OpRow("gather unsigned", _gather(_ROWS, (1, 2), mode="fill"), (i([1, 2], [3, 4], dtype=np.uint8), INDICES)),
    OpRow("gather bools", _gather(_ROWS, (1, 3), mode="fill"), (BOOLS, INDICES)),
    OpRow("gather fill value", _gather(_ROWS, (1, 5), mode="fill", fill_value=-1.0), (f(4, 5), INDICES)),
    *[OpRow(f"gather by {np.dtype(t).name}", _gather(((), (0,), (0,)), (1,), mode=mode),
            (f(300), i([7], [120], dtype=t)))
      for t in (np.int8, np.uint8, np.uint32) for mode in ("fill", "clip")],
]

_SETS = ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")
# In JAX the derivative of scatter_mul by updates requires unique indices; ours is tested in test_scatter_product.
_BOTH, _FIRST = (0, 2), (0,)

SCATTERS = [
    *[OpRow(f"{name} rows {mode}", _scatter(name, _ROWS, mode=mode), (f(4, 5), i([3], [0], [9], [-1]), f(4, 5)),
            grads=_FIRST if name == "scatter_mul" else _BOTH) for name in _SETS for mode in ("drop",)],
    # JAX's derivatives of scatter_min and scatter_max ignore the mode; ours are tested in test_structural.
    *[OpRow(f"{name} clip", _scatter(name, _ROWS, mode="clip"), (f(4, 5), i([2], [0], [9]), f(3, 5)),
            grads={"scatter_mul": _FIRST, "scatter_min": (), "scatter_max": ()}.get(name, _BOTH)) for name in _SETS],
    *[OpRow(f"{name} duplicates", _scatter(name, _POINTS), (f(4, 5), i([0, 1], [0, 1], [2, 2], [9, 0]), f(4)),
            grads=_FIRST if name == "scatter_mul" else _BOTH) for name in _SETS],
    *[OpRow(f"{name} unique", _scatter(name, _COLUMNS, unique_indices=True, indices_are_sorted=True),
            (f(4, 5), i([1], [3]), f(4, 2))) for name in _SETS],
    *[OpRow(f"{name} along", _scatter(name, _ALONG), (f(3, 4), ALONG, f(3, 2)))
      for name in ("scatter", "scatter_add", "scatter_max")],
    *[OpRow(f"{name} window", _scatter(name, _WINDOW), (f(4, 5), PAIRS[:2], f(2, 2, 3)))
      for name in ("scatter", "scatter_add", "scatter_min")],
    OpRow("scatter ties", _scatter("scatter_max", _POINTS),
          (np.ones((2, 2), np.float32), i([0, 0], [0, 0], [1, 1]), np.array([1, 1, 0], np.float32))),
    OpRow("scatter nothing", _scatter("scatter_add", _ROWS), (f(4, 5), np.zeros((0, 1), np.int32), f(0, 5))),
    OpRow("scatter into nothing", _scatter("scatter_add", _ROWS), (f(0, 5), i([0]), f(1, 5)), grads=_FIRST),
    OpRow("scatter_add ints", _scatter("scatter_add", _ROWS), (i([1, 2], [3, 4]), i([1], [1]), i([5, 6], [7, 8]))),
    OpRow("scatter_add complex", _scatter("scatter_add", _ROWS), (c(3, 2), i([1], [1]), c(2, 2))),
    OpRow("scatter_apply", lambda lax, x, idx: lax.scatter_apply(
          x, idx, lambda v: lax.mul(v, v), lax.ScatterDimensionNumbers(*_ROWS), update_shape=(2, 5)),
          (f(4, 5), i([1], [1])), order=0),
    *[OpRow(f"scatter_add by {np.dtype(t).name}", _scatter("scatter_add", ((), (0,), (0,)), mode=mode),
            (f(300), i([7], [120], dtype=t), f(2)))
      for t in (np.int8, np.uint8, np.uint32) for mode in ("drop", "clip")],
]

_RUNNING = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")


def _running(name: str, axis: int, reverse: bool) -> Callable:
    return lambda lax, x: getattr(lax, name)(x, axis=axis, reverse=reverse)


CUMULATIVE = [
    *[OpRow(f"{name} {axis} {reverse}", _running(name, axis, reverse), (x,))
      for name in _RUNNING for axis, reverse, x in ((0, False, f(5)), (1, True, f(2, 6, 2)))],
    *[OpRow(f"{name} ties", _running(name, 1, False), (TIES,)) for name in _RUNNING],
    *[OpRow(f"{name} nan", _running(name, 0, False), (NANS[:8],), order=0) for name in _RUNNING],
    *[OpRow(f"{name} small {n}", _running(name, 0, False), (f(n, 2),)) for name in _RUNNING for n in (0, 1)],
    *[OpRow(f"{name} ints", _running(name, 0, True), (i(3, -1, 4, 1, -5),)) for name in _RUNNING[:4]],
    *[OpRow(f"{name} complex", _running(name, 0, False), (c(4),)) for name in _RUNNING[:2]],
    OpRow("cumlogsumexp empty start", _running("cumlogsumexp", 0, False),
          (np.array([-np.inf, -np.inf, 1, 800, np.inf, 0], np.float32),), order=0),
]

SORTS = [
    OpRow("sort", lambda lax, x: lax.sort(x, dimension=0), (f(6, 2),)),
    OpRow("sort last", lambda lax, x: lax.sort(x), (f(2, 7),)),
    OpRow("sort nan and zeros", lambda lax, x: lax.sort((x, lax.iota(np.int32, 9)), num_keys=1), (NANS,), order=0),
    OpRow("sort two keys", lambda lax, x, y: lax.sort((x, y, lax.iota(np.int32, 5)), num_keys=2),
          (TIES[0], f(5))),
    OpRow("sort ints", lambda lax, x: lax.sort(x), (i(3, -1, 4, 1, -5),)),
    OpRow("sort unsigned", lambda lax, x: lax.sort(x), (i(3, 255, 0, dtype=np.uint8),)),
    OpRow("sort bools", lambda lax, x: lax.sort(x), (BOOLS,)),
    OpRow("sort complex", lambda lax, x: lax.sort(x), (np.array([1j, 2, -1 + 3j, -1 - 2j, 1 + 1j], np.complex64),),
          order=0),
    OpRow("sort half", lambda lax, x: lax.sort(x), (f(9).astype(np.float16),), order=0),
    OpRow("sort empty", lambda lax, x: lax.sort(x), (f(2, 0),)),
    OpRow("sort_key_val", lambda lax, x, y: lax.sort_key_val(x, y), (f(2, 5), f(2, 5))),
    OpRow("sort_key_val ties", lambda lax, x, y: lax.sort_key_val(x, y), (TIES, f(2, 5))),
    OpRow("top_k", lambda lax, x: lax.top_k(x, 2), (f(3, 5),)),
    OpRow("top_k first axis", lambda lax, x: lax.top_k(x, 2, axis=0), (f(4, 3),)),
    OpRow("top_k ties", lambda lax, x: lax.top_k(x, 4), (TIES,)),
    OpRow("approx_max_k", lambda lax, x: lax.approx_max_k(x, 2, 0), (f(4, 3),)),
    OpRow("approx_min_k", lambda lax, x: lax.approx_min_k(x, 3), (TIES,)),
    OpRow("approx_max_k candidates", lambda lax, x: lax.approx_max_k(x, 2, aggregate_to_topk=False), (f(2, 300),),
          order=0),
    OpRow("stage", lambda lax, x: lax.stage(x), (f(2, 3),)),
    OpRow("top_k none", lambda lax, x: lax.top_k(x, 0), (f(3, 2),), order=0),
    OpRow("top_k ints", lambda lax, x: lax.top_k(x, 3), (i(3, -1, 4, 1, 4),)),
    OpRow("top_k bools", lambda lax, x: lax.top_k(x, 2), (BOOLS,)),
]

TRANSFORMS = [
    OpRow("fft", lambda lax, x: lax.fft(x, "FFT", (3, 4)), (c(2, 3, 4),)),
    OpRow("fft real", lambda lax, x: lax.fft(x, lax.FftType.FFT, (5,)), (f(2, 5),)),
    OpRow("fft inverse", lambda lax, x: lax.fft(x, "IFFT", (4,)), (c(2, 4),)),
    OpRow("rfft", lambda lax, x: lax.fft(x, "RFFT", (2, 3, 4)), (f(2, 3, 4),)),
    OpRow("rfft odd", lambda lax, x: lax.fft(x, "RFFT", (5,)), (f(2, 5),)),
    OpRow("irfft", lambda lax, x: lax.fft(x, "IRFFT", (2, 6)), (c(2, 4),)),
    OpRow("irfft odd", lambda lax, x: lax.fft(x, "IRFFT", (5,)), (c(3, 3),)),
    OpRow("fft of one", lambda lax, x: lax.fft(lax.fft(x, "RFFT", (1,)), "IRFFT", (1,)), (f(2, 1),)),
]

NHWC = ("NHWC", "HWIO", "NHWC")


def _conv(strides: Any = (1, 1), padding: Any = "VALID", numbers: Any = NHWC, **more: Any) -> Callable:
    return lambda lax, x, k: lax.conv_general_dilated(x, k, strides, padding, dimension_numbers=numbers, **more)


_EVERYTHING = {"strides": (2, 3), "padding": ((1, 2), (-1, 1)), "lhs_dilation": (2, 1), "rhs_dilation": (1, 2)}

# test_conv has more rows that compare only values, because a convolution takes long to compile.
CONVOLUTIONS = [
    OpRow("conv", lambda lax, x, k: lax.conv(x, k, (1,), "SAME"), (f(2, 3, 5), f(4, 3, 2))),
    OpRow("conv everything", _conv(**_EVERYTHING), (f(2, 5, 6, 2), f(3, 2, 2, 3))),
    OpRow("conv feature groups", _conv(**_EVERYTHING, feature_group_count=2), (f(2, 5, 6, 4), f(3, 2, 2, 6))),
    OpRow("conv batch groups", _conv(**_EVERYTHING, batch_group_count=2), (f(4, 5, 6, 3), f(3, 2, 3, 4))),
    OpRow("conv no batch", _conv(), (f(0, 4, 4, 2), f(2, 2, 2, 3))),
    OpRow("conv no room", _conv(), (f(1, 2, 2, 2), f(3, 3, 2, 3))),
]

_POOL = {"window_dimensions": (1, 2, 3), "window_strides": (1, 2, 1), "padding": "SAME"}
_HOLES = {"window_dimensions": (2, 3), "window_strides": (1, 2), "padding": ((1, 2), (2, 3)), "base_dilation": (1, 2)}
_CROP = {"window_dimensions": (2, 2), "window_dilation": (1, 3), "padding": ((-1, 2), (1, -1))}
_LARGE = {"window_dimensions": (1, 40), "padding": ((0, 0), (3, 2))}


def _window(start: Any, name: str, **window: Any) -> Callable:
    return lambda lax, x: lax.reduce_window(x, np.asarray(start, x.dtype), getattr(lax, name), **window)


def _affine(lax: Any, a: Any, b: Any) -> Any:
    """Composition of two affine maps: associative, but not commutative."""
    return lax.mul(a[0], b[0]), lax.add(lax.mul(a[1], b[0]), b[1])


# JAX has no reverse mode through reduce_window with an arbitrary function: see test_window.
WINDOWS = [
    *[OpRow(f"window {name} {kind}", _window(start, name, **window), (f(*shape),))
      for name, start in (("add", 0), ("max", -np.inf))
      for kind, window, shape in (("pool", _POOL, (2, 5, 4)), ("holes", _HOLES, (4, 5)), ("large", _LARGE, (2, 42)))],
    OpRow("window min pool", _window(np.inf, "min", **_POOL), (f(2, 5, 4),)),
    OpRow("window add crop", _window(0, "add", **_CROP), (f(3, 6),)),
    OpRow("window max crop", _window(-np.inf, "max", **_CROP), (f(3, 6),), order=0),
    OpRow("window max ties", _window(-np.inf, "max", window_dimensions=(1, 3)), (TIES,)),
    OpRow("window max no room", _window(-np.inf, "max", window_dimensions=(9,)), (f(3),)),
    OpRow("window of two", lambda lax, x, y: lax.reduce_window(
          (x, y), (np.float32(1), np.float32(0)), lambda a, b: _affine(lax, a, b), (3,), (2,), "SAME"), (f(6), f(6)),
          order=0),
    OpRow("reduce by mul", lambda lax, x: lax.reduce(x, np.ones((), x.dtype), lambda a, b: lax.mul(a, b), (0, 2)),
          (f(2, 3, 3),)),
    OpRow("reduce of two", lambda lax, x, y: lax.reduce(
          (x, y), (np.float32(0), np.int32(0)), lambda a, b: (lax.add(a[0], b[0]), lax.max(a[1], b[1])), (0,)),
          (f(3, 2), i([1, 2], [5, 0], [-3, 1])), order=0),
    OpRow("reduce of nothing", lambda lax, x: lax.reduce(x, np.ones((), x.dtype), lambda a, b: lax.mul(a, b), (0,)),
          (f(0, 2),)),
]

TABLE = [*ARRANGE, *SLICES, *DOTS, *REDUCTIONS, *GATHERS, *SCATTERS, *CUMULATIVE, *SORTS, *TRANSFORMS, *CONVOLUTIONS,
         *WINDOWS]
