"""Donation over several devices: donated arrays are deleted on all devices, and no other array changes.

Also the warnings of unusable donations, on one device too.
"""

import functools
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax.errors import JaxRuntimeError
from xjax.runtime import xla
from xjax.sharding import Mesh, NamedSharding
from xjax.sharding import PartitionSpec as P

ROOT = Path(__file__).resolve().parents[2]
X = np.arange(4096, dtype=np.float32).reshape(4, 1024)
MESH = Mesh(xjax.devices(), "x")
ROWS, WHOLE = NamedSharding(MESH, P("x")), NamedSharding(MESH, P())
DOUBLE = xjax.jit(lambda x: x * 2, donate_argnums=0)
FIRST = xjax.jit(lambda x, y: (x * 2, y + 1), donate_argnums=0)


def test_misuse_is_an_error_and_not_the_end_of_the_process():
    done = subprocess.run([sys.executable, "-m", "tests.runtime.donation_program"], cwd=ROOT, env=os.environ,
                          capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-200:]


def test_arrays_that_share_their_parts():
    x = xjax.device_put(X, ROWS)
    y = xjax.make_array_from_single_device_arrays(x.shape, ROWS, [s.data for s in x.addressable_shards])
    assert y.addressable_data(1).unsafe_buffer_pointer() == x.addressable_data(1).unsafe_buffer_pointer()
    for call in (lambda: FIRST(x, y), lambda: FIRST(y, x)):
        assert_refused(call, JaxRuntimeError, ["donation: an array is donated", "passed a second time"])
    np.testing.assert_array_equal(FIRST(x, y + 0)[0], X * 2)
    assert x.is_deleted() and y.is_deleted()
    for gone in (x, y):
        assert_refused(lambda gone=gone: gone + 1, RuntimeError, ["Array: the array has been deleted"])


def test_shared_parts_are_remembered_as_long_as_the_array():
    x = xjax.device_put(X, ROWS)
    key = id(x._buf)
    assert key not in xla.with_shared_parts
    part = x.addressable_data(0)
    assert key in xla.with_shared_parts
    del x
    assert key not in xla.with_shared_parts
    np.testing.assert_array_equal(part, X[:1])


def test_other_arrays_that_had_their_parts_looked_at_are_donated_together():
    x, y = xjax.device_put(X, ROWS), xjax.device_put(X, ROWS)
    assert len({s.data.unsafe_buffer_pointer() for a in (x, y) for s in a.addressable_shards}) == 8
    both = xjax.jit(lambda x, y: (x * 2, y + 1), donate_argnums=(0, 1))
    np.testing.assert_array_equal(both(x, y)[1], X + 1)
    assert x.is_deleted() and y.is_deleted()


@pytest.mark.parametrize("put", [jnp.asarray, lambda v: xjax.device_put(v, ROWS), lambda v: xjax.device_put(v, WHOLE),
                                 xjax.pmap(lambda x: x * 1)], ids=["one device", "rows", "replicated", "pmap"])
@pytest.mark.parametrize("view", [np.asarray, np.from_dlpack])
def test_views_keep_their_values(put, view):
    """XLA does not reuse memory that NumPy views, although the array is deleted."""
    x = put(X)
    seen = view(x if view is np.asarray else x.addressable_data(0))
    expected = seen.copy()
    y = DOUBLE(x)
    for _ in range(5):
        y = DOUBLE(y)
    np.testing.assert_array_equal(seen, expected)
    np.testing.assert_array_equal(y, X * 64)
    if len(x.devices()) > 1:
        assert x.is_deleted()


