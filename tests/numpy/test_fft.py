"""`xjax.numpy.fft` against JAX: values, dtypes and classes of errors of every row; inverses; derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp
from tests.numpy.rows import X3, C, H, I, V, X
from tests.oracle import real_jax
from tests.sampling import one_in
from tests.values.checks import check_calls
from tests.values.row import calls

jnp = real_jax().numpy

X4 = np.arange(16, dtype=np.float32).reshape(2, 2, 1, 4) ** 2
ROWS = [row for names, arguments in (
    ("fft ifft rfft irfft hfft ihfft", (X, (X, 3), (X, 7, 0, {"norm": "ortho"}), (V, {"norm": "forward"}), I)),
    ("fftn ifftn rfftn irfftn", (X3, X4, (X3, (2, 5), (2, 0)), (X3, {"axes": (1,), "norm": "ortho"}))),
    ("fft2 ifft2 rfft2 irfft2", (X3,)),
    ("fft", (C, H, (X[:, :0], {"n": 2}), X[:0])),
    ("irfft", (C, (X, 1))),
    ("hfft", (C,)),
    ("irfft2", ((C, None, (1, 0)),)),
    ("fftn", ((X3, (2, 3)),)),
    ("fftfreq", (5, (6, 0.5), (5, {"dtype": "float16"}), (5, 0.1, {"dtype": "complex64"}))),    # jax-ml/jax#30287
    ("rfftfreq", ((7, 2.0), 6, (4, {"dtype": "complex64"}))),
    ("fftshift ifftshift", (X, (X, 1), (X3, (0, 2)), V)),
    # errors
    ("fft", ((X, 0), (X, {"norm": "no"}), (X, None, 2), [1, 2])),
    ("rfft", (C,)),
    ("irfft", (X[:, :1],)),
    ("fft2", ((X3, None, (0, 1, 2)), V)),
    ("fftn", ((X, (2,), (0, 1)), (X3, None, (0, 0)))),
    ("fftfreq", (0,)),
) for row in calls("numpy.fft", names, *arguments)]


@pytest.mark.parametrize("name", one_in(2, sorted({row.name.removeprefix("numpy.fft.") for row in ROWS})))
def test_call(name):
    check_calls([row for row in ROWS if row.name == f"numpy.fft.{name}"])


def test_real_half_precision_is_refused():
    for module in (xnp, jnp):
        with pytest.raises((TypeError, ValueError)):                # there is no 32-bit complex dtype
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
