"""Mistakes in programs for several devices; the class of each error is JAX's."""

from __future__ import annotations

import numpy as np

from tests.parallel.bodies import mesh_of
from tests.parallel.meshes import _grid, _numbers


def _over(jax, n, f, in_specs, out_specs, *args, **options):
    return jax.shard_map(f, mesh=mesh_of(jax, n), in_specs=in_specs, out_specs=out_specs, **options)(*args)


def forgotten_mean(jax, n):
    return _over(jax, n, lambda x: x.mean(), jax.P("i"), jax.P(), _numbers(2 * n))


def forgotten_sum_of_a_gradient(jax, n):
    f = lambda w, x: jax.grad(lambda w: (w * x).sum())(jax.lax.pcast(w, "i", to="varying"))
    return _over(jax, n, f, (jax.P(), jax.P("i")), jax.P(), 2.0, _numbers(2 * n))


def carry_that_varies_only_after_a_step(jax, n):
    f = lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c + x.sum(), 0.0)[None]
    return _over(jax, n, f, jax.P("i"), jax.P("i"), _numbers(2 * n))


def branches_that_vary_differently(jax, n):
    f = lambda x: jax.lax.cond(True, lambda: x, lambda: jax.numpy.zeros(2))
    return _over(jax, n, f, jax.P("i"), jax.P("i"), _numbers(2 * n))


def cast_of_what_varies(jax, n):
    return _over(jax, n, lambda x: jax.lax.pcast(x, "i", to="varying"), jax.P("i"), jax.P("i"), _numbers(2 * n))


def cast_to_an_unknown_type(jax, n):
    return _over(jax, n, lambda x: jax.lax.pcast(x, "i", to="sideways"), jax.P(), jax.P("i"), _numbers(2 * n))


def cast_over_an_unknown_axis(jax, n):
    return _over(jax, n, lambda x: jax.lax.pcast(x, "k", to="varying"), jax.P(), jax.P("i"), _numbers(2 * n))


def sum_over_an_unknown_axis(jax, n):
    return _over(jax, n, lambda x: jax.lax.psum(x, "k"), jax.P("i"), jax.P(), _numbers(2 * n))


def groups_in_a_checked_region(jax, n):
    f = lambda x: jax.lax.psum(x, "i", axis_index_groups=[list(range(n))])
    return _over(jax, n, f, jax.P("i"), jax.P(), _numbers(2 * n))


def rows_that_do_not_divide(jax, n):
    return _over(jax, n, lambda x: x, jax.P("i"), jax.P("i"), _numbers(2 * n + 1))


def spec_that_is_a_string(jax, n):
    return _over(jax, n, lambda x: x, "i", jax.P("i"), _numbers(n))


def result_without_a_spec(jax, n):
    return _over(jax, n, lambda x: x, jax.P("i"), None, _numbers(n))


def too_few_specs(jax, n):
    return _over(jax, n, lambda x, y: x + y, (jax.P("i"),), jax.P("i"), _numbers(n), _numbers(n))


def spec_longer_than_the_rank(jax, n):
    return _over(jax, n, lambda x: x, jax.P(None, "i"), jax.P("i"), _numbers(n))


def unknown_axis_in_a_spec(jax, n):
    return _over(jax, n, lambda x: x, jax.P("z"), jax.P("i"), _numbers(n))


def unknown_axis_of_a_result(jax, n):
    return _over(jax, n, lambda x: x, jax.P("i"), jax.P("z"), _numbers(n))


def scalar_result_with_an_axis(jax, n):
    return _over(jax, n, lambda x: x.sum(), jax.P("i"), jax.P("i"), _numbers(n))


def spec_of_an_axis_that_is_not_manual(jax, n):
    return jax.shard_map(lambda x: x, mesh=_grid(jax, n), in_specs=jax.P("i", "j"), out_specs=jax.P("i", "j"),
                         axis_names={"i"})(_numbers(4, 8))


def axis_names_that_the_mesh_does_not_have(jax, n):
    return jax.shard_map(lambda x: x, mesh=_grid(jax, n), in_specs=jax.P("i"), out_specs=jax.P("i"),
                         axis_names={"k"})(_numbers(4, 8))


def nested_on_another_mesh(jax, n):
    inner = jax.shard_map(lambda y: y, mesh=mesh_of(jax, n, names="k"), in_specs=jax.P(), out_specs=jax.P())
    return jax.shard_map(inner, mesh=_grid(jax, n), in_specs=jax.P("i"), out_specs=jax.P("i"), axis_names={"i"})(
        _numbers(4, 8))


def no_mesh(jax, n):
    return jax.shard_map(lambda x: x, in_specs=jax.P("i"), out_specs=jax.P("i"))(_numbers(n))


def more_rows_than_devices_in_pmap(jax, n):
    return jax.pmap(lambda x: x)(_numbers(2 * n, 2))


def rows_that_differ_in_pmap(jax, n):
    return jax.pmap(lambda x, y: x + y)(_numbers(n, 2), _numbers(n - 1, 2))


