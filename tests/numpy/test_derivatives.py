"""Gradients (under jit) and vmap of functions composed of several operations agree with JAX's, also at edges."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as xnp
from tests.compare import assert_same
from tests.oracle import current, only, real_jax
from tests.sampling import one_in

jax = real_jax()

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
# name -> scalar function of (module, matrix)
FUNCTIONS = {
    "var": lambda n, a: n.var(a, 0).sum(),
    "std": lambda n, a: n.std(a),
    "median": lambda n, a: n.median(a, 1).sum(),
    "quantile": lambda n, a: n.quantile(a, 0.3),
    "sort": lambda n, a: (n.sort(a) * n.arange(4)).sum(),
    "einsum": lambda n, a: n.einsum("ij,kj,kl->", a, a, a),
    "matmul": lambda n, a: (a @ a.T @ a).sum(),
    "max": lambda n, a: n.max(a, 1).sum(),
    "max of ties": lambda n, a: n.max(a * 0, 1).sum(),
    "logaddexp": lambda n, a: n.logaddexp(a, a[0]).sum(),
    "hypot at 0": lambda n, a: n.hypot(a * 0, a * 0).sum(),
    "sinc at 0": lambda n, a: n.sinc(a * 0).sum(),
    "reflecting pad": lambda n, a: (n.pad(a, 1, mode="reflect") ** 2).sum(),
    "cumsum": lambda n, a: (n.cumsum(a, 1) ** 2).sum(),
    "static power at 0": lambda n, a: n.power(a * 0, 2).sum() + n.power(a, 3.0).sum(),
    "integer powers": lambda n, a: n.power(n.abs(a), n.arange(4)).sum(),
    "remainder": lambda n, a: n.remainder(a, 0.7).sum(),
    "nanmean": lambda n, a: n.nanmean(n.where(a > 0, a, n.nan)),
    "interp": lambda n, a: n.interp(a, n.linspace(-2, 2, 5), n.arange(5.0) ** 2).sum(),
    "trace": lambda n, a: n.trace(a @ a.T),
    "prod": lambda n, a: n.prod(a),
    "cov": lambda n, a: n.cov(a).sum(),
    "kron": lambda n, a: n.kron(a, a).sum(),
    "cross": lambda n, a: n.cross(a[:, :3], a[::-1, 1:]).sum(),
    "roll": lambda n, a: (n.roll(a, 1, 1) * a).sum(),
    "diag": lambda n, a: (n.diag(n.diagonal(a)) ** 2).sum(),
    "convolve": lambda n, a: (n.convolve(a[0], a[1]) ** 2).sum(),
    "tril": lambda n, a: (n.tril(a) ** 2).sum(),
    "periodic interp": lambda n, a: n.interp(a, n.linspace(0, 2, 5), n.arange(5.0) ** 2, period=3).sum(),
    "extrapolating interp": lambda n, a: n.interp(3 * a, n.arange(3.0), a[0, :3], "extrapolate", 2.0).sum(),
    "gradient": lambda n, a: (n.gradient(a, n.cumsum(n.abs(a[0])), axis=1) ** 2).sum(),
    "unwrap": lambda n, a: (n.unwrap(9 * a) ** 2).sum(),
    "i0": lambda n, a: n.i0(a).sum(),
    "kaiser": lambda n, a: (n.kaiser(5, 3 + a[0, 0]) * n.arange(5)).sum(),
    "poly": lambda n, a: (n.poly(a[0]) ** 2).sum(),
    "polyfit": lambda n, a: (n.polyfit(n.arange(4.0), a[0], 1, w=n.abs(a[1])) ** 2).sum(),
    "polydiv": lambda n, a: (n.polydiv(a[0], 2 + a[1, :2])[0] ** 2).sum(),
    "fill_diagonal": lambda n, a: (n.fill_diagonal(a, a[0, :3], inplace=False) ** 2).sum(),
}


# Functions whose gradient is intentionally a number here, and NaN in newer versions of JAX.
NAN_IN_JAX = current({only("hypot at 0", since="0.12")})


@pytest.mark.parametrize("name", one_in(6, FUNCTIONS))
def test_gradient(name):
    f = FUNCTIONS[name]
    ours = xjax.jit(xjax.grad(lambda a: f(xnp, a)))(xnp.asarray(X))
    theirs = jax.jit(jax.grad(lambda a: f(jax.numpy, a)))(jax.numpy.asarray(X))
    if name in NAN_IN_JAX:
        assert np.isnan(theirs).all() and not np.any(ours)
    else:
        assert_same(ours, theirs)


@pytest.mark.parametrize("name", one_in(6, FUNCTIONS))
def test_vmap(name):
    f = FUNCTIONS[name]
    batch = np.stack([X, 2 * X, -X])
    ours = xjax.jit(xjax.vmap(lambda a: f(xnp, a)))(xnp.asarray(batch))
    one_by_one = [f(xnp, xnp.asarray(a)) for a in batch]
    np.testing.assert_allclose(np.asarray(ours), np.asarray(one_by_one), rtol=1e-4, atol=1e-5)


def test_host_arrays_of_64_bits_become_32_bits_silently(recwarn):
    x = np.eye(3)
    assert xnp.matmul(x, x).dtype == xnp.einsum("ii->", x).dtype == np.float32
    assert not recwarn.list
