"""Constructors of layers without parameters, from a function that changes or keeps the shape."""

from collections.abc import Callable, Mapping
from typing import Any

import xjax.numpy as jnp
from xjax import nn
from xjax.errors import bad
from xnn.covariance.elementwise import Moments, after_function, exponential, half_linear, sign
from xnn.covariance.hermite import expansion
from xnn.covariance.kernel import Rule
from xnn.layer import Layer

# Functions with a closed form of their kernel, which an expansion would only approximate.
_CLOSED_FORMS: Mapping[Callable, Moments] = {
    nn.relu: half_linear(0.0, 1.0), nn.leaky_relu: half_linear(0.01, 1.0), jnp.abs: half_linear(-1.0, 1.0),
    jnp.exp: exponential(), jnp.sign: sign()}


def stateless(fun: Callable, out_shape: Callable, name: str, settings: Mapping[str, Any] | None = None,
              positionwise: bool = True, kernel_rule: Rule | None = None) -> Layer:
    """A layer without parameters from ``fun(x)`` and ``out_shape(in_shape)``."""

    def init(rng, in_shape):
        return out_shape(in_shape), ()

    def apply(params, x, *, rng=None, train=False):
        return fun(x)

    return Layer(init, apply, name, settings=settings or {}, positionwise=positionwise,
                 kernel_rule=kernel_rule)


def elementwise(fun: Callable, name: str | None = None, *, moments: Moments | None = None, **settings: Any) -> Layer:
    """A layer that applies ``fun(x, **settings)``, which must keep the shape.  Params: ``()``.

    Its kernel of infinite width is computed from an expansion of `fun` in Hermite polynomials, unless a closed form is
    known, as for `xjax.nn.relu`; `expansion_error` of `xnn.kernels` bounds its error. If `fun` is not elementwise, as
    `softmax`, the layer has no kernel.

    Args: moments: a closed form instead: the expectations of ``f(u) f(v)`` and ``f'(u) f'(v)`` as functions
      ``(c, a, b, gap)`` of the covariance of two Gaussian values, their variances, and ``gap = a b - c**2``.

    >>> elementwise(xjax.nn.softmax, axis=0)
    softmax(axis=0)
    """
    if isinstance(fun, Layer):                              # callable too, but with parameters as its first argument
        raise bad("elementwise", "needs a function of arrays, not a layer", {"given": repr(fun)},
                  "pass a function such as xjax.nn.relu, or use the layer as a child.", TypeError)

    def apply_fun(x):
        return fun(jnp.asarray(x), **settings)

    name = name or getattr(fun, "__name__", "elementwise")
    closed = moments or (None if settings else _CLOSED_FORMS.get(fun))

    def kernel_rule(kernel):
        return after_function(kernel, name, apply_fun, closed or expansion(name, apply_fun))

    return stateless(apply_fun, lambda shape: shape, name, settings, settings.get("axis", -1) == -1, kernel_rule)
