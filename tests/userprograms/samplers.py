"""Markov chains and other samplers."""

from functools import partial
from typing import NamedTuple


def metropolis_random_walk(jax):
    jnp, lax, random = jax.numpy, jax.lax, jax.random

    def logp(x):
        return -0.5 * jnp.sum(x**2)

    def step(x, key):
        k1, k2 = random.split(key)
        proposal = x + 0.5 * random.normal(k1, x.shape)
        accept = jnp.log(random.uniform(k2)) < logp(proposal) - logp(x)
        x = jnp.where(accept, proposal, x)
        return x, (x, accept)

    x, (chain, accepted) = lax.scan(step, jnp.zeros(2), random.split(random.PRNGKey(0), 50))
    return x, chain.mean(0), accepted.mean(), accepted.sum()


def hamiltonian_monte_carlo(jax):
    jnp, lax, random = jax.numpy, jax.lax, jax.random
    potential = lambda q: 0.5 * q @ jnp.diag(jnp.array([1., 4.])) @ q
    energy_grad = jax.grad(potential)

    @jax.jit
    def step(q, key):
        mk, uk = random.split(key)
        p0 = random.normal(mk, q.shape)

        def leapfrog(i, state):
            q, p = state
            p = p - 0.05 * energy_grad(q)
            q = q + 0.1 * p
            return q, p - 0.05 * energy_grad(q)
        q1, p1 = lax.fori_loop(0, 5, leapfrog, (q, p0))
        h0, h1 = potential(q) + p0 @ p0 / 2, potential(q1) + p1 @ p1 / 2
        return lax.select(random.uniform(uk) < jnp.exp(h0 - h1), q1, q), h1 - h0

    q, keys = jnp.ones(2), random.split(random.key(1), 3)
    for i in range(3):
        q, error = step(q, keys[i])
    return q, error


class _ChainState(NamedTuple):
    position: object
    log_density: object
    step_size: object


def langevin_with_named_state(jax):
    jnp, random = jax.numpy, jax.random
    log_density = lambda x: -jnp.sum(jnp.logaddexp(x**2, 1.0))

    def kernel(state, key):
        value, grad = jax.value_and_grad(log_density)(state.position)
        noise = random.normal(key, state.position.shape)
        x = state.position + state.step_size * grad + jnp.sqrt(2 * state.step_size) * noise
        return state._replace(position=x, log_density=value), x

    init = _ChainState(jnp.array([1., -1., 2.]), jnp.float32(-jnp.inf), 0.1)
    return jax.lax.scan(kernel, init, random.split(random.PRNGKey(3), 4))


def gibbs_bivariate_normal(jax):
    jnp, random = jax.numpy, jax.random
    rho = 0.8

    def sweep(carry, i):
        key, x, y = carry
        key, kx, ky = random.split(key, 3)
        x = rho * y + jnp.sqrt(1 - rho**2) * random.normal(kx)
        y = rho * x + jnp.sqrt(1 - rho**2) * random.normal(ky)
        return (key, x, y), jnp.stack([x, y])

    (key, *_), draws = jax.lax.scan(sweep, (random.PRNGKey(2), 0.0, 0.0), jnp.arange(64))
    return jnp.cov(draws.T), jnp.corrcoef(draws, rowvar=False), key


def gumbel_max_trick(jax):
    jnp, random = jax.numpy, jax.random
    logits = jnp.log(jnp.array([0.1, 0.2, 0.7]))
    key = random.PRNGKey(9)
    a = random.categorical(key, logits, shape=(20,))
    b = jnp.argmax(logits + random.gumbel(key, (20, 3)), axis=-1)
    return a, b, jnp.bincount(a, length=3), (a == b).all()


def rejection_sampling_in_a_while_loop(jax):
    jnp, lax, random = jax.numpy, jax.lax, jax.random

    def body(state):
        key, _, _, n = state
        key, sub = random.split(key)
        xy = random.uniform(sub, (2,), minval=-1, maxval=1)
        return key, xy, jnp.sum(xy**2) <= 1., n + 1

    sample = lambda key: lax.while_loop(lambda s: ~s[2], body, (key, jnp.zeros(2), False, 0))
    _, xy, ok, n = jax.vmap(sample)(random.split(random.PRNGKey(4), 5))
    return xy, ok, n


