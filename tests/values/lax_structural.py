"""Functions of `xjax.lax` that move and select parts of arrays: shapes, slices, gathers and scatters."""

from __future__ import annotations

import numpy as np

from tests.values.row import rows
from xjax.lax import GatherDimensionNumbers, ScatterDimensionNumbers

CUBES = ("f4[2,3,4]", "i4[2,3,4]", "c8[2,3,4]", "bf[0,3,4]")
D = ("f8[2,3,4]",)


def lax(name, call, *signatures, oracle=None, **options):
    """The one row of a function, with NumPy's equivalent."""
    return rows("lax", name, *signatures, call=call, oracle=oracle, **options)


SHAPES = [
    *lax("broadcast", lambda f, x: (f(x, ()), f(x, (5, 1))), *CUBES, grad=D,
         oracle=lambda x, sizes: np.broadcast_to(x, sizes + x.shape)),
    *lax("broadcast_in_dim", lambda f, x: (f(x[0], (3, 2, 4), (0, 2)), f(x[:, :1], (2, 5, 4), (0, 1, 2))), *CUBES[:3],
         grad=D, oracle=lambda x, shape, dims: np.broadcast_to(
             np.expand_dims(x, tuple(set(range(len(shape))) - set(dims))), shape)),
    *lax("broadcast_like", lambda f, x: (f(x[0, 0], x), f(x[0], x), f(x, x)), *CUBES[:3],
         grad=D, oracle=lambda x, y: np.broadcast_to(x, y.shape)),
    *lax("broadcast_to_rank", lambda f, x: (f(x, 3), f(x, 5)), *CUBES, grad=D,
         oracle=lambda x, rank: x.reshape((1,) * (rank - x.ndim) + x.shape)),
    *lax("collapse", lambda f, x: (f(x, 0), f(x, 0, 2), f(x, 1, -1), f(x, -2)), *CUBES[:3], grad=D,
         oracle=lambda x, a, b=3: x.reshape(*x.shape[:a], -1, *x.shape[b:])),
    *lax("expand_dims", lambda f, x: (f(x, (0,)), f(x, (-1, 1)), f(x, ())), *CUBES, oracle=np.expand_dims, grad=D),
    *lax("squeeze", lambda f, x: (f(x[:, :1, :, None], (1,)), f(x[:, :1, :, None], (-1, 1)), f(x, ())), *CUBES,
         oracle=np.squeeze, grad=D),
    *lax("reshape", lambda f, x: (f(x, (4, 6)), f(x, (24,)), f(x, (3, 8), (1, 0, 2)), f(x, (2, 3, 4, 1))), *CUBES[:3],
         grad=D, oracle=lambda x, shape, dims=(0, 1, 2): x.transpose(dims).reshape(shape)),
    *lax("rev", lambda f, x: (f(x, (0,)), f(x, (2, 1)), f(x, ())), *CUBES, oracle=np.flip, grad=D),
    *lax("transpose", lambda f, x: (f(x, (2, 0, 1)), f(x, (1, 0, 2)), f(x, (0, 1, 2))), *CUBES, grad=D,
         oracle=np.transpose),
    *lax("tile", lambda f, x: (f(x, (2, 1, 3)), f(x, (1, 2, 1)), f(x, (0, 1, 1))), *CUBES, oracle=np.tile, grad=D),
    *lax("concatenate", lambda f, x, y: (f((x, y), 1), f([x, y, y[:, :2]], 1), f([x], 0)), "f4[2,3] f4[2,4]",
         "i4[2,0] i4[2,3]", "c8[1,2] c8[1,2]", oracle=np.concatenate, grad=("f8[2,3] f8[2,2]",)),
    *lax("stack", lambda f, x, y: (f((x, y)), f([x, y, x], 1), f([x, y], -1)), "f4[2,3] f4[2,3]", "i4[0,3] i4[0,3]",
         oracle=np.stack, grad=("f8[2,3] f8[2,3]",)),
    *lax("unstack", lambda f, x: (f(x), f(x, 1), f(x, -1)), *CUBES[:3], grad=D,
         oracle=lambda x, axis=0: list(np.moveaxis(x, axis, 0))),
    *lax("split", lambda f, x: (f(x, (1, 1)), f(x, (1, 0, 2), 1), f(x, [3, 1], axis=-1)), *CUBES[:3], grad=D,
         oracle=lambda x, sizes, axis=0: np.split(x, np.cumsum(sizes)[:-1], axis)),
    *lax("pad", lambda f, x, v: (f(x, v, ((1, 0, 0), (0, 2, 1))), f(x, v, ((-1, 1, 2), (1, -1, 0)))),
         "f4[2,3] f4[]", "i4[2,3] i4[]:wide", "c8[2,3] c8[]", grad=("f8[2,3] f8[]",)),
    *lax("iota", lambda f: (f(np.int32, 5), f(np.float32, 3), f("bfloat16", 4), f(np.uint8, 0)), "",
         oracle=lambda dtype, n: np.arange(n)),
    *lax("broadcasted_iota", lambda f: (f(np.int32, (2, 3), 1), f(np.float64, (2, 3), 0)), "",
         oracle=lambda dtype, shape, axis: np.indices(shape)[axis]),
    *lax("full", lambda f, x: (f((2, 3), x), f((), x, np.int16), f((0, 2), 1.5), f((2,), 3)), "f4[]", "i4[]", "b1[]",
         oracle=np.full),
    *lax("empty", lambda f: f((2, 0), np.float32), "", oracle=np.empty),
    *lax("full_like", lambda f, x: (f(x, 2), f(x, x[0, 0, 0]), f(x, 3, np.int8), f(x, 1, shape=(2,))), *CUBES[:3],
         oracle=np.full_like),
    *lax("broadcast_shapes", lambda f: (f((2, 1), (3,)), f((4,), ()), f((0, 1), (1, 5))), "",
         oracle=np.broadcast_shapes),
    *lax("shape_as_value", lambda f, x: (f(x.shape), f(()), f((3, 0))), "f4[2,3]"),
    *lax("dtype", lambda f, x: np.zeros(2, f(x)), *CUBES, "u1[]", "b1[2]"),
]

