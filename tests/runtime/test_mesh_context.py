"""The mesh of the context: programs that agree with JAX, misuse with JAX's class of error, and extensions of xjax."""

from __future__ import annotations

import inspect
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import xjax
import xjax.numpy as jnp
from tests.compare import assert_same_outcome, outcome
from tests.isolated import run
from tests.oracle import real_jax
from tests.refusals import assert_refused
from tests.sampling import one_in
from tests.userprograms import meshes
from xjax.core.config import config
from xjax.experimental import io_callback
from xjax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, get_abstract_mesh, get_mesh
from xjax.sharding import PartitionSpec as P

MESH = xjax.make_mesh((2, 2), ("x", "y"))
LINE = xjax.make_mesh((4,), ("x",))
X = np.arange(8.0, dtype=np.float32)
PROGRAMS = {name: f for name, f in vars(meshes).items() if inspect.isfunction(f) and not name.startswith("_")}


@pytest.mark.parametrize("name", one_in(2, PROGRAMS))
@pytest.mark.filterwarnings("ignore")
def test_a_program_gives_what_it_gives_in_jax(name):
    theirs = outcome(PROGRAMS[name], real_jax("experimental"))
    assert theirs.error is None, theirs.error
    assert_same_outcome(outcome(PROGRAMS[name], xjax), theirs, what=name)
    assert config.context_mesh is None and config.mesh is None


def _under(lib, use):
    auto = (lib.sharding.AxisType.Auto,) * 2
    with lib.set_mesh(lib.make_mesh((2, 2), ("x", "y"), axis_types=auto)):
        return use()


