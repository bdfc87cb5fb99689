"""Linear algebra routines, Gaussian processes, variational inference, flows, reinforcement learning, finance."""

from functools import partial


def conjugate_gradients_by_hand(jax):
    jnp, lax = jax.numpy, jax.lax
    A, b = jnp.array([[4., 1., 0.], [1., 3., 1.], [0., 1., 2.]]), jnp.array([1., 2., 3.])

    def body(s):
        x, r, p, rs = s
        Ap = A @ p
        alpha = rs / jnp.vdot(p, Ap)
        x, r = x + alpha * p, r - alpha * Ap
        new = jnp.vdot(r, r)
        return x, r, r + new / rs * p, new
    x, *_ = lax.while_loop(lambda s: s[-1] > 1e-6, body, (jnp.zeros(3), b, b, b @ b))
    return x, jax.scipy.sparse.linalg.cg(lambda v: A @ v, b)[0], jax.scipy.sparse.linalg.gmres(A, b, tol=1e-6)[0]


def power_iteration_and_deflation(jax):
    jnp = jax.numpy
    A = jnp.array([[2., 1.], [1., 3.]])
    v = jax.lax.fori_loop(0, 20, lambda i, v: (lambda w: w / jnp.linalg.norm(w))(A @ v), jnp.ones(2))
    value = v @ A @ v
    return value, jnp.linalg.eigvalsh(A - value * jnp.outer(v, v)), jnp.linalg.eigh(A).eigenvalues


def lanczos(jax):
    jnp = jax.numpy
    A = jnp.diag(jnp.arange(1., 6.)) + 0.1

    def step(carry, _):
        q_old, q, beta = carry
        w = A @ q - beta * q_old
        alpha = w @ q
        w = w - alpha * q
        b = jnp.linalg.norm(w)
        return (q, w / b, b), (alpha, b)
    q0 = jnp.ones(5) / jnp.sqrt(5)
    _, (alphas, betas) = jax.lax.scan(step, (jnp.zeros(5), q0, 0.), length=3)
    return alphas, jax.scipy.linalg.eigh_tridiagonal(alphas, betas[:-1], eigvals_only=True)


def householder_qr(jax):
    jnp = jax.numpy
    A = jnp.array([[1., 2.], [3., 4.], [5., 6.]])
    R, Q = A, jnp.eye(3)
    for k in range(2):
        x = jnp.where(jnp.arange(3) >= k, R[:, k], 0)
        v = x.at[k].add(jnp.copysign(jnp.linalg.norm(x), x[k]))
        H = jnp.eye(3) - 2 * jnp.outer(v, v) / (v @ v)
        R, Q = H @ R, Q @ H
    return jnp.abs(R), jnp.abs(jnp.linalg.qr(A, mode="r")), jnp.allclose(Q @ R, A, rtol=1e-4)


def gram_schmidt_and_cholesky_update(jax):
    jnp, linalg = jax.numpy, jax.scipy.linalg
    A = jnp.array([[4., 2.], [2., 3.]])
    L = linalg.cholesky(A, lower=True)
    updated = jax.lax.linalg.cholesky_update(L.T, jnp.array([1., 0.]))
    return (L, linalg.solve_triangular(L, jnp.eye(2), lower=True), linalg.cho_solve((L, True), jnp.ones(2)), updated,
            linalg.lu(A), linalg.lu_solve(linalg.lu_factor(A), jnp.ones(2)))


def decompositions(jax):
    jnp, linalg = jax.numpy, jax.numpy.linalg
    A = jnp.array([[2., 0., 1.], [0., 1., 0.], [1., 0., 3.]])
    u, s, vh = linalg.svd(A, full_matrices=False)
    return (s, jnp.allclose(u * s @ vh, A, atol=1e-4), linalg.svdvals(A), linalg.pinv(A, rtol=1e-3),
            linalg.matrix_norm(A), linalg.cond(A, p=1), linalg.slogdet(A), linalg.matrix_rank(A, tol=.1),
            linalg.lstsq(A, jnp.ones(3))[0],
            linalg.eigvals(A).dtype, jax.scipy.linalg.polar(A)[1], jax.scipy.linalg.sqrtm(A).real,
            jax.scipy.linalg.toeplitz(jnp.arange(3)), jax.scipy.linalg.block_diag(A[:1, :1], A[:2, :2]),
            linalg.diagonal(A), linalg.vector_norm(A, ord=3, axis=1))


