"""Discrete Fourier transforms with NumPy's signatures: `xjax.numpy.fft`.

All call one function: it moves the axes to the end, truncates or pads them, transforms up to three at a time, scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xjax.core import dtypes
from xjax.core.calls import name_function
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.numpy.composed import conjugate
from xjax.numpy.creation import asarray
from xjax.numpy.manipulate import moveaxis, roll
from xjax.numpy.promote import as_dtype, aval_of, cast, default_float, promote_inexact
from xjax.numpy.selection import refuse_complex
from xjax.numpy.ufuncs import to_array_like, true_divide
from xjax.ops.checks import canonical_axes, canonical_axis, static_int
from xjax.ops.elementwise import mul
from xjax.ops.fft import FftType
from xjax.ops.fft import fft as lax_fft
from xjax.ops.makers import scalar_like
from xjax.ops.slice import pad, slice_in_dim
from xjax.runtime.one_launch import one_launch
from xjax.runtime.placement.sharding import Sharding
from xjax.runtime.xla import Device
from xjax.typing import Array, ArrayLike, Axis, DTypeLike

_NORMS = (None, "backward", "ortho", "forward")
_MOST_AXES = 3                  # of one transform in XLA


# -- all transforms -----------------------------------------------------------------------------------------------

def _transform(caller: str, kind: FftType, a: ArrayLike, s: Sequence[int] | None, axes: tuple[int, ...],
               norm: str | None) -> Array:
    """The transform over distinct axes, any number of them; `s`: their sizes in the time domain."""
    _check_norm(caller, norm)
    if kind is FftType.RFFT:
        refuse_complex(caller, a, exc=ValueError)
    a = to_array_like(caller, promote_inexact(caller, a)[0])
    if kind is not FftType.RFFT:
        a = cast(caller, a, dtypes.to_complex_dtype(a.dtype))
    if not axes:
        return a
    sizes = _time_sizes(caller, kind, a, s, axes)
    last = tuple(range(a.ndim - len(axes), a.ndim))
    x = moveaxis(a, axes, last)
    kept = (*sizes[:-1], sizes[-1] // 2 + 1) if kind is FftType.IRFFT else sizes
    for d, n in zip(last, kept, strict=True):
        x = _fit(x, d, n)
    x = _by_parts(kind, x, sizes)
    power = {"ortho": 0.5, "forward": 1.0}.get(norm, 0.0)
    if power:
        inverse = kind in (FftType.IFFT, FftType.IRFFT)
        factor = max(1, math.prod(sizes)) ** (power if inverse else -power)
        x = mul(x, scalar_like(x, factor))
    return moveaxis(x, last, axes)


def _check_norm(caller: str, norm: str | None) -> None:
    if norm not in _NORMS:
        raise bad(caller, f"unknown norm {norm!r}", fix="pass 'backward', 'ortho' or 'forward'.", exc=ValueError)


def _time_sizes(caller: str, kind: FftType, a: Array, s: Sequence[int] | None,
                axes: tuple[int, ...]) -> tuple[int, ...]:
    if s is not None:
        sizes = tuple(static_int(n, "s", caller) for n in s)
        if min(sizes) < 1:
            raise bad(caller, "a transform needs at least one element", given={"a": a.aval, "sizes": str(sizes)},
                      fix="pass sizes >= 1.", exc=ValueError)
        return sizes
    sizes = tuple(a.shape[d] for d in axes)
    return (*sizes[:-1], max(0, 2 * (sizes[-1] - 1))) if kind is FftType.IRFFT else sizes


def _fit(x: Array, axis: int, n: int) -> Array:
    """`x` truncated to n elements along an axis, or padded with zeros."""
    size = x.shape[axis]
    if n < size:
        return slice_in_dim(x, 0, n, axis=axis)
    return pad(x, scalar_like(x, 0), [(0, n - size if d == axis else 0, 0) for d in range(x.ndim)]) if n > size else x


def _by_parts(kind: FftType, x: Array, sizes: tuple[int, ...]) -> Array:
    """The transform over the last len(sizes) axes; only the transform of the last group of axes may be a real one."""
    split = max(0, len(sizes) - _MOST_AXES)
    complex_kind = FftType.IFFT if kind in (FftType.IFFT, FftType.IRFFT) else FftType.FFT
    if kind is not FftType.IRFFT:
        x = lax_fft(x, kind, sizes[split:])
    first = x.ndim - len(sizes)
    for start in range(0, split, _MOST_AXES):
        stop = min(start + _MOST_AXES, split)
        here, there = range(first + start, first + stop), range(x.ndim - stop + start, x.ndim)
        x = moveaxis(lax_fft(moveaxis(x, here, there), complex_kind, sizes[start:stop]), there, here)
    return lax_fft(x, kind, sizes[split:]) if kind is FftType.IRFFT else x


# -- one axis -----------------------------------------------------------------------------------------------------

def _one_axis(name: str, kind: FftType, doc: str, hermitian: bool = False) -> Callable[..., Array]:
    caller = f"numpy.fft.{name}"

    @one_launch
    def transform(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
        axes = (canonical_axis(axis, aval_of(caller, a).ndim, caller),)
        s = None if n is None else (n,)
        if not hermitian:
            return _transform(caller, kind, a, s, axes, norm)
        _check_norm(caller, norm)
        norm = {"ortho": "ortho", "forward": "backward"}.get(norm, "forward")
        a = conjugate(a) if kind is FftType.IRFFT else a
        out = _transform(caller, kind, a, s, axes, norm)
        return conjugate(out) if kind is FftType.RFFT else out

    return _described(transform, name, f"""{doc}

    Args: a: number[..., n, ...]; n: number of elements to truncate or pad to (default: all); axis: the axis to
      transform; norm: the direction that is scaled by 1/n: "backward" (the default), the inverse; "forward"; or
      "ortho", both, by 1/sqrt(n).
    """)


def _described(f: Callable, name: str, doc: str) -> Callable:
    name_function(f, name)
    f.__doc__ = doc
    return f


fft = _one_axis("fft", FftType.FFT, "Discrete Fourier transform along an axis: ``sum(a[j] exp(-2 pi i j k / n))``.")
ifft = _one_axis("ifft", FftType.IFFT, "Inverse of `fft`.")
rfft = _one_axis("rfft", FftType.RFFT, "The first n // 2 + 1 elements of `fft` of real numbers. They imply the rest.")
irfft = _one_axis("irfft", FftType.IRFFT, "Inverse of `rfft`, with a real result; n is 2 * (size - 1) by default.")
hfft = _one_axis("hfft", FftType.IRFFT, "`fft` of a signal given by its first n // 2 + 1 elements, whose conjugates "
                 "are the others; the result is real.", hermitian=True)
ihfft = _one_axis("ihfft", FftType.RFFT, "Inverse of `hfft`.", hermitian=True)


# -- several axes -------------------------------------------------------------------------------------------------

def _several_axes(name: str, kind: FftType, default: tuple[int, int] | None, doc: str) -> Callable[..., Array]:
    caller = f"numpy.fft.{name}"

    @one_launch
    def transform(a: ArrayLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = default,
                  norm: str | None = None) -> Array:
        ndim = np.ndim(a)
        if axes is None:
            axes = range(ndim) if s is None else range(ndim - len(s), ndim)
        if default is not None and len(axes) != len(default):
            raise bad(caller, "transforms two axes", given={"axes": str(axes)}, fix="use fftn, ifftn, rfftn or irfftn.",
                      exc=ValueError)
        axes = canonical_axes(axes, ndim, caller, "axes")
        if s is not None and len(s) != len(axes):
            raise bad(caller, f"{len(s)} sizes for {len(axes)} axes", given={"s": str(s), "axes": str(axes)},
                      fix="pass one size for each axis.", exc=ValueError)
        return _transform(caller, kind, a, s, axes, norm)

    return _described(transform, name, f"""{doc}

    Args: a: number[...]; s: sizes to truncate or pad the axes to; axes: the axes to transform, in order; norm: as for
      `fft`.
    """)


fftn = _several_axes("fftn", FftType.FFT, None, "Discrete Fourier transform along several axes, by default all.")
ifftn = _several_axes("ifftn", FftType.IFFT, None, "Inverse of `fftn`.")
rfftn = _several_axes("rfftn", FftType.RFFT, None, "`rfft` of the last of the axes, then `fft` of the others.")
irfftn = _several_axes("irfftn", FftType.IRFFT, None, "Inverse of `rfftn`.")
fft2 = _several_axes("fft2", FftType.FFT, (-2, -1), "Discrete Fourier transform along two axes.")
ifft2 = _several_axes("ifft2", FftType.IFFT, (-2, -1), "Inverse of `fft2`.")
rfft2 = _several_axes("rfft2", FftType.RFFT, (-2, -1), "`rfft` of the second of two axes, then `fft` of the first.")
irfft2 = _several_axes("irfft2", FftType.IRFFT, (-2, -1), "Inverse of `rfft2`.")


# -- frequencies --------------------------------------------------------------------------------------------------

def _frequencies(name: str, n: int, d: ArrayLike, dtype: DTypeLike | None, device: Device | Sharding | None,
                 steps: Callable[[int], np.ndarray]) -> Array:
    caller = f"numpy.fft.{name}"
    if isinstance(n, (list, tuple)) or np.ndim(n):
        raise bad(caller, "`n` must be an integer", given={"n": repr(n)[:80]}, fix="pass one integer.", exc=ValueError)
    n = static_int(n, "n", caller)
    if n < 0:
        raise bad(caller, "`n` must not be negative", fix="pass the number of samples.", exc=ValueError)
    if isinstance(d, (list, tuple)) or np.ndim(d):
        raise bad(caller, "`d` must be a number", given={"d": repr(d)[:80]}, fix="pass one number.", exc=ValueError)
    dtype = default_float() if dtype is None else as_dtype(dtype, caller)
    shares = asarray((steps(n) / max(n, 1)).astype(dtype))
    return asarray(true_divide(shares, cast(caller, d, dtype)), dtype, device=device)


def fftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None,
            device: Device | Sharding | None = None) -> Array:
    """Frequencies of the elements of `fft`, in cycles per unit of the sample distance `d`.

    >>> fftfreq(4)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    return _frequencies("fftfreq", n, d, dtype, device, lambda n: (np.arange(n) + n // 2) % max(n, 1) - n // 2)


def rfftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike | None = None,
             device: Device | Sharding | None = None) -> Array:
    """Frequencies of the elements of `rfft`, in cycles per unit of the sample distance `d`."""
    return _frequencies("rfftfreq", n, d, dtype, device, lambda n: np.arange(n // 2 + 1))


def _shifted(caller: str, x: ArrayLike, axes: Axis, sign: int) -> Array:
    x = to_array_like(caller, x)
    axes = canonical_axes(axes, x.ndim, caller, "axes")
    return roll(x, tuple(sign * (x.shape[d] // 2) for d in axes), axes)


def fftshift(x: ArrayLike, axes: Axis = None) -> Array:
    """Elements rotated along axes (default: all) so that frequency 0 is in the middle.

    >>> fftshift(np.arange(5))
    Array([3, 4, 0, 1, 2], dtype=int32)
    """
    return _shifted("numpy.fft.fftshift", x, axes, 1)


def ifftshift(x: ArrayLike, axes: Axis = None) -> Array:
    """Inverse of `fftshift`."""
    return _shifted("numpy.fft.ifftshift", x, axes, -1)


__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
           "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]

__getattr__ = attributes_of(__name__)
