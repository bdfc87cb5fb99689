"""Arrays already at a program's input placements, under any equal sharding, enter it without a copy."""

import itertools

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import random
from xjax.runtime.arrays import array
from xjax.sharding import GSPMDSharding, Mesh, NamedSharding, SingleDeviceSharding
from xjax.sharding import PartitionSpec as P

DEVICES = xjax.devices()
LINE, OTHER = Mesh(DEVICES, "x"), Mesh(DEVICES, "other")
GRID = Mesh(np.array(DEVICES).reshape(2, 2), ("a", "b"))
X = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)


def pointers(x):
    return [s.data.unsafe_buffer_pointer() for s in x.addressable_shards]


def refuse_moves(monkeypatch):
    """From here on the test fails if an array other than a number is moved."""
    move = array._move
    monkeypatch.setattr(array, "_move", lambda x, to: pytest.fail(f"{x.sharding} -> {to}") if x.ndim else move(x, to))


# Arrays of X with one row on each device, in the order of the devices.
ROWS = {
    "pmap": lambda: xjax.pmap(lambda x: x * 1, axis_name="i")(X),
    "pmap, no name": lambda: xjax.pmap(lambda x: x * 1)(X),
    "pmap, devices": lambda: xjax.pmap(lambda x: x * 1, axis_name="j", devices=DEVICES)(X),
    "device_put": lambda: xjax.device_put(X, NamedSharding(LINE, P("x"))),
    "other mesh": lambda: xjax.device_put(X, NamedSharding(OTHER, P("other", None))),
    "grid": lambda: xjax.device_put(X, NamedSharding(GRID, P(("a", "b")))),
    "of a new mesh": lambda: xjax.device_put(X, NamedSharding(Mesh(DEVICES, "x"), P("x"))),
    "shard_map": lambda: xjax.shard_map(lambda x: x * 1, mesh=OTHER, in_specs=P("other"), out_specs=P("other"))(X),
    "jit": lambda: xjax.jit(lambda x: x * 1, out_shardings=NamedSharding(GRID, P(("a", "b"))))(X),
    "memory": lambda: xjax.device_put(X, NamedSharding(OTHER, P("other"), memory_kind="device")),
    "GSPMD": lambda: xjax.device_put(X, GSPMDSharding(DEVICES, NamedSharding(LINE, P("x")).hlo(2))),
}

