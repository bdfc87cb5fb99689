"""`polynomial`: the value of a polynomial by Horner's scheme; its derivatives are polynomials again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xjax.core.hlo import Builder, Value
from xjax.core.lowering import lower_function
from xjax.core.primitive import Primitive
from xjax.core.types import ShapedArray, Zero, is_linear, typeof
from xjax.lax.scan import scan
from xjax.lax.shapes import full_like
from xjax.ops.arrange import stack
from xjax.ops.checks import NUMBER, check_kinds, check_same_dtype, static_int
from xjax.ops.convert import convert_element_type
from xjax.ops.elementwise import add, mul
from xjax.ops.makers import accumulate, broadcast_shape, elementwise_batch, fill, filled_like, scalar_like, unbroadcast
from xjax.ops.shape import broadcast_in_dim
from xjax.typing import Array, ArrayLike

_UNROLLED = 8                       # maximum number of coefficients without a loop


def polynomial(x: ArrayLike, coeffs: Sequence[Any], *, unroll: int | None = None) -> Array:
    """Value of a polynomial at `x`, element-wise: ``coeffs[0] + coeffs[1] x + coeffs[2] x ** 2 + ...``.

    Args:
      x: number[...].
      coeffs: coefficients, the lowest power first: numbers, or arrays that broadcast with x at equal rank. They are
        converted to the dtype of x.
      unroll: maximum number of coefficients without a loop (None: 8); a loop unrolls this many steps per iteration.
    Returns: an array of the dtype of x; 0 if there are no coefficients.
    Raises: TypeError if shapes do not broadcast.

    >>> polynomial(3.0, [1.0, 5.0, 2.0])
    Array(34., dtype=float32, weak_type=True)
    """
    aval = typeof(x)
    converted = [convert_element_type(c, aval.dtype) if hasattr(c, "aval") or np.ndim(c) else scalar_like(x, c)
                 for c in coeffs]
    if not converted:
        return full_like(x, 0)
    if len(converted) == 1:
        return _expanded(converted[0], broadcast_shape("polynomial", aval.shape, typeof(converted[0]).shape))
    params = {} if unroll is None else {"unroll": static_int(unroll, "unroll", "lax.polynomial")}
    return polynomial_p.bind(x, *converted, **params)


def _type(x, *coeffs, unroll=None):
    check_kinds("polynomial", NUMBER, x, *coeffs)
    check_same_dtype("polynomial", x, *coeffs)
    shape = broadcast_shape("polynomial", x.shape, *[c.shape for c in coeffs])
    return ShapedArray(shape, x.dtype, x.weak_type and all(c.weak_type for c in coeffs))


def _lower(b: Builder, out: ShapedArray, x: Value, *coeffs: Value, unroll: int | None = None) -> Value:
    steps = _UNROLLED if unroll is None else unroll
    return lower_function(b, lambda x, *coeffs: [_by_horner(x, coeffs, out.shape, steps)], [x, *coeffs])[0]


def _by_horner(x: Array, coeffs: Sequence[Any], shape: tuple[int, ...], steps: int) -> Array:
    def step(value: Array, c: Array) -> tuple[Any, None]:
        return add(mul(value, x), c), None

    highest, *lower = reversed(coeffs)
    if len(coeffs) <= steps:
        for c in lower:
            highest, _ = step(highest, c)
        return _expanded(highest, shape)
    common = broadcast_shape("polynomial", *[typeof(c).shape for c in coeffs])
    return scan(step, _expanded(highest, shape), stack([_expanded(c, common) for c in lower]), unroll=max(steps, 1))[0]


def _expanded(x: ArrayLike, shape: tuple[int, ...]) -> Array:
    return broadcast_in_dim(x, shape, tuple(range(len(shape))) if typeof(x).shape else ())


def _jvp(primals, tangents, **params):
    (x, *coeffs), (dx, *d_coeffs) = primals, tangents
    y = polynomial_p.bind(*primals, **params)
    total: Any = Zero(y.aval.tangent())
    if type(dx) is not Zero:
        slope = polynomial(x, [mul(scalar_like(c, k), c) for k, c in enumerate(coeffs[1:], 1)], **params)
        total = fill(mul(dx, slope), y.aval)
    if any(type(dc) is not Zero for dc in d_coeffs):
        instantiated = [filled_like(c, 0) if type(dc) is Zero else dc for c, dc in zip(coeffs, d_coeffs, strict=True)]
        total = accumulate(total, fill(polynomial(x, instantiated, **params), y.aval))
    return y, total


def _transpose(ct, x, *coeffs, unroll=None):
    """Linear in the coefficients: the cotangent of each one is `ct` times its power of x."""
    shares = []
    for k, c in enumerate(coeffs):
        ct = mul(ct, x) if k else ct
        shares.append(unbroadcast(ct, c.aval) if is_linear(c) else None)
    return [None, *shares]


polynomial_p = Primitive("polynomial", type_rule=_type, lower=_lower, jvp=_jvp, transpose=_transpose,
                         batch=elementwise_batch(lambda: polynomial_p))