def principal_components(jax):
    jnp = jax.numpy
    X = jnp.sin(jnp.arange(24.)).reshape(8, 3) * jnp.array([3., 1., .1])
    centred = X - X.mean(axis=0)
    s = jnp.linalg.svd(centred, compute_uv=False)
    white = centred @ jnp.linalg.inv(jnp.linalg.cholesky(jnp.cov(X, rowvar=False, bias=True))).T
    return (s**2 / jnp.sum(s**2), jnp.round(jnp.cov(white, rowvar=False, bias=True), 2), jnp.cov(X.T, ddof=0),
            jnp.corrcoef(X[:, 0], X[:, 1]))


def gaussian_process_regression(jax):
    jnp = jax.numpy
    x, y, new = jnp.linspace(0, 1, 5), jnp.sin(jnp.linspace(0, 6, 5)), jnp.array([.1, .9])
    rbf = lambda p, a, b: p["scale"]**2 * jnp.exp(-0.5 * ((a - b) / p["length"])**2)
    gram = lambda p, a, b: jax.vmap(lambda u: jax.vmap(lambda v: rbf(p, u, v))(b))(a)

    def nll(p):
        L = jnp.linalg.cholesky(gram(p, x, x) + 0.1 * jnp.eye(5))
        alpha = jax.scipy.linalg.cho_solve((L, True), y)
        return 0.5 * y @ alpha + jnp.log(jnp.diag(L)).sum() + 2.5 * jnp.log(2 * jnp.pi)
    p = {"scale": 1., "length": .3}
    mean = gram(p, new, x) @ jnp.linalg.solve(gram(p, x, x) + .1 * jnp.eye(5), y)
    return jax.value_and_grad(nll)(p), mean


def kernels_by_nested_vmap(jax):
    jnp = jax.numpy
    x = jnp.arange(6.).reshape(3, 2) / 3
    periodic = lambda a, b: jnp.exp(-2 * jnp.sum(jnp.sin(jnp.pi * (a - b))**2))
    distance = lambda a, b: jnp.sqrt(3 * jnp.sum((a - b)**2) + 1e-9)
    matern = lambda a, b: (1 + distance(a, b)) * jnp.exp(-distance(a, b))
    gram = lambda k: jax.vmap(jax.vmap(k, (None, 0)), (0, None))(x, x)
    return gram(periodic), gram(matern), gram(jax.grad(periodic)), gram(jnp.dot), jax.nn.softmax(gram(jnp.vdot))


def variational_inference(jax):
    jnp, random, norm = jax.numpy, jax.random, jax.scipy.stats.norm

    def elbo(q, key):
        z = q["mean"] + jnp.exp(q["log_std"]) * random.normal(key, (3,))
        return jnp.sum(norm.logpdf(z, 1., .5) - norm.logpdf(z, q["mean"], jnp.exp(q["log_std"])))

    @jax.jit
    def step(q, key):
        value, g = jax.value_and_grad(lambda q: -jax.vmap(partial(elbo, q))(random.split(key, 4)).mean())(q)
        return jax.tree.map(lambda p, g: p - .05 * g, q, g), value
    return jax.lax.scan(step, {"mean": jnp.zeros(3), "log_std": jnp.zeros(3)}, random.split(random.key(0), 3))


def variational_autoencoder_terms(jax):
    jnp = jax.numpy
    mu, logvar = jnp.array([[.1, -.2]]), jnp.array([[0., -1.]])
    logits, x = jnp.array([[2., -1., 0.]]), jnp.array([[1., 0., 1.]])
    kl = -0.5 * jnp.sum(1 + logvar - mu**2 - jnp.exp(logvar), axis=-1)
    bce = -jnp.sum(x * jax.nn.log_sigmoid(logits) + (1 - x) * jax.nn.log_sigmoid(-logits), axis=-1)
    return kl, bce, jax.scipy.stats.bernoulli.logpmf(x.astype(int), jax.nn.sigmoid(logits)).sum(-1), jnp.mean(kl + bce)


