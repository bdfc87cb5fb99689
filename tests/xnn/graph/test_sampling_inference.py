"""Inference layer by layer equals the forward pass on the whole graph."""

import numpy as np
import pytest

import xjax
import xnn
from tests.refusals import assert_refused
from xjax import random
from xnn import BatchNorm, Dense, GraphConvolution, Relu, residual, serial
from xnn.graph import SGC, Graph, GraphNorm
from xnn.graph.samplers.inference import infer_by_layers


def random_graph(n=101, e=500, seed=0):
    npr = np.random.default_rng(seed)
    return Graph.from_edges(npr.integers(0, n - 1, e), npr.integers(0, n - 1, e), edges=npr.random(e, np.float32),
                            n_nodes=n)


def features(n, f=6):
    return np.random.default_rng(1).normal(size=(n, f)).astype(np.float32)


@pytest.mark.parametrize("batch_size", [1, 25, 400, *[pytest.param(n, marks=pytest.mark.slow) for n in (7, 101)]])
def test_equals_the_whole_graph(batch_size):
    graph, x = random_graph(), features(101)
    model = serial(GraphConvolution(8), Relu, Dense(5), GraphConvolution(3))
    _, params = model.init(random.key(0), x.shape)
    result = infer_by_layers(model.layers, params, graph, x, batch_size)
    assert type(result) is np.ndarray
    np.testing.assert_allclose(result, xjax.jit(model.apply)(params, x, graph), rtol=1e-6, atol=1e-6)


def test_a_layer_that_reads_degrees_of_senders():
    graph, x = random_graph(), features(101)
    model = serial(GraphConvolution(8, norm="symmetric"), Relu, GraphConvolution(3))
    _, params = model.init(random.key(0), x.shape)
    whole = xjax.jit(model.apply)(params, x, graph)
    np.testing.assert_allclose(infer_by_layers(model.layers, params, graph, x, 10, reach=(2, 1, 1)), whole, rtol=1e-6,
                               atol=1e-6)


@pytest.mark.parametrize("layer", [GraphConvolution(3, norm="symmetric"), SGC(3), GraphNorm()])
def test_a_layer_that_reads_further_than_it_says_is_refused(layer):
    graph, x = random_graph(), features(101)
    params = layer.init(random.key(0), (-1, x.shape[1]))[1]
    assert_refused(lambda: infer_by_layers([layer], [params], graph, x, 10), ValueError,
                   ["reads further than 1 hop", "reach=2"])


def test_running_statistics_and_composites():
    graph, x = random_graph(), features(101, 4)
    model = serial(residual(GraphConvolution(4)), BatchNorm(), GraphConvolution(2))
    _, params = model.init(random.key(0), x.shape)
    state = model.init_state(x.shape)
    _, state = xjax.jit(lambda params, state: model.apply_with_state(
        params, state, x, graph, rng=random.key(1), train=True))(params, state)
    result = infer_by_layers(model.layers, params, graph, x, 30, state=state)
    whole = xjax.jit(lambda params, state: model.apply(params, x, graph, state=state))(params, state)
    np.testing.assert_allclose(result, whole, rtol=1e-6, atol=1e-6)


def test_features_and_outputs_in_files(tmp_path):
    graph, x = random_graph(), features(101)
    np.save(tmp_path / "x.npy", x)
    made = []

    def allocate(shape, dtype):
        made.append(np.lib.format.open_memmap(tmp_path / f"{len(made)}.npy", "w+", dtype, shape))
        return made[-1]

    model = serial(GraphConvolution(8), Relu, GraphConvolution(3))
    _, params = model.init(random.key(0), x.shape)
    result = infer_by_layers(model.layers, params, graph, np.load(tmp_path / "x.npy", mmap_mode="r"), 20,
                             allocate=allocate)
    assert result is made[-1] and [array.shape for array in made] == [(101, 8), (101, 8), (101, 3)]
    np.testing.assert_allclose(result, model.apply(params, x, graph), rtol=1e-6, atol=1e-6)


def test_each_part_has_no_more_than_its_neighbours():
    """The memory of the device is bounded: on a ring no part has more than batch_size + 1 nodes and one of padding."""
    n, shapes = 1000, set()
    ring = Graph.from_edges(np.arange(n), (np.arange(n) + 1) % n)

    def apply(params, x, graph, *, rng=None, train=False):
        shapes.add((x.shape, graph.senders.shape))
        return xnn.graph.as_edges(graph, x, "Sum") @ x

    layer = xnn.Layer(lambda rng, shape: (shape, ()), apply, name="Sum")
    x = features(n)
    np.testing.assert_array_equal(infer_by_layers([layer], [()], ring, x, 50), np.roll(x, 1, 0))
    # For the check, 16 nodes are also computed with one hop and with two; each receives from one node.
    assert shapes == {((52, 6), (50,)), ((32, 6), (16,)), ((47, 6), (31,))}


def test_no_nodes_and_no_layers():
    empty = Graph.from_edges([], [], n_nodes=0)
    layer = GraphConvolution(3)
    _, params = layer.init(random.key(0), (-1, 6))
    assert infer_by_layers([layer], [params], empty, features(0), 5).shape == (0, 3)
    x = features(101)
    assert infer_by_layers([], [], random_graph(), x) is x


@pytest.mark.parametrize(("change", "text"), [
    ({"params": []}, "needs params"), ({"batch_size": 0}, "batch size"), ({"reach": (1, 1)}, "batch size"),
    ({"reach": 0}, "batch size"), ({"x": features(3)}, "one row for each node"),
    ({"layers": [GraphConvolution]}, "call it"), ({"graph": np.eye(101)}, "takes one Graph"),
])
def test_errors(change, text):
    given = {"layers": [GraphConvolution(2)], "params": [(np.ones((6, 2)), None)], "graph": random_graph(),
             "x": features(101), "batch_size": 5}
    assert_refused(lambda: infer_by_layers(**given | change), (ValueError, TypeError), text)
