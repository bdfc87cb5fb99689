"""Activation functions of float arrays of any shape; each is one compiled program.

Derivatives at kinks are part of the contract: the derivative of `relu` is 0 at 0, that of `relu6` is 0 at 0 and 6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax
from xjax.core import dtypes
from xjax.core.errors import bad
from xjax.core.types import typeof
from xjax.numpy.promote import array_like, check_mixed, check_ranks, library_rules, promote_inexact
from xjax.numpy.selection import operand
from xjax.numpy.ufuncs import to_array_like
from xjax.ops.checks import canonical_axis
from xjax.ops.halves import in_single
from xjax.ops.makers import scalar_like
from xjax.ops.transcendental import logistic_slope
from xjax.runtime.jit import Inline, library_jit
from xjax.transforms.custom_jvp import custom_jvp
from xjax.typing import Array, ArrayLike


def _by_library_rules(fun: Callable) -> Callable:
    """Decorator: `fun` mixes dtypes under any promotion options, which are checked on the user's arrays only."""
    caller, body = f"nn.{fun.__name__}", library_rules(fun)

    @functools.wraps(fun)
    def activation(x: ArrayLike, *parameters: ArrayLike, **named: ArrayLike) -> Array:
        arrays = [a for a in (*parameters, *named.values()) if not typeof(operand(caller, a)).weak_type]
        if arrays:
            check_mixed(caller, x, *arrays)
            check_ranks(caller, [typeof(a).shape for a in (operand(caller, x), *arrays)])
        return body(x, *parameters, **named)

    return activation


@library_jit
def identity(x: ArrayLike) -> Array:
    """`x` itself."""
    return to_array_like("nn.identity", x)


# -- piecewise linear ---------------------------------------------------------------------------------------------

@custom_jvp
@library_jit
def relu(x: ArrayLike) -> Array:
    """``max(x, 0)``, element-wise. Its derivative at 0 is 0."""
    return jnp.maximum(x, 0)


relu.defjvps(lambda dx, y, x: _where_inside(dx, x > 0))


@custom_jvp
@library_jit
@_by_library_rules
def relu6(x: ArrayLike) -> Array:
    """``min(max(x, 0), 6)``, element-wise. Its derivative at 0 and 6 is 0."""
    return jnp.minimum(jnp.maximum(x, 0), 6.0)


relu6.defjvps(lambda dx, y, x: _where_inside(dx, (x > 0) & (x < 6)))


def _where_inside(dx: Array, inside: ArrayLike) -> Array:
    return lax.select(inside, dx, lax.full_like(dx, 0))


@library_jit
@_by_library_rules
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """x where x >= 0, else ``negative_slope * x``, element-wise."""
    x = operand("nn.leaky_relu", x)
    return jnp.where(x >= 0, x, negative_slope * x)


@library_jit
def hard_tanh(x: ArrayLike) -> Array:
    """x limited to [-1, 1], element-wise."""
    x = operand("nn.hard_tanh", x)
    return jnp.where(x > 1, 1, jnp.where(x < -1, -1, x))


@library_jit
@_by_library_rules
def hard_sigmoid(x: ArrayLike) -> Array:
    """``relu6(x + 3) / 6``, element-wise."""
    return relu6(x + 3.0) / 6.0


@library_jit
@_by_library_rules
def hard_silu(x: ArrayLike) -> Array:
    """``x * hard_sigmoid(x)``, element-wise."""
    x = operand("nn.hard_silu", x)
    return x * hard_sigmoid(x)


hard_swish = hard_silu


@library_jit
@_by_library_rules
def sparse_plus(x: ArrayLike) -> Array:
    """0 where x <= -1, x where x >= 1, and ``(x + 1)**2 / 4`` between, element-wise."""
    x = operand("nn.sparse_plus", x)
    return _sparse_plus(x)