def affine_coupling_flow(jax):
    jnp = jax.numpy

    def forward(x):
        a, b = x[:2], x[2:]
        s = jnp.tanh(a * .5)
        return jnp.concatenate([a, b * jnp.exp(s) + a**2]), s.sum()

    def inverse(y):
        a, b = jnp.split(y, 2)
        return jnp.concatenate([a, (b - a**2) * jnp.exp(-jnp.tanh(a * .5))])
    x = jnp.array([.1, .2, .3, .4])
    y, logdet = forward(x)
    return (y, logdet, inverse(y), jnp.linalg.slogdet(jax.jacfwd(lambda x: forward(x)[0])(x)),
            jax.vmap(forward)(jnp.stack([x, y])))


def planar_flow_and_change_of_variables(jax):
    jnp = jax.numpy
    f = lambda z: z + jnp.array([1., -.5]) * jnp.tanh(z @ jnp.array([.3, .8]) + .1)
    logabsdet = lambda z: jnp.log(jnp.abs(jnp.linalg.det(jax.jacrev(f)(z))))
    z = jnp.array([[0., 1.], [2., -1.]])
    return jax.vmap(f)(z), jax.vmap(logabsdet)(z), jax.vmap(jax.grad(logabsdet))(z)


def em_for_a_mixture(jax):
    jnp, stats = jax.numpy, jax.scipy.stats
    x = jnp.array([-2.1, -1.9, -2., 3., 3.2, 2.9])

    def em(params, _):
        w, mu, sigma = params
        logp = jnp.log(w) + stats.norm.logpdf(x[:, None], mu, sigma)
        r = jax.nn.softmax(logp, axis=1)
        n = r.sum(0)
        mu = (r * x[:, None]).sum(0) / n
        sigma = jnp.sqrt((r * (x[:, None] - mu)**2).sum(0) / n + 1e-3)
        return (n / 6, mu, sigma), jax.scipy.special.logsumexp(logp, axis=1).sum()
    return jax.lax.scan(em, (jnp.array([.5, .5]), jnp.array([-1., 1.]), jnp.ones(2)), None, length=4)


def bayesian_linear_regression(jax):
    jnp = jax.numpy
    X = jnp.stack([jnp.ones(5), jnp.arange(5.)], axis=1)
    y = 2 * X[:, 1] + 1
    precision = X.T @ X + jnp.eye(2)
    mean = jnp.linalg.solve(precision, X.T @ y)
    draws = jax.random.multivariate_normal(jax.random.key(0), mean, jnp.linalg.inv(precision), (200,))
    return (mean, jnp.round(draws.mean(0), 0), jax.scipy.stats.chi2.logpdf(jnp.sum((X @ mean - y)**2), 3),
            jax.scipy.stats.t.pdf(0., 3))


def logistic_regression_by_irls(jax):
    jnp = jax.numpy
    X, y = jnp.array([[1., 0.], [1., 1.], [1., 2.], [1., 3.]]), jnp.array([0., 1., 0., 1.])
    loglik = lambda w: jnp.sum(y * (X @ w) - jax.nn.softplus(X @ w))

    def newton(w, _):
        return w - jnp.linalg.solve(jax.hessian(loglik)(w), jax.grad(loglik)(w)), loglik(w)
    return jax.lax.scan(newton, jnp.zeros(2), None, length=4)


