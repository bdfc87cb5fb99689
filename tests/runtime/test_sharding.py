"""Meshes, specs and shardings: against a slicing model, against real jax, and inside programs."""

import copy
import itertools
import pickle
import threading
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xjax
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax.runtime import xla
from xjax.runtime.devices import in_flight
from xjax.runtime.placement.current_mesh import current_mesh
from xjax.runtime.placement.sharding import (
    AxisType,
    GSPMDSharding,
    Mesh,
    NamedSharding,
    P,
    SingleDeviceSharding,
    device_put_sharded,
    make_mesh,
    named_from_hlo,
)

CLIENT = xla.make_cpu_client(8)
DEVICES = CLIENT.devices()
MESH = Mesh(np.array(DEVICES[:4]).reshape(2, 2), ("x", "y"))
# Devices not in the order of their ids, and three axes, so mistakes in the order show.
CUBE = Mesh(np.array(DEVICES)[[5, 3, 0, 6, 7, 1, 2, 4]].reshape(2, 2, 2), ("a", "b", "c"))


@dataclass
class Aval:
    shape: tuple
    dtype: np.dtype
    weak_type: bool = False


def aval_of(x):
    return Aval(x.shape, x.dtype)


def specs(axes, rank):
    """Every spec of this rank over these axes, with tuples of axes."""

    def extend(left, dims):
        if not dims:
            yield ()
            return
        for count in range(len(left) + 1):
            for part in itertools.permutations(left, count):
                rest = tuple(a for a in left if a not in part)
                for tail in extend(rest, dims - 1):
                    yield (part, *tail)

    return [P(*parts) for parts in extend(tuple(axes), rank)]


