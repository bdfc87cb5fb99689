"""`xjax.numpy.fft` against JAX: values, dtypes and classes of errors of every row; inverses; derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp
from tests.numpy.calls import check_calls
from tests.numpy.rows import X3, C, H, I, V, X
from tests.oracle import real_jax
from tests.sampling import one_in

jnp = real_jax().numpy

X4 = np.arange(16, dtype=np.float32).reshape(2, 2, 1, 4) ** 2
ROWS = [
    *[(name, args, keywords) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for args, keywords in (
        ((X,), {}), ((X, 3), {}), ((X, 7, 0), {"norm": "ortho"}), ((V,), {"norm": "forward"}), ((I,), {}))],
    *[(name, args, keywords) for name in ("fftn", "ifftn", "rfftn", "irfftn") for args, keywords in (
        ((X3,), {}), ((X4,), {}), ((X3, (2, 5), (2, 0)), {}), ((X3,), {"axes": (1,), "norm": "ortho"}))],
    *[(name, (X3,), {}) for name in ("fft2", "ifft2", "rfft2", "irfft2")],
    ("fft", (C,), {}), ("fft", (H,), {}), ("irfft", (C,), {}), ("hfft", (C,), {}), ("irfft2", (C, None, (1, 0)), {}),
    ("fftn", (X3, (2, 3)), {}), ("fft", (X[:, :0],), {"n": 2}), ("irfft", (X, 1), {}), ("fft", (X[:0],), {}),
    ("fftfreq", (5,), {}), ("fftfreq", (6, 0.5), {}), ("rfftfreq", (7, 2.0), {}), ("rfftfreq", (6,), {}),
    ("fftfreq", (5,), {"dtype": "float16"}),
    ("fftfreq", (5, 0.1), {"dtype": "complex64"}), ("rfftfreq", (4,), {"dtype": "complex64"}),   # jax-ml/jax#30287
    *[(name, args, {}) for name in ("fftshift", "ifftshift") for args in ((X,), (X, 1), (X3, (0, 2)), (V,))],
    # errors
    ("rfft", (C,), {}), ("fft", (X, 0), {}), ("fft", (X,), {"norm": "no"}), ("fft", (X, None, 2), {}),
    ("fftn", (X, (2,), (0, 1)), {}), ("fft2", (X3, None, (0, 1, 2)), {}), ("fft2", (V,), {}),
    ("fftn", (X3, None, (0, 0)), {}), ("irfft", (X[:, :1],), {}), ("fftfreq", (0,), {}), ("fft", ([1, 2],), {}),
]


@pytest.mark.parametrize("name", one_in(2, sorted({name for name, _, _ in ROWS})))
def test_call(name):
    check_calls(ROWS, name, "numpy.fft")


def test_real_half_precision_is_refused():
    for module in (xnp, jnp):
        with pytest.raises((TypeError, ValueError)):                # there is no complex dtype of 32 bits
            module.fft.rfft(module.asarray(H))


@pytest.mark.parametrize(("forward", "inverse"), [("fftn", "ifftn"), ("rfftn", "irfftn"), ("ihfft", "hfft")])
def test_inverse(forward, inverse):
    x = xnp.asarray(X3 / 10)
    for norm in (None, "ortho", "forward"):
        back = getattr(xnp.fft, inverse)(getattr(xnp.fft, forward)(x, norm=norm), norm=norm)
        np.testing.assert_allclose(back.real, x, atol=1e-6)


def spectrum_power(np_: Any, x: Any) -> Any:
    y = np_.fft.rfftn(x, s=(4, 5), norm="ortho")
    return np_.sum(np_.abs(y) ** 2 * np_.arange(3.0)) + np_.sum(np_.fft.irfft2(y ** 2) ** 2)


def test_gradient():
    jax = real_jax()
    with jax.enable_x64(True), xjax.enable_x64(True):
        ours = xjax.jit(xjax.grad(lambda x: spectrum_power(xnp, x)))(X.astype(np.float64))
        theirs = jax.jit(jax.grad(lambda x: spectrum_power(jnp, x)))(X.astype(np.float64))
    np.testing.assert_allclose(ours, theirs, rtol=1e-11)            # float64, sums of 60 numbers


def test_lengths_that_do_not_fit():
    with pytest.raises(ValueError, match=r"needs +\[\.\.\., 3, 2\]"):
        xjax.lax.fft(C, "IRFFT", (3, 3))
    with pytest.raises(ValueError, match="unknown type of transform"):
        xjax.lax.fft(C, "DCT", (4,))
    with pytest.raises(TypeError, match="does not accept dtype"):
        xjax.lax.fft(C, "RFFT", (4,))


def test_prints_as_in_jax():
    text = str(xjax.make_jaxpr(lambda x: xjax.lax.fft(x, "RFFT", (4,)))(X))
    assert "fft[fft_lengths=(4,) fft_type=2]" in text