def distributions_of_statistics(jax):
    jnp, st = jax.numpy, jax.scipy.stats
    x = jnp.array([.2, 1.5, 3.])
    return (st.gamma.logpdf(x, 2.), st.beta.pdf(x / 4, 2., 3.), st.poisson.logpmf(jnp.arange(3), 2.), st.expon.cdf(x),
            st.laplace.logpdf(x), st.cauchy.ppf(x / 4), st.logistic.sf(x), st.uniform.pdf(x, 0, 2),
            st.binom.logpmf(jnp.arange(3), 4, .3),
            st.geom.pmf(jnp.arange(1, 4), .4), st.nbinom.logpmf(jnp.arange(3), 3, .5), st.truncnorm.logpdf(x, -1., 2.),
            st.vonmises.pdf(x, 1.), st.pareto.logpdf(x + 1, 2.), st.gennorm.pdf(x, 2.),
            st.multinomial.logpmf(jnp.array([1, 2]), 3, jnp.array([.5, .5])),
            st.rankdata(x), st.mode(jnp.array([1, 2, 2])), st.sem(x), st.gaussian_kde(x)(jnp.array([1.])))


def special_functions(jax):
    jnp, sp = jax.numpy, jax.scipy.special
    x = jnp.array([.3, 1.5, 4.])
    return (sp.gammaln(x), sp.digamma(x), sp.erf(x), sp.erfc(x), sp.erfinv(x / 5), sp.betaln(x, 2.),
            sp.gammainc(x, 1.), sp.expit(x), sp.logit(x / 5), sp.entr(x), sp.xlogy(x, x), sp.xlog1py(0., x), sp.i0e(x),
            sp.i1(x), sp.zeta(x + 1, 1.), sp.polygamma(1, x), sp.ndtri(x / 5), sp.log_ndtr(-x),
            sp.multigammaln(x + 2, 2), sp.factorial(jnp.arange(4)), sp.exp1(x), sp.expi(x), sp.bernoulli(4),
            sp.kl_div(x, 1.), sp.betainc(1., 2., x / 5), sp.softmax(x), sp.log_softmax(x), sp.poch(x, 2.),
            sp.spence(x), jax.lax.lgamma(x), jax.lax.igammac(x, 2.), jnp.i0(x))


def generalised_advantage_estimation(jax):
    jnp = jax.numpy
    rewards, values, dones = jnp.array([1., 0., 2., 1.]), jnp.array([.5, .6, .7, .8, .9]), jnp.array([False, False,
                                                                                                      True, False])

    def step(gae, x):
        r, v, v1, d = x
        delta = r + .99 * v1 * (1 - d) - v
        gae = delta + .99 * .95 * (1 - d) * gae
        return gae, gae
    _, adv = jax.lax.scan(step, 0., (rewards, values[:-1], values[1:], dones), reverse=True)
    return adv, adv + values[:-1], (adv - adv.mean()) / (adv.std() + 1e-8)


def value_and_policy_iteration(jax):
    jnp = jax.numpy
    P = jnp.array([[[.9, .1], [.2, .8]], [[.5, .5], [0., 1.]]])
    R = jnp.array([[1., 0.], [0., 2.]])

    def backup(state):
        V, _, n = state
        Q = R + .9 * jnp.einsum("ast,t->sa", P, V)
        return Q.max(1), jnp.max(jnp.abs(Q.max(1) - V)), n + 1
    V, error, n = jax.lax.while_loop(lambda s: (s[1] > 1e-2) & (s[2] < 100), backup, (jnp.zeros(2), jnp.inf, 0))
    policy = jnp.argmax(R + .9 * jnp.einsum("ast,t->sa", P, V), axis=1)
    Ppi = P[policy, jnp.arange(2)]
    return V, n, policy, jnp.linalg.solve(jnp.eye(2) - .9 * Ppi, R[jnp.arange(2), policy])


def q_learning_in_a_gridworld(jax):
    jnp, random = jax.numpy, jax.random
    moves = jnp.array([-1, 1])

    def step(carry, key):
        Q, s = carry
        k1, k2 = random.split(key)
        a = jnp.where(random.uniform(k1) < .3, random.randint(k2, (), 0, 2), jnp.argmax(Q[s]))
        s1 = jnp.clip(s + moves[a], 0, 4)
        r = (s1 == 4).astype(float)
        Q = Q.at[s, a].add(.5 * (r + .9 * Q[s1].max() - Q[s, a]))
        return (Q, jnp.where(s1 == 4, 0, s1)), r
    return jax.lax.scan(step, (jnp.zeros((5, 2)), 2), random.split(random.PRNGKey(0), 30))


