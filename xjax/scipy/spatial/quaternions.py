"""Quaternions (x, y, z, w) of rotations, and conversions to other forms: pure functions of arrays [..., 4].

Where a formula divides by an angle, its series is used for small angles, so that derivatives are finite.
"""

from __future__ import annotations

import math

import xjax.numpy as jnp
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy.linalg.arguments import inexact
from xjax.numpy.promote import library_rules
from xjax.typing import Array, ArrayLike

# Squares of the angles below which a series of three terms is exact to rounding.
_SMALL = 1e-6


def vectors(caller: str, x: ArrayLike, *shape: int) -> Array:
    """Floats [..., *shape] from an array or nested lists."""
    x, = inexact(caller, jnp.asarray(x))
    if x.shape[max(0, x.ndim - len(shape)):] != shape:
        raise bad(caller, f"takes arrays of shape [..., {', '.join(map(str, shape))}]", given={"argument": typeof(x)},
                  fix="the last axes must be those of one rotation.", exc=ValueError)
    return x


def _dot(x: Array, y: Array) -> Array:
    return jnp.sum(x * y, -1)


def _scalar_last(vector: Array, scalar: Array) -> Array:
    return jnp.concatenate([vector, scalar[..., None]], -1)


# -- algebra ----------------------------------------------------------------------------------------------------------

def normalized(q: Array) -> Array:
    return q / jnp.sqrt(_dot(q, q))[..., None]


@library_rules
def product(p: ArrayLike, q: ArrayLike) -> Array:
    """The rotation q followed by the rotation p."""
    u, v, a, b = p[..., :3], q[..., :3], p[..., 3:], q[..., 3:]
    return jnp.concatenate([a * v + b * u + jnp.cross(u, v), a * b - _dot(u, v)[..., None]], -1)


def conjugate(q: ArrayLike) -> Array:
    return jnp.concatenate([-q[..., :3], q[..., 3:]], -1)


def canonical(q: ArrayLike) -> Array:
    """q or -q, which are the same rotation: the sign for which the first nonzero component of (w, x, y, z) is > 0."""
    leading = q[..., 2]
    for k in (1, 0, 3):
        leading = jnp.where(q[..., k] == 0, leading, q[..., k])
    return jnp.where(leading[..., None] < 0, -q, q)


def magnitude(q: ArrayLike) -> Array:
    return 2 * jnp.arctan2(jnp.sqrt(_dot(q[..., :3], q[..., :3])), jnp.abs(q[..., 3]))


@library_rules
def rotated(q: ArrayLike, v: ArrayLike, inverse: ArrayLike) -> Array:
    """Vectors rotated by q, or by its inverse where `inverse` is true."""
    matrix = to_matrix(jnp.where(inverse[..., None], conjugate(q), q))
    return jnp.sum(matrix * v[..., None, :], -1)


# -- other forms ------------------------------------------------------------------------------------------------------

def from_rotvec(v: ArrayLike) -> Array:
    square = _dot(v, v)
    small = square <= _SMALL
    angle = jnp.sqrt(jnp.maximum(square, _SMALL))
    scale = jnp.where(small, 1 / 2 - square / 48 + square ** 2 / 3840, jnp.sin(angle / 2) / angle)
    return _scalar_last(scale[..., None] * v, jnp.where(small, 1 - square / 8 + square ** 2 / 384, jnp.cos(angle / 2)))


def to_rotvec(q: ArrayLike) -> Array:
    q = jnp.where(q[..., 3:] < 0, -q, q)                        # angles up to pi
    v = q[..., :3]
    square = _dot(v, v)                                         # square of the sine of half the angle
    small = square <= _SMALL / 4
    half = jnp.arctan2(jnp.sqrt(jnp.maximum(square, _SMALL / 4)), q[..., 3])
    return jnp.where(small, 2 + square / 3 + 3 * square ** 2 / 20, 2 * half / jnp.sin(half))[..., None] * v


def from_mrp(m: ArrayLike) -> Array:
    square = _dot(m, m)
    return _scalar_last(2 * m, 1 - square) / (1 + square)[..., None]


