"""`xjax.scipy.signal`: convolutions in every mode, trends, spectra."""

from __future__ import annotations

from typing import Any

from tests.values.row import rows

N = "scipy.signal"
MODES = ("full", "same", "valid")

# -- convolutions -------------------------------------------------------------------------------------------------

LINES = ("f8[5] f8[3]", "f4[2,2] f4[3,2]", "c8[4] f4[2]", "i4[4] i4[3]")
IMAGES = ("f8[3,4] f8[2,2]", "c8[2,2] c8[3,3]", "i4[3,3] f4[1,2]")
D, DD = ("f8[4] f8[2]",), ("f8[3,3] f8[2,2]",)


def every_mode(f: Any, x: Any, y: Any) -> Any:
    return [f(x, y, mode) for mode in MODES]


CONVOLUTIONS = [
    *rows(N, "convolve correlate", *LINES, call=every_mode, grad=D),
    *rows(N, "convolve correlate", "f4[3,4] f4[2,2]", call=lambda f, x, y: f(x, y, method="fft"),
          id="fft"),
    *rows(N, "convolve2d correlate2d", *IMAGES, call=every_mode, grad=DD),
    *rows(N, "fftconvolve", *LINES[:3], call=every_mode, grad=D),
    *rows(N, "fftconvolve", "f8[2,4] f8[2,3]", "c8[2,3] c8[1,3]", call=lambda f, x, y: f(x[:1], y[:1], axes=-1),
          id="axes"),
]

# -- spectra ------------------------------------------------------------------------------------------------------

SIGNALS = ("f8[12]", "f4[2,11]", "c8[10]")
PAIRS = ("f8[12] f8[12]", "f4[2,11] f4[2,11]", "c8[10] f4[10]")


def trends(f: Any, x: Any) -> Any:
    return f(x, bp=[3, 7]), f(x, 0, "constant")


def transforms(f: Any, x: Any) -> Any:
    return (f(x, nperseg=4, boundary="odd", return_onesided=False),
            f(x, 2.0, "boxcar", 5, 2, 8, detrend="constant", boundary="even", padded=False))


def densities(f: Any, *xs: Any) -> Any:
    return (f(*xs, nperseg=4, detrend=False, average="median", return_onesided=False),
            f(*xs, 2.0, "boxcar", 5, 2, 8, "linear", scaling="spectrum"))


def inverses(f: Any, z: Any) -> Any:
    return f(z), f(z.swapaxes(-1, -2), 2.0, "hamming", noverlap=1, boundary=False, time_axis=-2, freq_axis=-1)


SPECTRA = [
    *rows(N, "detrend", *SIGNALS, "i4[9]", call=trends, grad=("f8[12]",)),
    *rows(N, "stft", *SIGNALS, call=transforms, grad=("f8[12]",)),
    *rows(N, "welch", *SIGNALS, call=densities),
    *rows(N, "csd", *PAIRS, call=densities),
    # A median of equal numbers has no slope.
    *rows(N, "csd", "f8[12] f8[12]", id="of means", call=lambda f, x, y: f(x, y, nperseg=4), grad=("f8[12] f8[12]",)),
    *rows(N, "welch", "f8[12]", id="of means", call=lambda f, x: f(x, nperseg=4), grad=("f8[12]",)),
    *rows(N, "istft", "c16[3,5]", "c8[2,4,5]", "f4[3,4]", call=inverses, grad=("c16[3,5]",)),
]

ROWS = [*CONVOLUTIONS, *SPECTRA]
