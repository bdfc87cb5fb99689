"""Programs after JAX's tutorials on automatic differentiation; each runs in both libraries."""

import functools

import numpy as np

from tests.programs.tutorials import check, each

X = np.array([[0.5, 1.2, -0.8], [0.9, -1.1, 0.1], [-0.5, 1.1, 2.6], [0.7, 2.1, -0.5]])
Y = np.array([1.0, 1.0, 0.0, 1.0])


def log_loss(jax, w, b):
    jnp = jax.numpy
    p = 1 / (1 + jnp.exp(-(X @ w + b)))
    return -jnp.sum(Y * jnp.log(p) + (1 - Y) * jnp.log(1 - p))


def logistic_regression(jax):
    loss = jax.jit(functools.partial(log_loss, jax))
    w, b = jax.numpy.array([0.1, -0.2, 0.3]), 0.5
    value, (dw, db) = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))(w, b)
    step = 1e-4
    by_hand = (loss(w, b + step) - loss(w, b - step)) / (2 * step)
    return {"value": value, "dw": dw, "db": db, "close": bool(abs(by_hand - db) < 1e-6)}


def gradients_of_a_dict(jax):
    def loss(params):
        return log_loss(jax, params["w"], params["b"])

    @jax.jit
    def step(params):
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))
    params = {"w": np.zeros(3), "b": 0.0}
    for _ in range(20):
        params = step(params)
    return params, jax.jit(loss)(params)


def derivatives_of_all_orders(jax):
    def f(x):
        return jax.numpy.tanh(x) * x ** 2
    values = []
    for _ in range(4):
        f = jax.grad(f)
        values.append(jax.jit(f)(0.7))
    return values


def jacobians_by_rows_and_columns(jax):
    def f(w):
        return jax.nn.sigmoid(X @ w) * w.sum()
    w = jax.numpy.array([0.2, 0.1, -0.4])
    return jax.jit(jax.jacfwd(f))(w), jax.jit(jax.jacrev(f))(w)


def hessian_and_its_products(jax):
    def f(w):
        return log_loss(jax, w, 0.1)

    def forward_over_reverse(v):
        return jax.jvp(jax.grad(f), (w,), (v,))[1]

    def reverse_over_reverse(v):
        return jax.grad(lambda u: jax.numpy.vdot(jax.grad(f)(u), v))(w)

    def reverse_over_forward(v):
        return jax.grad(lambda u: jax.jvp(f, (u,), (v,))[1])(w)
    w, v = jax.numpy.array([0.3, -0.1, 0.2]), jax.numpy.array([1.0, 2.0, -1.0])
    ways = [forward_over_reverse, reverse_over_reverse, reverse_over_forward]
    return jax.jit(jax.hessian(f))(w), [jax.jit(way)(v) for way in ways]


def products_with_jacobians(jax):
    def f(w):
        return jax.numpy.sin(X @ w)

    @jax.jit
    def both(w):
        y, push = jax.linearize(f, w)
        _, pull = jax.vjp(f, w)
        rows = jax.vmap(lambda m: pull(m)[0])(np.eye(4))
        columns = jax.vmap(push, out_axes=1)(np.eye(3))
        return y, rows, columns
    return both(np.array([0.2, 0.1, -0.4]))


def auxiliary_results(jax):
    def loss(w):
        error = X @ w - Y
        return jax.numpy.mean(error ** 2), {"worst": jax.numpy.max(abs(error)), "error": error}
    (value, aux), g = jax.jit(jax.value_and_grad(loss, has_aux=True))(np.array([0.1, 0.2, 0.3]))
    return value, aux, g


def gradient_of_each_example(jax):
    def loss(w, x, y):
        return (jax.numpy.tanh(x @ w) - y) ** 2
    w = jax.numpy.array([0.3, 0.1, -0.2])

    @jax.jit
    def clipped(w):
        each_one = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(w, X, Y)
        norms = jax.numpy.sqrt((each_one ** 2).sum(axis=1))
        return each_one, norms, (each_one / jax.numpy.maximum(1.0, norms / 0.1)[:, None]).mean(axis=0)
    return clipped(w)


def straight_through(jax):
    def rounded(x):
        zero = x - jax.lax.stop_gradient(x)
        return zero + jax.lax.stop_gradient(jax.numpy.round(x))

    def total(f):
        return jax.jit(jax.value_and_grad(lambda x: f(x).sum()))(np.array([0.2, 1.7, -2.4]))
    return total(rounded), total(lambda x: rounded(x) ** 2), total(jax.numpy.round)


def temporal_difference(jax):
    def value(theta, state):
        return jax.numpy.dot(theta, state)

    def loss(theta, before, reward, after, stop):
        target = reward + value(theta, after)
        return (stop(target) - value(theta, before)) ** 2
    theta = jax.numpy.array([0.1, -0.1, 0.0])
    s, t = jax.numpy.array([1.0, 2.0, -1.0]), jax.numpy.array([2.0, 1.0, 0.0])
    semi = jax.grad(functools.partial(loss, stop=jax.lax.stop_gradient))(theta, s, 1.0, t)
    full = jax.grad(functools.partial(loss, stop=lambda x: x))(theta, s, 1.0, t)
    return semi, full


def learning_to_learn(jax):
    """A gradient through a gradient step."""
    def loss(w, x):
        return (jax.numpy.sin(w * x) ** 2).sum()

    def after_a_step(w, rate, x):
        return loss(w - rate * jax.grad(loss)(w, x), x)
    return jax.jit(jax.value_and_grad(after_a_step, argnums=(0, 1)))(0.4, 0.1, X[0])


def complex_derivatives(jax):
    def f(z):
        return z * jax.numpy.conj(z) * jax.numpy.exp(1j * z)
    holomorphic = jax.jit(jax.grad(lambda z: jax.numpy.sin(z) * z, holomorphic=True))(1.0 + 2.0j)
    real = jax.jit(jax.grad(lambda z: jax.numpy.real(f(z))))(0.3 - 0.4j)
    return holomorphic, real, jax.jit(lambda z: jax.jvp(f, (z,), (1j,))[1])(0.3 - 0.4j)


def gradient_where_one_branch_is_bad(jax):
    def safe(x):
        inside = jax.numpy.where(x > 0, x, 1.0)
        return jax.numpy.where(x > 0, jax.numpy.log(inside), 0.0)
    x = jax.numpy.array([-1.0, 0.0, 2.0])
    naive = jax.jit(jax.grad(lambda x: jax.numpy.where(x > 0, jax.numpy.sqrt(x), 0.0).sum()))(x)
    return jax.jit(jax.grad(lambda x: safe(x).sum()))(x), naive


@each(logistic_regression, gradients_of_a_dict, derivatives_of_all_orders, jacobians_by_rows_and_columns,
      hessian_and_its_products, products_with_jacobians, auxiliary_results, gradient_of_each_example, straight_through,
      temporal_difference, learning_to_learn, complex_derivatives, gradient_where_one_branch_is_bad)
def test_program(program):
    check(program)
