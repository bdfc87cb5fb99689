"""Expectations of products of functions of two Gaussian values, which kernels of nonlinear layers are made of."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from xjax import nn
from xnn.covariance import elementwise as moments
from xnn.covariance.hermite import expansion
from xnn.kernels import expansion_error

# (variance of u, variance of v, correlation), from opposite to equal values.
VALUES = np.array([(a, b, r) for a, b in ((1.0, 1.0), (0.3, 2.0), (2.5, 0.7))
                   for r in (-1.0, -0.9, -0.3, 0.0, 0.2, 0.8, 0.97, 1.0)])
SMOOTH = {
    "erf": (moments.erf(0.7, 1.3, 0.4), lambda x: 1.3 * xjax.lax.erf(0.7 * x) + 0.4),
    "gelu": (moments.gelu(), lambda x: nn.gelu(x, approximate=False)),
    "sine": (moments.sine(1.1, 0.8, 0.3), lambda x: 0.8 * jnp.sin(1.1 * x + 0.3)),
    "exponential": (moments.exponential(0.5, 0.7), lambda x: 0.7 * jnp.exp(0.5 * x)),
    "gaussian": (moments.gaussian(0.4, 1.2), lambda x: 1.2 * jnp.exp(-0.4 * x * x)),
    "power series": (moments.power_series((0.3, -1.0, 0.5, 0.2)), lambda x: 0.3 - x + 0.5 * x**2 + 0.2 * x**3),
}
KINKED = {
    "relu": (moments.half_linear(0.0, 1.0), nn.relu),
    "leaky": (moments.half_linear(-0.3, 1.2), lambda x: jnp.where(x > 0, 1.2 * x, -0.3 * x)),
    "abs": (moments.half_linear(-1.0, 1.0), jnp.abs),
    "sign": (moments.sign(), jnp.sign),
    "square": (moments.rectified_power(2), lambda x: nn.relu(x) ** 2),
    "cube": (moments.rectified_power(3), lambda x: nn.relu(x) ** 3),
    "fourth": (moments.rectified_power(4), lambda x: nn.relu(x) ** 4),
}


def arguments():
    a, b, r = jnp.asarray(VALUES.T)
    c = r * jnp.sqrt(a * b)
    return c, a, b, jnp.where(abs(r) < 1, jnp.maximum(a * b - c * c, 0), 0)


def by_nodes(fun, n=120):
    """The two expectations by Gauss-Hermite quadrature in two variables, exact for polynomials of degree 2 n - 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    weights = np.outer(weights, weights) / (2 * np.pi)
    slope = xjax.vmap(xjax.vmap(xjax.grad(fun)))
    result = []
    for a, b, r in VALUES:
        u = np.sqrt(a) * np.broadcast_to(nodes[:, None], (n, n))
        v = np.sqrt(b) * (r * nodes[:, None] + np.sqrt(1 - r * r) * nodes)
        result.append([np.sum(weights * f(jnp.asarray(u)) * f(jnp.asarray(v))) for f in (fun, slope)])
    return np.array(result).T


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions(name):
    closed, fun = SMOOTH[name]
    with xjax.enable_x64(True):
        expected = by_nodes(fun)
        np.testing.assert_allclose(np.stack(closed(*arguments())), expected, 1e-9, 1e-11)
        # 64 terms of the expansion are enough for functions without singularities near the real axis.
        np.testing.assert_allclose(np.stack(expansion(name, fun)(*arguments())), expected, 1e-9, 1e-9)


@pytest.mark.parametrize("name", KINKED)
def test_functions_with_a_kink(name):
    closed, fun = KINKED[name]
    with xjax.enable_x64(True):
        expected, expanded = closed(*arguments()), expansion(name, fun)(*arguments())
        bounds = [np.maximum(*np.asarray(bound)[:, None]) for bound in zip(
            *(expansion_error(fun, VALUES[:, side]) for side in (0, 1)), strict=True)]
        for which, bound, one, other in zip(("value", "slope"), bounds, expanded, expected, strict=True):
            if name == "sign" and which == "slope":
                continue                    # the derivative of a jump is not a function
            size = np.sqrt(np.prod([closed(v, v, v, 0 * v)[which == "slope"] for v in VALUES.T[:2]], 0))
            # The integrals of the coefficients have an error of their own, of the square of the spacing at a kink.
            assert np.all(np.abs(one - other) <= (bound + 2e-4) * size), which


def test_the_error_of_an_expansion_is_small_for_smooth_functions():
    with xjax.enable_x64(True):
        for fun in (jnp.tanh, nn.sigmoid, nn.gelu, nn.silu, nn.softplus):
            assert np.max(expansion_error(fun, [0.1, 1.0])) < 1e-7
            assert np.max(expansion_error(fun, 3.0)) < 1e-4
        assert 1e-3 < expansion_error(jnp.sign, 1.0)[0] < 0.1
        assert np.isnan(expansion_error(jnp.sign, 1.0)[1])


def test_a_function_of_several_entries_is_refused():
    model = xnn.serial(xnn.Dense(4), xnn.Softmax, xnn.Dense(1))
    with pytest.raises(ValueError, match="not elementwise") as info:
        model.kernel(np.ones((2, 3), np.float32))
    assert info.value.__notes__ == ["in serial[1] -> Softmax (kernel)"]
