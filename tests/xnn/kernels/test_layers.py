"""Kernels of layers against those of other layers that compute the same, and against their formulas."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.refusals import assert_refused
from tests.sampling import each_once, one_in
from tests.xnn.rows import ROWS as LAYERS
from tests.xnn.rows.row import draw
from xjax.nn.initializers import normal, variance_scaling
from xnn import Conv, Dense, Relu, serial
from xnn.graph import GIN, ChebConv, Graph, GraphSAGE
from xnn.models import ViT, ViTConfig

W = {"w_init": variance_scaling(1.5, "fan_in", "normal"), "b_init": normal(0.3)}
D = Dense(64, **W)


def drawn(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


ROWS, IMAGES = (4, 6), (3, 4, 5, 2)
C = Conv(8, (3, 3), **W)

# name -> (a model, another one with the same kernel, the shape of the inputs).
EQUAL = {
    "DenseGeneral": (serial(C, Relu, xnn.DenseGeneral(3, **W)), serial(C, Relu, Dense(3, **W)), IMAGES),
    "DenseGeneral, all axes": (serial(C, Relu, xnn.DenseGeneral(3, (1, 2, 3), **W)),
                               serial(C, Relu, xnn.Flatten, Dense(3, **W)), IMAGES),
    "Reshape to rows": (serial(C, Relu, xnn.Reshape(-1), D), serial(C, Relu, xnn.Flatten, D), IMAGES),
    "Reshape of positions": (serial(C, Relu, xnn.Reshape(20, 8), xnn.GlobalAvgPool(), D),
                             serial(C, Relu, xnn.GlobalAvgPool(), D), IMAGES),
    "Reshape and back": (serial(C, Relu, xnn.Reshape(20, 8), xnn.Reshape(4, 5, 8), C, Relu, xnn.Flatten, D),
                         serial(C, Relu, C, Relu, xnn.Flatten, D), IMAGES),
    "Reshape before attention": (
        serial(C, xnn.Reshape(20, 8), xnn.LimitAttention(16, 4, **W), xnn.GlobalAvgPool()),
        serial(C, xnn.Reshape(4, 5, 8), xnn.Reshape(20, 8), xnn.LimitAttention(16, 4, **W), xnn.GlobalAvgPool()),
        IMAGES),
    "GLU": (serial(xnn.Dense(128, **W), xnn.GLU, D),
            serial(xnn.FanOut(2), xnn.parallel(D, serial(D, xnn.Sigmoid)), xnn.FanInProd, D), ROWS),
    "ReGLU": (serial(xnn.Dense(128, **W), xnn.ReGLU, D),
              serial(xnn.FanOut(2), xnn.parallel(D, serial(D, Relu)), xnn.FanInProd, D), ROWS),
    "RReLU": (serial(D, xnn.RReLU(0.1, 0.3), D), serial(D, xnn.ABRelu(0.2, 1.0), D), ROWS),
    "StochasticDepth": (serial(D, xnn.residual(Relu, D, xnn.StochasticDepth(0.2)), Relu, D),
                        serial(D, xnn.residual(Relu, D), Relu, D), ROWS),
    "LayerScale": (serial(D, Relu, xnn.LayerScale(1.0), D), serial(D, Relu, xnn.Scale(), D), ROWS),
    "RMSNorm's scale": (serial(D, xnn.RMSNorm(scale=False), xnn.Scale(), D), serial(D, xnn.RMSNorm(), D), ROWS),
    "LayerNorm's bias": (serial(D, xnn.LayerNorm(bias=False), xnn.Bias(), D), serial(D, xnn.LayerNorm(), D), ROWS),
    "Dense's bias": (serial(Dense(64, w_init=W["w_init"], bias=False), xnn.Bias(init=normal(0.3)), Relu, D),
                     serial(D, Relu, D), ROWS),
    "a mask of nothing": (serial(C, xnn.MaskRows(), Relu, xnn.GlobalAvgPool(), D),
                          serial(C, Relu, xnn.GlobalAvgPool(), D), IMAGES),
}


@pytest.mark.parametrize("name, parameterization", each_once(EQUAL, ("ntk", "standard")))
def test_equal_models(name, parameterization):
    model, other, shape = EQUAL[name]
    x = drawn(*shape)
    for x2 in (None, x[1:] + 1):
        got, expected = (one.kernel(x, x2, parameterization=parameterization) for one in (model, other))
        np.testing.assert_allclose(np.stack(got), np.stack(expected), 1e-5)


def test_prelu():
    x = drawn(*ROWS)
    model, leaky, relu = (serial(D, layer) for layer in (xnn.PReLU(per_feature=True, slope=0.3), xnn.ABRelu(0.3, 1.0),
                                                         Relu))
    nngp, ntk = model.kernel(x)
    np.testing.assert_allclose(nngp, leaky.kernel(x).nngp, 1e-6)
    # The derivative in the slope is min(x, 0), whose kernel is that of max(x, 0).
    np.testing.assert_allclose(ntk, leaky.kernel(x).ntk + relu.kernel(x).nngp, 1e-6)
    assert serial(D, xnn.PReLU(), D).kernel(x, get="nngp").shape == (4, 4)
    assert_refused(lambda: serial(D, xnn.PReLU(), D).kernel(x), ValueError,
                   ["PReLU.kernel: one slope for all features has no NTK", "PReLU(per_feature=True)"])


def test_layer_scale_is_small():
    x = drawn(*ROWS)
    before, after = serial(D, Relu).kernel(x), serial(D, Relu, xnn.LayerScale(0.1)).kernel(x)
    np.testing.assert_allclose(after.nngp, 0.01 * before.nngp, 1e-6)
    np.testing.assert_allclose(after.ntk, 0.01 * before.ntk + before.nngp, 1e-6)


@pytest.mark.parametrize("parameterization", ["ntk", "standard"])
def test_padding_does_not_count(parameterization):
    model = serial(xnn.MaskRows(), Conv(8, (3,), **W), xnn.Cos(), xnn.MaskRows(), Conv(8, (3,), **W), Relu,
                   xnn.GlobalAvgPool(), D)
    padded, lengths = drawn(3, 7, 2), (7, 4, 5)
    mask = np.arange(7) < np.array(lengths)[:, None]
    got = model.kernel(padded, row_mask=mask, parameterization=parameterization)
    other = model.kernel(padded, padded[1:], row_mask=(mask, mask[1:]), parameterization=parameterization)
    # The convolutions pad short series with zeros too, so the whole is that of the series one by one.
    rows = [padded[i:i + 1, :n] for i, n in enumerate(lengths)]
    for i, row in enumerate(rows):
        for j, column in enumerate(rows):
            expected = np.ravel(model.kernel(row, column, parameterization=parameterization))
            np.testing.assert_allclose([one[i, j] for one in got], expected, 1e-4)
            if j:
                np.testing.assert_allclose([one[i, j - 1] for one in other], expected, 1e-4)


def test_padded_examples_count_as_zero():
    model = serial(Conv(8, (3, 3), **W), Relu, xnn.GlobalAvgPool())
    images, mask = drawn(*IMAGES), np.array([True, False, True])
    got, whole = model.kernel(images, row_mask=mask), model.kernel(images)
    np.testing.assert_allclose(got.ntk, np.asarray(whole.ntk) * mask * mask[:, None], 1e-6)


def test_noise():
    x = drawn(*ROWS)
    plain = serial(D, D).kernel(x, train=True)
    noisy = serial(D, xnn.GaussianNoise(0.5), D).kernel(x, train=True)
    np.testing.assert_allclose(noisy.nngp, plain.nngp + 1.5 * 0.25 * np.eye(4), 1e-5)
    np.testing.assert_array_equal(serial(D, xnn.GaussianNoise(0.5), D).kernel(x).ntk, plain.ntk)
    dropped, random = (serial(D, Relu, layer(0.2), D).kernel(x, train=True)
                       for layer in (xnn.Dropout, xnn.GaussianDropout))
    np.testing.assert_allclose(np.stack(random), np.stack(dropped), 1e-6)


GRAPH = Graph.from_edges([0, 1, 2, 2], [1, 2, 0, 3])
A = np.zeros((5, 5))
A[[1, 2, 0, 3], [0, 1, 2, 2]] = 1           # row i has the neighbours that send to node i; node 4 has none


def _sage(x, aggregate, own):
    parts = [aggregate @ x] + [x] * own
    inner = sum(part @ part.T for part in parts)
    return 1.5 / 6 * inner, inner + 1       # of a Dense layer: weights of variance 1.5 / 6, a bias of 0


def _chebyshev(x):
    laplacian = -A / np.maximum(A.sum(1, keepdims=True), 1)             # 2 L / 2 - I, L = I - D^-1 A
    powers = [x, laplacian @ x, 2 * laplacian @ laplacian @ x - x]
    inner = sum(part @ part.T for part in powers)
    return 1.5 / 6 * inner, inner


W_INIT = {"w_init": variance_scaling(1.5, "fan_in", "normal")}
OF_GRAPHS = {
    "GraphSAGE mean": (GraphSAGE(16, **W_INIT), lambda x: _sage(x, A / np.maximum(A.sum(1, keepdims=True), 1), True)),
    "GraphSAGE sum": (GraphSAGE(16, "sum", **W_INIT), lambda x: _sage(x, A, True)),
    "GraphSAGE, neighbours": (GraphSAGE(16, own=False, **W_INIT),
                              lambda x: _sage(x, A / np.maximum(A.sum(1, keepdims=True), 1), False)),
    "ChebConv": (ChebConv(16, 3, norm="row", bias=False, **W_INIT), _chebyshev),
}


@pytest.mark.parametrize("name", OF_GRAPHS)
def test_graphs(name):
    layer, formula = OF_GRAPHS[name]
    x = drawn(5, 6)
    np.testing.assert_allclose(np.stack(layer.kernel(x, graph=GRAPH)), np.stack(formula(x)), 1e-4, 1e-5)
    deep = serial(layer, Relu, layer)
    assert np.all(np.linalg.eigvalsh(deep.kernel(x, graph=GRAPH, get="ntk")) > -1e-3)


MASK = np.arange(5) < np.array([[5], [3]])
GRADIENTS = {
    "convolutions": (serial(C, Relu, xnn.AvgPool((2, 2)), C, xnn.ExactGelu, xnn.GlobalAvgPool(), D), (2, 4, 5, 2), {}),
    "transposed": (serial(xnn.ConvTranspose(8, (3,), strides=2, **W), Relu, xnn.Flatten, D), (2, 4, 2), {}),
    "local": (serial(xnn.ConvLocal(8, (3,), **W), Relu, xnn.GlobalSumPool()), (2, 5, 2), {}),
    "resized": (serial(Conv(8, (3,), **W), xnn.Upsample(size=7, method="linear"), Relu, xnn.Flatten, D), (2, 5, 2), {}),
    "masked": (serial(xnn.MaskRows(), Conv(8, (3,), **W), Relu, xnn.GlobalAvgPool(), D), (2, 5, 2),
               {"row_mask": MASK}),
    "norms": (serial(D, xnn.LayerNorm(), Relu, D, xnn.RMSNorm(), xnn.Erf(), xnn.LayerScale(0.3), D), ROWS, {}),
    "branches": (serial(D, xnn.FanOut(2), xnn.parallel(serial(Relu, D), serial(xnn.Sin(), D)), xnn.FanInProd, D), ROWS,
                 {}),
    "PReLU and a gate": (serial(D, xnn.PReLU(per_feature=True), D, xnn.ReGLU, D), ROWS, {}),
    "attention": (serial(xnn.LimitAttention(16, 4, **W), Relu, xnn.GlobalAvgPool(), D), (2, 5, 3), {}),
    "attention, Gaussian products": (serial(xnn.LimitAttention(16, 4, scaling="root", weights="identity", **W),
                                            xnn.GlobalAvgPool(), D), (2, 5, 3), {}),
    "graph": (serial(GIN(serial(D, Relu, D)), Relu, GraphSAGE(16, **W_INIT)), (5, 6), {"graph": GRAPH}),
}


@pytest.mark.parametrize("name", one_in(3, GRADIENTS))
def test_gradients(name):
    model, shape, extra = GRADIENTS[name]
    with xjax.enable_x64(True):
        x, direction = np.random.default_rng(2).normal(size=(2, *shape))
        loss = xjax.jit(lambda x: sum(jnp.sum(jnp.log1p(kernel**2)) for kernel in model.kernel(x, **extra)))
        # Central differences of a step h have an error of h**2 = 1e-10 and rounding of 1e-16 / h = 1e-11.
        expected = (loss(x + 1e-5 * direction) - loss(x - 1e-5 * direction)) / 2e-5
        np.testing.assert_allclose(np.sum(xjax.grad(loss)(x) * direction), expected, 1e-5)


REFUSED = {
    "one weight of the node": (lambda x: GIN(serial(D), train_eps=True).kernel(x, graph=GRAPH), ValueError,
                               ["GIN.kernel: one weight of the node", 'get="nngp"']),
    "largest neighbour": (lambda x: GraphSAGE(4, "max").kernel(x, graph=GRAPH), ValueError,
                          ["GraphSAGE.kernel", "max", 'GraphSAGE(n_out, "mean")']),
    "StochasticDepth in training": (lambda x: serial(D, xnn.StochasticDepth(0.1)).kernel(x, train=True), ValueError,
                                    ["StochasticDepth.kernel: the layer has a kernel in evaluation only"]),
    "Dropout of features": (lambda x: serial(D, xnn.Dropout(0.1, broadcast=0)).kernel(x, train=True), ValueError,
                            ["Dropout.kernel: the layer has a kernel in evaluation only"]),
    "RReLU in training": (lambda x: serial(D, xnn.RReLU()).kernel(x, train=True), ValueError, ["RReLU.kernel"]),
    "several output axes": (lambda x: xnn.DenseGeneral((2, 3)).kernel(x), ValueError,
                            ["DenseGeneral.kernel: there is a kernel only for maps of the features"]),
    "mixed shape": (lambda x: serial(D, xnn.Reshape(8, 8)).kernel(x), ValueError,
                    ["Reshape.kernel: a new shape that mixes", "64, then 8"]),
    "odd features of a gate": (lambda x: serial(Dense(3), xnn.GLU).kernel(x), ValueError, ["GLU: the number of"]),
    "wrong mask": (lambda x: serial(D, xnn.MaskRows()).kernel(x, row_mask=np.ones(3, bool)), TypeError,
                   ["MaskRows: the mask must have one bool", "bool[3]"]),
    "wrong mask of a pool": (lambda x: serial(Conv(4, (3,)), xnn.GlobalAvgPool()).kernel(
        np.ones((2, 5, 3), np.float32), row_mask=np.ones((2, 5))), TypeError,
        ["GlobalAvgPool: the mask must have one bool", "bool[2,5]"]),
    "initializer of a scale": (lambda x: serial(D, xnn.Scale(init=normal())).kernel(x), TypeError,
                               ["Scale.kernel: the layer has no kernel"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, kind, texts = REFUSED[name]
    assert_refused(lambda: call(drawn(5, 6)), kind, texts)


def test_a_pool_ignores_padding():
    x, mask = drawn(2, 5, 3), np.arange(5) < np.array([[3], [0]])
    for layer, expected in ((xnn.GlobalAvgPool(), x[0, :3].mean(0)), (xnn.GlobalSumPool(), x[0, :3].sum(0)),
                            (xnn.GlobalMaxPool(), x[0, :3].max(0))):
        np.testing.assert_allclose(layer.apply((), x, mask), [expected, np.zeros(3)], 1e-6)
        padded = np.where(mask[..., None], x, np.nan)
        np.testing.assert_allclose(layer.apply((), padded, row_mask=mask), [expected, np.zeros(3)], 1e-6)
        gradient = xjax.grad(lambda x, layer=layer: layer.apply((), x, row_mask=mask).sum())(padded)
        assert np.all(np.isfinite(gradient)) and not np.any(gradient[1])


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * ("," in name)) for name in LAYERS])
def test_every_layer_has_a_kernel_or_names_itself(name):
    """Its kernel on inputs, or an error that names a layer or the kernel, and has a remedy."""
    row = LAYERS[name]
    x, extra = draw(row)
    try:
        kernels = row.layer.kernel(x, **extra)
    except (TypeError, ValueError, AttributeError) as err:
        first, *_, last = str(err).splitlines()
        assert "kernel" in first and last.startswith("  fix: ")
    else:
        assert all(np.isfinite(kernel).all() for kernel in kernels)


@pytest.mark.parametrize("model, x, message", [
    (ViT(ViTConfig(image=8, patch=4, classes=3, layers=1, features=16, hidden=32, heads=2)), drawn(2, 8, 8, 3),
     "a function of arrays was applied to a kernel"),
    (xnn.composite(lambda layers, x: layers.body(x.reshape(-1, 4)), body=D), drawn(2, 2, 2), "attribute `reshape`"),
    (xnn.composite(lambda layers, x: layers.body(x)[:, 0], body=D), drawn(2, 3), "a function of arrays"),
    (xnn.composite(lambda layers, x: jnp.tanh(layers.body(x)), body=D), drawn(2, 3), "a function of arrays"),
    (serial(D, xnn.MultiHeadAttention(64, 2)), drawn(2, 3, 4), "MultiHeadAttention.kernel: the softmax"),
    (xnn.switch(D, D), drawn(2, 3), "switch.kernel: the layer has no kernel"),
    (xnn.LSTM(4), drawn(2, 3, 4), "LSTM.kernel: the layer has no kernel"),
])
def test_functions_of_arrays_and_layers_without_a_kernel(model, x, message):
    extra = {"index": 0} if "index" in model.extra_inputs else {}
    assert_refused(lambda: model.kernel(x, **extra), (TypeError, AttributeError), message)