# name -> (misuse of the library, words of our message)
MISUSE = {
    "set_mesh of a name": (lambda lib: lib.set_mesh("x"), "needs a Mesh"),
    "set_mesh of an abstract mesh": (
        lambda lib: lib.set_mesh(lib.make_mesh((4,), ("x",)).abstract_mesh), "needs a Mesh"),
    "set_mesh in jit": (lambda lib: lib.jit(lambda x: _under(lib, lambda: x))(1.0), "cannot change inside"),
    "get_mesh in jit": (lambda lib: lib.jit(lambda x: lib.sharding.get_mesh() and x)(1.0), "get_abstract_mesh"),
    "get_mesh in grad": (lambda lib: lib.grad(lambda x: lib.sharding.get_mesh() and x)(1.0), "get_abstract_mesh"),
    "use_abstract_mesh of a mesh": (
        lambda lib: lib.sharding.use_abstract_mesh(lib.make_mesh((4,), ("x",))), "needs an AbstractMesh"),
    "use_abstract_mesh of another size": (
        lambda lib: _under(lib, lambda: lib.sharding.use_abstract_mesh(
            lib.sharding.AbstractMesh((2,), ("x",))).__enter__()), "the size of the mesh"),
    "with an abstract mesh": (lambda lib: lib.sharding.AbstractMesh((2,), ("x",)).__enter__(), "use_abstract_mesh"),
    "devices of an abstract mesh": (lambda lib: lib.sharding.AbstractMesh((2,), ("x",)).devices, "has none"),
    "ids of an abstract mesh": (lambda lib: lib.sharding.AbstractMesh((2,), ("x",)).device_ids, "has none"),
    "sizes without names": (lambda lib: str(lib.sharding.AbstractMesh((2,), ("x", "y"))), "a positive size for each"),
    "too few types": (lambda lib: lib.sharding.AbstractMesh((2, 4), ("x", "y"), lib.sharding.AxisType.Auto),
                      "2 axis names, but 1 axis types"),
    "types of a mesh": (lambda lib: lib.sharding.Mesh(np.array(lib.devices()[:2]), ("x",), ("auto",)), "an AxisType"),
    "a name that is None": (lambda lib: lib.sharding.Mesh(np.array(lib.devices()[:2]), (None,)), "cannot be the name"),
    "devices of an abstract sharding": (lambda lib: _abstract(lib).device_set, "abstract, without devices"),
    "indices of an abstract sharding": (lambda lib: _abstract(lib).devices_indices_map((4,)), "without devices"),
    "an axis that is not there": (lambda lib: lib.NamedSharding(_abstract(lib).mesh, lib.P("z")), "no axis 'z'"),
    "device_put to an abstract mesh": (lambda lib: lib.device_put(X, _abstract(lib)), "abstract, without devices"),
    "device_put of a spec without a mesh": (lambda lib: lib.device_put(X, lib.P("x")), "needs a mesh"),
    "in_shardings without a mesh": (lambda lib: lib.jit(lambda x: x, in_shardings=lib.P("x"))(X), "needs a mesh"),
    "a constraint without a mesh": (lambda lib: lib.lax.with_sharding_constraint(X, lib.P("x")), "needs a mesh"),
    "reshard without a mesh": (lambda lib: lib.sharding.reshard(X, lib.P("x")), "needs a mesh"),
    "reshard to None": (lambda lib: lib.sharding.reshard(X, None), "None is not a sharding"),
    "a struct without a mesh": (lambda lib: lib.ShapeDtypeStruct((8,), X.dtype, sharding=lib.P("x")).sharding,
                                "needs a mesh"),
    "a struct with a name": (lambda lib: lib.ShapeDtypeStruct((8,), X.dtype, sharding="x"), "not a sharding"),
    "a struct of too few axes": (
        lambda lib: lib.ShapeDtypeStruct((8,), X.dtype, sharding=lib.NamedSharding(
            _abstract(lib).mesh, lib.P("x", None))), "2 entries for an array of rank 1"),
    "shard_map without a mesh": (
        lambda lib: lib.shard_map(lambda x: x, in_specs=lib.P("x"), out_specs=lib.P("x"))(X), "there is no mesh"),
    "shard_map over a name": (lambda lib: _map(lib, "x"), "must be a mesh"),
    "shard_map over another mesh": (lambda lib: _under(lib, lambda: _map(lib, lib.make_mesh((4,), ("x",)))),
                                    "differ from those of the current mesh"),
    "shard_map over no devices": (lambda lib: _map(lib, _abstract(lib).mesh), "its devices are unknown"),
    "shard_map over another mesh than its argument's": (
        lambda lib: _map(lib, _abstract(lib).mesh, lib.device_put(X, lib.NamedSharding(
            lib.sharding.Mesh(np.array(lib.devices()), "x"), lib.P("x")))), "axes differ from the abstract mesh"),
    "lower without devices": (
        lambda lib: lib.jit(lambda x: x).lower(lib.ShapeDtypeStruct((8,), X.dtype, sharding=_abstract(lib))),
        "its devices are unknown"),
    "jit with a device under a mesh": (
        lambda lib: _under(lib, lambda: lib.jit(lambda x: x, device=lib.devices()[1])(X)), "has its own device"),
    "a constraint along a manual axis": (
        lambda lib: _map(lib, lib.sharding.Mesh(np.array(lib.devices()), "x"),
                         body=lambda x: lib.lax.with_sharding_constraint(x, lib.P("x"))), "names a manual axis"),
    "vmap over the axis of a constraint": (
        lambda lib: lib.vmap(lambda x: lib.lax.with_sharding_constraint(x, lib.NamedSharding(_mesh(lib), lib.P("x"))),
                             spmd_axis_name="x")(np.ones((2, 2), np.float32)), "spmd_axis_name"),
    "vmap over no axis of the mesh": (
        lambda lib: lib.vmap(lambda x: lib.lax.with_sharding_constraint(x, lib.NamedSharding(_mesh(lib), lib.P("x"))),
                             spmd_axis_name="z")(np.ones((2, 2), np.float32)), "no axis 'z'"),
    "vmap over the axis of a shard_map": (
        lambda lib: lib.vmap(lambda x: _map(lib, _mesh(lib), x), spmd_axis_name="x")(np.ones((2, 4), np.float32)),
        "spmd_axis_name"),
    "vmap of 3 rows over 2 devices": (
        lambda lib: lib.vmap(lambda x: _map(lib, _mesh(lib), x), spmd_axis_name="y")(np.ones((3, 4), np.float32)),
        "split evenly over 2 devices"),
    "vmap over an axis that the function sums over": (
        lambda lib: lib.vmap(lambda x: _map(lib, _mesh(lib), x, lambda x: lib.lax.psum(x, "y")),
                             spmd_axis_name="y")(np.ones((2, 4), np.float32)), "communicates along a mesh axis"),
    "ordered prints of several devices": (
        lambda lib: lib.pmap(lambda x: lib.debug.print("{}", x, ordered=True))(np.ones(2)), "no common order"),
    "pmap.lower of too many rows": (lambda lib: lib.pmap(lambda x: x).lower(np.ones(5)), "more rows than devices"),
    "axis_env without sizes": (lambda lib: lib.make_jaxpr(lambda x: x, axis_env=["i"])(1.0), "be a sequence"),
    "an axis that axis_env lacks": (
        lambda lib: lib.make_jaxpr(lambda x: lib.lax.psum(x, "j"), axis_env=[("i", 4)])(1.0), "unbound axis name"),
}


