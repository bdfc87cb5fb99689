"""Training as docs/kernels_tutorial.md predicts it, for more networks than the page trains.

Its kernel of a graph network on Cora is configs/kernel_cora.yaml, see tests/recipes/test_figures.py.
"""

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from xjax import lax, random
from xnn import Dense, Erf, serial
from xnn.kernels import gradient_descent_mse_ensemble, max_learning_rate, normal_weights

NETWORKS, WIDTH = 256, 512
X = np.array([-1.6, -1.1, -0.5, 0.2, 0.9, 1.5], np.float32)[:, None]
Y = np.sin(2 * X)
OTHERS = np.linspace(-2.5, 2.5, 21, dtype=np.float32)[:, None]
TIMES = np.unique(np.geomspace(1, 4096, 10).astype(int))


@pytest.mark.slow
def test_an_ensemble_trains_as_predicted(as_shipped):
    # The standard error of a mean over the networks is s / 16, that of a standard deviation is 4.4 %. The bound is 4 of
    # them. For the standard deviation it is 5 % more: 2 % for the finite steps, because (1 - 0.04)**t differs by
    # this much from exp(-0.04 t) where it is 1 / e, and the bias of the width, of order 1 / 512.
    weights = normal_weights(1.5, 0.1)
    model = serial(Dense(WIDTH, **weights), Erf(), Dense(1, **weights))
    rate = 0.02 * max_learning_rate(model.kernel(X, get="ntk"))
    gradient = xjax.grad(lambda params: jnp.mean((model.apply(params, X) - Y) ** 2) / 2)

    def trained(key):
        def step(_, params):
            return xjax.tree.map(lambda w, g: w - rate * g, params, gradient(params))

        def until_next(params, steps):
            params = lax.fori_loop(0, steps, step, params)
            return params, model.apply(params, OTHERS)[:, 0]

        return lax.scan(until_next, model.init(key, (-1, 1))[1], jnp.diff(TIMES, prepend=0))[1]

    outputs = np.asarray(xjax.jit(xjax.vmap(trained))(random.split(random.key(5), NETWORKS)))
    predict = gradient_descent_mse_ensemble(model, X, Y, learning_rate=rate)
    mean, covariance = predict(TIMES, OTHERS, "ntk", compute_cov=True)
    deviation = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    assert len(TIMES) == 10 and deviation.min() > 0.01
    errors = (outputs.mean(0) - mean[..., 0]) / (outputs.std(0, ddof=1) / np.sqrt(NETWORKS))
    assert np.abs(errors).max() < 4
    assert np.abs(outputs.std(0, ddof=1) / deviation - 1).max() < 4 / np.sqrt(2 * NETWORKS) + 0.05
