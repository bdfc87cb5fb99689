"""Hand-written optimisers, fixed points and implicit derivatives."""

from functools import partial
from typing import Any, NamedTuple


def sgd_with_momentum(jax):
    jnp = jax.numpy
    params = {"w": jnp.ones((2, 1)), "b": jnp.zeros(1)}
    x, y = jnp.array([[1., 2.], [3., 4.]]), jnp.array([[1.], [0.]])
    loss = lambda p: jnp.mean((x @ p["w"] + p["b"] - y)**2)

    @jax.jit
    def step(params, velocity):
        value, g = jax.value_and_grad(loss)(params)
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
        return jax.tree.map(lambda p, v: p - 0.01 * v, params, velocity), velocity, value
    velocity = jax.tree.map(jnp.zeros_like, params)
    for _ in range(3):
        params, velocity, value = step(params, velocity)
    return params, velocity, value


class _AdamState(NamedTuple):
    step: Any
    mu: Any
    nu: Any


def adam_as_a_pair_of_functions(jax):
    jnp, tree = jax.numpy, jax.tree_util

    def init(params):
        zeros = tree.tree_map(jnp.zeros_like, params)
        return _AdamState(jnp.zeros([], jnp.int32), zeros, zeros)

    def update(grads, state, lr=1e-2, b1=0.9, b2=0.999):
        step = state.step + 1
        mu = tree.tree_map(lambda m, g: b1 * m + (1 - b1) * g, state.mu, grads)
        nu = tree.tree_map(lambda v, g: b2 * v + (1 - b2) * jnp.square(g), state.nu, grads)
        delta = tree.tree_map(
            lambda m, v: -lr * (m / (1 - b1**step)) / (jnp.sqrt(v / (1 - b2**step)) + 1e-8), mu, nu)
        return delta, _AdamState(step, mu, nu)
    params = [jnp.array([1., 2.]), (jnp.float32(3), jnp.bfloat16(4))]
    state = init(params)
    grads = jax.grad(lambda p: (p[0]**2).sum() + p[1][0] * p[1][1].astype("float32"))(params)
    delta, state = jax.jit(update)(grads, state)
    return delta, state, tree.tree_structure(state).num_leaves


def adagrad_in_a_fori_loop(jax):
    jnp = jax.numpy
    f = lambda x: jnp.sum((x - jnp.array([1., 2., 3.]))**4)

    def body(_, state):
        x, acc = state
        g = jax.grad(f)(x)
        acc = acc + g * g
        return x - 0.5 * g * jax.lax.rsqrt(acc + 1e-7), acc
    return jax.lax.fori_loop(0, 5, body, (jnp.zeros(3), jnp.zeros(3)))


def lion_update(jax):
    jnp = jax.numpy
    p = jnp.array([1., -2., 0.], dtype=jnp.bfloat16)
    m = jnp.zeros_like(p, dtype=jnp.float32)
    g = jax.grad(lambda p: jnp.sum(jnp.abs(p) * 0.3))(p)
    update = jnp.sign(0.9 * m + 0.1 * g)
    return g, update, p - 1e-2 * update, (p - 1e-2 * update).astype(p.dtype), 0.99 * m + 0.01 * g


def newton_raphson(jax):
    jnp, lax = jax.numpy, jax.lax
    f = lambda x: x**3 - 2 * x - 5

    @partial(jax.jit, static_argnums=0)
    def solve(f, x0):
        cond = lambda s: jnp.logical_and(jnp.abs(f(s[0])) > 1e-4, s[1] < 20)
        return lax.while_loop(cond, lambda s: (s[0] - f(s[0]) / jax.grad(f)(s[0]), s[1] + 1), (x0, 0))
    return solve(f, 2.0), jax.vmap(lambda x: solve(f, x)[0])(jnp.array([1.5, 2., 3.]))


def gauss_newton_curve_fit(jax):
    jnp = jax.numpy
    t = jnp.linspace(0, 1, 8)
    y = 2 * jnp.exp(-1.5 * t)
    residual = lambda p: p[0] * jnp.exp(-p[1] * t) - y

    def step(p, damping):
        J, r = jax.jacobian(residual)(p), residual(p)
        A = J.T @ J
        p = p - jnp.linalg.solve(A + damping * jnp.diag(jnp.diagonal(A)), J.T @ r)
        return p, jnp.vdot(r, r)
    return jax.lax.scan(step, jnp.array([1., 1.]), 10. ** jnp.arange(-1, -4, -1))


def backtracking_line_search(jax):
    jnp, lax = jax.numpy, jax.lax
    f = lambda x: jnp.sum(100. * (x[1:] - x[:-1]**2)**2 + (1 - x[:-1])**2)

    def search(x):
        value, g = jax.value_and_grad(f)(x)
        armijo = lambda t: f(x - t * g) > value - 1e-4 * t * jnp.dot(g, g)
        t = lax.while_loop(armijo, lambda t: 0.5 * t, 1.0)
        return x - t * g, t
    x, ts = jnp.array([-1.2, 1.]), []
    search = jax.jit(search)
    for _ in range(2):
        x, t = search(x)
        ts.append(t)
    return x, ts, f(x)


