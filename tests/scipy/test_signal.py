"""`scipy.signal` against real JAX and SciPy in double precision; derivatives and vmap against JAX; misuse."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.ops.harness import check_as_jax
from tests.ops.row import OpRow, c, r
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax.scipy import signal

jax = real_jax()
oracle = pytest.importorskip("scipy.signal")

MODES = ("full", "same", "valid")
X, Y, LONG, OTHER = c(3, 2), c(2, 2), r(2, 20), r(2, 17)
SPECTRA = dict(nperseg=6, noverlap=2, fs=2.0)


def transformed(L, x):
    return [L.stft(x, **SPECTRA, boundary=b, detrend=d)[2] for b, d in (("even", False), ("odd", "linear"))]


def powers(L, x, y):
    return [L.welch(x, **SPECTRA), L.csd(x, y, average="median", nfft=7, **SPECTRA)]


TABLE = [
    OpRow("convolve", lambda L, x, y: [L.correlate(x, y, "same"), L.fftconvolve(x, y, axes=0)], (X, Y)),
    OpRow("convolve slow", lambda L, x, y: [f(x, y, mode) for mode in MODES for f in (
          L.convolve, L.correlate, L.convolve2d, L.correlate2d, L.fftconvolve)], (c(4, 3), Y)),
    OpRow("detrend slow", lambda L, x: [L.detrend(x, 0, bp=[4, 9]), L.detrend(x, type="constant")], (r(12, 2),)),
    OpRow("stft slow", transformed, (LONG,)),
    OpRow("csd slow", powers, (LONG, OTHER)),
    OpRow("csd complex slow", powers, (LONG + 1j, OTHER)),
    OpRow("istft", lambda L, z: [L.istft(z, noverlap=1), L.istft(z, input_onesided=False)], (c(2, 4, 5),)),
]


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("row", [pytest.param(row, id=row.name, marks=[pytest.mark.slow] * ("slow" in row.name))
                                 for row in TABLE])
def test_as_jax(row: OpRow) -> None:
    check_as_jax(row, signal, jax.scipy.signal)


def value(call):
    """The result in double precision, or None for misuse; without warnings."""
    with xjax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except ValueError:
            return None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["convolve", "correlate", "fftconvolve", "convolve2d", "correlate2d"])
def test_convolutions_as_in_scipy(name):
    shapes = [(5, 4), (2, 3), (4, 4), (2, 6), (6, 2)]
    for mode, m, n, make in itertools.product(MODES, shapes, shapes, (r, c)):
        x, y = make(*m), make(*n)
        ours, theirs = (value(lambda L=L: getattr(L, name)(x, y, mode)) for L in (signal, oracle))
        assert (ours is None) == (theirs is None), (mode, m, n)
        if ours is not None:
            np.testing.assert_allclose(ours, theirs, atol=1e-12, err_msg=f"{mode} {m} {n}")


SEGMENTS = [
    {"nperseg": 8}, {"nperseg": 7, "noverlap": 2, "window": "hamming"}, {"nperseg": 8, "window": ("kaiser", 2.0)},
    {"nperseg": 9, "nfft": 16, "detrend": "linear", "fs": 3.0}, {"nperseg": 10, "window": np.arange(1.0, 11)},
    {"nperseg": 8, "return_onesided": False, "detrend": "constant"}, {"nperseg": 6, "detrend": lambda x: 2 * x},
]
BOUNDARIES = [{"boundary": "odd", "padded": False}, {"boundary": "even"}, {"boundary": "constant"}, {"boundary": None}]
POWERS = [{"scaling": "spectrum"}, {"average": "median"}]


@pytest.mark.slow
@pytest.mark.parametrize("keywords", SEGMENTS, ids=range(len(SEGMENTS)))
def test_spectra_as_in_scipy(keywords):
    x, y = r(3, 40, 2), r(3, 33, 2)
    for more in BOUNDARIES:
        assert_same(*(value(lambda L=L: L.stft(x, axis=1, **more, **keywords)) for L in (signal, oracle)))
    for more in POWERS:
        more = {"axis": 1, **more, **keywords}
        assert_same(*(value(lambda L=L: [L.welch(x, **more), L.csd(x, y, **more)]) for L in (signal, oracle)))


# Options of stft, and those of istft if they differ.
INVERSES = [({"noverlap": 5}, {}), ({"nperseg": 7}, {}), ({"noverlap": 0, "window": "boxcar"}, {}), ({"nfft": 11}, {}),
            ({"return_onesided": False}, {"input_onesided": False})]


def test_istft_is_the_inverse_and_that_of_scipy():
    """Also for segments of odd size or without overlap, where JAX's fails."""
    x = r(2, 24)
    options = [({"nperseg": 8, **f}, {"nperseg": 8, **(b or f)}) for f, b in INVERSES]
    spectra = [oracle.stft(x, **forward)[2] for forward, _ in options]
    with xjax.enable_x64(True):
        ours = xjax.jit(lambda zs: [signal.istft(z, **b)[1] for z, (_, b) in zip(zs, options, strict=True)])(spectra)
    for y, z, (_, back) in zip(ours, spectra, options, strict=True):
        np.testing.assert_allclose(y, oracle.istft(z, **back)[1], atol=1e-12, err_msg=str(back))
        np.testing.assert_allclose(y[:, :24], x, atol=1e-12, err_msg=str(back))


