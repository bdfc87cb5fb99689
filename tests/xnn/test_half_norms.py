"""Norm layers and norms of gradients in float16, for numbers whose squares overflow it."""

import numpy as np
import pytest

import xjax.numpy as jnp
import xnn
from xjax import random

X = np.where(np.arange(16) % 2, -300, 300).astype(np.float16).reshape(1, 2, 8)


@pytest.mark.parametrize("layer", [
    xnn.LayerNorm(scale=False, bias=False), xnn.RMSNorm(scale=False), xnn.GroupNorm(2, scale=False, bias=False),
    xnn.InstanceNorm()],
                         ids=lambda layer: layer.name)
def test_norm_layers(layer):
    _, params = layer.init(random.PRNGKey(0), X.shape)
    y = layer.apply(params, jnp.asarray(X))
    want = 0 * X if layer.name == "InstanceNorm" else np.sign(X)
    np.testing.assert_allclose(np.asarray(y, np.float32), want, atol=1e-3)


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
def test_batch_norm_keeps_half_precision(dtype):
    """In evaluation too, so that a model whose parameters are cast can be applied."""
    model = xnn.serial(xnn.Conv(4, (1,)), xnn.BatchNorm(), xnn.Conv(2, (1,)))
    shape, state = X.shape, model.init_state(X.shape)
    params = xnn.params.cast(model.init(random.PRNGKey(0), shape)[1], dtype)
    for train in (False, True):
        y, _ = model.apply_with_state(params, state, jnp.asarray(X, dtype), train=train)
        assert y.dtype == jnp.dtype(dtype) and np.all(np.isfinite(np.asarray(y, np.float32)))


def test_norm_and_clipping_of_gradients():
    tree = {"w": jnp.asarray(X), "b": jnp.full(3, 300, jnp.float16)}
    assert float(xnn.optimizers.l2_norm(tree)) == pytest.approx(300 * 19 ** 0.5)
    clipped = xnn.optimizers.clip_grads(tree, 1.0)
    assert clipped["w"].dtype == jnp.float16
    np.testing.assert_allclose(np.abs(np.asarray(clipped["w"], np.float32)), 19 ** -0.5, rtol=1e-3)
    nothing = xnn.optimizers.clip_grads([jnp.zeros(2)], 0.0)                # a schedule of the norm may end at 0
    assert not np.any(nothing[0])
