"""Kernels on graphs: forms of one graph, padding, and pools by graph."""

import numpy as np
import pytest
import scipy.sparse

from tests.refusals import assert_refused
from tests.sampling import one_in
from xjax.nn.initializers import normal, variance_scaling
from xnn import Dense, GraphConvolution, Relu, serial
from xnn.graph import APPNP, GCN, GIN, SGC, ChebConv, Graph, GraphPool, GraphSAGE, batch, pad
from xnn.sparse import CSR

W = {"w_init": variance_scaling(1.5, "fan_in", "normal"), "b_init": normal(0.3)}
D = Dense(32, **W)
TRIANGLE, PATH = Graph.from_edges([0, 1, 2], [1, 2, 0]), Graph.from_edges([0, 1, 1, 2], [1, 0, 2, 1])
TWO = batch([TRIANGLE, PATH])
G = GraphConvolution(32, norm="symmetric", **W)
MODELS = {
    "GraphConvolution": serial(G, Relu, G),
    "GCN": GCN(16, 3),
    "SGC": serial(SGC(16, 2), Relu, D),
    "APPNP": serial(D, Relu, D, APPNP(3)),
    "GIN": GIN(serial(D, Relu, D)),
    "GraphSAGE": serial(GraphSAGE(16), Relu, GraphSAGE(4, "sum")),
    "ChebConv": serial(ChebConv(16, 3), Relu, D),
}


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _call(model, x, graph, **named):
    name = model.extra_inputs[0]
    return np.stack(model.kernel(x, **{name: graph}, **named))


@pytest.mark.parametrize("name", one_in(3, MODELS))
def test_forms_of_a_graph(name):
    x, model = drawn(6, 4), MODELS[name]
    dense = np.zeros((6, 6), np.float32)
    dense[np.asarray(TWO.receivers), np.asarray(TWO.senders)] = 1
    expected = _call(model, x, TWO)
    assert expected.shape == (2, 6, 6)
    for form in (dense, scipy.sparse.csr_matrix(dense), CSR.from_scipy(scipy.sparse.csr_matrix(dense))):
        np.testing.assert_allclose(_call(model, x, form), expected, 1e-5, 1e-6)


@pytest.mark.parametrize("name", one_in(3, [name for name in MODELS if name != "GCN"]))
def test_padding_and_separate_graphs(name):
    x, model = drawn(6, 4), MODELS[name]
    expected = _call(model, x, TWO)
    padded = pad(TWO, 9, 12)
    rows = np.concatenate([x, np.full((3, 4), 7, np.float32)])
    np.testing.assert_allclose(_call(model, rows, padded)[:, :6, :6], expected, 1e-5, 1e-6)
    across = np.stack(model.kernel(x[:3], x[3:], graph=(TRIANGLE, PATH)))
    np.testing.assert_allclose(across, expected[:, :3, 3:], 1e-5, 1e-6)


def test_a_pool_of_padded_graphs():
    model = serial(GIN(serial(D, Relu, D)), Relu, GIN(serial(D, Relu, D)), GraphPool("mean"), Dense(1))
    x = drawn(6, 4)
    expected = _call(model, x, TWO)
    assert expected.shape == (2, 2, 2)
    rows = np.concatenate([x, np.full((3, 4), 7, np.float32)])
    np.testing.assert_allclose(_call(model, rows, pad(TWO, 9, 12, 4))[:, :2, :2], expected, 1e-5)
    across = np.stack(model.kernel(x[:3], x[3:], graph=(TRIANGLE, PATH)))
    np.testing.assert_allclose(across[:, 0, 0], expected[:, 0, 1], 1e-5)


def test_refused():
    x = drawn(6, 4)
    assert_refused(lambda: serial(G, Relu, G).kernel(x, x, graph=TWO), TypeError, ["`graph` must be a pair"])
    assert_refused(lambda: serial(G, Relu, G).kernel(x, edges=TWO), TypeError, ["no input 'edges'"])
    assert_refused(lambda: serial(G, GraphPool("max")).kernel(x, graph=TWO), TypeError, ["GraphPool.kernel"])
