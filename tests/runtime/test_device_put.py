"""`device_put` inside and outside of programs, and functions that create arrays at a placement, as in real JAX."""

from __future__ import annotations

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.refusals import assert_refused
from tests.runtime.places import assert_as_in_jax
from xjax import lax
from xjax.runtime import xla
from xjax.sharding import NamedSharding, SingleDeviceSharding
from xjax.sharding import PartitionSpec as P

DEVICES = xjax.devices()
LINE = xjax.make_mesh((4,), ("x",))
ROWS = NamedSharding(LINE, P("x"))
X = np.arange(8, dtype=np.float32)

PUTS = """
put(u)
put(u1)
put(c1)
put(s)
put(1.0, d[0])
put(u, u1.sharding)
put(s, d[0])
put(s, on("y", mesh=M))
put({"a": u, "b": c1}, {"a": d[2], "b": None})
put(np.ones(5), on("x", mesh=M))
put(jnp.ones(5), on("x", mesh=M))
put(1.0, on("x", mesh=M))
c1.to_device(d[2])
jax.jit(lambda a: put(a, d[1]))(u)
jax.jit(lambda a: put(a, d[1]) + 1)(c0)
jax.jit(lambda a: put(a, c1.sharding))(u)
jax.jit(lambda a: put(a, c1.sharding))(c0)
jax.jit(lambda a: put(a, on("x", mesh=M)))(s)
jax.jit(lambda a: put(a, on("x", mesh=M)))(c0)
jax.jit(lambda a: put(a, on("y", mesh=M)))(s2)
jax.jit(lambda a: put(a, on("x", mesh=M)))(jnp.ones(5))
jax.grad(lambda a: put(a * a, d[1]).sum())(u)
jax.grad(lambda a: put(a * a, d[1]).sum())(c0)
jax.grad(lambda a: put(a * a, on("x", mesh=M)).sum())(c0)
jax.jvp(lambda a: put(a * a, d[1]), (c0,), (c0,))
jax.vmap(lambda a: put(a * a, d[1]))(c0)
""".strip().splitlines()

CONSTRAINTS = """
lax.with_sharding_constraint(u, on("x", mesh=M))
lax.with_sharding_constraint(np.ones(4), on("y", mesh=M))
lax.with_sharding_constraint(s, on("y", mesh=M))
lax.with_sharding_constraint(c0, on("x", mesh=M))
lax.with_sharding_constraint(s2, on("x", mesh=M))
lax.with_sharding_constraint(u, c1.sharding)
lax.with_sharding_constraint(c0, c1.sharding)
lax.with_sharding_constraint(jnp.ones(5), on("x", mesh=M))
jax.jit(lambda a: lax.with_sharding_constraint(a, c1.sharding))(u)
jax.jit(lambda a: lax.with_sharding_constraint(a, c1.sharding))(c0)
jax.jit(lambda a: lax.with_sharding_constraint(a, on("x", mesh=M)))(c0)
jax.jit(lambda a: lax.with_sharding_constraint(a, on("x", mesh=M)))(sr)
jax.jit(lambda a: lax.with_sharding_constraint(a, on("x", mesh=M)))(jnp.arange(5.))
jax.jit(lambda a: lax.with_sharding_constraint(a * 2, on(None, "x", mesh=L)).sum(0) + 1)(jnp.ones((2, 5)))
jax.jit(jax.grad(lambda a: (lax.with_sharding_constraint(a * a, on("x", mesh=L)) * a).sum()))(jnp.arange(5.))
jax.jit(lambda a: a + 1, in_shardings=on("x", mesh=M))(jnp.ones(5))
jax.jit(lambda a: a + 1, out_shardings=on("x", mesh=M))(jnp.ones(5))
jax.shard_map(lambda a: a + 1, mesh=M2, in_specs=P("x"), out_specs=P("x"))(jnp.ones(5))
""".strip().splitlines()

