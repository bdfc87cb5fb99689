"""Rotations in three dimensions: the public namespace `xjax.scipy.spatial.transform`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.types import typeof
from xjax.numpy.promote import promote
from xjax.random.continuous import normal
from xjax.scipy.spatial import quaternions
from xjax.typing import Array, ArrayLike, DTypeLike

_NAME = "scipy.spatial.transform"


class Rotation(NamedTuple):
    """One rotation, or an array of rotations: a pytree with one leaf, the quaternions (x, y, z, w), float[..., 4].

    All functions may be compiled, mapped and differentiated; functions of vectors also at the rotation by 0.

    >>> r = Rotation.from_euler("z", 90, degrees=True)
    >>> r.apply(np.array([1.0, 0.0, 0.0])).round(3) + 0
    Array([0., 1., 0.], dtype=float32)
    >>> (r * r).magnitude().round(4)
    Array(3.1416, dtype=float32)
    """

    quat: Any

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """One array of rotations from several rotations or arrays of rotations."""
        return cls(jnp.concatenate([jnp.atleast_2d(r.quat) for r in rotations]))

    @classmethod
    def from_euler(cls, seq: str, angles: ArrayLike, degrees: bool = False) -> Rotation:
        """Successive rotations about up to three axes.

        Args:
          seq: names of the axes: "zyx" (lower case) for fixed axes, "ZYX" for axes that move with the body.
          angles: real[..., len(seq)], or a number for one axis.
        Raises: ValueError for other sequences, or if two neighbouring axes are equal.
        """
        caller = f"{_NAME}.Rotation.from_euler"
        axes, body = quaternions.axes_of(caller, seq, range(1, 4))
        angles = quaternions.vectors(caller, jnp.atleast_1d(jnp.asarray(angles)), len(seq))
        return cls(quaternions.from_euler(axes, body, jnp.deg2rad(angles) if degrees else angles))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Rotation:
        """Rotations from orthogonal matrices [..., 3, 3]."""
        return cls(quaternions.from_matrix(quaternions.vectors(f"{_NAME}.Rotation.from_matrix", matrix, 3, 3)))

    @classmethod
    def from_mrp(cls, mrp: ArrayLike) -> Rotation:
        """Rotations from modified Rodrigues parameters [..., 3]: the axis times the tangent of an angle's quarter."""
        return cls(quaternions.from_mrp(quaternions.vectors(f"{_NAME}.Rotation.from_mrp", mrp, 3)))

    @classmethod
    def from_quat(cls, quat: ArrayLike) -> Rotation:
        """Rotations from quaternions (x, y, z, w) [..., 4], which are normalised."""
        return cls(quaternions.normalized(quaternions.vectors(f"{_NAME}.Rotation.from_quat", quat, 4)))

    @classmethod
    def from_rotvec(cls, rotvec: ArrayLike, degrees: bool = False) -> Rotation:
        """Rotations from vectors [..., 3] along the axis, with the angle as length."""
        rotvec = quaternions.vectors(f"{_NAME}.Rotation.from_rotvec", rotvec, 3)
        return cls(quaternions.from_rotvec(jnp.deg2rad(rotvec) if degrees else rotvec))

    @classmethod
    def identity(cls, num: int | None = None, dtype: DTypeLike = float) -> Rotation:
        """The rotation by 0, or `num` of them."""
        quat = jnp.array([0, 0, 0, 1], dtype=dtype)
        return cls(quat if num is None else jnp.tile(quat, (num, 1)))

    @classmethod
    def random(cls, random_key: ArrayLike, num: int | None = None) -> Rotation:
        """A random rotation, or `num` of them, uniformly distributed."""
        return cls.from_quat(normal(random_key, (4,) if num is None else (num, 4)))

    def __getitem__(self, indexer: object) -> Rotation:
        self._several("__getitem__")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        self._several("__len__")
        return self.quat.shape[0]

    def _several(self, name: str) -> None:
        if self.single:
            raise bad(f"{_NAME}.Rotation.{name}", "this is one rotation, not an array of rotations",
                      given={"quat": typeof(self.quat)}, fix="use it as it is, or Rotation.concatenate([r]).")

    def __mul__(self, other: Rotation) -> Rotation:
        """The rotation `other` followed by this one; arrays of rotations broadcast."""
        return Rotation.from_quat(quaternions.product(*promote(f"{_NAME}.Rotation.__mul__", self.quat, other.quat)))

    def apply(self, vectors: ArrayLike, inverse: bool = False) -> Array:
        """Vectors [..., 3] rotated, or rotated back where `inverse` is true, which may be traced; all broadcast."""
        caller = f"{_NAME}.Rotation.apply"
        vectors = quaternions.vectors(caller, vectors, 3)
        return quaternions.rotated(*promote(caller, self.quat, vectors), jnp.asarray(inverse))

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Angles [..., 3] about three axes, each in [-pi, pi); see `from_euler`.

        Where the first and the last axis coincide, one of their angles is 0.
        """
        axes, body = quaternions.axes_of(f"{_NAME}.Rotation.as_euler", seq, range(3, 4))
        angles = quaternions.to_euler(axes, body, self.quat)
        return jnp.rad2deg(angles) if degrees else angles

    def as_matrix(self) -> Array:
        """Orthogonal matrices [..., 3, 3]."""
        return quaternions.to_matrix(self.quat)

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters [..., 3], vectors of length at most 1."""
        return quaternions.to_mrp(self.quat)

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Vectors [..., 3] along the axis, with the angle, at most pi, as length."""
        rotvec = quaternions.to_rotvec(self.quat)
        return jnp.rad2deg(rotvec) if degrees else rotvec

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Quaternions (x, y, z, w) [..., 4]; `canonical`: the first nonzero component of (w, x, y, z) is positive."""
        quat = quaternions.canonical(self.quat) if canonical else self.quat
        return jnp.roll(quat, 1, -1) if scalar_first else quat

    def inv(self) -> Rotation:
        """The inverse rotation."""
        return Rotation(quaternions.conjugate(self.quat))

    def magnitude(self) -> Array:
        """Angles [...], from 0 to pi."""
        return quaternions.magnitude(self.quat)

    def mean(self, weights: ArrayLike | None = None) -> Rotation:
        """The rotation whose matrix has the smallest mean square distance from the matrices of these rotations.

        Args: weights: real[n], for each rotation.
        """
        caller, count = f"{_NAME}.Rotation.mean", len(self)
        weights = jnp.ones(count, self.quat.dtype) if weights is None else jnp.asarray(weights, self.quat.dtype)
        if weights.shape != (count,):
            raise bad(caller, f"there must be one weight for each of the {count} rotations",
                      given={"weights": typeof(weights)}, fix="pass a vector of weights, one for each.", exc=ValueError)
        moments = jnp.sum((weights[:, None] * self.quat)[:, :, None] * self.quat[:, None, :], 0)
        return Rotation(jnp.linalg.eigh(moments)[1][:, -1])

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not an array of rotations."""
        return np.ndim(self.quat) == 1


class Slerp(NamedTuple):
    """Interpolation between rotations, at constant speed from one to the next; created by `Slerp.init`.

    >>> turn = Slerp.init([0, 2], Rotation.from_euler("z", [[0], [90]], degrees=True))
    >>> [round(x) for x in turn(1.0).as_euler("xyz", degrees=True).tolist()]
    [0, 0, 45]
    """

    times: Any
    timedelta: Any
    rotations: Rotation
    rotvecs: Any

    @classmethod
    def init(cls, times: ArrayLike, rotations: Rotation) -> Slerp:
        """The motion through `rotations` at the increasing times real[n], n > 1.

        Raises: TypeError unless they are a `Rotation`; ValueError for fewer than two, or another number of times.
        """
        caller = f"{_NAME}.Slerp.init"
        if not isinstance(rotations, Rotation):
            raise bad(caller, "`rotations` must be a Rotation", given={"rotations": type(rotations).__name__},
                      fix="pass Rotation.from_quat(...), or the result of another constructor.")
        times = jnp.asarray(times, dtype=rotations.quat.dtype)
        if rotations.single or len(rotations) < 2 or times.shape != (len(rotations),):
            raise bad(caller, "needs two or more rotations, and a time for each",
                      given={"times": typeof(times), "quat": typeof(rotations.quat)},
                      fix="pass a vector of times, and as many rotations.", exc=ValueError)
        start = rotations[:-1]
        return cls(times, jnp.diff(times), start, (start.inv() * rotations[1:]).as_rotvec())

    def __call__(self, times: ArrayLike) -> Rotation:
        """The rotations at `times`, real[] or real[m]; the motion continues before the first and after the last."""
        times = jnp.asarray(times, dtype=self.times.dtype)
        if times.ndim > 1:
            raise bad(f"{_NAME}.Slerp", "`times` must be a number or a vector", given={"times": typeof(times)},
                      fix="use ravel().", exc=ValueError)
        i = jnp.clip(jnp.searchsorted(self.times, times) - 1, 0, self.timedelta.shape[0] - 1)
        fraction = (times - self.times[i]) / self.timedelta[i]
        return self.rotations[i] * Rotation.from_rotvec(self.rotvecs[i] * fraction[..., None])


__all__ = ["Rotation", "Slerp"]

__getattr__ = attributes_of(__name__)
