"""Convolution and correlation of arrays of one rank, directly or by Fourier transforms.

Each function returns the full convolution or a part of it, chosen by `_part`. The correlation with y is the convolution
with y conjugated and reversed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xjax.numpy as jnp
from xjax import lax
from xjax.core.dtypes import is_complex
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy.linalg.arguments import inexact
from xjax.ops.checks import canonical_axes
from xjax.ops.dot import PrecisionLike
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, Axis

# -- arguments ------------------------------------------------------------------------------------------------------

def _pair(caller: str, in1: ArrayLike, in2: ArrayLike, ndim: int | None = None) -> tuple[Any, Any]:
    """Both arguments as arrays of one float or complex dtype and of one rank (`ndim`, unless that is None)."""
    x, y = inexact(caller, in1, in2)
    if x.ndim != y.ndim or (ndim is not None and x.ndim != ndim):
        raise bad(caller, f"takes arrays with {ndim} axes" if ndim else "takes two arrays of the same number of axes",
                  given={"in1": typeof(x), "in2": typeof(y)}, fix="insert axes, x[None].", exc=ValueError)
    return x, y


Part = list[tuple[int, int]]            # start and size in the full convolution, for each axis


def _part(caller: str, mode: str, x: Sequence[int], y: Sequence[int]) -> Part:
    """The part of the full convolution that `mode` returns, for arrays of shapes x and y.

    The full convolution has the shape x + y - 1. "same": its middle, of shape x. "valid": the positions at which the
    smaller array is entirely inside the larger one.
    """
    pairs = list(zip(x, y, strict=True))
    match mode:
        case "full":
            return [(0, n + m - 1) for n, m in pairs]
        case "same":
            return [((m - 1) // 2, n) for n, m in pairs]
        case "valid":
            if any(n > m for n, m in pairs) and any(n < m for n, m in pairs):
                raise bad(caller, "in mode 'valid' one array must be at least as large as the other along every axis",
                          given={"in1": str(tuple(x)), "in2": str(tuple(y))}, fix="pass mode='full' or 'same'.",
                          exc=ValueError)
            return [(min(n, m) - 1, abs(n - m) + 1) for n, m in pairs]
    raise bad(caller, f"unknown mode {mode!r}", fix="pass 'full', 'same' or 'valid'.", exc=ValueError)


def _only_zeros_around(caller: str, boundary: str, fillvalue: Any) -> None:
    if boundary != "fill" or fillvalue != 0:
        raise bad(caller, "arrays can be padded with zeros only",
                  given={"boundary": repr(boundary), "fillvalue": repr(fillvalue)},
                  fix="pad them with numpy.pad first, and pass mode='valid'.", exc=NotImplementedError)


# -- the two methods --------------------------------------------------------------------------------------------------

def _direct(caller: str, x: Array, y: Array, part: Part, precision: PrecisionLike) -> Array:
    if not x.size or not y.size:
        raise bad(caller, "empty arrays have no convolution", given={"in1": typeof(x), "in2": typeof(y)},
                  fix="pass arrays with elements.", exc=ValueError)
    if x.size < y.size:
        x, y = y, x
    # Output i depends on the elements i + start - (m - 1) to i + start of x.
    before = [m - 1 - start for m, (start, _) in zip(y.shape, part, strict=True)]
    after = [size - n - low + m - 1 for n, m, low, (_, size) in zip(x.shape, y.shape, before, part, strict=True)]
    out = lax.conv_general_dilated(x[None, None], jnp.flip(y)[None, None], (1,) * x.ndim,
                                   list(zip(before, after, strict=True)), precision=precision)
    return out[0, 0]


def _by_fourier(x: Array, y: Array, axes: tuple[int, ...], part: Part) -> Array:
    if all(1 in (x.shape[d], y.shape[d]) for d in axes):
        full = x * y
    else:
        forward, back = (jnp.fft.fftn, jnp.fft.ifftn) if is_complex(x.dtype) else (jnp.fft.rfftn, jnp.fft.irfftn)
        sizes = [x.shape[d] + y.shape[d] - 1 for d in axes]
        full = back(forward(x, sizes, axes) * forward(y, sizes, axes), sizes, axes)
    for d, (start, size) in zip(axes, part, strict=True):
        full = lax.slice_in_dim(full, start, start + size, axis=d)
    return full


# -- public functions -------------------------------------------------------------------------------------------------

@one_launch(arrays=2)
def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Axis = None) -> Array:
    """Convolution by Fourier transforms: faster than `convolve` if both arrays are large.

    Args:
      in1, in2: number[...] of one rank. mode: "full", "same" or "valid", as for `convolve`.
      axes: the axes to convolve along (default: all); the sizes of the others must be equal.
    Raises: ValueError for shapes that do not fit.

    >>> [round(x, 3) for x in fftconvolve(np.arange(3.0), np.ones(2)).tolist()]
    [0.0, 1.0, 3.0, 2.0]
    """
    caller = "scipy.signal.fftconvolve"
    x, y = _pair(caller, in1, in2)
    axes = tuple(sorted(canonical_axes(axes, x.ndim, caller, "axes")))
    if any(n != m for d, (n, m) in enumerate(zip(x.shape, y.shape, strict=True)) if d not in axes):
        raise bad(caller, "axes that are not convolved must be of equal size",
                  given={"in1": typeof(x), "in2": typeof(y), "axes": str(axes)},
                  fix="use numpy.broadcast_to.", exc=ValueError)
    part = _part(caller, mode, [x.shape[d] for d in axes], [y.shape[d] for d in axes])
    return _by_fourier(x, y, axes, part)


@one_launch(arrays=2)
def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto",
             precision: PrecisionLike = None) -> Array:
    """Convolution ``out[k] = sum(in1[l] * in2[k - l])`` of two arrays of the same rank.

    Args:
      in1, in2: number[...]; integers become floats.
      mode: "full": all k; "same": the middle of the full result, with the shape of `in1`; "valid": only k at which the
        smaller array is entirely inside the larger one.
      method: "direct" (also "auto"), or "fft": see `fftconvolve`. precision: that of the products, a `lax.Precision`.
    Raises: ValueError for other modes and methods, ranks that differ, and empty arrays.

    >>> convolve(np.arange(3.0), np.ones(2))
    Array([0., 1., 3., 2.], dtype=float32)
    """
    return _convolved("scipy.signal.convolve", in1, in2, mode, method, precision)


def _convolved(caller: str, in1: ArrayLike, in2: ArrayLike, mode: str, method: str, precision: PrecisionLike) -> Array:
    x, y = _pair(caller, in1, in2)
    part = _part(caller, mode, x.shape, y.shape)
    match method:
        case "auto" | "direct":
            return _direct(caller, x, y, part, precision)
        case "fft":
            return _by_fourier(x, y, tuple(range(x.ndim)), part)
    raise bad(caller, f"unknown method {method!r}", fix="pass 'auto', 'direct' or 'fft'.", exc=ValueError)


@one_launch(arrays=2)
def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto",
              precision: PrecisionLike = None) -> Array:
    """Correlation ``out[k] = sum(in1[l + k] * conj(in2[l]))`` of two arrays of the same rank.

    Args: as for `convolve`; in mode "full" the first k is ``1 - in2.size``.

    >>> correlate(np.arange(3.0), np.array([1.0, 3.0]), mode="valid")
    Array([3., 7.], dtype=float32)
    """
    caller = "scipy.signal.correlate"
    x, y = _pair(caller, in1, in2)
    return _convolved(caller, x, jnp.flip(jnp.conj(y)), mode, method, precision)


@one_launch(arrays=2)
def convolve2d(in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0,
               precision: PrecisionLike = None) -> Array:
    """`convolve` for two matrices.

    Args: boundary, fillvalue: only "fill" and 0, padding with zeros; other values raise NotImplementedError.
    """
    caller = "scipy.signal.convolve2d"
    _only_zeros_around(caller, boundary, fillvalue)
    x, y = _pair(caller, in1, in2, 2)
    return _direct(caller, x, y, _part(caller, mode, x.shape, y.shape), precision)


@one_launch(arrays=2)
def correlate2d(in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: float = 0,
                precision: PrecisionLike = None) -> Array:
    """`correlate` for two matrices, with two differences.

    In mode "same" the result starts one element later along axes on which `in2` has an even size. In mode "valid", for
    an `in1` smaller than `in2`, the result is the conjugate of that of `correlate`, as in SciPy.

    Args: boundary, fillvalue: only "fill" and 0, padding with zeros; other values raise NotImplementedError.
    """
    caller = "scipy.signal.correlate2d"
    _only_zeros_around(caller, boundary, fillvalue)
    x, y = _pair(caller, in1, in2, 2)
    part = _part(caller, mode, x.shape, y.shape)
    if mode == "same":
        part = [(m // 2, n) for n, m in zip(x.shape, y.shape, strict=True)]
    out = _direct(caller, x, jnp.flip(jnp.conj(y)), part, precision)
    smaller = x.shape != y.shape and all(n <= m for n, m in zip(x.shape, y.shape, strict=True))
    return jnp.conj(out) if mode == "valid" and smaller else out


__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve"]
