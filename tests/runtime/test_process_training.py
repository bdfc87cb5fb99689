"""Processes of two devices each: training steps give the numbers of one process; donated arrays are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.jobs import HEADER, JOIN, assert_all_ended_well, run_job

# Thirty steps in each of several forms; process 0 prints the losses and the final parameters.
TRAIN = """
import json
import xjax.numpy as jnp
from xjax import lax
from xjax.experimental.multihost_utils import process_allgather
from xjax.sharding import NamedSharding, PartitionSpec as P

mesh, rng = xjax.make_mesh((xjax.device_count(),), ("i",)), np.random.default_rng(0)
x, y = (rng.normal(size=(64, k)).astype(np.float32)[64 * rank // count:64 * (rank + 1) // count] for k in (5, 3))
weights = {"w": rng.normal(size=(5, 16)), "b": np.zeros(16), "v": 0.3 * rng.normal(size=(16, 3))}
weights = {name: w.astype(np.float32) for name, w in weights.items()}
by_columns = {"w": P(None, "i"), "b": P("i"), "v": P("i")}
data = [xjax.make_array_from_process_local_data(NamedSharding(mesh, P("i")), rows) for rows in (x, y)]
blocks = [rows.reshape(xjax.local_device_count(), -1, rows.shape[1]) for rows in (x, y)]

def put(specs):
    return {name: xjax.device_put(w, NamedSharding(mesh, specs[name])) for name, w in weights.items()}

def loss(p, x, y):
    return ((jnp.tanh(x @ p["w"] + p["b"]) @ p["v"] - y) ** 2).mean()

def mean_loss(p, x, y):
    return lax.pmean(loss(p, x, y), "i")

def step(p, x, y, loss=loss):
    value, g = xjax.value_and_grad(loss)(p, x, y)
    return value, xjax.tree.map(lambda p, g: p - 0.1 * g, p, g)

def step_of_rows(p, x, y):
    value, g = lax.pmean(xjax.value_and_grad(loss)(p, x, y), "i")
    return value, xjax.tree.map(lambda p, g: p - 0.1 * g, p, g)

def step_of_columns(p, x, y):
    '''Each device has all rows and some columns of the weights.'''
    x, y = (lax.all_gather(rows, "i", tiled=True) for rows in (x, y))
    hidden = lambda p: lax.psum(jnp.tanh(x @ p["w"] + p["b"]) @ p["v"], "i")
    value, g = xjax.value_and_grad(lambda p: lax.pmean(((hidden(p) - y) ** 2).mean(), "i"))(p)
    return value, xjax.tree.map(lambda p, g: p - 0.1 * g, p, g)

def region(f, specs):
    return xjax.shard_map(f, mesh=mesh, in_specs=(specs, P("i"), P("i")), out_specs=(P(), specs))

whole = dict.fromkeys(weights, P())
copies = {name: np.stack([w] * xjax.local_device_count()) for name, w in weights.items()}
WAYS = {
    "jit": (xjax.jit(step, donate_argnums=0), put(whole), data),
    "jit, weights by columns": (xjax.jit(step, donate_argnums=0), put(by_columns), data),
    "shard_map": (xjax.jit(region(lambda *a: step(*a, loss=mean_loss), whole), donate_argnums=0), put(whole), data),
    "shard_map, weights by columns": (xjax.jit(region(step_of_columns, by_columns)), put(by_columns), data),
    "pmap": (xjax.pmap(step_of_rows, axis_name="i", donate_argnums=0), copies, blocks),
}
found = {}
for name, (f, p, batch) in WAYS.items():
    losses = []
    for _ in range(30):
        value, p = f(p, *batch)
        losses.append(value)
    first = (lambda v: v[0]) if name == "pmap" else (lambda v: process_allgather(v, tiled=True))
    found[name] = [np.asarray(first(v)).tolist() for v in [*losses, p["w"], p["b"], p["v"]]]
if rank == 0:
    print("FOUND " + json.dumps(found))
"""


def trained(count, tmp_path, header=JOIN):
    tmp_path.mkdir()
    job = run_job(TRAIN, count, header=header, tmp_path=tmp_path)
    assert_all_ended_well(job)
    line, = (text for text in job[0].output.splitlines() if text.startswith("FOUND "))
    return json.loads(line.removeprefix("FOUND "))


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_training_steps_give_the_numbers_of_one_process(count, tmp_path):
    many = trained(count, tmp_path / "many")
    one = trained(1, tmp_path / "one", f'{HEADER}\nxjax.config.update("jax_num_cpu_devices", {2 * count})')
    assert len(many) == 5 and many.keys() == one.keys()
    for name in many:
        assert many[name][0] > 1.5 * many[name][29]               # it learns
        for k, (ours, wanted, first) in enumerate(zip(many[name], one[name], one["jit"], strict=True)):
            np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5, err_msg=f"{name}, {k}")
            np.testing.assert_allclose(ours, first, rtol=1e-5, atol=1e-5, err_msg=f"{name} and jit, {k}")


DONATED = """
import xjax.numpy as jnp
from xjax.experimental import multihost_utils
from xjax.sharding import NamedSharding, PartitionSpec as P
mesh = xjax.make_mesh((2 * count,), ("x",))
rows, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
local = np.arange(8, dtype=np.float32).reshape(2, 4) + 100 * rank
made = lambda: xjax.make_array_from_process_local_data(rows, local)
double, pair = (lambda x: x * 2), (lambda x, y: (x * 2, y + 1))
donating, plain, keyword = xjax.jit(double, donate_argnums=0), xjax.jit(double), xjax.jit(double, donate_argnames="x")
region = xjax.shard_map(double, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
by_shards, compiled = xjax.jit(region, donate_argnums=0), donating.lower(made()).compile()
mapped, plainly = (xjax.pmap(lambda x: x * 2 - xjax.lax.psum(x * 0, "i"), "i", **options)
                   for options in ({"donate_argnums": 0}, {}))
total = xjax.jit(jnp.sum)

def refused(name, call, text):
    print(name, flush=True)             # the last one is the use that ended the process
    try:
        call()
    except RuntimeError as error:
        assert text in str(error) and "fix:" in str(error) and len(str(error).splitlines()) <= 6, error
    else:
        raise AssertionError("not refused")

USES = {
    "donated again": donating, "by name": lambda x: keyword(x=x), "compiled": compiled, "shard_map": by_shards,
    "jit": plain, "+": lambda x: x + 1, "sum": lambda x: x.sum(), "index": lambda x: x[0],
    "region": region, "shards": lambda x: x.addressable_shards, "block": lambda x: x.block_until_ready(),
    "put": lambda x: xjax.device_put(x, whole), "gather": lambda x: multihost_utils.process_allgather(x, tiled=True),
    "to the host": lambda x: multihost_utils.global_array_to_host_local_array(x, mesh, P("x"))[0] + 1,
    "gradient": xjax.grad(lambda x: plain(x).sum()), "two": lambda x: xjax.jit(pair)(x, np.float32(1)),
    "captured": lambda x: xjax.jit(lambda y: x + y)(made()),
}
ENDS = {"jit": donating, "by name": lambda x: keyword(x=x), "compiled": compiled, "shard_map": by_shards,
        "delete": lambda x: x.delete(), "a part donated": lambda x: donating(x.addressable_data(1))}
for lost, lose in ENDS.items():
    for name, use in USES.items():
        x = made()
        lose(x)
        assert x.is_deleted(), lost
        refused(f"{lost}: {name}", lambda: use(x), "has been deleted")
x = made()
for name, f in {"first": xjax.jit(pair, donate_argnums=0), "both": xjax.jit(pair, donate_argnums=(0, 1))}.items():
    refused(f"twice: {name}", lambda: f(x, x), "passed a second time")
assert float(total(x)) == sum(np.arange(8).sum() + 800 * r for r in range(count))       # nothing was donated
y = donating(x)
for _ in range(20):
    y = donating(y)
assert np.array_equal(y.addressable_data(1), local[1:] * 2.0 ** 21)

# -- pmap over the devices of all processes: its arrays are those of one process
USES = {"donated again": mapped, "pmap": plainly, "jit": plain, "+": lambda x: x + 1, "print": np.asarray,
        "index": lambda x: x[0], "gather": multihost_utils.process_allgather,
        "to all": lambda x: multihost_utils.host_local_array_to_global_array(x, mesh, P("x"))}
for lost, lose in {"pmap": mapped, "delete": lambda x: x.delete(), "jit": donating}.items():
    for name, use in USES.items():
        x = plainly(local)
        lose(x)
        assert x.is_deleted(), lost
        refused(f"pmap, {lost}: {name}", lambda: use(x), "has been deleted")
x = plainly(local)
for name, numbers in (("first", 0), ("both", (0, 1))):
    refused(f"pmap, twice: {name}", lambda: xjax.pmap(pair, donate_argnums=numbers)(x, x), "passed a second time")
assert np.array_equal(mapped(x), local * 4) and x.is_deleted()

# -- local and global arrays that share their memory
for first in (True, False):
    x = plainly(local)
    for convert in (multihost_utils.host_local_array_to_global_array, multihost_utils.global_array_to_host_local_array):
        y = convert(x, mesh, P("x"))
        lost, other = (x, y) if first else (y, x)
        donating(lost)
        refused(f"{convert.__name__}, {first}", lambda: other + 1, "has been deleted")
        x = made()
print("done")
"""


def test_donated_arrays_are_refused_in_each_process(tmp_path):
    job = run_job(DONATED, tmp_path=tmp_path)
    assert_all_ended_well(job)
    assert all(process.output.endswith("done\n") for process in job)
