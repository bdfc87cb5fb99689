"""Placements of arrays: constraints inside programs, arrays made of parts, the current mesh, live arrays."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.oracle import real_jax
from xjax import lax
from xjax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from xjax.sharding import PartitionSpec as P

MESH = xjax.make_mesh((2, 2), ("x", "y"))
ROWS = NamedSharding(MESH, P("x"))
TILES = NamedSharding(MESH, P("x", "y"))
X = np.arange(16.0, dtype=np.float32).reshape(4, 4)


@pytest.mark.parametrize("make", [
    lambda f: f,
    xjax.jit,
    lambda f: xjax.jit(lambda x: xjax.jvp(f, (x,), (x,))[1]),
    lambda f: xjax.grad(lambda x: f(x).sum()),
    lambda f: xjax.jit(xjax.grad(lambda x: f(x).sum())),
], ids=["eager", "jit", "jvp", "grad", "jit of grad"])
def test_constraint_keeps_values_and_sets_the_sharding(make):
    result = make(lambda x: lax.with_sharding_constraint(x * x, TILES))(jnp.asarray(X))
    plain = make(lambda x: x * x)(jnp.asarray(X))
    np.testing.assert_array_equal(result, plain)
    if result.sharding != plain.sharding:                    # the compiler chooses the gradient's placement
        assert result.sharding == TILES


def test_constraint_of_trees_and_of_specs_over_the_current_mesh():
    tree = {"a": jnp.asarray(X), "b": (jnp.asarray(X), 1.0)}
    out = lax.with_sharding_constraint(tree, {"a": TILES, "b": None})
    assert out["a"].sharding == TILES and out["b"][1] == 1.0
    with MESH:
        assert lax.with_sharding_constraint(jnp.asarray(X), P("x")).sharding == ROWS
    with xjax.set_mesh(MESH) as mesh:
        assert mesh is MESH
        free = xjax.jit(lambda x: lax.with_sharding_constraint(x, P(P.UNCONSTRAINED, "y")))(X)
        assert free.sharding.spec[1] == "y"
    with pytest.raises(RuntimeError, match="(?s)needs a mesh.*fix:"):
        lax.with_sharding_constraint(X, P("x"))


def test_constraint_under_vmap_leaves_the_new_axis_to_the_compiler():
    out = xjax.jit(xjax.vmap(lambda x: lax.with_sharding_constraint(x, ROWS), 1, 1))(np.stack([X, X + 1], 1))
    np.testing.assert_array_equal(out, np.stack([X, X + 1], 1))
    assert out.sharding.spec[0] == "x"


def test_wrong_constraints():
    with pytest.raises(ValueError, match="(?s)split evenly.*fix:"):
        lax.with_sharding_constraint(jnp.ones(3), ROWS)
    with pytest.raises(TypeError, match="not a sharding"):
        lax.with_sharding_constraint(X, "x")
    with pytest.raises(ValueError, match="(?s)pmap and shard_map.*fix:"):
        xjax.pmap(lambda x: lax.with_sharding_constraint(x, ROWS))(np.ones((2, 4)))
    with pytest.raises(ValueError, match="needs a Mesh"):
        xjax.set_mesh("x")


def test_shard_map_takes_the_current_mesh():
    double = lambda x: 2 * x
    with MESH:
        out = xjax.shard_map(double, in_specs=P("x", "y"), out_specs=P("x", "y"))(X)
    np.testing.assert_array_equal(out, 2 * X)
    with pytest.raises(ValueError, match="(?s)no mesh.*fix:"):
        xjax.shard_map(double, in_specs=P("x"), out_specs=P("x"))(X)


@pytest.mark.parametrize("sharding", [ROWS, TILES, NamedSharding(MESH, P()), SingleDeviceSharding(xjax.devices()[1])],
                         ids=["rows", "tiles", "whole", "one device"])
def test_arrays_made_of_parts(sharding):
    asked = []
    made = xjax.make_array_from_callback((4, 4), sharding, lambda i: asked.append(i) or X[i])
    assert len(asked) == len({str(i) for i in asked})                       # each different part once
    again = xjax.make_array_from_single_device_arrays((4, 4), sharding, [s.data for s in made.addressable_shards])
    local = xjax.make_array_from_process_local_data(sharding, {"x": X})["x"]
    for result in (made, again, local):
        np.testing.assert_array_equal(result, X)
        assert result.sharding == sharding and isinstance(result.addressable_shards[0], xjax.Shard)
    assert xjax.make_array_from_callback((), SingleDeviceSharding(xjax.devices()[0]), lambda i: 3, dtype="float32") == 3


def test_wrong_parts():
    with pytest.raises(ValueError, match="(?s)wrong shape.*fix:"):
        xjax.make_array_from_callback((4, 4), ROWS, lambda i: X)
    parts = [s.data for s in xjax.device_put(X, ROWS).addressable_shards]
    with pytest.raises(ValueError, match="each device"):
        xjax.make_array_from_single_device_arrays((4, 4), ROWS, parts[:3])
    with pytest.raises(ValueError, match="do not contain"):
        xjax.make_array_from_process_local_data(ROWS, X[:1], (4, 4))


def test_known_values_compute_while_a_function_is_traced():
    @xjax.jit
    def f(x):
        with xjax.ensure_compile_time_eval():
            n = int(jnp.arange(4).sum())                    # a number, although f is being traced
        return x * n

    assert f(2.0) == 12.0

    def g(x):
        with xjax.ensure_compile_time_eval():
            assert float(jnp.sin(0.0)) == 0.0
            return xjax.jit(jnp.sin)(x) + 1.0               # traced values are traced as usual

    assert xjax.make_jaxpr(g)(1.0).eqns
    np.testing.assert_allclose(xjax.jit(g)(1.0), np.sin(1.0) + 1, rtol=1e-6)
    np.testing.assert_allclose(xjax.vmap(g)(jnp.arange(2.0)), np.sin([0.0, 1.0]) + 1, rtol=1e-6)
    np.testing.assert_allclose(xjax.jit(xjax.grad(g))(1.0), np.cos(1.0), rtol=1e-6)
    np.testing.assert_allclose(xjax.grad(xjax.jit(g))(1.0), np.cos(1.0), rtol=1e-6)


def test_live_arrays_and_processes():
    x = jnp.arange(5.0)
    assert any(y is x for y in xjax.live_arrays()) and any(y is x for y in xjax.live_arrays("cpu"))
    assert xjax.copy_to_host_async({"x": x, "n": 1})["x"] is x
    x.delete()
    assert not any(y is x for y in xjax.live_arrays())
    assert xjax.process_indices() == xjax.host_ids() == [0] and xjax.host_count() == 1 and xjax.host_id() == 0
    assert isinstance(xjax.devices()[0], xjax.Device)


def test_one_device_mesh():
    one = NamedSharding(Mesh(xjax.devices()[:1], "x"), P("x"))
    np.testing.assert_array_equal(xjax.jit(lambda x: lax.with_sharding_constraint(x, one) + 1)(X), X + 1)


@pytest.mark.parametrize("spec", [P(), P("x"), P("y", "x"), P(("x", "y"))], ids=str)
def test_parts_of_an_array(spec):
    jax = real_jax()
    there = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y")),
                                       jax.P(*spec))
    ours, theirs = xjax.device_put(X, NamedSharding(MESH, spec)), jax.device_put(X, there)
    assert ours.is_fully_replicated == theirs.is_fully_replicated and ours.is_fully_addressable
    assert ours.on_device_size_in_bytes() == theirs.on_device_size_in_bytes()
    expected = {s.device.id: s for s in theirs.global_shards}
    for k, shard in enumerate(ours.global_shards):
        other = expected[shard.device.id]
        assert shard.replica_id == other.replica_id
        np.testing.assert_array_equal(shard.data, X[shard.index])
        np.testing.assert_array_equal(shard.data, other.data)
        np.testing.assert_array_equal(ours.addressable_data(k), shard.data)
    with pytest.raises(IndexError, match="(?s)part 4 does not exist.*fix:"):
        ours.addressable_data(4)
    with pytest.raises(ValueError, match="(?s)several addresses.*fix:"):
        ours.unsafe_buffer_pointer()


def test_memory_of_an_array():
    import ctypes

    x = jnp.arange(5, dtype=jnp.int32)
    assert x.on_device_size_in_bytes() == 20 and x.is_fully_replicated
    memory = (ctypes.c_int32 * 5).from_address(x.block_until_ready().unsafe_buffer_pointer())
    assert list(memory) == [0, 1, 2, 3, 4]
    x.delete()


# Reads of the memory of an array. For a deleted array, some of these calls to jaxlib would end the process.
READS = [
    "x.is_ready()", "x.block_until_ready()", "x.on_device_size_in_bytes()", "x.unsafe_buffer_pointer()",
    "x.copy_to_host_async()", "x.addressable_shards", "x.global_shards", "x.addressable_data(0)", "x.__dlpack__()",
    "x.__array__()", "x.tolist()", "x.item()", "x.tobytes()", "str(x)", "f'{x}'", "float(x)", "bool(x)", "list(x)",
    "pickle.dumps(x)", "copy.deepcopy(x)", "x + 1", "x.sum()", "x[0]", "x.at[0].set(1.0)", "jnp.sin(x)",
    "jnp.array([x] * 20)", "jnp.stack([x, x])", "xjax.block_until_ready([x])", "xjax.device_get(x)",
    "xjax.device_put(x, xjax.devices()[1])", "xjax.copy_to_host_async([x])", "xjax.jit(lambda a: a + 1)(x)",
    "xjax.jit(lambda a, b: a + b)(x, np.ones(1, np.float32))", "xjax.pmap(lambda a: a + 1)(x)",
    "xjax.lax.cond(True, lambda a: a, lambda a: a, x)",
]


def test_a_deleted_array_is_an_error_wherever_it_is_read():
    code = ("import copy, pickle, sys, numpy as np, xjax, xjax.numpy as jnp\n"
            "for use in sys.argv[1:]:\n"
            "    x = jnp.ones(1) * 2\n"
            "    x.delete()\n"
            "    try:\n"
            "        eval(use)\n"
            "    except RuntimeError as error:\n"
            "        if 'Array: the array has been deleted' in str(error):\n"
            "            continue\n"
            "    print(use)\n")
    done = subprocess.run([sys.executable, "-c", code, *READS], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr[-300:]


def test_where_older_programs_look():
    from xjax.experimental import mesh_utils
    from xjax.experimental.pjit import pjit
    from xjax.experimental.shard_map import shard_map

    grid = mesh_utils.create_device_mesh((2, 2))
    assert Mesh(grid, ("x", "y")) == MESH
    assert mesh_utils.create_device_mesh((2,), xjax.devices()[2:]).tolist() == xjax.devices()[2:]
    with pytest.raises(ValueError, match="(?s)do not fill the shape.*fix:"):
        mesh_utils.create_device_mesh((3,))
    with MESH:
        placed = pjit(lambda x: x + 1, in_shardings=P("x"), out_shardings=P("x", "y"))(X)
    assert placed.sharding == TILES
    total = shard_map(lambda x: lax.psum(x, "x"), MESH, in_specs=P("x"), out_specs=P(), check_rep=False)(X)
    np.testing.assert_array_equal(total, X[:2] + X[2:])
