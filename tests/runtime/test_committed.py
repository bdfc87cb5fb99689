"""Committed arrays, which were placed explicitly, as in real JAX; the names are those of `places`."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import xjax
from tests.refusals import assert_refused
from tests.runtime.places import NAMES, assert_as_in_jax

OPERATIONS = """
u1 + 1
u + u1
u + c1
u1 + c0
c0 + c1
c1 + 1.5
c1 + np.ones(4)
c0 + u
s + u1
s + c0
s + s2
s2 + s3
s + sr
c0 == c1
c0 @ c1
s[0]
u[c1[0].astype(int)]
c0[c1[0].astype(int)]
c1[np.array([0, 1])]
c0.at[0].set(1.)
one + c0
one + c1
jnp.sum(one)
jax.jit(lambda a, b: (a * b).sum())(u, one)
one[0] + 1
s.at[0].set(c1[0])
c0.at[jnp.array([1])].add(c1[:1])
c1.at[np.array([0])].set(u[:1])
jnp.where(c0 > 0, c1, u)
jnp.stack([c0, c1])
jnp.concatenate([c0, u1])
jnp.array([c0[0], c1[0]])
jnp.array([c1[0]] * 10)
jnp.array([c1[0]] * 9 + [u[0]])
jnp.array([c0[0]] * 9 + [c1[0]])
jnp.array(c1)
jnp.sum(c1)
jnp.sort(c1)
jnp.var(c0)
jnp.var(u1)
jnp.nonzero(c1)
jnp.nonzero(s)
jnp.unique(c1)
lax.sort([c0, c1])
jnp.linalg.svd(put(np.eye(2, dtype=np.float32), d[1]))
jax.random.normal(put(jax.random.key(0), d[1]))
jax.random.normal(jax.random.key(0))
jax.random.split(put(jax.random.PRNGKey(0), d[1]))
jax.pure_callback(lambda a: np.asarray(a), u, u)
jax.pure_callback(lambda a: np.asarray(a), c1, c1)
__import__("copy").deepcopy(c1)
__import__("pickle").loads(__import__("pickle").dumps(c1))
u.addressable_data(0)
c1.addressable_data(0)
s.addressable_data(1)
s.addressable_shards[0].data
c1.astype(jnp.int32)
u.copy()
""".strip().splitlines()

DEFAULT_DEVICE = """
under(d[1], lambda: jnp.ones(3))
under(d[1], lambda: u + u)
under(d[1], lambda: jnp.sin(u))
under(d[1], lambda: jnp.var(u))
under(d[1], lambda: u + 1.5)
under(d[1], lambda: u + c0)
under(d[1], lambda: u[0])
under(d[1], lambda: jax.jit(lambda a: a + 1)(u))
under(d[1], lambda: jax.jit(lambda: jnp.ones(3))())
under(d[1], lambda: put(u))
under(d[1], lambda: put(np.ones(3)))
under(d[1], lambda: jnp.asarray(u))
under(d[1], lambda: jax.random.normal(jax.random.key(0)))
[u + u, under(d[1], lambda: u + u), u + u]
[under(d[1], lambda: jax.grad(lambda a: (a * a).sum())(u)), jax.grad(lambda a: (a * a).sum())(u)]
""".strip().splitlines()

JIT = """
jax.jit(lambda a: a + 1)(u1)
jax.jit(lambda a: a)(c1)
jax.jit(lambda a, b: a + b)(c0, c1)
jax.jit(lambda a, b: a + b)(s, c0)
jax.jit(lambda a, b: a + b)(s, u)
jax.jit(lambda a, b: a + 1)(c0, c1)
jax.jit(lambda a, b: a + 1)(u, c1)
jax.jit(lambda a, b: (b * 2, a + 1)[1])(c0, c1)
jax.jit(lambda a, b: b)(c0, c1)
jax.jit(lambda a, b: (a + 1, b))(u, c1)
jax.jit(lambda a: (a, 1.0))(c1)
jax.jit(lambda a: a + c1)(u)
jax.jit(lambda a: a + c1)(c0)
jax.jit(lambda a: a + s)(c0)
jax.jit(lambda: c1 * 2)()
jax.jit(lambda: jnp.ones(3), device=d[1])()
jax.jit(lambda a: a + 1, device=d[1])(c0)
jax.jit(lambda a: a + 1, backend="cpu")(c1)
jax.jit(lambda a: jax.pure_callback(lambda v: np.asarray(v), a, a))(c1)
jax.jit(lambda a: a + 1, in_shardings=on("x", mesh=M))(u1)
jax.jit(lambda a: a + 1, in_shardings=on("x", mesh=M))(c0)
jax.jit(lambda a: a + 1, in_shardings=on("x", mesh=M))(s)
jax.jit(lambda a: a + 1, in_shardings=on("y", mesh=M))(s)
jax.jit(lambda a: a + 1, in_shardings=on("x", mesh=M))(sr)
jax.jit(lambda a: a + 1, in_shardings=on("x", mesh=M2))(s)
jax.jit(lambda a: a + 1, in_shardings=c1.sharding)(c0)
jax.jit(lambda a: a + 1, in_shardings=c1.sharding)(x)
jax.jit(lambda a, b: a + b, in_shardings=(c1.sharding, None))(u, u)
jax.jit(lambda a, b: a + b, in_shardings=(c1.sharding, None))(u, c0)
jax.jit(lambda a, b: a + b, in_shardings=(on("x", mesh=M), None))(u, s2)
jax.jit(lambda a, b: a + b, in_shardings=(c1.sharding, c0.sharding))(u, u)
jax.jit(lambda a: a + 1, out_shardings=c1.sharding)(u)
jax.jit(lambda a: a + 1, out_shardings=c1.sharding)(c0)
jax.jit(lambda: jnp.ones(3), out_shardings=c1.sharding)()
jax.jit(lambda a: a + 1, out_shardings=on("x", mesh=M))(c0)
jax.jit(lambda a: a + 1, out_shardings=on("x", mesh=M))(s2)
jax.jit(lambda a: a + 1, out_shardings=on("x", mesh=Mr))(s)
jax.jit(lambda a: a + 1, in_shardings=c1.sharding, out_shardings=c0.sharding)(u)
jax.jit(lambda a: a + 1).lower(c0).compile()(c1)
jax.jit(lambda a: a + 1).lower(c1).compile()(u)
jax.jit(lambda a: a + 1).lower(u).compile()(c1)
jax.jit(lambda a: a + 1).lower(u).compile()(u1)
jax.jit(lambda a: a + 1).lower(u).compile()(s)
jax.jit(lambda a: a + 1).lower(s).compile()(u)
jax.jit(lambda a: a + 1).lower(s).compile()(c0)
jax.jit(lambda a: a + 1).lower(s).compile()(sr)
jax.jit(lambda a, b: a + 1).lower(u, u).compile()(u, c1)
jax.jit(lambda a: a + 1).lower(jax.ShapeDtypeStruct((4,), np.float32, sharding=s.sharding)).compile()(u)
jax.jit(lambda a: a + 1, in_shardings=on("x", mesh=M)).lower(u).compile()(c0)
jax.jit(lambda a: a + 1, in_shardings=on("x", mesh=M)).lower(c0)
""".strip().splitlines()

TRANSFORMS = """
jax.grad(lambda a: (a * c1).sum())(u)
jax.grad(lambda a: (a * c1).sum())(c0)
jax.value_and_grad(lambda a: (a ** 2).sum())(c1)
jax.jvp(lambda a: a * c1, (c0,), (u,))
jax.vjp(jnp.sin, c0)[1](c1)
jax.vjp(jnp.sin, c0)[1](u)
jax.vmap(lambda a, b: a + b)(c0, c1)
jax.jacfwd(lambda a: a ** 2)(c1)
jax.checkpoint(lambda a: a + c1)(c0)
lax.scan(lambda c, v: (c + v, c), c0[0], c1)
lax.scan(lambda c, v: (c + v, c), c0[0], u1)
lax.cond(True, lambda a, b: a, lambda a, b: b, c0, c1)
lax.cond(True, lambda a, b: a, lambda a, b: b, c1, u)
lax.switch(1, [lambda a: a, lambda a: a + 1], c1)
lax.while_loop(lambda c: c[0].sum() < 3, lambda c: (c[0] + 1, c[1] + 1), (c0, c1))
lax.fori_loop(0, 3, lambda i, c: c + c1, c0)
lax.map(lambda a: a + c1[0], c0)
jax.pmap(lambda a: a + 1)(u)
jax.pmap(lambda a: a + 1)(c1)
jax.pmap(lambda a: a + 1)(s)
jax.pmap(lambda a: a + 1)(put(x, on("x", mesh=L)))
jax.pmap(lambda a: a + 1)(put(x, on(mesh=L)))
jax.pmap(lambda a: a + 1)(jax.pmap(lambda a: a + 1)(u))
jax.pmap(lambda a: a + 1, devices=d[2:])(jax.pmap(lambda a: a + 1, devices=d[:2])(jnp.ones(2)))
jax.pmap(lambda a, b: a + b, in_axes=(0, None))(u, c1)
jax.pmap(lambda a, b: a + b, in_axes=(0, None))(u, s)
jax.pmap(lambda a: a + c1)(u)
jax.pmap(lambda a: a * a)(u) + c0
jax.pmap(lambda a: a * a)(u) + put(x, on("x", mesh=L))
jax.shard_map(lambda a: a + 1, mesh=M2, in_specs=P("x"), out_specs=P("x"))(u)
jax.shard_map(lambda a: a + 1, mesh=M2, in_specs=P("x"), out_specs=P("x"))(c1)
jax.shard_map(lambda a: a + 1, mesh=M2, in_specs=P("x"), out_specs=P("x"))(s3)
jax.shard_map(lambda a: a + 1, mesh=M, in_specs=P("y"), out_specs=P("y"))(s)
jax.shard_map(lambda a: a + 1, mesh=M, in_specs=P("y"), out_specs=P("y"))(sr)
jax.shard_map(lambda a: a + c1[:2], mesh=M2, in_specs=P("x"), out_specs=P("x"))(u)
jax.jit(jax.shard_map(lambda a: a + 1, mesh=M2, in_specs=P("x"), out_specs=P("x")))(c1)
jax.jit(jax.shard_map(lambda a: a + c1[:2], mesh=M2, in_specs=P("x"), out_specs=P("x")))(u)
jax.grad(lambda a: jax.shard_map(lambda b: b * b, mesh=M2, in_specs=P("x"), out_specs=P("x"))(a).sum())(u)
""".strip().splitlines()


@pytest.mark.parametrize("row", OPERATIONS)
def test_operations(row):
    assert_as_in_jax(row)


@pytest.mark.parametrize("row", DEFAULT_DEVICE)
def test_the_default_device_does_not_commit(row):
    assert_as_in_jax(row)


@pytest.mark.parametrize("row", JIT)
def test_compiled_functions(row):
    assert_as_in_jax(row)


@pytest.mark.parametrize("row", TRANSFORMS)
def test_derivatives_loops_and_maps(row):
    assert_as_in_jax(row)


def test_the_default_device_of_the_process():
    n = SimpleNamespace(**NAMES(xjax))
    before = n.u + n.u
    xjax.config.update("jax_default_device", n.d[1])
    try:
        inside = n.u + n.u
    finally:
        xjax.config.update("jax_default_device", None)
    assert before.devices() == (n.u + n.u).devices() == {n.d[0]} and inside.devices() == {n.d[1]}
    assert not inside.committed


def test_placing_an_array_where_it_is_shares_its_memory():
    x = xjax.numpy.ones(4)
    y = xjax.device_put(x, xjax.devices()[0])
    assert y.committed and not x.committed and y.sharding is x.sharding
    assert y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    z = xjax.device_put(x, xjax.devices()[0], donate=True)
    assert not z.is_deleted()


@pytest.mark.parametrize(("row", "words"), [
    ("c0 + s", ["add: arrays committed to different devices cannot be combined", "argument 0, f32[4]", "cpu device 0",
                "argument 1, f32[4]", "cpu devices 0, 1, 2, 3"]),
    ("jax.jit(lambda params, batch: params['w'] + batch)({'w': c0}, c1)",
     ["jit `<lambda>`", "argument `params['w']`, f32[4]", "argument `batch`, f32[4]", "cpu device 1"]),
    ("jax.jit(lambda a: lax.with_sharding_constraint(a, on('x', mesh=M)))(c1)", ["a sharding inside the program"]),
    ("jax.jit(lambda a: a, in_shardings=on('y', mesh=M))(s)", ["to another sharding", "args[0]", "P('y',)"]),
    ("jax.jit(lambda a: a).lower(c0).compile()(c1)", ["compiled `<lambda>`", "compiled for", "args[0]"]),
    ("jax.pmap(lambda a: a)(c1)", ["pmap of `<lambda>`", "another sharding"]),
    ("jax.shard_map(lambda a: a, mesh=M2, in_specs=P('x'), out_specs=P('x'))(c1)", ["shard_map", "needed"]),
])
def test_errors_name_both_places_and_a_way_out(row, words):
    error = assert_refused(lambda: eval(row, dict(NAMES(xjax))), ValueError, [*words, "fix: move "])
    assert len(str(error).splitlines()) <= 6
