"""Shardings that name a kind of memory: the memory of arrays, and their use in programs.

A CPU has the three kinds too, all in the memory of the host; buffers report their kind.
"""

import re

import numpy as np
import pytest

import xjax
from tests.oracle import real_jax
from tests.refusals import assert_refused
from xjax import numpy as jnp
from xjax.sharding import AbstractMesh, Mesh, NamedSharding, SingleDeviceSharding
from xjax.sharding import PartitionSpec as P

DEVICES = xjax.devices()[:2]
MESH = Mesh(np.array(DEVICES), "x")
KINDS = ["pinned_host", "unpinned_host"]
SHARDINGS = {"one device": SingleDeviceSharding(DEVICES[0]), "two devices": NamedSharding(MESH, P("x")),
             "copies": NamedSharding(MESH, P())}
X = np.arange(4, dtype=np.float32)


def memory_of(x):
    """The memory of an array's buffer, from jaxlib; the sharding must name the same."""
    kind = x._buf._sharding.memory_kind or "device"
    assert x.sharding.memory_kind == kind
    assert {shard.data.sharding.memory_kind for shard in x.addressable_shards} == {kind}
    return kind


@pytest.fixture(params=SHARDINGS)
def sharding(request):
    return SHARDINGS[request.param]


def test_kinds_are_those_of_jax():
    jax = real_jax()
    theirs = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    ours = SingleDeviceSharding(DEVICES[0])
    assert ours.memory_kind == theirs.memory_kind == "device"
    for kind in KINDS:
        assert ours.with_memory_kind(kind).memory_kind == theirs.with_memory_kind(kind).memory_kind == kind
        assert f"memory_kind={kind})" in repr(ours.with_memory_kind(kind))
    assert ours.with_memory_kind("device") is ours and ours.with_memory_kind("device") == ours
    assert ours.with_memory_kind("pinned_host").with_memory_kind(None) is ours


def test_an_unknown_kind_is_refused(sharding):
    with pytest.raises(ValueError):
        real_jax().sharding.SingleDeviceSharding(real_jax().devices()[0], memory_kind="gpu")
    texts = ["no such kind of memory", "'gpu'", "device, pinned_host, unpinned_host"]
    assert_refused(lambda: sharding.with_memory_kind("gpu"), ValueError, texts)
    assert_refused(lambda: NamedSharding(AbstractMesh((2,), ("x",)), P("x"), memory_kind="gpu"), ValueError, texts)
    assert_refused(lambda: SingleDeviceSharding(DEVICES[0], memory_kind=3), ValueError, texts[:1])


@pytest.mark.parametrize("kind", KINDS)
def test_device_put_moves_there_and_back(sharding, kind):
    there = sharding.with_memory_kind(kind)
    x = xjax.device_put(X, sharding)
    y = xjax.device_put(x, there)
    assert memory_of(x) == "device" and memory_of(y) == kind and y.sharding == there
    assert memory_of(xjax.device_put(X, there)) == kind             # from NumPy
    assert memory_of(xjax.device_put(y, sharding)) == "device"
    assert y.committed and xjax.device_put(y, there) is y
    np.testing.assert_array_equal(y, X)
    assert not x.is_deleted()


def test_keys_numbers_and_empty_arrays_go_there():
    there = SHARDINGS["one device"].with_memory_kind("pinned_host")
    key = xjax.random.key(3)
    put = xjax.device_put({"key": key, "number": 2.5, "empty": np.zeros((0, 3)), "bool": np.bool_(True)}, there)
    assert {x.sharding.memory_kind for x in put.values()} == {"pinned_host"}
    assert (xjax.random.key_data(put["key"]) == xjax.random.key_data(key)).all()
    assert float(put["number"]) == 2.5 and put["empty"].shape == (0, 3) and bool(put["bool"])


@pytest.mark.parametrize("call", [
    jnp.sin, lambda x: x + 1, lambda x: x + xjax.device_put(x, x.sharding.with_memory_kind(None)), lambda x: x @ x,
    lambda x: x[1:], xjax.jit(lambda x: x * 2), xjax.grad(lambda x: (x * x).sum()), xjax.vmap(lambda x: x * 2),
    lambda x: xjax.lax.scan(lambda c, y: (c + y, c), 0.0, x)[1],
], ids=["sin", "number", "both memories", "product", "slice", "jit", "grad", "vmap", "scan"])
def test_programs_copy_arguments_and_leave_results_on_the_device(sharding, call):
    """JAX refuses sums over two memories; here programs copy arguments from any memory and compute on the device."""
    x = xjax.device_put(X, sharding.with_memory_kind("pinned_host"))
    for _ in range(3):  # compiled, then cached by the types of its arguments
        y = call(x)
        assert memory_of(y) == "device"
        np.testing.assert_array_equal(y, call(xjax.device_put(X, sharding)))
    assert memory_of(x) == "pinned_host"