def test_inside_of_another_program_nothing_is_donated():
    """As in JAX: the memory belongs to the outer program."""
    rows = P("x")
    inner = {"jit": DOUBLE, "pmap": xjax.pmap(lambda x: x * 2, donate_argnums=0),
             "shard_map": xjax.jit(xjax.shard_map(lambda x: x * 2, mesh=MESH, in_specs=rows, out_specs=rows),
                                   donate_argnums=0)}
    for f in inner.values():
        x = xjax.device_put(X, ROWS)
        np.testing.assert_array_equal(xjax.jit(lambda x, f=f: f(x) + x)(x), X * 3)
        np.testing.assert_array_equal(xjax.grad(lambda x, f=f: f(x).sum())(x), np.full_like(X, 2))
        np.testing.assert_array_equal(x, X)


def test_what_is_moved_first_is_donated_as_a_copy():
    x = jnp.asarray(X)
    np.testing.assert_array_equal(xjax.pmap(lambda x: x * 2, donate_argnums=0)(x), X * 2)
    np.testing.assert_array_equal(xjax.jit(lambda x: x * 2, donate_argnums=0, in_shardings=ROWS)(x), X * 2)
    np.testing.assert_array_equal(x, X)


def test_device_put_deletes_what_it_copied_and_nothing_else():
    for sharding, moved in ((NamedSharding(MESH, P("x", None)), False), (WHOLE, True), (ROWS, False)):
        x = xjax.device_put(X, ROWS)
        y = xjax.device_put(x, sharding, donate=True)
        assert x.is_deleted() is moved
        np.testing.assert_array_equal(y, X)
    x = jnp.asarray(X)
    y = xjax.device_put(x, NamedSharding(Mesh(xjax.devices()[:1], "x"), P()), donate=True)
    np.testing.assert_array_equal(y, X)


def test_a_deleted_array_prints_that_it_is():
    x = xjax.device_put(X, ROWS)
    DOUBLE(x)
    assert repr(x) == "Array(f32[4,1024], deleted)" and "deleted" in repr([x])
    x.delete()
    assert x.is_deleted() and x.shape == (4, 1024) and x.sharding == ROWS


def lowered_and_compiled(f, *args):
    f.lower(*args).compile()


DONATED = {
    "of the type of a result": (lambda lib: lib.jit(lambda x: x + 1, donate_argnums=0), 1),
    "larger than the result": (lambda lib: lib.jit(lambda x: x.sum(), donate_argnums=0), 1),
    "of as many elements": (lambda lib: lib.jit(lambda x: x.astype("int16"), donate_argnums=0), 1),
    "two for one result": (lambda lib: lib.jit(lambda x, y: x + y, donate_argnums=(0, 1)), 2),
    "two for one of another dtype": (lambda lib: lib.jit(
        lambda x, y: (x + y).astype("int8"), donate_argnums=(0, 1)), 2),
    "not read": (lambda lib: lib.jit(lambda x, y: y[:1] + 1, donate_argnums=0), 2),
    "in a call that is traced": (lambda lib: lib.jit(lib.jit(lambda x: x.sum(), donate_argnums=0)), 1),
    "lowered": (lambda lib: lib.jit(lambda x: x.sum(), donate_argnums=0).lower, 1),
    "lowered and compiled": (lambda lib: functools.partial(lowered_and_compiled, lib.jit(
        lambda x: x.sum(), donate_argnums=0)), 1),
    "pmap": (lambda lib: lambda x: lib.pmap(lambda x: x.sum(), donate_argnums=0)(x[None]), 1),
    "pmap that takes it": (lambda lib: lambda x: lib.pmap(lambda x: x * 2, donate_argnums=0)(x[None]), 1),
}


@pytest.mark.parametrize("case", DONATED)
def test_donations_that_are_warned_of_as_in_jax(case):
    make, count = DONATED[case]
    warned = []
    for lib in (xjax, real_jax()):
        f, args = make(lib), [lib.numpy.ones(3) + i for i in range(count)]
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            f(*args)
            if "lowered" not in case:                               # a second call does not warn again
                f(*[lib.numpy.ones(3) + i for i in range(count)])
        warned.append([w.category for w in seen if "onated" in str(w.message)])
    assert warned[0] == warned[1]
