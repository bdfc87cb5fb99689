# ruff: noqa: F401
"""NumPy's functions on arrays and traced values, with JAX's rules for dtypes; `import xjax.numpy as jnp`.

Every function checks and promotes its arguments once and then applies operations of `xjax.lax`. Lists are refused
except by `array` and `asarray`; Python numbers are weakly typed. The import attaches methods and operators to arrays.
"""

from types import ModuleType as _Module

from numpy import array_repr as array_repr
from numpy import array_str as array_str
from numpy import get_printoptions as get_printoptions
from numpy import index_exp as index_exp
from numpy import iterable as iterable
from numpy import ndim as ndim
from numpy import printoptions as printoptions
from numpy import s_ as s_
from numpy import save as save
from numpy import savez as savez
from numpy import set_printoptions as set_printoptions
from numpy import shape as shape
from numpy import size as size
from numpy.exceptions import ComplexWarning as ComplexWarning

from xjax.core.array_type import Array as ndarray
from xjax.core.public import attributes_of as _attributes_of
from xjax.numpy import dtypes_api as _dtypes_api
from xjax.numpy import fft as fft
from xjax.numpy import linalg as linalg
from xjax.numpy import methods as _methods
from xjax.numpy.array_api import __array_api_version__, __array_namespace_info__
from xjax.numpy.bits import frexp, gcd, lcm, packbits, spacing, unpackbits
from xjax.numpy.composed import (
    angle,
    bitwise_count,
    conj,
    conjugate,
    deg2rad,
    degrees,
    divmod,
    float_power,
    floor_divide,
    fmod,
    heaviside,
    hypot,
    imag,
    iscomplex,
    isreal,
    ldexp,
    log10,
    logaddexp,
    logaddexp2,
    mod,
    modf,
    positive,
    pow,
    power,
    rad2deg,
    radians,
    real,
    reciprocal,
    remainder,
    sinc,
)
from xjax.numpy.constants import e, euler_gamma, inf, nan, newaxis, pi
from xjax.numpy.contract import (
    cross,
    dot,
    einsum,
    einsum_path,
    inner,
    kron,
    matmul,
    matvec,
    outer,
    tensordot,
    trace,
    vdot,
    vecdot,
    vecmat,
)
from xjax.numpy.creation import (
    arange,
    array,
    asarray,
    astype,
    copy,
    empty,
    empty_like,
    eye,
    frombuffer,
    fromfunction,
    full,
    full_like,
    geomspace,
    identity,
    indices,
    linspace,
    logspace,
    meshgrid,
    ones,
    ones_like,
    tri,
    zeros,
    zeros_like,
)
from xjax.numpy.differences import gradient, unwrap
from xjax.numpy.dtypes_api import *  # noqa: F403
from xjax.numpy.files import fromfile, fromiter, fromstring, load
from xjax.numpy.fitting import polyfit
from xjax.numpy.grids import c_, mgrid, ogrid, r_
from xjax.numpy.histograms import histogram2d, histogramdd
from xjax.numpy.joining import (
    append,
    array_split,
    block,
    column_stack,
    concat,
    concatenate,
    delete,
    dsplit,
    dstack,
    hsplit,
    hstack,
    insert,
    split,
    stack,
    vsplit,
    vstack,
)
from xjax.numpy.manipulate import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    expand_dims,
    flip,
    fliplr,
    flipud,
    matrix_transpose,
    moveaxis,
    permute_dims,
    ravel,
    repeat,
    reshape,
    resize,
    roll,
    rollaxis,
    rot90,
    squeeze,
    swapaxes,
    tile,
    transpose,
    trim_zeros,
    unstack,
)
from xjax.numpy.masked import compress, extract, place
from xjax.numpy.matrices import diag, diag_indices, diagflat, diagonal, tril, tril_indices, triu, triu_indices, vander
from xjax.numpy.padding import pad
from xjax.numpy.poly import poly, polyadd, polyder, polydiv, polyint, polymul, polysub, polyval, roots
from xjax.numpy.positions import (
    diag_indices_from,
    fill_diagonal,
    ix_,
    mask_indices,
    ravel_multi_index,
    tril_indices_from,
    triu_indices_from,
    unravel_index,
)
from xjax.numpy.promote import broadcast_arrays, broadcast_shapes, broadcast_to
from xjax.numpy.reductions import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    count_nonzero,
    cumprod,
    cumsum,
    cumulative_prod,
    cumulative_sum,
    max,
    mean,
    min,
    minmax,
    nanargmax,
    nanargmin,
    nancumprod,
    nancumsum,
    nanmax,
    nanmean,
    nanmin,
    nanprod,
    nanstd,
    nansum,
    nanvar,
    prod,
    ptp,
    std,
    sum,
    var,
)
from xjax.numpy.rounding import (
    around,
    copysign,
    fabs,
    fix,
    fmax,
    fmin,
    isclose,
    isfinite,
    isinf,
    isnan,
    isneginf,
    isposinf,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    rint,
    round,
    signbit,
    trunc,
)
from xjax.numpy.searching import (
    allclose,
    argwhere,
    array_equal,
    array_equiv,
    digitize,
    flatnonzero,
    nonzero,
    searchsorted,
    where,
)
from xjax.numpy.selection import clip, nan_to_num
from xjax.numpy.sets import (
    intersect1d,
    isin,
    setdiff1d,
    setxor1d,
    union1d,
    unique,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from xjax.numpy.sorting import argpartition, argsort, lexsort, partition, sort, sort_complex, top_k
from xjax.numpy.stats import (
    average,
    bincount,
    convolve,
    corrcoef,
    correlate,
    cov,
    diff,
    ediff1d,
    histogram,
    histogram_bin_edges,
    interp,
    median,
    nanmedian,
    nanpercentile,
    nanquantile,
    percentile,
    quantile,
    trapezoid,
)
from xjax.numpy.take import choose, piecewise, put, put_along_axis, select, take, take_along_axis
from xjax.numpy.ufunc_class import frompyfunc, ufunc
from xjax.numpy.ufuncs import (
    abs,
    absolute,
    acos,
    acosh,
    add,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    cbrt,
    ceil,
    cos,
    cosh,
    divide,
    equal,
    exp,
    exp2,
    expm1,
    floor,
    greater,
    greater_equal,
    invert,
    left_shift,
    less,
    less_equal,
    log,
    log1p,
    log2,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    right_shift,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    true_divide,
)
from xjax.numpy.vectorize import apply_along_axis, apply_over_axes, vectorize
from xjax.numpy.windows import bartlett, blackman, hamming, hanning, i0, kaiser
from xjax.runtime.arrays.dlpack import from_dlpack

bool = _dtypes_api.bool_

__all__ = sorted(name for name, value in globals().items()               # pyright: ignore[reportUnsupportedDunderAll]
                 if not name.startswith("_") and type(value) is not _Module)

__getattr__ = _attributes_of(__name__)
