"""Sorting, searching, sets of values, histograms, and comparisons of whole arrays, of `xjax.numpy`."""

from __future__ import annotations

import numpy as np

from tests.values.row import rows, since

TIES = ("f4[2,4]:edges", "f8[5]:wide", "bf[4]:small", "i4[3,3]:small", "b1[3,2]", "c8[2,3]:small")
REALS = (*TIES[:4], "u1[5]:small")
PAIRS = ("f4[3]:small f4[2,2]:small", "i4[4]:small i4[3]:small", "f8[3]:edges f8[3]:edges")
D = ("f8[2,3]:distinct",)


def ordered(f, x):
    return f(x), f(x, axis=0), f(x, axis=None)


def top_k(x, k, axis=-1, mode="largest"):
    """Equal elements keep their order, but 0 counts as greater than -0, and NaN as the largest."""
    y = x.astype(float)
    keys = (~np.signbit(y), y, np.isnan(y)) if mode == "smallest" else (np.signbit(y), -y, ~np.isnan(y))
    order = np.take(np.lexsort(keys, axis=axis), np.arange(k), axis=axis)
    return np.take_along_axis(x, order, axis), order


def around_kth(f, x):
    """The k-th element, and order-independent sums of the elements before and after it, whose order is undefined."""
    y = f(x, 1, axis=-1)
    return y[..., 1], y[..., :1].sum(-1), y[..., 2:].sum(-1)


def histograms(f, x, w):
    """Numbers at an edge are compared only if all edges are exact."""
    return (f(x, bins=4), f(x, bins=3, range=(-2.0, 6.0)), f(x, bins=np.array([-3.0, 0.0, 0.5, 7.0]), weights=w),
            f(x, bins=4, range=(-8.0, 8.0), density=True))


