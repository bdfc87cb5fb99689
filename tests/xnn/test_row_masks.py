"""Padding changes nothing: layers with `row_mask`, and the blocks and graph layers that pass it by themselves.

Each row compares padded inputs, whose padding is NaN for single layers, with inputs without padding: outputs, new state
(statistics, balance losses, loads) and gradients, whose loss includes the auxiliary loss of experts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.compare import assert_close
from tests.xnn.drawn_params import drawn_params
from xjax import tree_util
from xnn import (
    LSTM,
    AdaLN,
    AdaLNZero,
    BatchNorm,
    CrossAttention,
    DecoderBlock,
    Dense,
    EncoderBlock,
    FeedForward,
    GroupNorm,
    InstanceNorm,
    Layer,
    MixtureOfExperts,
    MultiHeadAttention,
    auxiliary_loss,
    composite,
    renamed,
    repeat,
    residual,
    serial,
    with_precision,
)
from xnn.models import UNet, UNetConfig, graph_configs, graph_networks

N = 6                                                                       # features
NPR = np.random.default_rng(0)
X = NPR.normal(size=(3, 4, N)).astype(np.float32)                          # three sequences of four positions
CONTEXT = {"context": NPR.normal(size=(3, 2, N)).astype(np.float32)}
CONDITION = {"condition": NPR.normal(size=(3, 5)).astype(np.float32)}
ATTENTION = MultiHeadAttention(N, 2)
EXPERTS = MixtureOfExperts(FeedForward(N, 8), 3, capacity=0.75)            # less room than tokens: some are dropped


class Row(NamedTuple):
    """A model of X, its further inputs, and the input that has the mask of positions."""

    model: Layer
    inputs: dict[str, Any] = {}
    mask: str = "mask"


def _block(layers: Any, x: Any, row_mask: Any = None) -> Any:
    return layers.norm(layers.first(x), row_mask=row_mask)


# Layers with a row mask, then models that make it from a mask of positions.
ROWS = {
    "BatchNorm": Row(BatchNorm(), mask="row_mask"),
    "GroupNorm": Row(GroupNorm(2), mask="row_mask"),
    "InstanceNorm": Row(InstanceNorm(scale=True), mask="row_mask"),
    "MixtureOfExperts": Row(EXPERTS, mask="row_mask"),
    "MixtureOfExperts, no limit": Row(MixtureOfExperts(Dense(2), 3, capacity=None), mask="row_mask"),
    "MixtureOfExperts, one": Row(MixtureOfExperts(Dense(2), 3, k=1, capacity=1.0), mask="row_mask"),
    "AdaLN": Row(AdaLN(GroupNorm(2)), CONDITION, "row_mask"),
    "AdaLNZero": Row(AdaLNZero(EXPERTS, BatchNorm()), CONDITION, "row_mask"),
    "composite": Row(composite(_block, first=Dense(4), norm=BatchNorm()), mask="row_mask"),
    "EncoderBlock": Row(EncoderBlock(ATTENTION, EXPERTS, norm=BatchNorm())),
    "EncoderBlock, norms last": Row(EncoderBlock(ATTENTION, EXPERTS, norm=GroupNorm(3), norm_first=False)),
    "EncoderBlock, layers": Row(repeat(EncoderBlock(ATTENTION, serial(EXPERTS, residual(BatchNorm()))), 2)),
    "DecoderBlock": Row(DecoderBlock(MultiHeadAttention(N, 2, causal=True), CrossAttention(N, 2), EXPERTS,
                                     norm=BatchNorm()), CONTEXT),
    "LSTM": Row(serial(LSTM(N), renamed(EXPERTS, row_mask="mask"), renamed(BatchNorm(), row_mask="mask"))),
}
FAST = ["GroupNorm", "MixtureOfExperts", "EncoderBlock"]


def step_of(model: Layer, state: Any, inputs: dict[str, Any]) -> Callable:
    """``(params, x, **masks) -> ((loss, (y, new state)), gradients)``; the loss reads the rows that count."""
    def loss(params, x, counts, masks):
        y, new = model.apply_with_state(params, state, x, **inputs, **masks, train=True)
        kept = jnp.where(counts[..., None], y, 0)
        return jnp.sum(jnp.sin(kept)) + auxiliary_loss(new, balance=1.0, z=1.0), (kept, new)

    return xjax.jit(xjax.value_and_grad(loss, has_aux=True))


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in FAST)) for name in ROWS])
def test_padding_of_sequences_changes_nothing(name):
    row = ROWS[name]
    params, state = drawn_params(row.model, X, **row.inputs), row.model.init_state(X, **row.inputs)
    padding = np.nan if row.mask == "row_mask" and name != "composite" else 3.0    # in gradients of Dense, 0 NaN is NaN
    padded = np.concatenate([X, np.full((3, 2, N), padding, np.float32)], 1)
    counts = np.arange(6) < np.array([[4], [4], [4]])
    step = step_of(row.model, state, row.inputs)
    (got_loss, (got, got_state)), got_grads = step(params, padded, counts, {row.mask: counts})
    (loss, (y, new)), grads = step(params, X, counts[:, :4], {})
    assert_close((got_loss, got[:, :4], got_state, got_grads), (loss, y, new, grads))
    moved = [np.any(a != b) for a, b in zip(*map(tree_util.tree_leaves, (state, new)), strict=True)]
    assert all(moved)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["EncoderBlock", "EncoderBlock, layers", "MixtureOfExperts"])
def test_what_padding_contains_does_not_count(name):
    """Sequences of different lengths, in half precision too: any values of the padding give the same."""
    row = ROWS[name]
    counts = np.arange(4) < np.array([[4], [2], [3]])
    for model in (row.model, with_precision(row.model, "bfloat16")):
        params, state = drawn_params(model, X), model.init_state(X)
        step = step_of(model, state, {})
        one, other = (step(params, np.where(counts[..., None], X, np.float32(pad)), counts, {row.mask: counts})
                      for pad in (-50.0, 3.0))
        assert_close(one, other)


GRAPH_ROWS = {
    "GIN": xg.GIN(serial(Dense(N), EXPERTS, BatchNorm())),
    "GINE": xg.GINE(serial(EXPERTS, GroupNorm(1)), edge_features=3),
    "EdgeConv": xg.EdgeConv(serial(Dense(N), EXPERTS)),
    "AttentionPool": xg.AttentionPool(value=EXPERTS),
    "graph_stack": graph_networks.graph_stack(
        lambda n: xg.GIN(MixtureOfExperts(Dense(n), 2, capacity=1.0)),
        graph_configs.GraphStackConfig(features=2, hidden=(5,), norm="batch", dropout=0.0)),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name != "GIN"))
                                  for name in GRAPH_ROWS])
def test_padding_of_graphs_changes_nothing(name):
    model = GRAPH_ROWS[name]
    graphs = [xg.Graph.from_edges(*NPR.integers(0, n, (2, 2 * n)), NPR.normal(size=(n, N)).astype(np.float32),
                                  NPR.normal(size=(2 * n, 3)).astype(np.float32)) for n in (4, 3, 5)]
    plain = xg.batch(graphs)
    padded = xg.pad(plain, 17, 30, 5)
    params, state = drawn_params(model, plain.nodes), model.init_state(plain.nodes)

    def loss(params, graph):
        y, new = model.apply_with_state(params, state, graph.nodes, graph, train=True)
        y = y[:plain.n_graphs if name == "AttentionPool" else plain.n_nodes]
        return jnp.sum(jnp.sin(y)) + auxiliary_loss(new, balance=1.0, z=1.0), (y, new)

    step = xjax.jit(xjax.value_and_grad(loss, has_aux=True))
    assert_close(step(params, padded), step(params, plain))


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_padding_of_a_batch_of_images_changes_nothing(norm):
    model = UNet(UNetConfig(2, (2, 4), norm=norm, groups=2, attention=(1,), time="sinusoidal"))
    assert model.extra_inputs == ("time", "row_mask")
    x = NPR.normal(size=(5, 4, 4, 1)).astype(np.float32)
    params, state = drawn_params(model, x), model.init_state(x)
    counts = np.arange(5) < 3
    padded = step_of(model, state, {"time": np.arange(5)})(
        params, x, np.broadcast_to(counts[:, None, None], x.shape[:3]), {"row_mask": counts})
    plain = step_of(model, state, {"time": np.arange(3)})(params, x[:3], np.ones((3, 4, 4), bool), {})
    (loss, (y, new)), grads = padded
    assert_close(((loss, (y[:3], new)), grads), plain)


def test_a_block_has_a_row_mask_only_with_a_layer_that_reads_it():
    plain = EncoderBlock(ATTENTION, FeedForward(N, 8))
    assert plain.extra_inputs == ("mask", "bias", "positions", "local")
    masked = serial(EncoderBlock(ATTENTION, EXPERTS), plain)
    assert masked.extra_inputs == ("mask", "bias", "positions", "local", "row_mask")


def test_a_row_mask_of_the_call_replaces_that_of_the_positions():
    """A mask of pairs does not say which rows count, so packed sequences need a row mask."""
    model = ROWS["EncoderBlock"].model
    params, state = drawn_params(model, X), model.init_state(X)
    rows = np.arange(4) < np.array([[4], [2], [3]])
    pairs = np.broadcast_to(rows[:, None, None], (3, 1, 4, 4))
    step = step_of(model, state, {})
    by_pairs, by_rows, none = (step(params, X, rows, masks)[0][1][1] for masks in (
        {"mask": pairs, "row_mask": rows}, {"mask": rows}, {"mask": pairs}))
    assert_close(by_pairs, by_rows)
    assert not np.allclose(by_pairs["feed_forward"]["load"], none["feed_forward"]["load"])
