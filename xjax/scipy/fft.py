"""Cosine transforms, under SciPy's names: the public namespace `xjax.scipy.fft`.

A cosine transform of n numbers is computed by a Fourier transform of the same numbers in another order (Makhoul 1980):
first the elements with even indices, then those with odd indices in reverse. They are real, so half of the spectrum
determines the whole.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.calls import name_function
from xjax.core.errors import bad
from xjax.core.public import attributes_of
from xjax.core.types import number_of, typeof
from xjax.numpy.linalg.arguments import inexact
from xjax.numpy.promote import library_rules
from xjax.ops.checks import canonical_axes, canonical_axis, static_int
from xjax.runtime.one_launch import one_launch
from xjax.typing import Array, ArrayLike, DTypeLike

# -- the last axis, real ----------------------------------------------------------------------------------------------

@library_rules
def _forward(x: Array, norm: str | None) -> Array:
    """The transform ``2 sum(x[j] cos(pi k (2 j + 1) / (2 n)))`` of x[..., n]."""
    n = x.shape[-1]
    spectrum = jnp.fft.rfft(jnp.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], -1)) * _turns(n, -1, x.dtype)
    low, high = 2 * spectrum.real, -2 * spectrum.imag
    return jnp.concatenate([low, high[..., (n - 1) // 2:0:-1]], -1) * _factors(n, norm, x.dtype)


@library_rules
def _backward(x: Array, norm: str | None) -> Array:
    """The inverse of `_forward`."""
    n = x.shape[-1]
    x = x / _factors(n, norm, x.dtype) / 2
    high = jnp.concatenate([jnp.zeros_like(x[..., :1]), x[..., :(n - 1) // 2:-1][..., :n // 2]], -1)
    ordered = jnp.fft.irfft(lax.complex(x[..., :n // 2 + 1], -high) * _turns(n, 1, x.dtype), n)
    place = np.where(np.arange(n) % 2, n - 1 - np.arange(n) // 2, np.arange(n) // 2)
    return jnp.take(ordered, jnp.asarray(place.astype(np.int32)), -1, mode="clip", unique_indices=True)


def _turns(n: int, sign: int, dtype: DTypeLike) -> np.ndarray:
    """Factors of the spectrum that shift the signal by half a sample, in the direction of `sign`."""
    return np.exp(sign * 0.5j * np.pi * np.arange(n // 2 + 1) / n).astype(dtypes.to_complex_dtype(dtype))


def _factors(n: int, norm: str | None, dtype: DTypeLike) -> np.ndarray:
    """Factors that make the transform orthogonal; 1 unless `norm` is "ortho"."""
    factors = np.ones(n)
    if norm == "ortho":
        factors[:] = np.sqrt(0.5 / n)
        factors[0] = np.sqrt(0.25 / n)
    return factors.astype(dtype)


# -- arguments --------------------------------------------------------------------------------------------------------

def _transformed(caller: str, of_last: Callable, x: Array, type: int, sizes: dict[int, int | None],
                 norm: str | None) -> Array:
    """The transform along the axes in `sizes`, each truncated or padded to its size, unless that is None."""
    if type != 2:
        raise bad(caller, f"type {type!r} is not supported", fix="pass type=2.", exc=NotImplementedError)
    if norm not in (None, "backward", "ortho"):
        raise bad(caller, f"unknown norm {norm!r}", fix="pass 'backward' or 'ortho'.", exc=ValueError)
    if dtypes.is_complex(x.dtype):
        return lax.complex(*[_transformed(caller, of_last, part, type, sizes, norm) for part in (x.real, x.imag)])
    if x.dtype.itemsize < 4:                                    # there are no complex numbers in half precision
        x = x.astype(np.float32)
    for axis, n in sizes.items():
        n = x.shape[axis] if n is None else static_int(n, "n", caller)
        if n < 1:
            raise bad(caller, "a transform needs at least one element", given={"x": typeof(x), "axis": axis, "n": n},
                      fix="pass n >= 1.", exc=ValueError)
        x = lax.pad(x, number_of(x.dtype, 0), [(0, n - x.shape[axis] if d == axis else 0, 0) for d in range(x.ndim)])
        x = jnp.moveaxis(of_last(jnp.moveaxis(x, axis, -1), norm), -1, axis)
    return x


def _one_axis(name: str, of_last: Callable, doc: str) -> Callable:
    caller = f"scipy.fft.{name}"

    @one_launch
    def transform(x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
        x, = inexact(caller, x)
        return _transformed(caller, of_last, x, type, {canonical_axis(axis, x.ndim, caller): n}, norm)

    return _described(transform, name, f"""{doc}

    Args:
      x: number[..., n, ...]; integers become floats. type: only 2.
      n: number of elements to truncate or pad to (default: all). axis: the axis to transform.
      norm: "backward" (the default): only the inverse is scaled; "ortho": both transforms are orthogonal.
    Raises: NotImplementedError for another type; ValueError for an unknown norm, or n < 1.
    """)


def _several_axes(name: str, of_last: Callable, doc: str) -> Callable:
    caller = f"scipy.fft.{name}"

    @one_launch
    def transform(x: ArrayLike, type: int = 2, s: int | Sequence[int] | None = None, axes: Sequence[int] | None = None,
                  norm: str | None = None) -> Array:
        x, = inexact(caller, x)
        if s is not None:
            s = tuple(s) if np.ndim(s) else (operator.index(s),)
            if axes is None and len(s) <= x.ndim:
                axes = range(x.ndim - len(s), x.ndim)
        axes = canonical_axes(axes, x.ndim, caller, "axes")
        if s is not None and len(s) != len(axes):
            raise bad(caller, f"{len(s)} sizes for {len(axes)} axes", given={"x": typeof(x), "s": str(s)},
                      fix="pass one size for each axis.", exc=ValueError)
        return _transformed(caller, of_last, x, type, dict(zip(axes, s or [None] * len(axes), strict=True)), norm)

    return _described(transform, name, f"""{doc}

    Args:
      s: sizes to truncate or pad the axes to. axes: the axes to transform (default: all; with `s`, the last ones).
      The other arguments are those of `dct`.
    """)


def _described(f: Callable, name: str, doc: str) -> Callable:
    name_function(f, name)
    f.__doc__ = doc
    return f


dct = _one_axis("dct", _forward, "Cosine transform along an axis: ``2 sum(x[j] cos(pi k (2 j + 1) / (2 n)))``.")
idct = _one_axis("idct", _backward, "Inverse of `dct`.")
dctn = _several_axes("dctn", _forward, "`dct` along several axes.")
idctn = _several_axes("idctn", _backward, "Inverse of `dctn`.")

__all__ = ["dct", "dctn", "idct", "idctn"]

__getattr__ = attributes_of(__name__)
