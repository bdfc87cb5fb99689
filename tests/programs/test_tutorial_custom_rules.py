"""Programs after JAX's tutorial on custom derivative rules; each runs in both libraries."""

import functools

import numpy as np

from tests.programs.tutorials import check, each


def log1pexp_of_large_numbers(jax):
    def plain(x):
        return jax.numpy.log(1 + jax.numpy.exp(x))
    stable = jax.custom_jvp(plain)

    @stable.defjvp
    def rule(primals, tangents):
        (x,), (dx,) = primals, tangents
        return stable(x), (1 - 1 / (1 + jax.numpy.exp(x))) * dx
    x = np.array([-3.0, 0.0, 2.0, 700.0])
    bad = jax.jit(jax.grad(plain))(1000.0)
    return (jax.jit(jax.vmap(jax.grad(stable)))(x), jax.jit(jax.vmap(jax.grad(jax.grad(stable))))(x[:3]),
            bool(np.isnan(bad)), jax.jvp(jax.jit(stable), (2.0,), (3.0,)))


def convention_at_the_edge(jax):
    """x / (1 + sqrt x) has a derivative at 0, which composing the rules of its parts does not give."""
    @jax.custom_jvp
    def f(x):
        return x / (1 + jax.numpy.sqrt(x))

    f.defjvps(lambda dx, y, x: (jax.numpy.sqrt(x) + 2) / (2 * (jax.numpy.sqrt(x) + 1) ** 2) * dx)
    return jax.grad(f)(0.0), jax.grad(f)(4.0)


def clipped_gradients(jax):
    @jax.custom_vjp
    def clip_gradient(low, high, x):
        return x

    clip_gradient.defvjp(lambda low, high, x: (x, (low, high)),
                         lambda limits, ct: (None, None, jax.numpy.clip(ct, limits[0], limits[1])))
    t = np.linspace(0, 3, 7)
    def f(x):
        return 3 * jax.numpy.sin(clip_gradient(-0.75, 0.75, x))
    return jax.vmap(f)(t), jax.jit(jax.vmap(jax.grad(f)))(t)


def fixed_point_by_implicit_derivative(jax):
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, a, start):
        def cond(state):
            before, now = state
            return jax.numpy.abs(before - now) > 1e-13
        return jax.lax.while_loop(cond, lambda state: (state[1], f(a, state[1])), (start, f(a, start)))[1]

    def forward(f, a, start):
        x = fixed_point(f, a, start)
        return x, (a, x)

    def backward(f, residuals, ct):
        a, x = residuals
        _, of_a = jax.vjp(lambda a: f(a, x), a)
        w = fixed_point(functools.partial(adjoint, f), (a, x, ct), ct)
        return of_a(w)[0], jax.numpy.zeros_like(x)

    def adjoint(f, packed, u):
        a, x, ct = packed
        return ct + jax.vjp(lambda x: f(a, x), x)[1](u)[0]
    fixed_point.defvjp(forward, backward)

    def root(a):
        return fixed_point(lambda a, x: 0.5 * (x + a / x), a, a)
    of_many = jax.jit(jax.vmap(jax.value_and_grad(root)))(np.array([1.5, 2.0, 4.0]))
    return of_many, jax.jit(jax.grad(jax.grad(root)))(3.0)


def static_functions_in_rules(jax):
    @functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
    def apply(f, x):
        return f(x)

    @apply.defjvp
    def rule(f, primals, tangents):
        (x,), (dx,) = primals, tangents
        return apply(f, x), 10.0 * dx
    return apply(lambda x: x ** 3, 2.0), jax.grad(apply, 1)(lambda x: 3 * x, 1.0)


def containers_and_python_control_flow(jax):
    @jax.custom_jvp
    def f(point):
        return {"a": point["x"] * 2, "b": (jax.numpy.sin(point["y"]), point["x"])}

    @f.defjvp
    def rule(primals, tangents):
        (point,), (d,) = primals, tangents
        return f(point), {"a": 2 * d["x"], "b": (jax.numpy.cos(point["y"]) * d["y"], d["x"])}

    @jax.custom_vjp
    def absolute(x):
        return -x if x < 0 else x
    absolute.defvjp(lambda x: (absolute(x), x < 0), lambda negative, ct: (-ct if negative else ct,))
    point = {"x": 1.5, "y": 0.2}
    return jax.jvp(f, (point,), (point,)), jax.grad(lambda p: f(p)["b"][0] * f(p)["a"])(point), jax.grad(absolute)(-2.0)


def rules_that_print_nothing_but_count(jax):
    """The rule of a custom function is used, and nothing else."""
    calls = []

    @jax.custom_vjp
    def f(x):
        calls.append("f")
        return x * x
    f.defvjp(lambda x: (calls.append("forward") or x * x, x), lambda x, ct: (calls.append("backward") or 100.0 * ct,))
    value, g = f(3.0), jax.grad(f)(3.0)
    return value, g, "forward" in calls, "backward" in calls, calls.count("f") == 1


def a_gradient_given_by_itself(jax):
    @jax.custom_gradient
    def f(x):
        return x ** 2, lambda g: (g * x,)
    return f(3.0), jax.grad(f)(3.0), jax.vmap(jax.grad(f))(jax.numpy.arange(3.0))


@each(log1pexp_of_large_numbers, convention_at_the_edge, clipped_gradients, fixed_point_by_implicit_derivative,
      static_functions_in_rules, containers_and_python_control_flow, rules_that_print_nothing_but_count,
      a_gradient_given_by_itself)
def test_program(program):
    check(program)
