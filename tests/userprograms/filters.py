"""Kalman, particle and hidden Markov filters, and related algorithms."""

import dataclasses
from typing import Any, NamedTuple


class _Gaussian(NamedTuple):
    mean: Any
    cov: Any


def _system(jnp):
    F = jnp.array([[1., 1.], [0., 1.]])
    return F, jnp.eye(2) * 0.1, jnp.array([[1., 0.]]), jnp.eye(1) * 0.5


def kalman_filter(jax):
    jnp = jax.numpy
    F, Q, H, R = _system(jnp)
    observed = jnp.array([1., 2.1, 2.9, 4.2, 5.])[:, None]

    def step(belief, y):
        m, P = F @ belief.mean, F @ belief.cov @ F.T + Q
        S = H @ P @ H.T + R
        K = jnp.linalg.solve(S, H @ P).T
        new = _Gaussian(m + K @ (y - H @ m), P - K @ S @ K.T)
        return new, (new, jax.scipy.stats.multivariate_normal.logpdf(y, H @ m, S))
    last, (beliefs, loglik) = jax.lax.scan(step, _Gaussian(jnp.zeros(2), jnp.eye(2)), observed)
    return last, beliefs.mean, loglik.sum()


def rts_smoother(jax):
    jnp = jax.numpy
    F, Q, _, _ = _system(jnp)
    means = jnp.stack([jnp.arange(4.), jnp.ones(4)], axis=1)
    covs = jnp.broadcast_to(jnp.eye(2), (4, 2, 2))

    def back(later, now):
        ms, Ps = later
        m, P = now
        pred = F @ P @ F.T + Q
        G = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(pred), F @ P).T
        out = m + G @ (ms - F @ m), P + G @ (Ps - pred) @ G.T
        return out, out
    _, (sm, sP) = jax.lax.scan(back, (means[-1], covs[-1]), (means[:-1], covs[:-1]), reverse=True)
    return sm, jnp.trace(sP, axis1=1, axis2=2), jnp.linalg.slogdet(sP)


def extended_kalman_filter(jax):
    jnp = jax.numpy
    h = lambda x: jnp.array([jnp.hypot(x[0], x[1]), jnp.arctan2(x[1], x[0])])
    f = lambda x: x + 0.1 * jnp.roll(x, 1) * jnp.array([-1, 1])

    @jax.jit
    def step(m, P, y):
        F, H = jax.jacfwd(f)(m), jax.jacrev(h)(f(m))
        m, P = f(m), F @ P @ F.T
        S = H @ P @ H.T + 0.1 * jnp.identity(2)
        K = P @ H.T @ jnp.linalg.inv(S)
        return m + K @ (y - h(m)), (jnp.eye(2) - K @ H) @ P
    m, P = jnp.array([1., 1.]), jnp.eye(2)
    for y in jnp.array([[1.4, 0.8], [1.5, 0.9]]):
        m, P = step(m, P, y)
    return m, P, jnp.allclose(P, P.T, atol=1e-4)


def unscented_points(jax):
    jnp = jax.numpy
    m, P, n = jnp.array([1., 2.]), jnp.array([[2., .5], [.5, 1.]]), 2
    L = jnp.linalg.cholesky((n + 1) * P)
    points = jnp.concatenate([m[None], m + L.T, m - L.T])
    w = jnp.r_[1 / 3, jnp.full(4, 1 / 6)]
    y = jax.vmap(lambda x: jnp.sin(x) + x[::-1]**2)(points)
    mean = w @ y
    return points, mean, jnp.einsum("n,ni,nj->ij", w, y - mean, y - mean)


def ensemble_filter(jax):
    jnp, random = jax.numpy, jax.random
    X = random.normal(random.PRNGKey(0), (10, 3))
    H = jnp.eye(3)[:2]
    Y = X @ H.T
    Cxy = (X - X.mean(0)).T @ (Y - Y.mean(0)) / 9
    Cyy = jnp.cov(Y, rowvar=False) + 0.1 * jnp.eye(2)
    gain = jax.scipy.linalg.solve(Cyy, Cxy.T, assume_a="pos").T
    perturbed = jnp.array([1., 2.]) + 0.3 * random.normal(random.PRNGKey(1), Y.shape)
    return X + (perturbed - Y) @ gain.T


