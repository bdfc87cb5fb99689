"""Derivatives of every order and kind, and custom rules."""

from functools import partial
from typing import NamedTuple

import numpy as np


def jacobians_of_trees(jax):
    jnp = jax.numpy

    def f(p, x):
        return {"y": p["a"] * x, "z": (p["b"] @ x,)}
    p, x = {"a": jnp.float32(2), "b": jnp.ones((2, 3))}, jnp.arange(3.)
    return jax.jacfwd(f)(p, x), jax.jacrev(f, argnums=(0, 1))(p, x), jax.jacobian(f, argnums=1)(p, x)


def hessian_by_all_compositions(jax):
    jnp = jax.numpy
    f = lambda x: jnp.prod(x) + jnp.sum(jnp.sin(x[:-1] * x[1:]))
    x = jnp.array([1., 2., 3.])
    compositions = [jax.jacfwd(jax.jacrev(f)), jax.jacrev(jax.jacfwd(f)), jax.jacfwd(jax.jacfwd(f)),
                    jax.jacrev(jax.jacrev(f))]
    return [h(x) for h in compositions], jax.hessian(f)(x)


def hessian_vector_products(jax):
    jnp = jax.numpy
    f = lambda x: jnp.sum(jnp.tanh(x)**2)
    x, v = jnp.array([.1, .5]), jnp.array([1., -1.])
    forward_over_reverse = jax.jvp(jax.grad(f), (x,), (v,))[1]
    reverse_over_reverse = jax.grad(lambda x: jnp.vdot(jax.grad(f)(x), v))(x)
    reverse_over_forward = jax.grad(lambda x: jax.jvp(f, (x,), (v,))[1])(x)
    _, linear = jax.linearize(jax.grad(f), x)
    return forward_over_reverse, reverse_over_reverse, reverse_over_forward, jax.vmap(linear)(jnp.eye(2))


def per_example_gradients_and_clipping(jax):
    jnp = jax.numpy
    loss = lambda w, x, y: (x @ w - y)**2
    w, X, y = jnp.array([1., -1.]), jnp.arange(6.).reshape(3, 2), jnp.ones(3)
    values, grads = jax.jit(jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0, 0)))(w, X, y)
    norms = jnp.linalg.norm(grads, axis=1, keepdims=True)
    fisher = jnp.einsum("ni,nj->ij", grads, grads) / 3
    return values, grads / jnp.maximum(norms, 1), fisher, jnp.linalg.norm(grads, ord=jnp.inf, axis=1)


def laplacian_two_ways(jax):
    jnp = jax.numpy
    f = lambda x: jnp.exp(-jnp.sum(x**2))
    x = jnp.array([.1, .2, .3])

    def second(v):
        return jax.jvp(lambda x: jax.jvp(f, (x,), (v,))[1], (x,), (v,))[1]
    return jnp.trace(jax.hessian(f)(x)), jax.vmap(second)(jnp.eye(3)).sum(), jax.lax.map(second, jnp.eye(3))


def taylor_mode(jax):
    from importlib import import_module
    jet = import_module(jax.__name__ + ".experimental.jet").jet
    jnp = jax.numpy
    return jet(jnp.sin, (0.5,), ((1.0, 0.0, 0.0),)), jet(lambda x, y: x * jnp.exp(y), (2., 1.), ([1., 0.], [0., 1.]))


def custom_jvp_for_a_stable_function(jax):
    jnp = jax.numpy

    @jax.custom_jvp
    def log1pexp(x):
        return jnp.log(1. + jnp.exp(x))

    @log1pexp.defjvp
    def _(primals, tangents):
        (x,), (dx,) = primals, tangents
        y = log1pexp(x)
        return y, (1 - 1 / (1 + jnp.exp(x))) * dx
    return log1pexp(3.), jax.grad(log1pexp)(100.), jax.vmap(jax.grad(jax.grad(log1pexp)))(jnp.array([0., 1.]))


def custom_jvp_by_defjvps(jax):
    jnp = jax.numpy

    @jax.custom_jvp
    def f(x, y):
        return jnp.sin(x) * y
    f.defjvps(lambda dx, out, x, y: jnp.cos(x) * dx * y, None)
    return jax.jvp(f, (2., 3.), (1., 1.)), jax.grad(f, (0, 1))(2., 3.), jax.jit(jax.jacfwd(f))(1., 2.)


def custom_jvp_with_static_argument(jax):
    @partial(jax.custom_jvp, nondiff_argnums=(0, 2))
    def apply(f, x, n):
        for _ in range(n):
            x = f(x)
        return x

    @apply.defjvp
    def apply_jvp(f, n, primals, tangents):
        (x,), (dx,) = primals, tangents
        return apply(f, x, n), 10 * dx
    g = lambda x: apply(lambda x: x * x, x, 2)
    return g(3.), jax.grad(g)(3.), jax.jvp(g, (2.,), (1.,))


