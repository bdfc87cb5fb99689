"""Functions of `xjax.numpy` that make arrays: from shapes, from numbers, or like another array."""

from __future__ import annotations

import numpy as np

from tests.values.row import rows

NOTHING = ("",)
SCALARS = ("f4[] f4[]", "f8[] f8[]", "i4[] i4[]", "c8[] c8[]", "f4[2] f4[3,1]")
POSITIVE = ("f4[]:positive f4[]:positive", "f8[2]:positive f8[]:positive", "i4[2]:1..9 i4[]:1..9")
ANY = ("f4[2,3]:wide", "i4[3]:wide", "b1[2]", "c8[0,2]", "bf[]")
MATRICES = ("f4[2,3,4]:wide", "i4[3,2]:wide", "b1[2,2]", "c16[2,3]", "f2[3,0]")
VECTORS = ("f4[3]", "i4[2]", "c8[3]", "b1[4]", "f8[2,3]:edges")
D = ("f8[3]",)


def _printed(f):
    with np.printoptions():                         # it restores the options
        f(precision=3)
        return str(np.array([1 / 3]))


def _printed_within(f):
    with f(precision=3):
        return str(np.array([1 / 3]))


ROWS = [
    # -- from nothing -------------------------------------------------------------------------------------------------
    *rows("numpy", "zeros ones", *NOTHING, call=lambda f: (
              f(3), f((2, 0)), f(()), f((2, 3), dtype="int8"), f((2,), "bool"), f([2, 1], dtype=complex),
              f(np.int32(2)))),
    # The content of an `empty` array is undefined, except that in JAX and here it is zero.
    *rows("numpy", "empty", *NOTHING, oracle=None, call=lambda f: (f(3), f((2, 0)), f((2, 3), dtype="int8"))),
    *rows("numpy", "full", *NOTHING, call=lambda f: (
              f(3, 2), f((2, 2), 2.5), f((), True), f((2, 0), 1j), f((2, 3), np.arange(3)), f(2, 3.7, dtype="int32"),
              f((2, 2), np.array([[1], [2]], np.float32), dtype="bool"))),
    *rows("numpy", "full", "f4[]:edges", "i4[3]:wide", "c8[1]",
          call=lambda f, x: (f((2, 3), x), f((3,), x, "complex64"))),
    *rows("numpy", "arange", *NOTHING, call=lambda f: (
              f(4), f(0), f(-3), f(1, 7), f(7, 1), f(1, 8, 3), f(8, 1, -3), f(3.5), f(0.5, 3), f(0, 1, 0.25),
              f(1, 0, -0.3), f(5, dtype="float32"), f(2, 9, 2, dtype="uint8"), f(-2, 3, dtype="int8"),
              f(0, 3, 0.5, dtype="float64"), f(1, stop=5), f(2, step=2, stop=7), f(np.int16(3)), f(np.float32(2.5)),
              f(0, 9, 2.5, dtype="int32"), f(1, 2.5, 0.3, dtype="int32"), f(9.5, -3, -1.5, dtype="int8"),
              f(2.5, dtype="complex64"))),
    *rows("numpy", "arange", *NOTHING, id="of ints from fractions",
          differs="JAX rounds start and step; NumPy start and start + step",
          call=lambda f: (f(0.5, 9, 0.5, dtype="int32"), f(-0.5, 9, 0.5, dtype="int32"))),
    *rows("numpy", "eye", *NOTHING, call=lambda f: (
              f(3), f(2, 4), f(4, 2, 1), f(3, k=-1), f(3, 3, 5), f(2, 3, -7), f(0), f(2, 0), f(3, dtype="int32"),
              f(2, dtype="bool"), f(3, 4, k=2, dtype="complex64"))),
    *rows("numpy", "identity", *NOTHING, call=lambda f: (f(3), f(0), f(2, dtype="int8"), f(2, "bool"))),
    # With 64 bits JAX's default is still float32; xjax's is the default float, as in NumPy.
    *rows("numpy", "tri", *NOTHING, call=lambda f: (
        *(f(*args, dtype="float32") for args in ((3,), (2, 4), (4, 2, 1), (3, 3, -1), (3, 3, 5), (2, 3, -7), (0,))),
        f(3, k=-1, dtype="int32"), f(2, dtype="bool"))),
    *rows("numpy", "indices", *NOTHING,
          call=lambda f: (f((2, 3)), f((4,)), f(()), f((2, 0)), f((2, 3), dtype="float32"), f((2, 1, 2), sparse=True))),
    *rows("numpy", "fromfunction", *NOTHING, call=lambda f: (
              f(lambda i, j: 2 * i + j, (2, 3)), f(lambda i: i, (4,), dtype="int32"), f(lambda i, j: i == j, (3, 3)))),
    *rows("numpy", "bartlett blackman hamming hanning", *NOTHING, call=lambda f: (f(0), f(1), f(2), f(3), f(8), f(31))),
    *rows("numpy", "kaiser", *NOTHING, call=lambda f: [f(n, b) for n in (0, 1, 2, 5, 31) for b in (0, 1.5, 5, 14.0)]),
    *rows("numpy", "kaiser", "f8[]:0..20", call=lambda f, beta: (f(7, beta), f(12, beta)), grad=("f8[]:positive",)),
    *rows("numpy", "kaiser", "f4[]:count", "i4[]:count", id="single",
          differs="JAX divides by i0(beta) of single precision, though the result is of double precision",
          call=lambda f, beta: (f(7, beta), f(12, beta))),
    *rows("numpy", "tril_indices triu_indices", *NOTHING,
          call=lambda f: (f(3), f(0), f(3, 1), f(3, -1), f(2, k=5), f(3, 0, 2), f(2, m=4), f(4, -2, 3))),
    *rows("numpy", "diag_indices", *NOTHING, call=lambda f: (f(3), f(0), f(2, 3), f(4, ndim=1))),
    # The function argument gets the library's own array.
    *rows("numpy", "mask_indices", *NOTHING, jit=False, call=lambda f: (
              f(3, lambda m, k: m * np.triu(np.ones((3, 3), bool), k), 1), f(2, lambda m, k: m * np.eye(2) > 0))),

    # -- between numbers ----------------------------------------------------------------------------------------------
    # Points near the end have the rounding of (stop - start) / n * i: some ulps of the larger end, which scale covers.
    *rows("numpy", "linspace", *SCALARS, grad=("f8[] f8[2]",), call=lambda f, a, b: (
              f(a, b), f(a, b, 4, axis=-1), f(a, b, 5, endpoint=False), f(a, b, 1), f(a, b, 0),
              f(a, b, 3, retstep=True))),
    *rows("numpy", "linspace", *NOTHING, id="of Python numbers", call=lambda f: (
              f(0, 1, 5), f(0, 10, 4, dtype="int32"), f(-3.5, 3.5, 8, dtype="int8"), f(2, 2, 3), f(1j, 2, 3),
              f(5, 1, 1, False), f(0, 1, 3, dtype="float32", retstep=True))),
    *rows("numpy", "logspace", "f4[]:small f4[]:small", "f8[2]:small f8[]:small", "i4[]:0..4 i4[]:0..4",
          grad=("f8[]:small f8[2]:small",), call=lambda f, a, b: (
              f(a, b, 5), f(a, b, 4, endpoint=False), f(a, b, 3, base=2), f(a, b, 0), f(a, b, 1), f(a, b, 3, axis=-1))),
    *rows("numpy", "logspace", "f4[]:small f8[]:small", id="in a dtype",
          call=lambda f, a, b: (f(a, b, 3, dtype="float32"), f(a, b, 3, dtype="int32"))),
    *rows("numpy", "geomspace", *POSITIVE, grad=("f8[]:positive f8[2]:positive",), call=lambda f, a, b: (
              f(a, b, 5), f(a, b, 4, endpoint=False), f(a, b, 1), f(a, b, 0), f(a, b, 3, axis=-1), f(-a, -b, 4))),
    *rows("numpy", "geomspace", "c8[]:positive c8[]:positive", "f4[]:positive c8[2]:positive", id="of complex numbers",
          grad=("c16[]:positive c16[2]:positive",),
          call=lambda f, a, b: (f(a, b, 5), f(a, b, 4, endpoint=False), f(a, b, 3, axis=-1))),
    *rows("numpy", "meshgrid", "f4[2] f4[3]", "i4[3] f8[1]", "c8[2] b1[0]", grad=("f8[2] f8[3]",),
          call=lambda f, x, y: (
              f(x), f(x, y), f(x, y, indexing="ij"), f(x, y, x), f(x, y, sparse=True),
              f(y, x, sparse=True, indexing="ij"), f(x, y, copy=True))),

    # -- like another array -------------------------------------------------------------------------------------------
    *rows("numpy", "zeros_like ones_like", *ANY,
          call=lambda f, x: (f(x), f(x, dtype="int16"), f(x, shape=(2, 2)), f(x, dtype="complex64", shape=()))),
    *rows("numpy", "empty_like", *ANY, oracle=None, call=lambda f, x: (f(x), f(x, dtype="int16"), f(x, shape=(2, 2)))),
    *rows("numpy", "full_like", *ANY, call=lambda f, x: (
              f(x, 1), f(x, True), f(x, 2, dtype="float32"), f(x, 2, shape=(2, 2)),
              f(x, 0.5, dtype="complex64", shape=()))),
    *rows("numpy", "full_like", "f4[2,3] f4[3]", "i4[2] i4[]", "bf[2,2] bf[2,1]", id="of an array",
          grad=("f8[2,3] f8[3]",)),
    *rows("numpy", "copy", *ANY, grad=D),
    *rows("numpy", "asarray", *ANY, grad=D, call=lambda f, x: (f(x), f(x, copy=True), f(x, dtype=x.dtype))),
    *rows("numpy", "array", *ANY, grad=D, call=lambda f, x: (f(x), f(x, ndmin=3), f([x, x]), f([[x], [x]]), f((x,)))),
    *rows("numpy", "array asarray", *NOTHING, id="of lists", call=lambda f: (
              f(3), f(2.5), f(True), f(1j), f([]), f([1, 2.5]), f([[1, 2], [3, 4]]), f((True, 2)), f([1, 2j]), f([[]]),
              f([1, 2], dtype="float32"), f([0.5, 2], dtype="int32"), f([0, 3], dtype="bool"), f(range(3)))),
    *rows("numpy", "astype", "f4[3]", "i4[3]:wide", "b1[2]", "u1[3]:wide",
          call=lambda f, x: [
              f(x, t) for t in ("bool", "int8", "int32", "int64", "float16", "float32", "float64", "complex64")]),
    *rows("numpy", "astype", "i4[3]:wide", "i1[3]:wide", "f4[2]:positive", id="to unsigned",
          call=lambda f, x: (f(x, "uint8"), f(x, "uint32"))),
    *rows("numpy", "astype", "c8[3]", id="of complex", call=lambda f, x: (f(x, "complex128"), f(x, "bool"))),
    *rows("numpy", "astype", "f8[3]", id="of doubles", grad=D, call=lambda f, x: (f(x, "float64"), f(x, "complex128"))),

    # -- parts of matrices, and matrices of parts ---------------------------------------------------------------------
    *rows("numpy", "tril triu", *MATRICES, grad=("f8[3,2]",), call=lambda f, x: (f(x), f(x, 1), f(x, k=-1), f(x, 5))),
    *rows("numpy", "diag", *MATRICES[1:], *VECTORS[:2], grad=("f8[3,2]", "f8[2]"),
          call=lambda f, x: (f(x), f(x, 1), f(x, k=-2), f(x, 5))),
    *rows("numpy", "diagflat", *VECTORS, grad=D, call=lambda f, x: (f(x), f(x, 1), f(x, k=-2))),
    # JAX's derivative of x ** 0 is NaN at 0, so derivatives are taken away from 0.
    *rows("numpy", "vander", "f4[3]:small", "f8[3]:edges", "i4[2]", "c8[3]:small", "bf[2]:small",
          grad=("f8[3]:positive",), call=lambda f, x: (f(x), f(x, 2), f(x, N=4, increasing=True), f(x, 0), f(x, 1))),
    *rows("numpy", "tril_indices_from triu_indices_from", "f4[2,3]", "i4[3,3]", "b1[2,0]",
          call=lambda f, x: (f(x), f(x, 1), f(x, k=-1))),
    *rows("numpy", "diag_indices_from", "f4[2,2]", "i4[3,3,3]", "b1[0,0]"),

    # -- from bytes, text, iterators: on the host ---------------------------------------------------------------------
    *rows("numpy", "frombuffer", *NOTHING, jit=False, call=lambda f: (
              f(b"abcd", "uint8"), f(b"12345678", "float32"), f(b"12345678", dtype="int16", count=2, offset=2))),
    *rows("numpy", "fromstring", *NOTHING, jit=False, call=lambda f: (
              f("1 2 3.5", sep=" "), f("1,2,3", dtype="int32", sep=","), f("1 2 3", "float32", 2, sep=" "))),
    *rows("numpy", "from_dlpack", "f4[2,3]:wide", "i4[3]:wide", "u1[2]", "c8[2]", "f8[0]", jit=False),

    # -- to text ------------------------------------------------------------------------------------------------------
    # NumPy computes in double precision, so its text shows more digits.
    *rows("numpy", "array_repr array_str", "f4[3]:edges", "i4[2,2]:wide", "c8[0]", jit=False, oracle=None),
    *rows("numpy", "get_printoptions", *NOTHING, jit=False, call=lambda f: (f()["precision"], f()["threshold"])),
    *rows("numpy", "set_printoptions", *NOTHING, jit=False, call=_printed),
    *rows("numpy", "printoptions", *NOTHING, jit=False, call=_printed_within),
]
