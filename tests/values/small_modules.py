"""`xjax.image`, `xjax.ops`, `xjax.dtypes`, `xjax.flatten_util`, `xjax.experimental.jet` and `xjax.experimental.ode`."""

from __future__ import annotations

import numpy as np

from tests.values.row import library_of, rows

METHODS = ("nearest", "linear", "cubic", "lanczos3", "lanczos5")
IMAGES = ("f4[4,5,2]", "bf[4,5,2]")


def _nearest(image, shape, _):
    """Nearest-neighbour resizing: the old pixels whose centres are nearest to the new centres."""
    for axis, (n, m) in enumerate(zip(image.shape, shape, strict=True)):
        image = np.take(image, np.floor((np.arange(m) + 0.5) * n / m).astype(int), axis)
    return image


def _moved(f, x, scale, shift, method):
    return f(x, (6, 3, 2), (0, 1), scale, shift, method)


IMAGE = [
    *rows("image", "resize", *IMAGES, grad=("f8[4,5,2]",),
          call=lambda f, x: [f(x, (6, 5, 2), method) for method in METHODS]),
    *rows("image", "resize", "f4[4,5,2]", "u1[4,3,1]:wide", id="smaller",
          call=lambda f, x: [f(x, (3, 2, 1), method, antialias) for method in ("linear", "cubic")
                             for antialias in (True, False)]),
    *rows("image", "resize", "f4[4,5,2]", "i4[4,3,1]:wide", id="nearest", oracle=_nearest,
          call=lambda f, x: [f(x, shape, "nearest") for shape in ((8, 5, 2), (2, 7, 3))]),
    *rows("image", "scale_and_translate", "f4[4,5,2] f4[2]:0.5..2 f4[2]:small",
          call=lambda f, x, scale, shift: [_moved(f, x, scale, shift, method) for method in METHODS[1:]]),
    *rows("image", "scale_and_translate", "f8[4,5,2] f8[2]:0.5..2 f8[2]:small", id="linear",
          grad=("f8[4,5,2] f8[2]:0.5..2 f8[2]:small",),
          # Simple fractions put samples on kinks of the kernel, where rounding decides which of two slopes is taken.
          call=lambda f, x, scale, shift: _moved(f, x, scale * (np.pi / 3), shift + 0.01, "linear")),
    *rows("image", "scale_and_translate", "f8[4,5,2] f8[2]:0.5..2 f8[2]:small", id="smooth",
          grad=("f8[4,5,2] f8[2]:0.5..2 f8[2]:small",),
          call=lambda f, x, scale, shift: [_moved(f, x, scale, shift, method) for method in METHODS[2:]]),
    *rows("image", "scale_and_translate", "f4[4,5] f4[1]:0.5..2 f4[1]:small", id="aliased",
          call=lambda f, x, scale, shift: f(x, (4, 3), (-1,), scale, shift, "linear", antialias=False)),
]


def _segments(update, start):
    """Rows are added to their segments one after the other; ids out of range are dropped."""
    def oracle(data, ids, num_segments, **_):
        y = np.full((num_segments, *data.shape[1:]), start(data.dtype), data.dtype)
        for row, i in zip(data, ids, strict=True):
            if 0 <= i < num_segments:
                y[i] = update(y[i], row)
        return y
    return oracle


def _lowest(dtype):
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _highest(dtype):
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


SEGMENTS = ("f4[6,2] i4[6]:0..4", "i4[6]:wide i4[6]:0..4", "bf[6,2] i4[6]")
NO_ROWS = "f8[0,2] i4[0]"


def _in_segments(f, data, ids):
    return f(data, ids, 4), f(data, ids, num_segments=5, mode="drop"), f(data, ids, 4, bucket_size=2)


D = ("f8[6,2] i4[6]:0..4",)

