"""Heads of pairs of nodes, and autoencoders of graphs; and losses and metrics with the mask of a padded batch."""

import importlib.util

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn.graph as xg
from tests.compare import assert_close
from tests.xnn.drawn_params import traced_init
from xjax import random, tree_util
from xnn import GraphConvolution, Relu, losses, metrics, serial
from xnn.graph import Graph
from xnn.graph.layers.heads import GAE, VGAE, EdgeHead, GraphHead, NodeHead, reconstruction_loss
from xnn.losses import gaussian_kl

PAIRS = np.array([[0, 1], [2, 0], [1, 1], [3, 2]])
X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def two_blocks(n=12):
    """An undirected graph of two complete halves without a few edges; and the pairs between the halves."""
    half = np.arange(n) < n // 2
    receivers, senders = np.nonzero((half[:, None] == half) & ~np.eye(n, dtype=bool))
    graph = Graph.from_edges(senders, receivers, np.eye(n, dtype=np.float32))
    return graph, np.argwhere(half[:, None] & ~half)


@pytest.mark.parametrize("features", [None, 2])
@pytest.mark.parametrize("score", ["dot", "bilinear", "mlp"])
def test_scores_of_pairs(score, features):
    if score == "dot" and features:
        return
    head = EdgeHead(score, features, hidden=(5,))
    shape, params = head.init(random.key(0), (-1, 3))
    y = xjax.jit(head.apply)(params, X, pairs=PAIRS)
    assert shape == (-1,) if features is None else shape == (-1, 2)
    a, b = X[PAIRS[:, 0]], X[PAIRS[:, 1]]
    if score == "mlp":
        layers = params["mlp"]
        hidden = np.maximum(np.concatenate([a, b], 1) @ layers["hidden0"]["dense"]["w"], 0)
        want = hidden @ layers["head"]["w"]
        want = want[:, 0] if features is None else want
    elif score == "dot":
        want = (a * b).sum(1)
    else:
        w = np.asarray(params["w"])
        want = np.stack([np.tensordot(np.outer(one, other), w, 2) for one, other in zip(a, b, strict=True)])
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def test_the_pairs_of_a_graph_are_its_edges():
    graph = Graph.from_edges(PAIRS[:, 0], PAIRS[:, 1], X)
    head = EdgeHead("bilinear")
    _, params = traced_init(head, (-1, 3))
    ends = np.stack([graph.senders, graph.receivers], 1)
    of_graph, of_ends, beyond = xjax.jit(lambda params: (head.apply(params, X, graph), *(
        head.apply(params, X, pairs=pairs) for pairs in (ends, np.array([[0, 4]])))))(params)
    np.testing.assert_allclose(of_graph, of_ends, rtol=1e-6)
    assert np.isnan(beyond)


def test_a_node_head_is_an_mlp():
    shape, params = traced_init(NodeHead(7, hidden=(5,)), (-1, 3))
    assert shape == (-1, 7) and params["head"]["w"].shape == (5, 7)


@pytest.mark.parametrize("variational", [False, True])
def test_an_autoencoder_learns_which_nodes_are_linked(variational):
    graph, others = two_blocks()
    edges = np.stack([graph.senders, graph.receivers], 1)
    conv = lambda n: GraphConvolution(n, norm="symmetric")
    body = serial(conv(8), Relu)
    model = VGAE(body, conv(2), conv(2)) if variational else GAE(serial(body, conv(2)))
    _, params = model.init(random.key(0), (-1, 12))
    pairs = np.concatenate([edges, others])

    def loss(params, key):
        y = model.apply(params, graph.nodes, graph, pairs, rng=key, train=True)
        logits, *code = y if variational else (y,)
        kl = gaussian_kl(*code) / 12 if variational else 0.0
        return reconstruction_loss(logits[:len(edges)], logits[len(edges):]) + kl

    @xjax.jit
    def step(params, i):
        slopes = xjax.grad(loss)(params, random.fold_in(random.key(1), i))
        return tree_util.tree_map(lambda p, g: p - 0.3 * g, params, slopes)

    for i in range(100):
        params = step(params, i)
    y = xjax.jit(model.apply)(params, graph.nodes, graph, pairs)
    logits = np.asarray(y[0] if variational else y)
    assert logits[:len(edges)].min() > logits[len(edges):].max()


def test_a_loss_and_a_metric_with_the_masks_of_a_padded_batch():
    npr = np.random.default_rng(0)
    alone = [Graph.from_edges(*npr.integers(0, n, (2, 9)), npr.normal(size=(n, 4)).astype(np.float32))
             for n in (5, 3, 6)]
    graph = xg.batch(alone)
    padded = xg.pad(graph, 20, 40, 6)
    of_graphs, of_nodes = GraphHead(3, hidden=(5,)), NodeHead(3)
    labels, node_labels = np.array([0, 2, 1]), npr.integers(0, 3, 14)
    params = (traced_init(of_graphs, (-1, 4))[1], traced_init(of_nodes, (-1, 4))[1])

    def results(params, graph, labels, node_labels):
        x, masks = jnp.asarray(graph.nodes), (graph.mask, graph.node_mask)
        logits = of_graphs.apply(params[0], x, graph), of_nodes.apply(params[1], x)
        every = list(zip(logits, (labels, node_labels), masks, strict=True))
        loss = sum(losses.cross_entropy(logits, labels, weights=mask) for logits, labels, mask in every)
        loss += sum(losses.mse(logits[:, 0], labels.astype(np.float32), weights=mask) for logits, labels, mask in every)
        accuracies = [metrics.accuracy(logits, labels, weights=mask) for logits, labels, mask in every]
        return loss, (accuracies, metrics.Average.of(logits[0][:, 0], masks[0]).value)

    run = xjax.jit(xjax.value_and_grad(results, has_aux=True))
    plain = run(params, graph, labels, node_labels)
    # Labels of padding are out of range, so their losses are NaN.
    with_padding = run(params, padded, np.append(labels, [7, -1, 9]), np.append(node_labels, [99] * 6))
    assert_close(with_padding, plain, tol=0.125)


@pytest.mark.slow
def test_the_losses_are_those_of_pytorch_geometric():
    if importlib.util.find_spec("torch_geometric") is None:
        pytest.skip("PyTorch Geometric is not installed: pip install -e '.[peers]'")
    import torch
    from torch_geometric.nn import VGAE as TheirVGAE

    npr = np.random.default_rng(1)
    mean, log_std = npr.normal(size=(2, 4, 3)).astype(np.float32)
    others = np.array([[0, 2], [3, 3]])
    theirs = TheirVGAE(torch.nn.Identity())
    z = torch.tensor(mean)
    want = theirs.recon_loss(z, torch.tensor(PAIRS.T), torch.tensor(others.T))
    decode = EdgeHead().apply
    got = reconstruction_loss(decode((), mean, pairs=PAIRS), decode((), mean, pairs=others))
    np.testing.assert_allclose(got, want.numpy(), rtol=1e-5)
    want = theirs.kl_loss(z, torch.tensor(log_std))
    np.testing.assert_allclose(gaussian_kl(jnp.asarray(mean), jnp.asarray(2 * log_std)), want.numpy(), rtol=1e-5)
