"""Reductions of `xjax.numpy`, running sums, statistics, differences and integrals, and functions of dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tests.values.row import library_of, rows, since

REALS = ("f4[2,3,2]", "f8[3,2]:edges", "bf[2,3]", "i4[2,3]")
NUMBERS = (*REALS, "c8[2,3]")
EDGES = ("f4[2,3]:edges", "f8[2,1,2]:edges", "bf[2,3]:edges", "i4[2,2]")
MASKED = ("f4[2,3] b1[2,3]", "i4[3,2] b1[2]")
NARROW_MASKED = ("f4[2,3] b1[2,3]", "u1[3,2] b1[2]")
D = ("f8[2,3]",)
DISTINCT = ("f8[2,3]:distinct",)
MASKED_D = ("f8[2,3] b1[2,3]",)
VECTORS = ("f4[5] f4[3]", "i4[2] i4[4]", "bf[3] f4[3]", "c8[3] c8[4]")


def everywhere(f, x):
    """Over all axes, over the last one, and over several with keepdims."""
    return f(x), f(x, axis=-1), f(x, axis=(0, -1), keepdims=True)


def by_axis(f, x):
    return f(x), f(x, axis=-1, keepdims=True)


def by_axis_of_some(f, x):
    """NumPy raises if all elements are NaN, where JAX returns -1, so the first element of such a row is replaced."""
    numpy = getattr(library_of(f), "numpy", np)         # NumPy has no such module
    first = numpy.where(numpy.isnan(x).all(-1, keepdims=True), 0, x[..., :1]).astype(x.dtype)
    return by_axis(f, numpy.concatenate([first, x[..., 1:]], -1))


def running(f, x):
    return f(x), f(x, -1, dtype=np.float64)


def quantiles(f, x):
    """At one place over all elements, and at several along an axis."""
    return f(x, 0.75), f(x, np.array([0.0, 0.3, 1.0]), axis=0), f(x, 0.5, axis=(0, -1), keepdims=True)


def percentiles(f, x):
    return f(x, 75), f(x, np.array([0, 30, 100]), axis=0), f(x, 50, axis=(0, -1), keepdims=True)


def by_methods(f, x):
    return tuple(f(x, q, axis=-1, method=m) for m in ("lower", "higher", "midpoint", "nearest", "inverted_cdf")
                 for q in (0.2, 0.7))


def by_parabolas(f, x):
    return f(x) if f.__module__.startswith("jax") else f(x, edge_order=2)


# For functions of dtypes, not of values.
NAMES = ("bool", "int8", "uint8", "int32", "uint32", "int64", "float16", "float32", "float64", "complex64",
         "complex128")
KINDS = (np.integer, np.signedinteger, np.unsignedinteger, np.floating, np.complexfloating, np.inexact, np.number)


ROWS = [
    *rows("numpy", "sum prod mean", *REALS[:3], "b1[2,2]", "c8[2,3]", "f4[0,3]", grad=D, call=everywhere),
    *rows("numpy", "var std", *NUMBERS, grad=D, call=everywhere),
    *rows("numpy", "max min ptp", *REALS, grad=D, call=everywhere),
    *rows("numpy", "max min", "f4[4]:wide", "b1[3]", id="more"),
    *since("0.12", rows("numpy", "minmax", *REALS, "b1[2,3]", grad=DISTINCT, call=everywhere,
          oracle=lambda x, **options: (np.min(x, **options), np.max(x, **options)))),
    *rows("numpy", "all any count_nonzero", EDGES[0], "i4[2,2]:small", "b1[2,2]", "f4[0,2]", call=everywhere),
    *rows("numpy", "all any", "c8[2,2]:0..0.0625", call=everywhere, id="complex",
          differs="a number is not 0 if its imaginary part is not; JAX looks at the real part alone"),
    *rows("numpy", "count_nonzero", "c8[2,2]:0..0.0625", call=everywhere, id="complex"),
    *rows("numpy", "sum prod", *NARROW_MASKED, grad=MASKED_D, id="masked",
          call=lambda f, x, m: (f(x, where=m), f(x, axis=1, where=m, initial=3), f(x, 0, dtype=np.float64))),
    *rows("numpy", "max min", *MASKED, grad=MASKED_D, id="masked",
          call=lambda f, x, m: (f(x, where=m, initial=2), f(x, axis=1, where=m, initial=-2), f(x, 0, initial=1))),
    *rows("numpy", "mean", *NARROW_MASKED, grad=MASKED_D, id="masked",
          call=lambda f, x, m: (f(x, where=m), f(x, axis=1, where=m, keepdims=True), f(x, 0, dtype=np.float64))),
    *rows("numpy", "var std", *MASKED, id="masked",
          call=lambda f, x, m: (f(x, where=m), f(x, axis=1, where=m, ddof=1), f(x, 0, dtype=np.float64, ddof=1))),
    *rows("numpy", "var std", "f4[2,3]", grad=DISTINCT, id="known",
          call=lambda f, x: (f(x, correction=1), f(x, axis=1, mean=x.mean(axis=1, keepdims=True)),
                             f(x, ddof=2, axis=-1))),
    *rows("numpy", "all any", "f4[2,3]:small b1[2,3]", "b1[3,2] b1[2]", id="masked",
          call=lambda f, x, m: (f(x, where=m), f(x, axis=1, where=m, keepdims=True))),
    # (Not for `median`: with `keepdims`, of a number, JAX's and xjax's result is [1].)
    *rows("numpy", "all any ptp count_nonzero nansum nanprod nanmax nanmin nanmean", "f4[]:edges", id="number",
          call=lambda f, x: (f(x), f(x, keepdims=True))),
    *rows("numpy", "argmax argmin", *EDGES, "f4[3]:wide", "b1[4]", call=by_axis),
    # -- without nan
    *rows("numpy", "nansum nanprod nanmean nanvar nanstd", *EDGES, "c8[2,2]", grad=D, call=everywhere),
    *rows("numpy", "nansum", "c8[2,2]:edges", call=everywhere, id="complex"),
    *rows("numpy", "nanmax nanmin", *EDGES, grad=D, call=everywhere),
    *rows("numpy", "nansum nanprod", "f4[2,3]:edges b1[2,3]", grad=MASKED_D, id="masked",
          call=lambda f, x, m: (f(x, where=m), f(x, axis=1, where=m, initial=3), f(x, 0, dtype=np.float64))),
    *rows("numpy", "nanmax nanmin", "f4[2,3]:edges b1[2,3]", grad=MASKED_D, id="masked",
          call=lambda f, x, m: (f(x, where=m, initial=2), f(x, axis=1, where=m, initial=-2))),
    *rows("numpy", "nanmean nanvar nanstd", "f4[2,3]:edges b1[2,3]", id="masked",
          call=lambda f, x, m: (f(x, where=m), f(x, axis=1, where=m, keepdims=True))),
    *rows("numpy", "nanargmax nanargmin", *EDGES, call=by_axis_of_some),
    # -- averages and quantiles
    *rows("numpy", "average", *NUMBERS, grad=D, call=everywhere),
    *rows("numpy", "average", "f4[2,3] f4[2,3]:positive f4[3]:positive", "i4[2,3] i4[2,3]:1..8 f8[3]:positive",
          "c8[2,2] f4[2,2]:positive f4[2]:positive", grad=("f8[2,3] f8[2,3]:positive f8[3]:positive",), id="weights",
          call=lambda f, x, w, v: (f(x, weights=w), f(x, axis=-1, weights=v, returned=True),
                                   f(x, axis=0, weights=w, keepdims=True, returned=True))),
    *rows("numpy", "median nanmedian", *EDGES, "f4[3,3]", grad=DISTINCT, call=everywhere),
    *rows("numpy", "quantile nanquantile", "f4[2,3]", "f8[3,1,2]", "bf[2,3]", "i4[3,3]", grad=DISTINCT, call=quantiles),
    *rows("numpy", "percentile nanpercentile", "f4[2,3]", "f8[3,1,2]", "i4[3,3]", grad=DISTINCT, call=percentiles),
    # Only float64: for other dtypes JAX fails, because it multiplies its float64 places and the data's dtype.
    *rows("numpy", "quantile nanquantile", "f8[2,4]", "f8[5]", id="methods", call=by_methods),
    *rows("numpy", "quantile nanquantile", "f8[2,4]", id="nan",
          call=lambda f, x: by_methods(f, x + np.array([0, 0, np.nan, 0]))),
    *rows("numpy", "quantile nanquantile", "f8[2,4] f8[2,4]:positive", "f8[5] f8[5]:positive", id="weights",
          call=lambda f, x, w: (f(x, 0.4, axis=-1, weights=w, method="inverted_cdf"),
                                f(x, 0.8, axis=-1, weights=w, method="inverted_cdf", keepdims=True))),
    # -- running
    *rows("numpy", "cumsum cumprod", *REALS, "b1[3]", "f4[0,2]", grad=D, call=running),
    *rows("numpy", "cumsum cumprod nancumsum nancumprod", "c8[2,3]", grad=("c16[2,3]:small",), id="complex",
          call=lambda f, x: (f(x), f(x, axis=-1))),
    *rows("numpy", "nancumsum nancumprod", *EDGES, grad=D, call=running),
    *rows("numpy", "cumulative_sum cumulative_prod", *EDGES[:2], "b1[3,2]", "c8[2,2]", grad=D,
          call=lambda f, x: (f(x, axis=0), f(x, axis=-1, include_initial=True), f(x.ravel()))),
    # -- differences and integrals
    *rows("numpy", "diff", "f4[3,4]", "f8[2,3]:edges", "i4[3,3]", "b1[3,2]", "c8[2,3]", "f4[2,0]", grad=D,
          call=lambda f, x: (f(x), f(x, axis=0), f(x, n=2), f(x, n=0), f(x, prepend=0, append=x))),
    *rows("numpy", "ediff1d", "f4[2,3]", "i4[4]", "c8[3]", "f8[1]", grad=D,
          call=lambda f, x: (f(x), f(x, to_end=x[:1], to_begin=x))),
    *rows("numpy", "gradient", "f4[3,4]", "f8[3,3]", "i4[3,3]", "c8[4,3]", grad=("f8[3,4]",),
          call=lambda f, x: (f(x), f(x, 0.5, axis=0), f(x, 2.0, np.array([0.0, 1.0, 3.0, 3.5])[:x.shape[1]]))),
    *rows("numpy", "gradient", "f4[4]", "i4[5]", "c8[3]", call=by_parabolas, id="edges",
          differs="JAX has no `edge_order`: only its annotation has it"),
    *rows("numpy", "trapezoid", "f4[2,3] f4[3]", "i4[2,3] i4[2,3]", "c8[2,3] f4[3]",
          grad=("f8[2,3] f8[3]",), call=lambda f, y, x: (f(y), f(y, x), f(y, dx=0.5, axis=0),
                                                           f(y, dx=np.array([[2.0], [0.5]])[:, :y.shape[1]]))),
    *rows("numpy", "unwrap", "f4[2,5]", "f8[5]:-99..99", "i4[2,4]", "bf[4]", grad=("f8[2,5]",),
          call=lambda f, x: (f(x), f(x, axis=0 if x.ndim > 1 else -1), f(x, period=4), f(x, discont=5.0, period=3.0))),
    *rows("numpy", "interp", "f4[3] f4[4]:increasing f4[4]", "f8[2,2] f8[3]:increasing c16[3]",
          "i4[3] f4[2]:increasing f4[2]", "f4[]:edges f4[3]:increasing f4[3]",
          grad=("f8[3] f8[4]:increasing f8[4]",),
          call=lambda f, x, xp, fp: (f(x, xp, fp), f(x, xp, fp, left=-9.0, right=9.0))),
    *rows("numpy", "interp", "f4[3] f4[4]:distinct f4[4]", "f8[2] f8[3]:distinct f8[3]", id="period",
          call=lambda f, x, xp, fp: f(x, xp, fp, period=24.0)),
    # -- covariance and convolution
    *rows("numpy", "cov", "f4[2,4]", "f8[3]", "i4[2,3]", "c8[2,3]", grad=("f8[2,4]",),
          call=lambda f, x: (f(x), f(x, x + 1, ddof=0), f(x, rowvar=False, bias=True))),
    *rows("numpy", "cov", "f4[2,3] i4[3]:1..3 f4[3]:positive", "c8[2,3] i4[3]:1..3 f4[3]:positive", id="weights",
          call=lambda f, x, n, w: (f(x, fweights=n), f(x, aweights=w), f(x, fweights=n, aweights=w, ddof=0))),
    *rows("numpy", "corrcoef", "f4[2,4]:distinct", "f8[3,5]:distinct", "c8[2,3]:distinct", grad=("f8[2,4]:distinct",),
          call=lambda f, x: (f(x), f(x, x[::-1]))),
    *rows("numpy", "convolve correlate", *VECTORS, grad=("f8[5] f8[3]",),
          call=lambda f, x, y: (f(x, y), f(x, y, mode="same"), f(x, y, mode="valid"), f(x, y, "full"))),
    # -- dtypes; their promotion is JAX's, not NumPy's
    *rows("numpy", "can_cast", "b1[]", jit=False,
          call=lambda f, _: [f(a, b, casting=c) for a in NAMES for b in NAMES for c in ("safe", "same_kind", "no")]),
    *rows("numpy", "promote_types", "b1[]", jit=False, oracle=None,
          call=lambda f, _: [str(f(a, b)) for a in (*NAMES, ml_dtypes.bfloat16, int, float) for b in NAMES]),
    *rows("numpy", "result_type", "f4[2]", "i4[]", "bf[3]", "c8[]", "u1[2]", jit=False, oracle=None,
          call=lambda f, x: [str(f(x, y)) for y in (*NAMES, ml_dtypes.bfloat16, 1, 1.5, 2j, np.float16(1), x)]),
    *rows("numpy", "issubdtype", "b1[]", jit=False,
          call=lambda f, _: [f(a, b) for a in (*NAMES, *KINDS) for b in KINDS]),
    *rows("numpy", "isdtype", "b1[]", jit=False,
          call=lambda f, _: [f(np.dtype(a), k) for a in NAMES for k in (
              "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric",
              ("bool", "integral"), np.dtype(np.float32))]),
    *rows("numpy", "finfo", "b1[]", jit=False,
          call=lambda f, _: [[float(getattr(f(d), n)) for n in ("bits", "eps", "max", "min", "tiny", "resolution",
                                                                 "smallest_subnormal", "nmant", "nexp", "precision")]
                             for d in ("float16", "float32", "float64", "complex64")]),
    *rows("numpy", "iinfo", "b1[]", jit=False,
          call=lambda f, _: [[int(getattr(f(d), n)) for n in ("bits", "max", "min")] for d in NAMES[1:6]]),
    *rows("numpy", "isscalar", "f4[]", "i4[2]", jit=False, oracle=None, call=lambda f, x: (f(x), f(3), f("a"), f([1]))),
    *rows("numpy", "iscomplexobj isrealobj", "f4[2]", "c8[]", "i4[2]", jit=False,
          call=lambda f, x: (f(x), f(1j), f(2.0))),
]