def bootstrap_particle_filter(jax):
    jnp, random, lax = jax.numpy, jax.random, jax.lax

    def step(particles, inputs):
        key, y = inputs
        k1, k2 = random.split(key)
        particles = 0.9 * particles + random.normal(k1, particles.shape)
        logw = jax.scipy.stats.norm.logpdf(y, particles, 0.7)
        keep = random.categorical(k2, logw, shape=particles.shape)
        return particles[keep], jax.nn.logsumexp(logw) - jnp.log(logw.shape[0])
    particles, evidence = lax.scan(step, jnp.zeros(30), (random.split(random.key(0), 4), jnp.array([.1, .5, 1.2, 1.])))
    return particles.mean(), evidence.sum(), evidence.dtype


def systematic_resampling(jax):
    jnp, random = jax.numpy, jax.random
    w = jnp.array([.1, .3, .05, .5, .05])
    positions = (random.uniform(random.PRNGKey(3)) + jnp.arange(5)) / 5
    index = jnp.searchsorted(jnp.cumsum(w), positions, side="right")
    return index, jnp.clip(index, 0, 4), jnp.bincount(index, length=5), jnp.repeat(jnp.arange(5), 2)[index]


def hmm_forward_backward(jax):
    jnp = jax.numpy
    A = jnp.array([[.9, .1], [.2, .8]])
    B = jnp.array([[.5, .4, .1], [.1, .3, .6]])
    obs = jnp.array([0, 1, 2, 2, 0])

    def forward(alpha, o):
        alpha = (alpha @ A) * B[:, o]
        z = alpha.sum()
        return alpha / z, (alpha / z, jnp.log(z))
    _, (alphas, logz) = jax.lax.scan(forward, jnp.array([.5, .5]), obs)
    backward = lambda beta, o: (A @ (B[:, o] * beta),) * 2
    _, betas = jax.lax.scan(backward, jnp.ones(2), obs[1:], reverse=True)
    gamma = alphas * jnp.vstack([betas, jnp.ones((1, 2))])
    return gamma / gamma.sum(1, keepdims=True), logz.sum(), jax.nn.one_hot(obs, 3).T @ gamma


def hmm_by_associative_scan(jax):
    jnp = jax.numpy
    A = jnp.array([[.9, .1], [.2, .8]])
    likelihood = jnp.array([[.5, .1], [.4, .3], [.1, .6]])
    messages = A[None] * likelihood[:, None, :]
    products = jax.lax.associative_scan(jnp.matmul, messages)
    backward = jax.lax.associative_scan(lambda a, b: b @ a, messages, reverse=True)
    return products, backward, jnp.array([.5, .5]) @ products[-1]


def viterbi(jax):
    jnp, lax = jax.numpy, jax.lax
    logA = jnp.log(jnp.array([[.7, .3], [.4, .6]]))
    logB = jnp.log(jnp.array([[.1, .4, .5], [.6, .3, .1]]))
    obs = jnp.array([0, 2, 1, 1])

    def step(score, o):
        candidates = score[:, None] + logA
        return candidates.max(0) + logB[:, o], candidates.argmax(axis=0)
    best, pointers = lax.scan(step, jnp.log(jnp.array([.6, .4])) + logB[:, obs[0]], obs[1:])
    last = jnp.argmax(best)
    _, path = lax.scan(lambda s, ptr: (ptr[s], ptr[s]), last, pointers, reverse=True)
    return jnp.append(path, last), best.max(), pointers.dtype


def baum_welch_step_by_gradient(jax):
    jnp = jax.numpy

    def loglik(params, obs):
        A, B = jax.nn.softmax(params["A"]), jax.nn.softmax(params["B"], axis=-1)

        def step(a, o):
            a = (a @ A) * B[:, o]
            return a / a.sum(), jnp.log(a.sum())
        return jax.lax.scan(step, jnp.full((2,), 0.5), obs)[1].sum()
    params = {"A": jnp.eye(2), "B": jnp.array([[0., 1., 0.], [1., 0., 0.]])}
    value, grads = jax.value_and_grad(loglik)(params, jnp.array([0, 1, 1, 2]))
    return value, grads, jax.tree.map(lambda p, g: p + 0.1 * g, params, grads)


