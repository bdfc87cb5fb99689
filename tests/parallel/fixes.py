"""The programs of `mistakes.py`, corrected as their messages advise: each function gives (result, expected result)."""

from __future__ import annotations

import numpy as np

from tests.parallel.bodies import mesh_of
from tests.parallel.meshes import _grid, _numbers
from tests.parallel.mistakes import _over, _rows


def forgotten_mean(jax, n):
    x = _numbers(2 * n)
    return _over(jax, n, lambda x: jax.lax.pmean(x.mean(), "i"), jax.P("i"), jax.P(), x), x.mean()


def forgotten_sum_of_a_gradient(jax, n):
    x = _numbers(2 * n)

    def f(w, x):
        return jax.lax.psum(jax.grad(lambda w: (w * x).sum())(jax.lax.pcast(w, "i", to="varying")), "i")
    return _over(jax, n, f, (jax.P(), jax.P("i")), jax.P(), 2.0, x), x.sum()


def cast_of_what_varies(jax, n):
    x = _numbers(2 * n)
    return _over(jax, n, lambda x: jax.lax.pcast(x, (), to="varying"), jax.P("i"), jax.P("i"), x), x


def cast_to_an_unknown_type(jax, n):
    x = _numbers(2)
    return _over(jax, n, lambda x: jax.lax.pcast(x, "i", to="varying"), jax.P(), jax.P("i"), x), np.tile(x, n)


def cast_over_an_unknown_axis(jax, n):
    x = _numbers(2)
    return _over(jax, n, lambda x: jax.lax.pcast(x, "i", to="varying"), jax.P(), jax.P("i"), x), np.tile(x, n)


def sum_over_an_unknown_axis(jax, n):
    x = _numbers(2 * n)
    f = jax.vmap(lambda x: jax.lax.psum(x, ("i", "k")), axis_name="k", out_axes=None)
    return _over(jax, n, f, jax.P("i"), jax.P(), x), x.sum()