MAKERS = """
jnp.zeros_like(c1)
jnp.zeros_like(u1)
jnp.zeros_like(s, dtype=jnp.int32)
jnp.zeros_like(s, shape=(8,))
jnp.zeros_like(s, shape=(4,))
jnp.zeros_like(u, device=d[1])
jnp.zeros_like(c0, device=on("y", mesh=M))
jnp.zeros_like(jax.ShapeDtypeStruct((4,), np.float32, sharding=s.sharding))
jnp.zeros_like(put(1.0, d[1]))
jnp.zeros_like(put(jnp.float32(1.0), d[1]))
jnp.ones_like(s)
jnp.empty_like(s)
jnp.empty_like(s, device=d[2])
jnp.full_like(c1, 2.)
jnp.full_like(c1, 1., shape=(8,))
jnp.full_like(s, 2)
jnp.full_like(s, 2, shape=(3,))
jnp.full_like(s, c0[0])
jnp.full_like(s, u[0])
jax.jit(lambda a: jnp.zeros_like(s) + a)(u)
lax.full_like(s, 2)
lax.full_like(s, 2, shape=(8, 2))
lax.full_like(u, 2, sharding=on("y", mesh=M))
lax.full((4,), 2., sharding=c1.sharding)
lax.full((4,), 2., sharding=on("y", mesh=M))
jnp.zeros(4, device=d[1])
jnp.zeros((), device=d[1])
jnp.zeros(4, device=on("x", mesh=M))
jnp.zeros(5, device=on("x", mesh=M))
jnp.ones((4, 2), bool, device=on("x", "y", mesh=M))
jnp.empty(4, device=d[3])
jnp.full(4, 1., device=d[3])
jnp.full(4, 1, device=on("x", mesh=M))
jnp.full(4, c1, device=d[3])
jnp.full((2,), c1[0])
jnp.arange(4, device=d[3])
jnp.arange(0, 8, 2, device=on("x", mesh=M))
jnp.linspace(0, 1, 4, device=on("x", mesh=M))
jnp.linspace(c1[0], 2, 4)
jnp.eye(4, device=on("x", mesh=M))
jnp.array([1, 2, 3, 4], device=on("x", mesh=M))
jnp.array(u, device=d[1])
jnp.array(s, device=on("y", mesh=M))
jnp.asarray(2.0, device=d[2])
jnp.asarray(c1, device=d[1])
jnp.astype(u, jnp.int32, device=d[1])
jax.jit(lambda a: jnp.asarray(a, device=d[1]))(u)
jax.jit(lambda a: a + jnp.zeros(4, device=d[1]))(c0)
jax.jit(lambda a: jnp.array(a, device=on("x", mesh=M)))(u)
jnp.from_dlpack(u)
jnp.from_dlpack(np.ones(3))
jnp.from_dlpack(np.ones(3), device=d[1])
jnp.from_dlpack(s)
jax.make_array_from_single_device_arrays((4,), on("x", mesh=M2), [s2.addressable_data(1), s2.addressable_data(0)])
jax.make_array_from_single_device_arrays((4,), on("x", mesh=M2), [s2.addressable_data(0), s2.addressable_data(0)])
jax.make_array_from_single_device_arrays((4,), on("x", mesh=M2), [s2.addressable_data(0)])
jax.make_array_from_single_device_arrays((4,), c1.sharding, [c1])
jax.make_array_from_single_device_arrays((4,), c1.sharding, [u])
jax.make_array_from_callback((4,), c1.sharding, lambda i: np.ones(4))
jax.make_array_from_process_local_data(c1.sharding, np.ones(4))
""".strip().splitlines()


@pytest.mark.parametrize("row", PUTS)
def test_device_put(row):
    assert_as_in_jax(row)


@pytest.mark.parametrize("row", CONSTRAINTS)
def test_constraints_and_uneven_arrays(row):
    assert_as_in_jax(row)


@pytest.mark.parametrize("row", MAKERS)
def test_arrays_are_made_where_they_are_wanted(row):
    assert_as_in_jax(row)


@pytest.mark.parametrize(("make", "spec"), [
    (lambda f: xjax.jit(f), P("x")),
    (lambda f: xjax.jit(xjax.vmap(f, 1, 1)), P("x")),
    (lambda f: xjax.vmap(f, 1, 1), P("x")),
    (lambda f: xjax.jit(lambda x: xjax.jvp(f, (x,), (x,))[1]), P("x")),
    (lambda f: xjax.jit(lambda x: jnp.zeros_like(x, device=ROWS) + f(x)), P("x")),
], ids=["jit", "jit of vmap", "vmap", "jvp", "zeros"])
def test_a_sharding_inside_of_a_program_is_kept(make, spec):
    x = np.stack([X, X + 1], 1)
    double = lambda v: xjax.device_put(2 * v, ROWS)
    out = make(double)(x)
    np.testing.assert_array_equal(out, 2 * x)
    assert out.sharding.is_equivalent_to(NamedSharding(LINE, spec), 2)
    grad = xjax.jit(xjax.grad(lambda v: (make(double)(v) * v).sum()))(x)
    np.testing.assert_array_equal(grad, 4 * x)