def model(mesh, spec, shape):
    """Slices by device, by the definition: coordinates on the mesh select the block."""
    out = {}
    for where, device in np.ndenumerate(mesh.devices):
        coordinate = dict(zip(mesh.axis_names, where, strict=True))
        index = []
        for dim, size in enumerate(shape):
            block, blocks = 0, 1
            for axis in spec.axes(dim):
                block = block * mesh.shape[axis] + coordinate[axis]
                blocks *= mesh.shape[axis]
            whole = blocks == 1
            index.append(slice(None) if whole else slice(block * size // blocks, (block + 1) * size // blocks))
        out[device] = tuple(index)
    return out


# --- Mesh and PartitionSpec ----------------------------------------------------------------------


def test_mesh_facts():
    assert dict(MESH.shape) == {"x": 2, "y": 2} and MESH.size == 4 and not MESH.empty
    assert MESH.axis_names == ("x", "y") and MESH.devices.shape == (2, 2)
    assert CUBE.device_ids.ravel().tolist() == [5, 3, 0, 6, 7, 1, 2, 4]
    assert MESH.local_devices == DEVICES[:4] and not MESH.is_multi_process
    same = Mesh([DEVICES[:2], DEVICES[2:4]], ["x", "y"])
    assert same == MESH and hash(same) == hash(MESH)
    assert Mesh(MESH.devices.T, ("x", "y")) != MESH != Mesh(MESH.devices, ("y", "x"))
    assert Mesh(DEVICES, "i").axis_names == ("i",) and repr(MESH) == "Mesh('x': 2, 'y': 2)"
    with pytest.raises(ValueError):
        MESH.devices[0, 0] = None


@pytest.mark.parametrize(
    ("devices", "names", "message"),
    [
        (DEVICES[:2], ("x", "y"), "number of names differs"),
        ([DEVICES[:2]], ("x", "x"), "occurs twice"),
        (DEVICES[:1] * 2, "x", "device occurs twice"),
    ],
)
def test_mesh_errors(devices, names, message):
    with pytest.raises(ValueError, match=rf"Mesh: .*{message}(.|\n)*fix:"):
        Mesh(devices, names)


def test_mesh_contexts_nest_and_belong_to_a_thread():
    seen = []
    with MESH, CUBE:
        assert current_mesh() is CUBE
        thread = threading.Thread(target=lambda: seen.append(current_mesh()))
        thread.start()
        thread.join()
    assert current_mesh() is None and seen == [None]
    with MESH:
        assert current_mesh() is MESH


def test_make_mesh():
    assert make_mesh((2, 2), ("x", "y"), devices=DEVICES) == MESH
    assert make_mesh((2, 2), ("x", "y"), (AxisType.Auto,) * 2, devices=DEVICES) == MESH
    with pytest.raises(ValueError, match=r"too few devices(.|\n)*16 devices(.|\n)*fix:"):
        make_mesh((4, 4), ("x", "y"), devices=DEVICES)
    with pytest.raises(NotImplementedError, match="fix:"):
        make_mesh((2,), ("x",), (AxisType.Explicit,), devices=DEVICES)


def test_partition_specs():
    assert P(("x",), None, ()) == P("x", None, None) == ("x", None, None)
    assert hash(P(("x",))) == hash(P("x")) and P("x") != P("x", None)
    assert repr(P("x", ("y", "z"))) == "P('x', ('y', 'z'))" and repr(P("x")) == "P('x',)"
    assert P("x", ("y", "z")).all_axes() == ("x", "y", "z") and P("x").axes(5) == ()
    for spec in (P("x", P.UNCONSTRAINED), P("x", unreduced={"y"}), P(reduced={"y"})):
        assert pickle.loads(pickle.dumps(spec)) == copy.deepcopy(spec) == spec


def test_axis_names_become_identifiers():
    mesh = Mesh(np.array(DEVICES).reshape(2, 2, 2), ("axis1", 'a"b', object()))
    assert list(mesh.sdy_names.values()) == ["axis1", "axis1_", "axis2"]
    assert MESH.sdy_text() == 'sdy.mesh @mesh = <["x"=2, "y"=2]>'


# --- Shardings -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", specs("abc", 2), ids=str)
def test_named_sharding_equals_its_meaning(spec):
    shape = (8, 16)
    sharding = NamedSharding(CUBE, spec)
    expected = model(CUBE, spec, shape)
    assert sharding.devices_indices_map(shape) == expected
    block = next(iter(expected.values()))
    assert sharding.shard_shape(shape) == tuple(len(range(n)[s]) for s, n in zip(block, shape, strict=True))
    assert sharding.is_fully_replicated == (not spec.all_axes())
    parsed = named_from_hlo(sharding.hlo(2), CUBE, 2)
    assert parsed is not None and parsed.is_equivalent_to(sharding, 2)


@pytest.mark.parametrize("spec", specs("abc", 2)[::3], ids=str)
def test_named_sharding_equals_jax(spec):
    jax = real_jax()
    theirs = jax.sharding.NamedSharding(
        jax.sharding.Mesh(CUBE.devices, CUBE.axis_names), jax.sharding.PartitionSpec(*spec)
    )
    ours = NamedSharding(CUBE, spec)
    assert ours.devices_indices_map((8, 16)) == theirs.devices_indices_map((8, 16))
    assert ours.is_fully_replicated == theirs.is_fully_replicated
    if spec.all_axes():
        mine, other = ours.hlo(2), theirs._to_xla_hlo_sharding(2)
        assert mine.tile_assignment_dimensions() == other.tile_assignment_dimensions()
        assert mine.tile_assignment_devices() == other.tile_assignment_devices()


@pytest.mark.parametrize("spec", [P("x"), P(None, "y"), P(("y", "x")), P(), P("y", "x")], ids=str)
def test_put_and_read_back(spec):
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    sharding = NamedSharding(MESH, spec)
    buf = device_put_sharded(x, aval_of(x), sharding)
    assert np.array_equal(xla.to_numpy(buf), x)
    for piece, index in zip(xla.shards(buf), sharding.indices(x.shape), strict=True):
        assert np.array_equal(xla.to_numpy(piece), x[index])
    assert buf._sharding is sharding.xla(2)  # one object per rank


def test_put_on_one_device():
    x = np.ones(3)
    for sharding in (SingleDeviceSharding(DEVICES[3]), NamedSharding(Mesh(DEVICES[3:4], "i"), P())):
        buf = device_put_sharded(x, aval_of(x), sharding)
        assert np.array_equal(xla.to_numpy(buf), x)
        assert sharding.xla(1) is xla.on_device(DEVICES[3])
        assert sharding.is_fully_replicated and sharding.shard_shape((3,)) == (3,)


@settings(max_examples=40, deadline=None)
@given(
    tiles=st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=3).filter(
        lambda t: 8 % np.prod(t) == 0
    ),
    order=st.permutations(range(8)),
    block=st.lists(st.integers(0, 3), min_size=3, max_size=3),
)
def test_compiler_chosen_shardings_round_trip(tiles, order, block):
    copies = 8 // int(np.prod(tiles))
    dims = (*tiles, copies) if copies > 1 else tuple(tiles)
    hlo = xla.hlo_sharding_tiled(dims, tuple(order), copies > 1)
    shape = tuple(t * b for t, b in zip(tiles, block, strict=False))
    x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    sharding = GSPMDSharding(DEVICES, hlo)
    assert np.array_equal(xla.to_numpy(device_put_sharded(x, aval_of(x), sharding)), x)
    named = named_from_hlo(hlo, CUBE, len(shape))
    if named is not None:
        assert named.indices([2 * t for t in tiles]) == sharding.indices([2 * t for t in tiles])


def test_equality_and_equivalence():
    assert NamedSharding(MESH, P("x")) == NamedSharding(MESH, P(("x",)))
    assert hash(NamedSharding(MESH, P("x"))) == hash(NamedSharding(MESH, P("x")))
    assert NamedSharding(MESH, P("x")) != NamedSharding(MESH, P("x", None))
    assert NamedSharding(MESH, P("x")).is_equivalent_to(NamedSharding(MESH, P("x", None)), 2)
    gspmd = GSPMDSharding(DEVICES[:4], NamedSharding(MESH, P(None, "y")).hlo(2))
    assert gspmd.is_equivalent_to(NamedSharding(MESH, P(None, "y")), 2)
    assert gspmd == GSPMDSharding(DEVICES[:4], gspmd.hlo(2)) and len({gspmd, gspmd}) == 1
    assert not gspmd.is_equivalent_to(NamedSharding(MESH, P("y")), 2)
    assert not gspmd.is_equivalent_to(NamedSharding(MESH, P()), 2)
    single = SingleDeviceSharding(DEVICES[0])
    assert single == SingleDeviceSharding(DEVICES[0]) != SingleDeviceSharding(DEVICES[1])
    assert single.is_equivalent_to(NamedSharding(Mesh(DEVICES[:1], "i"), P("i")), 1)
    # the order among copies does not matter
    a, b = (xla.hlo_sharding_tiled((2, 2), order, True) for order in ((0, 1, 2, 3), (1, 0, 3, 2)))
    assert GSPMDSharding(DEVICES[:4], a).is_equivalent_to(GSPMDSharding(DEVICES[:4], b), 1)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies(copied):
    """As in a tree of parameters that also contains their placements."""
    tree = {"mesh": MESH, "sharding": NamedSharding(MESH, P("x")), "one": SingleDeviceSharding(DEVICES[1])}
    assert copied(tree) == tree and copied(tree["one"]) is tree["one"]
    x = xjax.device_put(np.arange(4.0), tree["one"])
    assert copied(x).sharding is tree["one"]


def test_specs_are_added():
    assert P("x") + P(None, "y") == P("x") + (None, "y") == ("x",) + P(None, "y") == P("x", None, "y")
    with pytest.raises(TypeError):
        P("x") + "y"


def test_sets_of_devices_and_memory():
    sharding = NamedSharding(MESH, P("x"), memory_kind="pinned_host")
    assert sharding.device_set == sharding.addressable_devices == frozenset(DEVICES[:4])
    assert sharding.num_devices == 4 and sharding.is_fully_addressable
    assert sharding.xla(1).memory_kind == "pinned_host"
    assert sharding.with_memory_kind("device").memory_kind == "device"
    assert sharding != NamedSharding(MESH, P("x")) and "pinned_host" in repr(sharding)


def test_texts():
    sharding = NamedSharding(MESH, P(("y", "x"), P.UNCONSTRAINED))
    assert sharding.sdy_text(3) == '#sdy.sharding<@mesh, [{"y", "x"}, {?}, {}]>'
    assert sharding.mesh_text == 'sdy.mesh @mesh = <["x"=2, "y"=2]>'
    assert NamedSharding(MESH, P()).sdy_text(0, "m") == "#sdy.sharding<@m, []>"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: NamedSharding(MESH, P("z")), ["no axis 'z'", "'x': 2"]),
        (lambda: NamedSharding(MESH, P("x", "x")), ["twice"]),
        (lambda: NamedSharding(MESH, P("x", "y")).shard_shape((4,)), ["rank 1", "2 entries"]),
        (lambda: NamedSharding(MESH, P(None, "x")).shard_shape((4, 3)),
         ["axis 1 of size 3", "evenly over 2 devices", "(4, 3)", "Mesh('x': 2", "to 4"]),
        (lambda: NamedSharding(MESH, P(("x", "y"))).devices_indices_map((6,)), ["evenly over 4 devices"]),
        (lambda: GSPMDSharding(DEVICES[:4], NamedSharding(MESH, P("x")).hlo(1)).shard_shape((3,)),
         ["evenly over 2 devices", "devices="]),
        (lambda: device_put_sharded(np.ones(4), Aval((4,), np.dtype("f4")),
                                    NamedSharding(MESH, P())), ["float64[4]", "float32[4]"]),
    ],
)  # fmt: skip
def test_errors(make, words):
    assert_refused(make, ValueError, words)