def ppo_clipped_objective(jax):
    jnp = jax.numpy

    def loss(logits, old_logp, actions, adv, eps=.2):
        logp = jax.nn.log_softmax(logits)
        ratio = jnp.exp(jnp.take_along_axis(logp, actions[:, None], 1).squeeze(-1) - old_logp)
        entropy = -jnp.sum(jnp.exp(logp) * logp, axis=-1).mean()
        return (-jnp.minimum(ratio * adv, jnp.clip(ratio, 1 - eps, 1 + eps) * adv).mean() - .01 * entropy,
                {"ratio": ratio, "clipped": jnp.mean(jnp.abs(ratio - 1) > eps)})
    args = jnp.array([[1., 0.], [0., .5]]), jnp.log(jnp.array([.5, .9])), jnp.array([0, 1]), jnp.array([1., -1.])
    return jax.value_and_grad(loss, has_aux=True)(*args)


def black_scholes_and_greeks(jax):
    jnp, norm = jax.numpy, jax.scipy.stats.norm

    def call(s, k, t, r, v):
        d1 = (jnp.log(s / k) + (r + v**2 / 2) * t) / (v * jnp.sqrt(t))
        return s * norm.cdf(d1) - k * jnp.exp(-r * t) * norm.cdf(d1 - v * jnp.sqrt(t))
    args = (100., jnp.array([90., 100., 110.]), 1., .05, .2)
    batched = jax.vmap(jax.grad(call, argnums=(0, 2, 4)), in_axes=(None, 0, None, None, None))
    gamma = jax.grad(jax.grad(call))(100., 100., 1., .05, .2)
    implied = jax.lax.fori_loop(0, 5, lambda i, v: v - (call(100., 100., 1., .05, v) - 10.) / jax.grad(call, 4)(100.,
                                                                                                                100.,
                                                                                                                1.,
                                                                                                                .05,
                                                                                                                v), .3)
    return call(*args), batched(*args), gamma, implied


def monte_carlo_option_with_pathwise_delta(jax):
    jnp, random = jax.numpy, jax.random

    def price(s0, v, key):
        z = random.normal(key, (64, 4))
        path = s0 * jnp.exp(jnp.cumsum((-.5 * v**2) / 4 + v * jnp.sqrt(1 / 4) * z, axis=1))
        return jnp.maximum(path.mean(axis=1) - 100, 0).mean()
    return jax.value_and_grad(price, argnums=(0, 1))(100., .2, random.key(0))


def binomial_tree_american_put(jax):
    jnp = jax.numpy
    n, u, p, disc = 6, 1.1, .55, .99
    s = 100 * u ** (2 * jnp.arange(n + 1) - n)

    def back(i, v):
        hold = disc * (p * jnp.roll(v, -1) + (1 - p) * v)
        return jnp.maximum(hold, jnp.maximum(100 - s * u**i, 0))
    return jax.lax.fori_loop(1, n + 1, back, jnp.maximum(100 - s, 0))[0], s


def portfolio_and_time_series(jax):
    jnp = jax.numpy
    prices = jnp.array([[100., 50.], [102., 49.], [101., 51.], [105., 52.]])
    returns = jnp.diff(jnp.log(prices), axis=0)
    cov = jnp.cov(returns, rowvar=False) + 1e-4 * jnp.eye(2)
    w = jnp.linalg.solve(cov, jnp.ones(2))
    drawdown = 1 - prices / jax.lax.cummax(prices, axis=0)
    ewma = jax.lax.scan(lambda v, r: (.94 * v + .06 * r**2,) * 2, jnp.zeros(2), returns)[1]
    return (w / w.sum(), drawdown.max(0), ewma, jnp.gradient(prices, axis=0), jnp.percentile(returns, 5, axis=0),
            jnp.trapezoid(prices, axis=0))
