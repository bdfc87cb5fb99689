"""`scipy.fft` against SciPy and real JAX in double precision; misuse."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same
from tests.ops.harness import check_as_jax
from tests.ops.row import OpRow, c, r
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax.scipy import fft

jax = real_jax()
oracle = pytest.importorskip("scipy.fft")

ONE = [{}, {"norm": "ortho"}, {"n": 1}, {"n": 3}, {"n": 6, "norm": "backward"}]
MANY = [{}, {"s": 3}, {"s": (2, 5)}, {"s": (2, 5), "axes": (2, 0)}, {"axes": 1}, {"s": [2, 3, 4], "norm": "ortho"}]


def everything(L, sizes):
    xs = [np.random.default_rng(n).standard_normal((2, n, 3)) for n in sizes]
    result = [getattr(L, name)(x, axis=1, **keywords) for name in ("dct", "idct") for x in xs for keywords in ONE]
    x = xs[-1] + 1j * xs[-1][:, ::-1]
    return result + [getattr(L, name)(x, **keywords) for name in ("dctn", "idctn") for keywords in MANY]


@pytest.mark.parametrize("sizes", [(2, 3), pytest.param((1, 4, 5, 8, 9, 30), marks=pytest.mark.slow)])
def test_as_in_scipy(sizes):
    with xjax.enable_x64(True):
        assert_same(xjax.jit(lambda: everything(fft, sizes))(), everything(oracle, sizes))


@pytest.mark.parametrize("row", [
    OpRow("dct", lambda L, x: [L.dct(x, norm="ortho"), L.idct(x, n=6, axis=0)], (r(5, 4),)),
    pytest.param(OpRow("dctn", lambda L, x: [L.dctn(x), L.idctn(x, s=(3, 2))], (c(2, 3),)), marks=pytest.mark.slow),
], ids=["dct", "dctn"])
def test_as_jax(row: OpRow) -> None:
    check_as_jax(row, fft, jax.scipy.fft)


def test_dtypes():
    for dtype in ("int32", "bfloat16", "float32"):
        assert fft.dct(jnp.ones(3, dtype)).dtype == fft.idct(jnp.ones(3, dtype)).dtype == np.float32
    x = r(1000).astype(np.float32)
    np.testing.assert_allclose(fft.idct(fft.dct(x)), x, atol=1e-5)      # sums of 1000 numbers of size 1


@pytest.mark.parametrize("call, kind, text", [
    (lambda: fft.dct(r(3), type=3), NotImplementedError, "fix: pass type=2"),
    (lambda: fft.dct(r(3), norm="forward"), ValueError, "unknown norm 'forward'"),
    (lambda: fft.dct(r(3), n=0), ValueError, "at least one element"),
    (lambda: fft.dct(r(3), axis=1), ValueError, "out of bounds"),
    (lambda: fft.dctn(r(3, 2), s=(1, 2, 3)), ValueError, "3 sizes for 2 axes"),
    (lambda: fft.dctn(r(3, 2), s=3, axes=(0, 1)), ValueError, "fix: pass one size for each axis"),
    (lambda: fft.idctn(r(3, 2), axes=(0, 0)), ValueError, "twice"),
])
def test_misuse(call, kind, text):
    assert_refused(call, kind, text)
