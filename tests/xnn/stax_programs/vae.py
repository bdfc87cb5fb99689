"""A variational auto-encoder: two heads on one body, and an epoch as a loop that draws its noise on the device."""

import jax.numpy as jnp
from jax import jit, lax, random, value_and_grad
from jax.example_libraries import optimizers, stax
from jax.example_libraries.stax import Dense, FanOut, Relu, Softplus

encoder_init, encode = stax.serial(
    Dense(32), Relu, Dense(32), Relu, FanOut(2), stax.parallel(Dense(4), stax.serial(Dense(4), Softplus)))
decoder_init, decode = stax.serial(Dense(32), Relu, Dense(32), Relu, Dense(48))


def gaussian_kl(mu, sigmasq):
    return -0.5 * jnp.sum(1.0 + jnp.log(sigmasq) - mu ** 2.0 - sigmasq)


def bernoulli_logpdf(logits, x):
    return -jnp.sum(jnp.logaddexp(0.0, jnp.where(x, -1.0, 1.0) * logits))


def elbo(rng, params, images):
    enc_params, dec_params = params
    mu_z, sigmasq_z = encode(enc_params, images)
    sample = mu_z + jnp.sqrt(sigmasq_z) * random.normal(rng, mu_z.shape)
    return bernoulli_logpdf(decode(dec_params, sample), images) - gaussian_kl(mu_z, sigmasq_z)


def main():
    batch_size, num_batches = 16, 4
    enc_init_rng, dec_init_rng = random.split(random.PRNGKey(2))
    _, init_enc_params = encoder_init(enc_init_rng, (batch_size, 48))
    _, init_dec_params = decoder_init(dec_init_rng, (batch_size, 4))
    images = random.uniform(random.PRNGKey(1), (batch_size * num_batches, 48))

    opt_init, opt_update, get_params = optimizers.adam(optimizers.inverse_time_decay(3e-3, 10, 0.5))

    def binarize_batch(rng, i):
        batch = lax.dynamic_slice_in_dim(images, i * batch_size, batch_size)
        return random.bernoulli(rng, batch)

    @jit
    def run_epoch(rng, opt_state, first):
        def body_fun(i, carry):
            opt_state, total = carry
            elbo_rng, data_rng = random.split(random.fold_in(rng, i))
            batch = binarize_batch(data_rng, i)
            value, grads = value_and_grad(lambda params: -elbo(elbo_rng, params, batch) / batch_size)(
                get_params(opt_state))
            return opt_update(first + i, grads, opt_state), total + value

        return lax.fori_loop(0, num_batches, body_fun, (opt_state, 0.0))

    opt_state, losses = opt_init((init_enc_params, init_dec_params)), []
    for epoch in range(5):
        opt_state, total = run_epoch(random.PRNGKey(epoch), opt_state, epoch * num_batches)
        losses.append(float(total) / num_batches)
    return losses