def _mesh(lib):
    return lib.sharding.Mesh(np.array(lib.devices()[:4]).reshape(2, 2), ("x", "y"))


def _abstract(lib):
    return lib.NamedSharding(_mesh(lib).abstract_mesh, lib.P("x"))


def _map(lib, mesh, x=X, body=lambda x: x):
    return lib.shard_map(body, mesh=mesh, in_specs=lib.P("x"), out_specs=lib.P("x"))(x)


@pytest.mark.parametrize("name", MISUSE)
@pytest.mark.filterwarnings("ignore")
def test_misuse_has_the_class_of_error_of_jax(name):
    call, words = MISUSE[name]
    theirs = outcome(call, real_jax("experimental"))
    assert theirs.error is not None
    ours = outcome(call, xjax)
    assert_same_outcome(ours, theirs, what=name)
    assert words in str(ours.error) and "fix:" in str(ours.error)


EXPLICIT = (AxisType.Explicit, AxisType.Auto)


@pytest.mark.parametrize("call", [
    lambda: xjax.make_mesh((2, 2), ("x", "y"), EXPLICIT),
    lambda: xjax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2),
    lambda: Mesh(MESH.devices, ("x", "y"), EXPLICIT),
    lambda: MESH.update(axis_types=EXPLICIT),
    lambda: AbstractMesh((2, 2), ("x", "y"), EXPLICIT),
    lambda: MESH.abstract_mesh.update(axis_types=EXPLICIT),
    lambda: MESH.abstract_mesh.update_axis_types({"x": AxisType.Explicit}),
])
def test_explicit_axes_are_one_error(call):
    assert_refused(call, NotImplementedError, ["xjax has no explicit axes", "Explicit", "fix: use AxisType.Auto"])


def test_manual_axes_are_those_of_regions():
    for call in (lambda: Mesh(LINE.devices, "x", AxisType.Manual), lambda: LINE.update(axis_types=(AxisType.Manual,))):
        assert_refused(call, NotImplementedError, ["manual only inside a shard_map"])
    manual = AbstractMesh((4,), ("x",), AxisType.Manual)
    assert_refused(lambda: xjax.lax.with_sharding_constraint(X, NamedSharding(manual, P("x"))), ValueError,
                   ["names a manual axis"])


def test_what_the_old_way_gives_too():
    """In JAX a mesh of `with mesh:` gives constraints their devices, and has no other effect."""
    f = xjax.jit(lambda x: x * 2, in_shardings=P("x"), out_shardings=P("y"))
    with MESH:
        assert f(X).sharding == NamedSharding(MESH, P("y"))
        assert xjax.device_put(X, P("x")).sharding == NamedSharding(MESH, P("x"))
        assert len(jnp.ones(2).devices()) == 1 and get_mesh().empty and get_abstract_mesh().empty
        with xjax.set_mesh(LINE):                       # this mesh has precedence, as in JAX
            assert xjax.device_put(X, P("x")).sharding == NamedSharding(LINE, P("x"))


def test_one_shard_map_for_several_meshes():
    double = xjax.shard_map(lambda x: 2 * x, in_specs=P("x"), out_specs=P("x"))
    for mesh in (MESH, LINE, MESH):
        with xjax.set_mesh(mesh):
            assert double(X).sharding == NamedSharding(mesh, P("x"))
            assert xjax.jit(double)(X).sharding == NamedSharding(mesh, P("x"))


def test_reshard_takes_automatic_axes():
    with xjax.set_mesh(MESH):
        for move in (lambda x: xjax.reshard(x, P("x")), xjax.jit(lambda x: xjax.sharding.reshard(x, P("x")))):
            assert move(X).sharding == NamedSharding(MESH, P("x"))
    assert xjax.reshard(X, NamedSharding(MESH, P("y"))).sharding.spec == P("y")


