"""`resize` and `scale_and_translate`: each axis is multiplied by a matrix of weights [old size, new size].

A column holds the weights of the old pixels in one new pixel: a kernel of their distances from the position of the new
pixel in the old image, divided by its sum.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy.promote import library_rules, promote_inexact
from xjax.numpy.selection import operand
from xjax.ops.checks import canonical_axes, is_single, static_int
from xjax.ops.dot import PrecisionLike
from xjax.runtime.jit import library_jit
from xjax.typing import Array, ArrayLike

# A new pixel whose weights sum to less than this is outside the image: it becomes 0.
_LEAST_SUM = 1000 * float(np.finfo(np.float32).eps)


class ResizeMethod(enum.Enum):
    """How an image is interpolated between its pixels.

    NEAREST: the nearest pixel. LINEAR: a straight line. CUBIC: piecewise cubic (Keys 1981, a = -0.5).
    CUBIC_PYTORCH: the same with antialiasing; without, a = -0.75 and repeated edge pixels, as in PyTorch and OpenCV.
    LANCZOS3, LANCZOS5: a windowed sinc of radius 3 or 5. AREA: the mean over the area of the new pixel.
    """

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method with a name such as "linear", "bicubic" or "lanczos3".

        Raises: ValueError for an unknown name.

        >>> ResizeMethod.from_string("bilinear")
        <ResizeMethod.LINEAR: 1>
        """
        if s not in _NAMES:
            raise bad("image.ResizeMethod.from_string", f"unknown method {s!r}",
                      given={"methods": ", ".join(_NAMES)}, fix="pass one of the names.", exc=ValueError)
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3, "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


# -- kernels: weights of distances x >= 0 ---------------------------------------------------------------------------

def _triangle(x: Array) -> Array:
    return jnp.maximum(0, 1 - x)


