"""Programs after JAX's tutorials on control flow, compilation and thinking in JAX; each runs in both libraries."""

import functools

import numpy as np
import pytest

from tests.programs.tutorials import check, each


def error_of(f, *args):
    """The name of the class of the error that a call raises."""
    try:
        f(*args)
    except Exception as error:
        return type(error).__name__
    return "none"


def python_control_flow_under_grad_and_jit(jax):
    def f(x):
        return 3.0 * x ** 2 if x < 3 else -4 * x
    static = jax.jit(f, static_argnums=0)
    return jax.grad(f)(2.0), jax.grad(f)(4.0), static(2.0), error_of(jax.jit(f), 2.0)


def loops_over_shapes(jax):
    @jax.jit
    def power_sum(x):
        total = 0.0
        for i in range(x.shape[0]):
            total = total + x[i] ** i
        return total
    return power_sum(np.array([2.0, 3.0, 4.0])), jax.grad(power_sum)(np.array([2.0, 3.0, 4.0]))


def cond_and_switch(jax):
    lax, jnp = jax.lax, jax.numpy

    @jax.jit
    def step(x, which):
        up = lax.cond(x > 0, lambda x: x + 1, lambda x: -x, x)
        return lax.switch(which, [lambda u: u * 2, jnp.sin, lambda u: u ** 3], up)
    xs = jnp.array([-1.0, 0.5, 2.0])
    return ([step(x, i) for i, x in enumerate([-1.0, 0.5, 2.0])], jax.jit(jax.grad(step))(0.5, 2),
            jax.jit(jax.vmap(step))(xs, np.array([2, 0, 9])), jax.jit(jax.vmap(jax.grad(step), (0, None)))(xs, 1))


def while_loop_finds_a_root(jax):
    @jax.jit
    def newton(a):
        def cond(state):
            x, steps = state
            return (jax.numpy.abs(x * x - a) > 1e-12) & (steps < 50)
        return jax.lax.while_loop(cond, lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1), (a, 0))
    return newton(2.0), jax.vmap(newton)(jax.numpy.array([4.0, 9.0, 2.25])), jax.jvp(newton, (2.0,), (1.0,))[1][0]


def fori_loop_with_its_derivative(jax):
    def f(x, steps):
        return jax.lax.fori_loop(0, steps, lambda i, y: y * x + i, 1.0)
    static = functools.partial(f, steps=4)
    return jax.jit(static)(1.5), jax.grad(static)(1.5), jax.jit(f)(1.5, 4), jax.jvp(static, (1.5,), (1.0,))[1]


def scan_is_a_recurrent_network(jax):
    jnp = jax.numpy
    w = np.linspace(-0.5, 0.6, 12).reshape(3, 4)
    inputs = np.sin(np.arange(10.0)).reshape(5, 2)

    def loss(w, h, xs):
        def cell(h, x):
            h = jnp.tanh(w @ jnp.concatenate([h[:2], x]))
            return h, {"norm": (h ** 2).sum(), "h": h}
        last, history = jax.lax.scan(cell, h, xs)
        return last.sum() + history["norm"].mean(), history
    (value, history), g = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))(w, jnp.zeros(3), inputs)
    back = jax.lax.scan(lambda c, x: (c * 0.5 + x, c), 0.0, jnp.arange(4.0), reverse=True)
    return value, history, g, back


def scans_of_scans(jax):
    def outer(c, x):
        c, ys = jax.lax.scan(lambda c, y: (c + x * y, c * y), c, jax.numpy.arange(3.0))
        return c, ys.sum()

    def f(c):
        c, ys = jax.lax.scan(outer, c, jax.numpy.arange(4.0))
        return c * ys.sum()
    return jax.jit(f)(0.5), jax.jit(jax.grad(f))(0.5), jax.jit(jax.vmap(jax.grad(f)))(jax.numpy.array([0.1, 0.7]))


def associative_operations_along_an_axis(jax):
    jnp = jax.numpy
    x = np.array([3.0, -1.0, 2.0, 0.5])
    return jnp.cumsum(x), jnp.cumprod(x), jax.lax.cummax(jnp.array(x)), jax.lax.map(lambda v: v ** 2 + 1, x)


def tracing_sees_shapes_only(jax):
    seen = []

    @jax.jit
    def f(x, y):
        seen.append((x.shape, str(x.dtype)))
        return jax.numpy.dot(x + 1, y + 1)
    a, b = np.ones((3, 4)), np.ones(4)
    f(a, b), f(a * 2, b), f(a[:2], b)
    return len(seen), str(seen), f(a, b)


def impure_functions(jax):
    """A side effect happens only in tracing; a global is read only in tracing."""
    notes, state = [], {"g": 0.0}

    @jax.jit
    def f(x):
        notes.append("run")
        return x + state["g"]
    first = f(4.0)
    state["g"] = 10.0
    return first, f(5.0), f(jax.numpy.array([4.0])), len(notes)


def static_arguments(jax):
    @functools.partial(jax.jit, static_argnames=("n", "kind"))
    def f(x, n, kind):
        return {"sum": jax.numpy.sum, "max": jax.numpy.max}[kind](x * jax.numpy.arange(n))
    return f(2.0, 3, "sum"), f(2.0, n=4, kind="max"), f(2.0, 4, kind="max"), error_of(f, 2.0, [3], "sum")


def arrays_do_not_change(jax):
    x = jax.numpy.zeros((3, 3))

    def assign():
        x[1] = 1.0
    y = x.at[1, :].set(1.0).at[::2, 1].add(np.array([5.0, 7.0]))
    outside = jax.numpy.array(10)
    return error_of(assign), x, y, x.at[outside].set(1.0), jax.numpy.arange(4)[outside]


def types_follow_the_array(jax):
    jnp = jax.numpy
    small = jnp.arange(3, dtype="int8")
    sums = [small + 1, small + 1.5, small + jnp.float32(1), jnp.add(1, 1), jnp.ones(2, "bfloat16") * 2]
    return [str(x.dtype) for x in sums], error_of(lambda: jnp.sum([1, 2, 3]))


def conversions_of_traced_values(jax):
    jnp = jax.numpy
    asks = [bool, int, float, lambda x: np.asarray(x), lambda x: [0, 1][x.astype(int)],
            lambda x: jnp.arange(3)[jnp.arange(3) > x]]
    with pytest.raises(TypeError):              # in xjax a subclass, that of all values that must be known
        jax.jit(jnp.zeros)(1.0)
    return [error_of(jax.jit(lambda x, ask=ask: ask(x)), 1.0) for ask in asks]


@each(python_control_flow_under_grad_and_jit, loops_over_shapes, cond_and_switch, while_loop_finds_a_root,
      fori_loop_with_its_derivative, scan_is_a_recurrent_network, scans_of_scans, associative_operations_along_an_axis,
      tracing_sees_shapes_only, impure_functions, static_arguments, arrays_do_not_change, types_follow_the_array,
      conversions_of_traced_values)
def test_program(program):
    check(program)