def test_in_shardings_over_an_abstract_mesh():
    there = NamedSharding(MESH.abstract_mesh, P("x"))
    f = xjax.jit(lambda x, y: x + y, in_shardings=(there, None), out_shardings=there)
    placed = xjax.device_put(X, NamedSharding(MESH, P("x")))
    assert f(X, placed).sharding == f(placed, 1.0).sharding == NamedSharding(MESH, P("x"))
    with xjax.set_mesh(MESH):
        assert f(X, 1.0).sharding == NamedSharding(MESH, P("x"))
    assert_refused(lambda: f(X, 1.0), ValueError, ["abstract", "set_mesh"])
    assert_refused(lambda: xjax.jit(lambda x: xjax.lax.with_sharding_constraint(x, there))(X), ValueError, ["abstract"])


def test_the_mesh_belongs_to_a_thread():
    seen = []
    with xjax.set_mesh(MESH):
        thread = threading.Thread(target=lambda: seen.append((get_mesh().empty, len(jnp.ones(2).devices()))))
        thread.start()
        thread.join()
    assert seen == [(True, 1)]


def test_functions_on_the_host_have_no_mesh():
    seen = []

    def look(x):
        seen.append((get_mesh().empty, len((x * 2).devices()), len(jnp.ones(2).devices())))
        return np.asarray(x) + 1

    with xjax.set_mesh(MESH):
        for call in (lambda: xjax.pure_callback(look, X, X), lambda: xjax.jit(lambda x: io_callback(look, X, x))(X)):
            np.testing.assert_array_equal(call(), X + 1)
        assert get_mesh() == MESH
    assert seen == [(True, 1, 1)] * 2


def test_eager_execution_takes_its_shortest_path_under_each_mesh():
    """In a process of its own: options that other tests have used check each operation."""
    run("""
        import xjax, xjax.numpy as jnp
        from xjax.runtime.dispatch import EvalTrace
        from xjax.sharding import NamedSharding, PartitionSpec as P

        x = jnp.arange(8.0)
        meshes = xjax.make_mesh((2, 2), ("x", "y")), xjax.make_mesh((4,), ("x",))
        for _ in range(2):
            assert len((x + x).devices()) == 1
            for mesh in meshes:
                with xjax.set_mesh(mesh):
                    y = x + x
                    assert y.sharding == NamedSharding(mesh, P())
                    assert (y + y).sharding == y.sharding and jnp.ones(3).sharding == y.sharding
                    with xjax.set_mesh(None):
                        assert len((x + x).devices()) == 1
        EvalTrace._run = None                                       # what is not ready
        assert len((x + x).devices()) == 1
        for mesh in meshes:
            with xjax.set_mesh(mesh):
                y = jnp.asarray(range(8), jnp.float32)
                assert (y + y).sharding == y.sharding == NamedSharding(mesh, P())
        """, devices=4)


def test_numbers_beside_sharded_arrays():
    """A function of several operations once gave a number the sharding of the array, which has more axes."""
    x = xjax.device_put(X, NamedSharding(LINE, P("x")))
    np.testing.assert_array_equal(jnp.where(x > 3, x, 0), np.where(X > 3, X, 0))
    np.testing.assert_array_equal(jnp.clip(x, 1, 5.5), np.clip(X, 1, 5.5))


# Bodies of regions over one axis of the current mesh.
REGIONS = {
    "a constraint": lambda lib, a: lib.lax.with_sharding_constraint(a * 2, lib.P(None, "y")),
    "a region inside": lambda lib, a: lib.shard_map(
        lambda b: lib.lax.psum(b, "y"), in_specs=lib.P(None, "y"), out_specs=lib.P())(a),
    "a region inside over the abstract mesh": lambda lib, a: lib.shard_map(
        lambda b: lib.lax.psum(b, "y"), mesh=lib.sharding.get_abstract_mesh(), in_specs=lib.P(None, "y"),
        out_specs=lib.P(), axis_names={"y"})(a),
    "types of the axes": lambda lib, a: a + len(lib.sharding.get_abstract_mesh().manual_axes),
}


