"""`jit` on sharded arrays, constraints, donation, and the older idioms of programs for several devices."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.parallel.bodies import mesh_of
from tests.parallel.meshes import _grid, _numbers


def _put(jax, x, mesh, *spec):
    return jax.device_put(x, jax.NamedSharding(mesh, jax.P(*spec)))


def elementwise_keeps_the_sharding(jax, n):
    x = _put(jax, _numbers(8, 8), _grid(jax, n), "i", "j")
    return x * 2, jax.jit(lambda x: jax.numpy.sin(x) + 1)(x)


def product_of_sharded_matrices(jax, n):
    mesh = _grid(jax, n)
    a, b = _put(jax, _numbers(8, 8), mesh, "i", "j"), _put(jax, _numbers(8, 4, seed=1), mesh, "j")
    return jax.jit(jax.numpy.matmul, out_shardings=jax.NamedSharding(mesh, jax.P("i")))(a, b)


def in_and_out_shardings(jax, n):
    mesh, P = mesh_of(jax, n), jax.P
    rows = jax.NamedSharding(mesh, P("i"))
    f = jax.jit(lambda x, w: (jax.numpy.tanh(x @ w), x.sum()), in_shardings=(rows, None), out_shardings=(rows, None))
    return f(_numbers(n * 2, 3), _numbers(3, 2))


def constraint_in_a_gradient(jax, n):
    mesh, P, jnp = mesh_of(jax, n), jax.P, jax.numpy
    rows = jax.NamedSharding(mesh, P("i"))

    def loss(w, x):
        h = jax.lax.with_sharding_constraint(jnp.tanh(x @ w), rows)
        return (h ** 2).sum()
    return jax.jit(jax.value_and_grad(loss))(jnp.asarray(_numbers(3, 4)), _numbers(2 * n, 3))


def uneven_constraint(jax, n):
    rows = jax.NamedSharding(mesh_of(jax, n), jax.P("i"))
    return np.asarray(jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, rows))(_numbers(2 * n + 1)))


def shardings_by_spec_under_a_mesh(jax, n):
    P = jax.P
    with jax.set_mesh(mesh_of(jax, n)):
        return jax.jit(lambda x: jax.lax.with_sharding_constraint(x * 2, P("i")))(_numbers(2 * n, 3))


def scan_over_sharded_rows(jax, n):
    xs = _put(jax, _numbers(4, 2 * n), mesh_of(jax, n), None, "i")
    return jax.jit(lambda xs: jax.lax.scan(lambda c, x: (c + x, c * x), xs[0], xs))(xs)


def reductions_over_the_cut_axis(jax, n):
    x, jnp = _put(jax, _numbers(2 * n, 3), mesh_of(jax, n), "i"), jax.numpy
    return jax.jit(lambda x: (x.sum(), x.max(0), jnp.argmax(x, 0), jnp.cumsum(x, 0), jnp.sort(x, 0),
                              (x - x.mean(0)) / x.std(0)))(x)


def indexing_and_updates(jax, n):
    x = _put(jax, _numbers(2 * n, 3), mesh_of(jax, n), "i")
    return jax.jit(lambda x: (x[1], x[::2], x.at[3].set(0.0), x[np.array([3, 0, 1])], x.reshape(n, -1)))(x)


def random_numbers_do_not_depend_on_the_devices(jax, n):
    mesh = mesh_of(jax, n)
    return jax.jit(lambda k: jax.random.normal(k, (2 * n, 3)), out_shardings=jax.NamedSharding(mesh, jax.P("i")))(
        jax.random.key(7))


def resharded(jax, n):
    mesh = _grid(jax, n)
    x = _put(jax, _numbers(8, 8), mesh, "i", "j")
    return [_put(jax, x, mesh, *spec) for spec in (("j", "i"), (("i", "j"),), (None, ("j", "i")), (), ("i",))]


def gathered_on_one_device(jax, n):
    x = _put(jax, _numbers(8, 8), _grid(jax, n), "i", "j")
    return jax.device_put(x, jax.devices()[n - 1]), np.asarray(x)


def parts_of_arrays(jax, n):
    x = _put(jax, _numbers(8, 8), _grid(jax, n), "i")
    return [(str(s.index), s.replica_id, np.asarray(s.data)) for s in x.addressable_shards]


def array_from_callback(jax, n):
    values = _numbers(2 * n, 3)
    s = jax.NamedSharding(mesh_of(jax, n), jax.P("i"))
    return jax.make_array_from_callback(values.shape, s, lambda index: values[index])


def array_from_single_devices(jax, n):
    s = jax.NamedSharding(mesh_of(jax, n), jax.P("i"))
    parts = [jax.device_put(_numbers(2, 3, seed=k), d) for k, d in enumerate(jax.devices()[:n])]
    return jax.make_array_from_single_device_arrays((2 * n, 3), s, parts)


def donated_state(jax, n):
    mesh = mesh_of(jax, n)
    x = _put(jax, _numbers(2 * n, 3), mesh, "i")
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    y = f(x)
    return y, x.is_deleted(), f(y)


def donated_in_pmap(jax, n):
    f = jax.pmap(lambda x: x * 2, donate_argnums=0)
    x = f(_numbers(n, 3))
    y = f(x)
    return y, x.is_deleted()


def pmap_with_axes(jax, n):
    f = jax.pmap(lambda x, w: x @ w, in_axes=(1, None), out_axes=1)
    return f(_numbers(4, n, 3), _numbers(3, 2))


def pmap_static_and_nested_vmap(jax, n):
    f = jax.pmap(lambda x, k: jax.vmap(lambda r: r * k + jax.lax.psum(r, "i"))(x), axis_name="i",
                 static_broadcasted_argnums=1)
    return f(_numbers(n, 2, 3), 3)


def pmap_of_grad_and_grad_of_pmap(jax, n):
    jnp = jax.numpy
    f = lambda w, x: jnp.tanh(x @ w).sum()
    w, x = jnp.asarray(_numbers(3)), _numbers(n, 4, 3)
    return (jax.pmap(jax.grad(f), in_axes=(None, 0))(w, x),
            jax.grad(lambda w: jax.pmap(f, in_axes=(None, 0))(w, x).sum())(w))


def replicated_train_state(jax, n):
    """The idiom of older programs: a train state with a leading axis of devices."""
    @partial(jax.pmap, axis_name="batch")
    def step(w, x):
        g = jax.lax.pmean(jax.grad(lambda w: ((x @ w) ** 2).mean())(w), "batch")
        return w - 0.1 * g
    w = jax.device_put_replicated(_numbers(3), jax.devices()[:n]) if hasattr(jax, "device_put_replicated") else (
        np.stack([_numbers(3)] * n))
    for k in range(3):
        w = step(w, _numbers(n, 4, 3, seed=k))
    return np.asarray(w)


def result_of_pmap_goes_on(jax, n):
    y = jax.pmap(lambda x: x + 1)(_numbers(n, 3))
    return y.sum(), y[0], y * 2, jax.jit(lambda y: y.mean(0))(y)


def pmap_in_jit(jax, n):
    return jax.jit(lambda x: jax.pmap(lambda r: r / jax.lax.psum(r, "i"), axis_name="i")(x) * 2)(_numbers(n, 3))


def experimental_shard_map(jax, n):
    import importlib
    shard_map = importlib.import_module(f"{jax.__name__}.experimental.shard_map").shard_map
    return shard_map(lambda x: jax.lax.psum(x, "i"), mesh=mesh_of(jax, n), in_specs=jax.P("i"),
                     out_specs=jax.P())(_numbers(2 * n, 3))


def mesh_from_create_device_mesh(jax, n):
    import importlib
    utils = importlib.import_module(f"{jax.__name__}.experimental.mesh_utils")
    mesh = jax.sharding.Mesh(utils.create_device_mesh((2, n // 2)), ("i", "j"))
    return _put(jax, _numbers(8, 8), mesh, "i", "j") * 2


def callbacks_on_each_device(jax, n):
    P = jax.P
    f = lambda x: jax.pure_callback(lambda y: np.sort(np.asarray(y), 0), x, x)
    return jax.shard_map(f, mesh=mesh_of(jax, n), in_specs=P("i"), out_specs=P("i"))(_numbers(2 * n, 3))


def equal_shardings(jax, n):
    mesh, P = _grid(jax, n), jax.P
    a, b = jax.NamedSharding(mesh, P("i", None)), jax.NamedSharding(mesh, P("i"))
    return (a == b, a.is_equivalent_to(b, 2), a.is_fully_replicated, str(a.shard_shape((8, 4))), a.num_devices,
            hash(a) == hash(jax.NamedSharding(mesh, P("i", None))))
