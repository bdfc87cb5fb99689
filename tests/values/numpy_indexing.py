"""Functions of `xjax.numpy` that read and write at positions, or find positions."""

from __future__ import annotations

import numpy as np

from tests.values.row import rows

# Positions are in range, except in rows for positions out of range.
TAKEN = ("f4[3,4]:wide i4[2]:-3..2", "i4[4,3]:wide i8[2,2]:-3..2", "c8[3,3] u1[]:0..2", "b1[3,3] i4[0]")
ALONG = ("f4[3,4]:wide i4[3,4]:-3..2", "i4[3,3] i8[3,3]:-3..2", "c8[3,3] u1[3,3]:0..2", "b1[3,3] i4[3,3]:0..2")
FAR = ("f4[2,3] i4[2]:-9..9", "i4[3,2] i8[1,2]:-9..9", "b1[2,2] i4[]:-5..5")
MASKED = ("b1[4] f4[4]:wide", "b1[3] i4[3]", "b1[2] c8[2]", "i4[4]:0..1 bf[4]")
FOUND = ("f4[2,3]:0..0.125", "i4[4]:0..1", "b1[2,2,2]", "c8[3]:0..0.125", "f8[4]:edges")
D = ("f8[3,3] i4[2]:-3..2",)


def after(write):
    """The call of a function that writes into an array; NumPy's writes into a copy, which is returned."""
    def call(f, x, *args):
        if f.__module__.startswith("numpy"):
            outs = []
            for arguments, options in write(*args):
                outs.append(x.copy())
                f(outs[-1], *arguments, **options)
            return outs
        return [f(x, *arguments, **options, inplace=False) for arguments, options in write(*args)]
    return call