def custom_vjp_with_tree_residuals(jax):
    jnp = jax.numpy

    class Res(NamedTuple):
        x: object
        scale: object

    @jax.custom_vjp
    def f(params, x):
        return {"out": params["scale"] * jnp.sin(x), "aux": x.sum()}

    def fwd(params, x):
        return f(params, x), Res(x, params["scale"])

    def bwd(res, ct):
        return {"scale": jnp.sum(ct["out"] * jnp.sin(res.x))}, res.scale * ct["out"] * jnp.cos(res.x) + ct["aux"]
    f.defvjp(fwd, bwd)
    loss = lambda p, x: f(p, x)["out"].sum() + f(p, x)["aux"]
    return jax.value_and_grad(loss, argnums=(0, 1))({"scale": 2.}, jnp.arange(3.))


def gradient_clipping_by_identity(jax):
    jnp = jax.numpy

    @partial(jax.custom_vjp, nondiff_argnums=(0, 1))
    def clip_gradient(lo, hi, x):
        return x
    clip_gradient.defvjp(lambda lo, hi, x: (x, None), lambda lo, hi, _, g: (jnp.clip(g, lo, hi),))
    f = lambda x: (clip_gradient(-1., 1., x)**3).sum()
    return jax.grad(f)(jnp.array([.1, 2., -3.])), jax.vmap(jax.grad(f))(jnp.array([1., 2.]))


def gradient_reversal_by_custom_gradient(jax):
    @jax.custom_gradient
    def reverse(x):
        return x, lambda g: -g
    return jax.grad(lambda x: reverse(x) * 3)(1.), reverse(2.), jax.jit(jax.grad(lambda x: reverse(x**2)))(3.)


def optional_arguments_of_custom_vjp(jax):
    jnp = jax.numpy

    @jax.custom_vjp
    def scale(x, mask=None, *, factor=2.):
        return x * factor if mask is None else jnp.where(mask, x * factor, x)
    scale.defvjp(lambda x, mask=None, *, factor=2.: (x * factor, mask),
                 lambda mask, g: (g * 7, None))
    return (scale(jnp.ones(2)), jax.grad(lambda x: scale(x).sum())(jnp.ones(2)),
            scale(jnp.ones(2), jnp.array([True, False])))


def integers_in_custom_vjp(jax):
    jnp = jax.numpy

    @jax.custom_vjp
    def gather(x, i):
        return x[i]

    def fwd(x, i):
        return x[i], (x.shape, i)

    def bwd(res, g):
        shape, i = res
        return jnp.zeros(shape).at[i].add(g * 2), np.zeros(i.shape, jax.dtypes.float0)
    gather.defvjp(fwd, bwd)
    return jax.grad(lambda x: gather(x, jnp.array([0, 0, 2])).sum())(jnp.arange(3.))


def float0_tangents(jax):
    jnp = jax.numpy
    f = lambda n, x: n * x
    grads = jax.grad(f, argnums=(0, 1), allow_int=True)(jnp.int32(3), 2.)
    out, vjp = jax.vjp(f, jnp.int32(3), 2.)
    tangent = np.zeros((), jax.float0)
    return grads, vjp(1.), jax.jvp(f, (jnp.int32(3), 2.), (tangent, 1.))


def remat_with_policies(jax):
    from importlib import import_module
    jnp, ad = jax.numpy, import_module(jax.__name__ + ".ad_checkpoint")
    policies = jax.checkpoint_policies

    def block(w, x):
        h = ad.checkpoint_name(jnp.tanh(x @ w), "hidden")
        return jnp.sum(jnp.sin(h @ w))
    w, x = jnp.eye(3) * .5, jnp.arange(3.)
    chosen = [None, policies.everything_saveable, policies.dots_with_no_batch_dims_saveable,
              policies.save_only_these_names("hidden"), policies.save_anything_except_these_names("hidden")]
    return [jax.jit(jax.grad(jax.checkpoint(block, policy=p, prevent_cse=True)))(w, x) for p in chosen[:3]], \
        [jax.grad(jax.remat(block, policy=p))(w, x) for p in chosen[3:]]


def remat_with_static_arguments(jax):
    jnp = jax.numpy

    @partial(jax.checkpoint, static_argnums=(1,))
    def f(x, train):
        return jnp.sin(x) if train else x
    return jax.grad(f)(1., True), jax.grad(lambda x: f(x, False))(2.), jax.value_and_grad(jax.grad(f))(1., True)


def vjp_with_aux_and_many_outputs(jax):
    jnp = jax.numpy

    def f(x, y):
        return (x * y, x + y), {"aux": x.size}
    primals, pull, aux = jax.vjp(f, jnp.ones(2), 3., has_aux=True)
    return primals, aux, pull((jnp.ones(2), jnp.zeros(2))), jax.jacrev(f, has_aux=True)(jnp.ones(2), 3.)