@custom_jvp
def _sparse_plus(x: Array) -> Array:
    return jnp.where(x <= -1.0, 0.0, jnp.where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


# The derivative of the square would be nan where the square overflows.
_sparse_plus.defjvps(lambda dx, y, x: dx * sparse_sigmoid(x))


@library_jit
@_by_library_rules
def sparse_sigmoid(x: ArrayLike) -> Array:
    """``(x + 1) / 2`` limited to [0, 1], element-wise: the derivative of `sparse_plus`."""
    return 0.5 * jnp.clip(x + 1.0, 0.0, 2.0)


# -- smooth -------------------------------------------------------------------------------------------------------

@library_jit(inline=Inline.JAX_EARLY)
def sigmoid(x: ArrayLike) -> Array:
    """``1 / (1 + exp(-x))``, element-wise."""
    return lax.logistic(x)


@library_jit
def softplus(x: ArrayLike) -> Array:
    """``log(1 + exp(x))``, element-wise, without overflow."""
    return jnp.logaddexp(x, 0)


@library_jit
def log_sigmoid(x: ArrayLike) -> Array:
    """``log(sigmoid(x))``, element-wise, without overflow."""
    x = operand("nn.log_sigmoid", x)
    return -softplus(-x)


@library_jit
def soft_sign(x: ArrayLike) -> Array:
    """``x / (|x| + 1)``, element-wise."""
    return _soft_sign(operand("nn.soft_sign", x))


@custom_jvp
def _soft_sign(x: Array) -> Array:
    return x / (jnp.abs(x) + 1)


@in_single
def _soft_sign_slope(x: Array) -> Array:
    return jnp.square(1 / (jnp.abs(x) + 1))


_soft_sign.defjvps(lambda dx, y, x: dx * _soft_sign_slope(x))


@library_jit
def silu(x: ArrayLike) -> Array:
    """``x * sigmoid(x)``, element-wise (also called swish)."""
    return _silu(operand("nn.silu", x))


@custom_jvp
@in_single
def _silu(x: Array) -> Array:
    return x * sigmoid(x)


@custom_jvp
@in_single
def _silu_slope(x: Array) -> Array:
    y = sigmoid(x)
    return y + x * (y * (1 - y))                        # 1 - y loses digits only where it is negligible


@in_single
def _silu_second(x: Array) -> Array:
    return logistic_slope(x) * (2 - x * jnp.tanh(x / 2))


_silu.defjvps(lambda dx, y, x: dx * _silu_slope(x))
_silu_slope.defjvps(lambda dx, y, x: dx * _silu_second(x))


swish = silu


@library_jit
@_by_library_rules
def mish(x: ArrayLike) -> Array:
    """``x * tanh(softplus(x))``, element-wise."""
    return _mish(operand("nn.mish", x))


@in_single
def _mish(x: Array) -> Array:
    return x * _tanh_of_softplus(x)


@custom_jvp
def _tanh_of_softplus(x: Array) -> Array:
    part, whole, _ = _parts_of_mish(x)
    return part / whole


def _parts_of_mish(x: Array) -> tuple[Any, Any, Any]:
    """(part, whole, whole - part) with ``tanh(softplus(x)) = part / whole``, from ``exp(-abs(x))``: no overflow."""
    u = jnp.exp(-jnp.abs(x))
    part = jnp.where(x >= 0, 1 + 2 * u, u * (u + 2))
    rest = jnp.where(x >= 0, 2 * u * u, 2.0)
    return part, part + rest, rest


def _tanh_of_softplus_slope(x: Array) -> Array:
    """``1 - y**2`` for y = part / whole, times the slope of softplus."""
    part, whole, rest = _parts_of_mish(x)
    return rest * (whole + part) / (whole * whole) * sigmoid(x)


_tanh_of_softplus.defjvps(lambda dx, y, x: dx * _tanh_of_softplus_slope(x))


@library_jit
@_by_library_rules
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """``(x + sqrt(x**2 + b)) / 2``, element-wise; b = 0 gives relu."""
    return _squareplus(*jnp.broadcast_arrays(*promote_inexact("nn.squareplus", x, b)))


# In the formula the square may overflow, and the sum loses digits for negative x; in derivatives both are worse.

@custom_jvp
@in_single
def _squareplus(x: Array, b: Array) -> Array:
    large = _larger_of_squareplus(x, _root_of_squareplus(x, b))
    return jnp.where(x >= 0, large, b / 4 / large)


def _root_of_squareplus(x: Array, b: Array) -> Array:
    """``sqrt(x**2 + b)``; where the square would overflow, b is negligible and the result is ``abs(x)``."""
    bound = float(2.0 ** (dtypes.finfo(x.dtype).maxexp // 2 - 1))
    return jnp.maximum(jnp.abs(x), jnp.sqrt(jnp.minimum(jnp.square(x), bound * bound) + b))


def _larger_of_squareplus(x: Array, root: Array) -> Array:
    """``(abs(x) + root) / 2``, without overflow."""
    return jnp.abs(x) / 2 + root / 2


@custom_jvp
@in_single
def _squareplus_slope(x: Array, b: Array) -> Array:
    """``(1 + x / root) / 2``."""
    root = _root_of_squareplus(x, b)
    large = _larger_of_squareplus(x, root)
    return jnp.where(x >= 0, large, b / 4) / jnp.where(x >= 0, root, large * root)


@in_single
def _squareplus_slope_by_b(x: Array, b: Array) -> Array:
    return 0.25 / _root_of_squareplus(x, b)


@in_single
def _inverse_cube_of_root(x: Array, b: Array) -> Array:
    return 1 / (jnp.square(x) + b) / _root_of_squareplus(x, b)


_squareplus.defjvps(lambda dx, y, x, b: dx * _squareplus_slope(x, b),
                    lambda db, y, x, b: db * _squareplus_slope_by_b(x, b))
_squareplus_slope.defjvps(lambda dx, y, x, b: dx * (b / 2 * _inverse_cube_of_root(x, b)),
                          lambda db, y, x, b: db * (x / -4 * _inverse_cube_of_root(x, b)))


@library_jit
@_by_library_rules
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where x > 0, else ``alpha * (exp(x) - 1)``, element-wise."""
    x = operand("nn.elu", x)
    # Positive elements are replaced by 0 before the exponential, so that its derivative stays finite.
    return jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0.0, x)))


@library_jit
@_by_library_rules
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x where x > 0, else ``alpha * (exp(x / alpha) - 1)``, element-wise: smooth at 0 for any alpha."""
    return jnp.maximum(x, 0.0) + alpha * jnp.expm1(jnp.minimum(x, 0.0) / alpha)


@library_jit
@_by_library_rules
def selu(x: ArrayLike) -> Array:
    """`elu` scaled so that mean 0 and variance 1 pass through a layer (Klambauer et al. 2017), element-wise."""
    return 1.0507009873554804934193349852946 * elu(x, 1.6732632423543772848170429916717)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the cumulative distribution function of the standard normal at x, element-wise.

    Args: x: number[...], integers become floats; approximate: use tanh (Hendrycks & Gimpel 2016) instead of erf.
    """
    x, = promote_inexact("nn.gelu", x)
    if not approximate:
        return _erf_gelu(x)
    dtype = typeof(x).dtype
    return (_tanh_gelu if dtypes.accumulator_dtype(dtype) == dtype else _gelu_of_halves)(x)


@library_jit(inline=Inline.JAX_EARLY)
def _tanh_gelu(x: Array) -> Array:
    """With tanh as in JAX: XLA computes it faster than an exponential, although the sum loses digits for x < 0."""
    scale = np.sqrt(2 / np.pi).astype(x.dtype)
    # For larger x the tanh is -1 or 1, and the cube may overflow.
    inner = lax.clamp(scalar_like(x, -32), x, scalar_like(x, 32))
    return x * (0.5 * (1.0 + jnp.tanh(scale * (inner + 0.044715 * (inner ** 3)))))


# For 16-bit floats: the equal formula x logistic(z) keeps all digits, and one program in float32 takes less time than
# conversions around each operation.

@library_jit
def _gelu_of_halves(x: Array) -> Array:
    return _logistic_gelu(x)


_GELU_Z = float(np.sqrt(8 / np.pi))                     # z = _GELU_Z (x + _GELU_CUBE x**3)
_GELU_CUBE = 0.044715


@custom_jvp
@in_single
def _logistic_gelu(x: Array) -> Array:
    return x * sigmoid(_parts_of_gelu(x)[1])


def _parts_of_gelu(x: Array) -> tuple[Any, Any, Any]:
    """(x, z, slope of z), with x limited to [-32, 32]: beyond, the logistic is 0 or 1, and the cube may overflow."""
    x = jnp.clip(x, -32, 32)
    square = _GELU_CUBE * x * x
    return x, _GELU_Z * (x + x * square), _GELU_Z * (1 + 3 * square)


@custom_jvp
@in_single
def _logistic_gelu_slope(x: Array) -> Array:
    x, z, z_slope = _parts_of_gelu(x)
    y = sigmoid(z)
    return y + x * z_slope * (y * (1 - y))              # 1 - y loses digits only where it is negligible


@in_single
def _logistic_gelu_second(x: Array) -> Array:
    x, z, z_slope = _parts_of_gelu(x)
    z_second = 6 * _GELU_Z * _GELU_CUBE * x
    return logistic_slope(z) * (2 * z_slope + x * z_second - x * z_slope * z_slope * jnp.tanh(z / 2))


_logistic_gelu.defjvps(lambda dx, y, x: dx * _logistic_gelu_slope(x))
_logistic_gelu_slope.defjvps(lambda dx, y, x: dx * _logistic_gelu_second(x))


@library_jit(inline=Inline.JAX_EARLY)
@in_single
def _erf_gelu(x: Array) -> Array:
    return 0.5 * x * lax.erfc(-x * np.sqrt(0.5).astype(x.dtype))


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Gated linear unit: the first half of x along `axis` times the sigmoid of the second half.

    Raises: ValueError if the axis has an odd size.
    """
    x = array_like("nn.glu", x)
    aval = typeof(x)
    axis = canonical_axis(axis, aval.ndim, "nn.glu")
    if aval.shape[axis] % 2:
        raise bad("nn.glu", f"axis {axis} has the odd size {aval.shape[axis]} and cannot be halved",
                  given={"x": aval.str_short()}, fix="give it an even size.", exc=ValueError)
    return _glu(x, axis=axis)


@library_jit(static_argnames=("axis",))
def _glu(x: Array, axis: int) -> Array:
    half = x.shape[axis] // 2
    return lax.slice_in_dim(x, 0, half, axis=axis) * sigmoid(lax.slice_in_dim(x, half, 2 * half, axis=axis))


@custom_jvp
@library_jit
@_by_library_rules
def log1mexp(x: ArrayLike) -> Array:
    """``log(1 - exp(-x))`` for x > 0, element-wise, accurate for small and large x (Mächler 2012)."""
    return _log1mexp(operand("nn.log1mexp", x))


@in_single
def _log1mexp(x: Array) -> Array:
    return jnp.where(x < np.log(2.0), jnp.log(-jnp.expm1(-x)), jnp.log1p(-jnp.exp(-x)))


@custom_jvp
@in_single
def _log1mexp_slope(x: ArrayLike) -> Array:
    return 1 / jnp.expm1(x)


_log1mexp_slope.defjvps(lambda dx, y, x: -dx * jnp.square(0.5 / jnp.sinh(x / 2)))
log1mexp.defjvps(lambda dx, y, x: dx * _log1mexp_slope(x))
