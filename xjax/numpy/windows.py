"""Windows: weights of n samples that decrease towards the ends, in the default float dtype."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xjax.core.errors import bad
from xjax.numpy.creation import asarray
from xjax.numpy.promote import cast, default_float, promote_inexact
from xjax.numpy.selection import choose, operand
from xjax.ops.bessel import bessel_i0e, bessel_i1e, bessel_ie
from xjax.ops.checks import static_int
from xjax.ops.compare import eq
from xjax.ops.elementwise import div, mul
from xjax.ops.makers import scalar_like
from xjax.ops.piecewise import abs as lax_abs
from xjax.ops.transcendental import exp
from xjax.runtime.one_launch import one_launch
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike


def _size(caller: str, M: int) -> int:
    n = static_int(M, "M", caller)
    if n < 0:
        raise bad(caller, "`M` must not be negative", given={"M": n}, fix="pass the number of samples.")
    return n


def _window(name: str, of: Callable[[int], np.ndarray], doc: str) -> Callable[..., Array]:
    def window(M: int) -> Array:
        return asarray(of(_size(f"numpy.{name}", M)).astype(default_float()))

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"""{doc}

    Args: M: number of samples.  Returns: float[M].
    """
    return window


bartlett = _window("bartlett", np.bartlett, "Triangle from 0 to 1 and back.")
blackman = _window("blackman", np.blackman, "Blackman's window: ``0.42 - 0.5 cos(2 pi n / (M-1)) + 0.08 cos(4 pi n "
                   "/ (M-1))``.")
hamming = _window("hamming", np.hamming, "Hamming's window: ``0.54 - 0.46 cos(2 pi n / (M - 1))``.")
hanning = _window("hanning", np.hanning, "Von Hann's window: ``0.5 - 0.5 cos(2 pi n / (M - 1))``.")


@one_launch
def i0(x: ArrayLike) -> Array:
    """Modified Bessel function of the first kind and order 0, element-wise.

    Args: x: float[...]; integers become floats.
    """
    x, = promote_inexact("numpy.i0", x)
    return _i0(operand("numpy.i0", x))


@custom_jvp
def _i0(x: ArrayLike) -> Array:
    return without_scale(bessel_i0e(x), x, lax_abs(x))


def without_scale(scaled: ArrayLike, x: ArrayLike, at_infinity: ArrayLike) -> Array:
    """``exp(abs(x)) * scaled``, with the exponential as two factors: the result may be finite where it overflows.

    Args: scaled: a Bessel function divided by the exponential; at_infinity: the result where x is infinite.
    """
    root = exp(mul(lax_abs(x), scalar_like(x, 0.5)))
    return choose(eq(lax_abs(x), math.inf), at_infinity, mul(mul(scaled, root), root))


@functools.partial(custom_jvp, nondiff_argnums=(1,))
def bessel_i(x: Array, order: int) -> Array:
    """Modified Bessel function of the first kind, of an order >= 1, of an array of floats."""
    scaled = bessel_i1e(x) if order == 1 else bessel_ie(x, order)
    return without_scale(scaled, x, x if order % 2 else lax_abs(x))


# Explicit derivatives, since both factors of each function have a kink at 0. A formula for the derivative of i1 with i0
# and i1 alone would cancel at 0; the sum of the neighbouring orders has positive terms only.

def _i0_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    return _i0(x), mul(dx, bessel_i(x, 1))


def _i_jvp(order: int, primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    (x,), (dx,) = primals, tangents
    below = _i0(x) if order == 1 else bessel_i(x, order - 1)
    slope = mul(below + bessel_i(x, order + 1), scalar_like(x, 0.5))
    return bessel_i(x, order), mul(dx, slope)


_i0.defjvp(_i0_jvp)
bessel_i.defjvp(_i_jvp)


def kaiser(M: int, beta: ArrayLike) -> Array:
    """Kaiser's window: ``i0(beta sqrt(1 - (2 n / (M-1) - 1)**2)) / i0(beta)``.

    Args: M: number of samples; beta: shape parameter, larger is narrower; it may be traced.  Returns: float[M].
    """
    caller = "numpy.kaiser"
    n, dtype = _size(caller, M), default_float()
    place = np.linspace(-1, 1, n) if n > 1 else np.zeros(n)
    beta = cast(caller, beta, dtype)
    return div(i0(mul(asarray(np.sqrt(1 - place ** 2).astype(dtype)), beta)), i0(beta))


__all__ = ["bartlett", "blackman", "hamming", "hanning", "i0", "kaiser"]