# --- In programs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", [P("a"), P("c", "a"), P(None, ("b", "a")), P(), P("b")], ids=str)
def test_the_program_text_means_the_same(spec):
    """An argument is split as the mesh says, and a result annotated in XLA's own text has the same parts."""
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    named = NamedSharding(CUBE, spec)
    gspmd = GSPMDSharding(CUBE.devices_flat, named.hlo(2))
    t = "tensor<8x8xf32>"
    text = f"""{named.mesh_text}
func.func public @main(%a: {t} {{{named.attribute_text(2)}}})
  -> ({t} {{{named.attribute_text(2)}}}, {t} {{{gspmd.attribute_text(2)}}}) {{
%0 = stablehlo.add %a, %a : {t}
%1 = stablehlo.negate %a : {t}
return %0, %1 : {t}, {t} }}"""
    exe = xla.compile(CLIENT, text, CUBE.devices_flat, num_partitions=8)
    handlers = [xla.result_handler(aval_of(x), s.xla(2)) for s in (named, gspmd)]
    out = xla.execute(exe, [device_put_sharded(x, aval_of(x), named)], handlers)
    assert np.array_equal(xla.to_numpy(out[0]), 2 * x)
    assert np.array_equal(xla.to_numpy(out[1]), -x)
    for hlo in xla.output_hlo_shardings(exe):
        assert named_from_hlo(hlo, CUBE, 2).is_equivalent_to(named, 2)


