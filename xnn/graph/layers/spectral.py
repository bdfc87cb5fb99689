"""Convolutions with a linear propagation of features: `SGC`, `APPNP` and `GCNII`.

Their `graph` may have any form that `GraphConvolution` takes; the values of a matrix or the weights of a `Graph` count.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import xjax.numpy as jnp
from xjax.errors import bad
from xjax.nn import initializers
from xjax.typing import Array, PRNGKey
from xnn.checks import check_float, check_params, check_shape, type_text
from xnn.covariance.affine import after_matrix
from xnn.covariance.fixed import on_nodes
from xnn.graph.layers.normalize import Norm
from xnn.graph.layers.params import drawn, plus
from xnn.graph.layers.propagate import (
    Normalized,
    adjacency_of,
    check_count,
    check_norm,
    checked_features,
    is_narrower,
    normalized,
)
from xnn.graph.structure.adjacency import as_edges, is_array
from xnn.graph.structure.edges import Edges
from xnn.layer import Layer, recorded
from xnn.layers.dropout import Dropout, keep_some
from xnn.rng import check_rng, fold_in, split
from xnn.sparse import CSR


@recorded()
def SGC(n_out: int, k: int = 2, *, norm: Norm | None = "symmetric", self_loops: bool = True, bias: bool = True,
        w_init: Callable | None = None, b_init: Callable | None = None) -> Layer:
    """An affine map of features propagated k times: ``y = A^k x W + b`` (Wu et al., 2019).

    Shape: [n, n_in] -> [n, n_out].
    Args:
      n_out: number of output features.
      k: number of propagations, 2 in the paper's experiments; with 0 only the affine map remains.
      norm, self_loops: as in `GraphConvolution`.
      bias: whether to add b.
      w_init, b_init: initializers ``(key, shape) -> array``; Glorot uniform and zeros if None.
    Inputs: graph: as in `GraphConvolution`.
    Params: ``{"w": [n_in, n_out], "b": [n_out]}``, without "b" if bias is False.
    Raises: ValueError for an unknown norm or a negative k.

    >>> from xjax import random
    >>> shape, params = SGC(7).init(random.key(0), (-1, 1433))
    >>> shape, params["w"].shape
    ((-1, 7), (1433, 7))
    """
    check_norm("SGC", norm)
    check_count("SGC", k, 0, "propagations")

    def init(rng, in_shape):
        in_shape = check_shape("SGC", in_shape, min_rank=2)
        shapes = {"w": (in_shape[-1], n_out), "b": (n_out,) if bias else None}
        return (*in_shape[:-1], n_out), drawn(rng, shapes, w_init, b_init)

    def apply(params, x, graph, *, rng=None, train=False):
        x = checked_features("SGC", x)
        check_params("SGC", params, x, w=(x.shape[-1], n_out), b=(n_out,) if bias else None)
        w, adj = params["w"], adjacency_of("SGC", graph, x)
        first = is_narrower(x, n_out)                     # map and propagation commute: propagate fewer features
        h = x @ w if first else x
        adj = normalized(adj, h, norm, self_loops)
        for _ in range(k):
            h = adj @ h
        return plus(h if first else h @ w, params)

    def kernel_rule(kernel, graph):
        def propagate(graph, x):
            adj = normalized(adjacency_of("SGC", graph, x), x, norm, self_loops)
            for _ in range(k):
                x = adj @ x
            return x

        return after_matrix("SGC", on_nodes(kernel, propagate, graph), n_out,
                            w_init or initializers.glorot_uniform(), (b_init or initializers.zeros) if bias else None)

    return Layer(init, apply, "SGC", kernel_rule=kernel_rule)


@recorded()
def APPNP(k: int = 10, alpha: float = 0.1, *, dropout: float = 0.0, norm: Norm | None = "symmetric",
          self_loops: bool = True) -> Layer:
    """Propagates predictions by personalised PageRank (Gasteiger et al., 2019).

    It applies ``y = (1 - alpha) A y + alpha x`` k times, starting from ``y = x``. The layer has no parameters: the
    paper's network is ``serial(Dense(64), Relu, Dense(7), APPNP())``, with dropout before each Dense.

    Shape: [n, f] -> [n, f].
    Args:
      k: number of propagations; 0 returns x unchanged.
      alpha: teleport probability, the share of x in each step, from 0 to 1.
      dropout: rate at which values of the normalised adjacency, self loops included, are dropped in training,
        independently in each propagation as in the paper. (In PyTorch Geometric, dropped values stay dropped in later
        propagations.)
      norm, self_loops: as in `GraphConvolution`.
    Inputs: graph: as in `GraphConvolution`.
    Params: ``()``.
    Raises: ValueError for an unknown norm, a negative k, or an alpha or dropout out of range; apply raises TypeError
      for dropout without rng, or with an adjacency object whose values are not accessible.
    """
    check_norm("APPNP", norm)
    check_count("APPNP", k, 0, "propagations")
    _check_share("APPNP", alpha)
    Dropout(dropout)                                       # checks the rate

    def init(rng, in_shape):
        return check_shape("APPNP", in_shape, min_rank=2), ()

    def apply(params, x, graph, *, rng=None, train=False):
        x = check_float("APPNP", x, 2)
        adj = adjacency_of("APPNP", graph, x)
        drops = train and dropout > 0
        if drops and not isinstance(adj, CSR) and not is_array(adj):
            adj = as_edges(graph, x, "APPNP")              # gives access to the values
        adj, y = normalized(adj, x, norm, self_loops), x
        for i in range(k):
            step = _dropped(adj, x, dropout, fold_in(rng, i)) if drops else adj
            y = (1 - alpha) * (step @ y) + alpha * x
        return y

    def kernel_rule(kernel, graph):
        return on_nodes(kernel, lambda graph, x: apply((), x, graph), graph)

    return Layer(init, apply, "APPNP", kernel_rule=kernel_rule)


@recorded()
def GCNII(layer: int, *, alpha: float = 0.1, theta: float | None = 0.5, shared_weights: bool = True,
          norm: Norm | None = "symmetric", self_loops: bool = True, w_init: Callable | None = None) -> Layer:
    """A convolution for deep networks, with initial residual and identity mapping (Chen et al., 2020).

    ``y = ((1 - alpha) A x + alpha x0) ((1 - beta) I + beta W)`` with ``beta = log(theta / layer + 1)``. The activation
    that follows in the paper is not included.

    Shape: [n, f], initial [n, f] -> [n, f].
    Args:
      layer: position of this layer in its network, from 1.
      alpha: share of the initial features, from 0 to 1.
      theta: the paper's lambda; with None beta is 1, so that there is no identity term.
      shared_weights: with False the initial features have a matrix of their own: the paper's GCNII*.
      norm, self_loops: as in `GraphConvolution`.
      w_init: initializer ``(key, shape) -> array``; Glorot uniform if None.
    Inputs: graph: as in `GraphConvolution`; initial: x0, the features before the first GCNII layer.
    Params: ``{"w": [f, f]}``, and "w_initial" of the same shape if `shared_weights` is False.
    Raises: ValueError for an unknown norm, or a layer, alpha or theta out of range.
    """
    check_norm("GCNII", norm)
    check_count("GCNII", layer, 1, "layers")
    _check_share("GCNII", alpha)
    beta = _identity_share(theta, layer)

    def shapes(f):
        return {"w": (f, f), "w_initial": None if shared_weights else (f, f)}

    def init(rng, in_shape):
        in_shape = check_shape("GCNII", in_shape, min_rank=2)
        return in_shape, drawn(rng, shapes(in_shape[-1]), w_init, None)

    def apply(params, x, graph, initial, *, rng=None, train=False):
        x, initial = check_float("GCNII", x, 2), check_float("GCNII", initial, 2)
        check_params("GCNII", params, x, **shapes(x.shape[-1]))
        adj = adjacency_of("GCNII", graph, x)
        if initial.shape != x.shape:
            raise bad("GCNII", "the initial features have another shape than x",
                      {"x": type_text(x), "initial": type_text(initial)},
                      "pass the features before the first layer, of the size of the hidden features.", ValueError)
        h, initial = (1 - alpha) * (normalized(adj, x, norm, self_loops) @ x), alpha * initial
        if shared_weights:
            return _near_identity(h + initial, params["w"], beta)
        return _near_identity(h, params["w"], beta) + _near_identity(initial, params["w_initial"], beta)

    return Layer(init, apply, "GCNII")


# -- parts ----------------------------------------------------------------------------------------------------------


def _dropped(adj: Normalized, x: Array, rate: float, rng: PRNGKey) -> Normalized:
    """The matrix with dropout applied to its values, self loops included."""
    check_rng("APPNP", rng, dropout=rate)
    edges_rng, loops_rng = split(rng, 2)
    inner = adj.adj
    if isinstance(inner, Edges):
        weight = jnp.ones(len(inner), x.dtype) if inner.weight is None else inner.weight
        inner = inner.replace(weight=keep_some(edges_rng, weight, 1 - rate))
    else:
        inner = keep_some(edges_rng, inner, 1 - rate)
    if adj.loops is None:
        return adj.replace(adj=inner)
    loops = jnp.ones((*x.shape[:-1], 1), x.dtype)
    return adj.replace(adj=inner, loops=keep_some(loops_rng, loops, 1 - rate))


def _near_identity(h: Array, w: Array, beta: float) -> Array:
    """``h ((1 - beta) I + beta W)``."""
    return (1 - beta) * h + beta * (h @ w)


def _check_share(caller: str, alpha: float) -> None:
    if not 0 <= alpha <= 1:
        raise bad(caller, "alpha must be from 0 to 1", {"alpha": repr(alpha)}, "the paper uses alpha=0.1.",
                  ValueError)


def _identity_share(theta: float | None, layer: int) -> float:
    if theta is not None and theta <= 0:
        raise bad("GCNII", "theta must be positive", {"theta": repr(theta)}, "the paper uses theta=0.5.", ValueError)
    return 1.0 if theta is None else math.log(theta / layer + 1)