def groups_in_a_checked_region(jax, n):
    x = _numbers(2 * n)
    groups = _over(jax, n, lambda x: jax.lax.psum(x, "i", axis_index_groups=[list(range(n))]), jax.P("i"), jax.P(), x,
                   check_vma=False)
    axis = jax.shard_map(lambda x: jax.lax.psum(x, "j"), mesh=_grid(jax, n), in_specs=jax.P(("i", "j")),
                         out_specs=jax.P("i"))(x)
    return (groups, axis), (x.reshape(n, 2).sum(0), x.reshape(2, n // 2, 2).sum(1).ravel())


def rows_that_do_not_divide(jax, n):
    x = np.pad(_numbers(2 * n + 1), (0, n - 1))
    whole = _over(jax, n, lambda x: x, jax.P(None), jax.P(None), x[:-1])
    return (_over(jax, n, lambda x: x, jax.P("i"), jax.P("i"), x), whole), (x, x[:-1])


def spec_that_is_a_string(jax, n):
    x = _numbers(n)
    return _over(jax, n, lambda x: x, jax.P("i"), jax.P("i"), x), x


def result_without_a_spec(jax, n):
    x = _numbers(n)
    return _over(jax, n, lambda x: x, jax.P("i"), jax.P("i"), x), x


def too_few_specs(jax, n):
    x, y = _numbers(n), _numbers(n)
    return _over(jax, n, lambda x, y: x + y, (jax.P("i"), jax.P("i")), jax.P("i"), x, y), x + y


def spec_longer_than_the_rank(jax, n):
    x = _numbers(n)
    return _over(jax, n, lambda x: x, jax.P("i"), jax.P("i"), x), x


def unknown_axis_in_a_spec(jax, n):
    x = _numbers(n)
    return _over(jax, n, lambda x: x, jax.P(), jax.P(), x), x


def unknown_axis_of_a_result(jax, n):
    x = _numbers(n)
    return _over(jax, n, lambda x: x, jax.P("i"), jax.P("i"), x), x


def scalar_result_with_an_axis(jax, n):
    x = _numbers(n)
    kept = _over(jax, n, lambda x: x.sum()[None], jax.P("i"), jax.P("i"), x)
    return (kept, _over(jax, n, lambda x: jax.lax.psum(x.sum(), "i"), jax.P("i"), jax.P(), x)), (x, x.sum())


def spec_of_an_axis_that_is_not_manual(jax, n):
    x, results = _numbers(4, 8), []
    for spec, names in ((jax.P("i"), {"i"}), (jax.P("i", "j"), {"i", "j"})):
        f = jax.shard_map(lambda x: x, mesh=_grid(jax, n), in_specs=spec, out_specs=spec, axis_names=names)
        results.append(jax.jit(f)(x))
    return results, [x, x]


def axis_names_that_the_mesh_does_not_have(jax, n):
    x = _numbers(4, 8)
    return jax.jit(jax.shard_map(lambda x: x, mesh=_grid(jax, n), in_specs=jax.P("i"), out_specs=jax.P("i"),
                                 axis_names={"i"}))(x), x


def nested_on_another_mesh(jax, n):
    x = _numbers(4, 8)
    inner = jax.shard_map(lambda y: 2 * y, in_specs=jax.P(None, "j"), out_specs=jax.P(None, "j"), axis_names={"j"})
    return jax.jit(jax.shard_map(inner, mesh=_grid(jax, n), in_specs=jax.P("i"), out_specs=jax.P("i"),
                                 axis_names={"i"}))(x), 2 * x


def no_mesh(jax, n):
    x, f = _numbers(n), jax.shard_map(lambda x: x, in_specs=jax.P("i"), out_specs=jax.P("i"))
    with jax.set_mesh(mesh_of(jax, n)):
        result = f(x)
    return (result, _over(jax, n, lambda x: x, jax.P("i"), jax.P("i"), x)), (x, x)


def more_rows_than_devices_in_pmap(jax, n):
    x = _numbers(2 * n, 2).reshape(n, 2, 2)
    return jax.pmap(jax.vmap(lambda x: x), devices=jax.devices()[:n])(x), x


def rows_that_differ_in_pmap(jax, n):
    x, y = _numbers(n, 2), _numbers(2)
    return (jax.pmap(lambda x, y: x + y)(x, x), jax.pmap(lambda x, y: x + y, in_axes=(0, None))(x, y)), (x + x, x + y)


def number_in_pmap(jax, n):
    x = _numbers(n, 2)
    rows = jax.pmap(lambda x, c: x * c)(x, np.full(n, 2.0, np.float32))
    return (rows, jax.pmap(lambda x, c: x * c, in_axes=(0, None))(x, 2.0)), (2 * x, 2 * x)


def pmap_without_the_name_of_its_axis(jax, n):
    x = _numbers(n, 2)
    return jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(x), np.tile(x.sum(0), (n, 1))


def name_out_of_scope(jax, n):
    x = _numbers(n)
    mapped = jax.jit(jax.vmap(lambda x: jax.lax.psum(x, "i"), axis_name="i"))(x)
    return (mapped, jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")(x)), (np.full(n, x.sum()),) * 2


def permutation_with_a_target_twice(jax, n):
    x = _numbers(n, 2)
    result = jax.pmap(lambda x: jax.lax.ppermute(x, "i", [(0, 1), (1, 0)]), axis_name="i")(x)
    return result[:2], x[1::-1]


def all_to_all_that_does_not_divide(jax, n):
    x = _numbers(n, 2 * n, 2)
    result = jax.pmap(lambda x: jax.lax.all_to_all(x, "i", 0, 0, tiled=True), axis_name="i")(x)
    return result, x.reshape(n, n, 2, 2).swapaxes(0, 1).reshape(n, 2 * n, 2)


def scatter_that_does_not_divide(jax, n):
    x = _numbers(n, 2 * n, 2)
    result = jax.pmap(lambda x: jax.lax.psum_scatter(x, "i", tiled=True), axis_name="i")(x)
    return result, x.sum(0).reshape(n, 2, 2)


def gathered_along_an_axis_that_is_not_there(jax, n):
    x = _numbers(n, 2)
    return jax.pmap(lambda x: jax.lax.all_gather(x, "i", axis=1), axis_name="i")(x), np.tile(x.T, (n, 1, 1))


def uneven_device_put(jax, n):
    x = np.pad(_numbers(2 * n + 1, 3), ((0, n - 1), (0, 0)))
    whole = jax.device_put(x[:-1], jax.NamedSharding(mesh_of(jax, n), jax.P(None)))
    return (jax.device_put(x, _rows(jax, n)), whole), (x, x[:-1])


def uneven_in_shardings(jax, n):
    x = np.pad(_numbers(2 * n + 1, 3), ((0, n - 1), (0, 0)))
    return jax.jit(lambda x: x * 2, in_shardings=_rows(jax, n))(x), 2 * x


def the_same_axis_twice_in_a_spec(jax, n):
    x = _numbers(n, n)
    return jax.device_put(x, jax.NamedSharding(mesh_of(jax, n), jax.P("i", None))), x


def boolean_of_a_value_in_the_region(jax, n):
    x = _numbers(n)
    by_cond = _over(jax, n, lambda x: jax.lax.cond(x.sum() > 0, lambda: x, lambda: -x), jax.P("i"), jax.P("i"), x)
    by_where = _over(jax, n, lambda x: jax.numpy.where(x.sum() > 0, x, -x), jax.P("i"), jax.P("i"), x)
    return (by_cond, by_where), (np.abs(x), np.abs(x))


def used_after_donation(jax, n):
    x = jax.device_put(_numbers(2 * n, 3), _rows(jax, n))
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    return (f(x.copy()), x + 0, f(x)), (_numbers(2 * n, 3) + 1, _numbers(2 * n, 3), _numbers(2 * n, 3) + 1)


def _on_two_devices(jax):
    a, b = (jax.device_put(_numbers(4), d) for d in jax.devices()[:2])
    return jax.device_put(a, b.sharding), b


def arrays_on_different_devices(jax, n):
    a, b = _on_two_devices(jax)
    return a + b, 2 * _numbers(4)


def arrays_on_different_devices_in_jit(jax, n):
    return jax.jit(lambda a, b: a * b)(*_on_two_devices(jax)), _numbers(4) ** 2


def arrays_on_different_meshes(jax, n):
    half = jax.sharding.Mesh(np.array(jax.devices()[:n // 2]), ("i",))
    a = jax.device_put(_numbers(2 * n), _rows(jax, n))
    b = jax.device_put(_numbers(2 * n), jax.NamedSharding(half, jax.P("i")))
    return a + jax.device_put(b, a.sharding), 2 * _numbers(2 * n)


def argument_put_elsewhere_than_in_shardings(jax, n):
    x = jax.device_put(_numbers(n, n), jax.NamedSharding(mesh_of(jax, n), jax.P(None, "i")))
    rows = _rows(jax, n)
    return jax.jit(lambda x: x * 2, in_shardings=rows)(jax.device_put(x, rows)), 2 * _numbers(n, n)


def argument_put_elsewhere_than_compiled_for(jax, n):
    f = jax.jit(lambda x: x * 2).lower(jax.device_put(_numbers(n, n), _rows(jax, n))).compile()
    x = jax.device_put(_numbers(n, n), jax.devices()[0])
    again = jax.jit(lambda x: x * 2).lower(x).compile()
    return (f(jax.device_put(x, f.input_shardings[0][0])), again(x)), (2 * _numbers(n, n),) * 2


def argument_put_elsewhere_than_the_region(jax, n):
    x, rows = jax.device_put(_numbers(n, n), jax.devices()[n - 1]), _rows(jax, n // 2)
    f = jax.shard_map(lambda x: x, mesh=rows.mesh, in_specs=jax.P("i"), out_specs=jax.P("i"))
    return f(jax.device_put(x, rows)), _numbers(n, n)


def constraint_on_a_manual_axis(jax, n):
    x, rows = _numbers(2 * n), _rows(jax, n)
    f = jax.shard_map(lambda x: 2 * x, mesh=rows.mesh, in_specs=jax.P("i"), out_specs=jax.P("i"))
    return jax.jit(lambda x: jax.lax.with_sharding_constraint(f(x), rows))(x), 2 * x


def donated_twice(jax, n):
    x, want = jax.device_put(_numbers(2 * n), _rows(jax, n)), _numbers(2 * n) + 1
    both = jax.jit(lambda x, y: (x + 1, y + 1), donate_argnums=(0, 1))(x, x.copy())
    x = jax.device_put(_numbers(2 * n), _rows(jax, n))
    return (both, jax.jit(lambda x, y: (x + 1, y + 1))(x, x)), ((want, want), (want, want))


def one_row_too_many_in_axes(jax, n):
    x = _numbers(n, 2)
    return jax.pmap(lambda x, y: x, in_axes=(0, 0))(x, x), x


def spec_of_a_mesh_without_that_axis(jax, n):
    return jax.device_put(_numbers(2 * n), _rows(jax, n)), _numbers(2 * n)


def mesh_of_too_many_devices(jax, n):
    return jax.device_put(_numbers(n), jax.NamedSharding(jax.make_mesh((n,), ("i",)), jax.P("i"))), _numbers(n)