def importance_sampling_with_effective_size(jax):
    jnp, random, stats = jax.numpy, jax.random, jax.scipy.stats
    x = random.t(random.PRNGKey(0), df=5, shape=(200,))
    logw = stats.norm.logpdf(x, loc=0.5) - stats.t.logpdf(x, df=5)
    w = jax.nn.softmax(logw)
    mean = jnp.average(x, weights=w)
    return mean, jnp.average(x**2, weights=w, returned=True), 1 / jnp.sum(w**2), jax.scipy.special.logsumexp(logw, b=x)


def parallel_tempering(jax):
    jnp, random = jax.numpy, jax.random
    betas = jnp.geomspace(1.0, 0.1, num=4)
    energy = lambda x: (x**2 - 4)**2

    def step(carry, key):
        x, swaps = carry
        k1, k2, k3 = random.split(key, 3)
        y = x + random.normal(k1, x.shape) * 0.7
        x = jnp.where(random.exponential(k2, x.shape) > betas * (energy(y) - energy(x)), y, x)
        i = random.randint(k3, (), 0, 3)
        gain = (betas[i] - betas[i + 1]) * (energy(x[i]) - energy(x[i + 1]))
        swap = gain > 0
        x = jax.lax.cond(swap, lambda x: x.at[i].set(x[i + 1]).at[i + 1].set(x[i]), lambda x: x, x)
        return (x, swaps + swap), x[0]
    return jax.lax.scan(step, (jnp.full(4, 2.0), 0), random.split(random.key(11), 10))


def slice_sampler(jax):
    jnp, lax, random = jax.numpy, jax.lax, jax.random
    logf = lambda x: -jnp.abs(x)

    def sample(x, key):
        ku, kl, ks = random.split(key, 3)
        height = logf(x) + jnp.log1p(-random.uniform(ku))
        left = x - random.uniform(kl)
        left = lax.while_loop(lambda x: logf(x) > height, lambda x: x - 1, left)
        right = lax.while_loop(lambda r: logf(r) > height, lambda r: r + 1, left + 1)

        def shrink(s):
            lo, hi, y, k = s
            k, sub = random.split(k)
            y = random.uniform(sub, minval=lo, maxval=hi)
            return jnp.where(y < x, y, lo), jnp.where(y >= x, y, hi), y, k
        _, _, y, _ = lax.while_loop(lambda s: logf(s[2]) < height, shrink, (left, right, jnp.inf, ks))
        return y, y
    return lax.scan(sample, 0.5, random.split(random.PRNGKey(8), 6))


def stochastic_gradient_langevin(jax):
    jnp, random = jax.numpy, jax.random
    data = random.normal(random.PRNGKey(0), (40, 3))

    @partial(jax.jit, static_argnames=("batch",))
    def update(theta, key, *, batch):
        k1, k2 = random.split(key)
        rows = random.choice(k1, data, (batch,), replace=False)
        g = jax.grad(lambda t: jnp.mean(optional(rows - t)) )(theta)
        return jax.tree.map(lambda t, g: t - 0.1 * g + 0.01 * random.normal(k2, t.shape, t.dtype), theta, g)

    def optional(r):
        return 0.5 * jnp.einsum("ni,ni->n", r, r)
    theta = jnp.zeros(3)
    for i in range(3):
        theta = update(theta, random.fold_in(random.PRNGKey(1), i), batch=8)
    return theta


def elliptical_slice_angle(jax):
    jnp, random = jax.numpy, jax.random
    cov = jnp.array([[1.0, 0.3], [0.3, 0.5]])
    nu = random.multivariate_normal(random.key(5), jnp.zeros(2), cov, shape=(3,))
    theta = random.uniform(random.key(6), (3, 1), maxval=2 * jnp.pi)
    f = jnp.ones((3, 2))
    new = f * jnp.cos(theta) + nu * jnp.sin(theta)
    return new, jax.scipy.stats.multivariate_normal.logpdf(new, jnp.zeros(2), cov), jnp.rad2deg(theta)