# Programs over the rows; each donates its argument and returns 2 X.
PROGRAMS = {
    "pmap": lambda: xjax.pmap(lambda x: x * 2, axis_name="k", donate_argnums=0),
    "jit": lambda: xjax.jit(lambda x: x * 2, donate_argnums=0),
    "jit, in_shardings": lambda: xjax.jit(lambda x: x * 2, donate_argnums=0, in_shardings=NamedSharding(LINE, P("x"))),
    "jit of shard_map": lambda: xjax.jit(xjax.shard_map(lambda x: x * 2, mesh=LINE, in_specs=P("x"), out_specs=P("x")),
                                         donate_argnums=0),
    "compiled": lambda: xjax.jit(lambda x: x * 2, donate_argnums=0).lower(ROWS["device_put"]()).compile(),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_arguments_are_donated_and_not_copied(program):
    f = PROGRAMS[program]()
    for name, make in ROWS.items():
        for _ in range(2):                                  # the second call takes the fast path
            x = make()
            before = pointers(x)
            y = f(x)
            assert x.is_deleted(), name
            assert pointers(y) == before, name              # the result reuses the memory of the argument
            np.testing.assert_array_equal(y, X * 2)


def test_replicated_arguments_are_donated_and_not_copied():
    whole = {"jit": xjax.jit(lambda x: x * 1, out_shardings=NamedSharding(GRID, P())),
             "device_put": lambda v: xjax.device_put(v, NamedSharding(LINE, P(None, None))),
             "pmap": xjax.pmap(lambda x: x * 1, in_axes=None, out_axes=None, axis_size=4)}
    f = xjax.pmap(lambda w, x: (w * 2, x), in_axes=(None, 0), out_axes=(None, 0), donate_argnums=0)
    for make in whole.values():
        w = make(X)
        before = pointers(w)
        out, _ = f(w, X)
        assert w.is_deleted() and pointers(out) == before
        np.testing.assert_array_equal(out, X * 2)


def test_no_argument_moves(monkeypatch):
    """Several arguments, each with a sharding of its own; also eagerly, and under a transform."""
    rows = [make() for make in ROWS.values()]
    calls = [
        lambda x, y: xjax.jit(lambda x, y: x + y)(x, y),
        lambda x, y: xjax.pmap(lambda x, y: x + y)(x, y),
        lambda x, y: xjax.shard_map(lambda x, y: x + y, mesh=LINE, in_specs=P("x"), out_specs=P("x"))(x, y),
        lambda x, y: x + y,
        lambda x, y: xjax.jvp(lambda x: x * y, (x,), (y,))[1] / y + x,
    ]
    refuse_moves(monkeypatch)
    for call in calls:
        for x, y in itertools.product(rows[::2], rows[1::3]):
            z = call(x, y)
            assert z.sharding.is_equivalent_to(x.sharding, 2)
            np.testing.assert_allclose(z[1:], X[1:] * 2, rtol=1e-6)


@pytest.mark.parametrize("first, second", [
    (NamedSharding(LINE, P("x")), NamedSharding(GRID, P("a", "b"))),
    (NamedSharding(GRID, P("b", "a")), NamedSharding(OTHER, P(None, "other"))),
    (NamedSharding(LINE, P()), NamedSharding(GRID, P("a"))),
    (GSPMDSharding(DEVICES, NamedSharding(GRID, P("a", "b")).hlo(2)), NamedSharding(LINE, P("x"))),
], ids=str)
def test_shardings_of_different_meshes_meet_in_one_program(first, second, monkeypatch):
    x, y = xjax.device_put(X, first), xjax.device_put(X, second)
    refuse_moves(monkeypatch)
    for f in (lambda x, y: x + y, xjax.jit(lambda x, y: x + y), xjax.jit(lambda x, y: x @ y.T)):
        np.testing.assert_allclose(f(x, y), f(X, X), rtol=1e-6)
        np.testing.assert_allclose(f(y, x), f(X, X), rtol=1e-6)


def test_device_put_to_an_equal_sharding_keeps_the_memory():
    for name, make in ROWS.items():
        x = make()
        y = xjax.device_put(x, NamedSharding(OTHER, P("other")))
        assert y.sharding == NamedSharding(OTHER, P("other")) and pointers(y) == pointers(x), name
        np.testing.assert_array_equal(y, X)
    x = jnp.asarray(X)
    y = xjax.device_put(x, NamedSharding(Mesh(DEVICES[:1], "x"), P("x")))
    assert y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer() and type(y.sharding) is NamedSharding
    assert xjax.device_put(y, DEVICES[0]).sharding is SingleDeviceSharding(DEVICES[0])
    keys = random.split(random.key(0), 4)
    rows = xjax.device_put(keys, NamedSharding(LINE, P("x")))
    same = xjax.device_put(rows, NamedSharding(OTHER, P("other")))
    np.testing.assert_array_equal(random.key_data(same), random.key_data(keys))


def test_other_placements_are_not_equal():
    """Not equal: the same split over devices in another order, another split, and copies."""
    back, x = Mesh(DEVICES[::-1], "x"), ROWS["device_put"]()
    for sharding in (NamedSharding(back, P("x")), NamedSharding(LINE, P(None, "x")), NamedSharding(LINE, P())):
        y = xjax.device_put(x, sharding)
        assert y.sharding == sharding and set(pointers(y)).isdisjoint(pointers(x))
        np.testing.assert_array_equal(y, X)
        doubled = xjax.pmap(lambda x: x * 2, donate_argnums=0)
        if sharding.spec == P("x"):
            np.testing.assert_array_equal(doubled(y), X * 2)
        else:
            assert_refused(lambda doubled=doubled, y=y: doubled(y), ValueError, ["another sharding"])
        assert not y.is_deleted()


def test_equality_is_as_in_jax():
    jax = real_jax("sharding")

    def shardings(lib, mesh, named, spec):
        square = np.array(lib.devices()[:4]).reshape(2, 2)
        line, grid, turned = mesh(square.ravel(), ("x",)), mesh(square, ("a", "b")), mesh(square.T, ("a", "b"))
        return [named(m, s) for m, specs in (
            (line, [spec(), spec("x"), spec("x", None), spec(None, "x")]),
            (grid, [spec(), spec("a"), spec(("a", "b")), spec(("b", "a")), spec("a", "b"), spec(None, ("a", "b"))]),
            (turned, [spec(), spec("b"), spec(("b", "a")), spec("b", "a")])) for s in specs]

    ours = shardings(xjax, Mesh, NamedSharding, P)
    theirs = shardings(jax, jax.sharding.Mesh, jax.sharding.NamedSharding, jax.sharding.PartitionSpec)
    for i, j in itertools.product(range(len(ours)), repeat=2):
        assert ours[i].is_equivalent_to(ours[j], 2) == theirs[i].is_equivalent_to(theirs[j], 2), (ours[i], ours[j])