@pytest.mark.parametrize("kind", KINDS)
def test_results_of_a_program_go_where_out_shardings_say(sharding, kind):
    there = sharding.with_memory_kind(kind)
    f = xjax.jit(lambda x: (x * 2, x.sum(), x + 1), out_shardings=(there, None, sharding))
    for x in (xjax.device_put(X, sharding), xjax.device_put(X, there)):
        for _ in range(2):
            doubled, total, more = f(x)
            assert memory_of(doubled) == kind and memory_of(total) == memory_of(more) == "device"
            np.testing.assert_array_equal(doubled, 2 * X)
            assert float(total) == 6
    lowered = f.lower(xjax.device_put(X, there))
    assert f'mhlo.memory_kind = "{kind}"' in lowered.as_text()
    assert memory_of(lowered.compile()(xjax.device_put(X, there))[0]) == kind
    assert f.eval_shape(X)[0].sharding.memory_kind == kind


def test_a_donated_argument_is_no_result_in_another_memory():
    there = SHARDINGS["one device"].with_memory_kind("pinned_host")
    f = xjax.jit(lambda x: (x * 2, x + 1), donate_argnums=0, out_shardings=(there, None))
    text = f.lower(X).as_text()
    assert "tf.aliasing_output = 1" in text
    doubled, more = f(jnp.asarray(X) + 0)
    assert memory_of(doubled) == "pinned_host" and memory_of(more) == "device"
    np.testing.assert_array_equal(doubled, 2 * X)
    np.testing.assert_array_equal(more, X + 1)


def test_arguments_must_be_in_the_memory_that_in_shardings_name(sharding):
    there = sharding.with_memory_kind("pinned_host")
    f = xjax.jit(lambda x: x * 2, in_shardings=there)
    np.testing.assert_array_equal(f(xjax.device_put(X, there)), 2 * X)
    np.testing.assert_array_equal(f(X), 2 * X)                      # an uncommitted argument
    assert_refused(lambda: f(xjax.device_put(X, sharding)), ValueError, ["another sharding", "memory_kind=pinned_host"])


def test_inside_a_program_for_cpus_values_are_on_the_device():
    there = SHARDINGS["one device"].with_memory_kind("pinned_host")
    inner = xjax.jit(lambda x: x * 2, out_shardings=there)
    for f in (lambda x: xjax.device_put(x, there) * 2, inner):
        np.testing.assert_array_equal(xjax.jit(f)(X), 2 * X)
        np.testing.assert_array_equal(xjax.grad(lambda x, f=f: f(x).sum())(X), np.full(4, 2))
        assert "annotate" not in xjax.jit(lambda x, f=f: f(x) + 1).lower(X).as_text()
    assert_refused(lambda: xjax.lax.with_sharding_constraint(X, there), NotImplementedError, ["device_put"])


def test_the_derivative_of_a_move_goes_back():
    there = SHARDINGS["one device"].with_memory_kind("pinned_host")
    value, back = xjax.vjp(lambda x: xjax.device_put(x, there), jnp.asarray(X))
    assert memory_of(value) == "pinned_host"
    assert memory_of(back(value)[0]) == "device"


# -- inside of programs for GPUs -----------------------------------------------------------------------------------

def _on_host(lib, spec=None):
    devices = lib.devices()
    if spec is None:
        return lib.sharding.SingleDeviceSharding(devices[0], memory_kind="pinned_host")
    return lib.sharding.NamedSharding(lib.sharding.Mesh(np.array(devices[:2]), ("x",)), lib.sharding.PartitionSpec(
        *spec), memory_kind="pinned_host")


def _there_and_back(lib, there):
    return lambda x: lib.device_put(lib.device_put(x * 2, there), there.with_memory_kind("device")) + 1


MOVES = {
    "a device": lambda lib: _there_and_back(lib, _on_host(lib)),
    "a mesh": lambda lib: _there_and_back(lib, _on_host(lib, ("x",))),
    "spaces": lambda lib: lambda x: lib.device_put(lib.device_put(x * 2, lib.memory.Space.Host),
                                                   lib.memory.Space.Device) + 1,
    "a result": lambda lib: lambda x: (lib.device_put(x * 2, lib.memory.Space.Host), x),
    "a result of a function": lambda lib: lib.jit(lambda x: lib.device_put(x * 2, lib.memory.Space.Host)),
    "mapped": lambda lib: lib.vmap(lambda x: lib.device_put(x * 2, lib.memory.Space.Host)),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_in_programs_for_gpus_as_in_jax(name):
    def placed(lib):
        text = lib.jit(MOVES[name](lib)).trace(X).lower(lowering_platforms=("cuda",)).as_text()
        kinds = re.findall(r'(\w+ = )?\w*annotate_device_placement.*has_side_effect = true.*_placement = "(\w+)"', text)
        results = re.search(r"@main\(.*", text)[0].split("->")[1]
        return kinds, re.findall(r'memory_kind = "(\w+)"', results.replace('"device"', "")), "sdy.sharding_con" in text

    ours, theirs = placed(xjax), placed(real_jax())
    assert ours[:2] == theirs[:2] and ours[0]
    assert ours[2] == (name == "a mesh")


def test_spaces_outside_of_programs():
    space = xjax.memory.Space
    there = xjax.device_put(X, space.Host)
    assert memory_of(there) == "pinned_host" and memory_of(xjax.device_put(there, space.Device)) == "device"
    np.testing.assert_array_equal(xjax.grad(lambda x: xjax.device_put(x, space.Host).sum())(X), np.ones(4))
    assert repr(space.Host) == repr(real_jax().memory.Space.Host)
    assert_refused(lambda: xjax.device_put(X, space.Any), ValueError, ["Space.Any", "Space.Host"])
