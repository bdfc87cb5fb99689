"""Bodies of programs for several devices: functions of the library and one device's shard, over the mesh axis "i".

The shard has shape (8, 3). Each body runs in every container of `programs.py`, plain and differentiated, so one line
here gives many programs.
"""

from __future__ import annotations

from functools import partial

import numpy as np


def ring(jax, step=1):
    n = jax.lax.axis_size("i")
    return [(k, (k + step) % n) for k in range(n)]


def halves(jax):
    """Two groups of neighbouring devices."""
    n = jax.lax.axis_size("i")
    return [list(range(n // 2)), list(range(n // 2, n))]


def mean_over_devices(jax, x):
    y = x - jax.lax.pmean(x.mean(0), "i")
    return y / jax.numpy.sqrt(jax.lax.pmean((y * y).mean(0), "i") + 1e-3)


def softmax_over_devices(jax, x):
    top = jax.lax.pmax(jax.lax.stop_gradient(x).max(0), "i")
    e = jax.numpy.exp(x - top)
    return e / jax.lax.psum(e.sum(0), "i")


def sum_in_scan(jax, x):
    carry, ys = jax.lax.scan(lambda c, row: (c + jax.lax.psum(row, "i"), row * 2), jax.lax.psum(x[0], "i"), x)
    return ys + carry


def varying_carry(jax, x):
    def step(c, row):
        c = jax.numpy.sin(c) + row
        return c, c * jax.lax.psum(row, "i")
    return jax.lax.scan(step, x[0], x)[1]


def ring_sum(jax, x):
    """A sum in which the shards of all devices pass around a ring."""
    def step(_, state):
        total, y = state
        y = jax.lax.ppermute(y, "i", ring(jax))
        return total + y * y, y
    return jax.lax.fori_loop(0, jax.lax.axis_size("i") - 1, step, (x * x, x))[0]


def while_all_are_small(jax, x):
    return jax.lax.while_loop(lambda y: jax.lax.psum((y * y).sum(), "i") < 1e4, lambda y: y * 1.5, x)


def choice_alike(jax, x):
    return jax.lax.cond(jax.lax.psum(x.sum(), "i") > 0, lambda y: jax.lax.psum(y, "i") * y, lambda y: y * 2, x)


def choice_by_device(jax, x):
    return jax.lax.switch(jax.lax.axis_index("i") % 2, [lambda y: y * y, lambda y: jax.numpy.sin(y)], x)


def recomputed(jax, x):
    return jax.checkpoint(lambda y: jax.numpy.sin(jax.lax.psum(jax.numpy.cos(y), "i")) * y)(x)


def nested_jit(jax, x):
    return jax.jit(lambda y: jax.lax.psum(y * 2, "i") * y)(x)


def own_jvp(jax, x):
    @jax.custom_jvp
    def f(y):
        return jax.numpy.sin(y)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * jax.numpy.cos(primals[0]) * 2))
    return f(x) * jax.lax.psum(f(x), "i")


def own_vjp(jax, x):
    @jax.custom_vjp
    def f(y):
        return jax.numpy.sin(y)
    f.defvjp(lambda y: (f(y), y), lambda y, ct: (ct * jax.numpy.cos(y) * 3,))
    return f(x) * jax.lax.pmean(f(x), "i")


def matrix_of_all(jax, x):
    return x @ jax.lax.all_gather(x, "i", axis=0, tiled=True).T


def row_parallel_product(jax, x):
    return jax.lax.psum_scatter(x @ x.T, "i", scatter_dimension=1, tiled=True)


def vmapped_axis_too(jax, x):
    return jax.vmap(lambda row: row / jax.lax.psum(row, ("i", "rows")), axis_name="rows")(x)


def gradient_of_gradient(jax, x):
    f = lambda y: jax.lax.psum((y ** 3).sum(), "i")
    return jax.grad(lambda y: (jax.grad(f)(y) ** 2).sum())(x)


def tree_of_sums(jax, x):
    sums = jax.lax.psum({"a": x, "b": (x[0], 2, 1.5)}, "i")
    return sums["a"] * sums["b"][0] + sums["b"][1] * sums["b"][2]


def sorted_together(jax, x):
    return jax.numpy.sort(jax.lax.all_gather(x, "i", tiled=True), axis=0)[:8] * x


# Bodies that are also differentiated.
SMOOTH = {
    "psum": lambda jax, x: jax.lax.psum(x, "i") * x,
    "pmean": lambda jax, x: jax.lax.pmean(x, "i") - x,
    "all_gather": lambda jax, x: jax.lax.all_gather(x, "i").sum(0) * x,
    "all_gather axis 1": lambda jax, x: jax.lax.all_gather(x, "i", axis=1)[:, 0] * x,
    "all_gather tiled": lambda jax, x: jax.lax.all_gather(x, "i", axis=1, tiled=True)[:, :3] * x,
    "psum_scatter": lambda jax, x: jax.lax.psum_scatter(
        x.reshape(jax.lax.axis_size("i"), -1), "i").sum() * x,
    "psum_scatter tiled": lambda jax, x: jax.lax.psum_scatter(x, "i", tiled=True).sum() * x,
    "all_to_all": lambda jax, x: jax.lax.all_to_all(
        x.reshape(jax.lax.axis_size("i"), -1), "i", 0, 0).reshape(8, 3) * x,
    "all_to_all tiled": lambda jax, x: jax.lax.all_to_all(x, "i", 0, 1, tiled=True).reshape(8, 3) * x,
    "ppermute": lambda jax, x: jax.lax.ppermute(x, "i", ring(jax)) * x,
    "ppermute, some": lambda jax, x: jax.lax.ppermute(x, "i", ring(jax)[:1]) * x,
    "ppermute, to nobody": lambda jax, x: jax.lax.ppermute(x, "i", []) + x,
    "pshuffle": lambda jax, x: jax.lax.pshuffle(x, "i", [j for j, _ in ring(jax)[::-1]]) * x,
    "axis_index": lambda jax, x: x * (1 + jax.lax.axis_index("i")),
    "axis_size": lambda jax, x: x * jax.lax.axis_size("i"),
    "tree of sums": tree_of_sums,
    "mean over devices": mean_over_devices,
    "softmax over devices": softmax_over_devices,
    "sum in scan": sum_in_scan,
    "varying carry": varying_carry,
    "ring": ring_sum,
    "choice alike": choice_alike,
    "choice by device": choice_by_device,
    "recomputed": recomputed,
    "nested jit": nested_jit,
    "custom_jvp": own_jvp,
    "custom_vjp": own_vjp,
    "matrix of all": matrix_of_all,
    "row-parallel product": row_parallel_product,
    "vmapped axis too": vmapped_axis_too,
}

# Compared by value only: they have no derivative, or JAX has none.
ROUGH = {
    "pmax": lambda jax, x: jax.lax.pmax(x, "i") - x,
    "pmin": lambda jax, x: jax.lax.pmin(x, "i") - x,
    "while": while_all_are_small,
    "gradient of gradient": gradient_of_gradient,
    "sorted together": sorted_together,
    "random numbers by device": lambda jax, x: jax.random.normal(
        jax.random.fold_in(jax.random.key(0), jax.lax.axis_index("i")), (8, 3)) * x,
    "integers": lambda jax, x: jax.lax.psum(x.astype(np.int32), "i") + jax.lax.axis_index("i"),
    "bools": lambda jax, x: jax.lax.psum(x > 0, "i") * jax.lax.pmax(x, "i"),
    "bfloat16": lambda jax, x: jax.lax.psum(x.astype(jax.numpy.bfloat16), "i") * x.astype(jax.numpy.bfloat16),
    "complex": lambda jax, x: jax.lax.psum(x * (1 + 2j), "i") * jax.lax.all_gather(x + 1j, "i").sum(0),
}

# A checked shard_map has no types for groups of devices.
IN_GROUPS = {
    "psum": lambda jax, x: jax.lax.psum(x, "i", axis_index_groups=halves(jax)) * x,
    "pmean": lambda jax, x: jax.lax.pmean(x, "i", axis_index_groups=halves(jax)) * x,
    "pmax": lambda jax, x: jax.lax.stop_gradient(jax.lax.pmax(x, "i", axis_index_groups=halves(jax))) * x,
    "all_gather": lambda jax, x: jax.lax.all_gather(x, "i", axis_index_groups=halves(jax)).sum(0) * x,
    "psum_scatter": lambda jax, x: jax.lax.psum_scatter(
        x, "i", axis_index_groups=halves(jax), tiled=True).sum() * x,
    "all_to_all": lambda jax, x: jax.lax.all_to_all(
        x, "i", 0, 0, axis_index_groups=halves(jax), tiled=True) * x,
}


def pmapped(jax, body, x):
    n = x.shape[0] // 8
    return jax.pmap(partial(body, jax), axis_name="i")(x.reshape(n, 8, 3))


def sharded(jax, body, x, check=True):
    n, P = x.shape[0] // 8, jax.sharding.PartitionSpec
    return jax.shard_map(partial(body, jax), mesh=mesh_of(jax, n), in_specs=P("i"), out_specs=P("i"),
                         check_vma=check)(x)


def mesh_of(jax, *sizes, names="ijk"):
    """A mesh of automatic axes; since 0.12, JAX makes other axes by default."""
    return jax.make_mesh(sizes, tuple(names[:len(sizes)]), axis_types=(jax.sharding.AxisType.Auto,) * len(sizes))