OPS = [
    *rows("ops", "segment_sum", *SEGMENTS, NO_ROWS, call=_in_segments, oracle=_segments(np.add, lambda dtype: 0),
          grad=D),
    *rows("ops", "segment_prod", *SEGMENTS, NO_ROWS, call=_in_segments, oracle=_segments(np.multiply, lambda dtype: 1)),
    *rows("ops", "segment_max", *SEGMENTS, call=_in_segments, oracle=_segments(np.maximum, _lowest)),
    *rows("ops", "segment_min", *SEGMENTS, call=_in_segments, oracle=_segments(np.minimum, _highest)),
    # Only non-empty segments: the extremum of an empty one is infinite.
    *rows("ops", "segment_max segment_min", "f4[6,2] i4[6]:permutation", id="smooth",
          grad=("f8[6,2] i4[6]:permutation",), call=lambda f, data, ids: f(data, ids // 2, 3)),
    *rows("ops", "segment_sum segment_prod segment_max segment_min", "f4[6,2]:edges i4[6]:ascending", oracle=None,
          call=lambda f, data, ids: f(data, ids, 4, indices_are_sorted=True, mode="drop"), id="sorted"),
]

KINDS = (np.integer, np.floating, np.inexact, np.complexfloating, np.number, np.bool_)
SCALARS = (bool, int, float, complex)
PROPERTIES = ("bits", "nmant", "eps", "max", "tiny", "smallest_normal")
EACH = ("f4[]", "bf[]", "i1[]", "u4[]", "b1[]", "c8[]")

DTYPES = [
    *rows("dtypes", "canonicalize_dtype", *EACH, call=lambda f, x: (np.zeros(2, f(x.dtype)), np.zeros(2, f(float)))),
    *rows("dtypes", "issubdtype", *EACH, call=lambda f, x: np.array([f(x.dtype, kind) for kind in KINDS])),
    *rows("dtypes", "itemsize_bits", *EACH, call=lambda f, x: np.array([f(x.dtype), f(np.int16)])),
    *rows("dtypes", "scalar_type_of", *EACH, call=lambda f, x: np.array([f(x) is kind for kind in SCALARS])),
    *rows("dtypes", "result_type", "f4[] i4[]", "bf[] f2[]", "i4[] u4[]", "c8[] f8[]", "b1[] u1[]",
          call=lambda f, x, y: [np.zeros(2, f(*args)) for args in (
              (x, y), (x.dtype, y.dtype), (x, 1), (x, 1.0), (y, 1j), (y, True), (1, 2.0), (y, np.float32))]),
    *rows("dtypes", "finfo", "f4[]", "bf[]", "f2[]", "c8[]", call=lambda f, x: [
        np.array(getattr(f(x.dtype), name), np.float64) for name in PROPERTIES]),
    *rows("dtypes", "iinfo", "i1[]", "u4[]", "i8[]", call=lambda f, x: [
        np.array([getattr(f(x.dtype), name)], x.dtype) for name in ("bits", "min", "max")]),
]


def _raveled(f, x, y):
    flat, unravel = f({"b": x, "a": [y, (x, 1.0)]})
    return flat, unravel(flat * 2)


def _series(f, x, dx, ddx):
    """Derivatives along a curve of sums, products, quotients, and of the functions that have rules."""
    jnp = library_of(f).numpy
    functions = (lambda x: x * x * x - 2 * x, lambda x: 1 / x, jnp.exp, jnp.log, jnp.sin, jnp.tanh, jnp.sqrt,
                 lambda x: jnp.dot(x, x) * x.sum(), lambda x: jnp.where(x > 4, x * x, -x))
    return [f(g, (x,), ((dx, ddx),)) for g in functions]


OTHERS = [
    *rows("flatten_util", "ravel_pytree", "f4[2,3] f4[]", "i4[2] f4[0]", "c8[2] f8[3]", call=_raveled,
          grad=("f8[2,3] f8[2]",)),
    *rows("experimental.jet", "jet", "f4[3]:1..8 f4[3]:small f4[3]:small", "f8[2]:1..8 f8[2]:small f8[2]:small",
          call=_series, vmap=False, tol=64),       # sums of terms up to 500 times as large
    # y' = -2 t y, with the solution y0 exp(-t ** 2); the step allows an error of 1e-8. From 0 JAX's result is NaN.
    *rows("experimental.ode", "odeint", "f8[2]:1..2 f8[4]:increasing", grad=(), tol=1e7,
          call=lambda f, y, t: f(lambda y, t: -2 * t * y, y, abs(t / 8).cumsum()),
          oracle=lambda _, y, t: y * np.exp(-np.square(t) + np.square(t[0]))[:, None]),
]

ROWS = [*IMAGE, *OPS, *DTYPES, *OTHERS]
