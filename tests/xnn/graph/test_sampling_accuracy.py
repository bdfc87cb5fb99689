"""Training on sampled neighbours reaches the accuracy of training on the whole graph."""

import numpy as np
import pytest

import xjax
from xjax import random
from xnn import Relu, serial
from xnn.graph import GraphSAGE, NeighbourSampler, SeedBatches, infer_by_layers, planted_partition
from xnn.losses import cross_entropy

optim = pytest.importorskip("xnn.optim", exc_type=ImportError)              # needs optax

CLASSES, EPOCHS, STEPS = 10, 5, 150


def make_step(model, steps, rows_of):
    """``init`` of the optimizer and ``(params, state, inputs) -> (params, state)``.

    Args: rows_of: inputs -> (graph, rows, labels, weights).
    """
    rule = optim.adam(optim.linear_schedule(0.02, 0.0, steps))

    @xjax.jit
    def step(params, state, inputs):
        def loss(params):
            graph, rows, labels, weights = rows_of(inputs)
            return cross_entropy(model.apply(params, graph.nodes, graph)[rows], labels, weights=weights)

        updates, state = rule.update(xjax.grad(loss)(params), state, params)
        return optim.apply_updates(params, updates), state

    return rule.init, step


def trained_whole(model, params, graph, labels, train_ids):
    init, step = make_step(model, STEPS, lambda inputs: (*inputs, None))
    state, inputs = init(params), xjax.device_put((graph, train_ids, labels[train_ids]))
    for _ in range(STEPS):
        params, state = step(params, state, inputs)
    return params


def trained_on_samples(model, params, graph, labels, train_ids):
    batches = SeedBatches(NeighbourSampler(graph, (15, 10), batch_size=1000).fitted(train_ids), train_ids)
    init, step = make_step(model, EPOCHS * len(batches), lambda inputs: (inputs[0].graph, inputs[0].seeds, inputs[1],
                                                                         inputs[0].seed_mask))
    state = init(params)
    for epoch in range(EPOCHS):
        for block in batches.epoch(epoch):
            params, state = step(params, state, (block, labels[block.ids[block.seeds]]))
    return params


def of_nearest_mean(x, labels, train_ids):
    """Classes from a node's own features: those of the nearest mean of the training nodes."""
    means = np.stack([x[train_ids][labels[train_ids] == label].mean(0) for label in range(CLASSES)])
    return np.argmin((means ** 2).sum(1) - 2 * x @ means.T, axis=1)


@pytest.mark.slow
def test_samples_reach_the_accuracy_of_the_whole_graph():
    graph, labels = planted_partition(100_000, CLASSES, degree=10, mixing=0.4, features=16, seed=0)
    train_ids, test_ids = np.split(np.random.default_rng(0).permutation(100_000), 2)
    model = serial(GraphSAGE(64), Relu, GraphSAGE(CLASSES))
    _, params = model.init(random.key(0), (-1, 16))

    def accuracy(params):
        logits = infer_by_layers(model.layers, params, graph, graph.nodes, 25_000)
        return (logits[test_ids].argmax(1) == labels[test_ids]).mean()

    whole = accuracy(trained_whole(model, params, graph, labels, train_ids))
    sampled = accuracy(trained_on_samples(model, params, graph, labels, train_ids))
    alone = (of_nearest_mean(graph.nodes, labels, train_ids)[test_ids] == labels[test_ids]).mean()
    print(f"whole graph {whole:.4f}, samples {sampled:.4f}, features alone {alone:.4f}")
    assert abs(whole - sampled) <= 0.01
    assert whole > alone + 0.2