def _cubic(x: Array, a: float) -> Array:
    """The interpolating cubic kernel of radius 2 with slope `a` at distance 1."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = a * (((x - 5) * x + 8) * x - 4)
    return jnp.where(x < 1, near, jnp.where(x < 2, far, 0))


def _lanczos(x: Array, radius: float) -> Array:
    return jnp.where(x > radius, 0, jnp.sinc(x) * jnp.sinc(x / radius))


class _Kernel(NamedTuple):
    of_distance: Callable[[Any], Any]
    padding: int = 0                # how often the edge pixel is repeated on each side


_KERNELS = {
    ResizeMethod.LINEAR: _Kernel(_triangle),
    ResizeMethod.CUBIC: _Kernel(functools.partial(_cubic, a=-0.5)),
    ResizeMethod.CUBIC_PYTORCH: _Kernel(functools.partial(_cubic, a=-0.75), padding=2),
    ResizeMethod.LANCZOS3: _Kernel(functools.partial(_lanczos, radius=3)),
    ResizeMethod.LANCZOS5: _Kernel(functools.partial(_lanczos, radius=5)),
}


# -- weights --------------------------------------------------------------------------------------------------------

@library_rules
def _weights(old: int, new: int, scale: ArrayLike, translation: ArrayLike, method: ResizeMethod,
             antialias: bool) -> Array:
    """Weights [old, new] of one axis, in the dtype of `scale` and `translation`."""
    dtype = jnp.result_type(scale, translation)
    step = 1 / scale                                                # distance between new pixels, in old pixels
    edge = jnp.arange(new, dtype=dtype) * step - translation * step
    if method is ResizeMethod.AREA:
        first = jnp.arange(old, dtype=dtype)[:, None]
        weights = jnp.maximum(0, jnp.minimum(edge + step, first + 1) - jnp.maximum(edge, first))
        padding = 0
    else:
        kernel, padding = _KERNELS[method]
        place = edge + 0.5 * step - 0.5
        distance = jnp.abs(place - jnp.arange(-padding, old + padding, dtype=dtype)[:, None])
        # A kernel as wide as a new pixel removes the frequencies that the new image cannot represent.
        weights = kernel(distance / jnp.maximum(step, 1) if antialias else distance)
    if padding:
        return _normalized(_edges_folded(weights, padding))
    centre = edge + 0.5 * step
    return jnp.where((centre >= 0) & (centre <= old), _normalized(weights), 0)


def _normalized(weights: Array) -> Array:
    total = jnp.sum(weights, 0, keepdims=True)
    return jnp.where(jnp.abs(total) > _LEAST_SUM, weights / jnp.where(total == 0, 1, total), 0)


def _edges_folded(weights: Array, padding: int) -> Array:
    """The weights, with those of the `padding` pixels beyond each edge added to the weights of the edge pixel."""
    if weights.shape[0] == 2 * padding + 1:
        return jnp.sum(weights, 0, keepdims=True)
    first, inner, last = jnp.split(weights, (padding + 1, weights.shape[0] - padding - 1))
    return jnp.concatenate([jnp.sum(first, 0, keepdims=True), inner, jnp.sum(last, 0, keepdims=True)])


def _resampled(image: Array, shape: tuple[int, ...], axes: Sequence[int], scale: Sequence[Any],
               translation: Sequence[Any], method: ResizeMethod, antialias: bool, precision: PrecisionLike) -> Array:
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    labels, terms = list(range(image.ndim)), []
    for i, d in enumerate(axes):
        weights = _weights(image.shape[d], shape[d], scale[i], translation[i], method, antialias)
        labels[d] = image.ndim + i
        terms += weights.astype(image.dtype), [d, labels[d]]
    return jnp.einsum(image, list(range(image.ndim)), *terms, labels, precision=precision) if terms else image


# -- public functions -----------------------------------------------------------------------------------------------

def resize(image: ArrayLike, shape: Sequence[int], method: str | ResizeMethod, antialias: bool = True,
           precision: PrecisionLike = lax.Precision.HIGHEST) -> Array:
    """Resize an image, or any array, to another shape.

    Args:
      image: number[...]; every axis may be resized: to keep batch and channels, repeat their sizes in `shape`.
      shape: the new sizes, one for each axis. method: a `ResizeMethod` or its name ("bilinear", "lanczos3", ...).
      antialias: smooth the axes that shrink. precision: of the products, see `lax.Precision`.
    Returns: [*shape]; integers become floats, except with "nearest".
    Raises: ValueError for an unknown method, or a shape with another number of axes.

    >>> resize(np.array([0.0, 2.0], np.float32), (4,), "linear").tolist()
    [0.0, 0.5, 1.5, 2.0]
    """
    caller = "image.resize"
    image = operand(caller, image)
    return _resize(image, _shape(caller, image, shape), _method(caller, method), bool(antialias), precision)


@functools.partial(library_jit, static_argnums=(1, 2, 3, 4))
def _resize(image: Array, shape: tuple[int, ...], method: ResizeMethod, antialias: bool,
            precision: PrecisionLike) -> Array:
    axes = [d for d in range(image.ndim) if image.shape[d] != shape[d]]
    if method is ResizeMethod.NEAREST:
        for d in axes:
            old, new = image.shape[d], shape[d]
            centres = (2 * np.arange(new) + 1) * old // (2 * new)
            image = jnp.take(image, centres.astype(np.int32), d, mode="clip", indices_are_sorted=True)
        return image
    image, = promote_inexact("image.resize", image)
    scale = [shape[d] / image.shape[d] if shape[d] else 1.0 for d in axes]
    return _resampled(image, shape, axes, scale, [0.0] * len(axes), method, antialias, precision)


def scale_and_translate(image: ArrayLike, shape: Sequence[int], spatial_dims: Sequence[int], scale: ArrayLike,
                        translation: ArrayLike, method: str | ResizeMethod, antialias: bool = True,
                        precision: PrecisionLike = lax.Precision.HIGHEST) -> Array:
    """The image scaled and moved: along each of `spatial_dims`, point p becomes ``p * scale + translation``.

    Pixel i covers the points from i to i + 1. New pixels from outside the old image are 0.

    Args:
      image: number[...]. shape: sizes of the new image, one for each axis. spatial_dims: the K axes to resample.
      scale, translation: real[K]; both may be traced and differentiated.
      method: any except "nearest"; antialias, precision: as for `resize`.
    Returns: float or complex [*shape].
    Raises: ValueError for shapes that do not fit, or an unknown method.

    >>> x = np.array([1.0, 2.0, 3.0], np.float32)
    >>> scale_and_translate(x, (4,), (0,), np.ones(1), np.float32([1.5]), "linear").tolist()
    [0.0, 1.0, 1.5, 2.5]
    """
    caller = "image.scale_and_translate"
    image = promote_inexact(caller, operand(caller, image))[0]
    shape, method = _shape(caller, image, shape), _method(caller, method)
    axes = canonical_axes(spatial_dims, image.ndim, caller, "spatial_dims")
    scale, translation = promote_inexact(caller, *[operand(caller, x) for x in (scale, translation)])
    if method is ResizeMethod.NEAREST:
        raise bad(caller, "the method must not be 'nearest'", fix="pass 'linear', or use image.resize.",
                  exc=ValueError)
    if scale.shape != (len(axes),) or translation.shape != (len(axes),):
        raise bad(caller, f"`scale` and `translation` must have one element for each of {len(axes)} axes",
                  given={"spatial_dims": str(axes), "scale": typeof(scale), "translation": typeof(translation)},
                  fix="pass two vectors with one element for each axis.", exc=ValueError)
    return _scale_and_translate(image, scale, translation, shape, axes, method, bool(antialias), precision)


@functools.partial(library_jit, static_argnums=(3, 4, 5, 6, 7))
def _scale_and_translate(image: Array, scale: Array, translation: Array, shape: tuple[int, ...], axes: tuple[int, ...],
                         method: ResizeMethod, antialias: bool, precision: PrecisionLike) -> Array:
    return _resampled(image, shape, axes, scale, translation, method, antialias, precision)


def _shape(caller: str, image: ArrayLike, shape: Sequence[int]) -> tuple[int, ...]:
    shape = tuple(static_int(n, "shape", caller) for n in ((shape,) if is_single(shape) else shape))
    if len(shape) != image.ndim or any(n < 0 or (n and not m) for n, m in zip(shape, image.shape, strict=False)):
        raise bad(caller, "the shape does not fit the image", given={"image": typeof(image), "shape": str(shape)},
                  fix="pass a size for each axis, batch and channels included; an axis of size 0 keeps size 0.",
                  exc=ValueError)
    return shape


def _method(caller: str, method: str | ResizeMethod) -> ResizeMethod:
    if isinstance(method, ResizeMethod):
        return method
    if not isinstance(method, str):
        raise bad(caller, "`method` is neither a ResizeMethod nor a string", given={"method": repr(method)},
                  fix="pass a name such as 'linear'.")
    return ResizeMethod.from_string(method)


__all__ = ["ResizeMethod", "resize", "scale_and_translate"]