def stratified_and_antithetic(jax):
    jnp, random, norm = jax.numpy, jax.random, jax.scipy.stats.norm
    n = 32
    u = (jnp.arange(n) + random.uniform(random.PRNGKey(1), (n,))) / n
    z = norm.ppf(u)
    anti = norm.ppf(1 - u)
    f = lambda z: jnp.maximum(jnp.exp(0.2 * z) - 1, 0)
    return f(z).mean(), 0.5 * (f(z) + f(anti)).var(ddof=1), norm.cdf(z) - u, norm.isf(u[:3]), norm.sf(z[:3])


def bootstrap_confidence_interval(jax):
    jnp, random = jax.numpy, jax.random
    x = random.gamma(random.PRNGKey(0), 2.0, (30,))

    @jax.vmap
    def resample(key):
        return jnp.median(random.choice(key, x, x.shape))
    medians = resample(random.split(random.PRNGKey(1), 50))
    return jnp.percentile(medians, jnp.array([2.5, 50, 97.5])), jnp.quantile(medians, 0.9, method="nearest")


def halton_sequence(jax):
    jnp = jax.numpy

    def radical_inverse(i, base):
        def body(s):
            i, f, r = s
            f = f / base
            return i // base, f, r + f * (i % base)
        return jax.lax.while_loop(lambda s: s[0] > 0, body, (i, 1.0, 0.0))[2]
    points = jax.vmap(jax.vmap(radical_inverse, (None, 0)), (0, None))(jnp.arange(1, 10), jnp.array([2, 3]))
    return points, jnp.sort(points, axis=0), jnp.histogramdd(points, bins=3, range=[(0, 1), (0, 1)])[0]


def dirichlet_and_beta_moments(jax):
    jnp, random = jax.numpy, jax.random
    d = random.dirichlet(random.PRNGKey(0), jnp.array([1., 2., 3.]), (6,))
    m = random.multinomial(random.PRNGKey(2), 10, d)
    return d.shape, d.sum(-1), jax.scipy.stats.dirichlet.logpdf(d[0], jnp.array([1., 2., 3.])), m.sum(-1), m.dtype


def permutations_and_choices(jax):
    jnp, random = jax.numpy, jax.random
    key = random.key(0)
    x = jnp.arange(12).reshape(3, 4)
    return (random.permutation(key, 7), random.permutation(key, x, axis=1), random.permutation(key, x,
                                                                                               independent=True),
            random.choice(key, 5, (3,), replace=False), random.choice(key, 5, p=jnp.array([0, 0, 1., 0, 0])),
            random.choice(key, x, (2,), axis=1))


def effective_sample_size_by_fft(jax):
    jnp, random = jax.numpy, jax.random
    x = jnp.cumsum(random.rademacher(random.PRNGKey(0), (128,), dtype=jnp.float32)) * 0.1
    x = x - x.mean()
    f = jnp.fft.rfft(x, n=256)
    acov = jnp.fft.irfft(f * jnp.conj(f))[:128] / 128
    rho = acov / acov[0]
    first_negative = jnp.argmax(rho < 0)
    return rho[:10], first_negative, jnp.where(jnp.arange(128) < first_negative, rho, 0).sum() * 2 - 1


def annealed_weights(jax):
    jnp, random = jax.numpy, jax.random
    temperatures = jnp.linspace(0, 1, 5)

    def one(key):
        x = random.normal(key) * 3
        increments = jnp.diff(temperatures) * (-(x - 1)**2)
        return jnp.cumsum(increments), x
    weights, xs = jax.jit(jax.vmap(one))(random.split(random.PRNGKey(42), (2, 3)).reshape(6, 2))
    return weights, jax.nn.logsumexp(weights[:, -1]) - jnp.log(xs.size), jax.nn.log_softmax(weights, axis=0)


def walker_alias_table(jax):
    jnp, random = jax.numpy, jax.random
    p = jnp.array([0.1, 0.4, 0.25, 0.25])
    cdf = jnp.cumsum(p)
    u = random.uniform(random.PRNGKey(0), (4, 5))
    index = jnp.searchsorted(cdf, u)
    return index, jnp.take(p, index), jnp.digitize(u, cdf), jnp.unique_counts(index)
