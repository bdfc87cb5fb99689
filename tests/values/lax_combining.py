"""Functions of `xjax.lax` that combine the numbers of an array: reductions, windows, sorts, dots and convolutions."""

from __future__ import annotations

import sys

import numpy as np
from scipy import signal

from tests.values.row import rows
from xjax.lax import RandomAlgorithm

# NaN, infinities and ties.
EDGED = ("f4[2,3,4]:edges", "f8[2,3,4]", "i4[2,3,4]:wide", "bf[2,3,4]")
D = ("f8[2,3,4]",)


def lax(name, call, *signatures, oracle=None, **options):
    """The one row of a function, with NumPy's equivalent."""
    return rows("lax", name, *signatures, call=call, oracle=oracle, **options)


def lax_of(f):
    """The module `lax` of the function's library; for NumPy's functions, xjax's."""
    return sys.modules["jax.lax" if f.__module__.startswith("jax.") else "xjax.lax"]


def zero(x):
    return x.dtype.type(0)


def one(x):
    return x.dtype.type(1)


def _along_axes(f, x):
    return f(x, (0,)), f(x, (1, 2)), f(x, (0, 1, 2)), f(x, ())


def _running(f, x):
    return f(x), f(x, axis=2), f(x, axis=1, reverse=True)


def _reversible(accumulate):
    def oracle(x, axis=0, reverse=False):
        return np.flip(accumulate(np.flip(x, axis), axis=axis), axis) if reverse else accumulate(x, axis=axis)
    return oracle


def _reduced(ufunc):
    return lambda x, axes: ufunc.reduce(x, axes, dtype=x.dtype)


REDUCTIONS = [
    *lax("reduce_sum", _along_axes, *EDGED, "c8[2,3,4]", "f4[0,3,4]", oracle=_reduced(np.add), grad=D),
    *lax("reduce_prod", _along_axes, "f4[2,3,4]:small", "i4[2,3,4]:wide", "c8[2,3,4]:small", "f4[0,3,4]",
         oracle=_reduced(np.multiply), grad=("f8[2,2,2]",)),
    *lax("reduce_max", _along_axes, *EDGED, "u1[2,3,4]:wide", oracle=_reduced(np.maximum), grad=D),
    *lax("reduce_min", _along_axes, *EDGED, "u1[2,3,4]:wide", oracle=_reduced(np.minimum), grad=D),
    *lax("reduce_and", _along_axes, "b1[2,3,4]", "i4[2,3,4]:wide", "u1[0,3,4]", oracle=_reduced(np.bitwise_and)),
    *lax("reduce_or", _along_axes, "b1[2,3,4]", "i4[2,3,4]:wide", "u1[0,3,4]", oracle=_reduced(np.bitwise_or)),
    *lax("reduce_xor", _along_axes, "b1[2,3,4]", "i4[2,3,4]:wide", "u1[0,3,4]", oracle=_reduced(np.bitwise_xor)),
    *lax("argmax", lambda f, x: (f(x, 0, np.int32), f(x, 2, np.int64), f(x, 1, np.uint8)), *EDGED, "b1[2,3,4]",
         oracle=lambda x, axis, dtype: np.argmax(x, axis)),
    *lax("argmin", lambda f, x: (f(x, 0, np.int32), f(x, 2, np.int64), f(x, 1, np.uint8)), *EDGED, "b1[2,3,4]",
         oracle=lambda x, axis, dtype: np.argmin(x, axis)),
    *lax("cumsum", _running, *EDGED[1:], "f4[0,3,4]", "c8[2,3,4]", grad=D,
         oracle=_reversible(lambda x, axis: np.cumsum(x, axis, x.dtype))),
    *lax("cumprod", _running, "f4[2,3,4]", "i4[2,3,4]:wide", "c8[2,3,4]:small", grad=("f8[2,3,4]:small",),
         oracle=_reversible(lambda x, axis: np.cumprod(x, axis, x.dtype))),
    *lax("cummax", _running, *EDGED, grad=D, oracle=_reversible(np.maximum.accumulate)),
    *lax("cummin", _running, *EDGED, grad=D, oracle=_reversible(np.minimum.accumulate)),
    *lax("cumlogsumexp", _running, "f4[2,3,4]:edges", "f8[2,3,4]", "bf[2,3,4]", grad=D,
         oracle=_reversible(np.logaddexp.accumulate)),
    # The start is the identity of the function: the number of its uses is undefined.
    *lax("reduce", lambda f, x: (f(x, zero(x), lambda a, b: a + b, (0, 2)), f(x, one(x), lambda a, b: a * b, (1,)),
                                 f((x, x), (zero(x), zero(x)), lambda a, b: (a[0] + b[0], a[1] ^ b[1]), (0,))),
         "i4[2,3,4]:wide", "u1[2,3,4]:wide", "i8[0,3,4]"),
    *lax("reduce", lambda f, x: (f(x, zero(x), lambda a, b: a + b, (0, 2)),
                                 f((x, 2 * x), (zero(x), one(x)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,))),
         "f4[2,3,4]", "c8[2,3,4]", id="floats"),
    # JAX differentiates only these functions, and only with a constant start.
    *lax("reduce", lambda f, x: [f(x, start, getattr(lax_of(f), name), (0, 2)) for name, start in (
        ("add", 0.0), ("max", -np.inf), ("min", np.inf))], "f8[2,3,4]:edges", grad=D, id="monoids"),
]

