"""Logarithms of sums and means of exponentials, without overflow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.types import number_of, typeof
from xjax.numpy.promote import array_like, promote_inexact
from xjax.ops.checks import canonical_axes
from xjax.ops.reduce import extreme_value
from xjax.runtime.jit import Inline, library_jit
from xjax.typing import Array, ArrayLike

Axis = int | Sequence[int] | None


def logsumexp(a: ArrayLike, axis: Axis = None, b: ArrayLike | None = None, keepdims: bool = False,
              return_sign: bool = False, where: ArrayLike | None = None) -> Any:
    """``log(sum(b * exp(a)))`` over axes, without overflow; -inf for no elements.

    Args:
      a: number[...]; axis: one, several or (None) all axes. b: factors that broadcast to a, None: 1.
      return_sign: also return the sign of the sum; the first result is then the logarithm of its absolute value.
        Without it, a negative sum gives nan.
      where: bool, broadcasts to a: elements to include.
    """
    a = array_like("nn.logsumexp", a)
    axes = canonical_axes(axis, typeof(a).ndim, "nn.logsumexp")
    return _logsumexp(a, b, where, axes=axes, keepdims=bool(keepdims), return_sign=bool(return_sign))


@library_jit(static_argnames=("axes", "keepdims", "return_sign"), inline=Inline.JAX_EARLY)
def _logsumexp(a: Array, b: Array | None, where: Array | None, axes: tuple[int, ...], keepdims: bool,
               return_sign: bool) -> Any:
    if where is not None:
        a = jnp.where(where, a, 0)
    if b is None:
        a, = promote_inexact("nn.logsumexp", a)
    else:
        a, b = promote_inexact("nn.logsumexp", a, b)
    shown = a if where is None else jnp.where(where, a, -np.inf)
    shown = shown if b is None else jnp.where(b != 0, shown, -np.inf)
    largest = exponent_shift("nn.logsumexp", jnp.real(shown), axes)
    largest = jnp.where(jnp.isfinite(largest), largest, 0)
    exponents = a - largest.astype(a.dtype)
    if b is not None:
        exponents = _without_overflow(exponents, b)
        none = _total(*lax.stop_gradient((exponents, b)), where, axes, True) == 0
        # The derivative of a sum of 0 is infinite, and a term whose factor is 0 would multiply it by 0.
        exponents = jnp.where((b == 0) & none, lax.stop_gradient(exponents), exponents)
    total = _total(exponents, b, where, axes, keepdims)
    sign, is_real = jnp.sign(total), not dtypes.is_complex(total.dtype)
    if return_sign or is_real:
        total = jnp.abs(total)
    largest = largest if keepdims else lax.squeeze(largest, axes)
    narrow = exponents.dtype if dtypes.is_complex(total.dtype) else jnp.real(exponents).dtype
    out = (jnp.log(total) + largest.astype(total.dtype)).astype(narrow)
    if return_sign:
        return out, sign.astype(exponents.dtype)
    return jnp.where(sign < 0, np.nan, out) if b is not None and is_real else out


def _total(exponents: Array, b: Array | None, where: Array | None, axes: tuple[int, ...], keepdims: bool) -> Array:
    terms = jnp.exp(exponents)
    return jnp.sum(terms if b is None else terms * b, axis=axes, keepdims=keepdims, where=where,
                   dtype=dtypes.accumulator_dtype(terms.dtype))


def _without_overflow(exponents: Array, b: Array) -> Array:
    """The exponents, limited for terms whose factor is 0, so that the term does not overflow.

    Then 0 times the term is 0, and the term, the derivative with respect to the factor, is finite.
    """
    most = math.floor(math.log(float(dtypes.finfo(exponents.dtype).max)))
    return jnp.where((b == 0) & ~(jnp.real(exponents) <= most), most, exponents)


def exponent_shift(caller: str, x: ArrayLike, axis: Axis) -> Array:
    """The largest element along `axis`, kept with size 1, to subtract from exponents; a constant in derivatives.

    It may ignore a NaN in x, for ``exp(x - shift)`` is NaN there anyway: XLA compiles this faster than a maximum that
    propagates NaN.
    """
    if not dtypes.is_inexact(x.dtype):
        return jnp.max(x, axis, initial=-np.inf, keepdims=True)
    axes = canonical_axes(axis, x.ndim, caller)
    largest = lax.reduce(lax.stop_gradient(x), number_of(x.dtype, extreme_value(x.dtype, -1)), _larger, axes)
    return lax.expand_dims(largest, axes)


def _larger(x: Array, y: Array) -> Array:
    """`lax.max` under another name: for `lax.max` itself, `lax.reduce` takes the maximum that propagates NaN."""
    return lax.max(x, y)


def logmeanexp(x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """``log(mean(exp(x)))`` over `axis`, without overflow; with `where`, the mean of the selected elements."""
    total = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    aval = typeof(x)
    mask = np.True_ if where is None else where
    count = jnp.sum(jnp.broadcast_to(mask, aval.shape), axis, dtype=dtypes.accumulator_dtype(total.dtype),
                    keepdims=keepdims)
    return total - jnp.log(count).astype(total.dtype)
