"""Modified Bessel functions of integer order, divided by their exponential growth, element-wise, with all derivatives.

``exp(-x) i(order, x)`` is the mean of ``cos(order u) exp(x (cos(u) - 1))`` for u from 0 to pi, and its derivatives have
powers of ``cos(u) - 1`` as factors. It is also ``x**order`` times a mean of positive numbers, a form that is used for
small x. From these means, the polynomials of a derivative are computed when it is first used. A formula in i0e and i1e
would be a difference of two functions that approach each other as x grows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from xjax.core import dtypes
from xjax.core.hlo import Builder, Value
from xjax.core.types import ShapedArray
from xjax.ops.checks import FLOAT
from xjax.ops.elementwise import mul
from xjax.ops.makers import unary, unary_function
from xjax.typing import Array, ArrayLike

_PI = np.arccos(np.longdouble(-1))      # series are computed in extended precision, if available
_NODES = 34
_MIDDLE, _FAR = 2.0, 8.0                # ends of the ranges of x; beyond the last, series in 1 / x are used


def _means(x: np.ndarray, order: int, n: int, count: int, positive: bool = False) -> np.ndarray:
    """The n-th derivative of ``exp(-x) i(order, x)``, exact because the function of u is periodic. With `positive`, n
    must be 0, and the result is divided by ``x**order``: the mean of positive numbers."""
    u = (np.arange(count) + 0.5) * (_PI / count)
    fall = -2 * np.sin(u / 2) ** 2                                          # cos(u) - 1
    weight = np.sin(u) ** (2 * order) / np.prod(np.arange(1.0, 2 * order, 2)) if positive else np.cos(order * u)
    return np.mean(weight * fall ** n * np.exp(np.multiply.outer(x, fall)), -1)


@functools.cache
def _series(order: int, n: int, start: float, end: float) -> list[float]:
    """Chebyshev coefficients of the n-th derivative times ``(1 + x)**n``, or of the value times ``(1 + 1 / x)**order``.

    The variable goes from -1 at `start` to 1 at `end`. If `end` is infinite, the variable is linear in 1 / x, and the
    factor is ``x**(n + 1/2)``. The factors keep the relative error small."""
    odd = 2 * np.arange(_NODES) + 1
    turns = np.outer(np.arange(_NODES), odd) % (4 * _NODES)                 # reduced exactly, as integers
    t = np.cos(odd * (_PI / (2 * _NODES)))
    if end == np.inf:
        x = 2 * start / (t + 1)
        values = x ** (n + 0.5) * _means(x, order, n, 600)
    else:
        x = start + (end - start) / 2 * (t + 1)
        values = (1 + x) ** (n or order) * _means(x, order, n, 64, positive=n == 0)
    return (np.cos(turns * (_PI / (2 * _NODES))) @ values * 2 / _NODES).astype(float).tolist()


def _count(coefficients: Sequence[float], smallest: float) -> int:
    return max(k for k, c in enumerate(coefficients) if abs(c) > smallest) + 1


def _chebyshev(b: Builder, t: Value, coefficients: Sequence[float]) -> Value:
    """The series at t, by Clenshaw's recurrence, without terms below the precision of t."""
    smallest = max(float(dtypes.finfo(t.aval.dtype).eps) / 16, 2.0**-54)
    double = b.add(t, t)
    last = before = b.constant(0, t.aval)
    for c in reversed(coefficients[1:_count(coefficients, smallest)]):
        product = b.sub(b.mul(double, last), before)
        last, before = b.add(product, b.constant(c, t.aval)), last
    product = b.sub(b.mul(t, last), before)
    return b.add(product, b.constant(coefficients[0] / 2, t.aval))


def _polynomial(b: Builder, t: Value, coefficients: Sequence[float]) -> Value:
    """The series at t by powers of t, for series so short that the powers have small coefficients."""
    count = _count(coefficients, float(dtypes.finfo(t.aval.dtype).eps) / 128)
    terms = np.polynomial.chebyshev.cheb2poly([coefficients[0] / 2, *coefficients[1:count]]).tolist()
    y = b.constant(terms[-1], t.aval)
    for c in reversed(terms[:-1]):
        y = b.add(b.mul(y, t), c)
    return y


def _near(b: Builder, size: Value, order: int, n: int) -> Value:
    """Values for x up to 8. Derivatives change sign or size near 0, so they are polynomials in two ranges."""
    if not n:
        y = _chebyshev(b, b.sub(b.mul(size, 2 / _FAR), 1), _series(order, 0, 0, _FAR))
        return b.mul(y, _power(b, b.div(size, b.add(size, 1)), order)) if order else y
    low = _polynomial(b, b.sub(b.mul(size, 2 / _MIDDLE), 1), _series(order, n, 0, _MIDDLE))
    high = _polynomial(b, b.mul(b.sub(size, 5), 1 / 4), _series(order, n, 1, 9))       # the variable is then exact
    y = b.select(b.compare("LE", size, b.constant(_MIDDLE, size.aval)), low, high)
    return b.div(y, _power(b, b.add(size, 1), n))


def _derivative_lower(b: Builder, out: ShapedArray, x: Value, order: int, n: int) -> Value:
    # Half-precision types are computed in single precision.
    x = b.convert(x, dtypes.accumulator_dtype(out.dtype))
    size = b.unary("stablehlo.abs", x)
    inverse = b.div(b.constant(1, size.aval), size)
    of_inverse = _chebyshev(b, b.sub(b.mul(inverse, 2 * _FAR), 1), _series(order, n, _FAR, np.inf))
    far = b.mul(of_inverse, b.unary("stablehlo.rsqrt", size))
    if n:
        far = b.mul(far, _power(b, inverse, n))
    y = b.select(b.compare("LE", size, b.constant(_FAR, size.aval)), _near(b, size, order, n), far)
    if (order + n) % 2:
        y = b.mul(y, b.unary("stablehlo.sign", x))
    return b.convert(y, out.dtype)


def _power(b: Builder, x: Value, n: int) -> Value:
    return functools.reduce(b.mul, [x] * n)


def _derivative(x: ArrayLike, order: int, n: int) -> Array:
    return bessel_derivative_p.bind(x, order=order, n=n)


# The n-th derivative at x of ``exp(-abs(x)) i(order, x)``; n = 0: the function itself.
bessel_derivative_p = unary("bessel_derivative", FLOAT, _derivative_lower,
                            lambda dx, y, x, order, n: mul(dx, _derivative(x, order, n + 1)))
bessel_i0e_p = unary("bessel_i0e", FLOAT, lambda b, out, x: _derivative_lower(b, out, x, 0, 0),
                     lambda dx, y, x: mul(dx, _derivative(x, 0, 1)))
bessel_i0e = unary_function(bessel_i0e_p, "Modified Bessel function of order 0 times ``exp(-abs(x))``, element-wise.")
bessel_i1e_p = unary("bessel_i1e", FLOAT, lambda b, out, x: _derivative_lower(b, out, x, 1, 0),
                     lambda dx, y, x: mul(dx, _derivative(x, 1, 1)))
bessel_i1e = unary_function(bessel_i1e_p, "Modified Bessel function of order 1 times ``exp(-abs(x))``, element-wise.")


def bessel_ie(x: ArrayLike, order: int) -> Array:
    """Modified Bessel function of order 2, 3 ... times ``exp(-abs(x))``, element-wise."""
    return _derivative(x, order, 0)
