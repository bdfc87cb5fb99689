"""Blocks of rows over devices: products, gradients and losses equal those of the whole graph, for both exchanges."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.refusals import assert_refused
from tests.sampling import each_once, one_in
from tests.xnn.drawn_params import traced_init
from xnn import CSR, Dense, GraphConvolution
from xnn.graph import GAT, GIN, SGC, GraphSAGE, normalized_adjacency, rows_moved, split_rows

sp = pytest.importorskip("scipy.sparse")
N, F = 23, 3


def ring(n):
    """Each node and its neighbours: devices need few rows of others."""
    return sp.csr_matrix(sp.diags([1.0, 2.0, 3.0], [-1, 0, 1], (n, n)), dtype=np.float32)


MATRICES = {"scattered": sp.random(N, N, 0.2, random_state=1, dtype=np.float32, format="csr"), "ring": ring(N),
            "no values": sp.csr_matrix((N, N), dtype=np.float32), "fewer rows than devices": ring(3)}


def cut(x, devices):
    block = -(-len(x) // devices)
    return np.pad(x, [(0, devices * block - len(x)), (0, 0)]).reshape(devices, block, -1)


@pytest.mark.parametrize("exchange", ["gather", "halo", None])
@pytest.mark.parametrize("devices", one_in(3, [4, 1, 2]))
@pytest.mark.parametrize("name", MATRICES)
def test_products_and_gradients(name, devices, exchange):
    matrix = MATRICES[name]
    n = matrix.shape[0]
    x = np.random.default_rng(0).normal(size=(n, F)).astype(np.float32)
    blocks = split_rows(matrix, devices, exchange=exchange)
    total = lambda x, block: jnp.sum(jnp.sin(block @ x))
    both = xjax.pmap(lambda block, x: (block @ x, xjax.grad(total)(x, block)), axis_name="devices")
    y, g = both(blocks, cut(x, devices))
    np.testing.assert_allclose(np.asarray(y).reshape(-1, F)[:n], matrix @ x, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.asarray(g).reshape(-1, F)[:n], matrix.T @ np.cos(matrix @ x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_training_gives_the_same_losses_on_any_number_of_devices(devices):
    graph = normalized_adjacency(ring(N) + ring(N).T)
    x = np.random.default_rng(1).normal(size=(N, F)).astype(np.float32)
    layer = GraphConvolution(2)
    _, params = traced_init(layer, (-1, F))

    def losses(step, params):
        results = []
        for _ in range(5):
            loss, params = step(params)
            results.append(float(np.ravel(loss)[0]))
        return results

    def whole(params):
        loss, g = xjax.value_and_grad(lambda p: jnp.sum(jnp.tanh(layer.apply(p, x, graph)) ** 2))(params)
        return loss, xjax.tree.map(lambda p, g: p - 0.05 * g, params, g)

    real = cut(np.ones((N, 1), np.float32), devices)

    def own(params, x, block, real):
        loss, g = xjax.value_and_grad(lambda p: jnp.sum(real * jnp.tanh(layer.apply(p, x, block)) ** 2))(params)
        loss, g = xjax.lax.psum((loss, g), "devices")
        return loss, xjax.tree.map(lambda p, g: p - 0.05 * g, params, g)

    mapped = xjax.pmap(own, axis_name="devices", in_axes=(None, 0, 0, 0), out_axes=(0, None))
    blocks, rows = split_rows(graph, devices), cut(x, devices)
    got = losses(lambda params: mapped(params, rows, blocks, real), params)
    np.testing.assert_allclose(got, losses(xjax.jit(whole), params), rtol=1e-5)


LAYERS = {"GAT": GAT(2, 3), "GraphSAGE": GraphSAGE(3, "max"), "GIN": GIN(Dense(3)), "SGC": SGC(3)}


@pytest.mark.parametrize(("name", "exchange"), each_once(LAYERS, ["gather", "halo"]))
def test_layers_that_pass_messages_read_the_rows_of_other_devices(name, exchange):
    layer, matrix = LAYERS[name], MATRICES["scattered"]
    x = np.random.default_rng(2).normal(size=(N, F)).astype(np.float32)
    _, params = traced_init(layer, (-1, F))
    apply = xjax.pmap(layer.apply, axis_name="devices", in_axes=(None, 0, 0))
    y = apply(params, cut(x, 2), split_rows(matrix, 2, exchange=exchange))
    want = xjax.jit(layer.apply)(params, x, CSR.from_scipy(matrix))
    np.testing.assert_allclose(np.asarray(y).reshape(-1, y.shape[-1])[:N], want, rtol=1e-4, atol=1e-5)


def test_the_exchange_that_moves_fewer_rows_is_chosen():
    assert rows_moved(ring(40), 4) == {"gather": 30, "halo": 3}
    assert split_rows(ring(40), 4).halo.shape == (4, 4, 1)
    full = sp.csr_matrix(np.ones((8, 8), np.float32))
    assert rows_moved(full, 2) == {"gather": 4, "halo": 4} and split_rows(full, 2).halo is None
    assert "by gather over 'devices'" in repr(split_rows(full, 2))


def test_a_matrix_that_is_not_square_is_refused():
    assert_refused(lambda: split_rows(sp.csr_matrix((3, 4)), 2), ValueError, "not square")