def minimize_rosenbrock(jax):
    jnp = jax.numpy
    result = jax.scipy.optimize.minimize(lambda x: (1 - x[0])**2 + 10 * (x[1] - x[0]**2)**2, jnp.array([-.5, .5]),
                                         method="BFGS", options=dict(maxiter=30), tol=1e-3)
    return jnp.round(result.x, 2), result.success, result.x.dtype, result.nit > 3


def mirror_descent_on_the_simplex(jax):
    jnp = jax.numpy
    c = jnp.array([.3, .1, .5])
    step = lambda p, t: (jax.nn.softmax(jnp.log(p) - 0.5 * c), jnp.sum(p * c))
    return jax.lax.scan(step, jnp.full((3,), 1 / 3), None, length=4)


def projected_gradient_on_the_simplex(jax):
    jnp = jax.numpy

    def project(v):
        u = jnp.sort(v)[::-1]
        excess = (jnp.cumsum(u) - 1) / jnp.arange(1, v.size + 1)
        k = jnp.sum(u > excess) - 1
        return jnp.maximum(v - excess[k], 0)
    v = jnp.array([.5, 1.2, -.3, .1])
    return project(v), jax.jacfwd(project)(v), jax.jit(jax.vmap(project))(jnp.stack([v, -v]))


def proximal_gradient_lasso(jax):
    jnp = jax.numpy
    soft = lambda x, t: jnp.sign(x) * jax.nn.relu(jnp.abs(x) - t)
    A, b = jnp.vander(jnp.linspace(-1, 1, 6), 4), jnp.array([1., 0, 1, 0, 1, 0])
    L = jnp.linalg.norm(A, ord=2)**2

    def ista(_, x):
        return soft(x - A.T @ (A @ x - b) / L, 0.1 / L)
    return jax.lax.fori_loop(0, 10, ista, jnp.zeros(4)), jnp.linalg.matrix_rank(A), L


def clip_by_global_norm(jax):
    jnp, tree = jax.numpy, jax.tree
    grads = {"a": jnp.array([3., 4.]), "b": [jnp.array(12.)], "none": None}
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in tree.leaves(grads)))
    scale = jnp.minimum(1., 1. / norm)
    by_reduce = tree.reduce(lambda s, g: s + jnp.sum(g**2), grads, 0.)
    return norm, tree.map(lambda g: g * scale, grads), by_reduce, tree.all(tree.map(jnp.isfinite, {"n": norm}))