def number_in_pmap(jax, n):
    return jax.pmap(lambda x, c: x * c)(_numbers(n, 2), 2.0)


def pmap_without_the_name_of_its_axis(jax, n):
    return jax.pmap(lambda x: jax.lax.psum(x, "i"))(_numbers(n, 2))


def name_out_of_scope(jax, n):
    return jax.jit(lambda x: jax.lax.psum(x, "i"))(_numbers(n))


def permutation_with_a_target_twice(jax, n):
    return jax.pmap(lambda x: jax.lax.ppermute(x, "i", [(0, 1), (1, 1)]), axis_name="i")(_numbers(n, 2))


def all_to_all_that_does_not_divide(jax, n):
    return jax.pmap(lambda x: jax.lax.all_to_all(x, "i", 0, 0), axis_name="i")(_numbers(n, n + 1, 2))


def scatter_that_does_not_divide(jax, n):
    return jax.pmap(lambda x: jax.lax.psum_scatter(x, "i", tiled=True), axis_name="i")(_numbers(n, n + 1, 2))


def gathered_along_an_axis_that_is_not_there(jax, n):
    return jax.pmap(lambda x: jax.lax.all_gather(x, "i", axis=3), axis_name="i")(_numbers(n, 2))


def uneven_device_put(jax, n):
    return jax.device_put(_numbers(2 * n + 1, 3), jax.NamedSharding(mesh_of(jax, n), jax.P("i")))


def uneven_in_shardings(jax, n):
    rows = jax.NamedSharding(mesh_of(jax, n), jax.P("i"))
    return jax.jit(lambda x: x * 2, in_shardings=rows)(_numbers(2 * n + 1, 3))


def the_same_axis_twice_in_a_spec(jax, n):
    return jax.NamedSharding(mesh_of(jax, n), jax.P("i", "i"))


def boolean_of_a_value_in_the_region(jax, n):
    return _over(jax, n, lambda x: x if x.sum() > 0 else -x, jax.P("i"), jax.P("i"), _numbers(n))


def used_after_donation(jax, n):
    x = jax.device_put(_numbers(2 * n, 3), jax.NamedSharding(mesh_of(jax, n), jax.P("i")))
    jax.jit(lambda x: x + 1, donate_argnums=0)(x)
    return np.asarray(x)


# -- placement -------------------------------------------------------------------------------------------------------

def _rows(jax, n):
    return jax.NamedSharding(mesh_of(jax, n), jax.P("i"))


def arrays_on_different_devices(jax, n):
    a, b = (jax.device_put(_numbers(4), d) for d in jax.devices()[:2])
    return a + b


def arrays_on_different_devices_in_jit(jax, n):
    a, b = (jax.device_put(_numbers(4), d) for d in jax.devices()[:2])
    return jax.jit(lambda a, b: a * b)(a, b)


def arrays_on_different_meshes(jax, n):
    half = jax.sharding.Mesh(np.array(jax.devices()[:n // 2]), ("i",))
    a = jax.device_put(_numbers(2 * n), _rows(jax, n))
    return a + jax.device_put(_numbers(2 * n), jax.NamedSharding(half, jax.P("i")))


def argument_put_elsewhere_than_in_shardings(jax, n):
    x = jax.device_put(_numbers(n, n), jax.NamedSharding(mesh_of(jax, n), jax.P(None, "i")))
    return jax.jit(lambda x: x * 2, in_shardings=_rows(jax, n))(x)


def argument_put_elsewhere_than_compiled_for(jax, n):
    f = jax.jit(lambda x: x * 2).lower(jax.device_put(_numbers(n, n), _rows(jax, n))).compile()
    return f(jax.device_put(_numbers(n, n), jax.devices()[0]))


def argument_put_elsewhere_than_the_region(jax, n):
    x = jax.device_put(_numbers(n, n), jax.devices()[n - 1])
    return jax.shard_map(lambda x: x, mesh=mesh_of(jax, n // 2), in_specs=jax.P("i"), out_specs=jax.P("i"))(x)


def constraint_on_a_manual_axis(jax, n):
    mesh = mesh_of(jax, n)
    return jax.shard_map(lambda x: jax.lax.with_sharding_constraint(x, jax.NamedSharding(mesh, jax.P("i"))), mesh=mesh,
                         in_specs=jax.P("i"), out_specs=jax.P("i"))(_numbers(2 * n))


def donated_twice(jax, n):
    x = jax.device_put(_numbers(2 * n), _rows(jax, n))
    return jax.jit(lambda x, y: (x + 1, y + 1), donate_argnums=(0, 1))(x, x)


def one_row_too_many_in_axes(jax, n):
    return jax.pmap(lambda x, y: x, in_axes=(0,))(_numbers(n, 2), _numbers(n, 2))


def spec_of_a_mesh_without_that_axis(jax, n):
    return jax.device_put(_numbers(2 * n), jax.NamedSharding(mesh_of(jax, n), jax.P("rows")))


def mesh_of_too_many_devices(jax, n):
    return jax.make_mesh((n + 1,), ("i",))