def exponential_moving_average_by_scan(jax):
    jnp = jax.numpy
    x = jnp.array([1, 5, 2, 8, 3])
    out = jax.lax.scan(lambda c, v: (0.9 * c + 0.1 * v,) * 2, 0., x)
    combine = lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1])
    decays, values = jax.lax.associative_scan(combine, (jnp.full(5, 0.9), 0.1 * x))
    return out, values, decays


def alpha_beta_tracker(jax):
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Track:
        x: Any
        v: Any
        gain: float = dataclasses.field(default=0.5, metadata=dict(static=True))

    @jax.jit
    def update(track: Track, z):
        predicted = track.x + track.v
        r = z - predicted
        return dataclasses.replace(track, x=predicted + track.gain * r, v=track.v + 0.1 * r)
    t = Track(0.0, 1.0)
    for z in (1.2, 2.5, 2.9):
        t = update(t, z)
    return t.x, t.v, t.gain, jax.tree.leaves(t), str(jax.tree.structure(t).num_leaves)


def savitzky_golay(jax):
    jnp = jax.numpy
    window = jnp.arange(-2, 3)
    V = jnp.vander(window, 3, increasing=True).astype(float)
    coefficients = jnp.linalg.pinv(V)[0]
    y = jnp.sin(jnp.arange(12) / 3.) + jnp.where(jnp.arange(12) % 3 == 0, .1, -.1)
    return jnp.convolve(y, coefficients[::-1], mode="valid"), coefficients, jnp.correlate(y, coefficients, "same")


def median_filter_by_windows(jax):
    jnp = jax.numpy
    y = jnp.array([1., 9., 2., 3., 30., 4., 5.])
    padded = jnp.pad(y, 1, mode="edge")
    windows = jnp.stack([padded[i:len(padded) - 2 + i] for i in range(3)])
    index = jnp.arange(7)[:, None] + jnp.arange(3)
    return jnp.median(windows, axis=0), jnp.sort(padded[index], axis=-1)[:, 1], jnp.nanmedian(padded[index], axis=1)


def complementary_filter_of_quaternions(jax):
    jnp = jax.numpy

    def multiply(p, q):
        w, x, y, z = p
        return jnp.array([[w, -x, -y, -z], [x, w, -z, y], [y, z, w, -x], [z, -y, x, w]]) @ q
    rates = jnp.array([[.1, 0., .2], [0., .3, 0.]])

    def step(q, omega):
        dq = jnp.append(1.0, omega * 0.5)
        q = multiply(q, dq)
        return q / jnp.linalg.norm(q), q
    return jax.lax.scan(step, jnp.array([1., 0, 0, 0]), rates)


def information_filter_fusion(jax):
    jnp = jax.numpy
    precisions = jnp.stack([jnp.diag(jnp.array(d)) for d in ((1., 2.), (3., 1.))])
    means = jnp.array([[0., 1.], [1., 0.]])
    total = precisions.sum(axis=0)
    fused = jnp.linalg.solve(total, jnp.einsum("kij,kj->i", precisions, means))
    return fused, jnp.linalg.inv(total), jnp.linalg.multi_dot([means, total, means.T])


def run_length_of_missing(jax):
    jnp = jax.numpy
    y = jnp.array([1., jnp.nan, jnp.nan, 4., jnp.nan])
    missing = jnp.isnan(y)
    filled = jax.lax.scan(lambda last, v: (jnp.where(jnp.isnan(v), last, v),) * 2, 0., y)[1]
    gaps = jax.lax.scan(lambda n, m: (jnp.where(m, n + 1, 0),) * 2, 0, missing)[1]
    return filled, gaps, jnp.nanmean(y), jnp.nan_to_num(y, nan=-1), jnp.interp(jnp.arange(5), jnp.array([0, 3]), y[::3])