def test_a_program_says_device_put():
    jaxpr = str(xjax.make_jaxpr(lambda x: xjax.device_put(x, ROWS))(X))
    assert "device_put" in jaxpr
    assert xjax.jit(lambda x: xjax.device_put(x))(X).committed is False


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: xjax.device_put(X[:5], ROWS), ValueError, ["device_put: axis 0 of size 5", "over 4 devices", "to 8"]),
    (lambda: jnp.zeros(5, device=ROWS), ValueError, ["numpy.zeros: axis 0 of size 5", "f32[5]"]),
    (lambda: lax.with_sharding_constraint(X[:5], ROWS), ValueError, ["lax.with_sharding_constraint: axis 0 of size 5"]),
    (lambda: xjax.jit(lambda x: x, in_shardings=ROWS)(X[:5]), ValueError, ["jit `<lambda>`: in_shardings", "args[0]"]),
    (lambda: xjax.shard_map(lambda x: x, mesh=LINE, in_specs=P("x"), out_specs=P("x"))(X[:5]), ValueError,
     ["shard_map of `<lambda>`: axis 0 of size 5", "pad axis 0 to 8"]),
    (lambda: jnp.zeros(4, device="cpu"), TypeError, ["numpy.zeros: needs a device or a sharding, not a str"]),
    (lambda: np.from_dlpack(xjax.device_put(X, ROWS)), BufferError, ["array on several devices", "addressable_data"]),
    (lambda: xjax.device_put(X, ROWS).__dlpack__(), BufferError, ["array on several devices"]),
    (lambda: xjax.make_array_from_single_device_arrays((8,), ROWS, [jnp.ones(2)] * 4), ValueError,
     ["each device of the sharding", "needed on", "cpu devices 0, 1, 2, 3"]),
    (lambda: xjax.make_array_from_single_device_arrays((8,), ROWS, [jnp.ones(3, device=d) for d in DEVICES]),
     ValueError, ["wrong shape or dtype", "f32[3]", "f32[2]"]),
])
def test_refusals_are_in_the_words_of_the_user(call, error, words):
    assert len(str(assert_refused(call, error, words)).splitlines()) <= 6


def test_parts_in_any_order_are_not_copied():
    parts = [xjax.device_put(X[2 * i:2 * i + 2], d) for i, d in enumerate(DEVICES)]
    whole = xjax.make_array_from_single_device_arrays((8,), ROWS, parts[::-1])
    np.testing.assert_array_equal(whole, X)
    for i, part in enumerate(parts):
        assert whole.addressable_data(i).unsafe_buffer_pointer() == part.unsafe_buffer_pointer()
    copies = [xjax.device_put(X, d) for d in DEVICES[::-1]]
    np.testing.assert_array_equal(xjax.make_array_from_single_device_arrays((8,), NamedSharding(LINE, P()), copies), X)
    keys = xjax.random.split(xjax.random.key(0), 4)
    split = xjax.make_array_from_single_device_arrays(
        (4,), ROWS, [xjax.device_put(keys[i:i + 1], d) for i, d in enumerate(DEVICES)])
    np.testing.assert_array_equal(xjax.random.key_data(split), xjax.random.key_data(keys))


def test_a_large_array_is_filled_on_each_device_alone(monkeypatch):
    sizes = []
    put = xla.device_put
    monkeypatch.setattr(xla, "device_put", lambda aval, s, pieces, *more: (
        sizes.extend(p.size for p in pieces), put(aval, s, pieces, *more))[1])
    x = jnp.full(1 << 12, 3, jnp.int32, device=ROWS)
    assert max(sizes) == 1 << 10 and x.sharding == ROWS and int(x.sum()) == 3 << 12


def test_a_device_is_as_good_as_its_sharding():
    for device in (DEVICES[1], SingleDeviceSharding(DEVICES[1])):
        x = jnp.ones(3, device=device)
        assert x.sharding is SingleDeviceSharding(DEVICES[1]) and x.committed


@pytest.mark.parametrize("show", [repr, str, format, lambda x: f"{x}"], ids=["repr", "str", "format", "f-string"])
def test_an_array_that_spans_processes_says_so(show, monkeypatch):
    x = xjax.device_put(X, ROWS)
    monkeypatch.setattr(NamedSharding, "is_fully_addressable", property(lambda self: False))
    assert "f32[8]" in show(x) and "other processes" in show(x)
    assert "1." in show(xjax.device_put(X, NamedSharding(LINE, P())))       # this process has the whole array