SLICES = [
    *lax("slice", lambda f, x: (f(x, (0, 1, 0), (2, 3, 4)), f(x, (1, 0, 1), (2, 3, 4), (1, 2, 2))), *CUBES[:3], grad=D,
         oracle=lambda x, start, stop, step=(1, 1, 1): x[tuple(map(slice, start, stop, step))]),
    *lax("slice_in_dim", lambda f, x: (f(x, 0, 1), f(x, None, -1, axis=-1), f(x, 1, None, 2, axis=1)), *CUBES[:3],
         grad=D, oracle=lambda x, a, b, step=1, axis=0: np.moveaxis(np.moveaxis(x, axis, 0)[a:b:step], 0, axis)),
    *lax("index_in_dim", lambda f, x: (f(x, 1), f(x, -1, axis=-1), f(x, 0, 1, keepdims=False)), *CUBES[:3], grad=D,
         oracle=lambda x, i, axis=0, keepdims=True: np.take(x, [i] if keepdims else i, axis)),
    # A start beyond the border is clamped; a negative one counts from the end.
    *lax("dynamic_slice", lambda f, x, i: (f(x, i, (1, 2, 3)), f(x, (i[0], i[2], i[2]), (2, 1, 1)),
                                           f(x, i, (1, 1, 2), allow_negative_indices=False)),
         "f4[2,3,4] i4[3]:wide", "i4[2,3,4] i8[3]", "c8[2,3,4] u1[3]", grad=("f8[2,3,4] i4[3]",)),
    *lax("dynamic_slice_in_dim", lambda f, x, i: (f(x, i, 1), f(x, i, 3, axis=-1), f(x, i, 0, 1)),
         "f4[2,3,4] i4[]", "i4[2,3,4] u4[]", grad=("f8[2,3,4] i4[]",)),
    *lax("dynamic_index_in_dim", lambda f, x, i: (f(x, i), f(x, i, -1), f(x, i, 1, keepdims=False)),
         "f4[2,3,4] i4[]", "i4[2,3,4] u4[]", grad=("f8[2,3,4] i4[]",)),
    *lax("dynamic_update_slice", lambda f, x, y, i: (f(x, y, i), f(x, y, (i[0], i[0], i[2])),
                                                     f(x, y, i, allow_negative_indices=False)),
         "f4[2,3,4] f4[1,2,3] i4[3]:wide", "i4[2,3,4] i4[2,1,1] i8[3]", grad=("f8[2,3,4] f8[1,2,3] i4[3]",)),
    *lax("dynamic_update_slice_in_dim", lambda f, x, y, i: (f(x, y, i, 1), f(x, y, -1, axis=1), f(x, y, 7, axis=-2)),
         "f4[2,3,4] f4[2,1,4] i4[]", "i4[2,3,4] i4[2,2,4] i8[]", grad=("f8[2,3,4] f8[2,1,4] i4[]",)),
    *lax("dynamic_update_index_in_dim", lambda f, x, y, i: (f(x, y, i, 1), f(x, y[:, 0], -1, axis=1)),
         "f4[2,3,4] f4[2,1,4] i4[]", "i4[2,3,4] i4[2,1,4] i8[]", grad=("f8[2,3,4] f8[2,1,4] i4[]",)),
    *lax("index_take", lambda f, x, i, j: (f(x, (i,), (1,)), f(x, (i, j), (0, 2))),
         "f4[2,3,4] i4[5]:0..2 i4[5]:0..3", "i4[2,3,4] i4[2]:0..9 i4[2]:0..3",
         grad=("f8[2,3,4] i4[3]:0..1 i4[3]:0..3",)),
]

