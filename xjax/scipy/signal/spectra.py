"""Spectra of overlapping segments of signals: `stft` and its inverse `istft`, `csd` and `welch`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.errors import bad, warn
from xjax.core.types import typeof
from xjax.numpy.linalg.arguments import inexact
from xjax.numpy.promote import library_rules
from xjax.ops.checks import canonical_axis, static_int
from xjax.scipy.signal.detrending import detrend as without_trend
from xjax.typing import Array, ArrayLike, DTypeLike

Detrend = bool | str | Callable[[Any], Any]

# Values of a signal beyond its ends, as arguments of `numpy.pad`.
_BOUNDARIES: dict[str | None, dict] = {
    "even": {"mode": "reflect"}, "odd": {"mode": "reflect", "reflect_type": "odd"}, "constant": {"mode": "edge"},
    "zeros": {"mode": "constant"}, None: {},
}


# -- segments -------------------------------------------------------------------------------------------------------

class _Segments(NamedTuple):
    """Division of a signal into segments weighted by a window; the transform of each segment has `points` elements."""

    window: Any
    overlap: int
    points: int

    @property
    def size(self) -> int:
        return self.window.shape[0]

    @property
    def step(self) -> int:
        return self.size - self.overlap


def _segments(caller: str, window: str, nperseg: int, noverlap: int | None, nfft: int | None,
              dtype: DTypeLike) -> _Segments:
    overlap = nperseg // 2 if noverlap is None else static_int(noverlap, "noverlap", caller)
    points = nperseg if nfft is None else static_int(nfft, "nfft", caller)
    if points < nperseg or not 0 <= overlap < nperseg:
        raise bad(caller, "segments must overlap by less than their size, and fit into the transform",
                  given={"nperseg": nperseg, "noverlap": overlap, "nfft": points},
                  fix="choose noverlap < nperseg <= nfft.", exc=ValueError)
    return _Segments(_window(caller, window, nperseg, dtype), overlap, points)


def _window(caller: str, window: str, size: int, dtype: DTypeLike) -> Array:
    """Weights [size]: `window` itself, or the result of `scipy.signal.get_window` for a name or tuple."""
    if isinstance(window, (str, tuple)):
        return jnp.asarray(scipy.signal.get_window(window, size).astype(dtype))
    window = jnp.asarray(window)
    if window.shape != (size,):
        raise bad(caller, f"the window must be a vector with {size} elements", given={"window": typeof(window)},
                  fix="pass as many weights as a segment has samples.", exc=ValueError)
    return window if dtypes.is_complex(window.dtype) else window.astype(dtype)


def _size(caller: str, window: ArrayLike | str | tuple, nperseg: int | None, length: int) -> int:
    """Samples of a segment: `nperseg`, else the size of the window, else the length of the signal."""
    named = isinstance(window, (str, tuple))
    if not named and (np.ndim(window) != 1 or np.shape(window)[0] > length):
        raise bad(caller, "the window must be a vector, at most as long as the signal",
                  given={"window": str(np.shape(window)), "samples": length},
                  fix="pass a vector of weights for the samples of a segment.", exc=ValueError)
    default = length if named else np.shape(window)[0]
    size = default if nperseg is None else static_int(nperseg, "nperseg", caller)
    if size < 1:
        raise bad(caller, "a segment has at least one sample", given={"nperseg": size}, fix="pass nperseg >= 1.",
                  exc=ValueError)
    if named and size > length:
        warn(f"{caller}: nperseg={size} exceeds the {length} samples of the signal, which become one segment.")
        return length
    return size


def _transform(x: Array, segments: _Segments, detrend: Callable[[Any], Any], onesided: bool) -> Array:
    """Fourier transforms [..., segment, frequency] of the segments of signals [..., sample]."""
    starts = np.arange(0, x.shape[-1] - segments.size + 1, segments.step)
    index = starts[:, None] + np.arange(segments.size)
    x = _times(detrend(jnp.take(x, jnp.asarray(index.astype(np.int32)), -1, mode="clip")), segments.window)
    return jnp.fft.rfft(x.real, segments.points) if onesided else jnp.fft.fft(x, segments.points)


@library_rules
def _times(x: Array, window: ArrayLike) -> Array:
    return x * window


def _detrender(caller: str, detrend: Detrend, axis: int) -> Callable[[Any], Any]:
    """A function of segments [..., sample]. A user's function gets them with the samples at `axis`."""
    if isinstance(detrend, str):
        return lambda x: without_trend(x, type=detrend)
    if callable(detrend):
        return lambda x: jnp.moveaxis(detrend(jnp.moveaxis(x, -1, axis)), axis, -1)
    if detrend:
        raise bad(caller, f"`detrend` is {detrend!r}", fix="pass False, 'constant', 'linear', or a function.",
                  exc=ValueError)
    return lambda x: x