ROWS = [
    # -- reading ------------------------------------------------------------------------------------------------------
    *rows("numpy", "take", *TAKEN, grad=D, call=lambda f, x, i: (
              f(x, i), f(x, i, axis=0), f(x, i, -1), f(x, i, 1, mode="clip"), f(x, i, axis=0, mode="wrap"))),
    *rows("numpy", "take", *FAR, id="out of range", call=lambda f, x, i: (
              f(x, i, mode="clip"), f(x, i, 0, mode="wrap"), f(x, i, -1, mode="clip"), f(x, i, mode="wrap"))),
    # NumPy raises for positions out of range.
    *rows("numpy", "take", *FAR, "u1[3] i4[2]:-9..9", id="filled", oracle=None,
          call=lambda f, x, i: (f(x, i), f(x, i, 0), f(x, i, -1, mode="fill"))),
    *rows("numpy", "take", *FAR[:1], id="filled with a number", oracle=None, grad=("f8[2,3] i4[2]:-9..9",),
          call=lambda f, x, i: (f(x, i, fill_value=7), f(x, i, -1, mode="fill", fill_value=1))),
    *rows("numpy", "take_along_axis", *ALONG, grad=("f8[3,3] i4[3,3]:-3..2",), call=lambda f, x, i: (
              f(x, i, 0), f(x, i, axis=-1), f(x, i[:1], axis=1), f(x, i[:, :1], 0), f(x, i.reshape(-1), axis=None))),
    *rows("numpy", "take_along_axis", "f4[2,3] i4[2,3]:-9..9", "i4[3,2] i8[1,2]:-9..9", id="out of range", oracle=None,
          call=lambda f, x, i: [
              f(x, i, 1, mode=mode) for mode in ("fill", "clip")] + [f(x, i, 1, mode="fill", fill_value=7)]),
    # Without `size`, the shape of a result depends on values, which only NumPy supports.
    *rows("numpy", "compress", *MASKED, jit=False, call=lambda f, c, x: (f(c, x), f(c, x, axis=0), f(c[:2], x))),
    *rows("numpy", "compress", "b1[2] f4[2,3]", "b1[1] i4[2,2]", id="of matrices", jit=False,
          call=lambda f, c, x: (f(c, x), f(c, x, axis=0), f(c, x, -1))),
    *rows("numpy", "compress", *MASKED, "b1[2] f4[2,3]", id="to a size", oracle=None, grad=("b1[3] f8[3]",),
          call=lambda f, c, x: (f(c, x, size=2), f(c, x, axis=0, size=1), f(c, x, -1, size=2, fill_value=1))),
    *rows("numpy", "extract", *MASKED, "b1[2,3] f4[2,3]", jit=False),
    *rows("numpy", "extract", *MASKED, "b1[2,3] f4[2,3]", id="to a size", oracle=None, grad=("b1[3] f8[3]",),
          call=lambda f, c, x: (f(c, x, size=1), f(c, x, size=2, fill_value=7))),
    *rows("numpy", "diagonal", "f4[3,4]:wide", "i4[2,3,2]", "b1[2,0]", "c8[2,2,1]", grad=("f8[3,2]",),
          call=lambda f, x: (f(x), f(x, 1), f(x, offset=-1), f(x, 0, 1, 0), f(x, axis1=-1, axis2=0), f(x, 7))),

    # -- writing ------------------------------------------------------------------------------------------------------
    # If a position occurs twice, NumPy does not define which value stays: these positions are a permutation.
    *rows("numpy", "put", "f4[2,3]:wide i4[3]:permutation f4[3]", "i4[4] i8[3]:permutation i4[]",
          "c8[3] i4[2]:permutation f4[1]", "bf[2,2] i4[4]:permutation bf[2]", grad=("f8[2,3] i4[3]:permutation f8[2]",),
          call=after(lambda i, v: [((i, v), {}), ((i - 1, v), {}), ((i + 2, v), {"mode": "wrap"})])),
    *rows("numpy", "put", "f4[2,3] i4[]:-9..9 f4[]", "i4[4] i8[1]:-9..9 i4[2]", id="out of range",
          call=after(lambda i, v: [((i, v), {"mode": "wrap"}), ((i, v), {"mode": "clip"})])),
    *rows("numpy", "put", "f4[2,3] i4[]:-9..9 f4[]", id="clipped", oracle=None,
          call=after(lambda i, v: [((i, v), {})])),
    *rows("numpy", "put_along_axis", "f4[2,3]:wide i4[2,3]:permutation f4[2,3]", "i4[3,2] i8[3,2]:permutation i4[]",
          "c8[2,2] i4[2,1]:permutation f4[]", grad=("f8[2,3] i4[2,3]:permutation f8[2,3]",),
          call=after(lambda i, v: [((i, v, 1), {}), ((i, v), {"axis": -1}), ((i - 1, v, -1), {})])),
    *rows("numpy", "put_along_axis", "f4[2,3] i4[1,3]:-2..1 f4[1,3]", "bf[2,2] i4[1,2]:0..1 bf[]", id="of columns",
          call=after(lambda i, v: [((i, v, 0), {})])),
    *rows("numpy", "put_along_axis", "f4[2,3] i4[6]:permutation f4[6]", "i4[4] i4[4]:permutation i4[]", id="of all",
          call=after(lambda i, v: [((i, v, None), {})])),
    *rows("numpy", "place", "f4[2,3]:wide b1[2,3] f4[2]", "i4[4] b1[4] i4[4]", "c8[3] b1[3] f4[1]",
          "b1[2] i4[2]:0..1 b1[3]", grad=("f8[2,3] b1[2,3] f8[2]",), call=after(lambda m, v: [((m, v), {})])),
    *rows("numpy", "fill_diagonal", "f4[3,4]:wide f4[]", "i4[2,2] i4[2]", "c8[2,2,2] f4[]", "b1[4,2] b1[2]",
          grad=("f8[3,2] f8[2]",), call=after(lambda v: [((v,), {})])),
    *rows("numpy", "insert", "f4[2,3] f4[]", "i4[3,2] i4[]", "c8[2,2] f4[1]", "b1[2,2] b1[]", grad=("f8[2,3] f8[]",),
          call=lambda f, x, v: (
              f(x, 1, v), f(x, 0, v, axis=0), f(x, -1, v, axis=1), f(x, np.array([0, 1, 1]), v),
              f(x, slice(0, 2), v, 0), f(x, np.array([1, -1]), v, axis=-1))),
    *rows("numpy", "insert", "f4[2,3] f4[2]", "i4[3,2] i4[3]", id="of columns", grad=("f8[2,3] f8[2]",),
          call=lambda f, x, v: (
              f(x, 1, v, axis=1), f(x, np.array([0, 2]), v[:, None], axis=1), f(x, np.array([2]), v[:, None], 1))),
    *rows("numpy", "insert", "f4[3] f4[2]", "i4[4] i4[2]", id="of several", grad=("f8[3] f8[2]",),
          call=lambda f, x, v: (
              f(x, np.array([0, 2]), v), f(x, np.array([2, 0]), v), f(x, slice(0, 2), v), f(x, np.array([1, 1]), v))),
    # NumPy has no traced positions, and raises for those out of range.
    *rows("numpy", "insert", "f4[3] i4[2]:-3..3 f4[2]", "i4[4] i4[]:-4..4 i4[]", id="at traced positions",
          grad=("f8[3] i4[2]:-3..3 f8[2]",)),
    *rows("numpy", "delete", "f4[3,4]:wide", "i4[3,3]", "c8[3,2]", "b1[3,3]", grad=("f8[3,2]",), call=lambda f, x: (
              f(x, 1), f(x, -2, axis=0), f(x, np.array([0, 1]), 1), f(x, slice(0, 2), axis=-1),
              f(x, np.array([2, 2, -1])), f(x, np.array([True, False, True]), axis=0), f(x, slice(None, None, 2)),
              f(x, np.array([], int), 0))),
    *rows("numpy", "delete", "f4[4] i4[2]:permutation", "i4[3,2] i8[2]:permutation", id="of distinct positions",
          grad=("f8[4] i4[2]:permutation",), call=lambda f, x, i: (
              f(x, i, axis=0) if f is np.delete else f(x, i, axis=0, assume_unique_indices=True))),

    # -- finding ------------------------------------------------------------------------------------------------------
    *rows("numpy", "nonzero flatnonzero argwhere", *FOUND, jit=False),
    *rows("numpy", "nonzero flatnonzero argwhere", *FOUND, id="of a size", oracle=None,
          call=lambda f, x: (f(x, size=3), f(x, size=10, fill_value=-1), f(x, size=0), f(x, size=1))),
    *rows("numpy", "ix_", "f4[2] i4[3]", "u1[2] i8[1]", jit=False,
          call=lambda f, x, y: (f(x), f(x, y), f(y, y, x), f())),
    *rows("numpy", "unravel_index", "i4[3]:0..11", "i8[2,2]:0..11", "u1[]:0..11",
          call=lambda f, i: (f(i, (3, 4)), f(i, (12,)), f(i, (2, 1, 6)), f(i, 12))),
    # NumPy raises for positions out of range.
    *rows("numpy", "unravel_index", "i4[3]:wide", "i8[]:-30..30", id="out of range", oracle=None,
          call=lambda f, i: (f(i, (3, 4)), f(i, (2, 2, 3)))),
    *rows("numpy", "ravel_multi_index", "i4[3]:0..2 i4[3]:0..3", "i8[2,1]:0..2 u1[2]:0..3",
          call=lambda f, i, j: (f((i, j), (3, 4), mode="wrap"), f((i, j), (3, 4), mode="clip", order="F"))),
    *rows("numpy", "ravel_multi_index", "i4[3]:wide i4[3]:-9..9", "i8[]:-30..30 i4[2]:-9..9", id="out of range",
          call=lambda f, i, j: (
              f((i, j), (3, 4), mode="wrap"), f((i, j), (3, 4), mode="clip"),
              f((i, j, i), (3, 4, 2), mode="clip", order="F"))),
    *rows("numpy", "ravel_multi_index", "i4[3]:0..2 i4[3]:0..3", id="checked", jit=False,
          call=lambda f, i, j: (f((i, j), (3, 4)), f((j, i), (4, 3), order="F"))),

    # -- bits ---------------------------------------------------------------------------------------------------------
    *rows("numpy", "packbits", "b1[3,9]", "u1[10]:wide", "i4[2,3]:0..1", "b1[2,0]",
          call=lambda f, x: [
              f(x, bitorder=order, **axis) for order in ("big", "little") for axis in ({}, {"axis": -1})]),
    *rows("numpy", "unpackbits", "u1[2,2]:wide", "u1[3]:wide",
          call=lambda f, x: [
              f(x, bitorder=order, **options) for order in ("big", "little")
              for options in ({}, {"axis": 0}, {"axis": -1, "count": 5}, {"count": -3}, {"count": 30})]),
]
