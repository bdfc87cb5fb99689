"""The kernels of elementwise functions: expectations of ``f(u) f(v)`` and ``f'(u) f'(v)`` for Gaussian u and v.

u and v have mean 0, variances a and b, and covariance c. A function with a closed form has a `Moments`; every other one
gets an expansion in Hermite polynomials (`xnn.covariance.hermite`).

``gap = a b - c**2`` is an argument of its own: it is 0 where u and v are the same value, and rounding would make it
something else. All closed forms use it instead of the correlation, which loses half of the digits near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import TypeAlias

import numpy as np

import xjax
import xjax.numpy as jnp
from xjax.errors import bad
from xjax.typing import Array
from xnn.covariance.affine import against_covariances, same_position, same_value
from xnn.covariance.kernel import Kernel, new_weights, product_of

# (c, a, b, gap) -> (the expectation of f(u) f(v), that of f'(u) f'(v)); a and b broadcast against c.
Moments: TypeAlias = Callable[[Array, Array, Array, Array], tuple[Array, Array]]


@singledispatch
def after_function(kernel: Kernel, name: str, fun: Callable[[Array], Array], moments: Moments) -> Kernel:
    """The kernel after an elementwise function. Raises: ValueError if its input is not Gaussian."""
    return _with_moments(kernel, name, moments)


def after_prelu(kernel: Kernel, slope: float, per_feature: bool) -> Kernel:
    """The kernel after ``max(x, 0) + slope * min(x, 0)`` with a trained slope for each feature.

    Raises: ValueError for the NTK with one slope for all features: it has no limit for many features.
    """
    check_kernel("PReLU", kernel)
    after = _with_moments(kernel, "PReLU", half_linear(slope, 1.0))
    if after.ntk is None:
        return after
    if not per_feature:
        raise bad("PReLU.kernel", "one slope for all features has no NTK in the limit of many features",
                  {"per_feature": False}, 'PReLU(per_feature=True), or get="nngp".', ValueError)
    negative = _with_moments(kernel, "PReLU", half_linear(1.0, 0.0))        # of min(x, 0), the derivative in the slope
    return after.replace(ntk=after.ntk + negative.nngp)


def gated(kernel: Kernel, name: str, gate: Callable[[Array], Array], moments: Moments) -> Kernel:
    """The kernel after ``value * gate(rest)``, for two halves of the features, which have different weights."""
    check_kernel(name, kernel)
    half = kernel.replace(features=kernel.features // 2)
    return product_of([half, after_function(half, name, gate, moments).replace(weights=new_weights())])


def check_kernel(name: str, kernel: object) -> None:
    """Raises: TypeError for features of a sketch."""
    if not isinstance(kernel, Kernel):
        raise bad("sketched_features", f"{name} has no random features", fix="compute the kernel itself: "
                  "tiled_kernel(model, x), or replace the layer.")


def _with_moments(kernel: Kernel, name: str, moments: Moments) -> Kernel:
    if not kernel.gaussian:
        raise bad(f"{name}.kernel", "the input of a nonlinear function must be Gaussian, the output of random weights",
                  fix=f"put a layer such as Dense or Conv before {name}.", exc=ValueError)
    at1, at2 = kernel.variances()
    positions = kernel.positions

    def both(c: Array, batch: int, pairs: bool, one: Array, other: Array, equal: Array | None) -> tuple[Array, Array]:
        a, b = against_covariances(one, other, batch, pairs)
        gap = jnp.maximum(a * b - c * c, 0)
        return moments(c, a, b, gap if equal is None else jnp.where(equal, 0, gap))

    def of_variance(values: Array, at: Array) -> Array:
        if kernel.variance_pairs and positions:
            return both(values, 1, True, at, at, same_position(values.shape, 1, positions))[0]
        return moments(at, at, at, jnp.zeros_like(at))[0]

    nngp, slope = both(kernel.nngp, 2, kernel.pairs, at1, at2, same_value(kernel))
    return kernel.replace(
        nngp=nngp, ntk=None if kernel.ntk is None else kernel.ntk * slope, var1=of_variance(kernel.var1, at1),
        var2=None if kernel.var2 is None else of_variance(kernel.var2, at2), gaussian=False)


@xjax.custom_jvp
def root_of(x: Array) -> Array:
    """The square root of x, 0 for x < 0, with derivative 0 at 0.

    Two selections by ``x > 0``, one around the root and one inside, would do without a rule. But XLA may compute a
    difference x once for each, with other roundings: 0 for the inner one, which then puts 1 under the root.
    """
    return jnp.sqrt(jnp.maximum(x, 0))


@root_of.defjvp
def _root_jvp(values: Sequence[Array], tangents: Sequence[Array]) -> tuple[Array, Array]:
    value = root_of(*values)
    return value, jnp.where(value > 0, tangents[0] / (2 * jnp.where(value > 0, value, 1)), 0)


def _angle(c: Array, gap: Array) -> Array:
    """The angle between u and v: 0 for equal values, and a right angle where one of them is constant."""
    constant = (gap == 0) & (c == 0)
    return jnp.where(constant, math.pi / 2, _arctan2(root_of(gap), jnp.where(constant, 1, c)))


@xjax.custom_jvp
def _arctan2(y: Array, x: Array) -> Array:
    """``arctan2(y, x)``, by arithmetic that XLA computes for several elements at once: 30 times as fast on CPUs.

    The ratio of the smaller to the larger argument, at most 1, is reduced to at most ``tan(pi / 8)``, where the Taylor
    series converges as fast as ``0.17**n / n``.
    """
    larger, smaller = jnp.maximum(jnp.abs(y), jnp.abs(x)), jnp.minimum(jnp.abs(y), jnp.abs(x))
    ratio = smaller / jnp.where(larger > 0, larger, 1)
    is_large = ratio > math.tan(math.pi / 8)
    reduced = jnp.where(is_large, (ratio - 1) / (ratio + 1), ratio)
    terms = 10 if ratio.dtype.itemsize <= 4 else 22
    angle = reduced * _horner([(-1) ** k / (2 * k + 1) for k in range(terms)], reduced * reduced)
    angle = jnp.where(is_large, angle + math.pi / 4, angle)
    angle = jnp.where(jnp.abs(y) > jnp.abs(x), math.pi / 2 - angle, angle)
    angle = jnp.where(x < 0, math.pi - angle, angle)
    return jnp.where(y < 0, -angle, angle)


@_arctan2.defjvp
def _arctan2_jvp(values: Sequence[Array], tangents: Sequence[Array]) -> tuple[Array, Array]:
    (y, x), (dy, dx) = values, tangents
    square = x * x + y * y
    return _arctan2(y, x), (x * dy - y * dx) / jnp.where(square > 0, square, 1)


def by_price(nngp: Callable[[Array, Array, Array, Array], Array]) -> Moments:
    """Moments from the first expectation alone: its derivative in c is the second one (Price, 1958).

    Args: nngp: ``(c, a, b, gap) -> expectation``, smooth where gap is 0.
    """

    def moments(c: Array, a: Array, b: Array, gap: Array) -> tuple[Array, Array]:
        return xjax.jvp(lambda c, gap: nngp(c, a, b, gap), (c, gap), (jnp.ones_like(c), -2 * c))

    return moments


# -- piecewise powers ----------------------------------------------------------------------------------------------


def half_linear(below: float | Array, above: float | Array) -> Moments:
    """``above * x`` for x > 0 and ``below * x`` for x < 0 (Cho and Saul, 2009): Relu, LeakyRelu, Abs."""
    step = above - below

    def moments(c: Array, a: Array, b: Array, gap: Array) -> tuple[Array, Array]:
        linear = step * below + below * below
        slope = step * step * (math.pi - _angle(c, gap)) / (2 * math.pi) + linear
        return step * step * _relu(c, a, b, gap) + linear * c, slope

    return moments


@xjax.custom_jvp
def _relu(c: Array, a: Array, b: Array, gap: Array) -> Array:
    """The expectation of relu(u) relu(v)."""
    return (root_of(gap) + c * (math.pi - _angle(c, gap))) / (2 * math.pi)


@_relu.defjvp
def _relu_jvp(values: Sequence[Array], tangents: Sequence[Array]) -> tuple[Array, Array]:
    # As a function of c, a and b. The terms with 1 / gap that differentiation of the formula gives cancel.
    (c, a, b, gap), (dc, da, db, _) = values, tangents
    root = root_of(gap)
    by_c = (math.pi - _angle(c, gap)) / (2 * math.pi)
    by_a = root / (4 * math.pi * jnp.where(a > 0, a, 1))
    by_b = root / (4 * math.pi * jnp.where(b > 0, b, 1))
    return _relu(c, a, b, gap), by_c * dc + by_a * da + by_b * db


def sign() -> Moments:
    """sign(x); its derivative is 0 almost everywhere, so that no gradient passes through it."""

    def moments(c: Array, a: Array, b: Array, gap: Array) -> tuple[Array, Array]:
        nngp = 1 - 2 * _angle(c, gap) / math.pi
        return nngp, jnp.zeros_like(nngp)

    return moments


def rectified_power(n: int) -> Moments:
    """``max(x, 0)**n``: the arc-cosine kernels (Cho and Saul, 2009); n = 0 is the step function."""

    def nngp(n: int, c: Array, a: Array, b: Array, gap: Array) -> Array:
        # J_n = sin P_n(cos) + (pi - angle) Q_n(cos), where J_{n+1} = (2 n + 1) cos J_n - sin dJ_n / d angle.
        cosine, square = np.poly1d([1, 0]), np.poly1d([-1, 0, 1])            # of the cosine: itself, and sin**2
        of_sine, of_angle = np.poly1d([0]), np.poly1d([1])
        for k in range(n):
            of_sine, of_angle = (2 * k * cosine * of_sine + square * of_sine.deriv() + of_angle,
                                 (2 * k + 1) * cosine * of_angle + square * of_angle.deriv())
        size = root_of(a * b)
        known = size > 0
        cos = jnp.where(known, c / jnp.where(known, size, 1), 0)
        sin = jnp.where(known, root_of(gap) / jnp.where(known, size, 1), 1)
        sine_part, angle_part = (_horner(part.coeffs[::-1], cos) for part in (of_sine, of_angle))
        value = sin * sine_part + (math.pi - _angle(c, gap)) * angle_part
        return value * size**n / (2 * math.pi)

    def moments(c: Array, a: Array, b: Array, gap: Array) -> tuple[Array, Array]:
        value = nngp(n, c, a, b, gap)
        return value, n * n * nngp(n - 1, c, a, b, gap) if n else jnp.zeros_like(value)

    return moments


def _horner(coefficients: Sequence[float] | np.ndarray, x: Array) -> Array:
    total = jnp.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + float(coefficient)
    return total


# -- smooth functions --------------------------------------------------------------------------------------------------


def erf(scale: float = 1.0, factor: float = 1.0, shift: float = 0.0) -> Moments:
    """``factor * erf(scale * x) + shift`` (Williams, 1997)."""

    def moments(c: Array, a: Array, b: Array, gap: Array) -> tuple[Array, Array]:
        s = scale * scale
        under = 1 + 2 * s * (a + b) + 4 * s * s * gap       # (1 + 2 s a) (1 + 2 s b) - (2 s c)**2
        angle = _arctan2(2 * s * c, jnp.sqrt(under))
        return (factor * factor * 2 / math.pi * angle + shift * shift,
                factor * factor * s * 4 / math.pi / jnp.sqrt(under))

    return moments


def gelu() -> Moments:
    """``x * Phi(x)`` with the normal distribution function Phi (Tsuchida et al., 2020)."""

    def nngp(c: Array, a: Array, b: Array, gap: Array) -> Array:
        under = 1 + a + b + gap                             # (1 + a) (1 + b) - c**2
        angle = _arctan2(c, jnp.sqrt(under))
        return c / 4 + (c * angle + (gap + c * c * (1 / (1 + a) + 1 / (1 + b))) / jnp.sqrt(under)) / (2 * math.pi)

    return by_price(nngp)


def sine(scale: float = 1.0, factor: float = 1.0, shift: float = 0.0) -> Moments:
    """``factor * sin(scale * x + shift)``."""

    def moments(c: Array, a: Array, b: Array, gap: Array) -> tuple[Array, Array]:
        s = scale * scale
        near = jnp.exp(-s * (a + b - 2 * c) / 2)
        far = math.cos(2 * shift) * jnp.exp(-s * (a + b + 2 * c) / 2)
        return factor * factor * (near - far) / 2, factor * factor * s * (near + far) / 2

    return moments


def exponential(scale: float = 1.0, factor: float = 1.0) -> Moments:
    """``factor * exp(scale * x)``."""

    def moments(c: Array, a: Array, b: Array, gap: Array) -> tuple[Array, Array]:
        s = scale * scale
        nngp = factor * factor * jnp.exp(s * (a + b) / 2 + s * c)
        return nngp, s * nngp

    return moments


def gaussian(scale: float = 1.0, factor: float = 1.0) -> Moments:
    """``factor * exp(-scale * x**2)``, scale >= 0."""

    def nngp(c: Array, a: Array, b: Array, gap: Array) -> Array:
        return factor * factor / jnp.sqrt(1 + 2 * scale * (a + b) + 4 * scale * scale * gap)

    return by_price(nngp)


def power_series(coefficients: Sequence[float]) -> Moments:
    """The polynomial with ``coefficients[k]`` for ``x**k``: finite sums of moments of two Gaussian values."""

    def expectation(coefficients: Sequence[float], c: Array, a: Array, b: Array) -> Array:
        # f(u) = sum over j of h_j(a) c**j / j! for the part that shares j factors with v: h_j(a) is the expectation of
        # the j-th derivative of f at a value of variance a.
        total = jnp.zeros_like(c)
        factorial = 1.0
        derivative = np.asarray(coefficients, float)
        for j in range(len(coefficients)):
            total = total + _mean(derivative, a) * _mean(derivative, b) * c**j / factorial
            derivative, factorial = _derivative(derivative), factorial * (j + 1)
        return total

    def moments(c: Array, a: Array, b: Array, gap: Array) -> tuple[Array, Array]:
        return expectation(coefficients, c, a, b), expectation(_derivative(np.asarray(coefficients, float)), c, a, b)

    return moments


def _derivative(coefficients: np.ndarray) -> np.ndarray:
    return coefficients[1:] * np.arange(1, len(coefficients))


def _mean(coefficients: Sequence[float] | np.ndarray, variance: Array) -> Array:
    """The expectation of a polynomial of a Gaussian value."""
    even = [coefficient * math.prod(range(1, 2 * i, 2)) for i, coefficient in enumerate(coefficients[::2])]
    return _horner(even, variance)