ROWS = [
    *rows("numpy", "sort", *TIES, grad=D, call=ordered),
    *rows("numpy", "argsort", *TIES, call=lambda f, x: (f(x, stable=True), f(x, axis=0, stable=True),
                                                        f(x, axis=None, stable=True))),
    *rows("numpy", "sort argsort", *TIES[:5], oracle=None, id="descending",          # NumPy has no descending order
          call=lambda f, x: (f(x, descending=True), f(x, axis=0, descending=True))),
    *rows("numpy", "sort_complex", "f4[4]:small", "i4[2,3]", "c8[4]:small"),
    *rows("numpy", "lexsort", "f4[4]:small f4[4]:small", "i4[2,3]:small b1[2,3]", "f8[3]:edges i4[3]:small",
          call=lambda f, x, y: (f((x, y)), f((y, x), axis=0))),
    *since("0.12", rows("numpy", "lexsort", "i4[5,9]:small", id="by batches",
          oracle=lambda keys, axis=-1, batch_size=16: np.lexsort(keys, axis),
          call=lambda f, x: (f(x, batch_size=2), f(x, axis=0, batch_size=1)))),
    *since("0.12", rows("numpy", "top_k", *REALS, oracle=top_k, grad=D,
          call=lambda f, x: (f(x, 2), f(x, 1, axis=0), f(x, 2, mode="smallest"), f(x, 0)))),
    *rows("numpy", "partition", "f4[2,4]:small", "f8[3]:edges", "i4[2,5]:small", grad=D, call=around_kth),
    *rows("numpy", "argpartition", "f4[4]:distinct", "f8[3]:distinct", "i4[5]:permutation",
          call=lambda f, x: (f(x, 1)[1], np.sort(f(x, 2)) if isinstance(x, np.ndarray) else f(x, 2).sort())),
    *rows("numpy", "searchsorted", "f4[5]:ascending f4[2,3]:edges", "i4[4]:ascending i4[3]", "f8[3]:ascending i4[]",
          "bf[4]:ascending bf[2]", call=lambda f, a, v: (f(a, v), f(a, v, side="right"))),
    *rows("numpy", "searchsorted", "f4[5]:small f4[3]:small", "i4[4] i4[2,2]", id="sorter",
          call=lambda f, a, v: f(a, v, sorter=a.argsort())),
    *rows("numpy", "digitize", "f4[2,3]:edges f4[4]:increasing", "i4[3] i4[4]:permutation", "f8[3] f8[1]",
          call=lambda f, x, b: (f(x, b), f(x, b, right=True), f(x, b[::-1])) if b.dtype.kind == "f" else
          (f(x, np.arange(5)), f(x, np.arange(5)[::-1]))),
    # -- sets: their sizes depend on values
    *rows("numpy", "unique", "f4[4]:edges", "i4[2,2]:0..2", "c8[3]:0..0.0625", jit=False,
          call=lambda f, x: (f(x), f(x, return_index=True, return_inverse=True, return_counts=True))),
    *rows("numpy", "unique", "i4[3,2]:0..1", "f4[2,3]:0..0.0625", jit=False, id="axis",
          call=lambda f, x: (f(x, axis=0), f(x, axis=1, return_index=True, return_inverse=True, return_counts=True))),
    *rows("numpy", "unique_all unique_counts unique_inverse", "f4[4]:edges", "i4[2,2]:0..2", jit=False),
    *rows("numpy", "unique_values", "f4[4]:edges", "i4[2,2]:0..2", jit=False,
          oracle=lambda x: np.unique(x, equal_nan=False)),                            # NumPy's order is undefined
    *rows("numpy", "unique", "f4[5]:small", "i4[2,3]:small", oracle=None, id="size",     # NumPy returns all of them
          call=lambda f, x: (f(x, size=4), f(x, return_index=True, return_inverse=True, return_counts=True, size=8,
                                             fill_value=9))),
    *rows("numpy", "union1d intersect1d setdiff1d setxor1d", *PAIRS, jit=False),
    *rows("numpy", "intersect1d", *PAIRS[:2], jit=False, id="indices",
          call=lambda f, x, y: f(x, y, return_indices=True)),
    *rows("numpy", "union1d intersect1d setdiff1d setxor1d", *PAIRS[:2], oracle=None, id="size",
          call=lambda f, x, y: (f(x, y, size=3), f(x, y, size=9, fill_value=-1))),
    *rows("numpy", "isin", *PAIRS, "i4[2]:small f4[3]:small", "f4[3] f4[0]",
          call=lambda f, x, y: (f(x, y), f(x, y, invert=True))),
    # -- counts
    *rows("numpy", "bincount", "i4[5]:0..4", "u1[4]:0..6", "i8[3]:0..2", jit=False,
          call=lambda f, x: (f(x), f(x, minlength=9), f(x, weights=x * 0.5))),
    *rows("numpy", "bincount", "i4[5] f4[5]", "u1[4] c8[4]", oracle=None, id="length",
          call=lambda f, x, w: (f(x, length=4), f(x, w, length=7))),
    *rows("numpy", "histogram", "f4[6] f4[6]", "i4[5] i4[5]", "f8[2,2] f8[2,2]", call=histograms),
    *rows("numpy", "histogram_bin_edges", "f4[6]", "i4[5]", "f8[2,2]",
          call=lambda f, x: (f(x), f(x, bins=4), f(x, bins=3, range=(-2.0, 6.0)), f(x, np.array([0.0, 1.0, 3.0])))),
    *rows("numpy", "histogram2d", "f4[6] f4[6]", "i4[5] f8[5]",
          call=lambda f, x, y: (f(x, y, bins=4),
                                f(x, y, bins=(2, 4), range=((-4, 4), (-9, 9)), weights=y, density=True))),
    *rows("numpy", "histogramdd", "f4[6,2]", "f8[5,3]",
          call=lambda f, x: (f(x, bins=4), f(x, bins=2, range=[(-4, 4)] * x.shape[1], weights=x[:, 0]),
                             f(x, bins=2, density=True))),
    # -- whole arrays
    *rows("numpy", "array_equal array_equiv", "f4[3]:0..0.0625 f4[3]:0..0.0625", "i4[2,1]:0..1 i4[2]:0..1",
          "b1[2] i4[2]:0..1", "c8[]:0..0.0625 c8[]:0..0.0625"),
    *rows("numpy", "array_equal", "f4[2] f4[3]", id="shapes"),       # JAX's `array_equiv` fails if shapes differ
    *rows("numpy", "array_equal", "f4[3]:edges f4[3]:edges", "i4[2]:small f8[2]:edges", id="nan",
          call=lambda f, x, y: (f(x, y, equal_nan=True), f(x, x), f(x, x, equal_nan=True))),
    *rows("numpy", "allclose", "f4[2]:edges f4[2]:edges", "f8[3] f8[]", "i4[2] i4[1]", "c8[2] f4[2]",
          call=lambda f, x, y: (f(x, y), f(x, y, rtol=1.0, atol=2.0), f(x, x, equal_nan=True), f(x, x))),
]