@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.filterwarnings("ignore")
def test_regions_over_some_axes_of_the_current_mesh(name):
    x = X.reshape(4, 2)

    def run(lib):
        mapped = lib.shard_map(lambda a: REGIONS[name](lib, a), in_specs=lib.P("x"), out_specs=lib.P("x"),
                               axis_names={"x"})
        with lib.set_mesh(lib.make_mesh((2, 2), ("x", "y"), axis_types=(lib.sharding.AxisType.Auto,) * 2)):
            y = lib.jit(mapped)(x)
        return y, [(str(s.index), s.device.id) for s in y.addressable_shards]

    assert_same_outcome(outcome(run, xjax), outcome(run, real_jax()), what=name)


def test_an_abstract_mesh_of_a_region_over_some_axes():
    x = xjax.device_put(X, NamedSharding(MESH, P("x")))
    total = xjax.shard_map(lambda a: xjax.lax.psum(a, "x"), mesh=MESH.abstract_mesh, in_specs=P("x"), out_specs=P(),
                           axis_names={"x"})
    for f in (total, xjax.jit(total)):
        np.testing.assert_array_equal(f(x), X[:4] + X[4:])


def test_vmap_over_an_axis_that_a_region_leaves_to_the_compiler():
    f = xjax.shard_map(lambda a: xjax.lax.with_sharding_constraint(xjax.lax.psum(a, "x"), P()), in_specs=P("x"),
                       out_specs=P(), axis_names={"x"})
    g = xjax.shard_map(lambda a: xjax.lax.with_sharding_constraint(a * 2, P("x")), in_specs=P(), out_specs=P(),
                       axis_names={"y"})
    with xjax.set_mesh(MESH):
        y = xjax.jit(xjax.vmap(f, spmd_axis_name="y"))(X.reshape(2, 4))
        z = xjax.jit(xjax.vmap(g, spmd_axis_name="y"))(X.reshape(2, 4))
    np.testing.assert_array_equal(y, X.reshape(2, 2, 2).sum(1))
    assert y.sharding == NamedSharding(MESH, P("y")) and z.sharding == NamedSharding(MESH, P("y", "x"))


def test_effects_in_a_region_over_some_axes_are_refused():
    for effect in (lambda a: io_callback(print, None, a), lambda a: xjax.debug.print("{}", a)):
        f = xjax.shard_map(lambda a, effect=effect: (effect(a), a)[1], mesh=MESH, in_specs=P("x"), out_specs=P("x"),
                           axis_names={"x"})
        assert_refused(lambda f=f: xjax.jit(f)(X), NotImplementedError, ["not manual", "'y'"])


def test_arrays_of_the_host_under_a_mesh():
    """Host values are uncommitted arguments; arrays made of them are on the mesh."""
    there = NamedSharding(MESH, P())
    with xjax.set_mesh(MESH):
        for x in (jnp.asarray(np.ones(2)), jnp.array([1, 2]), jnp.float32(3), xjax.random.key(0)):
            assert x.sharding == there and x.committed
        placed = xjax.device_put(X, xjax.devices()[2])
        assert (placed + 1.5).devices() == xjax.jit(jnp.add)(placed, X).devices() == {xjax.devices()[2]}


def test_a_collective_along_a_sharded_axis_of_vmap_is_refused():
    """JAX sums over the elements of one device, which differs from vmap's sum."""
    f = xjax.shard_map(lambda x: xjax.lax.psum(x, "b"), mesh=MESH, in_specs=P("x"), out_specs=P("x"))
    x = np.ones((4, 8), np.float32)
    np.testing.assert_array_equal(xjax.vmap(f, axis_name="b")(x), 4 * x)
    assert_refused(lambda: xjax.vmap(f, axis_name="b", spmd_axis_name="y")(x), NotImplementedError, ["'b'"])


def test_local_mesh_is_a_block():
    class Device:
        client = SimpleNamespace(process_index=lambda: 0)

        def __init__(self, index, local):
            self.id, self.process_index = index, int(not local)

    def mesh(*local):
        return Mesh(np.array([Device(i, here) for i, here in enumerate(local)]).reshape(2, 2), ("x", "y"))

    assert mesh(True, False, True, False).local_mesh.shape_tuple == (("x", 2), ("y", 1))
    assert_refused(lambda: mesh(True, False, False, True).local_mesh, ValueError, ["not a contiguous block"])