def _extended(caller: str, x: Array, segments: _Segments, boundary: str | None, padded: bool) -> Array:
    """Signals extended by half a segment at both ends, then by zeros until segments cover all samples."""
    if boundary is not None:
        n = segments.size // 2
        if boundary == "odd" and n >= x.shape[-1]:
            raise bad(caller, f"{x.shape[-1]} samples are too few to be extended by {n}", given={"x": typeof(x)},
                      fix="pass shorter segments, or boundary='zeros'.", exc=ValueError)
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(n, n)], **_BOUNDARIES[boundary])
    if padded:
        missing = -(x.shape[-1] - segments.size) % segments.step
        x = _lengthened(x, x.shape[-1] + missing % segments.size)
    return x


def _lengthened(x: Array, length: int) -> Array:
    return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, length - x.shape[-1])])


class _Options(NamedTuple):
    fs: Any
    window: Any
    nperseg: int | None
    noverlap: int | None
    nfft: int | None
    detrend: Detrend
    onesided: bool
    scaling: str
    axis: int
    boundary: str | None = None
    padded: bool = False


def _spectra(caller: str, signals: list[Any], o: _Options, power: bool) -> tuple[Any, Any, Any]:
    """Frequencies, times and spectra of one signal. With `power`: the conjugate spectrum of the first signal times the
    spectrum of the last.

    Returns: f float[k], t float[n], complex[..., n], with frequencies on the axis that had the samples.
    """
    signals = inexact(caller, *signals)
    x, axis = signals[0], canonical_axis(o.axis, signals[0].ndim, caller)
    _check(caller, signals, axis, o)
    dtype = dtypes.to_complex_dtype(x.dtype)
    real = dtypes.finfo(dtype).dtype
    if not all(s.size for s in signals):
        shape = list(np.broadcast_shapes(*[_without(s.shape, axis) for s in signals]))
        shape.insert(axis, min(s.shape[axis] for s in signals))
        return jnp.zeros(shape, real), jnp.zeros(shape, real), jnp.zeros(shape, dtype)
    # As in SciPy, the length of the first signal limits the segment, and the shorter signal is padded with zeros.
    size = _size(caller, o.window, o.nperseg, x.shape[axis])
    segments = _segments(caller, o.window, size, o.noverlap, o.nfft, x.dtype)
    signals = [jnp.moveaxis(s, axis, -1) for s in signals]
    length = max(s.shape[-1] for s in signals)
    signals = [_extended(caller, _lengthened(s, length), segments, o.boundary, o.padded) for s in signals]

    onesided = o.onesided
    if onesided and dtypes.is_complex(x.dtype):
        warn(f"{caller}: a complex signal has a two-sided spectrum, so that return_onesided is ignored.")
        onesided = False
    detrend = _detrender(caller, o.detrend, o.axis)
    spectra = [_transform(s, segments, detrend, onesided) for s in signals]
    scale = _scale(segments.window, o)
    if power:
        out = _times(jnp.conj(spectra[0]) * spectra[-1], scale)
        out = _times(out, _sides(segments.points)) if onesided else out
    else:
        out = _times(spectra[0], jnp.sqrt(scale))
    frequencies = (jnp.fft.rfftfreq if onesided else jnp.fft.fftfreq)(segments.points, 1 / o.fs, dtype=real)
    middle = 0 if o.boundary is not None else segments.size / 2
    times = (jnp.arange(spectra[0].shape[-2], dtype=real) * segments.step + middle) / o.fs
    return frequencies, times, jnp.moveaxis(out.astype(dtype), -1, axis)


def _check(caller: str, signals: list[Any], axis: int, o: _Options) -> None:
    if o.boundary not in _BOUNDARIES:
        raise bad(caller, f"unknown boundary {o.boundary!r}", given={"boundaries": ", ".join(map(str, _BOUNDARIES))},
                  fix="pass one of them.", exc=ValueError)
    if o.scaling not in ("density", "spectrum"):
        raise bad(caller, f"unknown scaling {o.scaling!r}", fix="pass 'density' or 'spectrum'.", exc=ValueError)
    try:
        fits = len({s.ndim for s in signals}) == 1 and np.broadcast_shapes(*[_without(s.shape, axis) for s in signals])
    except ValueError:
        fits = False
    if fits is False:
        raise bad(caller, "the signals' shapes do not fit", given={"x": typeof(signals[0]), "y": typeof(signals[-1])},
                  fix="pass arrays of one rank whose axes, except that of the samples, broadcast.", exc=ValueError)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1:]


def _scale(window: Array, o: _Options) -> Array:
    if o.scaling == "density":
        return 1 / (o.fs * jnp.sum(window * window))
    return 1 / jnp.sum(window) ** 2


