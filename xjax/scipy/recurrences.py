"""Functions computed by recurrence in their order: Bessel functions of whole order, spherical harmonics."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.errors import bad
from xjax.core.trace import Tracer
from xjax.core.types import typeof
from xjax.ops.checks import static_int
from xjax.runtime.jit import library_jit
from xjax.scipy.arguments import reals
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike

# -- Bessel functions -----------------------------------------------------------------------------------------------


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Bessel functions of the first kind of orders 0, 1 ... v, element-wise.

    Args:
      z: real numbers.
      v: static int >= 0, the highest order.
      n_iter: static int, the order at which the downward recurrence starts; it must be well above v and abs(z).
    Returns: float[v + 1, ...z.shape].
    Raises: TypeError unless v and n_iter are integers, ValueError for complex z.

    >>> [round(float(y), 4) for y in bessel_jn(1.0, v=2)]
    [0.7652, 0.4401, 0.1149]
    """
    caller = "scipy.special.bessel_jn"
    v, n_iter = static_int(v, "v", caller), static_int(n_iter, "n_iter", caller)
    if not 0 <= v <= n_iter:
        raise bad(caller, "`v` must not be negative nor above `n_iter`", given={"v": v, "n_iter": n_iter},
                  fix="pass an order >= 0, and a larger n_iter.", exc=ValueError)
    return _bessel_jn(z, v, n_iter)


@functools.partial(library_jit, static_argnums=(1, 2))
def _bessel_jn(z: Array, v: int, n_iter: int) -> Array:
    return _bessel_orders(reals("bessel_jn", z)[0], v, n_iter)


@functools.partial(custom_jvp, nondiff_argnums=(1, 2))
def _bessel_orders(z: Array, v: int, n_iter: int) -> Array:
    """J(0) ... J(v) by Miller's recurrence for the ratios ``J(k) / J(k - 1) = z / (2 k - z J(k + 1) / J(k))``, which do
    not overflow. J(0) follows from ``1 = J(0) + 2 J(2) + 2 J(4) + ...``."""
    def ratio(above: Array, k: ArrayLike) -> tuple[Any, Any]:
        quotient = z / (2 * k - z * above)
        return quotient, quotient

    orders = np.arange(1, n_iter + 2, dtype=z.dtype)
    ratios = lax.scan(ratio, lax.full_like(z, 0), orders, reverse=True)[1]
    relative = jnp.concatenate([lax.full_like(z, 1)[None], jnp.cumprod(ratios, 0)])         # J(k) / J(0)
    return relative[:v + 1] / (1 + 2 * jnp.sum(relative[2::2], 0, keepdims=True))


@_bessel_orders.defjvp
def _bessel_orders_jvp(v: int, n_iter: int, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """``J(k)' = (J(k-1) - J(k+1)) / 2`` with J(-1) = -J(1). The derivative of the recurrence would lose digits."""
    (z,), (dz,) = primals, tangents
    orders = _bessel_orders(z, v + 1, max(n_iter, v + 1))
    below = jnp.concatenate([-orders[1:2], orders[:v]])
    return orders[:v + 1], dz[None] * (0.5 * (below - orders[1:]))


# -- spherical harmonics --------------------------------------------------------------------------------------------

def sph_harm_y(n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, diff_n: None = None,
               n_max: int | None = None) -> Array:
    """Spherical harmonics of degree n and order m, element-wise; orthonormal, with the Condon-Shortley phase.

    Args:
      n: integers >= 0; m: integers from -n to n (others give 0); theta: angle from the pole; phi: angle around it.
      diff_n: not supported. n_max: static int, the largest degree, which replaces larger n; None: the maximum of n.
    Returns: complex, of the broadcast shape.
    Raises: NotImplementedError for diff_n, TypeError if n is traced and n_max is not given.

    >>> round(float(sph_harm_y(1, 0, 0.0, 0.0).real), 4)
    0.4886
    """
    caller = "scipy.special.sph_harm_y"
    if diff_n is not None:
        raise bad(caller, "`diff_n` is not supported", fix="leave it out, and differentiate with xjax.jvp.",
                  exc=NotImplementedError)
    if n_max is None:
        if isinstance(n, Tracer):
            raise bad(caller, "the number of steps depends on the values of `n`", given={"n": typeof(n)},
                      fix="pass n_max, the largest degree.")
        n_max = int(np.max(np.asarray(n), initial=0))
    return _sph_harm_y(n, m, theta, phi, static_int(n_max, "n_max", caller))


@functools.partial(library_jit, static_argnums=4)
def _sph_harm_y(n: Array, m: Array, theta: Array, phi: Array, n_max: int) -> Array:
    n, m = jnp.minimum(n, n_max), jnp.asarray(m)
    theta, phi, _ = reals("sph_harm_y", theta, phi, 0.0)
    order = jnp.abs(m)
    n, order, negative, theta, phi = jnp.broadcast_arrays(n, order, m < 0, theta, phi)
    values = _legendre(n, order, theta, n_max)
    angle = order.astype(phi.dtype) * phi
    harmonic = lax.complex(values * jnp.cos(angle), values * jnp.sin(angle))
    mirrored = (1 - 2 * (order % 2)).astype(harmonic.dtype) * jnp.conj(harmonic)
    return jnp.where(negative, mirrored, harmonic)


def _legendre(n: Array, m: Array, theta: Array, n_max: int) -> Array:
    """Associated Legendre functions of ``cos(theta)``, normalised on the sphere, by recurrence from degree m to n.

    ``P(m, m) = -sqrt(1 + 1 / (2 m)) sin(theta) P(m - 1, m - 1)`` and, with a(l) = sqrt((4 l**2 - 1) / (l**2 - m**2)),
    ``P(l, m) = a(l) (cos(theta) P(l - 1, m) - P(l - 2, m) / a(l - 1))``.
    """
    dtype, sine, cosine = theta.dtype, jnp.sin(theta), jnp.cos(theta)
    sine = jnp.where(sine < 0, -sine, sine)                 # sqrt(1 - cosine**2), with the slope of the sine at 0
    square = jnp.square(m.astype(dtype))

    def inverse_growth(degree: Array) -> Array:
        """``1 / a(degree)``; 0 at degree m, where the recurrence starts."""
        return jnp.sqrt(jnp.maximum(degree * degree - square, 0) / (4 * degree * degree - 1))

    def step(i: Array, state: tuple) -> tuple:
        diagonal, before, now = state
        degree = i.astype(dtype)
        below = inverse_growth(degree)
        climbed = (cosine * now - inverse_growth(degree - 1) * before) / jnp.where(i > m, below, 1)
        diagonal = jnp.where(i <= m, -jnp.sqrt(1 + 0.5 / degree) * sine * diagonal, diagonal)
        climbs = (i > m) & (i <= n)
        return (diagonal, jnp.where(climbs, now, before),
                jnp.where(climbs, climbed, jnp.where((i == m) & (i <= n), diagonal, now)))

    start = lax.full_like(theta, math.sqrt(0.25 / math.pi))
    at_zero = jnp.where(m == 0, start, 0)
    return lax.fori_loop(1, n_max + 1, step, (start, lax.full_like(theta, 0), at_zero))[2]
