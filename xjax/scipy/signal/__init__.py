"""Signals, under SciPy's names: the public namespace `xjax.scipy.signal`."""

from xjax.core.public import attributes_of
from xjax.scipy.signal.convolution import convolve, convolve2d, correlate, correlate2d, fftconvolve
from xjax.scipy.signal.detrending import detrend
from xjax.scipy.signal.spectra import csd, istft, stft, welch

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft", "stft",
           "welch"]

__getattr__ = attributes_of(__name__)
