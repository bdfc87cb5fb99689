"""Modified Bessel functions of orders 0 and 1 divided by their exponential growth, element-wise, and all derivatives.

``exp(-x) i(order, x)`` is the mean of ``cos(order u) exp(x (cos(u) - 1))`` for u from 0 to pi, and its derivatives have
powers of ``cos(u) - 1`` as factors. From these means the Chebyshev series of each derivative are computed when it is
first used. A formula in i0e and i1e would be a difference of two functions that approach each other as x grows.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core import dtypes
from xjax.core.hlo import Builder, Value
from xjax.core.types import ShapedArray
from xjax.ops.checks import FLOAT
from xjax.ops.elementwise import mul
from xjax.ops.makers import chlo, unary, unary_function

_PI = np.arccos(np.longdouble(-1))      # the series are computed in extended precision, where there is one
_NODES, _SPLIT = 34, 8.0                # at _SPLIT the series in x ends, and that in 1 / x begins


def _means(x: np.ndarray, order: int, n: int, count: int) -> np.ndarray:
    """The n-th derivative of ``exp(-x) i(order, x)``, exactly, since the function of u is periodic."""
    u = (np.arange(count) + 0.5) * (_PI / count)
    fall = -2 * np.sin(u / 2) ** 2                                          # cos(u) - 1
    return np.mean((np.cos(u) if order else 1.0) * fall ** n * np.exp(np.multiply.outer(x, fall)), -1)


@functools.cache
def _series(order: int, n: int) -> tuple[list[float], list[float]]:
    """Chebyshev coefficients of the n-th derivative: times ``(1 + x)**n`` in t = x / 4 - 1 up to 8, times
    ``x**(n + 1/2)`` in t = 16 / x - 1 beyond. The factors keep the relative error small where derivatives are."""
    odd = 2 * np.arange(_NODES) + 1
    turns = np.outer(np.arange(_NODES), odd) % (4 * _NODES)                 # reduced while they are whole numbers
    from_values = np.cos(turns * (_PI / (2 * _NODES))) * 2 / _NODES
    t = np.cos(odd * (_PI / (2 * _NODES)))
    near, far = _SPLIT / 2 * (t + 1), 2 * _SPLIT / (t + 1)
    values = (1 + near) ** n * _means(near, order, n, 64), far ** (n + 0.5) * _means(far, order, n, 600)
    first, second = ((from_values @ y).astype(float).tolist() for y in values)
    return first, second


def _chebyshev(b: Builder, t: Value, coefficients: Sequence[float]) -> Value:
    """The series at t, by Clenshaw's recurrence; the terms below the precision of t at its end are left out."""
    smallest = max(float(dtypes.finfo(t.aval.dtype).eps) / 16, 2.0**-54)
    double = b.add(t, t)
    last = before = b.constant(0, t.aval)
    count = max(k for k, c in enumerate(coefficients) if abs(c) > smallest) + 1
    for c in reversed(coefficients[1:count]):
        product = b.sub(b.mul(double, last), before)
        last, before = b.add(product, b.constant(c, t.aval)), last
    product = b.sub(b.mul(t, last), before)
    return b.add(product, b.constant(coefficients[0] / 2, t.aval))


def _derivative_lower(b: Builder, out: ShapedArray, x: Value, order: int, n: int) -> Value:
    # Halves are computed in single precision.
    x = b.convert(x, dtypes.accumulator_dtype(out.dtype))
    size = b.unary("stablehlo.abs", x)
    of_x, of_inverse = _series(order, n)
    near = _chebyshev(b, b.sub(b.mul(size, 2 / _SPLIT), 1), of_x)
    inverse = b.div(b.constant(1, size.aval), size)
    far = b.mul(_chebyshev(b, b.sub(b.mul(inverse, 2 * _SPLIT), 1), of_inverse), b.unary("stablehlo.rsqrt", size))
    if n:
        near = b.div(near, _power(b, b.add(size, 1), n))
        far = b.mul(far, _power(b, inverse, n))
    y = b.select(b.compare("LE", size, b.constant(_SPLIT, size.aval)), near, far)
    if (order + n) % 2:
        y = b.mul(y, b.unary("stablehlo.sign", x))
    return b.convert(y, out.dtype)


def _power(b: Builder, x: Value, n: int) -> Value:
    return functools.reduce(b.mul, [x] * n)


def _derivative(x: Any, order: int, n: int) -> Any:
    return bessel_derivative_p.bind(x, order=order, n=n)


# The derivatives of order n >= 1 at x of bessel_i0e, or of bessel_i1e.
bessel_derivative_p = unary("bessel_derivative", FLOAT, _derivative_lower,
                            lambda dx, y, x, order, n: mul(dx, _derivative(x, order, n + 1)))
bessel_i0e_p = unary("bessel_i0e", FLOAT, lambda b, out, x: _derivative_lower(b, out, x, 0, 0),
                     lambda dx, y, x: mul(dx, _derivative(x, 0, 1)))
bessel_i0e = unary_function(bessel_i0e_p, "Modified Bessel function of order 0 times ``exp(-abs(x))``, element-wise.")
bessel_i1e_p = unary("bessel_i1e", FLOAT, chlo("bessel_i1e"), lambda dx, y, x: mul(dx, _derivative(x, 1, 1)))
bessel_i1e = unary_function(bessel_i1e_p, "Modified Bessel function of order 1 times ``exp(-abs(x))``, element-wise.")