def linear_transpose_and_linearize(jax):
    jnp = jax.numpy
    f = lambda x: jnp.stack([x[0] + x[1], 3 * x[2]])
    (transposed,) = jax.linear_transpose(f, jax.ShapeDtypeStruct((3,), jnp.float32))(jnp.array([1., 2.]))
    y, push = jax.linearize(lambda a, b: a * jnp.sin(b), 2., 1.)
    return (transposed, y, push(1., 0.), push(0., 1.), jax.linear_transpose(lambda x: x.T,
                                                                            jnp.ones((2, 3)))(jnp.ones((3, 2))))


def gradients_at_edges(jax):
    jnp = jax.numpy
    g = lambda f, x: jax.grad(f)(x)
    return (g(jnp.abs, 0.), g(jnp.sqrt, 0.), g(lambda x: jnp.where(x > 0, jnp.log(x), 0.), 0.), g(jax.nn.relu, 0.),
            g(lambda x: jnp.max(jnp.array([x, x])), 1.), g(lambda x: jnp.sort(jnp.stack([x, x]))[0], 2.),
            g(jnp.sinc, 0.),
            g(lambda x: x**0, 0.), g(lambda x: x**2., 0.), g(lambda x: 0.**x, 0.), g(lambda x: jnp.arctan2(0., x), 1.),
            g(lambda x: jnp.clip(x, 0, 1), 1.), g(lambda x: jnp.maximum(x, 0), 0.), g(jnp.floor, 1.5),
            g(lambda x: x % 1, 2.5),
            g(lambda x: jnp.linalg.norm(jnp.stack([x, 1.])), 0.), g(lambda x: jnp.prod(jnp.stack([x, 0.])), 3.))


def gradients_of_linear_algebra(jax):
    jnp = jax.numpy
    A = jnp.array([[3., 1.], [1., 2.]])
    sums = [lambda a: jnp.linalg.inv(a).sum(), lambda a: jnp.linalg.slogdet(a)[1], lambda a: jnp.linalg.det(a),
            jnp.trace,
            lambda a: jnp.linalg.cholesky(a).sum(), lambda a: jnp.linalg.eigvalsh(a)[0],
            lambda a: jnp.linalg.svd(a)[1].max(),
            lambda a: jax.scipy.linalg.expm(a / 4).sum(), lambda a: jnp.linalg.solve(a, jnp.ones(2)).sum(),
            lambda a: jnp.linalg.qr(a)[1].sum(), lambda a: jnp.linalg.norm(a, "nuc"),
            lambda a: jnp.linalg.matrix_power(a, 3).sum()]
    return [jax.grad(f)(A) for f in sums]


def gradients_through_sorting_and_indexing(jax):
    jnp = jax.numpy
    x = jnp.array([3., 1., 2., 5.])
    fs = [lambda x: jnp.sort(x) @ jnp.arange(4.), lambda x: jnp.median(x), lambda x: jax.lax.top_k(x, 2)[0].sum(),
          lambda x: jnp.take(x, jnp.array([0, 0, 3])).prod(), lambda x: x.at[1].set(x[0]).sum(),
          lambda x: jnp.cumprod(x)[-1],
          lambda x: jnp.quantile(x, .3), lambda x: x[::-2].sum(), lambda x: jnp.interp(1.5, jnp.arange(4.), x),
          lambda x: x.at[jnp.array([0, 1])].mul(x[2:], unique_indices=True).sum(), lambda x: jnp.roll(x, 1) @ x,
          lambda x: jnp.max(x) - x.min()]
    return [jax.grad(f)(x) for f in fs], jax.hessian(fs[3])(x)


def natural_gradient(jax):
    jnp = jax.numpy
    model = lambda t: jax.nn.log_softmax(jnp.array([0., 1.])[:, None] * t)
    t = jnp.array([.3, -.3])
    J = jax.jacfwd(model)(t).reshape(-1, 2)
    fisher = J.T @ J + 1e-3 * jnp.eye(2)
    return jnp.linalg.lstsq(fisher, jax.grad(lambda t: model(t)[1, 0])(t))[0], jnp.linalg.cond(fisher) > 1


def ravel_a_tree_for_second_order(jax):
    jnp = jax.numpy
    params = {"w": jnp.ones((2, 2)), "b": jnp.zeros(2, jnp.float16), "n": jnp.array(3)}
    flat, unravel = jax.flatten_util.ravel_pytree(params)
    loss = lambda f: sum(jnp.sum(x.astype(float)**2) for x in jax.tree.leaves(unravel(f)))
    return flat, unravel(flat * 2), jnp.diag(jax.hessian(loss)(flat))


def inner_loop_of_meta_learning(jax):
    jnp = jax.numpy
    task_loss = lambda w, a: (jnp.sin(w) - a)**2

    def adapted(w, a, steps=2):
        for _ in range(steps):
            w = jax.tree.map(lambda p, g: p - .1 * g, w, jax.grad(task_loss)(w, a))
        return task_loss(w, a)
    meta = lambda w: jnp.mean(jax.vmap(adapted, in_axes=(None, 0))(w, jnp.array([.1, .5])))
    return jax.value_and_grad(meta)(0.7)
