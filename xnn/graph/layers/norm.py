"""Normalisation of node features, independently for each graph of a batch; padding nodes are ignored.

Half precision is computed in float32: in float16, squares of numbers above 256 overflow and small epsilons underflow.
"""

from typing import Any

import xjax.numpy as jnp
from xjax import lax
from xnn.checks import check_float, check_params, check_shape
from xnn.graph.structure.groups import as_groups
from xnn.layer import Layer, recorded
from xnn.precision import at_least_float32


@recorded()
def GraphNorm(*, epsilon: float = 1e-5) -> Layer:
    """Standardises each feature over the nodes of each graph, and subtracts a learned share of the mean.

    This is GraphNorm of Cai et al., 2021:

    ``h = x - mean_scale mean(x)``, ``y = scale h / sqrt(mean(h^2) + epsilon) + bias``.

    Shape: x [n, f] -> [n, f].
    Args: epsilon: added to the mean square.
    Inputs: graph.
    Params: ``{"mean_scale": ones, "scale": ones, "bias": zeros}`` [f].
    """

    def init(rng, in_shape):
        in_shape = check_shape("GraphNorm", in_shape, min_rank=2)
        ones, zeros = jnp.ones(in_shape[-1:]), jnp.zeros(in_shape[-1:])
        return in_shape, {"mean_scale": ones, "scale": ones, "bias": zeros}

    def apply(params, x, graph, *, rng=None, train=False):
        x = check_float("GraphNorm", x, 2)
        check_params("GraphNorm", params, x, **dict.fromkeys(("mean_scale", "scale", "bias"), x.shape[-1:]))
        groups = as_groups(graph, x, "GraphNorm")
        wide = x.astype(at_least_float32(x.dtype))
        h = wide - groups.at_nodes(groups.mean(wide) * params["mean_scale"][None].astype(wide.dtype))
        y = (h * groups.at_nodes(lax.rsqrt(groups.mean(jnp.square(h)) + epsilon))).astype(x.dtype)
        return params["scale"][None] * y + params["bias"][None]

    return Layer(init, apply, "GraphNorm", computes_in="float32")


@recorded()
def PairNorm(scale: float = 1.0, *, individually: bool = False, epsilon: float = 1e-5) -> Layer:
    """Centres the nodes and scales them to a constant total squared distance (Zhao and Akoglu, 2020).

    ``h = x - mean(x)`` and ``y = scale h / sqrt(mean_i |h_i|^2 + epsilon)``, with means over the nodes of each graph.

    Shape: x [n, f] -> [n, f].
    Args:
      scale: root mean square of the rows.
      individually: whether each row is divided by its own norm, ``|h_i| + epsilon`` (PairNorm-SI).
      epsilon: see above; it is added at the same place as in PyTorch Geometric.
    Inputs: graph.  Params: ``()``.
    """

    def init(rng, in_shape):
        return check_shape("PairNorm", in_shape, min_rank=2), ()

    def apply(params, x, graph, *, rng=None, train=False):
        x = check_float("PairNorm", x, 2)
        groups = as_groups(graph, x, "PairNorm")
        wide = x.astype(at_least_float32(x.dtype))
        h = wide - groups.at_nodes(groups.mean(wide))
        if individually:
            return (scale * h / (_norm(h) + epsilon)).astype(x.dtype)
        square = jnp.sum(jnp.square(h), -1, keepdims=True)
        return (scale * h * groups.at_nodes(lax.rsqrt(groups.mean(square) + epsilon))).astype(x.dtype)

    return Layer(init, apply, "PairNorm", computes_in="float32")


def GraphSizeNorm() -> Layer:
    """Divides node features by the square root of the number of nodes of their graph (Dwivedi et al., 2020).

    Shape: x [n, f] -> [n, f].  Inputs: graph.  Params: ``()``.
    """

    def init(rng, in_shape):
        return check_shape("GraphSizeNorm", in_shape, min_rank=2), ()

    def apply(params, x, graph, *, rng=None, train=False):
        x = check_float("GraphSizeNorm", x, 2)
        groups = as_groups(graph, x, "GraphSizeNorm")
        size = jnp.maximum(groups.count(x.dtype), 1)
        return x / groups.at_nodes(jnp.sqrt(size))[:, None]

    return Layer(init, apply, "GraphSizeNorm", computes_in="float32")


@recorded()
def MessageNorm(*, learn_scale: bool = False) -> Layer:
    """Scales messages to the norms of their receiving nodes: ``y = scale |node| m / |m|`` (Li et al., 2020).

    Shape: m [n, f], nodes [n, k] -> [n, f].
    Args: learn_scale: whether the scale is learned; otherwise it is 1.
    Inputs: nodes: the features to which the result is added, as in ``x + MessageNorm(m, nodes=x)``.
    Params: ``{"scale": ones [1]}``, or ``{}``.
    """

    def init(rng, in_shape):
        in_shape = check_shape("MessageNorm", in_shape, min_rank=2)
        return in_shape, {"scale": jnp.ones(1)} if learn_scale else {}

    def apply(params, x, nodes, *, rng=None, train=False):
        x, nodes = check_float("MessageNorm", x, 2), check_float("MessageNorm", nodes, 2)
        check_params("MessageNorm", params, x, scale=(1,) if learn_scale else None)
        wide, wide_nodes = (v.astype(at_least_float32(v.dtype)) for v in (x, nodes))
        y = (wide / jnp.maximum(_norm(wide), 1e-12) * _norm(wide_nodes)).astype(x.dtype)
        return y * params["scale"][None] if learn_scale else y

    return Layer(init, apply, "MessageNorm", computes_in="float32", positionwise=True)


def _norm(x: Any) -> Any:
    """Euclidean norm of each row, [n, 1]; its derivative at 0 is 0, not NaN."""
    square = jnp.sum(jnp.square(x), -1, keepdims=True)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1)), 0)
