"""Table of calls of the functions of `xjax.numpy`: a `FunctionRow` for each function and line.

The language is that of `calls` in `tests/values/row.py`. A tuple holds the arguments of one call, with keywords in a
dict at its end; any other value is the only argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle import current, only
from tests.values.row import FunctionRow, calls

_rng = np.random.default_rng(0)
X = _rng.normal(size=(3, 4)).astype(np.float32)                  # few shapes, because each new one is compiled
V = X[0]
POS = np.abs(X) + np.float32(0.5)
UNIT = np.tanh(X)
I = _rng.integers(-4, 5, (3, 4)).astype(np.int32)                # noqa: E741
U = _rng.integers(0, 6, (3, 4)).astype(np.uint8)
B = X > 0
H = X.astype(np.float16)
C = (X + 1j * X[::-1]).astype(np.complex64)
NAN = X.copy()
NAN[0, 1], NAN[:, 2] = np.nan, np.nan
EDGE = np.array([[np.nan, np.inf, -np.inf, -0.0]] * 3, np.float32)
X3 = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
ROWS: list[FunctionRow] = []


def rows(names: str, *arguments: Any) -> None:
    """Add calls of each function, written as for `calls`."""
    ROWS.extend(calls("numpy", names, *arguments))


# -- element-wise -------------------------------------------------------------------------------------------------
rows("exp exp2 expm1 sin cos tan sinh cosh tanh arcsinh asinh arctan atan cbrt", X, I, True)
rows("deg2rad rad2deg radians degrees sinc rint", X, I, True)
rows("log log1p log2 log10 sqrt", POS, I)
rows("log log1p log10 sqrt", 2)
rows("log2", *current([only(2, since="0.12")]))                 # strongly typed before 0.12
rows("arcsin arccos asin acos arctanh atanh", UNIT, C)
rows("arccosh acosh", POS + 1)
rows("negative sign abs absolute fabs square floor ceil trunc positive reciprocal real imag conj conjugate", X, I, 2.5)
rows("negative square conj real imag abs", C)
rows("negative sign", B)
rows("isnan isinf isfinite isposinf isneginf signbit nan_to_num", EDGE, I, C)
rows("iscomplex isreal angle", C, X)
rows("bitwise_not bitwise_invert invert bitwise_count", I, B)
rows("logical_not", X, B)
rows("add subtract multiply true_divide divide maximum minimum power pow float_power arctan2 atan2 hypot fmax fmin "
     "copysign logaddexp logaddexp2 heaviside nextafter", (POS, V), (POS, I), (POS, 2), (2.0, POS))
rows("add multiply maximum minimum", (B, B), (U, I), (C, X), (H, X), (H, 2.5), (I, 2.5), (2, 3), (EDGE, X))
rows("power", (X, 3), (X, -2), (I, 2), (I, -1), (I, U), (3, U), (X, I))
rows("floor_divide remainder mod fmod divmod", (X, V), (I, 3), (U, 2), (I, I), (X, -1.5), (EDGE, X))
rows("equal not_equal less less_equal greater greater_equal", (X, V), (I, 1), (C, C[::-1]), (EDGE, EDGE))
rows("bitwise_and bitwise_or bitwise_xor", (I, U), (B, B), (I, 3), (X, X))
rows("left_shift right_shift bitwise_left_shift bitwise_right_shift", (I, 2), (U, 1))
rows("logical_and logical_or logical_xor", (X, I), (B, B))
rows("modf", X)
rows("ldexp", (X, I), (X, X))
rows("round around", X, (X, 2), I, C, (H, 1))
rows("clip", (X, -0.5, 0.5), (X, None, V), (I, 0, 2), (I, 0.5), (C, 0, 1))
rows("where", (B, X, 0), (B, 1, 0), (B, X, V), (X, I, U), (True, X, 2.0), B, (B, X))
rows("isclose allclose array_equal array_equiv", (X, X), (NAN, NAN, {"equal_nan": True}), (X, I))
rows("allclose isclose", (X, V))
rows("array_equal array_equiv", (X, V))

# -- creation -----------------------------------------------------------------------------------------------------
rows("array asarray", [[1, 2], [3, 4]], [1, 2.5], [], [True, 2], [X, X], X, 2.5, True, 1 + 2j, 2**40, [[1], [1, 2]],
     "a", ([1, 2], {"dtype": "bfloat16"}), (3, {"dtype": "float16"}), (X, "int32"))
rows("array", (X, {"ndmin": 3}))
rows("zeros ones empty", 3, ((2, 3), "int32"), ((),))
rows("full", ((2, 3), 2), ((3, 4), V), ((), 2.5), ((2,), 2, "uint8"))
rows("zeros_like ones_like empty_like", X, 2.0, (I, {"shape": 2}))
rows("full_like", (X, 2), (I, 2.7), (X, V))
rows("arange", 5, 5.0, (2, 10, 3), (10, 2, -3), (0, 1, 0.25), (1.5, 4), 0, (5, 2), (5, {"dtype": "float32"}))
rows("linspace", (0, 1, 5), (0, 1, 5, False), (0, 10, 5, {"dtype": "int32"}), (0, 1, 1), (0, 1, 0), (V, 2.0, 3),
     (V, 2.0, 3, {"axis": -1}), (0, 1, 5, {"retstep": True}), (0, 1, -1))
rows("logspace", (0, 2, 5))
rows("geomspace", (1, 1000, 4))
rows("eye", 3, (3, 4, 1), (3, None, -1, "int32"))
rows("identity", 2)
rows("tri", (3, 4, -1, "int32"), *current([only((3, 4, -1), since="0.12")]))     # before 0.12 float32 with x64 too
rows("indices", ((2, 3),), ((2, 3), {"sparse": True}))
rows("meshgrid", (V, X[:, 0]), (V, X[:, 0], {"indexing": "ij", "sparse": True}), (V, {"indexing": "no"}))
rows("astype", (X, "int32"), (X, bool))
rows("copy", X)
rows("frombuffer", (b"\0\0\x80?", "float32"))
rows("fromfunction", (lambda i, j: i + j, (2, 3)))

# -- shapes and order ---------------------------------------------------------------------------------------------
rows("reshape", (X, (4, 3)), (X, (2, -1)), (X, -1), (X, (5,)), (X, (2, -1), "F"), (X, (-1, -1)))
rows("ravel", X, (X, "F"))
rows("expand_dims", (X, (0, -1)), (X, 5))
rows("squeeze", X[None, :, :, None], (X[None], 0), (X, 0))
rows("atleast_1d atleast_2d atleast_3d", 2.0, V, X)
rows("resize", (V, (3, 3)))
rows("transpose", X3)
rows("transpose", (X3, (1, 0, -1)))
rows("permute_dims", (X3, (1, 0, 2)))
rows("swapaxes", (X3, 0, -1))
rows("moveaxis", (X3, 0, -1), (X3, (0, 1), (-1, 0)))
rows("rollaxis", (X3, 2), (X3, 0, 3))
rows("matrix_transpose", X3, V)
rows("flip", X3, (X3, -1))
rows("fliplr flipud", X)
rows("rot90", *[(X, k) for k in range(4)], (X3, 1, (1, 2)))
rows("roll", (X, 1), (X, -3, 1), (X, (1, 2), (0, 1)), (X, 1, (0, 1)))
rows("tile", (X, 2), (V, (2, 2)), (X, (2, 1, 1)))
rows("repeat", (X, 2), (X, 3, 1), (X, np.array([1, 0, 2]), 0), (2.0, 3),
     (X, np.array([1, 0, 2]), 0, {"total_repeat_length": 5}))
rows("unstack", X, (X, {"axis": 1}))
rows("trim_zeros", np.array([0, 1, 0, 2, 0]))
rows("concatenate concat stack vstack hstack dstack column_stack", [X, I], [V, X[1]])
rows("concatenate stack", [])
# An array in place of a sequence: its slices along the first axis are joined.
rows("concatenate stack vstack hstack dstack column_stack", X3, X, X[:, :0], X[:0], X[0, 0])
rows("concatenate stack", (X3, 1), (X3, -1), (X3, 3))
rows("concatenate", (X3, None), V)
rows("vstack hstack dstack column_stack", V)
rows("concatenate", ([X, X], 1), ([X, X], None), [1, 2], [X, V])
rows("stack", ([X, X], -1), [1, 2], [X, V])
rows("block", [[X, X], [I, I]])
rows("append", (X, X, 0), (X, 2.0))
rows("split array_split", (X, 2, 1), (X, 3, 1), (X, [1, 2], 1))
rows("hsplit", (X, 2))
rows("vsplit", (X, 3))
rows("dsplit", (X3, 2))
rows("delete", (X, 1, 0), (X, slice(1, 3), 1))
rows("insert", (X, 1, 5.0, 0), (V, 1, 7), (X, 1, V, 0))
for mode in ("constant", "edge", "linear_ramp", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "median"):
    rows("pad", (X, ((1, 2), (0, 5)), {"mode": mode}), (I[0], (2, 3), {"mode": mode}))
rows("pad", (X, 1, {"constant_values": ((1, 2), (3, 4))}), (X, 1, {"mode": "reflect", "reflect_type": "odd"}),
     (X, 2, {"mode": "mean", "stat_length": 2}), (X, -1), (X, 1, {"mode": "nope"}), (X, ((1, 1),)))
rows("broadcast_to", (V, (3, 4)), (V, (3, 3)))
rows("broadcast_arrays", (V, X[:, :1]))
rows("broadcast_shapes", ((2, 1), (3,)), ((2,), (3,)))
rows("diag", V, (V, 1), (V, -2), (X, 1), X3)
rows("diagflat", X)
rows("diagonal", X, (X, -1), (X, 3), (X, 4), (X, -3), (X3, 1, 0, 2), (X[:0], 1))
rows("tril triu", X, (X3, 1), (X, -1), V)
rows("diag_indices tril_indices triu_indices", 3)
rows("vander", V, (V, 2, True))

# -- reductions ---------------------------------------------------------------------------------------------------
_REDUCE = (X, (X, 0), (X, (0, -1), {"keepdims": True}), (I, 0), (NAN, 0))
rows("sum prod mean var std max min amax amin all any ptp count_nonzero", *_REDUCE)
rows("nansum nanprod nanmean nanvar nanstd nanmax nanmin", *_REDUCE)
rows("sum prod mean var std", (H, 0), (C, 0), (U, 0), (X, 0, {"where": B}), (X, 0, {"dtype": "float16"}), 3, (X[:0], 0))
rows("sum max", (X, 2), (X, (0, 0)), (X, {"out": 1}), [1, 2])
rows("var std", (X, 0, {"ddof": 1}), (X, 0, {"ddof": 3}))
rows("sum", (X, 0, {"initial": 2.0}), (B, 1))
_SIGNS = np.array([[-1, 1, 0], [0, 0, 0]])
rows("sum prod nansum nanprod", (_SIGNS, 1, {"dtype": bool}),
     (_SIGNS, 0, {"dtype": bool, "initial": 2, "where": _SIGNS < 1}))
rows("mean nanmean", (_SIGNS, 1, {"dtype": bool}))
rows("max", (X, 0, {"initial": 0.5, "where": B}), (X, {"where": B}), X[:0], (B, 0))
rows("argmax argmin nanargmax nanargmin", X, (X, 1), (NAN, 1, {"keepdims": True}), (X, {"keepdims": True}), (I, 0))
rows("cumsum cumprod nancumsum nancumprod", X, (NAN, 1), (U, 0), (B, 0),
     (np.array([-1, 1, 0]), {"dtype": bool}))                    # jax-ml/jax#37991: the sum is [True, True, True]
rows("cumulative_sum cumulative_prod", (X, {"axis": 0, "include_initial": True}), V, X,
     (V, {"dtype": bool, "include_initial": True}))

# -- products -----------------------------------------------------------------------------------------------------
rows("dot matmul inner", (X, X.T), (V, V), (X, V), (X, I.T), (X3, X3[0].T), (X, X), (I, I.T), (2.0, X))
rows("matmul", (X3, X3.swapaxes(1, 2)), (X3, V), (V, X3.swapaxes(1, 2)), (X3[:, None], X3[0].T),
     (X3[:1], X3.swapaxes(1, 2)), (C, X.T), (B, B.T), (H, H.T))
rows("vdot", (X, X), (C, C))
rows("outer kron", (V, X[1]), (X, I))
rows("tensordot", (X, X.T, 1), (X3, X3, 2), (X3, X3, ((0, 2), (0, 2))), (X3, X, 1), (X, V, 0))
rows("vecdot", (X, X), (C, C), (X3, V))
rows("matvec", (X3, V))
rows("vecmat", (V, X3.swapaxes(1, 2)))
rows("einsum", ("ij,jk->ik", X, X.T), ("ij,kj", X, I), ("ij,jk->ki", X, X.T), ("ii", X[:, :3]), ("ii->i", X[:, :3]),
     ("ij->ji", X), ("ij->", X), ("bij,bkj->bik", X3, X3), ("...ij,...kj->...ik", X3, X3), ("i,j->ij", V, V),
     ("ij,j->i", X, V), ("ij,ij->i", X, X), ("ijk,kl,jm->ilm", X3, X.T, X[:, :3]), ("ij,j", X, X),
     ("ij,jk->iz", X, X.T), (X, [0, 1], X.T, [1, 2], [0, 2]), ("...j,j->...", X3, V), ("ij,ik->", X, X))
rows("cross", (X[:, :3], X[::-1, :3]), (V, V), *current([only((V[:2], V[2:]), until="0.12"),
                                                         only((X[:, :2], X[:, 1:]), until="0.12")]))
rows("trace", X, (X3, 1, 0, 2), U)

# -- order and statistics -----------------------------------------------------------------------------------------
rows("sort argsort", X, (NAN, 0), (X, None), (I, {"descending": True}), 2.0)
rows("lexsort", ([V, X[1]],), ([I[0], X[1]],))
rows("sort_complex", X)
rows("unique", I, (I, True, True, True), (I, {"size": 3}), (I, {"size": 12, "fill_value": -9}),
     (I[:, :1] * 0, {"axis": 0}))
rows("unique_values union1d", I[0], )
rows("union1d intersect1d setdiff1d setxor1d", (I, I[0]))
rows("isin", (I, I[0]), (I, I[0], {"invert": True}), (I, X), (I, I[:0]), (NAN, NAN, {"method": "sort"}),
     (I, I[0], {"method": "no"}))
rows("intersect1d setdiff1d setxor1d", (I, I[0], {"size": 4}), (I[:0], I[0], {"size": 2}))
rows("setxor1d", (I[0], I, {"size": 9, "fill_value": -7}))
rows("setdiff1d", (NAN, X), (I[0], I[:0].astype(np.float32)))
rows("intersect1d", (I, U, {"return_indices": True, "size": 9}))
rows("unique_all unique_counts unique_inverse", I, (NAN[0],), (I, {"size": 12, "fill_value": 9}))
rows("nonzero flatnonzero argwhere", I, (I, {"size": 4}), (I, {"size": 14, "fill_value": 7}))
rows("searchsorted", (np.sort(V), X), (np.sort(V), X, "right"), (np.sort(EDGE[0]), NAN), (np.sort(V), 0.5))
rows("digitize", (X, np.sort(V)), (X, np.sort(V)[::-1].copy(), True))
rows("quantile percentile nanquantile nanpercentile",
     (X, 0.3), (X, np.array([0.1, 0.5], np.float32), 0), (NAN, 0.5, 1), (X, 0.4, {"method": "nearest"}),
     (X, 0.4, 1, {"method": "lower", "keepdims": True}), (X, 0.5, {"method": "no"}))
rows("quantile nanquantile", (NAN, np.float32(0.3), 1, {"method": "inverted_cdf", "weights": POS}),
     (X, np.array([0.0, 0.5, 1.0], np.float32), {"method": "inverted_cdf", "weights": POS - 1}),
     (X, np.float32(0.5), 0, {"method": "inverted_cdf", "weights": POS[:, 0], "keepdims": True}),
     (X, 0.4, {"weights": POS}),
     (X, 0.4, 0, {"method": "inverted_cdf", "weights": POS[0]}), (X[0, 0], 0.5, {"keepdims": True}))
rows("percentile nanpercentile", (X, np.float32(30), {"method": "inverted_cdf", "weights": POS}),
     (X, np.float32(40), 1, {"method": "inverted_cdf"}))
rows("median nanmedian", (X[0, 0], {"keepdims": True}), X, (X, 0), (NAN, 1, {"keepdims": True}))
rows("average", X, (X, {"weights": POS}), (X, 1, {"weights": POS[0]}), (X, 1, V, True), (X, {"weights": V}))
rows("diff", X, (X, 2, 0), (B, 1), (V, {"prepend": 0.0}))
rows("ediff1d", V)
rows("trapezoid", X, (V, POS[0]), (X, {"dx": 0.5, "axis": 0}))
rows("interp", (X, np.sort(V), POS[0]), (X, np.sort(V), POS[0], -1.0, 9.0))
rows("bincount", U[0], (U[0], POS[0]), (U[0], {"length": 3}), (U[0], {"minlength": 9}), X)
rows("histogram", X, (X, 4, (-1, 1)), (X, np.array([-1.0, 0.0, 1.0], np.float32)), (X, 4, {"density": True}))
rows("histogram_bin_edges", (X, 4))
rows("cov corrcoef", X, (V, POS[0]))
rows("cov", (X, {"bias": True}), (X, {"rowvar": False}), (X, {"aweights": POS[0]}))
rows("convolve correlate", (V, X[1, :3]), (X[1, :3], V), (V, V, "same"), (V, X[1, :3], "valid"))

# -- dtypes -------------------------------------------------------------------------------------------------------
rows("result_type", ("float32", "int32"), (X, 2.5), (I, 2.5))
rows("promote_types", ("int32", "float16"))
rows("can_cast", ("int32", "float64"), ("float64", "int32"))
rows("issubdtype", ("float32", np.floating), ("int32", np.inexact))
rows("isdtype", ("float32", "real floating"))
rows("isscalar iscomplexobj isrealobj", 2.0, X)
rows("float32 int32 bfloat16 complex64 bool_", 1, [1, 2], I)

# -- bits, differences, windows, histograms of points --------------------------------------------------------------
rows("gcd lcm", (12, 18), (I, 6), (I, I[::-1].copy()), (U, I), (U, U[0]), (X, 2), (True, 2))
rows("packbits", I, (B, 1), (B, 0, "little"), X, (I, {"bitorder": "x"}), (B[:, :0], 1))
rows("unpackbits", np.uint8(5), U[0], (U, 0, None, "little"), (U[0], {"count": 10}), (U[0], {"count": -3}),
     (U, 1, 40), I)
rows("frexp", X, I, (np.array([0, -0.0, np.inf, np.nan, 1, -3.5, 3e38], np.float32),), 3, H, C)
rows("spacing", X, I, (np.array([0, -0.0, np.inf, np.nan, 1, -3.5, np.finfo("f").min], np.float32),), H, C, 1e-38)
rows("i0", X, 2, H)
rows("bartlett blackman hamming hanning", 5, 4, 1, 0, -1)
rows("kaiser", (5, 2.0), (4, 3), (1, 2.0), (0, 2.0))
rows("gradient", V, I, (X, 2.0), (X, 2.0, 3.0), (X, 2.0, {"axis": 1}), (X, np.sort(V), {"axis": -1}), X3,
     (X, {"axis": (0,)}), V[:1], (V, V[:3]), (X, 1.0, 2.0, 3.0), (V, X), V[:2], C)
rows("unwrap", V * 9, (X * 9, {"axis": 0}), (I, {"period": 3}), (I, {"period": 4}), (X * 9, 4.0), C,
     (U, {"period": 2.0}))
rows("interp", (X, np.sort(V), POS[0], "extrapolate", "extrapolate"), (X, np.sort(V), POS[0], {"period": 1.5}),
     (X, V, POS[0], 1.0, 2.0, 2), (X, V, POS[0], "no"))
rows("histogramdd", X, (X[:, :2], 3), (X[:, :2], [2, 3]), (X[:, :2], 2, [(0, 4), None]), (X[:, :2], [2]), V,
     (X[:, :2], 2, {"density": True}), (X[:, :2], 2, {"weights": POS[:, 0]}), (X[:, :2], 2, [(0, 4)]))
rows("histogram2d", (V, POS[0]), (V, POS[0], 3), (V, POS[0], np.array([-1, 0, 2], np.float32)), (V, X[:, 0]))

# -- polynomials --------------------------------------------------------------------------------------------------
rows("poly", V, I[0], X[:, :3] * 0 + np.float32([[2, 1, 0], [1, 3, 1], [0, 1, 1]]), X, 2.0, C[0], V[:0])
rows("polyval", (I[0], 2), (V, X), (V[:0], 2), (X, 2.0), (I[0], 2.5), (C[0], V), 2.0)
rows("polyadd polysub", (I[0], V[:2]), (1, V), (C[0], I[0]))
rows("polymul", (I[0], I[1]), (V, C[0]), (np.array([0, 0, 1, 2]), V, {"trim_leading_zeros": True}), (X, V),
     (V[:2] * 0, V[:2] * 0, {"trim_leading_zeros": True}))
rows("polydiv", (V, POS[0, :2]), (I[0], np.array([2, 1])), (V[:1], V), (V, V[:1]), (C[0], V[:2]),
     (np.array([1.0, 5, 7], np.float32), np.array([1.0, 2], np.float32), {"trim_leading_zeros": True}))
rows("polyder", V, (I[0], 2), (V, 5), (V, 0), (V, -1), 3.0)
rows("polyint", V, (I[0], 2), (V, 2, 3.0), (V, 2, V[:2]), (V, 2, V[:3]), (V, -1), (V, 0), (C[0], 1, np.ones((1, 1))))

# -- rarer keywords -----------------------------------------------------------------------------------------------
rows("argsort", (X, {"dtype": "int8"}))
rows("cov corrcoef", (X, {"dtype": "float16"}))
rows("nanvar nanstd", (NAN, 0, {"mean": np.zeros((1, 4), np.float32)}))
rows("trim_zeros", np.pad(X, 1), (np.pad(X, 1), "f", 1), np.zeros(3, np.float32))
rows("empty_like", (X, {"device": None}))

rows("polyfit", (V, POS[0], 1), (V, POS[0], 1, {"full": True}), (V, POS[0], 1, {"cov": True}), (V, POS.T, 1),
     (V, POS[0], 1, {"cov": "unscaled", "w": POS[1]}), (V, POS.T, 1, {"cov": True, "w": POS[1]}), (V, POS[0], -1),
     (V, POS[0, :3], 1), (X, V, 1), (V[:2], V[:2], 1, {"cov": True}), (V, V, 1, {"w": X}), (V[:0], V[:0], 1))

# -- files and other libraries ------------------------------------------------------------------------------------
rows("fromstring", ("1,2,3", int, {"sep": ","}), ("1 2.5", {"sep": " "}), ("1 2 3", "float32", 2, {"sep": " "}))
