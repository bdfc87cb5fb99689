"""`shard_map` on meshes of several axes: specs, replicated arguments, gradients, manual axes, nesting."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.parallel.bodies import mesh_of


def _numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _grid(jax, n):
    """A mesh with axes "i" and "j", of sizes 2 and n / 2."""
    return mesh_of(jax, 2, n // 2)


# -- derivatives inside equal those of whole arrays ----------------------------------------------------------------

def gradient_of_replicated_weight(jax, n):
    P = jax.P
    return jax.shard_map(lambda w, x: jax.grad(lambda w: (w * x).sum())(w), mesh=mesh_of(jax, n),
                         in_specs=(P(), P("i")), out_specs=P())(2.0, np.arange(2.0 * n, dtype=np.float32))


def gradient_of_a_sum_over_devices(jax, n):
    P = jax.P
    f = jax.grad(lambda y: jax.lax.psum((y ** 2).sum(), "i"))
    return jax.shard_map(f, mesh=mesh_of(jax, n), in_specs=P("i"), out_specs=P("i"))(_numbers(n * 2))


def gradient_unchecked_is_of_the_own_part(jax, n):
    P = jax.P
    return jax.shard_map(lambda w, x: jax.grad(lambda w: (w * x).sum())(w)[None], mesh=mesh_of(jax, n),
                         in_specs=(P(), P("i")), out_specs=P("i"), check_vma=False)(2.0, _numbers(n * 2))


def data_parallel_step(jax, n):
    """All devices share the weights; their gradient needs no psum."""
    P, jnp = jax.P, jax.numpy
    params = {"w": _numbers(3, 4), "b": _numbers(4, seed=1)}

    def step(params, x, y):
        def loss(p):
            return jax.lax.pmean(((jnp.tanh(x @ p["w"] + p["b"]) - y) ** 2).mean(), "i")
        value, g = jax.value_and_grad(loss)(params)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, g)
    return jax.jit(jax.shard_map(step, mesh=mesh_of(jax, n), in_specs=(P(), P("i"), P("i")), out_specs=P()))(
        params, _numbers(8 * n, 3), _numbers(8 * n, 4, seed=2))


def tensor_parallel_layers(jax, n):
    """One matrix split by columns, the next by rows, and one sum after both."""
    P, jnp = jax.P, jax.numpy

    def f(x, up, down):
        def loss(weights):
            return (jax.lax.psum(jnp.tanh(x @ weights[0]) @ weights[1], "i") ** 2).sum()
        return jax.value_and_grad(loss)((up, down))
    return jax.shard_map(f, mesh=mesh_of(jax, n), in_specs=(P(), P(None, "i"), P("i")),
                         out_specs=(P(), (P(None, "i"), P("i"))))(_numbers(5, 3), _numbers(3, 8), _numbers(8, 2))


def data_and_tensor_parallel(jax, n):
    P, jnp = jax.P, jax.numpy

    def f(x, up, down):
        def loss(weights):
            y = jax.lax.psum(jnp.tanh(x @ weights[0]) @ weights[1], "j")
            return jax.lax.psum((y ** 2).sum(), "i")
        return jax.value_and_grad(loss)((up, down))
    return jax.jit(jax.shard_map(f, mesh=_grid(jax, n), in_specs=(P("i"), P(None, "j"), P("j")),
                                 out_specs=(P(), (P(None, "j"), P("j")))))(
        _numbers(4, 3), _numbers(3, 8), _numbers(8, 2))


def fully_sharded_weights(jax, n):
    """Each device has a shard of the weights and gathers them for the step."""
    P, jnp = jax.P, jax.numpy

    def f(w, x):
        def loss(w):
            whole = jax.lax.all_gather(w, "i", tiled=True)
            return jax.lax.pmean((jnp.sin(x @ whole) ** 2).mean(), "i")
        return jax.grad(loss)(w)
    return jax.shard_map(f, mesh=mesh_of(jax, n), in_specs=(P("i"), P("i")), out_specs=P("i"))(
        _numbers(8, 3), _numbers(n * 2, 8))


def gradient_through_scan_with_shared_weight(jax, n):
    P, jnp = jax.P, jax.numpy

    def f(w, xs):
        def loss(w):
            def step(c, x):
                c = jnp.tanh(c @ w + x)
                return c, (c ** 2).sum()
            return jax.lax.psum(jax.lax.scan(step, jnp.zeros_like(xs[0]), xs)[1].sum(), "i")
        return jax.grad(loss)(w)
    return jax.shard_map(f, mesh=mesh_of(jax, n), in_specs=(P(), P(None, "i")), out_specs=P())(
        _numbers(3, 3), _numbers(4, n, 3))


def gradient_through_checkpoint_and_cond(jax, n):
    P, jnp = jax.P, jax.numpy

    def f(w, x):
        def loss(w):
            y = jax.checkpoint(lambda w: jnp.sin(w * x))(w)
            return jax.lax.cond(x.shape[0] > 1, lambda: y.sum(), lambda: (y * y).sum())
        return jax.grad(loss)(w)
    return jax.shard_map(f, mesh=mesh_of(jax, n), in_specs=(P(), P("i")), out_specs=P())(1.5, _numbers(n * 2))


def gradient_outside_of_mixed_specs(jax, n):
    P, jnp = jax.P, jax.numpy
    f = jax.shard_map(lambda a, b, c: (jax.lax.psum(a @ b, "j") * c, jax.lax.pmean(c, "i")), mesh=_grid(jax, n),
                      in_specs=(P("i", "j"), P("j"), P()), out_specs=(P("i"), P()))
    a, b, c = jnp.asarray(_numbers(4, 8)), jnp.asarray(_numbers(8, 2)), jnp.asarray(_numbers(1, 2))

    def loss(a, b, c):
        y, z = f(a, b, c)
        return (jnp.sin(y) ** 2).sum() + (z ** 2).sum()
    return jax.grad(loss, (0, 1, 2))(a, b, c)


def second_derivatives(jax, n):
    P, jnp = jax.P, jax.numpy
    f = jax.shard_map(lambda w, x: jax.lax.psum((jnp.sin(w * x)).sum(0), "i"), mesh=mesh_of(jax, n),
                      in_specs=(P(), P("i")), out_specs=P())
    x = _numbers(n * 2, 3)
    return jax.hessian(lambda w: f(w, x).sum())(jnp.asarray(_numbers(3)))


def per_example_gradients(jax, n):
    P, jnp = jax.P, jax.numpy
    f = lambda w, x: jax.vmap(jax.grad(lambda w, row: jnp.sin(w @ row)), (None, 0))(
        jax.lax.pcast(w, "i", to="varying"), x)
    return jax.shard_map(f, mesh=mesh_of(jax, n), in_specs=(P(), P("i")), out_specs=P("i"))(
        _numbers(3), _numbers(n * 2, 3))


def sum_over_vmapped_rows_gives_the_shared_gradient(jax, n):
    P, jnp = jax.P, jax.numpy
    f = lambda w, x: jax.vmap(jax.grad(lambda w, row: jnp.sin(w @ row)), (None, 0))(w, x)
    return jax.shard_map(f, mesh=mesh_of(jax, n), in_specs=(P(), P("i")), out_specs=P())(
        _numbers(3), _numbers(n * 2, 3))


# -- types ---------------------------------------------------------------------------------------------------------

def types_say_what_varies(jax, n):
    P, lax, seen = jax.P, jax.lax, []

    def f(w, x):
        y = w * x
        values = (w, x, y, lax.psum(y, "i"), lax.psum(y, ("i", "j")), lax.axis_index("j") * w, lax.pmax(x, "j"),
                  lax.all_gather(x, "i"), lax.ppermute(x, "i", [(0, 1)]), lax.pcast(w, ("i", "j"), to="varying"),
                  jax.numpy.zeros(3), jax.numpy.zeros_like(x), jax.random.key(0), x > 0, lax.stop_gradient(y))
        seen.extend([str(sorted(_varying(jax.typeof(a)))) for a in values])
        return lax.psum(y, ("i", "j"))
    jax.shard_map(f, mesh=_grid(jax, n), in_specs=(P(), P("i", "j")), out_specs=P())(2.0, _numbers(4, 4 * n))
    return seen


def _varying(aval):
    """The varying axes of an aval; JAX has moved the field."""
    return aval.vma if hasattr(aval, "vma") else aval.manual_axis_type.varying


def carry_that_becomes_varying(jax, n):
    """The carry starts equal on all devices; it is cast by hand, as JAX requires."""
    P, jnp = jax.P, jax.numpy

    def f(x):
        start = jax.lax.pcast(jnp.zeros(3), "i", to="varying")
        return jax.lax.fori_loop(0, 3, lambda i, c: c + x[i], start)
    return jax.shard_map(f, mesh=mesh_of(jax, n), in_specs=P("i"), out_specs=P("i"))(_numbers(4 * n, 3))


def results_over_two_axes(jax, n):
    P = jax.P
    f = lambda x: (x, jax.lax.psum(x, "i"), jax.lax.psum(x, "j"), jax.lax.psum(x, ("i", "j")), jax.lax.pmean(x, "j"))
    return jax.shard_map(f, mesh=_grid(jax, n), in_specs=P("i", "j"),
                         out_specs=(P("i", "j"), P(None, "j"), P("i"), P(), P("i")))(_numbers(4, 2 * n))


def axes_joined_in_one_dimension(jax, n):
    P, lax = jax.P, jax.lax
    f = lambda x: (x * lax.axis_index(("i", "j")), lax.all_gather(x, ("i", "j"), tiled=True).sum(0, keepdims=True) * x,
                   lax.psum_scatter(lax.all_gather(x, ("i", "j"), tiled=True), ("i", "j"), tiled=True))
    return jax.shard_map(f, mesh=_grid(jax, n), in_specs=P(("i", "j")), out_specs=P(("i", "j")))(_numbers(2 * n, 3))


def axes_joined_the_other_way(jax, n):
    P, lax = jax.P, jax.lax
    f = lambda x: x * lax.axis_index(("j", "i")) + lax.ppermute(x, ("j", "i"), [(k, (k + 1) % n) for k in range(n)])
    return jax.shard_map(f, mesh=_grid(jax, n), in_specs=P(("j", "i")), out_specs=P(("j", "i")))(_numbers(2 * n, 3))


def over_a_mesh_axis_and_one_of_vmap(jax, n):
    P, lax = jax.P, jax.lax

    def f(x):
        return [lax.all_to_all(x, names, split, concat, tiled=True) for names in (("i", "v"), ("v", "i"))
                for split, concat in ((0, 1), (1, 0), (0, 0))]
    mapped = jax.vmap(f, axis_name="v")
    return jax.shard_map(mapped, mesh=mesh_of(jax, n), in_specs=P("i"), out_specs=P("i"))(
        _numbers(3 * n, 6 * n, 3 * n))


def all_to_all_over_two_axes(jax, n):
    P = jax.P
    return jax.shard_map(lambda x: jax.lax.all_to_all(x, ("i", "j"), 1, 0, tiled=True), mesh=_grid(jax, n),
                         in_specs=P(("i", "j")), out_specs=P(None, ("i", "j")))(_numbers(n, n))


def trees_and_prefixes_of_specs(jax, n):
    P = jax.P
    f = lambda a, t: {"s": jax.lax.psum(a, "i"), "t": [t["x"] * 2, t["y"] + 1]}
    return jax.shard_map(f, mesh=mesh_of(jax, n), in_specs=(P("i"), {"x": P(None, "i"), "y": P()}),
                         out_specs={"s": P(), "t": [P(None, "i"), P()]})(
        _numbers(n, 3), {"x": _numbers(2, n), "y": np.int32(4)})


def closed_over_arrays(jax, n):
    P, jnp = jax.P, jax.numpy
    w = jnp.asarray(_numbers(3))
    f = jax.shard_map(lambda x: x * w, mesh=mesh_of(jax, n), in_specs=P("i"), out_specs=P("i"))
    return f(_numbers(2 * n, 3)), jax.grad(lambda w: jax.shard_map(
        lambda x: x * w, mesh=mesh_of(jax, n), in_specs=P("i"), out_specs=P("i"))(_numbers(2 * n, 3)).sum())(w)


def no_arguments(jax, n):
    P = jax.P
    return jax.shard_map(lambda: jax.lax.axis_index("i")[None] * 2, mesh=mesh_of(jax, n), in_specs=(),
                         out_specs=P("i"))()


def mapped_by_vmap_inside_and_outside(jax, n):
    P = jax.P
    f = jax.shard_map(jax.vmap(lambda row: row - jax.lax.pmean(row, "i")), mesh=mesh_of(jax, n), in_specs=P("i"),
                      out_specs=P("i"))
    return jax.vmap(f, in_axes=2, out_axes=1)(_numbers(2 * n, 3, 4))


def in_jit_in_scan(jax, n):
    P = jax.P
    f = jax.shard_map(lambda c, x: c + jax.lax.psum(x, "i"), mesh=mesh_of(jax, n), in_specs=(P(), P("i")),
                      out_specs=P())
    return jax.jit(lambda xs: jax.lax.scan(lambda c, x: (f(c, x), c), np.zeros((1, 3), np.float32), xs))(
        _numbers(4, n, 3))


def decorated(jax, n):
    P = jax.P

    @partial(jax.shard_map, mesh=mesh_of(jax, n), in_specs=(P("i"), P()), out_specs=P("i"))
    def f(x, y):
        return x + y
    return f(_numbers(n, 2), _numbers(1, 2))


def mesh_of_the_context(jax, n):
    P = jax.P
    with jax.set_mesh(mesh_of(jax, n)):
        return jax.shard_map(lambda x: jax.lax.psum(x, "i"), in_specs=P("i"), out_specs=P())(_numbers(n * 2, 3))


def devices_in_another_order(jax, n):
    P = jax.P
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:n])[::-1], ("i",))
    f = lambda x: x + jax.lax.axis_index("i") + jax.lax.ppermute(x, "i", [(0, 1)])
    return jax.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(_numbers(n * 2, 3))


def half_of_the_devices(jax, n):
    P = jax.P
    mesh = jax.sharding.Mesh(np.array(jax.devices()[n // 2:n]), ("i",))
    return jax.shard_map(lambda x: x * 2 - jax.lax.pmean(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P("i"))(
        _numbers(n, 3))


# -- partly manual, nested ------------------------------------------------------------------------------------------

def _partly(jax, n, body, in_specs, out_specs, **options):
    return jax.jit(jax.shard_map(partial(body, jax), mesh=_grid(jax, n), in_specs=in_specs, out_specs=out_specs,
                                 axis_names={"i"}, **options))


def partly_manual_sums(jax, n):
    P = jax.P
    return _partly(jax, n, lambda jax, x: jax.lax.psum(x @ x.T, "i"), P("i"), P())(_numbers(4, 8))


def partly_manual_collectives(jax, n):
    P = jax.P

    def body(jax, x):
        lax = jax.lax
        swapped = lax.ppermute(x, "i", [(0, 1), (1, 0)])
        return (lax.all_gather(x, "i", tiled=True)[:2] * x, swapped * lax.axis_index("i"), lax.pmax(x, "i") - x,
                lax.psum_scatter(x, "i", tiled=True), lax.all_to_all(x, "i", 1, 0, tiled=True))
    return _partly(jax, n, body, P("i"), P("i"))(_numbers(4, 8))


def partly_manual_gradient(jax, n):
    P, jnp = jax.P, jax.numpy
    f = _partly(jax, n, lambda jax, w, x: jax.lax.psum(jax.numpy.sin(x @ w), "i"), (P(), P("i")), P())
    return jax.grad(lambda w: (f(w, _numbers(4, 8)) ** 2).sum())(jnp.asarray(_numbers(8, 2)))


def partly_manual_gradient_inside(jax, n):
    P = jax.P
    return _partly(jax, n, lambda jax, w, x: jax.grad(lambda w: (jax.numpy.sin(x @ w) ** 2).sum())(w), (P(), P("i")),
                   P())(_numbers(8, 2), _numbers(4, 8))


def partly_manual_unchecked(jax, n):
    P, jnp = jax.P, jax.numpy
    f = _partly(jax, n, lambda jax, x: jax.lax.psum(x * 2, "i") * x, P("i"), P("i"), check_vma=False)
    return f(_numbers(4, 8)), jax.grad(lambda x: (f(x) ** 2).sum())(jnp.asarray(_numbers(4, 8)))


def partly_manual_keeps_the_other_axis_sharded(jax, n):
    P, mesh = jax.P, _grid(jax, n)
    x = jax.device_put(_numbers(4, 8), jax.NamedSharding(mesh, P("i", "j")))
    f = jax.jit(jax.shard_map(lambda x: x * 2 + jax.lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P("i"),
                              axis_names={"i"}))
    return f(x)


def partly_manual_scan(jax, n):
    P = jax.P

    def body(jax, xs):
        return jax.lax.scan(lambda c, x: (c + jax.lax.psum(x, "i"), x * c), jax.lax.psum(xs[0], "i"), xs)
    return _partly(jax, n, body, P(None, "i"), (P(), P(None, "i")))(_numbers(3, 2, 4))


def nested_over_the_other_axis(jax, n):
    P = jax.P

    def body(jax, x):
        inner = jax.shard_map(lambda y: jax.lax.psum(y, "j") + jax.lax.axis_index("i"), in_specs=P(None, "j"),
                              out_specs=P(), axis_names={"j"})
        return inner(x) + jax.lax.psum(x.sum(), "i")
    return _partly(jax, n, body, P("i"), P("i"))(_numbers(4, 8))


def nested_gradient(jax, n):
    P, jnp = jax.P, jax.numpy
    f = _partly(jax, n, lambda jax, x: jax.shard_map(
        lambda y: jax.lax.psum(jnp.sin(y).sum(), "j") * y, in_specs=P(None, "j"), out_specs=P(None, "j"),
        axis_names={"j"})(x), P("i"), P("i"))
    return jax.grad(lambda x: (f(x) ** 2).sum())(jnp.asarray(_numbers(4, 8)))


def nested_default_names(jax, n):
    P = jax.P
    return _partly(jax, n, lambda jax, x: jax.shard_map(lambda y: y * jax.lax.axis_index("j"), in_specs=P(None, "j"),
                                                        out_specs=P(None, "j"))(x), P("i"), P("i"))(_numbers(4, 8))


def specs_that_are_none(jax, n):
    mesh, x, y = mesh_of(jax, n), _numbers(2 * n), _numbers(2 * n, seed=1)
    return (jax.shard_map(lambda x: x * 2, mesh=mesh, in_specs=None, out_specs=jax.P())(x),
            jax.shard_map(lambda x, y: x.sum() + y, mesh=mesh, in_specs=(None, jax.P("i")), out_specs=jax.P("i"))(x, y),
            jax.shard_map(lambda x, y: y, mesh=mesh, in_specs=(None, jax.P("i")), out_specs=jax.P("i"))(None, y))
