"""`PNA`: several reductions of the messages, each scaled by functions of the number of messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

import xjax.numpy as jnp
from xjax import nn, random
from xjax.errors import bad, check_choice
from xjax.nn import initializers
from xjax.typing import Array, PRNGKey
from xnn.checks import check_entries, check_features, check_float, check_shape
from xnn.graph.layers.composed import features_of, reduced
from xnn.graph.structure.adjacency import as_edges
from xnn.graph.structure.edges import Edges
from xnn.graph.structure.graph import Graph, host
from xnn.layer import Layer, recorded

AGGREGATORS = ("mean", "max", "min", "std", "var", "sum")
SCALERS = ("identity", "amplification", "attenuation", "linear", "inverse_linear")


@recorded()
def PNA(n_out: int, degrees: Sequence[int], *, aggregators: Sequence[str] = ("mean", "min", "max", "std"),
        scalers: Sequence[str] = ("identity", "amplification", "attenuation"), edge_features: int | None = None,
        towers: int = 1, divide_input: bool = False, pre_layers: int = 1, post_layers: int = 1) -> Layer:
    """Principal neighbourhood aggregation (Corso et al., 2020): ``y_i = U(x_i, all scaled reductions of M(x_i, x_j))``.

    M and U are dense layers with ReLU between them, separate for each tower; a last dense layer mixes the towers. It
    equals PyTorch Geometric's PNAConv. With d the degree of the node and D the degrees in the training graphs, the
    scaler "amplification" multiplies by log(d + 1) / mean log(D + 1), and "linear" by d / mean D. "attenuation" and
    "inverse_linear" multiply by their inverses. Edge weights are ignored.

    Shape: x [n, n_in] -> [n, n_out].

    Args:
      n_out: number of output features.
      degrees: number of nodes of the training graphs that receive 0, 1, 2, ... edges: see `degree_histogram`.
      aggregators: names among "mean", "max", "min", "std", "var", "sum".
      scalers: names among "identity", "amplification", "attenuation", "linear", "inverse_linear".
      edge_features: number of features of an edge, which are an input of M too, after a dense layer; None ignores them.
      towers: number of pairs M, U, each with ``n_out / towers`` output features.
      divide_input: whether each tower gets ``n_in / towers`` of the input features, or all.
      pre_layers, post_layers: numbers of dense layers of M and U.
    Inputs:
      graph: in any form that `as_edges` takes.
    Params: ``{"pre": (...), "post": (...), "out": {"w", "b"}}`` and ``"edge"`` with edge_features; the layers of M and
      U have ``"w": [towers, n, m], "b": [towers, m]``. Initialised Glorot uniform and with zeros.
    Raises: ValueError for unknown choices, sizes that are not divisible by towers, a number of layers below 1, or
      degrees without any edge.
    """
    averages, degrees = _averages(degrees), tuple(int(count) for count in degrees)
    _check_settings(aggregators, scalers, n_out, towers, pre_layers, post_layers)

    def shapes(n_in: int) -> dict:
        size = _divided("input", n_in, towers) if divide_input else n_in
        m, u, joined = size, n_out // towers, (len(aggregators) * len(scalers) + 1) * size
        pre = [(m * (2 if edge_features is None else 3), m), *[(m, m)] * (pre_layers - 1)]
        return {"pre": pre, "post": [(joined, u), *[(u, u)] * (post_layers - 1)], "out": [(n_out, n_out)],
                **({} if edge_features is None else {"edge": [(edge_features, m)]})}

    def init(rng, in_shape):
        *lead, n_in = check_shape("PNA", in_shape, 2)
        params = {}
        for key, (part, layers) in zip(random.split(rng, 4), shapes(n_in).items(), strict=False):
            many = (towers,) if part in ("pre", "post") else ()
            params[part] = tuple(_dense(one, many, shape)
                                 for one, shape in zip(random.split(key, len(layers)), layers, strict=True))
        return (*lead, n_out), {part: layers if part in ("pre", "post") else layers[0]
                                for part, layers in params.items()}

    def apply(params, x, graph, *, rng=None, train=False):
        x = check_float("PNA", x, 2)
        check_entries("PNA", "params", params, shapes(x.shape[-1]))
        edges = as_edges(graph, x, "PNA")
        x = x.reshape(x.shape[0], towers, -1) if divide_input else jnp.repeat(x[:, None], towers, 1)
        check_features("PNA", x, params["pre"][0]["b"].shape[-1])
        e = None if edge_features is None else features_of("PNA", edges, edge_features)
        message = _messages(params, x, e, edges)
        scaled = _scaled(jnp.concatenate(_reductions(edges, message, aggregators), -1), edges, scalers, averages)
        y = jnp.concatenate([x, *scaled], -1)
        for i, layer in enumerate(params["post"]):
            y = _towers(nn.relu(y) if i else y, layer["w"], layer["b"])
        y = y.reshape(y.shape[0], n_out) @ params["out"]["w"]
        return y + jnp.broadcast_to(params["out"]["b"], y.shape)

    return Layer(init, apply, "PNA", settings={"degrees": degrees})


def degree_histogram(graphs: Iterable[Graph]) -> tuple[int, ...]:
    """Number of nodes of all graphs that receive 0, 1, 2, ... edges: the `degrees` of `PNA`. Padding is ignored.

    >>> degree_histogram([Graph.from_edges([0, 1, 1], [2, 2, 0])])
    (1, 1, 1)
    """
    counts = np.zeros(1, np.int64)
    for graph in graphs:
        graph = host("degree_histogram", graph)
        degree = np.bincount(graph.receivers, minlength=graph.n_nodes)
        more = np.bincount(degree if graph.mask is None else degree[np.asarray(graph.node_mask)], minlength=1)
        size = max(len(counts), len(more))
        counts = np.pad(counts, (0, size - len(counts))) + np.pad(more, (0, size - len(more)))
    return tuple(counts.tolist())


def _messages(params: Mapping[str, Any], x: Array, e: Any, edges: Edges) -> Array:
    """The messages [e, towers, f]. The first layer is linear in both ends, so it is computed per node, not per edge."""
    first, *others = params["pre"]
    size = x.shape[-1]
    received, sent = (jnp.einsum("nti,tio->nto", x, first["w"][:, i * size:(i + 1) * size]) for i in (0, 1))
    m = edges.at_receivers(received) + edges.at_senders(sent)
    if e is not None:
        e = e @ params["edge"]["w"]
        e = e + jnp.broadcast_to(params["edge"]["b"], e.shape)
        m = m + jnp.einsum("ei,tio->eto", e, first["w"][:, 2 * size:])
    m = m + jnp.broadcast_to(first["b"], m.shape)
    for layer in others:
        m = _towers(nn.relu(m), layer["w"], layer["b"])
    return m


def _towers(x: Array, w: Array, b: Array) -> Array:
    y = jnp.einsum("nti,tio->nto", x, w)
    return y + jnp.broadcast_to(b, y.shape)


def _reductions(edges: Edges, m: Array, aggregators: Sequence[str]) -> list[Any]:
    def variance() -> Any:
        return edges.mean(jnp.square(m - edges.at_receivers(edges.mean(m))))

    return [variance() if name == "var" else reduced(edges, m, name) for name in aggregators]


def _scaled(y: Array, edges: Edges, scalers: Sequence[str], averages: tuple[float, float]) -> list[Any]:
    """y [n, towers, f] times each scaler."""
    linear, log = averages
    degree = edges.sum(jnp.ones(len(edges), y.dtype))[:, None, None]
    some = jnp.maximum(degree, 1)                                   # avoids 1 / 0 at a node without edges
    factors = {"amplification": lambda: jnp.log(degree + 1) / log, "attenuation": lambda: log / jnp.log(some + 1),
               "linear": lambda: degree / linear, "inverse_linear": lambda: linear / some}
    return [y if scaler == "identity" else y * factors[scaler]() for scaler in scalers]


def _dense(rng: PRNGKey, many: tuple[int, ...], shape: tuple[int, int]) -> dict:
    w_init = initializers.glorot_uniform(batch_axis=tuple(range(len(many))))
    return {"w": w_init(rng, (*many, *shape)), "b": jnp.zeros((*many, shape[1]))}


def _averages(degrees: Sequence[int]) -> tuple[float, float]:
    """(Mean degree, mean of log(degree + 1)) of a histogram."""
    counts = np.asarray(degrees)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or counts.sum() == 0 or counts[1:].sum() == 0:
        raise bad("PNA", "degrees must count the nodes with 0, 1, 2, ... edges, and at least one node with an edge",
                  {"degrees": repr(degrees)}, "pass degree_histogram(training_graphs).", ValueError)
    degree, share = np.arange(len(counts)), counts / counts.sum()
    return float(degree @ share), float(np.log(degree + 1) @ share)


def _check_settings(aggregators: Sequence[str], scalers: Sequence[str], n_out: int, towers: int, pre_layers: int,
                    post_layers: int) -> None:
    for argument, values, known in (("aggregators", aggregators, AGGREGATORS), ("scalers", scalers, SCALERS)):
        if isinstance(values, str) or not values:
            raise bad("PNA", f"{argument} must be a sequence of names", {argument: repr(values)},
                      f"pass names among {known}.", ValueError)
        for value in values:
            check_choice("PNA", argument, value, known)
    _divided("output", n_out, towers)
    if min(pre_layers, post_layers) < 1:
        raise bad("PNA", "M and U need at least one layer", {"pre_layers": pre_layers, "post_layers": post_layers},
                  "pass numbers >= 1.", ValueError)


def _divided(what: str, n: int, towers: int) -> int:
    if towers < 1 or n % towers:
        raise bad("PNA", f"the number of {what} features is not divisible by the number of towers",
                  {what: n, "towers": towers}, "pass a divisor.", ValueError)
    return n // towers