def psum_program(mesh):
    n = mesh.size
    g, s, local = f"tensor<{n}x8xf32>", '[{"i"}, {}]', "tensor<1x8xf32>"
    return f"""{mesh.sdy_text("m")}
func.func public @main(%a: {g} {{sdy.sharding = #sdy.sharding<@m, {s}>, jax.buffer_donor = true}})
  -> ({g} {{sdy.sharding = #sdy.sharding<@m, {s}>}}) {{
%0 = sdy.manual_computation(%a) in_shardings=[<@m, {s}>] out_shardings=[<@m, {s}>]
  manual_axes={{"i"}} (%b: {local}) {{
  %r = "stablehlo.all_reduce"(%b) ({{ ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %t = stablehlo.maximum %p, %q : tensor<f32>
    stablehlo.return %t : tensor<f32> }}) {{use_global_device_ids,
    replica_groups = dense<[{list(range(n))}]> : tensor<1x{n}xi64>,
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}} : ({local}) -> {local}
  sdy.return %r : {local}
}} : ({g}) -> {g}
return %0 : {g} }}"""


def test_thousands_of_donated_collectives_do_not_hang():
    mesh = Mesh(DEVICES, "i")
    sharding = NamedSharding(mesh, P("i"))
    exe = xla.compile(CLIENT, psum_program(mesh), DEVICES, num_partitions=8)
    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    handlers = [xla.result_handler(aval_of(x), sharding.xla(2))]
    limiter = in_flight.of_client(CLIENT)
    assert limiter is in_flight.of_client(DEVICES[5].client)
    buf = device_put_sharded(x, aval_of(x), sharding)
    for _ in range(2000):
        (buf,), token = xla.execute_with_token(exe.execute_sharded, [buf], handlers)
        limiter.push(token)
    assert np.array_equal(xla.to_numpy(buf), np.broadcast_to(x[-1], (8, 8)))


class Launch:
    """Counts the launches that no call has waited for."""

    pending = 0

    def __init__(self, error=None):
        self.error = error
        Launch.pending += 1

    def block_until_ready(self):
        Launch.pending -= 1
        if self.error:
            raise self.error


def test_the_limit_holds_and_errors_are_left_to_their_owner():
    limiter, most = in_flight.InFlight(limit=3), 0
    for i in range(20):
        limiter.push(Launch(xla.XlaRuntimeError("not yours") if i % 2 else None))
        most = max(most, Launch.pending)
    assert most == 3
    limiter.drain()
    assert Launch.pending == 0


def test_a_wait_does_not_hold_up_other_threads():
    limiter, release, done = in_flight.InFlight(limit=0), threading.Event(), threading.Event()

    class Slow:
        def block_until_ready(self):
            release.wait(10)

    def other():
        limiter.push(Launch())
        done.set()

    slow = threading.Thread(target=lambda: limiter.push(Slow()))
    slow.start()
    threading.Thread(target=other).start()
    assert done.wait(5), "push blocked by another thread's wait"
    release.set()
    slow.join()
