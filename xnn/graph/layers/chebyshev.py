"""`ChebConv`: a convolution with Chebyshev polynomials of the graph Laplacian."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import xjax.numpy as jnp
from xjax import random
from xjax.errors import bad
from xjax.nn import initializers
from xjax.typing import Array
from xnn.checks import check_params, check_shape
from xnn.covariance.affine import after_matrix
from xnn.covariance.fixed import on_nodes
from xnn.covariance.kernel import concatenated
from xnn.graph.layers.normalize import Norm
from xnn.graph.layers.params import drawn, plus
from xnn.graph.layers.propagate import (
    adjacency_of,
    check_count,
    check_norm,
    checked_features,
    degrees,
    is_narrower,
    normalized,
)
from xnn.layer import Layer, recorded


@recorded()
def ChebConv(n_out: int, k: int, *, norm: Norm | None = "symmetric", lambda_max: float | None = None,
             bias: bool = True, w_init: Callable | None = None, b_init: Callable | None = None) -> Layer:
    """A filter with k Chebyshev polynomials of the scaled Laplacian (Defferrard et al., 2016).

    ``y = sum_i T_i(L') x W_i + b``, i = 0 .. k - 1, where ``L' = 2 L / lambda_max - I``, ``T_0(z) = 1``, ``T_1(z) = z``
    and ``T_i(z) = 2 z T_{i-1}(z) - T_{i-2}(z)``.

    Shape: [n, n_in] -> [n, n_out].
    Args:
      n_out: number of output features.
      k: number of polynomials; the output of a node depends on nodes at a distance of up to ``k - 1`` edges.
      norm: the Laplacian: "symmetric": ``L = I - D^-1/2 A D^-1/2``; "row": ``L = I - D^-1 A``; None: ``L = D - A``;
        D is the diagonal matrix of the row sums of A. Self loops count in A and D. (PyTorch Geometric removes them.)
      lambda_max: the largest eigenvalue of L, or an upper bound; if None 2, which is a bound for normalised Laplacians.
      bias, w_init, b_init: as in `SGC`; each W_i is drawn independently.
    Inputs: graph: as in `GraphConvolution`.
    Params: ``{"w": [k, n_in, n_out], "b": [n_out]}``, without "b" if bias is False.
    Raises: ValueError for an unknown norm, k < 1, a lambda_max that is not positive, or None if norm is None too.
    """
    check_norm("ChebConv", norm)
    check_count("ChebConv", k, 1, "polynomials")
    bound = _largest_eigenvalue(norm, lambda_max)

    def init(rng, in_shape):
        in_shape = check_shape("ChebConv", in_shape, min_rank=2)
        w_rng, b_rng = random.split(rng)
        w = [drawn(key, {"w": (in_shape[-1], n_out)}, w_init)["w"] for key in random.split(w_rng, k)]
        b = drawn(b_rng, {"b": (n_out,) if bias else None}, b_init=b_init)
        return (*in_shape[:-1], n_out), {"w": jnp.stack(w), **b}

    def apply(params, x, graph, *, rng=None, train=False):
        x = checked_features("ChebConv", x)
        check_params("ChebConv", params, x, w=(k, x.shape[-1], n_out), b=(n_out,) if bias else None)
        w, adj = params["w"], adjacency_of("ChebConv", graph, x)
        if is_narrower(x, n_out):
            terms = [x @ w[i] for i in range(k)]
            y = _clenshaw(_scaled_laplacian(adj, terms[0], norm, bound), terms)
        else:
            powers = _chebyshev(_scaled_laplacian(adj, x, norm, bound), x, k)
            y = sum(power @ w[i] for i, power in enumerate(powers))
        return plus(y, params)

    def kernel_rule(kernel, graph):
        def polynomial(i):
            def of_nodes(graph, x):
                return _chebyshev(_scaled_laplacian(adjacency_of("ChebConv", graph, x), x, norm, bound), x, k)[i]

            return of_nodes

        parts = [on_nodes(kernel, polynomial(i), graph) for i in range(k)]
        return after_matrix("ChebConv", concatenated(parts, -1), n_out, w_init or initializers.glorot_uniform(),
                            (b_init or initializers.zeros) if bias else None, k)

    return Layer(init, apply, "ChebConv", kernel_rule=kernel_rule)


def _scaled_laplacian(adj: Any, h: Array, norm: Norm | None, lambda_max: float) -> Callable:
    """``h -> 2 / lambda_max L h - h``."""
    scale = 2 / lambda_max
    if norm is None:
        degree = degrees(adj, h).astype(h.dtype)
        return lambda h: scale * (degree * h - adj @ h) - h
    adj = normalized(adj, h, norm, self_loops=False)
    return lambda h: (scale - 1) * h - scale * (adj @ h)


def _chebyshev(laplacian: Callable, x: Array, k: int) -> list:
    """``[T_0(L) x, ..., T_{k-1}(L) x]``."""
    powers = [x, laplacian(x)][:k]
    while len(powers) < k:
        powers.append(2 * laplacian(powers[-1]) - powers[-2])
    return powers


def _clenshaw(laplacian: Callable, terms: Sequence) -> Array:
    """``sum_i T_i(L) terms[i]`` by Clenshaw's recurrence, which propagates the terms, not x."""
    if len(terms) == 1:
        return terms[0]
    one, other = terms[-1], jnp.zeros_like(terms[-1])
    for term in reversed(terms[1:-1]):
        one, other = term + 2 * laplacian(one) - other, one
    return terms[0] + laplacian(one) - other


def _largest_eigenvalue(norm: Norm | None, lambda_max: float | None) -> float:
    if norm is None and lambda_max is None:
        raise bad("ChebConv", "the eigenvalues of a Laplacian that is not normalised have no general bound",
                  {"norm": "None", "lambda_max": "None"},
                  "pass lambda_max=, such as twice the largest degree, or norm=\"symmetric\".", ValueError)
    if lambda_max is not None and lambda_max <= 0:
        raise bad("ChebConv", "lambda_max must be positive", {"lambda_max": repr(lambda_max)},
                  "pass lambda_max > 0, or None for 2.", ValueError)
    return 2.0 if lambda_max is None else lambda_max