def _windows(f, x, name, start):
    start, update = x.dtype.type(start), getattr(lax_of(f), name)
    return (f(x, start, update, (1, 2, 2)), f(x, start, update, (2, 2, 1), (1, 1, 2), "SAME"),
            f(x, start, update, (1, 3, 2), (1, 2, 1), ((0, 0), (1, 1), (0, 1))))


WINDOWS = [
    *lax("reduce_window", lambda f, x: _windows(f, x, "add", 0) + (
        f(x, zero(x), lax_of(f).add, (1, 3, 2), (1, 2, 1), ((0, 0), (1, 1), (0, 2)), (1, 1, 2), (1, 1, 2)),),
         "f4[2,4,5]", "f8[1,4,3]", "bf[2,4,5]", grad=("f8[1,4,3]",)),
    *lax("reduce_window", lambda f, x: _windows(f, x, "max", -np.inf) + _windows(f, x, "min", np.inf),
         "f4[2,4,5]:edges", "f8[1,4,3]", "bf[2,4,5]", grad=("f8[1,4,3]",), id="max"),
    *lax("reduce_window", lambda f, x: (
        f(x, one(x), lambda a, b: a * b, (2, 2), (1, 2), "SAME"),
        f((x, x), (zero(x), zero(x)), lambda a, b: (a[0] + b[0], a[1] ^ b[1]), (2, 1))),
         "i4[3,4]:wide", "u1[3,4]:wide", id="any"),
    *lax("reduce_window_shape_tuple", lambda f: (
        f((4, 5), (2, 3), (1, 2), ((0, 0), (1, 1))), f((4, 5), (2, 3), (1, 2), ((0, 0), (1, 1)), (2, 1), (1, 2))), ""),
]

SORTS = [
    *lax("sort", lambda f, x: (f(x), f(x, 0), f(x, 1, is_stable=False)), *EDGED, "b1[2,3,4]", grad=D,
         oracle=lambda x, axis=-1, is_stable=True: np.sort(x, axis)),
    *lax("sort", lambda f, x, y: (f((x, y)), f((x, y), 0, num_keys=2), f([y, x, y], num_keys=2)),
         "f4[3,4]:edges f4[3,4]", "i4[3,4]:0..2 f8[3,4]", "c8[3,4] i4[3,4]", grad=("f8[3,4]:distinct f8[3,4]",),
         id="operands"),
    *lax("sort_key_val", lambda f, x, y: (f(x, y), f(x, y, 0), f(y, x, is_stable=True)),
         "f4[3,4]:edges f4[3,4]", "i4[3,4]:0..2 f8[3,4]", grad=("f8[3,4]:distinct f8[3,4]",)),
    *lax("top_k", lambda f, x: (f(x, 2), f(x, 4), f(x, 0), f(x, 2, axis=0)), *EDGED, "u1[2,3,4]", grad=D),
    *rows("lax", "approx_max_k approx_min_k", "f4[3,4]:distinct", "bf[1,4]:permutation", grad=("f8[3,4]:distinct",),
          call=lambda f, x: (f(x, 2), f(x, 1, reduction_dimension=0))),       # exact for so few elements
]