ROW_OF = GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
ENTRY_OF = GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0, 1), start_index_map=(0, 1))
BATCHED = GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(1,), start_index_map=(1,),
                                 operand_batching_dims=(0,), start_indices_batching_dims=(0,))
INTO_ROW = ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,),
                                   scatter_dims_to_operand_dims=(0,))
MODES = ("clip", "drop")
SCATTERED = ("f4[4,3] i4[2,1] f4[2,3]", "i4[4,3] i4[5,1]:0..3 i4[5,3]", "bf[4,3] i4[2,1]:0..3 bf[2,3]")
DS = ("f8[4,3] i4[2,1] f8[2,3]", "f8[4,3] i4[5,1]:0..3 f8[5,3]")


def _scattered(f, x, i, updates):
    return tuple(f(x, i, updates, INTO_ROW, mode=mode) for mode in MODES)


def _in_loop(update):
    """Updates of rows one after the other, in NumPy."""
    def scattered(x, i, updates, dims, *, mode):
        y = np.array(x)
        for row, new in zip(i[:, 0], updates, strict=True):
            if mode == "clip":
                row = np.clip(row, 0, len(x) - 1)
            if 0 <= row < len(x):
                y[row] = update(y[row], new)
        return y
    return scattered


INDEXED = [
    *lax("gather", lambda f, x, i: (f(x, i, ROW_OF, (1, 3), mode="clip"), f(x, i, ROW_OF, (1, 3), mode="fill"),
                                    f(x, i, ROW_OF, (1, 3), mode="fill", fill_value=7),
                                    f(x, i[:, None] + np.array([0, 1], i.dtype), ENTRY_OF, (1, 1), mode="clip"),
                                    f(x, i, BATCHED, (1, 1), mode="clip")),
         "f4[4,3] i4[4,1]", "i4[4,3] i4[4,1]:wide", "c8[4,3] i8[4,1]", "u1[4,3] u1[4,1]",
         grad=("f8[4,3] i4[4,1]:0..1",)),
    *lax("scatter", _scattered, *SCATTERED[:1], grad=DS[:1], oracle=_in_loop(lambda old, new: new)),
    *lax("scatter_add", _scattered, *SCATTERED, grad=DS, oracle=_in_loop(np.add)),
    *lax("scatter_sub", _scattered, *SCATTERED, grad=DS, oracle=_in_loop(np.subtract)),
    *lax("scatter_mul", _scattered, *SCATTERED, oracle=_in_loop(np.multiply)),
    # Beyond the border, JAX's derivatives of the next two ignore the mode: -inf, and shares of ties that do not exist.
    *lax("scatter_min", _scattered, *SCATTERED, "f4[4,3]:edges i4[5,1]:0..3 f4[5,3]:edges", grad=DS[1:],
         oracle=_in_loop(np.minimum)),
    *lax("scatter_max", _scattered, *SCATTERED, "f4[4,3]:edges i4[5,1]:0..3 f4[5,3]:edges", grad=DS[1:],
         oracle=_in_loop(np.maximum)),
    *lax("scatter_mul", lambda f, x, i, y: f(x, i[:2, None], y, INTO_ROW, unique_indices=True),
         "f4[4,3] i4[4]:permutation f4[2,3]", grad=("f8[4,3] i4[4]:permutation f8[2,3]",), id="unique"),
    *lax("scatter_apply", lambda f, x, i: f(x, i[:2, None], lambda y: y * y + 1, INTO_ROW, update_shape=(2, 3)),
         "f4[4,3] i4[4]:permutation", "i4[4,3] i4[4]:permutation"),
]

ROWS = [*SHAPES, *SLICES, *INDEXED]
