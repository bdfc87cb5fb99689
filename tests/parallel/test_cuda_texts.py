"""Collectives as texts for CUDA are JAX's; the check needs no GPUs.

The test compares the operations in their order: attributes, groups of devices, reducers, types. JAX writes channel 1
for all collectives; here each has a channel of its own.
"""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import xjax
from tests.oracle import real_jax
from xjax.runtime.devices import in_flight
from xjax.runtime.programs.executable import listeners_of
from xjax.runtime.programs.lowering import ModuleText

jax = real_jax()
X = np.arange(32, dtype=np.float32).reshape(4, 8)
BOTH = ("a", "b")

# Functions of a lax namespace, over a mesh of 2 x 2 devices with the axes a and b; each device has a [2, 4] block of X.
PROGRAMS = {
    "psum": lambda lax: lambda x: lax.psum(x, "a"),
    "psum over both axes": lambda lax: lambda x: lax.psum(x, BOTH),
    "psum of a tree": lambda lax: lambda x: sum(lax.psum((x, x[0]), "b")),
    "psum of booleans": lambda lax: lambda x: lax.psum(x > 0, "a"),
    "pmean, pmax, pmin": lambda lax: lambda x: lax.pmean(x, "b") + lax.pmax(x, "a") - lax.pmin(x, BOTH),
    "all_gather": lambda lax: lambda x: lax.all_gather(x, "a"),
    "all_gather, tiled, over both": lambda lax: lambda x: lax.all_gather(x, BOTH, axis=1, tiled=True),
    "reduce_scatter": lambda lax: lambda x: lax.psum_scatter(x, "b")[None],
    "reduce_scatter, tiled": lambda lax: lambda x: lax.psum_scatter(x, "b", scatter_dimension=1, tiled=True),
    "all_to_all": lambda lax: lambda x: lax.all_to_all(x, "a", 0, 1),
    "all_to_all, tiled": lambda lax: lambda x: lax.all_to_all(x, "b", 1, 0, tiled=True),
    "ppermute": lambda lax: lambda x: lax.ppermute(x, "a", [(0, 1), (1, 0)]),
    "ppermute, not all": lambda lax: lambda x: lax.ppermute(x, BOTH, [(0, 3), (2, 1)]),
    "axis_index": lambda lax: lambda x: x + lax.axis_index("b"),
    "in a loop": lambda lax: lambda x: lax.fori_loop(0, 3, lambda i, c: lax.psum(c, "a") * 0.5, x),
}

COLLECTIVE = re.compile(r"stablehlo\.(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute|partition_id|"
                        r"collective_broadcast)\b")
ATTRIBUTE = re.compile(r"(all_gather_dim|scatter_dimension|split_dimension|concat_dimension|split_count) = (\d+)|"
                       r"(source_target_pairs|replica_groups) = dense<(.*?)> :|(use_global_device_ids)|"
                       r"handle = \d+, (type = \d+)")
MESH_AXES = re.compile(r"replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @\w+, axes = \[(.*?)\]>")
REDUCER = re.compile(r"stablehlo\.(add|maximum|minimum|and|or)\b")
TYPES = re.compile(r" : \((tensor<\w+>)\) -> \(?(tensor<\w+>)")


def groups_over(mesh):
    """The groups of devices for names of axes, as JAX 0.12 writes them."""
    def groups(match):
        names = re.findall(r'name = "(\w+)"', match[1])
        devices = np.arange(np.prod([*mesh.values()])).reshape([*mesh.values()])
        order = [i for i, name in enumerate(mesh) if name not in names] + [[*mesh].index(name) for name in names]
        size = np.prod([mesh[name] for name in names])
        return f"replica_groups = dense<{devices.transpose(order).reshape(-1, size).tolist()}> :"

    return groups


def collectives(text, **mesh):
    """The name, attributes, reducer and types of each collective."""
    text = MESH_AXES.sub(groups_over(mesh), text)
    operations, starts = [], [*COLLECTIVE.finditer(text)]
    for match, after in zip(starts, [*starts[1:], None], strict=True):
        part = text[match.start():after.start() if after else None]
        types = TYPES.search(part)
        if match[1] == "partition_id":
            operations.append("partition_id")
            continue
        part = part[:types.end()]
        reducer = REDUCER.search(part)
        attributes = sorted("".join(filter(None, groups)).replace(" ", "") for groups in ATTRIBUTE.findall(part))
        operations.append((match[1], attributes, reducer and reducer[1], types.groups()))
    return operations


def text_for_cuda(mapped):
    return mapped.trace(X).lower(lowering_platforms=("cuda",)).as_text()


def in_mesh(lib, program):
    mesh = lib.sharding.Mesh(np.array(lib.devices("cpu")[:4]).reshape(2, 2), BOTH)
    spec = lib.sharding.PartitionSpec(*BOTH)
    return lib.jit(lib.shard_map(program(lib.lax), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))


def assert_channels_differ(text):
    channels = re.findall(r"channel_handle<handle = (\d+)", text)
    assert len({*channels}) == len(channels) and "0" not in channels


@pytest.mark.parametrize("name", PROGRAMS)
def test_shard_map(name):
    ours, want = (text_for_cuda(in_mesh(lib, PROGRAMS[name])) for lib in (xjax, jax))
    assert collectives(ours) == collectives(want, a=2, b=2) != []
    assert_channels_differ(ours)


def test_pmap():
    def rows(x):
        return x.reshape(4, 2)

    def all_of_them(lax):
        return lambda x: (lax.psum(x, "i"), lax.all_gather(x, "i"), lax.ppermute(x, "i", [(0, 1), (1, 2)]),
                          lax.psum_scatter(rows(x), "i"), lax.all_to_all(rows(x), "i", 0, 1))

    ours, want = (text_for_cuda(lib.jit(lib.pmap(all_of_them(lib.lax), axis_name="i", devices=lib.devices("cpu")[:4])))
                  for lib in (xjax, jax))
    assert collectives(ours) == collectives(want, i=4) != []
    assert_channels_differ(ours)


@pytest.mark.parametrize("platform, bounded", [("cpu", True), ("gpu", False)])
def test_the_bound_on_programs_in_flight_is_for_cpus(platform, bounded):
    closed = xjax.make_jaxpr(lambda x: x + 1)(X)
    device = SimpleNamespace(platform=platform, client=xjax.devices("cpu")[0].client)
    listeners = listeners_of(closed, ModuleText("", ()), device, collectives=True)
    assert listeners == ([in_flight.of_client(device.client).push] if bounded else [])
