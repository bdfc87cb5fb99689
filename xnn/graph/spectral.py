"""Convolutions by polynomials of the adjacency: `SGC`, `APPNP`, `ChebConv` and `GCNII`.

Their adjacency may be anything that `GraphConvolution` takes, values of a matrix and weights of a `Graph` included.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import xjax.numpy as jnp
from xjax import random
from xjax.errors import bad
from xjax.nn import initializers
from xnn.checks import check_float, check_params, check_shape, type_text
from xnn.graph.adjacency import as_edges, is_array
from xnn.graph.edges import Edges
from xnn.graph.normalize import Norm
from xnn.graph.propagate import Normalized, adjacency_of, as_features, check_norm, degrees, normalized
from xnn.layer import Layer, arguments
from xnn.layers.dropout import Dropout, keep_some
from xnn.rng import fold_in
from xnn.sparse import CSR


def SGC(n_out: int, k: int = 2, *, norm: Norm | None = "symmetric", self_loops: bool = True, bias: bool = True,
        w_init: Callable | None = None, b_init: Callable | None = None) -> Layer:
    """One affine map of features that were propagated k times: ``y = A^k x W + b`` (Wu et al., 2019).

    Shape: [n, n_in] -> [n, n_out].
    Args:
      n_out: number of output features.
      k: number of propagations, 2 in the paper's experiments; 0 leaves the affine map.
      norm, self_loops: as in `GraphConvolution`.
      bias: False leaves b out.
      w_init, b_init: initializers ``(key, shape) -> array``; glorot uniform and zeros if None.
    Inputs: graph: as of `GraphConvolution`.
    Params: ``{"w": [n_in, n_out], "b": [n_out]}``, without "b" if bias is False.
    Raises: ValueError for an unknown norm or a negative k.

    >>> from xnn.graph import Graph
    >>> shape, params = SGC(7).init(random.key(0), (-1, 1433))
    >>> shape, params["w"].shape
    ((-1, 7), (1433, 7))
    """
    settings = arguments(SGC, n_out=n_out, k=k, norm=norm, self_loops=self_loops, bias=bias, w_init=w_init,
                         b_init=b_init)
    check_norm("SGC", norm)
    _check_count("SGC", k, 0, "propagations")

    def init(rng, in_shape):
        in_shape = check_shape("SGC", in_shape, min_rank=2)
        return (*in_shape[:-1], n_out), _drawn(rng, {"w": (in_shape[-1], n_out), "b": (n_out,) if bias else None},
                                               w_init, b_init)

    def apply(params, x, graph, *, rng=None, train=False):
        x = _checked_features("SGC", x)
        check_params("SGC", params, x, w=(x.shape[-1], n_out), b=(n_out,) if bias else None)
        w, adj = params["w"], adjacency_of("SGC", graph, x)
        first = _is_narrower(x, n_out)                     # the map and the propagation commute
        h = x @ w if first else x
        adj = normalized(adj, h, norm, self_loops)
        for _ in range(k):
            h = adj @ h
        return _plus(h if first else h @ w, params)

    return Layer(init, apply, "SGC", settings=settings)


def APPNP(k: int = 10, alpha: float = 0.1, *, dropout: float = 0.0, norm: Norm | None = "symmetric",
          self_loops: bool = True) -> Layer:
    """Predictions propagated by personalised PageRank (Gasteiger et al., 2019): k times ``y = (1 - alpha) A y + alpha x``.

    It has no parameters: ``serial(Dense(64), Relu, Dense(7), APPNP())`` is the paper's network.

    Shape: [n, f] -> the same.
    Args:
      k: number of propagations; 0 leaves x as it is.
      alpha: probability to return to x, 0 to 1.
      dropout: rate at which values of the normalised adjacency, self loops included, are dropped in training, in each
        propagation anew as in the paper. (PyTorch Geometric drops from what earlier propagations left.)
      norm, self_loops: as in `GraphConvolution`.
    Inputs: graph: as of `GraphConvolution`.
    Params: ``()``.
    Raises: ValueError for an unknown norm, a negative k, or an alpha or dropout out of range; apply raises TypeError for
      dropout without rng, or with an adjacency whose values cannot be dropped.
    """
    settings = arguments(APPNP, k=k, alpha=alpha, dropout=dropout, norm=norm, self_loops=self_loops)
    check_norm("APPNP", norm)
    _check_count("APPNP", k, 0, "propagations")
    _check_share("APPNP", alpha)
    drop = Dropout(dropout)

    def init(rng, in_shape):
        return check_shape("APPNP", in_shape, min_rank=2), ()

    def apply(params, x, graph, *, rng=None, train=False):
        x = check_float("APPNP", x, 2)
        adj = adjacency_of("APPNP", graph, x)
        if train and dropout and not isinstance(adj, CSR) and not is_array(adj):
            adj = as_edges(graph, x, "APPNP")
        whole, y = normalized(adj, x, norm, self_loops), x
        for i in range(k):
            dropped = _dropped(whole, lambda v, key: drop.apply((), v, rng=key, train=True), fold_in(rng, i), x)
            y = (1 - alpha) * ((dropped if train and dropout else whole) @ y) + alpha * x
        return y

    return Layer(init, apply, "APPNP", settings=settings)
