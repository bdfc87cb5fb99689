"""`GraphSAGE`: maps a node's own features and an aggregate of its neighbours with separate matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import lax, nn, random
from xjax.errors import TracerArrayConversionError, bad, check_choice
from xjax.nn import initializers
from xjax.typing import Array, Params
from xnn.checks import check_params, check_shape, type_text
from xnn.covariance.affine import after_matrix
from xnn.covariance.fixed import on_nodes
from xnn.covariance.kernel import concatenated
from xnn.graph.layers.params import affine, drawn, plus
from xnn.graph.layers.propagate import checked_features, is_narrower
from xnn.graph.structure.adjacency import as_edges
from xnn.graph.structure.edges import Edges
from xnn.layer import Layer, recorded
from xnn.layers.cells import LSTMCell
from xnn.layers.scan import scan_over_time
from xnn.sparse import CSR

_AGGREGATORS = ("mean", "sum", "max", "lstm")


@recorded()
def GraphSAGE(n_out: int, aggregator: str = "mean", *, max_degree: int | None = None, project: bool = False,
              own: bool = True, normalize: bool = False, bias: bool = True, w_init: Callable | None = None) -> Layer:
    """``y_i = x_i W_own + aggregate(x_j of the neighbours j) W + b`` (Hamilton et al., 2017).

    Edge weights and edge features are ignored. The aggregate of a node without edges is 0.

    Shape: [n, n_in] -> [n, n_out].
    Args:
      n_out: number of output features.
      aggregator: "mean", "sum", "max", or "lstm": the last output of an `LSTMCell` with n_in features that reads the
        neighbours in the order of the edges, which `Graph.from_edges` sorts by sender. (PyTorch Geometric's LSTM then
        continues over zero padding, up to the largest degree of the batch.)
      max_degree: for "lstm", the largest number of edges that a node receives. If a node receives more, a concrete
        graph raises an error; with a traced graph, in `jit`, the result of the node is NaN.
      project: whether neighbours are first mapped to ``relu(x W_project + b_project)``, with n_in features; with "max"
        this is the paper's pooling aggregator.
      own: whether to add x_i W_own.
      normalize: whether to scale each y_i to norm 1, as in the paper; PyTorch Geometric's default is False.
      bias: whether to add b.
      w_init: initializer of matrices; Glorot uniform if None.
    Inputs: graph: in any form that `as_edges` takes. x may be a dense array, a `CSR` or a SciPy sparse matrix. Sparse
      features are mapped before they are aggregated, so "max" and "lstm" accept them only with `project`.
    Params: ``{"w", "w_own": [n_in, n_out], "b": [n_out]}``; with `project` also "w_project" and "b_project"; with
      "lstm" also "lstm", the params of the cell.
    Raises: ValueError for an unknown aggregator, or "lstm" without max_degree; apply raises ValueError for a degree
      above max_degree, and TypeError for sparse features that would have to be aggregated.
    """
    _check_aggregator(aggregator, max_degree)

    def shapes(n_in):
        w = (n_in, n_out)
        return {"w": w, "w_own": w if own else None, "b": (n_out,) if bias else None,
                **({"w_project": (n_in, n_in), "b_project": (n_in,)} if project else {})}

    def init(rng, in_shape):
        *lead, n_in = check_shape("GraphSAGE", in_shape, min_rank=2)
        rng, lstm_rng = random.split(rng)
        params = drawn(rng, shapes(n_in), w_init)
        if aggregator == "lstm":
            params["lstm"] = LSTMCell(n_in).init(lstm_rng, (-1, n_in))[1]
        return (*lead, n_out), params

    def apply(params, x, graph, *, rng=None, train=False):
        x = checked_features("GraphSAGE", x)
        check_params("GraphSAGE", _without_lstm(params), x, **shapes(x.shape[-1]))
        edges = as_edges(graph, x, "GraphSAGE")
        h = nn.relu(affine(params, x, "project")) if project else x
        if aggregator in ("mean", "sum") and is_narrower(h, n_out):       # linear: map first, to move fewer features
            h = _aggregate(edges, h @ params["w"], aggregator)
        elif isinstance(h, CSR):
            raise bad("GraphSAGE", f"the aggregator {aggregator!r} needs rows of dense features", {"x": type_text(h)},
                      "pass project=True, which maps them to dense features, or x.todense().")
        elif aggregator == "lstm":
            h = _read(params.get("lstm"), edges, h, max_degree) @ params["w"]
        else:
            h = _aggregate(edges, h, aggregator) @ params["w"]
        y = plus(h + x @ params["w_own"] if own else h, params)
        return _of_length_one(y) if normalize else y

    def kernel_rule(kernel, graph):
        def neighbours(graph, x):
            return _aggregate(as_edges(graph, x, "GraphSAGE"), x, aggregator)

        if normalize or project or aggregator not in ("mean", "sum"):
            raise bad("GraphSAGE.kernel", "there is a kernel only for a mean or sum of the neighbours",
                      {"aggregator": aggregator, "project": project, "normalize": normalize},
                      'GraphSAGE(n_out, "mean").', ValueError)
        parts = [on_nodes(kernel, neighbours, graph), *([kernel] if own else [])]
        return after_matrix("GraphSAGE", concatenated(parts, -1), n_out, w_init or initializers.glorot_uniform(),
                            initializers.zeros if bias else None, len(parts))

    return Layer(init, apply, "GraphSAGE", kernel_rule=kernel_rule)


def _aggregate(edges: Edges, h: Array, aggregator: str) -> Array:
    if aggregator == "max":
        return edges.neighbour_max(h)
    return edges.neighbour_mean(h) if aggregator == "mean" else edges.neighbour_sum(h)


def _read(params: Params, edges: Edges, h: Array, max_degree: int) -> Array:
    """[n, f]: last output of an LSTM over the neighbours of each node, in the order of the edges."""
    _check_degrees(edges, max_degree)
    messages, counts, degree = _sequences(edges, edges.at_senders(h), max_degree)
    scan = scan_over_time(LSTMCell(h.shape[-1]), return_carry=True)
    _, (last, _) = scan.apply(params, messages, mask=counts)
    return jnp.where((degree > max_degree)[:, None], jnp.nan, last)


def _sequences(edges: Edges, messages: Array, length: int) -> tuple[Any, Any, Any]:
    """The first `length` messages that each node receives, in the order of the edges.

    Returns: (messages [n, length, f], bool[n, length], False for missing messages, int32[n], number of edges).
    """
    degree = edges.degree().astype(np.int32)
    receivers, mask = jnp.asarray(edges.receivers), edges.mask
    if not edges.is_sorted:
        order = jnp.argsort(receivers, stable=True)
        receivers, messages, mask = receivers[order], messages[order], None if mask is None else mask[order]
    counted = jnp.ones(len(edges), np.int32) if mask is None else jnp.asarray(mask).astype(np.int32)
    place = jnp.cumsum(counted) - counted - (jnp.cumsum(degree) - degree)[receivers]
    place = jnp.where((counted > 0) & (place < length), place, length)                # length: out of range, dropped
    empty = jnp.zeros((edges.n_nodes, length, *messages.shape[1:]), messages.dtype)
    exists = jnp.arange(length, dtype=np.int32)[None] < degree[:, None]
    return empty.at[receivers, place].add(messages, mode="drop"), exists, degree


def _of_length_one(y: Array) -> Array:
    """Rows divided by their Euclidean norm, or by 1e-12 if it is smaller, as in PyTorch; a row of zeros stays 0."""
    return y * lax.rsqrt(jnp.maximum(jnp.sum(jnp.square(y), -1, keepdims=True), 1e-24))


def _without_lstm(params: Params) -> Any:
    """The parameters that the layer checks; the LSTM cell checks the others."""
    return {name: w for name, w in params.items() if name != "lstm"} if isinstance(params, Mapping) else params


def _check_aggregator(aggregator: str, max_degree: int | None) -> None:
    check_choice("GraphSAGE", "aggregator", aggregator, _AGGREGATORS)
    if (aggregator == "lstm") != (max_degree is not None) or (max_degree is not None and max_degree < 1):
        raise bad("GraphSAGE", 'aggregator="lstm" needs max_degree >= 1, and other aggregators do not take it',
                  {"aggregator": repr(aggregator), "max_degree": max_degree},
                  'pass aggregator="lstm" and max_degree=int(graph.degree().max()), or neither.', ValueError)


def _check_degrees(edges: Edges, max_degree: int) -> None:
    """Raises: ValueError if the graph is concrete and a node receives more than `max_degree` edges."""
    try:
        receivers = np.asarray(edges.receivers)
        receivers = receivers if edges.mask is None else receivers[np.asarray(edges.mask)]
    except TracerArrayConversionError:
        return
    degrees = np.bincount(receivers, minlength=1)
    if degrees.max() > max_degree:
        raise bad("GraphSAGE", "a node receives more edges than max_degree",
                  {"node": int(degrees.argmax()), "edges": int(degrees.max()), "max_degree": max_degree},
                  f"make the layer with max_degree={degrees.max()}, or sample fewer neighbours.", ValueError)