def schedules_with_where_and_switch(jax):
    jnp, lax = jax.numpy, jax.lax
    warmup_cosine = lambda t: jnp.where(t < 4, t / 4, 0.5 * (1 + jnp.cos(jnp.pi * (t - 4) / 8)))
    steps = jnp.arange(10)
    piecewise = jax.vmap(lambda t: lax.switch(t // 4, [lambda: 1.0, lambda: 0.1, lambda: 0.01]))(steps)
    exponential = 1e-3 * 0.9 ** steps
    return warmup_cosine(steps), piecewise, exponential, jnp.select([steps < 3, steps < 6], [steps, -steps], 7)


def gradient_accumulation(jax):
    jnp = jax.numpy
    loss = lambda w, x: jnp.mean((x @ w)**2)
    x = jnp.arange(24.).reshape(4, 2, 3) / 10

    def accumulate(total, batch):
        return jax.tree.map(jnp.add, total, jax.grad(loss)(w, batch)), None
    w = jnp.array([1., -1., .5])
    total, none = jax.lax.scan(accumulate, jnp.zeros_like(w), x)
    return total / len(x), none, jax.grad(loss)(w, x.reshape(-1, 3))


def mixed_precision_with_loss_scale(jax):
    jnp = jax.numpy
    w, x = jnp.array([1., 2.]), jnp.array([1e-4, 3e-4])

    def loss(w):
        h = w.astype(jnp.float16) * x.astype(jnp.float16)
        return jnp.sum(h).astype(jnp.float32) * 1024.

    g = jax.grad(loss)(w)
    finite = jnp.all(jnp.isfinite(g))
    return g / 1024, finite, jax.lax.cond(finite, lambda s: s * 2, lambda s: s / 2, 1024.), jnp.finfo(jnp.float16).max


def fixed_point_with_implicit_derivative(jax):
    jnp, lax = jax.numpy, jax.lax

    @partial(jax.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, a, x0):
        return lax.while_loop(lambda s: jnp.abs(s[0] - s[1]) > 1e-6, lambda s: (s[1], f(a, s[1])), (x0, f(a, x0)))[1]

    def forward(f, a, x0):
        x = fixed_point(f, a, x0)
        return x, (a, x)

    def backward(f, res, ct):
        a, x = res
        _, vjp_a = jax.vjp(lambda a: f(a, x), a)
        _, vjp_x = jax.vjp(lambda x: f(a, x), x)
        u = fixed_point(lambda _, u: ct + vjp_x(u)[0], None, ct)
        return *vjp_a(u), jnp.zeros_like(x)
    fixed_point.defvjp(forward, backward)
    babylonian = lambda a, x: 0.5 * (x + a / x)
    sqrt = lambda a: fixed_point(babylonian, a, a)
    return sqrt(2.), jax.grad(sqrt)(2.), jax.jit(jax.value_and_grad(sqrt))(3.)


def custom_root_square_root(jax):
    lax = jax.lax
    newton = lambda f, x: lax.fori_loop(0, 6, lambda _, x: x - f(x) / jax.jvp(f, (x,), (1.,))[1], x)
    sqrt = lambda a: lax.custom_root(lambda x: x**2 - a, 1.0, newton, lambda g, y: y / g(1.0))
    return sqrt(2.0), jax.grad(sqrt)(2.0), jax.vmap(jax.grad(sqrt))(jax.numpy.array([1., 4.]))


def custom_linear_solve_gradient(jax):
    jnp = jax.numpy

    def solve(a, b):
        return jax.lax.custom_linear_solve(lambda x: a @ x, b, lambda mv, b: jnp.linalg.inv(a) @ b,
                                           transpose_solve=lambda mv, b: jnp.linalg.inv(a.T) @ b)
    a, b = jnp.array([[2., 1.], [0., 3.]]), jnp.array([1., 2.])
    return solve(a, b), jax.grad(lambda a: solve(a, b).sum())(a), jax.jacrev(partial(solve, a))(b)


def bisection_of_many_roots(jax):
    jnp = jax.numpy
    target = jnp.array([.1, .5, .9])
    f = jax.scipy.special.expit

    def halve(_, bounds):
        lo, hi = bounds
        mid = (lo + hi) / 2
        above = f(mid) > target
        return jnp.where(above, lo, mid), jnp.where(above, mid, hi)
    lo, hi = jax.lax.fori_loop(0, 20, halve, (jnp.full_like(target, -10), jnp.full_like(target, 10)))
    return lo, hi, jax.scipy.special.logit(target)


def evolution_strategy(jax):
    jnp, random = jax.numpy, jax.random

    @jax.jit
    def ask_tell(mean, sigma, key):
        z = random.normal(key, (8, 2))
        z = jnp.concatenate([z, -z])
        fitness = jax.vmap(lambda x: -jnp.sum((x - 1)**2))(mean + sigma * z)
        ranks = jnp.argsort(jnp.argsort(fitness)) / (fitness.size - 1) - .5
        return mean + 0.1 / sigma * jnp.mean(ranks[:, None] * z, axis=0), jax.lax.top_k(fitness, 2)
    mean, key = jnp.zeros(2), random.key(0)
    for i in range(2):
        mean, best = ask_tell(mean, 0.5, random.fold_in(key, i))
    return mean, best


def simulated_annealing_of_a_tour(jax):
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    xy = random.uniform(random.PRNGKey(0), (6, 2))
    length = lambda tour: jnp.linalg.norm(xy[tour] - xy[jnp.roll(tour, -1)], axis=1).sum()

    def step(tour, inputs):
        key, temperature = inputs
        ki, ku = random.split(key)
        i, j = random.choice(ki, 6, (2,), replace=False)
        new = tour.at[jnp.array([i, j])].set(tour[jnp.array([j, i])])
        keep = random.uniform(ku) < jnp.exp((length(tour) - length(new)) / temperature)
        return lax.cond(keep, lambda: new, lambda: tour), length(new)
    return lax.scan(step, jnp.arange(6), (random.split(random.PRNGKey(1), 8), jnp.logspace(0, -2, 8)))


def sinkhorn(jax):
    jnp = jax.numpy
    a, b = jnp.array([.5, .5]), jnp.array([.2, .3, .5])
    C = jnp.abs(jnp.arange(2.)[:, None] - jnp.arange(3.)[None, :])

    def cost(C):
        K = jnp.exp(-C / 0.5)
        v = jnp.ones(3)
        for _ in range(5):
            u = a / (K @ v)
            v = b / (K.T @ u)
        plan = jnp.diag(u) @ K @ jnp.diag(v)
        return jnp.sum(plan * C), plan
    (value, plan), g = jax.value_and_grad(cost, has_aux=True)(C)
    return value, plan.sum(0), g


def conjugate_gradient_with_hvp(jax):
    jnp = jax.numpy
    f = lambda x: jnp.sum(jnp.cosh(x)) + 0.5 * jnp.sum(x)**2
    x = jnp.array([.1, .2, .3])
    hvp = lambda v: jax.jvp(jax.grad(f), (x,), (v,))[1]
    direction, info = jax.scipy.sparse.linalg.cg(hvp, jax.grad(f)(x), tol=1e-6, maxiter=10)
    return direction, info, jnp.linalg.solve(jax.hessian(f)(x), jax.grad(f)(x))