def to_mrp(q: ArrayLike) -> Array:
    q = jnp.where(q[..., 3:] < 0, -q, q)
    return q[..., :3] / (1 + q[..., 3:])


def from_matrix(m: ArrayLike) -> Array:
    """From the row of ``4 q q^T`` with the largest diagonal element, which is q times a number that is not small."""
    a, b, c = (m[..., i, i] for i in range(3))
    x, y, z = (m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1])
    xy, xz, yz = (m[..., 1, 0] + m[..., 0, 1], m[..., 2, 0] + m[..., 0, 2], m[..., 2, 1] + m[..., 1, 2])
    rows = [[1 + a - b - c, xy, xz, x], [xy, 1 - a + b - c, yz, y], [xz, yz, 1 - a - b + c, z],
            [x, y, z, 1 + a + b + c]]
    squares = jnp.stack([jnp.stack(row, -1) for row in rows], -2)
    largest = jnp.argmax(jnp.diagonal(squares, axis1=-2, axis2=-1), -1)
    return normalized(jnp.take_along_axis(squares, largest[..., None, None], -2)[..., 0, :])


def to_matrix(q: ArrayLike) -> Array:
    x, y, z, w = (q[..., k] for k in range(4))
    rows = [[x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w]]
    return jnp.stack([jnp.stack(row, -1) for row in rows], -2)


# -- Euler angles -----------------------------------------------------------------------------------------------------

def axes_of(caller: str, seq: str, counts: range) -> tuple[list[int], bool]:
    """Axes of a sequence of elementary rotations, and whether they move with the body ("XYZ") or are fixed ("xyz")."""
    fixed, body = set(seq) <= set("xyz"), set(seq) <= set("XYZ")
    if len(seq) not in counts or not (fixed or body) or any(a == b for a, b in zip(seq, seq[1:], strict=False)):
        raise bad(caller, f"{seq!r} is not a sequence of axes", fix="pass letters of 'xyz' (fixed axes) or 'XYZ' (axes "
                  "of the body) with different neighbours, and exactly three for as_euler.", exc=ValueError)
    return ["xyz".index(letter) for letter in seq.lower()], body


def from_euler(axes: list[int], body: bool, angles: ArrayLike) -> Array:
    """The product of rotations about `axes` by angles [..., len(axes)]."""
    total = None
    for d, axis in enumerate(axes):
        half = angles[..., d] / 2
        factor = [jnp.zeros_like(half)] * 3 + [jnp.cos(half)]
        factor[axis] = jnp.sin(half)
        factor = jnp.stack(factor, -1)
        total = factor if total is None else product(total, factor) if body else product(factor, total)
    assert total is not None                                # there are one to three axes
    return total


def to_euler(axes: list[int], body: bool, q: ArrayLike) -> Array:
    """Angles [..., 3] in [-pi, pi). Where only the sum or difference of two angles is determined, one of them is 0.

    By the formulas of Bernardes and Viollet (2022), which hold for rotations about fixed axes.
    """
    i, j, k = axes[::-1] if body else axes
    proper = i == k                                             # else the three axes differ
    k = 3 - i - j if proper else k
    sign = (i - j) * (j - k) * (k - i) // 2                     # sign of the permutation
    x, y, z, w = q[..., i], q[..., j], q[..., k] * sign, q[..., 3]
    a, b, c, d = (w, x, y, z) if proper else (w - y, x + z, y + w, z - x)
    middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
    half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
    start, end = half_sum - half_difference, half_sum + half_difference
    near_0, near_pi = jnp.abs(middle) <= 1e-7, jnp.abs(middle - math.pi) <= 1e-7
    combined = jnp.where(near_0, 2 * half_sum, 2 * half_difference * (1 if body else -1))
    locked, zero = near_0 | near_pi, jnp.zeros_like(middle)
    first = jnp.where(locked, zero if body else combined, start)
    last = jnp.where(locked, combined if body else zero, end)
    if not proper:
        middle, last = middle - math.pi / 2, last * sign
    angles = jnp.stack([last, middle, first] if body else [first, middle, last], -1)
    turn = 2 * math.pi
    return jnp.where(angles >= math.pi, angles - turn, jnp.where(angles < -math.pi, angles + turn, angles))
