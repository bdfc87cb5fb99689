"""`weight_norm` and `spectral_norm`: layers with normalised weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax, random, tree_util
from xjax.errors import bad
from xjax.typing import Array, ArrayLike, Params
from xnn.checks import check_entries
from xnn.combinators import noting
from xnn.composites import init_child, taken_by
from xnn.layer import CacheFns, Layer, Parts, StateFns, as_layer, init_types, recorded
from xnn.params.patterns import Pattern, by_path, selected, with_leaves
from xnn.precision import at_least_float32
from xnn.wrapping import wrapped


@recorded("layer")
def weight_norm(layer: Layer, weights: Pattern = "**/w", *, axis: int | None = -1) -> Layer:
    """The layer with weights ``g * v / |v|``: norm and direction are separate parameters (Salimans and Kingma, 2016).

    `init` sets g to the norm of the layer's initial weight, so the initial output is that of the layer.

    Args:
      weights: the parameters that are replaced, a pattern of `xnn.params`.
      axis: the axis of each weight that g is indexed by; the norm is taken over all other axes. The default is the last
        axis, of output features, as in PyTorch. None: one norm for the whole weight.
    Params: those of the layer, with each weight w replaced by ``{"g": [size of axis], "v": shape of w}``.
    State, cache: those of the layer.
    Raises: ValueError from `init` if the pattern matches no parameter, or a parameter without the axis.

    >>> from xnn import Dense, weight_norm
    >>> _, params = weight_norm(Dense(2)).init(random.PRNGKey(0), (-1, 3))
    >>> {path: leaf.shape for path, leaf in xnn.params.paths(params).items()}
    {'b': (2,), 'w/g': (2,), 'w/v': (3, 2)}
    """
    child = as_layer(layer, "weight_norm")
    rank = 0 if axis is None else max(-axis, axis + 1)

    def init(rng, in_shape, **shapes):
        shape, params = init_child("weight_norm", child, rng, in_shape, shapes)
        _check_weights("weight_norm", selected("weight_norm", params, weights), rank)
        return shape, _replaced("weight_norm", params, weights, lambda path, w: {
            "g": _norm(w, axis).astype(w.dtype), "v": w})

    def inner(params):
        return tree_util.tree_map(lambda part: _from_pair(part, axis) if _is_pair(part) else part, params,
                                  is_leaf=_is_pair)

    def around(call, params, x, *extra, **named):
        return noting("weight_norm", child, x, lambda: call(inner(params), x, *extra, **named))

    return wrapped(child, around, init=init, name="weight_norm", kernel_rule=None, settings={},
                   parts=_wrapper_of(child, lambda some: weight_norm(some[None], weights, axis=axis)))


def _is_pair(part: Any) -> bool:
    return isinstance(part, dict) and set(part) == {"g", "v"}


def _from_pair(pair: Any, axis: int | None) -> Array:
    g, v = pair["g"], pair["v"]
    norm = _norm(v, axis)
    if g.shape != norm.shape:
        raise bad("weight_norm", "g must have one entry for each index of the axis of v",
                  {"g": str(g.shape), "v": str(v.shape), "axis": axis}, "pass the params that init returned.")
    along = norm.shape if axis is None else [n if a == axis % v.ndim else 1 for a, n in enumerate(v.shape)]
    factor = jnp.reshape(g.astype(norm.dtype) / norm, along)
    return (v.astype(norm.dtype) * jnp.broadcast_to(factor, v.shape)).astype(v.dtype)


def _norm(v: ArrayLike, axis: int | None) -> Array:
    """The 2-norm over all axes but one, in float32 or wider; positive, so that the zero vector has a gradient."""
    others = tuple(a for a in range(v.ndim) if axis is None or a != axis % v.ndim)
    squares = jnp.sum(jnp.square(v.astype(at_least_float32(v.dtype))), others)
    return jnp.sqrt(squares + float(np.finfo(np.float32).tiny))


@recorded("layer")
def spectral_norm(layer: Layer, weights: Pattern = "**/w", *, steps: int = 1, epsilon: float = 1e-12) -> Layer:
    """The layer with weights ``w / σ``, where σ is the largest singular value of w as a matrix (Miyato et al., 2018).

    The matrix has a column for each index of the last axis, of output features. σ is estimated by power iteration: a
    training step does `steps` iterations from the vector u of the state, an evaluation none.

    Args:
      weights: the parameters that are normalised, a pattern of `xnn.params`; each must have at least two axes.
      steps: iterations in a training step; PyTorch's default is 1.
      epsilon: lower bound of the norm that a vector is divided by.
    Params, cache: those of the layer.
    State: ``{"u": {path of w: [n_out]}, "layer": state of the layer}``. u is random at first. Almost any u converges to
      the same σ, so `init_state` without rng uses a fixed key.
    Raises: ValueError from `init` if the pattern matches no parameter, or a vector.
    """
    child = as_layer(layer, "spectral_norm")
    if steps < 1:
        raise bad("spectral_norm", "steps must be at least 1", {"steps": steps}, "spectral_norm(layer).", ValueError)

    def init(rng, in_shape, **shapes):
        shape, params = init_child("spectral_norm", child, rng, in_shape, shapes)
        _check_weights("spectral_norm", selected("spectral_norm", params, weights), 2)
        return shape, params

    def init_state(in_shape, rng=None, **shapes):
        _, types = init_types(child, in_shape, **taken_by(child, shapes))
        matches, rng = selected("spectral_norm", types, weights), random.key(0) if rng is None else rng
        u = {path: _unit(random.normal(random.fold_in(rng, i), w.shape[-1:]), epsilon)
             for i, (path, w) in enumerate(matches.items())}
        return {"u": u, "layer": child.init_state(in_shape, rng, **taken_by(child, shapes))}

    def divided(params, state, train):
        check_entries("spectral_norm", "state", state, ("u", "layer"))
        return _divided(params, state["u"], weights, steps if train else 0, epsilon)

    def apply_with_state(params, state, x, *extra, train=False, **options):
        inner, u = divided(params, state, train)
        y, kept = noting("spectral_norm", child, x, lambda: child.apply_with_state(
            inner, state["layer"], x, *extra, train=train, **options))
        return y, {"u": u, "layer": kept}

    def apply_with_cache(params, cache, x, *extra, state, **named):
        return noting("spectral_norm", child, x, lambda: child.apply_with_cache(
            divided(params, state, False)[0], cache, x, *extra, state=state["layer"], **named))

    return dataclasses.replace(
        child, init=init, apply=None, name="spectral_norm", settings={}, kernel_rule=None,
        state=StateFns(init_state, apply_with_state),
        cache=child.cache and CacheFns(child.init_cache, apply_with_cache),
        parts=_wrapper_of(child, lambda some: spectral_norm(some[None], weights, steps=steps, epsilon=epsilon)))


def _divided(params: Params, u: Any, weights: Pattern, steps: int, epsilon: float) -> tuple[Any, dict[str, Any]]:
    """(The params with each weight divided by its σ, the new u of each weight)."""
    matches = selected("spectral_norm", params, weights)
    if set(matches) != set(u):
        raise bad("spectral_norm", "the state belongs to other weights", {
            "params": ", ".join(matches), "u": ", ".join(u) or "none"}, "pass the state that init_state returned.")
    new = {path: _iterated(w, u[path], steps, epsilon) for path, w in matches.items()}
    divided = _replaced("spectral_norm", params, weights, lambda path, w: w / new[path][1].astype(w.dtype))
    return divided, {path: moved for path, (moved, _) in new.items()}


def _iterated(w: Array, u: Array, steps: int, epsilon: float) -> tuple[Any, Any]:
    """(u after `steps` iterations, σ); the gradient treats the singular vectors as constants."""
    dtype = at_least_float32(w.dtype)
    matrix = jnp.reshape(w, (-1, w.shape[-1])).astype(dtype)
    fixed = lax.stop_gradient(matrix)

    def iteration(_, u):
        return _unit(_unit(fixed @ u, epsilon) @ fixed, epsilon)

    new = u.astype(dtype)
    last = lax.fori_loop(0, steps - 1, iteration, new) if steps > 1 else new
    v = _unit(fixed @ last, epsilon)
    new = _unit(v @ fixed, epsilon) if steps else last
    return new.astype(u.dtype), v @ matrix @ new


def _unit(v: Array, epsilon: float) -> Array:
    return v / jnp.maximum(jnp.sqrt(jnp.sum(jnp.square(v))), epsilon)


def _wrapper_of(child: Layer, rebuild: Callable) -> Parts:
    return Parts({None: child}, lambda visit, shape, shapes: visit(None, shape), rebuild)


def _check_weights(caller: str, weights: dict[str, Any], rank: int) -> None:
    for path, w in weights.items():
        if w.ndim < rank:
            raise bad(caller, f"a weight must have at least {rank} axes", {path: str(w.shape)},
                      fix='select the weights by a pattern: "**/w".', exc=ValueError)


def _replaced(caller: str, params: Params, weights: Pattern, change: Callable) -> Any:
    """The tree with ``change(path, w)`` for each of the weights."""
    hits = selected(caller, params, weights)
    return with_leaves(params, [change(path, leaf) if path in hits else leaf
                                for path, leaf in by_path(caller, params).items()])
