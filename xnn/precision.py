"""`with_precision`: the dtypes of parameters, of computation and of results, for a whole model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import xjax.numpy as jnp
from xjax import tree_util
from xjax.errors import bad
from xjax.typing import ArrayLike, DTypeLike, PyTree
from xnn.layer import Layer, LayerLike, as_layer
from xnn.wrapping import wrapped


class Policy(NamedTuple):
    """Dtypes of floating-point numbers in a model; integers, bools and random keys keep theirs.

    Attributes:
      compute: dtype of activations, and of parameters while they are used.
      params: dtype in which parameters are stored and updated.
      output: dtype of the model's result.
    """

    compute: DTypeLike = "bfloat16"
    params: DTypeLike = "float32"
    output: DTypeLike = "float32"


def with_precision(layer: LayerLike, policy: Policy | DTypeLike) -> Layer:
    """The layer, or the whole model, in the precision of `policy`.

    Each layer without children converts its parameters and inputs, including sparse ones, to ``policy.compute`` and
    computes in it. A layer with `computes_in`, such as a norm, computes in that dtype and converts its result.
    Further inputs of the model with less than two axes are numbers and not features, such as the time of a diffusion
    model, which bfloat16 would round from 999 to 1000: the layers that use them convert them.
    Caches are in ``policy.compute``; running statistics are not converted. Inside a layer that already has a policy,
    the inner policy is used.

    Args:
      policy: a `Policy`, or its `compute` dtype alone.
    Params, state: those of the layer, with params of dtype ``policy.params``.

    >>> from xnn import Dense
    >>> layer = with_precision(Dense(2), "bfloat16")
    >>> _, params = layer.init(random.PRNGKey(0), (-1, 3))
    >>> params["w"].dtype, layer.apply(params, jnp.ones((1, 3))).dtype
    (dtype('float32'), dtype('float32'))
    """
    policy = policy if isinstance(policy, Policy) else Policy(compute=policy)
    for name, dtype in policy._asdict().items():
        if not jnp.issubdtype(jnp.dtype(dtype), np.floating):
            raise bad("with_precision", f"`{name}` must be a floating-point dtype", {name: repr(dtype)},
                      fix="use bfloat16, float16, float32 or float64.", exc=ValueError)
    return _of_model(_at_leaves(as_layer(layer, "with_precision"), policy), policy)


def _of_model(model: Layer, policy: Policy) -> Layer:
    def before(params, x, extra, named):
        extra, named = tree_util.tree_map(lambda one: one if jnp.ndim(one) < 2 else in_precision(one, policy.compute),
                                          (extra, named))
        return params, cast_floats(x, policy.compute), extra, named

    made = _wrapped(model, model.init, before, policy.output)
    parts = model.parts and model.parts.then(lambda made: _of_model(made, policy))
    precision = "/".join(str(jnp.dtype(dtype)) for dtype in policy)
    return dataclasses.replace(made, parts=parts, settings={**model.settings, "precision": precision})


def _at_leaves(layer: Layer, policy: Policy) -> Layer:
    if layer.has_own_precision:
        return _wrapped(layer, layer.init, lambda *args: args, policy.compute)
    if layer.parts:
        return layer.parts.rebuild({key: _at_leaves(child, policy) for key, child in layer.parts.children.items()})

    def init(rng, in_shape, *shapes, **named):
        shape, params = layer.init(rng, in_shape, *shapes, **named)
        return shape, cast_floats(params, policy.params)

    compute = layer.computes_in or policy.compute
    made = _wrapped(layer, init, lambda *args: cast_floats(args, compute), policy.compute)
    if made.cache is None:
        return made

    def init_cache(batch, length):
        return cast_floats(layer.init_cache(batch, length), policy.compute)

    return dataclasses.replace(made, cache=made.cache._replace(init_cache=init_cache))


def _wrapped(layer: Layer, init: Callable, before: Callable, result_dtype: DTypeLike) -> Layer:
    """The layer with `before` applied to parameters and inputs, and its result cast; state and cache are not cast."""

    def around(call, params, x, *extra, **named):
        params, x, extra, named = before(params, x, extra, named)
        return cast_floats(call(params, x, *extra, **named), result_dtype)

    return wrapped(layer, around, init=init, has_own_precision=True)


def cast_floats(tree: PyTree, dtype: DTypeLike) -> PyTree:
    """The tree with its real and complex floating-point arrays, also in sparse matrices, in the precision of `dtype`.

    >>> cast_floats({"w": jnp.ones(2), "n": jnp.arange(2)}, "bfloat16")["n"].dtype
    dtype('int32')
    """
    return tree_util.tree_map(lambda x: in_precision(x, dtype), tree)


def in_precision(x: ArrayLike, dtype: DTypeLike) -> ArrayLike:
    """An array of floats in `dtype`, a complex array in the matching complex dtype; anything else unchanged.

    The complex dtype is complex128 for float64, else complex64.
    """
    if not (hasattr(x, "dtype") and jnp.issubdtype(x.dtype, np.inexact)):
        return x
    if jnp.issubdtype(x.dtype, np.complexfloating):
        dtype = np.complex128 if jnp.dtype(dtype).itemsize == 8 else np.complex64
    return x if x.dtype == dtype else jnp.asarray(x).astype(dtype)


def at_least_float32(dtype: DTypeLike) -> DTypeLike:
    """The dtype for sums, probabilities and angles: float32 for half precision, else the dtype itself."""
    return dtype if jnp.dtype(dtype).itemsize >= 4 else jnp.dtype(np.float32)