BATCH_DOT = (((2,), (1,)), ((0,), (0,)))
TWO_DOT = (((1, 2), (2, 1)), ((), ()))
EACH_ROW = (((1,), (1,)), ((), ())), [0], [0]
CONTRACTED = (((0,), (0,)), ((), ())), [0], []


def _ragged(x, w, sizes, **_):
    """Rows of x in consecutive groups, each times a matrix of its own; rows beyond the groups are 0."""
    y, start = np.zeros((len(x), w.shape[2])), 0
    for matrix, size in zip(w, sizes, strict=True):
        y[start:start + size] = x[start:start + size] @ matrix
        start += size
    return y


DOTS = [
    *lax("dot", lambda f, x, y: (f(x, y), f(x[0], y), f(x, y[:, 0]), f(x[0], y[:, 0])),
         "f4[2,3] f4[3,4]", "i4[2,3]:wide i4[3,4]:wide", "c8[2,3] c8[3,4]", "bf[2,3] bf[3,4]", "u1[2,3] u1[3,4]",
         oracle=np.dot, grad=("f8[2,3] f8[3,4]", "c16[2,3] c16[3,2]")),
    *lax("dot_general", lambda f, x, y: (f(x, y, BATCH_DOT), f(x, y, TWO_DOT), f(x, y, (((), ()), ((), ()))),
                                         f(x, y, BATCH_DOT, preferred_element_type=np.float32)),
         "f4[2,3,4] f4[2,4,3]", "bf[2,3,4] bf[2,4,3]", "f2[2,3,4] f2[2,4,3]"),
    *lax("dot_general", lambda f, x, y: (f(x, y, BATCH_DOT), f(x, y, TWO_DOT), f(x, y, (((), ()), ((), ()))),
                                         f(x, y, BATCH_DOT, preferred_element_type=np.int64)),
         "i4[2,3,4]:wide i4[2,4,3]:wide", "u1[2,3,4] u1[2,4,3]", id="integers"),
    *lax("dot_general", lambda f, x, y: f(x, y, BATCH_DOT), "c8[2,3,4] c8[2,4,2]", "b1[2,3,4] b1[2,4,2]",
         "f4[2,3,0] f4[2,0,2]", oracle=lambda x, y, _: x @ y, id="batch", grad=("f8[2,3,4] f8[2,4,2]",)),
    *lax("dot_general", lambda f, x, y: (f(x, y, TWO_DOT), f(x, y, (((), ()), ((), ())))), "f4[1,2,3] f4[1,3,2]",
         grad=("f8[1,2,3] f8[1,3,2]",), id="axes"),
    *lax("batch_matmul", lambda f, x, y: f(x, y), "f4[2,3,4] f4[2,4,2]", "bf[2,3,4] bf[2,4,2]", "i4[2,3,4] i4[2,4,2]",
         oracle=np.matmul, grad=("f8[2,3,4] f8[2,4,2]",)),
    *lax("ragged_dot", lambda f, x, w, sizes: f(x, w, sizes), "f4[6,2] f4[3,2,4] i4[3]:0..2",
         "bf[6,2] bf[3,2,4] i4[3]:0..2", oracle=_ragged, grad=("f8[6,2] f8[3,2,4] i4[3]:0..2",)),
    *lax("ragged_dot", lambda f, x, w, sizes: f(x, w, sizes, preferred_element_type=np.float32),
         "bf[6,2] bf[3,2,4] i4[3]:0..2", id="wider"),
    *lax("ragged_dot_general", lambda f, x, w, sizes: [
        f(x, y, sizes, lax_of(f).RaggedDotDimensionNumbers(*dims)) for y, dims in ((w, EACH_ROW), (x, CONTRACTED))],
         "f4[6,2] f4[3,2,4] i4[3]:0..2"),
    *lax("ragged_dot_general", lambda f, x, w, sizes: f(x, w, sizes, lax_of(f).RaggedDotDimensionNumbers(*EACH_ROW)),
         "f4[6,2] f4[3,2,4] i4[3]:0..2", grad=("f8[6,2] f8[3,2,4] i4[3]:0..2",), id="rows"),
    *lax("scaled_dot", lambda f, x, y, s, t: (f(x, y), f(x, y, lhs_scale=s, rhs_scale=t)),
         "f4[2,8] f4[8,3] f4[2,2] f4[4,3]"),
]


