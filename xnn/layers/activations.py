"""Activations: a table of activations without arguments, and some with arguments, parameters or random slopes.

The activations of the table are layers, not constructors: ``serial(Dense(32), Relu, Dense(10))``. For other settings
of a function, make a new layer: ``Steep = elementwise(nn.leaky_relu, negative_slope=0.2)``.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import xjax.numpy as jnp
from xjax import lax, nn
from xjax.errors import bad
from xjax.typing import Array
from xnn import rng as rng_lib
from xnn.checks import check_float, check_params, check_shape
from xnn.covariance import elementwise as moments
from xnn.covariance.fixed import in_evaluation
from xnn.covariance.hermite import expansion
from xnn.layer import Layer, recorded, shape_kept
from xnn.layers.elementwise import elementwise, stateless


def _soft_shrink(x: Array, threshold: float = 0.5) -> Array:
    return jnp.where(jnp.abs(x) > threshold, x - jnp.sign(x) * threshold, 0)


Relu = elementwise(nn.relu, "Relu", moments=moments.half_linear(0.0, 1.0))
Relu6 = elementwise(nn.relu6, "Relu6")
LeakyRelu = elementwise(nn.leaky_relu, "LeakyRelu", moments=moments.half_linear(0.01, 1.0))
Elu = elementwise(nn.elu, "Elu")
Celu = elementwise(nn.celu, "Celu")
Selu = elementwise(nn.selu, "Selu")
Gelu = elementwise(nn.gelu, "Gelu")  # by tanh, as in JAX's default and GPT-2
ExactGelu = elementwise(lambda x: nn.gelu(x, approximate=False), "ExactGelu",  # by erf, as in PyTorch and BERT
                        moments=moments.gelu())
QuickGelu = elementwise(lambda x: x * nn.sigmoid(1.702 * x), "QuickGelu")  # as in CLIP
Silu = elementwise(nn.silu, "Silu")  # also called swish
Mish = elementwise(nn.mish, "Mish")
Softplus = elementwise(nn.softplus, "Softplus")
Squareplus = elementwise(nn.squareplus, "Squareplus")
SparsePlus = elementwise(nn.sparse_plus, "SparsePlus")
Tanh = elementwise(jnp.tanh, "Tanh")
TanhShrink = elementwise(lambda x: x - jnp.tanh(x), "TanhShrink")
Sigmoid = elementwise(nn.sigmoid, "Sigmoid")
LogSigmoid = elementwise(nn.log_sigmoid, "LogSigmoid")
SparseSigmoid = elementwise(nn.sparse_sigmoid, "SparseSigmoid")
SoftSign = elementwise(nn.soft_sign, "SoftSign")
HardTanh = elementwise(nn.hard_tanh, "HardTanh")
HardSigmoid = elementwise(nn.hard_sigmoid, "HardSigmoid")
HardSwish = elementwise(nn.hard_swish, "HardSwish")
HardShrink = elementwise(lambda x: jnp.where(jnp.abs(x) > 0.5, x, 0), "HardShrink")
SoftShrink = elementwise(_soft_shrink, "SoftShrink")
Exp = elementwise(jnp.exp, "Exp", moments=moments.exponential())
Abs = elementwise(jnp.abs, "Abs", moments=moments.half_linear(-1.0, 1.0))
Sign = elementwise(jnp.sign, "Sign", moments=moments.sign())
Softmax = elementwise(nn.softmax, "Softmax", axis=-1)
Softmin = elementwise(lambda x, axis: nn.softmax(-x, axis), "Softmin", axis=-1)
LogSoftmax = elementwise(nn.log_softmax, "LogSoftmax", axis=-1)


def ABRelu(below: float, above: float) -> Layer:
    """``above * x`` for x > 0 and ``below * x`` for x < 0.  Shape: any -> the same.  Params: ``()``."""
    return elementwise(lambda x, below, above: jnp.where(x > 0, above * x, below * x), "ABRelu", below=below,
                       above=above, moments=moments.half_linear(below, above))


def RectifiedMonomial(degree: int) -> Layer:
    """``max(x, 0)**degree``; degree 0 is the step function.  Shape: any -> the same.  Params: ``()``."""
    _check_degree("RectifiedMonomial", degree)
    return elementwise(lambda x, degree: jnp.where(x > 0, x**degree, 0), "RectifiedMonomial", degree=degree,
                       moments=moments.rectified_power(degree))


def Erf(scale: float = 1.0, factor: float = 1.0, shift: float = 0.0) -> Layer:
    """``factor * erf(scale * x) + shift``.  Shape: any -> the same.  Params: ``()``.

    With scale 0.4163, factor 0.5 and shift 0.5 it is within 0.01 of the logistic function, and has a kernel in closed
    form.
    """
    return elementwise(lambda x, scale, factor, shift: factor * lax.erf(scale * x) + shift, "Erf", scale=scale,
                       factor=factor, shift=shift, moments=moments.erf(scale, factor, shift))


def Sin(scale: float = 1.0, factor: float = 1.0, shift: float = 0.0) -> Layer:
    """``factor * sin(scale * x + shift)``.  Shape: any -> the same.  Params: ``()``.

    ``Sin(sqrt(2 g), sqrt(2), pi / 4)`` after a Dense has the kernel ``exp(-g |u - v|**2)`` of radial basis functions.
    """
    return elementwise(lambda x, scale, factor, shift: factor * jnp.sin(scale * x + shift), "Sin", scale=scale,
                       factor=factor, shift=shift, moments=moments.sine(scale, factor, shift))


def Cos(scale: float = 1.0, factor: float = 1.0, shift: float = 0.0) -> Layer:
    """``factor * cos(scale * x + shift)``.  Shape: any -> the same.  Params: ``()``."""
    return elementwise(lambda x, scale, factor, shift: factor * jnp.cos(scale * x + shift), "Cos", scale=scale,
                       factor=factor, shift=shift, moments=moments.sine(scale, factor, shift + math.pi / 2))


def Gaussian(scale: float = 1.0, factor: float = 1.0) -> Layer:
    """``factor * exp(-scale * x**2)``.  Shape: any -> the same.  Params: ``()``.  Raises: ValueError for scale < 0."""
    if scale < 0:
        raise bad("Gaussian", "the scale must not be negative", {"scale": scale}, "Gaussian(1.0).", ValueError)
    return elementwise(lambda x, scale, factor: factor * jnp.exp(-scale * x * x), "Gaussian", scale=scale,
                       factor=factor, moments=moments.gaussian(scale, factor))


def Polynomial(coefficients: Sequence[float]) -> Layer:
    """The polynomial with ``coefficients[k]`` for ``x**k``.  Shape: any -> the same.  Params: ``()``."""
    coefficients = tuple(float(one) for one in coefficients)
    return elementwise(lambda x, coefficients: jnp.polyval(jnp.asarray(coefficients[::-1] or (0.0,), x.dtype), x),
                       "Polynomial", coefficients=coefficients, moments=moments.power_series(coefficients))


def Monomial(degree: int) -> Layer:
    """``x**degree``.  Shape: any -> the same.  Params: ``()``."""
    _check_degree("Monomial", degree)
    return elementwise(lambda x, degree: x**degree, "Monomial", degree=degree,
                       moments=moments.power_series((0.0,) * degree + (1.0,)))


def Hermite(degree: int) -> Layer:
    """The Hermite polynomial of this degree, of variance 1 for standard normal values.  Params: ``()``."""
    _check_degree("Hermite", degree)
    highest_first = tuple(
        (-1) ** j * math.sqrt(math.factorial(degree)) / (math.factorial(j) * math.factorial(degree - 2 * j) * 2**j)
        if k == 2 * j else 0.0 for k in range(degree + 1) for j in (k // 2,))
    return elementwise(lambda x, degree: jnp.polyval(jnp.asarray(highest_first, x.dtype), x), "Hermite",
                       degree=degree, moments=moments.power_series(highest_first[::-1]))


def _check_degree(name: str, degree: int) -> None:
    if not isinstance(degree, int) or degree < 0:
        raise bad(name, "the degree must be a whole number of at least 0", {"degree": repr(degree)}, f"{name}(2).",
                  ValueError)


def Threshold(threshold: float, value: float = 0.0) -> Layer:
    """x where it is greater than `threshold`, `value` elsewhere.  Shape: any -> the same."""
    return elementwise(lambda x, threshold, value: jnp.where(x > threshold, x, value), "Threshold",
                       threshold=threshold, value=value)


@recorded()
def PReLU(*, per_feature: bool = False, slope: float = 0.25) -> Layer:
    """``max(x, 0) + slope * min(x, 0)`` with a learned slope (He et al., 2015).  Shape: any -> the same.

    Args:
      per_feature: one slope for each index of the last axis, instead of a single one.
      slope: the initial value; the default is PyTorch's.
    Params: ``{"slope": [] or [features]}``. Exclude it from weight decay, which would turn the layer into a Relu.
    """

    def init(rng, in_shape):
        sizes = check_shape("PReLU", in_shape)[-1:] if per_feature else ()
        return in_shape, {"slope": jnp.full(sizes, slope)}

    def apply(params, x, *, rng=None, train=False):
        x = check_float("PReLU", x, int(per_feature))
        check_params("PReLU", params, x, slope=x.shape[-1:] if per_feature else ())
        return jnp.where(x >= 0, x, x * jnp.broadcast_to(params["slope"], x.shape))

    return Layer(init, apply, "PReLU", positionwise=True,
                 kernel_rule=lambda kernel: moments.after_prelu(kernel, slope, per_feature))


@recorded()
def RReLU(lower: float = 1 / 8, upper: float = 1 / 3) -> Layer:
    """Leaky Relu with a random slope for each value in training: uniform in [lower, upper) (Xu et al., 2015).

    In evaluation the slope is the mean. Shape: any -> the same.
    Params: ``()``.  Raises: ValueError unless lower <= upper; TypeError from apply in training without rng.
    """
    if not lower <= upper:
        raise bad("RReLU", "lower must not be above upper", {"lower": lower, "upper": upper},
                  fix="RReLU(1 / 8, 1 / 3).", exc=ValueError)

    def apply(params, x, *, rng=None, train=False):
        x = check_float("RReLU", x, 0)
        if not train:
            return jnp.where(x >= 0, x, x * ((lower + upper) / 2))
        rng_lib.check_rng("RReLU", rng)
        return jnp.where(x >= 0, x, x * rng_lib.uniform(rng, x.shape, x.dtype, lower, upper))

    def kernel_rule(kernel):
        kernel = in_evaluation("RReLU", lower < upper)(kernel)
        return moments.after_function(kernel, "RReLU", lambda x: apply((), x),
                                      moments.half_linear((lower + upper) / 2, 1.0))

    return Layer(shape_kept, apply, "RReLU", positionwise=True, kernel_rule=kernel_rule)


# -- one half of the features gates the other -----------------------------------------------------------------------


def _gated(name: str, gate: Callable) -> Layer:
    """``value * gate(rest)``, where value is the first half of the features and rest the second half, as in PyTorch.

    Shape: [..., 2 n] -> [..., n].
    """

    def out_shape(in_shape):
        *others, features = check_shape(name, in_shape)
        return (*others, _divided(name, in_shape, features, 2))

    def fun(x):
        x = check_float(name, x)
        half = _divided(name, x.shape, x.shape[-1], 2)
        return x[..., :half] * gate(x[..., half:])

    def kernel_rule(kernel):
        _divided(name, (*kernel.rows.of1, kernel.features), kernel.features, 2)
        of_gate = moments.half_linear(0.0, 1.0) if gate is nn.relu else expansion(name, gate)
        return moments.gated(kernel, name, gate, of_gate)

    return stateless(fun, out_shape, name, kernel_rule=kernel_rule)


def _divided(name: str, shape: Any, features: int, by: int) -> int:
    if features % by:
        raise bad(name, f"the number of features must be a multiple of {by}", {"in_shape": str(tuple(shape))},
                  fix=f"put it after Dense({by} * n).", exc=ValueError)
    return features // by


GLU = _gated("GLU", nn.sigmoid)  # Dauphin et al., 2017
ReGLU = _gated("ReGLU", nn.relu)  # this and the next two: Shazeer, 2020
GeGLU = _gated("GeGLU", nn.gelu)  # by tanh, as in T5 v1.1
SwiGLU = _gated("SwiGLU", nn.silu)


def Maxout(pieces: int = 2) -> Layer:
    """The maximum of each group of `pieces` adjacent features (Goodfellow et al., 2013), for use after a `Dense`.

    Shape: [..., pieces * n] -> [..., n].
    Params: ``()``.  Raises: ValueError if the number of features is not a multiple of `pieces`.
    """
    if pieces < 1:
        raise bad("Maxout", "a group must have at least one feature", {"pieces": pieces}, "Maxout(2).", ValueError)

    def out_shape(in_shape):
        *others, features = check_shape("Maxout", in_shape)
        return (*others, _divided("Maxout", in_shape, features, pieces))

    def fun(x):
        x = check_float("Maxout", x)
        return jnp.max(jnp.reshape(x, (*out_shape(x.shape), pieces)), -1)

    return stateless(fun, out_shape, "Maxout", {"pieces": pieces})
