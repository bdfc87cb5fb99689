"""Functions of `xjax.numpy` that move numbers: shapes, order of axes, joining, splitting, padding, along axes."""

from __future__ import annotations

import numpy as np

from tests.values.row import rows

MATRICES = ("f4[2,3]:wide", "i4[3,2]:wide", "b1[2,2]", "c8[0,2]", "bf[1,3]")
BOXES = ("f4[2,3,4]:wide", "i4[2,1,3]:wide", "b1[0,2,2]", "c16[1,2,2]")
ANY = ("f4[2,3]:wide", "i4[3]:wide", "c8[]", "f2[2,0,2]", "b1[1,2,1,2]")
PAIRS = ("f4[2,3] f4[2,3]", "f4[2,2] i4[2,2]", "b1[2,1] u1[2,1]", "bf[1,2] f2[1,2]", "c8[0,2] f8[0,2]")
D, DD = ("f8[2,3]",), ("f8[2,3] f8[2,3]",)


def _filling(row, width, axis, kwargs):
    """The padded row with its inner elements doubled; NumPy's function writes into the row instead."""
    lo, hi = width
    return row.at[lo:row.shape[0] - hi].multiply(2)


ROWS = [
    # -- shape --------------------------------------------------------------------------------------------------------
    *rows("numpy", "reshape", "f4[2,3]:wide", "i4[6]:wide", "b1[1,6]", "c8[3,2,1]", grad=D, call=lambda f, x: (
              f(x, (3, 2)), f(x, -1), f(x, (2, -1)), f(x, [1, 6]), f(x, (3, 2), order="F"), f(x, (6, 1, 1), "F"),
              f(x, x.shape))),
    *rows("numpy", "reshape", "f4[0,3]", "i4[2,0]", id="of nothing",
          call=lambda f, x: (f(x, (0,)), f(x, (5, 0)), f(x, -1))),
    *rows("numpy", "ravel", *ANY, grad=D, call=lambda f, x: (f(x), f(x, order="F"), f(x, "C"))),
    *rows("numpy", "expand_dims", *ANY, grad=D,
          call=lambda f, x: (f(x, 0), f(x, -1), f(x, (0, -1)), f(x, axis=[1, 0]))),
    *rows("numpy", "squeeze", "f4[1,2,1]:wide", "i4[1,1,1]", "b1[1,0,1]", "c8[1,3,1]", grad=("f8[1,2,1]",),
          call=lambda f, x: (f(x), f(x, 0), f(x, -1), f(x, axis=(0, 2)), f(x, ()))),
    *rows("numpy", "atleast_1d atleast_2d atleast_3d", *ANY, grad=D, call=lambda f, x: (f(x), f(x, x), f())),
    *rows("numpy", "resize", *ANY[:3], "f4[0]", grad=D,
          call=lambda f, x: (f(x, (2, 2)), f(x, 7), f(x, (0, 3)), f(x, ()), f(x, (3, 1, 3)))),
    *rows("numpy", "broadcast_to", "f4[3]:wide", "i4[2,1]:wide", "c8[]", "b1[1,3]", grad=("f8[2,1]",),
          call=lambda f, x: (f(x, (2, 3)), f(x, (4, 2, 3)))),
    *rows("numpy", "broadcast_arrays", "f4[3] i4[2,1] c8[]", "b1[1,0] f4[2,1] u1[]", grad=("f8[3] f8[2,1] f8[]",),
          call=lambda f, x, y, z: (f(x), f(x, y), f(y, z, x), f())),
    *rows("numpy", "broadcast_shapes", "",
          call=lambda f: (f(), f((2, 3)), f((2, 1), (3,)), f((4, 1, 0), (1, 1), ()), f(3, (2, 1)))),
    *rows("numpy", "shape size ndim", *ANY, call=lambda f, x: f(x)),
    *rows("numpy", "size", "f4[2,3]", "i4[0,2]", id="of axes",
          call=lambda f, x: (f(x, 0), f(x, axis=-1), f(x, (0, 1)))),
    *rows("numpy", "iterable", *ANY[:2], "f4[]"),

    # -- order of axes ------------------------------------------------------------------------------------------------
    *rows("numpy", "transpose", *ANY, grad=D,
          call=lambda f, x: (f(x), f(x, tuple(range(x.ndim))[::-1]), f(x, range(-x.ndim, 0)))),
    *rows("numpy", "transpose", *BOXES, id="of axes", grad=("f8[2,1,3]",),
          call=lambda f, x: (f(x, (1, 2, 0)), f(x, (-1, 0, 1)), f(x, axes=[0, 2, 1]))),
    # JAX refuses negative axes.
    *rows("numpy", "permute_dims", *BOXES, call=lambda f, x: (f(x, (1, 2, 0)), f(x, axes=[0, 2, 1]))),
    *rows("numpy", "matrix_transpose", *BOXES, *MATRICES[:2], grad=D),
    *rows("numpy", "swapaxes", *BOXES, grad=("f8[2,1,3]",),
          call=lambda f, x: (f(x, 0, 1), f(x, -1, 0), f(x, axis1=1, axis2=1))),
    *rows("numpy", "moveaxis", *BOXES, grad=("f8[2,1,3]",),
          call=lambda f, x: (f(x, 0, -1), f(x, 2, 0), f(x, (0, 1), (1, 2)), f(x, [-1, 0], [0, 1]), f(x, (), ()))),
    *rows("numpy", "rollaxis", *BOXES, grad=("f8[2,1,3]",),
          call=lambda f, x: (f(x, 2), f(x, 0, 3), f(x, -1, 1), f(x, 1, start=-1), f(x, 0, -1))),
    *rows("numpy", "flip", *BOXES, *ANY[1:3], grad=D, call=lambda f, x: (
              f(x), f(x, ()), *([f(x, 0), f(x, -1)] if x.ndim else []),
              *([f(x, (0, 2)), f(x, axis=(1, -1))] if x.ndim > 2 else []))),
    *rows("numpy", "fliplr", *MATRICES, *BOXES[:1], grad=D),
    *rows("numpy", "flipud", *MATRICES, *BOXES[:1], grad=D),
    *rows("numpy", "rot90", *MATRICES, *BOXES[:1], grad=D,
          call=lambda f, x: (f(x), f(x, 2), f(x, -1), f(x, 4), f(x, 1, (1, 0)), f(x, k=3, axes=(-1, 0)))),
    *rows("numpy", "roll", *MATRICES, grad=D, call=lambda f, x: (
              f(x, 1), f(x, -2), f(x, 5, 0), f(x, -1, axis=1), f(x, (1, 2), (0, 1)), f(x, (1, 1), 0), f(x, 1, (0, -1)),
              f(x, 0))),
    *rows("numpy", "roll", "f4[2,3] i4[]:-5..5", "b1[4] i8[]:-5..5", "c8[2,2] i4[1]:-3..3", id="by an array",
          grad=("f8[2,3] i4[]:-5..5",), call=lambda f, x, n: (f(x, n), f(x, n, 0), f(x, n, axis=-1))),
    *rows("numpy", "roll", "f4[2,3] i4[2]:-5..5", id="by several", call=lambda f, x, n: (f(x, n, (0, 1)), f(x, n, 1))),

    # -- repeating ----------------------------------------------------------------------------------------------------
    *rows("numpy", "tile", *ANY, grad=D,
          call=lambda f, x: (f(x, 2), f(x, (2, 1)), f(x, (2, 1, 3)), f(x, ()), f(x, 0), f(x, [1, 2]))),
    *rows("numpy", "repeat", *ANY, grad=D,
          call=lambda f, x: (f(x, 2), f(x, 0), *([f(x, 3, axis=0), f(x, 2, -1)] if x.ndim else []))),
    *rows("numpy", "repeat", "f4[2,3]:wide", "i4[2,1]", "c8[2,0]", id="each its own times", grad=D,
          call=lambda f, x: (f(x, np.array([1, 2]), axis=0), f(x, np.array([0, 3]), 0), f(x, np.array([2]), axis=1))),
    # JAX's documentation defines the padding of a result of given length; NumPy has no such length.
    *rows("numpy", "repeat", "f4[3] i4[3]:0..3", "f4[2,3] i4[]:0..3", id="by traced times", oracle=None,
          grad=("f8[3] i4[3]:0..3",), call=lambda f, x, n: (
              f(x, n, axis=-1, total_repeat_length=5), f(x, n, axis=x.ndim - 1, total_repeat_length=9))),

    # -- joining ------------------------------------------------------------------------------------------------------
    *rows("numpy", "concatenate concat", *PAIRS, grad=DD, call=lambda f, x, y: (
              f((x, y)), f([x, y, x], axis=1), f((x, y), axis=-1), f((x,)), f((x, y), axis=None))),
    *rows("numpy", "concatenate", *PAIRS[:2], id="to a dtype", call=lambda f, x, y: f((x, y), dtype="complex128")),
    *rows("numpy", "concatenate", "f4[1,2] f4[3,2]", "i4[0,2] i4[2,2]", id="of sizes", grad=("f8[1,2] f8[3,2]",),
          call=lambda f, x, y: (f((x, y)), f((y, x), axis=-2), f((x, y), None))),
    *rows("numpy", "stack", *PAIRS, grad=DD, call=lambda f, x, y: (
              f((x, y)), f([x, y, x], axis=1), f((x, y), -1), f((x,)), f((x, y), dtype="complex128"))),
    *rows("numpy", "vstack hstack", *PAIRS, "f4[2] f4[2]", "f4[] i4[]", grad=DD,
          call=lambda f, x, y: (f((x, y)), f([x]), f((x, y, x)), f((x, y), dtype="complex128"))),
    *rows("numpy", "dstack column_stack", *PAIRS, "f4[2] f4[2]", "f4[] i4[]", grad=DD,
          call=lambda f, x, y: (f((x, y)), f([x]), f((x, y, x)))),
    *rows("numpy", "block", *PAIRS, grad=DD,
          call=lambda f, x, y: (f([x, y]), f([[x, y], [y, x]]), f([[x], [y]]), f(x), f([x, y, x]))),
    *rows("numpy", "block", "f4[2,2] f4[2]", "i4[1,1] f4[]", id="of ranks",
          call=lambda f, x, y: (f([[x, x], [f([y, y])]]), f([y, y]), f([[[x]], [[x]]]))),
    *rows("numpy", "append", *PAIRS, "f4[2] i4[]", grad=DD,
          call=lambda f, x, y: (f(x, y), *([f(x, y, axis=0), f(x, y, -1)] if y.ndim else []))),

    # -- splitting ----------------------------------------------------------------------------------------------------
    # JAX refuses positions from the end.
    *rows("numpy", "split", "f4[4,6]:wide", "i4[4,2]", "b1[4,2]", "c8[4,0]", grad=("f8[4,2]",), call=lambda f, x: (
              f(x, 2), f(x, [1, 3]), f(x, 2, axis=1), f(x, (0,), -1), f(x, []), f(x, [2, 2, 4]))),
    *rows("numpy", "array_split", "f4[4,5]:wide", "i4[3,2]", "b1[3,2]", "c8[3,0]", grad=("f8[3,3]",),
          call=lambda f, x: (f(x, 2), f(x, 3), f(x, [1, 3]), f(x, 3, axis=1), f(x, (0,), -1), f(x, 5))),
    *rows("numpy", "vsplit", "f4[4,2]:wide", "i4[2,3]", "c8[2,0]", grad=D, call=lambda f, x: (f(x, 2), f(x, [1]))),
    *rows("numpy", "hsplit", "f4[3,4]:wide", "i4[2]", "c8[0,2]", grad=("f8[2,4]",),
          call=lambda f, x: (f(x, 2), f(x, [1]))),
    *rows("numpy", "dsplit", "f4[1,3,4]:wide", "i4[2,1,2]", grad=("f8[1,2,4]",),
          call=lambda f, x: (f(x, 2), f(x, [1]))),
    *rows("numpy", "unstack", *MATRICES, *BOXES[:1], grad=D, call=lambda f, x: (f(x), f(x, axis=1), f(x, axis=-1))),
    # Only the host can compute how many zeros to trim.
    # JAX treats imaginary numbers as zeros.
    *rows("numpy", "trim_zeros", "f4[5]:0..0.125", "i4[4]:0..1", "b1[3]", jit=False,
          call=lambda f, x: (f(x), f(x, "f"), f(x, trim="b"), f(x * (1 + 1j)))),
    *rows("numpy", "trim_zeros", "i4[3,3]:0..1", "f8[2,4]:0..0.125", id="of a matrix", jit=False,
          call=lambda f, x: (f(x), f(x, "f", axis=0), f(x, axis=-1), f(x, "b", axis=(0, 1)))),

    # -- padding ------------------------------------------------------------------------------------------------------
    *rows("numpy", "pad", *MATRICES[:3], "bf[1,3]", grad=D, call=lambda f, x: (
              f(x, 1), f(x, (1, 2)), f(x, ((0, 1), (2, 0))), f(x, 1, constant_values=1),
              f(x, 1, mode="constant", constant_values=(0, 1)),
              f(x, ((1, 1), (0, 2)), constant_values=((1, 0), (1, 1))), f(x, 0))),
    *rows("numpy", "pad", "c8[0,2]", id="of nothing",
          call=lambda f, x: (f(x, 1), f(x, ((0, 0), (2, 1)), constant_values=2j))),
    *rows("numpy", "pad", "f4[2,3]", "i4[3,3]", "bf[2,4]", "c8[3,2]", id="with inner values", grad=D,
          call=lambda f, x: [
              f(x, n, mode)
              for n in (1, (2, 1), ((0, 5), (4, 0))) for mode in ("edge", "reflect", "symmetric", "wrap")]),
    *rows("numpy", "pad", "f4[2,3]", "i4[4]", id="reflected, odd", grad=D,
          call=lambda f, x: [f(x, (3, 2), mode, reflect_type="odd") for mode in ("reflect", "symmetric")]),
    *rows("numpy", "pad", "f4[2,3]", "f8[4]:edges", "bf[3]", "i4[2,2]", id="with statistics", grad=D,
          call=lambda f, x: [
              *[f(x, n, mode) for n in (1, (2, 1)) for mode in ("maximum", "minimum")],
              *[f(x, 1, mode, stat_length=n) for n in (1, (2, 1)) for mode in ("maximum", "minimum")]]),
    *rows("numpy", "pad", "f4[2,3]", "f8[4]", "c8[3]", id="with means", grad=D, call=lambda f, x: [
              *[f(x, n, "mean") for n in (1, (2, 1))], f(x, 2, "mean", stat_length=2), f(x, 3, "linear_ramp"),
              f(x, (2, 1), "linear_ramp", end_values=(5, -4))]),
    *rows("numpy", "pad", "f4[2,3]", "f8[4]", "i4[3]", id="with medians", grad=D,
          call=lambda f, x: (f(x, (2, 1), "median"), f(x, 2, "median", stat_length=2))),
    *rows("numpy", "pad", "f4[2,3]", "i4[4]", id="with nothing", oracle=None, call=lambda f, x: f(x, (1, 2), "empty")),
    *rows("numpy", "pad", "f4[2,3]", "i4[2]", id="by a function", oracle=None, call=lambda f, x: f(x, 2, _filling)),

    # -- functions along axes -----------------------------------------------------------------------------------------
    *rows("numpy", "apply_along_axis", "f4[2,3]", "i4[3]", "bf[2,2,2]", "c8[1,2]", grad=D, call=lambda f, x: (
              f(lambda v: v.sum(), 0, x), f(lambda v: v[::-1], -1, x), f(lambda v, n: v * n, x.ndim - 1, x, 3),
              f(lambda v, n=1: v.reshape(1, -1) + n, 0, x, n=2))),
    *rows("numpy", "apply_over_axes", "f4[2,3,2]", "i4[3,1,2]", grad=("f8[2,3,1]",), call=lambda f, x: (
              f(lambda a, axis: a.sum(axis, keepdims=True), x, [0, 2]), f(lambda a, axis: a.max(axis), x, (0, -1)),
              f(lambda a, axis: a.cumsum(axis), x, [1]))),
    *rows("numpy", "vectorize", "f4[2,3] f4[3]", "i4[2,1] f4[2]", "c8[1,2] f4[]", grad=("f8[2,3] f8[3]",),
          call=lambda f, x, y: (
              f(lambda a, b: a * b + 1)(x, y), f(lambda a, b=2: a - b)(x), f(lambda a, b: (a, a + b))(y, x),
              f(lambda a, n: a * n, excluded={1})(x, 3), f(lambda a, n: a + n, excluded={"n"})(x, n=2))),
    *rows("numpy", "vectorize", "f4[2,3] f4[3]", "i4[4,1,2] i4[4,2]", id="of a signature", grad=("f8[2,3] f8[3]",),
          call=lambda f, x, y: (
              f(lambda a, b: (a * b).sum(), signature="(n),(n)->()")(x, y),
              f(lambda a, b: a[:, None] * b, signature="(n),(m)->(n,m)")(x, y),
              f(lambda a: (a.sum(), a[::-1]), signature="(n)->(),(n)")(x))),
    # NumPy's ufunc of a Python function gives objects, and has no such identity for its reductions.
    *rows("numpy", "frompyfunc", "f4[2,3] f4[3]", "i4[2,1] f4[2]", oracle=None, grad=("f8[2,3] f8[3]",),
          call=lambda f, x, y: (
              f(lambda a, b: a * b + 1, 2, 1)(x, y), f(lambda a, b: a + b, 2, 1, identity=0).reduce(x, axis=0),
              f(lambda a, b: a + b, nin=2, nout=1).accumulate(y), f(lambda a, b: a - b, 2, 1).outer(x, y))),
]