def test_trends_and_segments_as_in_scipy():
    data = r(2, 12)

    def everything(L):
        return [L.detrend(data, bp=[4, 9]), L.detrend(data, 0, "constant"), *transformed(L, LONG),
                *powers(L, LONG, OTHER)]
    with xjax.enable_x64(True):
        assert_same(xjax.jit(lambda: everything(signal))(), everything(oracle))


def test_dtypes_and_traced_frequencies():
    assert signal.convolve(np.arange(3), np.arange(2)).dtype == np.float32
    assert signal.correlate(jnp.ones(3, "bfloat16"), jnp.ones(2, "bfloat16")).dtype == jnp.bfloat16
    assert signal.detrend([1, 2, 4]).dtype == np.float32
    x = r(16).astype(np.float32)
    slope = xjax.jit(xjax.grad(lambda fs: jnp.sum(signal.welch(x, fs, nperseg=8)[1])))(2.0)
    np.testing.assert_allclose(slope, -np.sum(oracle.welch(x, 2.0, nperseg=8)[1]) / 2, rtol=1e-5)


def test_warnings():
    with pytest.warns(UserWarning, match="nperseg=256 exceeds the 20 samples"):
        xjax.eval_shape(signal.stft, LONG)
    with pytest.warns(UserWarning, match="two-sided"):
        assert xjax.eval_shape(lambda x: signal.welch(x, nperseg=6), LONG + 1j)[0].shape == (6,)


@pytest.mark.parametrize("call, kind, text", [
    (lambda: signal.convolve(X, Y[0]), ValueError, "of the same number of axes"),
    (lambda: signal.convolve(X, Y, "some"), ValueError, "fix: pass 'full', 'same' or 'valid'"),
    (lambda: signal.convolve(X, Y, method="slow"), ValueError, "unknown method"),
    (lambda: signal.convolve(X[:0], Y), ValueError, "empty arrays"),
    (lambda: signal.convolve(r(3, 1), r(2, 2), "valid"), ValueError, "at least as large"),
    (lambda: signal.convolve2d(r(3), r(2)), ValueError, "takes arrays with 2 axes"),
    (lambda: signal.convolve2d(X, Y, boundary="wrap"), NotImplementedError, "padded with zeros only"),
    (lambda: signal.fftconvolve(X, Y, axes=1), ValueError, "not convolved must be of equal size"),
    (lambda: signal.detrend(X, type="cubic"), ValueError, "unknown type"),
    (lambda: signal.detrend(X, 0, bp=4), ValueError, "outside the axis"),
    (lambda: signal.detrend(X, overwrite_data=True), NotImplementedError, "leave it out"),
    (lambda: signal.stft(LONG, nperseg=4, noverlap=4), ValueError, "fix: choose noverlap < nperseg <= nfft"),
    (lambda: signal.stft(LONG, nperseg=4, nfft=3), ValueError, "fix: choose noverlap"),
    (lambda: signal.stft(LONG, nperseg=4, boundary="mirror"), ValueError, "unknown boundary"),
    (lambda: signal.stft(LONG[:, :2], window=np.ones(4)), ValueError, "as long as the signal"),
    (lambda: signal.stft(LONG, window=np.ones(4), nperseg=5), ValueError, "vector with 5 elements"),
    (lambda: signal.stft(LONG, nperseg=0), ValueError, "at least one sample"),
    (lambda: signal.welch(LONG, scaling="log"), ValueError, "unknown scaling"),
    (lambda: signal.welch(LONG, detrend=True), ValueError, "`detrend` is True"),
    (lambda: signal.welch(LONG, average="mode"), ValueError, "unknown average"),
    (lambda: signal.csd(r(2, 5), r(3, 5)), ValueError, "do not fit"),
    (lambda: signal.istft(r(3)), ValueError, "frequencies and times"),
    (lambda: signal.istft(X, time_axis=0, freq_axis=0), ValueError, "different axes"),
])
def test_misuse(call, kind, text):
    assert_refused(call, kind, text)