def _sides(points: int) -> np.ndarray:
    """How often each frequency of a one-sided spectrum occurs in the two-sided spectrum: once or twice."""
    times = np.full(points // 2 + 1, 2, np.int32)
    times[0] = 1
    if points % 2 == 0:
        times[-1] = 1
    return times


# -- spectra ----------------------------------------------------------------------------------------------------------

def stft(x: ArrayLike, fs: ArrayLike = 1.0, window: str = "hann", nperseg: int = 256, noverlap: int | None = None,
         nfft: int | None = None, detrend: Detrend = False, return_onesided: bool = True,
         boundary: str | None = "zeros", padded: bool = True, axis: int = -1) -> tuple[Any, Any, Any]:
    """Short-time Fourier transform: the spectra of overlapping segments of signals.

    Args:
      x: number[..., sample, ...]. fs: samples per unit of time.
      window: a name or tuple that `scipy.signal.get_window` accepts, or weights [nperseg].
      nperseg: samples of a segment. noverlap: samples shared with the next segment (None: half of a segment).
      nfft: length to which segments are padded with zeros. detrend: False, "constant", "linear" or a function of
        segments.
      return_onesided: for a real signal, return only frequencies >= 0.
      boundary: how the signal is extended by half a segment at both ends: "zeros", "even", "odd", "constant", or None
        for not at all.
      padded: append zeros, so that segments cover all samples. axis: that of the samples.
    Returns: (frequencies float[k], times float[n], complex[..., k, ..., n]).
    Raises: ValueError for options that do not fit. A warning if there are fewer than nperseg samples.

    >>> f, t, z = stft(np.float32([1, 2, 3, 2, 1, 0, 1, 2]), nperseg=4)
    >>> (f.shape, t.tolist(), z.shape)
    ((3,), [0.0, 2.0, 4.0, 6.0, 8.0], (3, 5))
    """
    options = _Options(fs, window, nperseg, noverlap, nfft, detrend, return_onesided, "spectrum", axis, boundary,
                       padded)
    return _spectra("scipy.signal.stft", [x], options, power=False)


def csd(x: ArrayLike, y: ArrayLike, fs: ArrayLike = 1.0, window: str = "hann", nperseg: int | None = None,
        noverlap: int | None = None, nfft: int | None = None, detrend: Detrend = "constant",
        return_onesided: bool = True, scaling: str = "density", axis: int = -1,
        average: str = "mean") -> tuple[Any, Any]:
    """Cross spectral density of two signals by Welch's method: the average over overlapping segments.

    Args:
      x, y: number[..., sample, ...], of one rank; y None: the density of x with itself, which is real.
      nperseg: samples of a segment (None: the size of the window if it is an array, else the length of x).
      scaling: "density": power per unit of frequency; "spectrum": power. average: "mean" or "median".
      For the others see `stft`.
    Returns: (frequencies float[k], complex[..., k, ...]).
    Raises: ValueError for options or shapes that do not fit.
    """
    return _averaged("scipy.signal.csd", [x] if y is None else [x, y], average, _Options(
        fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis))


def welch(x: ArrayLike, fs: ArrayLike = 1.0, window: str = "hann", nperseg: int | None = None,
          noverlap: int | None = None, nfft: int | None = None, detrend: Detrend = "constant",
          return_onesided: bool = True, scaling: str = "density", axis: int = -1,
          average: str = "mean") -> tuple[Any, Any]:
    """Power spectral density of signals by Welch's method: `csd` of a signal with itself.

    >>> f, p = welch(np.float32([1, -1, 1, -1, 1, -1, 1, -1]), nperseg=4)
    >>> (f.tolist(), [round(x, 3) for x in p.tolist()])
    ([0.0, 0.25, 0.5], [0.0, 1.333, 2.667])
    """
    return _averaged("scipy.signal.welch", [x], average, _Options(
        fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis))


def _averaged(caller: str, signals: list[Any], average: str, options: _Options) -> tuple[Any, Any]:
    if average not in ("mean", "median"):
        raise bad(caller, f"unknown average {average!r}", fix="pass 'mean' or 'median'.", exc=ValueError)
    frequencies, _, out = _spectra(caller, signals, options, power=True)
    out = out.real if len(signals) == 1 else out
    if not out.size or out.ndim < 2:
        return frequencies, out
    if average == "mean":
        return frequencies, jnp.mean(out, -1)
    if len(signals) == 1:
        return frequencies, jnp.median(out, -1) / _median_bias(out.shape[-1])
    # The median of complex numbers is taken of real and imaginary parts separately.
    median = lax.complex(jnp.median(out.real, -1), jnp.median(out.imag, -1))
    return frequencies, median / _median_bias(out.shape[-1])


def _median_bias(n: int) -> float:
    """Expected median of n numbers of an exponential distribution of mean 1 (Allen et al. 2012, appendix B)."""
    even = np.arange(2, n, 2)
    return 1 + float(np.sum(1 / (even + 1) - 1 / even))


# -- inverse ----------------------------------------------------------------------------------------------------------

def istft(Zxx: ArrayLike, fs: ArrayLike = 1.0, window: str = "hann", nperseg: int | None = None,
          noverlap: int | None = None, nfft: int | None = None, input_onesided: bool = True, boundary: bool = True,
          time_axis: int = -1, freq_axis: int = -2) -> tuple[Any, Any]:
    """Signals from their short-time Fourier transforms: the inverse of `stft` with the same options.

    Args:
      Zxx: complex[..., frequency, time]. nperseg, nfft: None: computed from the number of frequencies.
      input_onesided: Zxx has only frequencies >= 0, so that the signals are real. boundary: whether `stft` extended
        the signals.
      time_axis, freq_axis: positions of these axes. The other arguments are those of `stft`.
    Returns: (times, x): float[x.shape[0]], the times of a single signal, as in SciPy; and number[..., sample].
    Raises: ValueError for options that do not fit.

    >>> x = np.float32([1, 2, 3, 2, 1, 0, 1, 2])
    >>> [round(y, 3) for y in istft(stft(x, nperseg=4)[2])[1].tolist()]
    [1.0, 2.0, 3.0, 2.0, 1.0, 0.0, 1.0, 2.0]
    """
    caller = "scipy.signal.istft"
    z, = inexact(caller, Zxx)
    if z.ndim < 2:
        raise bad(caller, "takes axes of frequencies and times", given={"Zxx": typeof(z)},
                  fix="pass what stft returns.", exc=ValueError)
    time_axis, freq_axis = canonical_axis(time_axis, z.ndim, caller), canonical_axis(freq_axis, z.ndim, caller)
    if time_axis == freq_axis:
        raise bad(caller, "frequencies and times must be different axes", given={"time_axis": time_axis},
                  fix="pass two axes.", exc=ValueError)
    count = z.shape[freq_axis]
    whole = 2 * (count - 1) if input_onesided else count
    size = whole if nperseg is None else static_int(nperseg, "nperseg", caller)
    if size < 1:
        raise bad(caller, "a segment has at least one sample", given={"nperseg": size}, fix="pass nperseg >= 1.",
                  exc=ValueError)
    if nfft is None:                                # 2 n and 2 n + 1 samples have the same number of frequencies
        nfft = whole + (input_onesided and size == whole + 1)
    z = jnp.moveaxis(z, (freq_axis, time_axis), (-2, -1)).astype(dtypes.to_complex_dtype(z.dtype))
    segments = _segments(caller, window, size, noverlap, nfft, dtypes.finfo(z.dtype).dtype)
    x = (jnp.fft.irfft if input_onesided else jnp.fft.ifft)(z, segments.points, axis=-2)[..., :size, :]
    x = _signal(jnp.swapaxes(x, -1, -2), segments, boundary)
    if x.ndim > 1 and time_axis != z.ndim - 1:
        x = jnp.moveaxis(x, -1, time_axis - (freq_axis < time_axis))
    return jnp.arange(x.shape[0], dtype=dtypes.finfo(x.dtype).dtype) / fs, x


@library_rules
def _signal(x: Array, segments: _Segments, boundary: bool) -> Array:
    """Signals [..., sample] from their weighted segments [..., segment, sample], by least squares."""
    window = segments.window
    weights = jnp.broadcast_to(window * window, x.shape[-2:])
    total, norm = (_overlapped(y, segments.step) for y in (x * window * jnp.sum(window), weights))
    signal = total / jnp.where(norm > 1e-10, norm, 1)
    dropped = segments.size // 2 if boundary else 0
    return signal[..., dropped:signal.shape[-1] - dropped]


def _overlapped(x: Array, step: int) -> Array:
    """Sum of segments [..., n, size], each of which starts `step` samples after the previous one.

    Each segment is split into blocks of `step` samples. Row i has the i-th blocks of all segments. Rows padded to one
    block too many, reshaped to rows of the right length, are each shifted by one block relative to the previous row.
    """
    *batch, n, size = x.shape
    blocks = -(-size // step)
    x = jnp.pad(x, [(0, 0)] * (len(batch) + 1) + [(0, blocks * step - size)])
    x = jnp.swapaxes(jnp.reshape(x, (*batch, n, blocks, step)), -3, -2)
    x = jnp.pad(x, [(0, 0)] * (len(batch) + 1) + [(0, blocks), (0, 0)])
    x = jnp.reshape(x, (*batch, -1))[..., :blocks * (n + blocks - 1) * step]
    x = jnp.reshape(x, (*batch, blocks, (n + blocks - 1) * step))
    return jnp.sum(x, -2)[..., :(n - 1) * step + size]


__all__ = ["csd", "istft", "stft", "welch"]
