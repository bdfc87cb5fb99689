"""Distrax: samples and densities, a flow trained by its likelihood, and a hidden Markov model."""

import distrax
import jax
import jax.numpy as jnp

KEY = jax.random.key(0)


def densities():
    for d in (distrax.Normal(0.0, 2.0), distrax.Gamma(2.0, 3.0), distrax.Beta(2.0, 1.0), distrax.Laplace(0.0, 1.0),
              distrax.MixtureSameFamily(distrax.Categorical(jnp.zeros(2)), distrax.Normal(jnp.arange(2.0), 1.0)),
              distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2)), distrax.Dirichlet(jnp.arange(1.0, 4.0))):
        x = d.sample(seed=KEY, sample_shape=(3,))
        yield d.log_prob(x).sum()
    yield distrax.Categorical(jnp.arange(3.0)).entropy()
    yield distrax.Normal(0.0, 1.0).kl_divergence(distrax.Normal(1.0, 2.0))


def flow():
    def loss(w):
        bijector = distrax.Chain([distrax.ScalarAffine(w[0], log_scale=w[1]), distrax.Tanh(),
                                  distrax.Inverse(distrax.ScalarAffine(w[2], log_scale=w[3]))])
        d = distrax.Transformed(distrax.Normal(0.0, 1.0), bijector)
        x, density = d.sample_and_log_prob(seed=KEY, sample_shape=(16,))
        return jnp.mean(density + x ** 2)

    w, step = jnp.array([0.1, 0.2, 0.3, 0.1]), jax.jit(jax.value_and_grad(loss))
    for _ in range(20):
        value, g = step(w)
        w = w - 0.05 * g
        yield value


def hidden_markov():
    model = distrax.HMM(distrax.Categorical(probs=jnp.ones(2) / 2), distrax.Categorical(
        probs=jnp.array([[0.9, 0.1], [0.2, 0.8]])), distrax.Normal(jnp.array([0.0, 2.0]), 1.0))
    states, observed = model.sample(seed=KEY, seq_len=10)
    yield observed.sum()
    yield model.forward(observed)[1].sum()
    yield model.viterbi(observed).sum()


PROGRAMS = [densities, flow, hidden_markov]