def _strided(f, x, w):
    """Channels first; the window has stride 1 or 2 and dilation, and the array is padded and dilated."""
    return (f(x, w, (1, 1), "VALID"), f(x, w, (2, 1), "SAME"), f(x, w, (1, 1), "SAME_LOWER"),
            f(x, w, (2, 1), ((1, 0), (-1, 2)), rhs_dilation=(2, 1)),
            f(x, w, (1, 1), ((1, 1), (0, 3)), lhs_dilation=(1, 2)))


def _channels_last(f, x, w):
    return f(x, w, (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _grouped(f, x, w):
    """Four channels of x in two groups, in four groups of one, and four images in two groups."""
    return (f(x, w[:, :2], (1, 1), "SAME", feature_group_count=2),
            f(x, w[:, :1], (1, 1), "VALID", feature_group_count=4),
            f(x, w, (1, 1), "VALID", batch_group_count=2))


CONVOLUTIONS = [
    *lax("conv_general_dilated", _strided, "f4[2,3,5,4] f4[2,3,2,3]", "bf[2,3,5,4] bf[2,3,2,3]",
         grad=("f8[2,3,5,4] f8[2,3,2,3]",)),
    *lax("conv_general_dilated", _channels_last, "f4[2,5,4,3] f4[2,3,3,2]", "c8[2,5,4,3] c8[2,3,3,2]",
         "i4[2,5,4,3] i4[2,3,3,2]", grad=("f8[2,5,4,3] f8[2,3,3,2]",), id="channels_last"),
    *lax("conv_general_dilated", _grouped, "f4[2,4,5,4] f4[4,4,2,3]", grad=("f8[2,4,5,4] f8[4,4,2,3]",), id="groups"),
    *lax("conv_general_dilated", lambda f, x, w: f(x[None, None], w[None, None], (1,), "VALID")[0, 0],
         "f4[7] f4[3]", oracle=lambda x, w, *_: signal.correlate(x[0, 0], w[0, 0], "valid")[None, None], id="line"),
    *lax("conv", lambda f, x, w: (f(x, w, (1, 1), "SAME"), f(x, w, (2, 2), "VALID")), "f4[2,3,5,4] f4[2,3,2,3]",
         grad=("f8[1,2,3,4] f8[2,2,2,3]",)),
    *lax("conv_with_general_padding", lambda f, x, w: f(x, w, (2, 1), ((1, 0), (0, 2)), (1, 2), (2, 1)),
         "f4[2,3,5,4] f4[2,3,2,3]", grad=("f8[1,2,3,4] f8[2,2,2,3]",)),
    *lax("conv_transpose", lambda f, x, w: (
        f(x, w, (2, 1), "SAME"), f(x, w, (2, 3), "VALID"), f(x, w, (1, 2), ((1, 0), (0, 2)), rhs_dilation=(2, 1)),
        f(x, w.transpose(0, 1, 3, 2), (2, 2), "SAME", transpose_kernel=True),
        f(x, w, (2, 2), "SAME", use_consistent_padding=True)),
         "f4[2,4,3,2] f4[2,3,2,3]", grad=("f8[1,3,2,2] f8[2,3,2,2]",)),
    *lax("conv_general_dilated_local", lambda f, x, w: f(x, w, (1, 1), "VALID", (2, 2)), "f4[2,2,3,4] f4[3,8,2,3]",
         grad=("f8[1,2,3,4] f8[3,8,2,3]",)),
    *lax("conv_general_dilated_patches", lambda f, x: (
        f(x, (2, 3), (1, 1), "SAME"), f(x, (2, 2), (2, 1), ((1, 0), (0, 1)), (1, 2), (2, 1)),
        f(x, (2, 2), (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))), "f4[2,3,5,4]", "bf[1,3,4,3]",
         grad=("f8[1,3,4,3]",)),
    *lax("conv_dimension_numbers", lambda f: (tuple(f((1, 2, 3, 4), (5, 6, 7, 8), ("NHWC", "HWIO", "NCHW"))),
                                              tuple(f((1, 2, 3), (4, 5, 6), None))), ""),
    *lax("conv_general_permutations", lambda f: f(("NHWC", "HWIO", "NCHW")), ""),
    *lax("conv_general_shape_tuple", lambda f: np.array(f((8, 5, 4, 3), (2, 3, 3, 6), (2, 1), "SAME",
                                                            ("NHWC", "HWIO", "NCHW"))),
         ""),
    *lax("conv_shape_tuple", lambda f: (np.array(f((8, 3, 5, 4), (6, 3, 2, 3), (2, 1), "SAME")),
                                        np.array(f((8, 3, 5, 4), (6, 3, 2, 3), (1, 1), ((0, 1), (2, 0)), 2))), ""),
    *lax("conv_transpose_shape_tuple", lambda f: [
        np.array(f((8, 5, 4, 3), (2, 3, 3, 6), (2, 1), pads, ("NHWC", "HWIO", "NHWC")))
        for pads in ("SAME", "VALID", ((1, 0), (2, 2)))], ""),
    *lax("padtype_to_pads", lambda f: (f((5, 4), (2, 3), (1, 2), "SAME"), f((5, 4), (2, 3), (1, 2), "VALID"),
                                       f((5, 4), (2, 3), (2, 1), "SAME_LOWER")), ""),
]

def _bounds(f, low):
    """XLA's numbers differ between programs, so only their bounds are compared."""
    result = f(low, low + 2, (64,))
    return result.min() >= low, result.max() < low + 2, result * 0


OTHERS = [
    *lax("fft", lambda f, x: (f(x, "FFT", (4,)), f(x, "IFFT", (3, 4))), "c8[2,3,4]", "c16[3,4]", grad=("c16[3,4]",),
         oracle=lambda x, kind, n: (np.fft.fftn if kind == "FFT" else np.fft.ifftn)(x, axes=range(-len(n), 0))),
    *lax("fft", lambda f, x: (f(x, "RFFT", (5,)), f(x, "RFFT", (3, 5))), "f4[2,3,5]", "f8[3,5]", grad=("f8[3,5]",),
         oracle=lambda x, kind, n: np.fft.rfftn(x, axes=range(-len(n), 0)), id="real"),
    *lax("fft", lambda f, x: (f(x, "IRFFT", (5,)), f(x, "IRFFT", (3, 4))), "c8[2,3,3]", "c16[3,3]", grad=("c16[3,3]",),
         oracle=lambda x, kind, n: np.fft.irfftn(x, n, axes=range(-len(n), 0)), id="real_inverse"),
    # The bits drawn from the key are JAX's.
    *lax("rng_bit_generator", lambda f, key: (f(key, (2, 3)), f(key, (5,), np.uint8), f(key, (3,), np.uint64),
                                              f(key, (3,), algorithm=RandomAlgorithm.RNG_THREE_FRY)),
         "u4[4]:wide", vmap=False),
    *lax("rng_uniform", _bounds, "f4[]", "i4[]", vmap=False),
]

ROWS = [*REDUCTIONS, *WINDOWS, *SORTS, *DOTS, *CONVOLUTIONS, *OTHERS]
