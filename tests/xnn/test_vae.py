"""The variational autoencoder: its value, draws in training, the bound in training, new examples."""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
import xnn
from tests.compare import assert_close
from tests.refusals import assert_refused
from xjax import lax, nn, random
from xnn import RowKey, losses
from xnn.models import VAE, VAEConfig

MODEL = VAE(VAEConfig(shape=(4, 4), code=2, hidden=(16,)))
X = random.uniform(random.key(1), (6, 4, 4))


@pytest.fixture(scope="module")
def params():
    return MODEL.init(random.key(0), (-1, 4, 4))[1]


def test_value(params):
    p = xjax.tree.map(np.float64, params)
    affine = lambda p, x: x @ p["w"] + p["b"]
    h = np.maximum(affine(p["encoder"][1], np.float64(X).reshape(6, 16)), 0)
    mean, log_variance = affine(p["mean"], h), affine(p["log_variance"], h)
    outputs = affine(p["decoder"][2], np.maximum(affine(p["decoder"][0], mean), 0)).reshape(6, 4, 4)
    assert_close(MODEL.apply(params, X), (outputs, mean, log_variance), tol=0.125)


def test_codes_are_drawn_from_the_encoded_distribution():
    sample = MODEL.layers["sample"]
    mean, log_variance = jnp.full((20_000, 1), 2.0), jnp.full((20_000, 1), -1.0)
    z = sample.apply((), (mean, log_variance), rng=random.key(0), train=True)
    # Standard errors of the mean and the deviation of 20 000 numbers with deviation 0.6: 0.004 and 0.003.
    np.testing.assert_allclose([np.mean(z), np.std(z)], [2.0, np.exp(-0.5)], atol=0.02)


def test_draws_of_rows_do_not_depend_on_the_block(params):
    whole = MODEL.apply(params, X, rng=RowKey(random.key(0), 0), train=True)[0]
    block = MODEL.apply(params, X[4:], rng=RowKey(random.key(0), 4), train=True)[0]
    np.testing.assert_allclose(block, whole[4:], rtol=1e-5, atol=1e-6)
    other = MODEL.apply(params, X, rng=random.key(3), train=True)[0]
    assert not np.allclose(whole, other)


@pytest.mark.slow
def test_training_raises_the_bound_and_decodes_new_examples(params):
    bars = jnp.concatenate([jnp.eye(4)[:, :, None] * jnp.ones((4, 4, 4)), jnp.eye(4)[:, None] * jnp.ones((4, 4, 4))])
    tx = xnn.optim.adam(1e-2)

    def step(state, key):
        params, opt = state

        def loss(params):
            outputs, mean, log_variance = MODEL.apply(params, bars, rng=key, train=True)
            return losses.negative_elbo(outputs, bars, mean, log_variance)

        value, grads = xjax.value_and_grad(loss)(params)
        updates, opt = tx.update(grads, opt, params)
        return (xnn.optim.apply_updates(params, updates), opt), value

    (trained, _), values = xjax.jit(lambda state: lax.scan(step, state, random.split(random.key(1), 500)))(
        (params, tx.init(params)))
    assert values[0] > 10 and np.mean(values[-50:]) < 7            # 16 log 2 = 11.1 at first; log 8 = 2.1 at best
    z = random.normal(random.key(2), (3, 2))
    assert nn.sigmoid(MODEL.layers["decoder"].apply(trained["decoder"], z)).shape == (3, 4, 4)


KEY = random.key(0)
WRONG = {
    "shape": (lambda: MODEL.init(KEY, (2, 5, 4)), TypeError, ["VAE: the examples do not have the shape", "(4, 4)"]),
    "rng": (lambda: MODEL.apply(MODEL.init(KEY, (-1, 4, 4))[1], X, train=True), TypeError,
            ["VAE: training draws a code", "rng"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name):
    assert_refused(*WRONG[name])
