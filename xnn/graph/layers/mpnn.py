"""`MPNN`: message passing with a matrix for each edge, computed from the edge features by a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import xjax.numpy as jnp
from xjax.errors import bad, check_choice
from xjax.typing import Array
from xnn.checks import check_entries, check_float, check_shape
from xnn.combinators import serial
from xnn.composites import apply_child, init_child
from xnn.graph.layers.composed import REDUCTIONS, features_of, reduced
from xnn.graph.structure.adjacency import as_edges
from xnn.layer import Layer, recorded
from xnn.layers import Bias, Dense, GRUCell, Relu
from xnn.rng import fold_in


@recorded()
def MPNN(n_out: int, *, edge_features: int, hidden: Sequence[int] = (128,), aggregate: str = "sum",
         update: Literal["root", "gru"] | None = "root", steps: int = 1, bias: bool = True) -> Layer:
    """Message passing with an edge network A (Gilmer et al., 2017): ``m_i = sum_j A(e_ij)^T x_j``.

    With ``update="root"`` the output is ``x_i W + m_i + b``, PyTorch Geometric's NNConv. ``update="gru"`` is the
    paper's model: ``x_i = GRU(m_i, x_i)``, `steps` times with the same weights. Edge weights are ignored. The memory
    includes a matrix [n_in, n_out] for each edge.

    Shape: x [n, n_in] -> [n, n_out].

    Args:
      n_out: number of output features; with "gru" the input must have the same number.
      edge_features: number of features of an edge.
      hidden: hidden sizes of the edge network, with ReLU between its layers; () makes it linear.
      aggregate: "sum", "mean", "max", "min" or "std" of the messages that a node receives.
      update: "root", "gru", or None for the output ``m_i + b`` without root weights.
      steps: number of steps of "gru".
      bias: whether b is added; a GRU has biases of its own.
    Inputs:
      graph: with edge features, in any form that `as_edges` takes.
    Params: ``{"edge_network": ..., "root": {"w", "b"}}``, with ``"gru"`` or ``"bias"`` in place of the root. The
      initializers are those of `Dense` and `GRUCell`; PyTorch draws uniformly from ±1/sqrt(n_in).
    Raises: ValueError for unknown choices, for steps without "gru", and from `init` if the input of a GRU does not have
      n_out features.
    """
    check_choice("MPNN", "aggregate", aggregate, REDUCTIONS)
    check_choice("MPNN", "update", update, ("root", "gru", None))
    if steps < 1 or (steps != 1 and update != "gru"):
        raise bad("MPNN", 'more than one step needs update="gru"', {"steps": steps, "update": repr(update)},
                  'pass update="gru" and steps >= 1, or one MPNN for each step.', ValueError)
    updates = {"root": ("root", Dense(n_out, bias=bias)), "gru": ("gru", GRUCell(n_out)),
               None: ("bias", Bias() if bias else None)}
    key, updater = updates[update]
    keys = ["edge_network", *([key] if updater else [])]

    def init(rng, in_shape):
        *lead, n_in = check_shape("MPNN", in_shape, 2)
        if update == "gru" and n_in != n_out:
            raise bad("MPNN", "a GRU cannot change the number of features", {"x": n_in, "n_out": n_out},
                      f"put Dense({n_out}) before the layer.", ValueError)
        network = _edge_network(hidden, n_in * n_out)
        params = {"edge_network": init_child("MPNN['edge_network']", network, fold_in(rng, 0), (-1, edge_features))[1]}
        if updater:
            shape = (-1, n_out if key == "bias" else n_in)
            params[key] = init_child(f"MPNN[{key!r}]", updater, fold_in(rng, 1), shape)[1]
        return (*lead, n_out), params

    def apply(params, x, graph, *, rng=None, train=False):
        check_entries("MPNN", "params", params, keys)
        x = check_float("MPNN", x, 2)
        edges = as_edges(graph, x, "MPNN")
        features, n_in = features_of("MPNN", edges, edge_features), x.shape[-1]
        matrices = apply_child("MPNN['edge_network']", _edge_network(hidden, n_in * n_out), params["edge_network"],
                               features, {}).reshape(len(edges), n_in, n_out)

        def message(x: Array) -> Array:
            return reduced(edges, jnp.einsum("ei,eio->eo", edges.at_senders(x), matrices), aggregate)

        if update == "root":
            return apply_child("MPNN['root']", updater, params["root"], x, {}) + message(x)
        if update is None:
            return apply_child("MPNN['bias']", updater, params["bias"], message(x), {}) if updater else message(x)
        for _ in range(steps):
            x, _ = apply_child("MPNN['gru']", updater, params["gru"], message(x), {"carry": x})
        return x

    return Layer(init, apply, "MPNN")


def _edge_network(hidden: Sequence[int], n_out: int) -> Layer:
    """[e, edge_features] -> [e, n_out]."""
    return serial(*(layer for n in hidden for layer in (Dense(n), Relu)), Dense(n_out))
