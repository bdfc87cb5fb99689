"""Exact values and derivatives, computed by mpmath to any precision, at arguments of any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath

Function = Callable[..., Any]           # of mpmath numbers

_STEP = 90               # bits between the size of an argument, or 1 if smaller, and the step of a difference


def value(f: Function, args: Sequence[Any]) -> Any:
    """f(*args) of floats or mpmath numbers, as an mpmath number; nan where f is undefined or not real."""
    return _at(f, [mpmath.mpf(x) for x in args], _bits(args))


def derivative(f: Function, args: Sequence[Any], of: Sequence[int]) -> Any:
    """The derivative of f by the arguments at these positions: (0,) is the slope by the first, (0, 1) a mixed one.

    Central differences, with steps and precision such that some 80 bits of the result are correct. Rounding noise in a
    difference of equal numbers is replaced by 0.
    """
    bits = _bits(args) + 2 * _STEP * len(of)
    with mpmath.workprec(bits):
        points = [mpmath.mpf(x) for x in args]
        steps = [mpmath.ldexp(min(abs(points[i]), mpmath.mpf(1)) or mpmath.mpf(2) ** -1100, -_STEP) for i in of]
        result = _difference(f, points, list(zip(of, steps, strict=True)), bits)
        noise = mpmath.ldexp(abs(_at(f, points, bits)), 10 - bits) / mpmath.fprod(steps)
        return mpmath.mpf(0) if abs(result) < noise else result


def _difference(f: Function, args: list[Any], of: list[tuple[int, Any]], bits: int) -> Any:
    if not of:
        return _at(f, args, bits)
    (i, step), *rest = of
    up, down = ([*args[:i], args[i] + sign * step, *args[i + 1:]] for sign in (1, -1))
    return (_difference(f, up, rest, bits) - _difference(f, down, rest, bits)) / (2 * step)


def _at(f: Function, args: list[Any], bits: int) -> Any:
    with mpmath.workprec(bits):
        try:
            y = mpmath.mpmathify(f(*args))
        except (ValueError, ZeroDivisionError):             # a pole, or outside the domain
            return mpmath.nan
        if isinstance(y, mpmath.mpc):
            return y.real if y.imag == 0 else mpmath.nan
        return y


def _bits(args: Sequence[Any]) -> int:
    """The precision at which sums of 1 and the largest or the smallest argument are exact to 100 bits; so are
    1 + exp(-x) and 1 + exp(-x**2) where the exponentials are in the range of a dtype."""
    finite = [abs(x) for x in args if x and mpmath.isfinite(x)]
    sizes = [abs(int(mpmath.frexp(x)[1])) for x in finite]
    return 120 + 2 * max(sizes, default=0) + int(1.5 * min(max(finite, default=0), 28) ** 2)
