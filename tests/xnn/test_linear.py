"""The linear family and `lambda_` beyond the table: open sizes, initial weights, inferred shapes."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from xjax import nn
from xnn import Bias, Bilinear, Dense, DenseGeneral, Einsum, Scale, lambda_


@pytest.mark.parametrize("layer, in_shape, out", [
    (DenseGeneral((2, 3)), (-1, -1, 5), (-1, -1, 2, 3)),
    (DenseGeneral(4, (-2, -1)), (-1, -1, 2, 3), (-1, -1, 4)),
    (DenseGeneral(4, 1), (-1, 5, -1), (-1, -1, 4)),
    (Einsum("...d,dhk->...hk", (5, 2, 3)), (-1, -1, 5), (-1, -1, 2, 3)),
    (Einsum("bd,dk->kb", (5, 2), bias=False), (-1, 5), (2, -1)),
    (Bias(), (-1, -1, 3), (-1, -1, 3)),
    (Scale(1), (-1, 2, -1), (-1, 2, -1)),
    (xnn.SwiGLU, (-1, -1, 6), (-1, -1, 3)),
    (xnn.SqueezeExcite(), (-1, -1, -1, 6), (-1, -1, -1, 6)),
    (xnn.PReLU(), (-1, -1), (-1, -1)),
], ids=lambda value: value.name if isinstance(value, xnn.Layer) else "")
def test_open_sizes(layer, in_shape, out, key):
    shape, params = layer.init(key, in_shape)
    assert shape == out
    x = np.ones([4 if n < 0 else n for n in in_shape], np.float32)
    assert layer.apply(params, x).shape == tuple(4 if n < 0 else n for n in out)


def test_dense_general_of_the_last_axis_is_dense(key):
    one, general = Dense(3).init(key, (-1, 5))[1], DenseGeneral(3).init(key, (-1, 5))[1]
    np.testing.assert_array_equal(one["w"], general["w"])


@pytest.mark.parametrize("layer, in_shape", [
    (DenseGeneral((20, 30), (-2, -1)), (-1, 40, 10)),
    (Einsum("bij,ijkl->bkl", (40, 10, 20, 30)), (-1, 40, 10)),
    (Einsum("gbi,gio->gbo", (3, 400, 600)), (3, -1, 400)),
], ids=["DenseGeneral", "Einsum", "groups"])
def test_weights_are_glorot_uniform_of_the_map(layer, in_shape, key):
    w = np.asarray(layer.init(key, in_shape)[1]["w"])
    limit = np.sqrt(6 / 1000)
    assert np.abs(w).max() <= limit
    np.testing.assert_allclose(w.var(), limit**2 / 3, rtol=0.02)


def test_bilinear_weights_are_those_of_pytorch(key):
    w = np.asarray(Bilinear(20).init(key, (-1, 100), (-1, 30))[1]["w"])
    assert 0.099 < np.abs(w).max() <= 0.1
    np.testing.assert_allclose(w.var(), 0.01 / 3, rtol=0.02)


def test_bilinear_within_a_composite(key):
    model = xnn.serial(Dense(4), Bilinear(2))
    shape, params = model.init(key, (3, 5), other=(3, 6))
    assert shape == (3, 2) and params[1]["w"].shape == (4, 6, 2)
    assert model.apply(params, jnp.ones((3, 5)), jnp.ones((3, 6))).shape == (3, 2)


def test_initial_scale_and_bias(key):
    params = Scale(init=nn.initializers.constant(1e-6)).init(key, (-1, 3))[1]
    np.testing.assert_allclose(params["scale"], 1e-6)
    np.testing.assert_array_equal(Bias().init(key, (-1, 3))[1]["b"], 0)


@pytest.mark.parametrize("layer, is_positionwise", [
    (Einsum("...d,dhk->...hk", (5, 2, 3)), True),
    (Einsum("bthk,hkd->btd", (2, 3, 5)), True),
    (Einsum("btd,ts->bsd", (4, 4)), False),
    (DenseGeneral(3, (-2, -1)), True),
    (DenseGeneral(3, 1), False),
    (Bias(1), False),
    (lambda_(lambda x: x[:, ::-1]), False),
    (lambda_(lambda x: 2 * x, positionwise=True), True),
], ids=lambda value: repr(value) if isinstance(value, xnn.Layer) else "")
def test_layers_know_whether_they_combine_positions(layer, is_positionwise):
    assert layer.positionwise == is_positionwise


# -- lambda_ ------------------------------------------------------------------------------------------------------


def test_lambda_infers_open_sizes(key):
    assert lambda_(lambda x: x.reshape(len(x), -1)).init(key, (-1, 4, 5))[0] == (-1, 20)
    assert lambda_(lambda x: jnp.concatenate([x, x], 1)).init(key, (2, -1))[0] == (2, -1)
    assert lambda_(lambda xs: xs[0] + xs[1]).init(key, ((-1, 3), (-1, 3)))[0] == (-1, 3)
    assert lambda_(lambda ids: nn.one_hot(ids, 7)).init(key, xjax.ShapeDtypeStruct((-1, 2), "int32"))[0] == (-1, 2, 7)


def test_lambda_takes_further_inputs_and_a_shape(key):
    def gather(x, index, scale=2.0):
        return scale * jnp.take_along_axis(x, index[:, None], 1)

    layer = lambda_(gather, lambda shape: (shape[0], 1))
    assert repr(layer) == "gather of (x, index, scale)"
    shape, params = xnn.serial(Dense(3), layer).init(key, (-1, 5))
    assert shape == (-1, 1)
    np.testing.assert_array_equal(layer.apply((), jnp.ones((2, 3)), jnp.array([0, 1])), 2)
    np.testing.assert_array_equal(layer.apply((), jnp.ones((2, 3)), scale=1.0, index=jnp.array([0, 1])), 1)
