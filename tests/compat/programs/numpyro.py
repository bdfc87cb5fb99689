"""NumPyro: variational inference, NUTS, and samples of a model with plates."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

KEY = jax.random.key(0)
X = jax.random.normal(KEY, (20, 2))
Y = X @ jnp.array([1.0, -1.0]) + 0.5


def model(x, y=None):
    w = numpyro.sample("w", dist.Normal(jnp.zeros(2), 1.0).to_event(1))
    bias = numpyro.sample("bias", dist.StudentT(3.0, 0.0, 1.0))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with numpyro.plate("data", len(x)):
        return numpyro.sample("y", dist.Normal(x @ w + bias, scale), obs=y)


def variational():
    svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.05), Trace_ELBO(2))
    state, update = svi.init(KEY, X, Y), jax.jit(svi.update)
    for _ in range(20):
        state, value = update(state, X, Y)
        yield value


def chain():
    mcmc = MCMC(NUTS(model, step_size=0.05, adapt_step_size=False, adapt_mass_matrix=False), num_warmup=2,
                num_samples=18, progress_bar=False)
    mcmc.run(KEY, X, Y)
    yield from mcmc.get_samples()["w"][:3, 0]


def predictive():
    samples = Predictive(model, num_samples=20)(KEY, X)
    yield from samples["y"].mean(1)


PROGRAMS = [variational, chain, predictive]
